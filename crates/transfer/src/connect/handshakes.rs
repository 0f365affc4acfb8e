//! Connections that have shown the session's token and are in their TLS handshake, each on a thread.
//! Each has little time and there are not many.

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::Instant;

use crate::end::abort::{lock, shut_down};

/// The handshakes of one session.
#[derive(Default)]
pub struct Handshakes(Mutex<Vec<PendingHandshake>>);

/// A connection in its handshake.
pub struct PendingHandshake {
    /// The number that tells it from the others.
    pub number: u64,
    /// A duplicate of its socket.
    pub socket: OwnedFd,
    /// When its time is over.
    pub until: Instant,
}

impl Handshakes {
    /// Keeps one unless there are `most` already; whether it does.
    pub fn take(&self, one: PendingHandshake, most: usize) -> bool {
        let mut handshakes = lock(&self.0);
        let room = handshakes.len() < most;
        if room {
            handshakes.push(one);
        }
        room
    }

    /// One has ended its handshake, well or not.
    pub fn forget(&self, number: u64) {
        lock(&self.0).retain(|one| one.number != number);
    }

    /// Ends the connections of some; the threads that wait for them go on.
    pub fn hang_up(&self, whom: impl Fn(&PendingHandshake) -> bool) {
        for one in lock(&self.0).iter().filter(|one| whom(one)) {
            shut_down(&one.socket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn handshakes_have_their_time_and_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let handshakes = Handshakes::default();
        let start = Instant::now();
        let mut ends = Vec::new();
        for (number, until_s) in [(0, 10), (1, 20), (2, 10)] {
            ends.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let socket = OwnedFd::from(listener.accept().unwrap().0);
            let until = start + Duration::from_secs(until_s);
            let one = PendingHandshake {
                number,
                socket,
                until,
            };
            assert!(handshakes.take(one, 3));
        }
        let one_more = PendingHandshake {
            number: 3,
            socket: ends[0].try_clone().unwrap().into(),
            until: start,
        };
        assert!(!handshakes.take(one_more, 3));
        let kept = lock(&handshakes.0)[2].socket.try_clone().unwrap();
        handshakes.forget(2);
        let later = start + Duration::from_secs(10);
        handshakes.hang_up(|one| one.until <= later);
        let mut heard = |index: usize| {
            ends[index].set_nonblocking(true).unwrap();
            ends[index].read(&mut [0]).map_err(|error| error.kind())
        };
        let nothing = Err(std::io::ErrorKind::WouldBlock);
        assert_eq!([heard(0), heard(1), heard(2)], [Ok(0), nothing, nothing]);
        handshakes.hang_up(|_| true);
        assert_eq!([heard(1), heard(2)], [Ok(0), nothing]);
        drop(kept);
    }
}
