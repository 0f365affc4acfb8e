//! The far end: counts what arrives of one source, and never sends anything itself.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::socket::{self, Received};
use crate::{Account, Arrival, Digest, Error, Gathering, Header, Missing, Shape, Token};

/// How long a wait looks away from the stop flag.
const GLANCE: Duration = Duration::from_millis(50);
/// When nothing has come for so long after a round was sent, nothing of it will.
const QUIET: Duration = Duration::from_millis(20);
/// Longest wait for that: somebody may go on sending.
const PATIENCE: Duration = Duration::from_secs(2);

/// What has come so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SinkCounts {
    /// Datagrams that came for the first time.
    pub received: u64,
    /// Payload of those, bytes.
    pub received_bytes: u64,
    /// Of those, how many came after one that was sent later; of a sequence alone.
    pub reordered: u64,
    /// Datagrams that had come already.
    pub doubled: u64,
    /// So far behind the newest that they may be either.
    pub too_late: u64,
    /// Dropped at the socket: this host, and not the way, lost them.
    pub overflowed: u64,
    /// Of somebody else, or of no object that is expected.
    pub strange: u64,
    /// Datagrams that only show that the way is open.
    pub knocks: u64,
}

/// Listens on a port of its own until it is dropped.
pub struct Sink {
    port: u16,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    token: Token,
    stop: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    counts: SinkCounts,
    account: Account,
    object: Option<(u32, Gathering)>,
    last: Option<Instant>,
    broken: bool,
}

impl Sink {
    /// Listens for whoever shows `token`.
    ///
    /// # Errors
    /// When the kernel gives no socket or no thread.
    pub fn open(token: Token) -> Result<Self, Error> {
        let (socket, port) = socket::receiving(GLANCE)?;
        let shared = Arc::new(Shared {
            token,
            stop: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let receiver = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("howdah-sink".to_owned())
            .spawn(move || receiver.run(&socket))
            .map_err(|source| Error::Socket {
                what: "thread",
                source,
            })?;
        Ok(Self {
            port,
            shared,
            thread: Some(thread),
        })
    }

    /// Where it listens, on every address of this host.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// So far.
    pub fn counts(&self) -> SinkCounts {
        self.shared.state().counts
    }

    /// From now on takes the pieces of this object, and of none before it.
    ///
    /// # Errors
    /// When it is empty or too large.
    pub fn expect(&self, number: u32, object_bytes: u64, piece_bytes: usize) -> Result<(), Error> {
        let gathering = Gathering::new(Shape::new(object_bytes, piece_bytes)?);
        self.shared.state().object = Some((number, gathering));
        Ok(())
    }

    /// What is missing of the object, once what is on its way has come.
    ///
    /// # Errors
    /// When no object is expected, or the socket broke.
    pub fn missing(&self) -> Result<Missing, Error> {
        let began = Instant::now();
        loop {
            let state = self.shared.state();
            let (_, gathering) = state.object.as_ref().ok_or(Error::NoObject)?;
            let quiet = state.last.max(Some(began)) <= Instant::now().checked_sub(QUIET);
            if gathering.whole() || quiet || state.broken || began.elapsed() >= PATIENCE {
                return Ok(gathering.missing());
            }
            drop(state);
            thread::sleep(QUIET / 10);
        }
    }

    /// Of what has come of the object.
    pub fn digest(&self) -> Option<Digest> {
        let state = self.shared.state();
        state
            .object
            .as_ref()
            .map(|(_, gathering)| gathering.digest())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, socket: &OwnedFd) {
        let mut buffer = vec![0; 1 << 16];
        while !self.stop.load(Relaxed) {
            match socket::receive(socket, &mut buffer) {
                Ok(Some(received)) => self.state().take(&self.token, &buffer, &received),
                Ok(None) => {}
                Err(_) => {
                    self.state().broken = true;
                    return;
                }
            }
        }
    }
}

impl State {
    fn take(&mut self, token: &Token, buffer: &[u8], received: &Received) {
        if let Some(overflowed) = received.overflowed {
            self.counts.overflowed = overflowed.into();
        }
        for datagram in buffer[..received.bytes].chunks(received.segment_bytes) {
            match Header::take(token, datagram) {
                Some((header, piece)) => self.count(header, piece, datagram.len() as u64),
                None => self.counts.strange += 1,
            }
        }
    }

    fn count(&mut self, header: Header, piece: &[u8], bytes: u64) {
        let counts = &mut self.counts;
        match (header.blast, &mut self.object) {
            (Header::KNOCK, _) => {
                counts.knocks += 1;
                return;
            }
            (Header::STREAM, _) => match self.account.take(header.number) {
                Arrival::InOrder => {}
                Arrival::Reordered => counts.reordered += 1,
                Arrival::Doubled => {
                    counts.doubled += 1;
                    return;
                }
                Arrival::TooLate => {
                    counts.too_late += 1;
                    return;
                }
            },
            (blast, Some((number, gathering))) if blast == *number => {
                self.last = Some(Instant::now());
                if !gathering.take(header.number, piece) {
                    counts.doubled += 1;
                    return;
                }
            }
            _ => {
                counts.strange += 1;
                return;
            }
        }
        counts.received += 1;
        counts.received_bytes += bytes;
    }
}
