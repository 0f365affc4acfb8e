//! The interface of a data stream: a buffer for plaintext that is sent, and plaintext that was received.
//!
//! Bytes are written and read in the stream's own buffers. So encryption costs one pass and no copy. A file is read
//! directly into [`Stream::room`], and the bytes in [`Stream::data`] are hashed and written to their file from there.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::streams::limiter::Limiter;

/// Payload that a stream gathers before it sends, and that it requests from the kernel when it receives, in bytes.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// Why a data stream cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The socket failed.
    #[error("data stream: {0}")]
    Io(#[from] io::Error),
    /// The peer closed the stream where the protocol does not end.
    #[error("data stream: the other end closed it in the middle")]
    Truncated,
    /// What arrived is not what the peer encrypted, or there are no keys.
    #[error("data stream: {0}")]
    Broken(&'static str),
}

/// One connected, authenticated data stream. One thread uses it, in one direction at a time.
///
/// A blocked call returns with an error when another thread shuts the socket down.
pub trait Stream: Send {
    /// Lends room for plaintext, at least one byte and at most [`CHUNK_BYTES`], contiguous.
    /// Sends what is gathered first if no room is left. The content of fresh room is unspecified.
    ///
    /// # Errors
    /// When sending fails.
    fn room(&mut self) -> Result<&mut [u8], StreamError>;

    /// Takes over the first `len` bytes of the room last lent.
    fn advance(&mut self, len: usize);

    /// Makes the next byte the first one of a record, so that the receiver finds long payload in
    /// whole records, aligned for hashing. Costs one record; sends nothing by itself.
    ///
    /// # Errors
    /// When sealing fails.
    fn boundary(&mut self) -> Result<(), StreamError>;

    /// Sends what is gathered.
    ///
    /// # Errors
    /// When sending fails.
    fn flush(&mut self) -> Result<(), StreamError>;

    /// Sends what is gathered, then `payload` straight from the caller's buffer.
    ///
    /// # Errors
    /// When sending fails.
    fn send(&mut self, payload: &[u8]) -> Result<(), StreamError>;

    /// Sends what is gathered and says that nothing follows (close_notify, FIN).
    ///
    /// # Errors
    /// When sending fails.
    fn finish(&mut self) -> Result<(), StreamError>;

    /// Takes verified plaintext: at least one byte and at most `max`, as much as is at hand and
    /// contiguous; waits for some if none is. Empty when the peer has finished.
    ///
    /// # Errors
    /// [`StreamError::Truncated`] when the stream ends without the peer saying so (encrypted), and
    /// whatever the socket or the record layer reports.
    fn data(&mut self, max: usize) -> Result<&[u8], StreamError>;

    /// Takes verified plaintext like [`Self::data`], but all of it that is at hand, up to `max`,
    /// in as many parts as it lies in; `parts` gets nothing when the peer has finished.
    ///
    /// # Errors
    /// As [`Self::data`].
    fn parts<'a>(
        &'a mut self,
        max: usize,
        parts: &mut Vec<IoSlice<'a>>,
    ) -> Result<(), StreamError> {
        let data = self.data(max)?;
        if !data.is_empty() {
            parts.push(IoSlice::new(data));
        }
        Ok(())
    }

    /// Throws away up to `max` bytes of what comes, at least one; none when the peer has finished.
    ///
    /// # Errors
    /// As [`Self::data`].
    fn discard(&mut self, max: usize) -> Result<usize, StreamError> {
        Ok(self.data(max)?.len())
    }

    /// Has what is sent from now on wait for its turn.
    fn limited_by(&mut self, limiter: Arc<Limiter>);

    /// The socket, for its options and `TCP_INFO`.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Whether records are encrypted and authenticated, so that payload needs no checksum.
    fn encrypted(&self) -> bool;

    /// Gathers a copy of `bytes`, for headers.
    ///
    /// # Errors
    /// When sending fails.
    fn put(&mut self, mut bytes: &[u8]) -> Result<(), StreamError> {
        while !bytes.is_empty() {
            let room = self.room()?;
            let len = room.len().min(bytes.len());
            room[..len].copy_from_slice(&bytes[..len]);
            self.advance(len);
            bytes = &bytes[len..];
        }
        Ok(())
    }

    /// Takes exactly `out.len()` bytes of plaintext, for headers.
    ///
    /// # Errors
    /// [`StreamError::Truncated`] when the peer finished before that.
    fn take(&mut self, out: &mut [u8]) -> Result<(), StreamError> {
        let mut filled = 0;
        while filled < out.len() {
            let got = self.data(out.len() - filled)?;
            if got.is_empty() {
                return Err(StreamError::Truncated);
            }
            out[filled..filled + got.len()].copy_from_slice(got);
            filled += got.len();
        }
        Ok(())
    }
}
