//! Who knocks at the far end's door: anybody can, so each has little time and there are not many.

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::Instant;

use crate::abort::{lock, shut_down};

/// Connections that have not proved yet that they belong here.
#[derive(Default)]
pub struct Strangers(Mutex<Vec<Stranger>>);

/// One of them.
pub struct Stranger {
    /// What it is known by.
    pub number: u64,
    /// A duplicate of its socket.
    pub socket: OwnedFd,
    /// When its time is over.
    pub until: Instant,
}

impl Strangers {
    /// Keeps one unless there are `most` already; whether it does.
    pub fn take(&self, stranger: Stranger, most: usize) -> bool {
        let mut strangers = lock(&self.0);
        let room = strangers.len() < most;
        if room {
            strangers.push(stranger);
        }
        room
    }

    /// One is a stranger no more, or gone.
    pub fn forget(&self, number: u64) {
        lock(&self.0).retain(|stranger| stranger.number != number);
    }

    /// Ends the connections of some; whoever waits for their words hears the end.
    pub fn hang_up(&self, whom: impl Fn(&Stranger) -> bool) {
        for stranger in lock(&self.0).iter().filter(|stranger| whom(stranger)) {
            shut_down(&stranger.socket);
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
    fn strangers_have_their_time_and_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let strangers = Strangers::default();
        let start = Instant::now();
        let mut ends = Vec::new();
        for (number, until_s) in [(0, 10), (1, 20), (2, 10)] {
            ends.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let socket = OwnedFd::from(listener.accept().unwrap().0);
            let until = start + Duration::from_secs(until_s);
            let stranger = Stranger {
                number,
                socket,
                until,
            };
            assert!(strangers.take(stranger, 3));
        }
        let one_more = Stranger {
            number: 3,
            socket: ends[0].try_clone().unwrap().into(),
            until: start,
        };
        assert!(!strangers.take(one_more, 3));
        let kept = lock(&strangers.0)[2].socket.try_clone().unwrap();
        strangers.forget(2);
        let later = start + Duration::from_secs(10);
        strangers.hang_up(|stranger| stranger.until <= later);
        let mut heard = |index: usize| {
            ends[index].set_nonblocking(true).unwrap();
            ends[index].read(&mut [0]).map_err(|error| error.kind())
        };
        let nothing = Err(std::io::ErrorKind::WouldBlock);
        assert_eq!([heard(0), heard(1), heard(2)], [Ok(0), nothing, nothing]);
        strangers.hang_up(|_| true);
        assert_eq!([heard(1), heard(2)], [Ok(0), nothing]);
        drop(kept);
    }
}
