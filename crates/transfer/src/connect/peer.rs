//! The way from one far end to another, where the near end is a third host.

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
/// The other far end opens its port when the near end has greeted it, which may take its way longer.
const OPENS_WITHIN: Duration = Duration::from_secs(1);

/// The addresses of a port as sockets have them.
pub fn sockets(port: &DataPort) -> Vec<SocketAddr> {
    let sockets = port.addresses.iter();
    sockets
        .map(|&address| SocketAddr::new(address.to_canonical(), port.port))
        .collect()
}

/// The round trip to a port, as its handshake shows it; or why it cannot be reached.
pub fn round_trip(port: &DataPort) -> Result<Duration, String> {
    let (sockets, began) = (sockets(port), Instant::now());
    let patience = Patience {
        timeout: TRIED_FOR,
        stop: &AtomicBool::new(false),
    };
    loop {
        match connect_first(&sockets, &SocketPlan::default(), patience) {
            Ok(socket) => {
                let info = Info::read(&socket).map_err(|error| error.to_string())?;
                return info.rtt.ok_or_else(|| "no round trip".to_owned());
            }
            Err(Error::Connect { source, .. })
                if source.kind() == ErrorKind::ConnectionRefused
                    && began.elapsed() < OPENS_WITHIN =>
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
        let closed = format!("{to}: Connection refused");
        assert_eq!(round_trip(&port).unwrap_err(), closed);
        let opens = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            TcpListener::bind(to).unwrap()
        });
        let rtt = round_trip(&port).unwrap();
        assert!(
            rtt > Duration::ZERO && rtt < Duration::from_secs(1),
            "{rtt:?}"
        );
        drop(opens.join().unwrap());
    }
}
