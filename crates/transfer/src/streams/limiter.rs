//! The limit of the copy on what all sending streams of one end write together.
//!
//! It acts before the sockets. So it applies under every plan and steering, and on every way of the bytes. Each write
//! takes a turn in a queue in time, after the generic cell rate algorithm (ITU-T I.371, annex A): a turn begins where
//! the turns before it end. So the sum over the streams is exact, and a stream that has nothing to send leaves its
//! part to the others. Deviation: time in which nobody sent counts for [`BEHIND`] at most.

use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_wire::{Doing, Limit};

use crate::end::abort::{Abort, lock};
use crate::end::spent;

/// A turn lasts about so long, within the two sizes below.
const TURN: Duration = Duration::from_millis(10);
/// A turn has room for a whole record of an encrypted stream, without which the other end sees nothing of it.
const LEAST_BYTES: u64 = 32 << 10;
const MOST_BYTES: u64 = 256 << 10;
/// A thread that is woken late makes up for this much.
const BEHIND: Duration = Duration::from_millis(30);
/// How long a wait looks away from the stop flag.
const GLANCE: Duration = Duration::from_millis(20);

/// The limit of the streams of one end, changed while they are open.
#[derive(Debug)]
pub struct Limiter {
    state: Mutex<State>,
    changed: Condvar,
    abort: Arc<Abort>,
}

#[derive(Debug)]
struct State {
    limit: Limit,
    /// Counts the changes: turns of before count no more.
    changes: u64,
    /// When the last turn that was taken under this limit ends, if there was one.
    free_at: Option<Instant>,
}

impl Limiter {
    /// A limiter without a limit. `abort` ends every wait.
    pub fn new(limit: Limit, abort: Arc<Abort>) -> Self {
        let state = State {
            limit,
            changes: 0,
            free_at: None,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            abort,
        }
    }

    /// Sets the limit from now on.
    pub fn set(&self, limit: Limit) {
        let mut state = lock(&self.state);
        state.limit = limit;
        state.changes += 1;
        state.free_at = None;
        drop(state);
        self.changed.notify_all();
    }

    /// Whether nothing is to be sent.
    pub fn paused(&self) -> bool {
        lock(&self.state).limit.paused
    }

    /// Writes all of `bytes`, as fast as the limit allows.
    ///
    /// # Errors
    /// Errors of the socket, and when this end stops meanwhile.
    pub fn write_all(&self, socket: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(self.turn(bytes.len())?);
            write(socket, now)?;
            bytes = later;
        }
        Ok(())
    }

    /// Waits for a turn to write some of `len` bytes; how many.
    fn turn(&self, len: usize) -> io::Result<usize> {
        let mut state = lock(&self.state);
        let mut taken: Option<(u64, Instant, usize)> = None;
        loop {
            let wait = match state.limit {
                Limit { paused: true, .. } => GLANCE,
                Limit { most_bps: None, .. } => return Ok(len),
                Limit {
                    most_bps: Some(most_bps),
                    ..
                } => {
                    let now = Instant::now();
                    let (_, begins, bytes) = match taken {
                        Some(turn) if turn.0 == state.changes => turn,
                        _ => *taken.insert(state.take(most_bps, len, now)),
                    };
                    if begins <= now {
                        return Ok(bytes);
                    }
                    GLANCE.min(begins - now)
                }
            };
            if self.abort.stopping() {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            let _turn = spent::doing(Doing::Turn);
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Writes all of `bytes`, under a limit if there is one.
///
/// # Errors
/// As [`Limiter::write_all`].
pub fn write_all(socket: &TcpStream, limiter: Option<&Limiter>, bytes: &[u8]) -> io::Result<()> {
    match limiter {
        Some(limiter) => limiter.write_all(socket, bytes),
        None => write(socket, bytes),
    }
}

fn write(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let _socket = spent::doing(Doing::Socket);
    socket.write_all(bytes)
}

impl State {
    /// Takes the next turn: of which change it is, when it begins, and what may be written then.
    fn take(&mut self, most_bps: u64, len: usize, now: Instant) -> (u64, Instant, usize) {
        let most = bytes_in(TURN, most_bps).clamp(LEAST_BYTES, MOST_BYTES);
        let bytes = len.min(usize::try_from(most).unwrap_or(usize::MAX));
        let begins = match self.free_at {
            Some(free_at) => free_at.max(now.checked_sub(BEHIND).unwrap_or(now)),
            None => now,
        };
        self.free_at = Some(begins + time_of(bytes, most_bps));
        (self.changes, begins, bytes)
    }
}

fn bytes_in(time: Duration, bps: u64) -> u64 {
    let bytes = u128::from(bps) * time.as_nanos() / 8_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// How long so many bytes, at most [`MOST_BYTES`], take. The least rate of the protocol keeps it below five minutes.
fn time_of(bytes: usize, bps: u64) -> Duration {
    Duration::from_nanos((bytes as u64 * 8_000_000_000) / bps.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    fn limit(most_bps: Option<u64>, paused: bool) -> Limit {
        Limit { most_bps, paused }
    }

    /// What `streams` threads wrote at each of the times, in bytes, while `change` was at work beside them.
    fn written(limiter: &Limiter, streams: usize, change: impl FnOnce(&AtomicU64)) {
        let arrived = AtomicU64::new(0);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        thread::scope(|scope| {
            for _ in 0..streams {
                let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let mut far = listener.accept().unwrap().0;
                scope.spawn(
                    move || {
                        while limiter.write_all(&near, &[7; 300_000]).is_ok() {}
                    },
                );
                let arrived = &arrived;
                scope.spawn(move || {
                    let mut bytes = vec![0; 1 << 20];
                    while let Ok(count) = far.read(&mut bytes)
                        && count > 0
                    {
                        arrived.fetch_add(count as u64, Ordering::Relaxed);
                    }
                });
            }
            change(&arrived);
            limiter.abort.trigger();
        });
    }

    fn in_time(arrived: &AtomicU64, time: Duration) -> f64 {
        let (before, began) = (arrived.load(Ordering::Relaxed), Instant::now());
        thread::sleep(time);
        let bits = 8 * (arrived.load(Ordering::Relaxed) - before);
        bits as f64 / began.elapsed().as_secs_f64()
    }

    #[test]
    fn all_streams_together_have_the_limit_from_the_beginning_and_another_at_once() {
        let most = 80_000_000;
        let limiter = Limiter::new(limit(Some(most), false), Arc::default());
        written(&limiter, 4, |arrived| {
            let had = in_time(arrived, Duration::from_millis(800));
            assert!((0.85..1.1).contains(&(had / most as f64)), "{had}");
            limiter.set(limit(Some(most / 4), false));
            thread::sleep(Duration::from_millis(50));
            let had = in_time(arrived, Duration::from_millis(800));
            assert!((0.2..0.28).contains(&(had / most as f64)), "{had}");
        });
    }

    #[test]
    fn a_pause_stops_every_byte_and_its_end_lets_them_go_on() {
        let limiter = Limiter::new(limit(None, true), Arc::default());
        written(&limiter, 2, |arrived| {
            assert!(in_time(arrived, Duration::from_millis(200)) < 1.0);
            limiter.set(limit(None, false));
            assert!(in_time(arrived, Duration::from_millis(200)) > 1e6);
            limiter.set(limit(None, true));
            thread::sleep(Duration::from_millis(100));
            assert!(in_time(arrived, Duration::from_millis(200)) < 1.0);
        });
    }

    #[test]
    fn turns_follow_one_another_and_idle_time_is_not_saved_up() {
        let now = Instant::now();
        let mut state = State {
            limit: Limit::default(),
            changes: 0,
            free_at: None,
        };
        assert_eq!(state.take(8000, 1, now).1, now);
        state.free_at = now.checked_sub(Duration::from_secs(10));
        let bps = 8 * LEAST_BYTES;
        let begins: Vec<_> = (0..3).map(|_| state.take(bps, usize::MAX, now).1).collect();
        assert!(begins[0] >= now - BEHIND);
        assert_eq!(begins[1] - begins[0], Duration::from_secs(1));
        assert_eq!(begins[2] - begins[1], Duration::from_secs(1));
        let (_, _, least) = state.take(8000, usize::MAX, now);
        let (_, _, most) = state.take(u64::MAX, usize::MAX, now);
        assert_eq!((least as u64, most as u64), (LEAST_BYTES, MOST_BYTES));
        assert_eq!(state.take(8000, 5, now).2, 5);
    }
}
