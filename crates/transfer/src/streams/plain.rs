//! A data stream without encryption, for a path that belongs to its user.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use howdah_wire::Doing;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::end::spent;
use crate::streams::limiter::{Limiter, write_all};
use crate::streams::stream::{CHUNK_BYTES, Stream, StreamError};

/// Plaintext over TCP. Payload carries checksums of its own (see `howdah_wire::piece`).
pub struct PlainStream {
    socket: TcpStream,
    limiter: Option<Arc<Limiter>>,
    outgoing: Vec<u8>,
    gathered: usize,
    incoming: Vec<u8>,
    next: usize,
    filled: usize,
}

impl PlainStream {
    /// Takes over a connected socket in blocking mode.
    pub fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            limiter: None,
            outgoing: Vec::new(),
            gathered: 0,
            incoming: Vec::new(),
            next: 0,
            filled: 0,
        }
    }
}

impl Stream for PlainStream {
    fn room(&mut self) -> Result<&mut [u8], StreamError> {
        if self.outgoing.is_empty() {
            self.outgoing = vec![0; CHUNK_BYTES];
        }
        if self.gathered == self.outgoing.len() {
            self.flush()?;
        }
        Ok(&mut self.outgoing[self.gathered..])
    }

    fn advance(&mut self, len: usize) {
        assert!(
            len <= self.outgoing.len() - self.gathered,
            "advance past the room lent"
        );
        self.gathered += len;
    }

    fn boundary(&mut self) -> Result<(), StreamError> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        let gathered = std::mem::take(&mut self.gathered);
        let gathered = &self.outgoing[..gathered];
        Ok(write_all(&self.socket, self.limiter.as_deref(), gathered)?)
    }

    fn send(&mut self, payload: &[u8]) -> Result<(), StreamError> {
        self.flush()?;
        Ok(write_all(&self.socket, self.limiter.as_deref(), payload)?)
    }

    fn finish(&mut self) -> Result<(), StreamError> {
        self.flush()?;
        Ok(self.socket.shutdown(Shutdown::Write)?)
    }

    fn data(&mut self, max: usize) -> Result<&[u8], StreamError> {
        if self.incoming.is_empty() {
            self.incoming = vec![0; CHUNK_BYTES];
        }
        if self.next == self.filled && max > 0 {
            self.next = 0;
            let _socket = spent::doing(Doing::Socket);
            self.filled = loop {
                match self.socket.read(&mut self.incoming) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
        }
        let end = self.filled.min(self.next.saturating_add(max));
        let start = std::mem::replace(&mut self.next, end);
        Ok(&self.incoming[start..end])
    }

    fn discard(&mut self, max: usize) -> Result<usize, StreamError> {
        if self.next < self.filled || self.incoming.is_empty() || max == 0 {
            return Ok(self.data(max)?.len());
        }
        let len = max.min(self.incoming.len());
        let _socket = spent::doing(Doing::Socket);
        loop {
            // tcp(7): MSG_TRUNC has the kernel drop the bytes instead of copying them.
            match recv(&self.socket, &mut self.incoming[..len], RecvFlags::TRUNC) {
                Err(Errno::INTR) => {}
                other => return Ok(other.map_err(io::Error::from)?.1),
            }
        }
    }

    fn limited_by(&mut self, limiter: Arc<Limiter>) {
        self.limiter = Some(limiter);
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn encrypted(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (PlainStream, PlainStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (
            PlainStream::new(near),
            PlainStream::new(listener.accept().unwrap().0),
        )
    }

    #[test]
    fn gathered_and_lent_bytes_arrive_in_order() {
        let (mut near, mut far) = pair();
        let lent: Vec<u8> = (0..3 * CHUNK_BYTES).map(|i| (i % 251) as u8).collect();
        let expected = [b"head".as_slice(), &lent, b"tail"].concat();
        let sender = std::thread::spawn(move || {
            near.put(b"head").unwrap();
            near.boundary().unwrap();
            near.send(&lent).unwrap();
            near.put(b"tail").unwrap();
            near.finish().unwrap();
        });
        let mut got = Vec::new();
        loop {
            let data = far.data(100_000).unwrap();
            if data.is_empty() {
                break;
            }
            assert!(data.len() <= 100_000);
            got.extend_from_slice(data);
        }
        sender.join().unwrap();
        assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
    }

    #[test]
    fn what_is_thrown_away_is_counted_and_what_follows_is_there() {
        let (mut near, mut far) = pair();
        let sender = std::thread::spawn(move || {
            near.put(b"head").unwrap();
            near.send(&vec![7; 3 * CHUNK_BYTES]).unwrap();
            near.put(b"tail").unwrap();
            near.finish().unwrap();
        });
        far.take(&mut [0; 4]).unwrap();
        let mut left = 3 * CHUNK_BYTES;
        while left > 0 {
            let count = far.discard(left).unwrap();
            assert!((1..=left).contains(&count));
            left -= count;
        }
        let mut tail = [0; 4];
        far.take(&mut tail).unwrap();
        assert_eq!(&tail, b"tail");
        assert_eq!(far.discard(1).unwrap(), 0);
        sender.join().unwrap();
    }

    #[test]
    fn an_early_end_is_truncation() {
        let (mut near, mut far) = pair();
        near.put(b"abc").unwrap();
        near.finish().unwrap();
        assert!(matches!(far.take(&mut [0; 4]), Err(StreamError::Truncated)));
    }
}
