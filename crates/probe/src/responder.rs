//! Answers UDP probes of one prober.
//!
//! It answers nobody without the token, which the prober got by another way; only the address that the first
//! probe with it came from; and with as many bytes as came. So it is of no use for sending others traffic.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::BorrowedFd,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    time::{ClockId, clock_gettime},
};

use crate::{
    Error, Token,
    packet::{PROBE_BYTES, read_udp_probe, udp_answer},
    socket::{Received, Socket},
};

/// A stamp older than this is not believed: the clock was set meanwhile.
const HELD_NS_MAX: i64 = 1_000_000_000;

/// The far end of a probing by UDP.
pub struct Responder {
    socket: Socket,
    token: Token,
    port: u16,
}

impl Responder {
    /// Is there at once, at a port that the kernel chooses.
    ///
    /// # Errors
    /// When this host has no such address.
    pub fn open(at: IpAddr) -> Result<Self, Error> {
        let here = |source| Error::Socket {
            what: "set up",
            source,
        };
        let socket = Socket::bound(SocketAddr::new(at, 0))?;
        Ok(Self {
            port: socket.port().map_err(here)?,
            token: Token::random().map_err(here)?,
            socket,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What a probe must have.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Answers until `stop` is readable or closed; how many were answered.
    ///
    /// # Errors
    /// When waiting fails, which it does not.
    pub fn run(&self, stop: BorrowedFd<'_>) -> Result<u64, Error> {
        let (mut peer, mut answered) = (None, 0);
        let mut buffer = [0; PROBE_BYTES + 1];
        loop {
            let mut polled = [
                PollFd::new(&self.socket, PollFlags::IN),
                PollFd::from_borrowed_fd(stop, PollFlags::IN),
            ];
            match poll(&mut polled, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    return Err(Error::Socket {
                        what: "wait for",
                        source: errno.into(),
                    });
                }
            }
            if !polled[1].revents().is_empty() {
                return Ok(answered);
            }
            // An error is of an answer that could not be brought; its probe is lost.
            while let Ok(Some(received)) = self.socket.receive(&mut buffer) {
                answered += u64::from(self.answer(&buffer, &received, &mut peer));
            }
        }
    }

    fn answer(&self, buffer: &[u8], received: &Received, peer: &mut Option<SocketAddr>) -> bool {
        let (Some(number), Some(from)) = (
            read_udp_probe(&buffer[..received.length], self.token),
            received.from,
        ) else {
            return false;
        };
        if *peer.get_or_insert(from) != from {
            return false;
        }
        let held_ns = received.stamp_ns.map_or(0, held_ns);
        self.socket
            .send_to(&udp_answer(self.token, number, held_ns), from)
            .is_ok()
    }
}

/// Since the kernel received it; 0 when the clock of the day cannot be believed.
fn held_ns(stamp_ns: i64) -> u64 {
    let day = clock_gettime(ClockId::Realtime);
    let held_ns = day.tv_sec * 1_000_000_000 + day.tv_nsec - stamp_ns;
    if (0..=HELD_NS_MAX).contains(&held_ns) {
        held_ns.unsigned_abs()
    } else {
        0
    }
}
