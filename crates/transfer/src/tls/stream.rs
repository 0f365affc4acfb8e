//! A data stream of TLS 1.3 records.

use std::io::{self, IoSlice, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use howdah_wire::Doing;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv};

use crate::end::spent;
use crate::streams::limiter::{Limiter, write_all};
use crate::streams::stream::{Stream, StreamError};

use super::keys::{Awaited, Direction, NONCE_BYTES, OPENING_BYTES};
use super::record::{
    Content, HEADER_BYTES, MAX_BODY_BYTES, MAX_PAYLOAD_BYTES, Refused, SLOT_BYTES, TRAILER_BYTES,
    record_bytes,
};

/// Records gathered before they are sent, and asked of the kernel at once. Measured on loopback:
/// 16 cost 8 % more processor time, 64 no less.
const BATCH_RECORDS: usize = 32;
/// Records sealed with one key. RFC 8446 §5.5 allows 2^24.5 full ones for AES-GCM.
const RECORDS_PER_KEY: u64 = 1 << 23;
/// KeyUpdate (RFC 8446 §4.6.3): handshake type, length, request.
const KEY_UPDATE: [u8; 4] = [24, 0, 0, 1];
const KEY_UPDATE_BYTES: usize = KEY_UPDATE.len() + 1;
const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLOSE_NOTIFY: u8 = 0;
const USER_CANCELED: u8 = 90;

type AlertRecord = [u8; HEADER_BYTES + 2 + TRAILER_BYTES];

/// Most parts lent at once: records may be short, a vectored write takes no more than 1024.
const MAX_PARTS: usize = 2 * BATCH_RECORDS;

/// One end of an encrypted data stream.
pub struct TlsStream {
    socket: TcpStream,
    limiter: Option<Arc<Limiter>>,
    out: Outgoing,
    incoming: Incoming,
}

/// Records on their way out: `unsent..sealed` are whole ones, then comes the slot being filled.
struct Outgoing {
    direction: Direction,
    records_per_key: u64,
    update_asked: bool,
    buffer: Vec<u8>,
    unsent: usize,
    sealed: usize,
    payload: usize,
}

/// Records on their way in: `payload` is decrypted, `next..filled` are not yet.
struct Incoming {
    receiving: Receiving,
    buffer: Vec<u8>,
    payload: std::ops::Range<usize>,
    next: usize,
    filled: usize,
    finished: bool,
}

/// The keys of what comes in.
enum Receiving {
    Ready(Direction),
    Awaited(Awaited),
}

impl TlsStream {
    /// A stream under keys that both ends have.
    #[doc(hidden)]
    pub fn new(socket: TcpStream, sending: Direction, receiving: Direction) -> Self {
        Self::with(socket, sending, Receiving::Ready(receiving))
    }

    /// A stream that this end has dialled. The other end's first bytes are its nonce.
    pub(super) fn dialled(socket: TcpStream, sending: Direction, receiving: Awaited) -> Self {
        Self::with(socket, sending, Receiving::Awaited(receiving))
    }

    fn with(socket: TcpStream, sending: Direction, receiving: Receiving) -> Self {
        Self {
            socket,
            limiter: None,
            out: Outgoing {
                direction: sending,
                records_per_key: RECORDS_PER_KEY,
                update_asked: false,
                buffer: Vec::new(),
                unsent: 0,
                sealed: 0,
                payload: 0,
            },
            incoming: Incoming {
                receiving,
                buffer: Vec::new(),
                payload: 0..0,
                next: 0,
                filled: 0,
                finished: false,
            },
        }
    }

    /// Whether the other end of a connection that this end has dialled has shown that it has the key; `None` while too little
    /// has come to tell. What has come stays there.
    #[must_use]
    pub fn is_answered(&self) -> Option<bool> {
        let Receiving::Awaited(awaited) = &self.incoming.receiving else {
            return Some(true);
        };
        let mut answer = [0; OPENING_BYTES];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(&self.socket, &mut answer, flags) {
            Ok((_, OPENING_BYTES)) => Some(awaited.proves(&answer)),
            Ok((_, 1..)) | Err(Errno::AGAIN) => None,
            Ok(_) | Err(_) => Some(false),
        }
    }

    /// Changes the sending key after this many records.
    #[cfg(test)]
    pub(super) fn set_records_per_key(&mut self, records: u64) {
        self.out.records_per_key = records;
    }

    /// Seals the slot being filled, if anything is in it.
    fn seal(&mut self) -> Result<(), StreamError> {
        if self.out.payload == 0 {
            return Ok(());
        }
        if self.out.update_asked || self.out.direction.key.records() >= self.out.records_per_key {
            self.update_key()?;
        }
        let out = &mut self.out;
        let end = out.sealed + HEADER_BYTES + out.payload + TRAILER_BYTES;
        let record = &mut out.buffer[out.sealed..end];
        out.direction.key.seal(Content::Application, record)?;
        out.sealed = end;
        out.payload = 0;
        Ok(())
    }

    /// Sends the records that are whole.
    fn send_sealed(&mut self) -> Result<(), StreamError> {
        let out = &mut self.out;
        let sealed = &out.buffer[out.unsent..out.sealed];
        write_all(&self.socket, self.limiter.as_deref(), sealed)?;
        out.unsent = out.sealed;
        if out.payload == 0 {
            out.unsent = 0;
            out.sealed = 0;
        }
        Ok(())
    }

    /// Sends so many bytes that carry nothing: the padding of empty records (RFC 8446 §5.4).
    ///
    /// # Errors
    /// [`StreamError::Io`] when the socket fails.
    pub fn pad(&mut self, bytes: usize) -> Result<(), StreamError> {
        self.flush()?;
        let mut left = bytes;
        while left > 0 {
            let filled = left.min(MAX_PAYLOAD_BYTES);
            left -= filled;
            let mut record = vec![0; HEADER_BYTES + filled + TRAILER_BYTES];
            let direction = &mut self.out.direction;
            direction.key.seal_padded(&mut record, filled)?;
            write_all(&self.socket, self.limiter.as_deref(), &record)?;
        }
        Ok(())
    }

    /// Says that the next record comes under the next key, and takes that key.
    fn update_key(&mut self) -> Result<(), StreamError> {
        self.send_sealed()?;
        let mut record = [0; HEADER_BYTES + KEY_UPDATE_BYTES + TRAILER_BYTES];
        record[HEADER_BYTES..][..KEY_UPDATE.len()].copy_from_slice(&KEY_UPDATE);
        let direction = &mut self.out.direction;
        direction.key.seal(Content::Handshake, &mut record)?;
        write_all(&self.socket, self.limiter.as_deref(), &record)?;
        self.out.direction = self.out.direction.next()?;
        self.out.update_asked = false;
        Ok(())
    }

    fn alert(&mut self, level: u8, description: u8) -> Result<AlertRecord, StreamError> {
        let mut record = AlertRecord::default();
        record[HEADER_BYTES..][..2].copy_from_slice(&[level, description]);
        self.out.direction.key.seal(Content::Alert, &mut record)?;
        Ok(record)
    }

    /// Tells the other end why its record was refused, unless that would have to wait; it hardly
    /// matters if it fails.
    fn refuse(&mut self, why: Refused) -> StreamError {
        if self.out.unsent == self.out.sealed
            && let Ok(record) = self.alert(FATAL, why as u8)
        {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = rustix::net::send(&self.socket, &record, flags);
        }
        why.explained()
    }

    /// Decrypts the next whole record, if there is one; whether there was.
    fn open_next(&mut self) -> Result<bool, StreamError> {
        let incoming = &mut self.incoming;
        let waiting = &mut incoming.buffer[incoming.next..incoming.filled];
        let direction = match &mut incoming.receiving {
            Receiving::Ready(direction) => direction,
            Receiving::Awaited(awaited) => {
                let Some(nonce) = waiting.first_chunk() else {
                    return Ok(false);
                };
                incoming.receiving = Receiving::Ready(awaited.with(nonce)?);
                incoming.next += NONCE_BYTES;
                return self.open_next();
            }
        };
        let length = match record_bytes(waiting) {
            None => return Ok(false),
            Some(Err(refused)) => return Err(self.refuse(refused)),
            Some(Ok(length)) => length,
        };
        let Some(record) = waiting.get_mut(..length) else {
            return Ok(false);
        };
        let (content, bytes) = match direction.key.open(record) {
            Ok(opened) => opened,
            Err(refused) => return Err(self.refuse(refused)),
        };
        let start = incoming.next + HEADER_BYTES;
        incoming.next += length;
        match content {
            Content::Application => incoming.payload = start..start + bytes,
            Content::Alert => self.take_alert(start, bytes)?,
            Content::Handshake => self.take_key_update(start, bytes)?,
        }
        Ok(true)
    }

    fn take_alert(&mut self, start: usize, bytes: usize) -> Result<(), StreamError> {
        let &[_, description] = &self.incoming.buffer[start..start + bytes] else {
            return Err(self.refuse(Refused::Malformed));
        };
        match description {
            CLOSE_NOTIFY => {
                self.incoming.finished = true;
                Ok(())
            }
            USER_CANCELED => Ok(()),
            20 => Err(StreamError::Broken(
                "the other end got a record that was changed on the way",
            )),
            _ => Err(StreamError::Broken("the other end gave up with an alert")),
        }
    }

    fn take_key_update(&mut self, start: usize, bytes: usize) -> Result<(), StreamError> {
        let message = &self.incoming.buffer[start..start + bytes];
        let Some((&KEY_UPDATE, &[request @ (0 | 1)])) = message.split_first_chunk() else {
            return Err(self.refuse(Refused::Unexpected));
        };
        self.out.update_asked |= request == 1;
        if let Receiving::Ready(direction) = &mut self.incoming.receiving {
            *direction = direction.next()?;
        }
        Ok(())
    }

    /// Receives more, behind a part of a record that is there already.
    fn receive(&mut self) -> Result<(), StreamError> {
        let incoming = &mut self.incoming;
        if incoming.buffer.is_empty() {
            incoming.buffer = vec![0; BATCH_RECORDS * SLOT_BYTES + HEADER_BYTES + MAX_BODY_BYTES];
        }
        incoming
            .buffer
            .copy_within(incoming.next..incoming.filled, 0);
        incoming.filled -= incoming.next;
        incoming.next = 0;
        let _socket = spent::doing(Doing::Socket);
        loop {
            match self.socket.read(&mut incoming.buffer[incoming.filled..]) {
                Ok(0) => return Err(StreamError::Truncated),
                Ok(got) => {
                    incoming.filled += got;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Stream for TlsStream {
    fn room(&mut self) -> Result<&mut [u8], StreamError> {
        if self.out.buffer.is_empty() {
            self.out.buffer = vec![0; BATCH_RECORDS * SLOT_BYTES];
        }
        if self.out.payload == MAX_PAYLOAD_BYTES {
            self.seal()?;
        }
        if self.out.payload == 0 && self.out.sealed + SLOT_BYTES > self.out.buffer.len() {
            self.send_sealed()?;
        }
        let slot = &mut self.out.buffer[self.out.sealed + HEADER_BYTES..];
        Ok(&mut slot[self.out.payload..MAX_PAYLOAD_BYTES])
    }

    fn advance(&mut self, len: usize) {
        assert!(
            len <= MAX_PAYLOAD_BYTES - self.out.payload,
            "advance past the room lent"
        );
        self.out.payload += len;
    }

    fn boundary(&mut self) -> Result<(), StreamError> {
        self.seal()
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        self.seal()?;
        self.send_sealed()
    }

    /// Copies into records: the copy is still in the cache when it is sealed, and sealing has to
    /// write somewhere.
    fn send(&mut self, payload: &[u8]) -> Result<(), StreamError> {
        self.put(payload)?;
        self.flush()
    }

    fn finish(&mut self) -> Result<(), StreamError> {
        self.flush()?;
        let record = self.alert(WARNING, CLOSE_NOTIFY)?;
        write_all(&self.socket, self.limiter.as_deref(), &record)?;
        Ok(self.socket.shutdown(Shutdown::Write)?)
    }

    fn data(&mut self, max: usize) -> Result<&[u8], StreamError> {
        while self.incoming.payload.is_empty() && !self.incoming.finished && max > 0 {
            if !self.open_next()? {
                self.receive()?;
            }
        }
        let payload = &mut self.incoming.payload;
        let start = payload.start;
        payload.start = payload.end.min(start.saturating_add(max));
        Ok(&self.incoming.buffer[start..payload.start])
    }

    fn parts<'a>(
        &'a mut self,
        max: usize,
        parts: &mut Vec<IoSlice<'a>>,
    ) -> Result<(), StreamError> {
        let mut left = max - self.data(max)?.len();
        let mut end = self.incoming.payload.start;
        let mut ranges = Vec::with_capacity(MAX_PARTS);
        ranges.push(end - (max - left)..end);
        while self.incoming.payload.is_empty()
            && !self.incoming.finished
            && left > 0
            && ranges.len() < MAX_PARTS
            && self.open_next()?
        {
            let payload = &mut self.incoming.payload;
            end = payload.end.min(payload.start.saturating_add(left));
            left -= end - payload.start;
            ranges.push(payload.start..end);
            payload.start = end;
        }
        let buffer = &self.incoming.buffer;
        let filled = ranges.into_iter().filter(|range| !range.is_empty());
        parts.extend(filled.map(|range| IoSlice::new(&buffer[range])));
        Ok(())
    }

    fn limited_by(&mut self, limiter: Arc<Limiter>) {
        self.limiter = Some(limiter);
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn encrypted(&self) -> bool {
        true
    }
}
