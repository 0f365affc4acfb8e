//! The way of the data streams: directly to the far end's port, or by a detour if a firewall is in between.
//!
//! The direct way is tried first. If it has no result after a moment, the detour is prepared beside it, so that it is
//! ready when the direct way is given up (after RFC 8305). Meanwhile the far end tries whether it reaches a port of
//! this end. The first stream with a result decides for all streams.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use howdah_tcp::{Error, Patience, SocketPlan, connect_first};

use crate::connect::near_port::NearPort;
use crate::connect::setup::{NOTSENT_LOWAT_BYTES, TRY_AGAIN_AFTER};

/// The straight way is alone for this long and one and a half round trips.
const ALONE: Duration = Duration::from_millis(250);
/// A far end opens its port when it has been greeted, so a port may be closed for this long and a round trip.
const REFUSED_FOR: Duration = Duration::from_millis(250);
/// The straight way is given up after this long and two round trips. Until then each stream has sent three SYNs.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(1250);
/// The time between two SYNs.
const ANOTHER_AFTER: Duration = Duration::from_millis(500);
/// The far end's answer whether it reaches this end's port is waited for this long and two and a half round trips.
const ANSWERED_WITHIN: Duration = Duration::from_millis(250);
/// How long it takes at most to connect to a port of this host.
const HERE_WITHIN: Duration = Duration::from_secs(5);

/// A port of this host that forwards connections to the far end's port by another way.
pub struct Detour {
    at: SocketAddr,
    round_trip: Duration,
    near_port: Option<Arc<NearPort>>,
    /// Once it is known.
    chosen: OnceLock<Chosen>,
}

/// The way that all streams of a session take.
#[derive(Debug)]
enum Chosen {
    Straight,
    /// What came of the straight way.
    ThroughSsh(String),
    ByFar(String),
}

/// The result of connecting by the chosen way.
#[derive(Debug)]
pub enum Found<'a> {
    /// The straight way; without a connection when it was chosen while this one was tried.
    Straight(Option<TcpStream>),
    /// The detour, and why.
    ThroughSsh(TcpStream, &'a str),
    /// The far end is to connect to this end's port, and why.
    ByFar(&'a str),
}

impl Detour {
    /// A detour that begins at `at`. The direct way has this round trip.
    pub fn new(at: SocketAddr, round_trip: Duration, near_port: Option<Arc<NearPort>>) -> Self {
        Self {
            at,
            round_trip,
            near_port,
            chosen: OnceLock::new(),
        }
    }

    /// The port of this end to which the far end may connect instead.
    pub fn near_port(&self) -> Option<Arc<NearPort>> {
        self.near_port.clone()
    }

    /// Why the detour was chosen, if it was.
    pub fn taken(&self) -> Option<&str> {
        match self.chosen.get()? {
            Chosen::ThroughSsh(why) => Some(why),
            Chosen::Straight | Chosen::ByFar(_) => None,
        }
    }

    /// Connects by the way that all streams take.
    ///
    /// # Errors
    /// When the kernel refuses the connection on both ways.
    pub fn connect(
        &self,
        straight: &[SocketAddr],
        plan: &SocketPlan,
        stop: &AtomicBool,
    ) -> Result<Found<'_>, Error> {
        let began = Instant::now();
        let another_after = ANOTHER_AFTER.max(self.round_trip.mul_f64(1.5));
        let given_up = began + GIVEN_UP_AFTER + 2 * self.round_trip;
        let mut until = began + ALONE + self.round_trip.mul_f64(1.5);
        let (mut found, mut beside) = (Err(Error::NoAddress), None);
        while self.chosen.get().is_none() {
            found = self.straight(straight, plan, stop, began, until);
            if is_closed(&found) && beside.is_none() {
                if let Some(port) = &self.near_port {
                    port.ask();
                }
                beside = Some(self.begin(stop)?);
            }
            let now = Instant::now();
            let reached = self
                .near_port
                .as_ref()
                .is_some_and(|port| port.is_reached());
            if !matches!(found, Err(Error::Unanswered { .. })) || now >= given_up || reached {
                break;
            }
            until = given_up.min(now + another_after);
        }
        let chosen = match (self.chosen.get(), &found) {
            (Some(chosen), _) => chosen,
            (None, Ok(_)) => self.chosen.get_or_init(|| Chosen::Straight),
            (None, Err(error)) if is_closed(&found) => {
                let timeout = ANSWERED_WITHIN + self.round_trip.mul_f64(2.5);
                let port = self.near_port.as_ref();
                let by_far = port.is_some_and(|port| port.reached_within(timeout));
                self.chosen.get_or_init(|| match by_far {
                    true => Chosen::ByFar(why(error)),
                    false => Chosen::ThroughSsh(why(error)),
                })
            }
            (None, Err(_)) => return found.map(|socket| Found::Straight(Some(socket))),
        };
        if !matches!(chosen, Chosen::ByFar(_))
            && let Some(port) = &self.near_port
        {
            port.close();
        }
        match (chosen, beside) {
            (Chosen::Straight, _) => Ok(Found::Straight(found.ok())),
            (Chosen::ThroughSsh(why), Some(begun)) => Ok(Found::ThroughSsh(begun, why)),
            (Chosen::ThroughSsh(why), None) => Ok(Found::ThroughSsh(self.begin(stop)?, why)),
            (Chosen::ByFar(why), _) => Ok(Found::ByFar(why)),
        }
    }

    /// Tries the straight way. A firewall that rejects may say so once and be silent then, for kernels limit how
    /// often they do; so one refusal counts when the time is over in which the far end opens its port.
    fn straight(
        &self,
        addresses: &[SocketAddr],
        plan: &SocketPlan,
        stop: &AtomicBool,
        began: Instant,
        until: Instant,
    ) -> Result<TcpStream, Error> {
        let refused_until = began + REFUSED_FOR + self.round_trip;
        let mut refusal = None;
        let mut pause = TRY_AGAIN_AFTER;
        loop {
            let until = match refusal {
                Some(_) => until.min(refused_until),
                None => until,
            };
            let patience = Patience {
                timeout: until.saturating_duration_since(Instant::now()),
                stop,
            };
            let found = connect_first(addresses, plan, patience);
            let over = Instant::now() >= refused_until || self.chosen.get().is_some();
            match found {
                Err(Error::Connect { to, source })
                    if source.kind() == ErrorKind::ConnectionRefused =>
                {
                    if over {
                        return Err(Error::Connect { to, source });
                    }
                    refusal = Some(Error::Connect { to, source });
                    thread::sleep(pause);
                    pause *= 2;
                }
                Err(Error::Unanswered { .. }) if refusal.is_some() => {
                    return found.map_err(|unanswered| refusal.unwrap_or(unanswered));
                }
                found => return found,
            }
        }
    }

    /// Connects to the beginning of the detour. Its buffers are small: what lies in them is on no other stream.
    fn begin(&self, stop: &AtomicBool) -> Result<TcpStream, Error> {
        let plan = SocketPlan {
            notsent_lowat_bytes: Some(NOTSENT_LOWAT_BYTES),
            ..SocketPlan::default()
        };
        let patience = Patience {
            timeout: HERE_WITHIN,
            stop,
        };
        connect_first(&[self.at], &plan, patience)
    }
}

/// Whether the straight way leads nowhere. Other errors are this host's.
fn is_closed(found: &Result<TcpStream, Error>) -> bool {
    matches!(
        found,
        Err(Error::Connect { .. } | Error::Unanswered { .. } | Error::NoAddress)
    )
}

/// The result of the direct way, without advice for the user.
pub(crate) fn why(error: &Error) -> String {
    match error {
        Error::Connect { to, source } => format!("{to}: {}", crate::error::plain(source)),
        Error::Unanswered { to, .. } => format!("{to}: no answer"),
        _ => "its address is not known here".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A round trip of this host.
    const NONE: Duration = Duration::ZERO;
    static GO_ON: AtomicBool = AtomicBool::new(false);

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        (listener, at)
    }

    fn reached(detour: &Detour, straight: &[SocketAddr]) -> Option<SocketAddr> {
        let connected = detour.connect(straight, &SocketPlan::default(), &GO_ON);
        let socket = match connected.unwrap() {
            Found::Straight(socket) => socket,
            Found::ThroughSsh(socket, _) => Some(socket),
            Found::ByFar(why) => panic!("{why}"),
        };
        socket.map(|socket| socket.peer_addr().unwrap())
    }

    /// A port on which nobody listens.
    fn closed() -> SocketAddr {
        let (listener, at) = listener();
        drop(listener);
        at
    }

    /// A port whose SYNs are dropped: nobody accepts and the queue is full.
    fn dropping() -> (Vec<TcpStream>, TcpListener, SocketAddr) {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        )
        .unwrap();
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        rustix::net::bind(&socket, &any).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let listener = TcpListener::from(socket);
        let at = listener.local_addr().unwrap();
        let short = Duration::from_millis(50);
        let fill = (0..4).map_while(|_| TcpStream::connect_timeout(&at, short).ok());
        (fill.collect(), listener, at)
    }

    #[test]
    fn an_open_port_is_reached_straight_and_the_detour_is_left_alone() {
        let (_far, straight) = listener();
        let (detours, at) = listener();
        detours.set_nonblocking(true).unwrap();
        let detour = Detour::new(at, NONE, None);
        assert_eq!(reached(&detour, &[straight]), Some(straight));
        assert_eq!(detour.taken(), None);
        // Those after it dial as ever.
        assert_eq!(reached(&detour, &[straight]), None);
        assert!(detours.accept().is_err());
    }

    #[test]
    fn a_port_that_opens_a_moment_later_is_reached_straight() {
        let straight = closed();
        let (_detours, at) = listener();
        let detour = Detour::new(at, NONE, None);
        let opens = thread::spawn(move || {
            thread::sleep(REFUSED_FOR / 4);
            TcpListener::bind(straight).unwrap()
        });
        assert_eq!(reached(&detour, &[straight]), Some(straight));
        drop(opens.join().unwrap());
    }

    #[test]
    fn a_port_that_is_rejected_costs_a_moment_and_one_that_is_dropped_a_second() {
        let (_full, _far, dropped) = dropping();
        let moment = Duration::from_secs(1);
        for (straight, least, said) in [
            (vec![closed()], REFUSED_FOR, "Connection refused"),
            (vec![dropped], GIVEN_UP_AFTER, "no answer"),
            (vec![], Duration::ZERO, "its address is not known here"),
        ] {
            let (_detours, at) = listener();
            let detour = Detour::new(at, NONE, None);
            let began = Instant::now();
            assert_eq!(reached(&detour, &straight), Some(at));
            let took = began.elapsed();
            assert!(took >= least && took < least + moment, "{said}: {took:?}");
            assert!(
                detour.taken().unwrap().ends_with(said),
                "{:?}",
                detour.taken()
            );
            // Who comes later waits for nothing.
            let again = Instant::now();
            assert_eq!(reached(&detour, &straight), Some(at));
            assert!(again.elapsed() < least.max(moment) / 2);
        }
    }

    #[test]
    fn one_stream_that_is_late_does_not_take_the_detour_when_others_went_straight() {
        let (_far, straight) = listener();
        let (_detours, at) = listener();
        let detour = Detour::new(at, NONE, None);
        assert_eq!(reached(&detour, &[straight]), Some(straight));
        let (_full, _dropping, dropped) = dropping();
        assert_eq!(reached(&detour, &[dropped]), None);
        assert_eq!(detour.taken(), None);
    }
}
