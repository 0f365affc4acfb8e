//! The other family of addresses: IPv6 where ssh reached the far host by IPv4, and the other way round.
//!
//! The far end listens at one address of each. The near end dials the one that ssh has used, and the other one a
//! quarter of a second later or when the first one refuses (after RFC 8305).

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use howdah_tcp::{Bound, Error, Patience, SocketPlan, bind, connect_first};
use howdah_wire::FarHello;
use nix::ifaddrs::getifaddrs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connect::setup::{TRY_AGAIN_AFTER, unplanned};
use crate::end::abort::lock;
use crate::streams::stream::Stream;
use crate::tls::TlsStream;

/// The first family is alone for this long (RFC 8305 §5).
const ALONE: Duration = Duration::from_millis(250);
/// The other family is given up after this long and two round trips.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(1250);
/// A stream that is greeted is answered within this time and three round trips, or somebody else has answered.
const PROVEN_WITHIN: Duration = Duration::from_secs(2);

/// The port at this host's address of the other family than `own`, on the same interface. `None` where it has none,
/// or the port is taken there.
pub fn reserve_beside(own: IpAddr, port: u16) -> Option<(IpAddr, Bound)> {
    let own = own.to_canonical();
    let all: Vec<(String, IpAddr)> = getifaddrs()
        .ok()?
        .filter_map(|each| {
            let address = each.address?;
            let v4 = address.as_sockaddr_in().map(|v4| v4.ip().into());
            let ip = v4.or_else(|| address.as_sockaddr_in6().map(|v6| v6.ip().into()))?;
            Some((each.interface_name, ip))
        })
        .collect();
    let (interface, _) = all.iter().find(|(_, ip)| *ip == own)?;
    let beside = all.iter().find(|(name, ip)| {
        name == interface && ip.is_ipv4() != own.is_ipv4() && means_the_same_elsewhere(*ip)
    });
    let &(_, ip) = beside?;
    let bound = bind(SocketAddr::new(ip, port), &unplanned()).ok()?;
    Some((ip, bound))
}

fn means_the_same_elsewhere(ip: IpAddr) -> bool {
    let link_local = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
    };
    !(link_local || ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

/// The addresses of a far end's data port, best first.
#[derive(Debug, Default, PartialEq)]
pub struct Addresses {
    /// Those of the family by which ssh has reached the far host.
    pub first: Vec<SocketAddr>,
    /// Those of the other one.
    pub other: Vec<SocketAddr>,
}

impl Addresses {
    /// What the name `data_address` leads to, by which ssh reaches the far host; without one, the first address that the
    /// far end has told, and no name. What cannot be resolved here is left out. An address of the other family that the
    /// far end alone tells counts only where streams are `encrypted`: a key proves then who answers there.
    pub fn of(data_address: Option<&str>, hello: &FarHello, encrypted: bool) -> Self {
        let at = |ip: IpAddr| SocketAddr::new(ip, hello.port);
        let ip = |text: &String| text.split('%').next()?.parse::<IpAddr>().ok();
        let by_ssh = hello.addresses.first().and_then(ip);
        let by_ssh = by_ssh.map(|ip| ip.to_canonical());
        let told: Vec<_> = hello.addresses.iter().filter_map(ip).map(at).collect();
        let mut all: Vec<SocketAddr> = match data_address {
            Some(name) => {
                let resolved = (name, hello.port).to_socket_addrs();
                resolved.into_iter().flatten().collect()
            }
            // Loopback behind a jump host is not this host's.
            None => {
                let usable = by_ssh.filter(|ip| means_the_same_elsewhere(*ip));
                usable.map(at).into_iter().collect()
            }
        };
        let is_other =
            |each: &SocketAddr, than: IpAddr| each.ip().to_canonical().is_ipv4() != than.is_ipv4();
        if let Some(by_ssh) = by_ssh {
            all.sort_by_key(|each| (is_other(each, by_ssh), each.ip().to_canonical() != by_ssh));
        }
        let Some(family) = all.first().map(|each| each.ip().to_canonical()) else {
            return Self::default();
        };
        let (mut other, first): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|each| is_other(each, family));
        other.sort_by_key(|each| !told.contains(each));
        let mut only_told = told.into_iter().filter(|each| {
            encrypted && is_other(each, family) && means_the_same_elsewhere(each.ip())
        });
        // A far end tells one; others would be there to have this host look for ports.
        let more = only_told.next().filter(|each| !other.contains(each));
        other.extend(more);
        Self { first, other }
    }
}

/// The attempt to reach the far end at its addresses of the other family, one for a session.
pub struct OtherFamily {
    addresses: Vec<SocketAddr>,
    round_trip: Duration,
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
    /// A stream has been answered there.
    proven: AtomicBool,
    /// Who answers there is not the far end.
    wrong: AtomicBool,
}

#[derive(Default)]
struct State {
    begun: bool,
    /// When it was wanted at once.
    wanted: Option<Instant>,
    /// What came of it: the address that answered, or none.
    found: Option<Option<SocketAddr>>,
    /// The connection that was made, until a stream takes it.
    socket: Option<TcpStream>,
}

impl OtherFamily {
    /// An attempt that has not begun; `None` without an address.
    pub fn new(addresses: Vec<SocketAddr>, round_trip: Duration) -> Option<Arc<Self>> {
        (!addresses.is_empty()).then(|| {
            Arc::new(Self {
                addresses,
                round_trip,
                state: Mutex::default(),
                changed: Condvar::new(),
                stop: AtomicBool::new(false),
                proven: AtomicBool::new(false),
                wrong: AtomicBool::new(false),
            })
        })
    }

    /// Begins, once: with the connection a moment later, unless it is wanted earlier or no more.
    pub fn begin(self: &Arc<Self>, plan: &SocketPlan) {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.begun, true) {
            return;
        }
        let (own, plan) = (Arc::clone(self), plan.clone());
        let spawned = thread::Builder::new()
            .name("howdah-other".into())
            .spawn(move || own.run(&plan));
        if spawned.is_err() {
            state.found = Some(None);
        }
    }

    fn run(&self, plan: &SocketPlan) {
        let state = lock(&self.state);
        let waited = self.changed.wait_timeout_while(state, ALONE, |state| {
            state.wanted.is_none() && !self.stop.load(Ordering::Relaxed)
        });
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let began = *state.wanted.get_or_insert_with(Instant::now);
        drop(state);
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        let found = self.connect(plan, began + GIVEN_UP_AFTER + 2 * self.round_trip);
        let mut state = lock(&self.state);
        // Who is closed by now has no use for a connection.
        let found = found.filter(|_| !self.stop.load(Ordering::Relaxed));
        state.found = Some(found.as_ref().and_then(|socket| socket.peer_addr().ok()));
        state.socket = found;
        self.changed.notify_all();
    }

    /// A far end opens its port when it has been greeted, so one that refuses is tried again.
    fn connect(&self, plan: &SocketPlan, until: Instant) -> Option<TcpStream> {
        let mut pause = TRY_AGAIN_AFTER;
        loop {
            let patience = Patience {
                timeout: until.saturating_duration_since(Instant::now()),
                stop: &self.stop,
            };
            match connect_first(&self.addresses, plan, patience) {
                Ok(socket) => return Some(socket),
                Err(Error::Connect { source, .. })
                    if source.kind() == ErrorKind::ConnectionRefused
                        && Instant::now() + pause < until
                        && !self.stop.load(Ordering::Relaxed) =>
                {
                    thread::sleep(pause);
                    pause *= 2;
                }
                Err(_) => return None,
            }
        }
    }

    /// Has the connection begun at once.
    pub fn want(&self) {
        lock(&self.state).wanted.get_or_insert_with(Instant::now);
        self.changed.notify_all();
    }

    /// Ends the attempt: the streams take another way.
    pub fn close(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let mut state = lock(&self.state);
        state.socket = None;
        state.found.get_or_insert(None);
        self.changed.notify_all();
    }

    /// The address that has answered by now.
    pub fn reached(&self) -> Option<SocketAddr> {
        match self.is_wrong() {
            true => None,
            false => lock(&self.state).found.flatten(),
        }
    }

    /// The same; waits for the answer until so long after the connection was wanted.
    pub fn reached_within(&self, timeout: Duration) -> Option<SocketAddr> {
        self.want();
        let state = lock(&self.state);
        let since = state.wanted.unwrap_or_else(Instant::now);
        let left = (since + timeout).saturating_duration_since(Instant::now());
        let waited = self
            .changed
            .wait_timeout_while(state, left, |state| state.found.is_none());
        drop(waited);
        self.reached()
    }

    /// The connection that was made, for the first stream that asks.
    pub fn take(&self) -> Option<TcpStream> {
        lock(&self.state).socket.take()
    }

    /// Whether who has been greeted on a connection there is the far end: it proves that it has the key. One stream shows
    /// it for all.
    pub fn proves(&self, stream: &TlsStream) -> bool {
        if self.proven.load(Ordering::Relaxed) {
            return true;
        }
        let until = Instant::now() + PROVEN_WITHIN + 3 * self.round_trip;
        let socket = stream.socket();
        let answered = loop {
            let left = until.saturating_duration_since(Instant::now());
            let waits = Timespec::try_from(left).unwrap_or_default();
            let _ = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&waits));
            match stream.is_answered() {
                Some(answered) => break answered,
                None if left.is_zero() => break false,
                None => thread::sleep(TRY_AGAIN_AFTER),
            }
        };
        // Another stream may have been answered meanwhile.
        self.proven.fetch_or(answered, Ordering::Relaxed) || answered
    }

    /// Notes that somebody else has answered there.
    pub fn note_wrong(&self) {
        self.wrong.store(true, Ordering::Relaxed);
    }

    /// Whether somebody else has.
    pub fn is_wrong(&self) -> bool {
        self.wrong.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(addresses: &[&str]) -> FarHello {
        FarHello {
            version: String::new(),
            key: Vec::new(),
            token: [0; 32],
            limits_json: Vec::new(),
            addresses: addresses.iter().map(|&each| each.to_owned()).collect(),
            port: 9,
            rtt_ns: None,
        }
    }

    #[test]
    fn the_family_that_ssh_has_used_is_first_and_what_is_told_of_the_other_counts_with_a_key() {
        let told = hello(&["192.0.2.7", "2001:db8::7"]);
        for (name, encrypted, first, other) in [
            (Some("192.0.2.7"), true, "192.0.2.7:9", "[2001:db8::7]:9"),
            (None, true, "192.0.2.7:9", "[2001:db8::7]:9"),
            (Some("192.0.2.7"), false, "192.0.2.7:9", ""),
            // Behind a translator of addresses, ssh's own is not what the far end sees.
            (
                Some("198.51.100.1"),
                true,
                "198.51.100.1:9",
                "[2001:db8::7]:9",
            ),
        ] {
            let found = Addresses::of(name, &told, encrypted);
            let shown =
                |all: &[SocketAddr]| all.iter().map(ToString::to_string).collect::<String>();
            assert_eq!(
                (shown(&found.first), shown(&found.other)),
                (first.into(), other.into())
            );
        }
        for elsewhere in [
            "127.0.0.1",
            "169.254.0.7",
            "224.0.0.7",
            "0.0.0.0",
            "fe80::7",
            "far.example",
        ] {
            let told = hello(&["2001:db8::7", elsewhere]);
            assert_eq!(Addresses::of(None, &told, true).other, []);
        }
        assert_eq!(Addresses::of(Some(""), &told, true), Addresses::default());
    }

    #[test]
    fn what_a_far_end_alone_tells_is_no_name_and_no_address_that_means_this_host() {
        let means_here = [
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "169.254.0.7",
            "fe80::7%1",
            "localhost",
        ];
        for first in means_here {
            let told = hello(&[first, "192.0.2.7"]);
            for encrypted in [true, false] {
                let found = Addresses::of(None, &told, encrypted);
                assert_eq!(found, Addresses::default(), "{first}");
            }
        }
    }

    #[test]
    fn loopback_has_no_address_that_means_the_same_elsewhere() {
        assert!(reserve_beside([127, 0, 0, 1].into(), 0).is_none());
        assert!(reserve_beside([192, 0, 2, 7].into(), 0).is_none());
    }
}
