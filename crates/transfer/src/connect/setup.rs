//! How data streams are set up. The near end connects. The far end accepts the peers that prove that they belong to
//! the session.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use howdah_tcp::{Bound, Info, Settings, SocketPlan, bind, bind_within, tune_again};
use howdah_wire::{Connection, Direction, Side, StreamPlan};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::connect::ahead::Ahead;
use crate::connect::detour::Detour;
use crate::connect::dial::{Dialling, dial_all};
use crate::connect::near_port::{Caller, Listening};
use crate::connect::pending::{PendingPeers, ProvenPeer};
use crate::end::abort::lock;
use crate::end::context::Context;
use crate::end::spent::{self, OTHERS_MEASURE, SENDER_MEASURES};
use crate::error::TransferError;
use crate::session::control::Event;
use crate::streams::plain::PlainStream;
use crate::streams::stream::{Stream, StreamError};
use crate::tls::SessionKeys;

/// Unsent bytes that a socket takes at first. With more, blocks are given to streams too early.
pub(crate) const NOTSENT_LOWAT_BYTES: u32 = 512 * 1024;
/// How long a connection may take. At the accepting end, that includes its proof that it belongs to the session.
pub(crate) const SETUP_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the far end waits for the next stream before it looks again.
const ACCEPT_GLANCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Connections that are accepted before those that wait are looked at again.
const ACCEPTED_AT_ONCE: usize = 64;
/// The pause before the next try.
pub(crate) const TRY_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// A connection on which nothing comes is asked after this time,
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(2);
/// as often as this and more than one round trip apart,
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(1);
/// and has gone after so many questions without an answer.
const KEEP_ALIVE_TIMES: u32 = 3;
/// The window scale is chosen before the job, and its buffer, are known (RFC 7323 §2.3): by the
/// listener's buffer, for which this is enough (see [`tune_again`]),
const LISTENER_BUFFER_BYTES: u64 = 1 << 29;
/// and by its largest window. This gives scale 11: windows up to 134 MB, in steps of 2 KiB.
const LISTENER_WINDOW_BYTES: u64 = 1 << 27;

/// The work on one connection of a stream. If it ends without an error, the whole stream was taken.
pub type Work =
    dyn Fn(&Arc<Context>, Connection, &mut dyn Stream) -> Result<(), TransferError> + Send + Sync;

/// How the data streams of one end are connected.
pub enum StreamSetup {
    /// They are connected to the far end.
    Connect {
        /// Addresses to try, best first.
        addresses: Vec<SocketAddr>,
        /// Another way, in case a firewall is in between.
        detour: Option<Detour>,
        /// What each stream shows.
        token: [u8; 32],
        /// Encryption, unless they are plaintext.
        keys: Option<SessionKeys>,
        /// The connections that were made ahead.
        ahead: Ahead,
    },
    /// They are accepted.
    Accept {
        /// Where they arrive.
        listeners: Vec<TcpListener>,
        /// The connections that have not proved yet that they belong to the session.
        pending: PendingPeers,
        /// The near end's address, to which this end may connect instead if the near end asks for it.
        near: Option<NearEnd>,
    },
}

/// A near end to which the far end may connect.
pub struct NearEnd {
    /// The address that ssh came from.
    pub address: IpAddr,
    /// Encryption, unless they are plaintext.
    pub keys: Option<SessionKeys>,
}

/// Reserves a port for the data streams of one session, from a range if one is given, at the address that ssh
/// connected to. If that is no address of this host, because of address translation, the port is on all addresses of
/// its family.
///
/// # Errors
/// When the kernel gives no port.
pub fn reserve(at: SocketAddr, ports: Option<RangeInclusive<u16>>) -> Result<Bound, TransferError> {
    let plan = unplanned();
    let any: SocketAddr = match at {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let bind = |at| match &ports {
        Some(ports) => bind_within(at, ports.clone(), &plan),
        None => bind(at, &plan),
    };
    match bind(at) {
        Err(howdah_tcp::Error::Listen { source, .. })
            if source.kind() == ErrorKind::AddrNotAvailable =>
        {
            bind(any)
        }
        other => other,
    }
    .map_err(|error| match (error, ports) {
        (howdah_tcp::Error::Listen { source, .. }, Some(ports))
            if source.kind() == ErrorKind::AddrInUse =>
        {
            let (first, last) = (ports.start(), ports.end());
            let taken = match first == last {
                true => format!("port {first} is not free"),
                false => format!("no port of {first}-{last} is free"),
            };
            TransferError::Here(format!(
                "{taken} for the data streams; end another copy, or have a wider range"
            ))
        }
        (error, _) => TransferError::Here(error.to_string()),
    })
}

/// How sockets are set up before there is a plan. [`set_up`] does the rest.
pub(crate) fn unplanned() -> SocketPlan {
    SocketPlan {
        buffer_bytes: Some(LISTENER_BUFFER_BYTES),
        window_bytes: Some(LISTENER_WINDOW_BYTES),
        ..SocketPlan::default()
    }
}

/// Sets up, by its plan, a socket that was connected before there was a plan.
///
/// # Errors
/// When the kernel refuses a setting. It would refuse it for every stream.
pub(crate) fn set_up(socket: BorrowedFd<'_>, plan: &SocketPlan) -> Result<(), TransferError> {
    let set_up = plan.apply(socket).and_then(|()| match plan.buffer_bytes {
        Some(_) => Ok(()),
        None => tune_again(socket),
    });
    set_up.map_err(|error| TransferError::Here(error.to_string()))
}

/// How sockets of a plan are set up; `sends` says whether payload leaves through them.
fn socket_plan(plan: &StreamPlan, sends: bool) -> SocketPlan {
    SocketPlan {
        congestion_control: plan.congestion_control.clone().filter(|_| sends),
        buffer_bytes: plan.buffer_bytes,
        window_bytes: plan.buffer_bytes.filter(|_| !sends),
        pacing_bps: plan.pacing_bps.filter(|_| sends),
        notsent_lowat_bytes: Some(NOTSENT_LOWAT_BYTES),
    }
}

impl StreamSetup {
    /// Opens the streams of the job's plan. Each does `work` on a thread of its own, and then reports
    /// [`Event::StreamDone`].
    ///
    /// # Errors
    /// When the system has no thread left. Everything later becomes an event.
    pub fn open(
        self,
        context: &Arc<Context>,
        sends: bool,
        work: Arc<Work>,
    ) -> Result<(), TransferError> {
        let plan = socket_plan(&context.job.plan, sends);
        match self {
            Self::Connect {
                addresses,
                detour,
                token,
                keys,
                ahead,
            } => {
                let dialling = Arc::new(Dialling {
                    addresses,
                    detour,
                    token,
                    keys,
                    ahead: Mutex::new(ahead),
                    plan,
                });
                dial_all(context, &dialling, &work)
            }
            Self::Accept {
                listeners,
                pending,
                near,
            } => {
                *lock(&context.caller) = near.map(|near| Caller {
                    near: near.address,
                    port: None,
                    keys: near.keys,
                    plan: plan.clone(),
                    work: Arc::clone(&work),
                });
                accept(context, Listening { listeners, pending }, plan, work)
            }
        }
    }
}

/// Accepts streams on a port as long as any may come.
///
/// # Errors
/// When the system has no thread left. Everything later becomes an event.
pub(crate) fn accept(
    context: &Arc<Context>,
    listening: Listening,
    plan: SocketPlan,
    work: Arc<Work>,
) -> Result<(), TransferError> {
    let Listening { listeners, pending } = listening;
    let admission = Admission { plan, work };
    context.spawn("howdah-accept", move |context| {
        accept_streams(context, &listeners, pending, &Arc::new(admission))
    })
}

/// Does the work on a connection, once the connection that its stream had before has ended.
pub(crate) fn run(
    context: &Arc<Context>,
    connection: Connection,
    stream: &mut dyn Stream,
    work: &Work,
) -> Result<(), TransferError> {
    let _turn = context.connections.work(connection.stream);
    if context.connections.has_failed(connection.stream) {
        // What ended the connection before this one ends the transfer, too.
        context.abort.close(connection);
        return Ok(());
    }
    let first = connection.stream == 0 && connection.incarnation == 0;
    if first && lock(&context.board.notes).detour.is_none() {
        warn_of_shortfall(context, stream);
    }
    keep_alive(stream.socket());
    context.tuning.join(stream.socket());
    stream.limited_by(Arc::clone(&context.limiter));
    let sends = (context.job.direction == Direction::Push) == (context.side == Side::Near);
    let measures = if sends {
        SENDER_MEASURES
    } else {
        OTHERS_MEASURE
    };
    let booked = spent::begin(context.books.of(connection.stream), measures);
    let outcome = work(context, connection, stream);
    drop(booked);
    if let Err(error) = &outcome {
        if !matches!(error, TransferError::Lost(_)) {
            // Before the other end can see that this connection has gone, and dials another.
            context.connections.note_failed(connection.stream);
        }
        context.abort.hang_up(connection);
    }
    context.abort.close(connection);
    outcome?;
    context.connections.note_done(connection.stream);
    let _ = context.events.send(Event::StreamDone);
    Ok(())
}

/// Has the kernel ask now and then whether the other end of a connection is there, on which this end may
/// have nothing to say for long. So one that only receives also sees that the path is out.
fn keep_alive(socket: BorrowedFd<'_>) {
    let round_trip = Info::read(socket).ok().and_then(|info| info.rtt);
    let every = KEEP_ALIVE_EVERY + Duration::from_secs(round_trip.unwrap_or_default().as_secs());
    ask_after(socket, KEEP_ALIVE_AFTER, every);
}

/// Makes the kernel send keepalives on a connection that has been silent for `after`, and then at the interval
/// `every`, until the other end is considered gone.
pub(crate) fn ask_after(socket: BorrowedFd<'_>, after: Duration, every: Duration) {
    // A socket that refuses goes without.
    let _ = sockopt::set_socket_keepalive(socket, true)
        .and_then(|()| sockopt::set_tcp_keepidle(socket, after))
        .and_then(|()| sockopt::set_tcp_keepintvl(socket, every))
        .and_then(|()| sockopt::set_tcp_keepcnt(socket, KEEP_ALIVE_TIMES));
}

/// Has the user know when this host grants smaller buffers than the plan has.
fn warn_of_shortfall(context: &Context, stream: &dyn Stream) {
    let job = &context.job;
    let sends = (job.direction == Direction::Push) == (context.side == Side::Near);
    let plan = socket_plan(&job.plan, sends);
    if let Ok(granted) = Settings::read(stream.socket())
        && let Some(short) = plan.shortfall(&granted, sends)
    {
        context.warn(short);
    }
}

struct Admission {
    plan: SocketPlan,
    work: Arc<Work>,
}

/// Accepts connections until all has been taken: one that breaks is replaced.
fn accept_streams(
    context: &Arc<Context>,
    listeners: &[TcpListener],
    mut pending: PendingPeers,
    admission: &Arc<Admission>,
) -> Result<(), TransferError> {
    let here = |error: std::io::Error| TransferError::Here(error.to_string());
    for listener in listeners {
        listener.set_nonblocking(true).map_err(here)?;
        let another = listener.as_fd().try_clone_to_owned().map_err(here)?;
        context.abort.listens(another);
    }
    loop {
        wait_for_peers(listeners, &pending).map_err(|error| here(error.into()))?;
        if context.abort.settled() || context.abort.stopping() {
            break;
        }
        let now = Instant::now();
        for listener in listeners {
            for _ in 0..ACCEPTED_AT_ONCE {
                match listener.accept() {
                    Ok((socket, from)) => pending.take(socket, from, now + SETUP_TIMEOUT),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // It broke before it was accepted, or this process has no descriptor left for it.
                    Err(_) => thread::sleep(TRY_AGAIN_AFTER),
                }
            }
        }
        for peer in pending.sort_out(now) {
            // Who only plays back what another connection has sent does not get further.
            if !context.connections.claim(peer.connection) {
                continue;
            }
            let admission = Arc::clone(admission);
            context.spawn("howdah-stream", move |context| {
                set_up(peer.socket.as_fd(), &admission.plan)?;
                let connection = peer.connection;
                let outcome = admit(context, peer).and_then(|mut opened| {
                    run(context, connection, &mut *opened, &*admission.work)
                });
                match outcome {
                    // The other end dials again.
                    Err(TransferError::Lost(_)) => Ok(()),
                    outcome => outcome,
                }
            })?;
        }
    }
    Ok(())
}

/// Waits until somebody connects or says something, a moment at most.
fn wait_for_peers(listeners: &[TcpListener], pending: &PendingPeers) -> Result<(), Errno> {
    let listening = listeners.iter();
    let mut polled: Vec<_> = listening
        .map(|each| PollFd::new(each, PollFlags::IN))
        .collect();
    polled.extend(
        pending
            .sockets()
            .map(|socket| PollFd::new(socket, PollFlags::IN)),
    );
    match poll(&mut polled, Some(&ACCEPT_GLANCE)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Goes on with a connection that is of this session.
fn admit(context: &Context, peer: ProvenPeer) -> Result<Box<dyn Stream>, TransferError> {
    let ProvenPeer {
        connection,
        socket,
        checked,
    } = peer;
    let duplicate = duplicate(&socket)?;
    let opened: Box<dyn Stream> = match checked {
        Some(checked) => Box::new(checked.go_on(socket)?),
        None => Box::new(PlainStream::new(socket)),
    };
    if connection.incarnation > 0 {
        lock(&context.board.notes).replaced += 1;
    }
    context.abort.register(connection, duplicate);
    Ok(opened)
}

pub(crate) fn duplicate(socket: impl AsFd) -> Result<OwnedFd, TransferError> {
    Ok(socket
        .as_fd()
        .try_clone_to_owned()
        .map_err(StreamError::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn a_port_is_open_at_the_address_of_ssh_and_nowhere_else() {
        let bound = reserve(([127, 0, 0, 2], 0).into(), None).unwrap();
        let at = |last| SocketAddr::from(([127, 0, 0, last], bound.port()));
        let (own, other) = (at(2), at(1));
        assert!(TcpStream::connect(own).is_err());
        let listener = bound.listen().unwrap();
        assert!(TcpStream::connect(own).is_ok());
        let refused = TcpStream::connect(other).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        drop(listener);
    }

    #[test]
    fn a_port_of_a_range_is_taken_until_none_is_free() {
        let at: SocketAddr = ([127, 0, 0, 3], 0).into();
        let ports = 46_210..=46_212;
        let mut bound: Vec<_> = (0..3)
            .map(|_| reserve(at, Some(ports.clone())).unwrap())
            .collect();
        let mut found: Vec<_> = bound.iter().map(Bound::port).collect();
        found.sort_unstable();
        assert_eq!(found, [46_210, 46_211, 46_212]);
        let full = reserve(at, Some(ports.clone())).unwrap_err().to_string();
        assert!(full.starts_with("no port of 46210-46212 is free"), "{full}");
        let one = reserve(at, Some(46_211..=46_211)).unwrap_err().to_string();
        assert!(
            one.starts_with("port 46211 is not free for the data streams"),
            "{one}"
        );
        // Another host of the same name has its own; here, a port that is given back is found.
        let given_back = bound.pop().unwrap().port();
        assert_eq!(reserve(at, Some(ports)).unwrap().port(), given_back);
    }

    #[test]
    fn a_port_with_a_connection_in_time_wait_serves_again() {
        let at: SocketAddr = ([127, 0, 0, 4], 0).into();
        let ports = 46_220..=46_220;
        for _ in 0..2 {
            let listener = reserve(at, Some(ports.clone())).unwrap().listen().unwrap();
            let near = TcpStream::connect(SocketAddr::from(([127, 0, 0, 4], 46_220))).unwrap();
            // The end that closes first keeps the connection in TIME_WAIT.
            drop(listener.accept().unwrap());
            drop(near);
        }
    }

    #[test]
    fn an_address_that_is_not_this_hosts_is_served_at_all_of_its_family() {
        // TEST-NET-1 (RFC 5737) is nobody's.
        let bound = reserve(([192, 0, 2, 1], 0).into(), None).unwrap();
        let port = bound.port();
        let listener = bound.listen().unwrap();
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        assert!(TcpStream::connect((Ipv6Addr::LOCALHOST, port)).is_err());
        drop(listener);
    }
}
