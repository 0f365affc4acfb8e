//! The way of the data streams: directly to the far end's port, or by a detour if a firewall is in between.
//!
//! The direct way is tried first. If it has no result after a moment, the detour is prepared beside it, so that it is
//! ready when the direct way is given up (after RFC 8305). Meanwhile the far end tries whether it reaches a port of
//! this end. If the far end also has an address of the other family, that address is tried before both. The first
//! stream with a result decides for all streams.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use howdah_tcp::{Error, Patience, SocketPlan, connect_first};

use crate::connect::near_port::NearPort;
use crate::connect::other_family::OtherFamily;
use crate::connect::setup::{NOTSENT_LOWAT_BYTES, TRY_AGAIN_AFTER};
use crate::tls::TlsStream;

/// The straight way is alone for this long and one and a half round trips.
const ALONE: Duration = Duration::from_millis(250);
/// The other family is dialled when that time is over, and answers within this and a round trip.
const OTHER_ANSWERS: Duration = Duration::from_millis(50);
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

/// The ways beside the direct one.
pub struct Detour {
    /// A port of this host whose connections lead to the far end's through ssh.
    at: Option<SocketAddr>,
    round_trip: Duration,
    near_port: Option<Arc<NearPort>>,
    other: Option<Arc<OtherFamily>>,
    /// Once it is known.
    chosen: OnceLock<Chosen>,
    /// The same once it is known that somebody else answers at the address of the other family.
    chosen_then: OnceLock<Chosen>,
}

/// The way that all streams of a session take.
#[derive(Debug)]
enum Chosen {
    Straight,
    /// The address of the other family, and what came of the straight way, as are these:
    Other(SocketAddr, String),
    ThroughSsh(String),
    ByFar(String),
}

/// The result of connecting by the chosen way.
#[derive(Debug)]
pub enum Found<'a> {
    /// The straight way; without a connection when it was chosen while this one was tried.
    Straight(Option<TcpStream>),
    /// The far end's address of the other family; a connection as with `Straight`.
    Other(Option<TcpStream>, SocketAddr),
    /// The detour, and why.
    ThroughSsh(TcpStream, &'a str),
    /// The far end is to connect to this end's port, and why.
    ByFar(&'a str),
}

impl Detour {
    /// A detour that begins at `at`. The direct way has this round trip.
    pub fn new(
        at: Option<SocketAddr>,
        round_trip: Duration,
        near_port: Option<Arc<NearPort>>,
        other: Option<Arc<OtherFamily>>,
    ) -> Self {
        Self {
            at,
            round_trip,
            near_port,
            other,
            chosen: OnceLock::new(),
            chosen_then: OnceLock::new(),
        }
    }

    /// The way that all streams take, once it is known.
    fn way(&self) -> &OnceLock<Chosen> {
        match &self.other {
            Some(other) if other.is_wrong() => &self.chosen_then,
            _ => &self.chosen,
        }
    }

    /// The port of this end to which the far end may connect instead.
    pub fn near_port(&self) -> Option<Arc<NearPort>> {
        self.near_port.clone()
    }

    /// Why the detour was chosen, if it was.
    pub fn taken(&self) -> Option<&str> {
        match self.way().get()? {
            Chosen::ThroughSsh(why) => Some(why),
            Chosen::Straight | Chosen::Other(..) | Chosen::ByFar(_) => None,
        }
    }

    /// The address of the other family and why it is taken, if it is.
    pub fn other(&self) -> Option<(SocketAddr, &str)> {
        match self.way().get()? {
            Chosen::Other(at, why) => Some((*at, why)),
            _ => None,
        }
    }

    /// Whether the far end answers the greeting on this stream. If it does not at its address of the other family, no
    /// stream goes there.
    pub fn is_answered(&self, stream: &mut TlsStream) -> bool {
        let Some(other) = &self.other else {
            return true;
        };
        let answered = other.proves(stream);
        if !answered {
            other.note_wrong();
        }
        answered
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
        let way = self.way();
        if let (None, Some(other)) = (way.get(), &self.other) {
            other.begin(plan);
        }
        let began = Instant::now();
        let another_after = ANOTHER_AFTER.max(self.round_trip.mul_f64(1.5));
        let given_up = began + GIVEN_UP_AFTER + 2 * self.round_trip;
        let mut until = began + ALONE + self.round_trip.mul_f64(1.5);
        if self.other.is_some() {
            until += OTHER_ANSWERS;
        }
        let (mut found, mut beside) = (Err(Error::NoAddress), None);
        while way.get().is_none() {
            found = self.straight(straight, plan, stop, began, until);
            if is_closed(&found) && self.other_reached().is_some() {
                break;
            }
            if is_closed(&found) && beside.is_none() {
                if let Some(port) = &self.near_port {
                    port.ask();
                }
                beside = self.begin(stop)?;
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
        let chosen = match (way.get(), &found) {
            (Some(chosen), _) => chosen,
            (None, Ok(_)) => way.get_or_init(|| Chosen::Straight),
            (None, Err(error)) if is_closed(&found) => {
                let timeout = ANSWERED_WITHIN + self.round_trip.mul_f64(2.5);
                let usable = self.other.as_ref().filter(|other| !other.is_wrong());
                let other = usable.and_then(|other| other.reached_within(timeout));
                let port = self.near_port.as_ref().filter(|_| other.is_none());
                let by_far = port.is_some_and(|port| port.reached_within(timeout));
                if other.is_none() && self.at.is_none() {
                    return Ok(Found::Straight(None));
                }
                way.get_or_init(|| match (other, by_far) {
                    (Some(at), _) => Chosen::Other(at, why(error)),
                    (None, true) => Chosen::ByFar(why(error)),
                    (None, false) => Chosen::ThroughSsh(why(error)),
                })
            }
            (None, Err(_)) => return found.map(|socket| Found::Straight(Some(socket))),
        };
        // Until the far end has answered there, the other family may turn out to be somebody else's.
        if !matches!(chosen, Chosen::ByFar(_) | Chosen::Other(..))
            && let Some(port) = &self.near_port
        {
            port.close();
        }
        if let (false, Some(other)) = (matches!(chosen, Chosen::Other(..)), &self.other) {
            other.close();
        }
        match (chosen, beside) {
            (Chosen::Straight, _) => Ok(Found::Straight(found.ok())),
            (Chosen::Other(at, _), _) => {
                let made = self.other.as_ref().and_then(|other| other.take());
                Ok(Found::Other(made, *at))
            }
            (Chosen::ThroughSsh(why), Some(begun)) => Ok(Found::ThroughSsh(begun, why)),
            (Chosen::ThroughSsh(why), None) => match self.begin(stop)? {
                Some(begun) => Ok(Found::ThroughSsh(begun, why)),
                None => Ok(Found::Straight(None)),
            },
            (Chosen::ByFar(why), _) => Ok(Found::ByFar(why)),
        }
    }

    /// Whether the far end was reached at an address of the other family.
    fn other_reached(&self) -> Option<SocketAddr> {
        self.other.as_ref().and_then(|other| other.reached())
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
            let opened = self.other_reached().is_some();
            let found = connect_first(addresses, plan, patience);
            // The far end opens its port at the address of the other family last.
            let over = Instant::now() >= refused_until || self.way().get().is_some() || opened;
            match found {
                Err(Error::Connect { to, source })
                    if source.kind() == ErrorKind::ConnectionRefused =>
                {
                    if over {
                        return Err(Error::Connect { to, source });
                    }
                    if let Some(other) = &self.other {
                        other.want();
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
    fn begin(&self, stop: &AtomicBool) -> Result<Option<TcpStream>, Error> {
        let Some(at) = self.at else {
            return Ok(None);
        };
        let plan = SocketPlan {
            notsent_lowat_bytes: Some(NOTSENT_LOWAT_BYTES),
            ..SocketPlan::default()
        };
        let patience = Patience {
            timeout: HERE_WITHIN,
            stop,
        };
        connect_first(&[at], &plan, patience).map(Some)
    }
}

impl Drop for Detour {
    /// Who dials the other family ends with the copy.
    fn drop(&mut self) {
        if let Some(other) = &self.other {
            other.close();
        }
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
    use crate::tls::{Identity, OPENING_BYTES, SessionKeys};
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// A round trip of this host.
    const NONE: Duration = Duration::ZERO;
    static GO_ON: AtomicBool = AtomicBool::new(false);
    const GREETING: &[u8] = b"greeting";

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        (listener, at)
    }

    fn reached(detour: &Detour, straight: &[SocketAddr]) -> Option<SocketAddr> {
        let connected = detour.connect(straight, &SocketPlan::default(), &GO_ON);
        let socket = match connected.unwrap() {
            Found::Straight(socket) | Found::Other(socket, _) => socket,
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
        let detour = Detour::new(Some(at), NONE, None, None);
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
        let detour = Detour::new(Some(at), NONE, None, None);
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
            let detour = Detour::new(Some(at), NONE, None, None);
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
        let detour = Detour::new(Some(at), NONE, None, None);
        assert_eq!(reached(&detour, &[straight]), Some(straight));
        let (_full, _dropping, dropped) = dropping();
        assert_eq!(reached(&detour, &[dropped]), None);
        assert_eq!(detour.taken(), None);
    }

    /// A detour beside an attempt at `other`.
    fn beside(other: SocketAddr, at: Option<SocketAddr>) -> Detour {
        Detour::new(at, NONE, None, OtherFamily::new(vec![other], NONE))
    }

    #[test]
    fn the_other_family_is_taken_soon_where_the_first_is_closed_and_by_all_streams() {
        let (_full, _far, dropped) = dropping();
        let (detours, at) = listener();
        detours.set_nonblocking(true).unwrap();
        for (straight, at, most) in [
            (closed(), Some(at), REFUSED_FOR),
            (closed(), None, REFUSED_FOR),
            (dropped, None, 3 * ALONE),
        ] {
            let (_far, other) = listener();
            let detour = beside(other, at);
            let began = Instant::now();
            assert_eq!(reached(&detour, &[straight]), Some(other));
            assert!(began.elapsed() < most, "{:?}", began.elapsed());
            let (taken, why) = detour.other().unwrap();
            assert_eq!(taken, other);
            assert!(why.starts_with(&straight.to_string()), "{why}");
            // Those after it dial it as ever.
            let connected = detour.connect(&[straight], &SocketPlan::default(), &GO_ON);
            assert!(matches!(connected, Ok(Found::Other(None, to)) if to == other));
            assert!(detours.accept().is_err());
        }
    }

    #[test]
    fn nobody_dials_the_other_family_where_the_first_is_open() {
        let (_far, straight) = listener();
        let (others, other) = listener();
        others.set_nonblocking(true).unwrap();
        let detour = beside(other, None);
        assert_eq!(reached(&detour, &[straight]), Some(straight));
        thread::sleep(2 * ALONE);
        assert!(others.accept().is_err());
        assert_eq!(detour.other(), None);
    }

    /// The keys of both ends of a session.
    fn keys() -> (SessionKeys, SessionKeys) {
        let [near, far] = [(); 2].map(|()| Identity::generate().unwrap());
        let agree = |own, peer: &Identity| SessionKeys::agree(own, peer.public_key()).unwrap();
        (agree(&near, &far), agree(&far, &near))
    }

    #[test]
    fn where_somebody_else_answers_for_the_other_family_the_detour_is_taken() {
        for said in [&b""[..], b"220 mail", &[0; 100]] {
            let (others, other) = listener();
            let (_detours, at) = listener();
            let (detour, straight) = (beside(other, Some(at)), closed());
            let connected = detour.connect(&[straight], &SocketPlan::default(), &GO_ON);
            let Ok(Found::Other(Some(socket), _)) = connected else {
                panic!("{connected:?}");
            };
            let mut greeted = keys().0.dial(socket, GREETING).unwrap();
            others.accept().unwrap().0.write_all(said).unwrap();
            assert!(!detour.is_answered(&mut greeted), "{said:?}");
            assert_eq!(reached(&detour, &[straight]), Some(at));
            assert!(detour.taken().unwrap().starts_with(&straight.to_string()));
            // One that is connected there later has nobody's answer either.
            assert!(!detour.is_answered(&mut greeted), "{said:?}");
        }
    }

    #[test]
    fn a_stream_whose_answer_is_late_goes_on_where_another_one_was_answered() {
        let (others, other) = listener();
        let (detour, straight) = (beside(other, None), closed());
        let connected = detour.connect(&[straight], &SocketPlan::default(), &GO_ON);
        let Ok(Found::Other(Some(late), _)) = connected else {
            panic!("{connected:?}");
        };
        let (dialler, acceptor) = keys();
        let mut late = dialler.dial(late, GREETING).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| detour.is_answered(&mut late));
            thread::sleep(ALONE);
            let answered = TcpStream::connect(other).unwrap();
            let mut answered = dialler.dial(answered, GREETING).unwrap();
            let mut there = others.incoming().nth(1).unwrap().unwrap();
            let (mut greeting, mut opening) = ([0; GREETING.len()], [0; OPENING_BYTES]);
            there.read_exact(&mut greeting).unwrap();
            there.read_exact(&mut opening).unwrap();
            let checked = acceptor.check(&greeting, &opening).unwrap();
            let _far = checked.go_on(there).unwrap();
            assert!(detour.is_answered(&mut answered));
            assert!(waiting.join().unwrap());
        });
        assert_eq!(detour.other().unwrap().0, other);
    }

    #[test]
    fn nobody_dials_the_other_family_once_the_copy_has_ended() {
        let (_full, _far, dropped) = dropping();
        let (others, other) = listener();
        others.set_nonblocking(true).unwrap();
        let detour = beside(other, None);
        let stopped = AtomicBool::new(true);
        let connected = detour.connect(&[dropped], &SocketPlan::default(), &stopped);
        assert!(matches!(connected, Err(Error::Stopped)), "{connected:?}");
        drop(detour);
        thread::sleep(2 * ALONE);
        assert!(others.accept().is_err());
    }
}
