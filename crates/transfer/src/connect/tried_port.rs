//! Tries a port of another host before data streams connect to it: a port of another far end, or of the near end.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use howdah_tcp::{Error, Info, Patience, SocketPlan, connect_first};
use howdah_wire::DataPort;

use crate::connect::detour::why;
use crate::connect::setup::TRY_AGAIN_AFTER;

/// A port that does not answer is given up after this time: four SYNs have left by then.
const TRIED_FOR: Duration = Duration::from_secs(5);
/// How long another far end may take to open its port, in addition. It opens the port when the near end's greeting
/// has arrived.
pub const OPENS_WITHIN: Duration = Duration::from_secs(1);

/// The socket addresses of a port.
pub fn sockets(port: &DataPort) -> Vec<SocketAddr> {
    let sockets = port.addresses.iter();
    sockets
        .map(|&address| SocketAddr::new(address.to_canonical(), port.port))
        .collect()
}

/// The round trip of the TCP handshake, in nanoseconds, with the first of these addresses that answers, or why none
/// answers. The round trip may be unknown. An address that refuses is tried again for as long as its port may take to
/// open.
pub fn round_trip(
    to: &[SocketAddr],
    opens_within: Duration,
    stop: &AtomicBool,
) -> Result<Option<u64>, String> {
    let began = Instant::now();
    let patience = Patience {
        timeout: TRIED_FOR,
        stop,
    };
    loop {
        match connect_first(to, &SocketPlan::default(), patience) {
            Ok(socket) => {
                let info = Info::read(&socket).map_err(|error| error.to_string())?;
                let ns = |rtt: Duration| u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
                return Ok(info.rtt.map(ns));
            }
            Err(Error::Connect { source, .. })
                if source.kind() == ErrorKind::ConnectionRefused
                    && began.elapsed() < opens_within =>
            {
                thread::sleep(TRY_AGAIN_AFTER);
            }
            Err(error) => return Err(why(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_port_that_opens_late_is_reached_and_one_that_does_not_is_said_to_be_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = DataPort {
            addresses: vec!["::ffff:127.0.0.1".parse().unwrap()],
            port: listener.local_addr().unwrap().port(),
        };
        drop(listener);
        let to = sockets(&port)[0];
        let tried = |opens_within| round_trip(&[to], opens_within, &AtomicBool::new(false));
        let closed = format!("{to}: Connection refused");
        for opens_within in [OPENS_WITHIN, Duration::ZERO] {
            let began = Instant::now();
            assert_eq!(tried(opens_within).unwrap_err(), closed);
            assert!(began.elapsed() >= opens_within);
        }
        let opens = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            TcpListener::bind(to).unwrap()
        });
        let rtt_ns = tried(OPENS_WITHIN).unwrap().unwrap();
        assert!((1..1_000_000_000).contains(&rtt_ns), "{rtt_ns}");
        drop(opens.join().unwrap());
    }
}
