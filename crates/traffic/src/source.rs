//! The near end: datagrams at a rate, as a sequence without end or as the pieces of an object.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::header::check_length;
use crate::socket::{self, MAX_BATCH_BYTES, MAX_SEGMENTS};
use crate::{Blast, Digest, Error, Header, Missing, Pace, Shape, Token, fill};

/// What a machine that stood still makes up for; what is older is not sent at all, or later.
const BEHIND: Duration = Duration::from_millis(20);
/// How long a wait looks away from the stop flag.
const GLANCE: Duration = Duration::from_millis(50);
/// The default; longer ones are lost where a tunnel on the way takes less than the interface.
const USUAL_DATAGRAM_BYTES: usize = 1472;

/// What a source has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SourceCounts {
    /// Datagrams that the rate and the time asked for.
    pub offered: u64,
    /// Datagrams that left this host.
    pub sent: u64,
    /// Payload of those, bytes.
    pub sent_bytes: u64,
}

/// Sends to one sink.
pub struct Source {
    to: SocketAddr,
    token: Token,
    datagram_bytes: usize,
    pace: Pace,
    stop: AtomicBool,
    offered: AtomicU64,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    sending: Mutex<Sending>,
}

struct Sending {
    socket: OwnedFd,
    batch: Vec<u8>,
    /// Whether the device takes many datagrams at once.
    together: bool,
    /// Of the sequence.
    next: u64,
    object: Option<Object>,
}

struct Object {
    number: u32,
    seed: u64,
    blast: Blast,
    digest: Digest,
}

impl Source {
    /// `rate_bps` of payload to `to`, in datagrams of this length or of what the way takes whole.
    ///
    /// # Errors
    /// When the length cannot be, or no socket.
    pub fn new(
        to: SocketAddr,
        token: Token,
        rate_bps: u64,
        datagram_bytes: Option<u64>,
    ) -> Result<Self, Error> {
        let socket = socket::connected(to)?;
        let most = socket::longest(&socket, to);
        let bytes = match datagram_bytes {
            Some(given) => check_length(given)?,
            None => most.min(USUAL_DATAGRAM_BYTES),
        };
        if bytes > most {
            return Err(Error::TooLong { bytes, to, most });
        }
        Ok(Self {
            to,
            token,
            datagram_bytes: bytes,
            pace: Pace::new(rate_bps, bytes),
            stop: AtomicBool::new(false),
            offered: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            sending: Mutex::new(Sending {
                socket,
                batch: vec![0; MAX_BATCH_BYTES],
                together: true,
                next: 0,
                object: None,
            }),
        })
    }

    /// Payload of a datagram, bytes.
    pub fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    /// Sends a datagram that only shows that the way is open.
    ///
    /// # Errors
    /// When the far host says that nobody is there, or this one that there is no way.
    pub fn knock(&self) -> Result<(), Error> {
        let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let Sending { socket, batch, .. } = &mut *sending;
        let knock = &mut batch[..Header::BYTES];
        Header {
            blast: Header::KNOCK,
            number: 0,
        }
        .put(&self.token, knock);
        socket::send(socket, knock, Header::BYTES).map_err(|source| self.failed(source))
    }

    /// Sends the sequence for so long; whether it came to the end.
    ///
    /// # Errors
    /// When sending fails for good.
    pub fn send(&self, time: Duration) -> Result<bool, Error> {
        let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let length = self.datagram_bytes;
        let token = self.token;
        let mut next = sending.next;
        let ended = self.paced(
            &mut sending,
            self.pace.within(time),
            Some(time),
            |datagram| {
                let blast = Header::STREAM;
                Header {
                    blast,
                    number: next,
                }
                .put(&token, datagram);
                next += 1;
                length
            },
        );
        sending.next = next;
        ended
    }

    /// Begins an object of so many bytes; the next [`Source::round`] sends all of it. Returns the bytes
    /// of it in a datagram.
    ///
    /// # Errors
    /// When it is empty or too large.
    pub fn begin(&self, number: u32, object_bytes: u64) -> Result<usize, Error> {
        let piece_bytes = self.datagram_bytes - Header::BYTES;
        let shape = Shape::new(object_bytes, piece_bytes)?;
        let (start, _) = self.token.split_at(8);
        let mut seed = u64::from(number);
        for byte in start {
            seed = seed.rotate_left(8) ^ u64::from(*byte);
        }
        let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        sending.object = Some(Object {
            number,
            seed,
            blast: Blast::new(shape),
            digest: Digest::default(),
        });
        Ok(piece_bytes)
    }

    /// Sends a round of the object, the first one or of what is missing; whether it came to the end.
    ///
    /// # Errors
    /// When no object has been begun, it has no such pieces, or sending fails for good.
    pub fn round(&self, missing: Option<Missing>) -> Result<bool, Error> {
        let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut object = sending.object.take().ok_or(Error::NoObject)?;
        if let Some(missing) = missing {
            object.blast.again(missing)?;
        }
        let left = object.blast.left();
        let token = self.token;
        let ended = self.paced(&mut sending, left, None, |datagram| {
            let Some(piece) = object.blast.next() else {
                return 0;
            };
            let blast = object.number;
            let number = piece.number;
            Header { blast, number }.put(&token, datagram);
            let end = Header::BYTES + piece.length;
            let content = &mut datagram[Header::BYTES..end];
            fill(object.seed, number, content);
            if piece.first_time {
                object.digest.add(number, content);
            }
            end
        });
        sending.object = Some(object);
        ended
    }

    /// Of the object, once its first round is over.
    pub fn digest(&self) -> Option<Digest> {
        let sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        sending.object.as_ref().map(|object| object.digest)
    }

    /// Ends what is being sent, and whatever would be.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// So far.
    pub fn counts(&self) -> SourceCounts {
        SourceCounts {
            offered: self.offered.load(Relaxed),
            sent: self.sent.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
        }
    }

    /// Sends `want` datagrams when they are due; `put` writes the next and returns its length. After a
    /// pause of the machine the schedule moves, and what is not sent when `time` is over is not sent. All of it is
    /// offered, but where it is stopped, only what was due until then.
    fn paced(
        &self,
        sending: &mut Sending,
        want: u64,
        time: Option<Duration>,
        mut put: impl FnMut(&mut [u8]) -> usize,
    ) -> Result<bool, Error> {
        self.offered.fetch_add(want, Relaxed);
        let begin = Instant::now();
        let mut origin = begin;
        let (together, behind) = (self.pace.together(), self.pace.within(BEHIND));
        let at_once = (MAX_BATCH_BYTES / self.datagram_bytes).min(MAX_SEGMENTS);
        let mut done = 0;
        while done < want {
            if self.stop.load(Relaxed) {
                let due = self.pace.due(begin.elapsed()).clamp(done, want);
                self.offered.fetch_sub(want - due, Relaxed);
                return Ok(false);
            }
            if time.is_some_and(|time| begin.elapsed() > time + BEHIND) {
                break;
            }
            let due = self.pace.due(origin.elapsed()).min(want);
            if due <= done {
                let wake = origin + self.pace.at((done + together).min(want) - 1);
                let wait = wake.saturating_duration_since(Instant::now());
                thread::sleep(wait.min(GLANCE));
                continue;
            }
            if let Some(latest) = due.checked_sub(behind.max(together))
                && latest > done
            {
                origin += self.pace.at(latest) - self.pace.at(done);
                continue;
            }
            let count = (due - done).min(at_once as u64);
            let mut length = 0;
            for _ in 0..count {
                length += put(&mut sending.batch[length..length + self.datagram_bytes]);
            }
            self.send_batch(sending, length, count)?;
            done += count;
        }
        Ok(!self.stop.load(Relaxed))
    }

    fn send_batch(&self, sending: &mut Sending, length: usize, count: u64) -> Result<(), Error> {
        let segment = self.datagram_bytes;
        let Sending {
            socket,
            batch,
            together,
            ..
        } = sending;
        let batch = &mut batch[..length];
        if *together || count == 1 {
            match socket::send(socket, batch, segment) {
                // A device that computes no checksums takes one at a time (udp_send_skb, net/ipv4/udp.c).
                Err(error) if count > 1 && takes_one(&error) => *together = false,
                result => return self.note(result, count, length),
            }
        }
        for datagram in batch.chunks_mut(segment) {
            let bytes = datagram.len();
            self.note(socket::send(socket, datagram, segment), 1, bytes)?;
        }
        Ok(())
    }

    fn note(&self, result: io::Result<()>, count: u64, bytes: usize) -> Result<(), Error> {
        match result {
            Ok(()) => {
                self.sent.fetch_add(count, Relaxed);
                self.sent_bytes.fetch_add(bytes as u64, Relaxed);
                Ok(())
            }
            // The device's queue is full: what it drops is offered and not sent.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        match source.raw_os_error() {
            Some(libc::ECONNREFUSED) => Error::Refused(self.to),
            Some(libc::EMSGSIZE) => Error::TooLong {
                bytes: self.datagram_bytes,
                to: self.to,
                most: self.longest(),
            },
            _ => Error::Send {
                to: self.to,
                source,
            },
        }
    }

    /// By what the kernel has learnt of the way; less than was tried in any case.
    fn longest(&self) -> usize {
        let known = socket::connected(self.to).map(|socket| socket::longest(&socket, self.to));
        known.unwrap_or_default().min(self.datagram_bytes - 1)
    }
}

fn takes_one(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP)
    )
}
