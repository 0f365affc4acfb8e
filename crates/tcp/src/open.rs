//! Connections opened and accepted with a plan in place before the first packet.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    io::{self, ErrorKind},
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    ops::RangeInclusive,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{self, AddressFamily, Shutdown, SocketFlags, SocketType, sockopt},
};

use crate::{Error, SocketPlan};

/// How long a wait looks away from the stop flag.
const GLANCE: Duration = Duration::from_millis(50);
/// Pause before the next address is tried beside the last (RFC 8305 §5).
const STAGGER: Duration = Duration::from_millis(250);
/// Connections the kernel keeps ready before [`accept`] takes them.
const BACKLOG: i32 = 1024;

/// How long to wait, and what ends the wait early.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// Longest wait.
    pub timeout: Duration,
    /// The wait ends with [`Error::Stopped`] soon after this turns true.
    pub stop: &'a AtomicBool,
}

/// Opens one connection to whichever address answers first, tried in order, a quarter of a second
/// apart or as soon as one fails.
///
/// # Errors
/// The failure of the first address when all fail.
pub fn connect_first(
    addresses: &[SocketAddr],
    plan: &SocketPlan,
    patience: Patience<'_>,
) -> Result<TcpStream, Error> {
    connect(addresses, plan, patience, None)
}

/// The same over a path that is out: after each `every` another connection is begun beside the ones that wait.
/// Their kernel waits twice as long after each SYN, so that it may notice late that the path is back. The first
/// one stays to the end, for a path whose round trip is longer than `every`; of the others the newest two.
///
/// # Errors
/// As [`connect_first`].
pub fn connect_again(
    addresses: &[SocketAddr],
    plan: &SocketPlan,
    patience: Patience<'_>,
    every: Duration,
) -> Result<TcpStream, Error> {
    connect(addresses, plan, patience, Some(every))
}

fn connect(
    addresses: &[SocketAddr],
    plan: &SocketPlan,
    patience: Patience<'_>,
    every: Option<Duration>,
) -> Result<TcpStream, Error> {
    let mut attempts = Attempts::new(patience);
    let mut first_failure = None;
    let mut rest = addresses.iter();
    let mut next_at = Instant::now();
    let mut again_at = every.map(|every| next_at + every);
    loop {
        if let (Some(at), Some(every)) = (again_at, every)
            && rest.as_slice().is_empty()
            && Instant::now() >= at
        {
            rest = addresses.iter();
            again_at = Some(at + every);
            attempts.keep_first_and_newest(addresses.len());
        }
        while attempts.pending.is_empty() || Instant::now() >= next_at {
            let Some(&to) = rest.next() else { break };
            match Attempt::begin(to, plan) {
                Ok(attempt) => {
                    attempts.pending.push(attempt);
                    next_at = Instant::now() + STAGGER;
                }
                Err(error) => {
                    first_failure.get_or_insert(error);
                }
            }
        }
        if attempts.pending.is_empty() {
            return Err(first_failure.unwrap_or(Error::NoAddress));
        }
        if Instant::now() >= attempts.deadline {
            return Err(first_failure.unwrap_or_else(|| attempts.unanswered()));
        }
        let until = if rest.as_slice().is_empty() {
            again_at.unwrap_or(attempts.deadline)
        } else {
            next_at
        };
        let (done, failed) = attempts.wait(until.min(attempts.deadline))?;
        if let Some(stream) = done.into_iter().next() {
            return Ok(stream);
        }
        for error in failed {
            first_failure.get_or_insert(error);
            next_at = Instant::now();
        }
    }
}

/// A port that is reserved and on which nobody can connect yet.
#[derive(Debug)]
pub struct Bound {
    socket: OwnedFd,
    at: SocketAddr,
}

impl Bound {
    /// The port.
    pub fn port(&self) -> u16 {
        self.at.port()
    }

    /// Closes a port that was reserved by its number, and keeps it reserved. Its connections stay.
    ///
    /// # Errors
    /// [`Error::Listen`] when the kernel refuses.
    pub fn close(listener: TcpListener) -> Result<Self, Error> {
        let failed = |source| Error::Listen {
            at: (Ipv6Addr::UNSPECIFIED, 0).into(),
            source,
        };
        let at = listener.local_addr().map_err(failed)?;
        // What listens stops to by this, and is bound as before (`inet_shutdown`, net/ipv4/af_inet.c), unless the kernel
        // has chosen its port (`tcp_set_state`, net/ipv4/tcp.c).
        net::shutdown(&listener, Shutdown::Read).map_err(|errno| failed(errno.into()))?;
        Ok(Self {
            socket: listener.into(),
            at,
        })
    }

    /// Opens the port.
    ///
    /// # Errors
    /// [`Error::Listen`] when the kernel refuses.
    pub fn listen(self) -> Result<TcpListener, Error> {
        let Self { socket, at } = self;
        let failed = |errno: Errno| Error::Listen {
            at,
            source: errno.into(),
        };
        net::listen(&socket, BACKLOG).map_err(failed)?;
        // Its connections inherit this, so that those in TIME_WAIT do not block the port for who allows it. A
        // socket that listens shares its port with nobody.
        sockopt::set_socket_reuseaddr(&socket, true).map_err(failed)?;
        Ok(socket.into())
    }
}

/// Reserves a port; 0 has the kernel choose one. Nobody else can reserve it beside this one.
///
/// # Errors
/// [`Error::Listen`] when the address is not this host's or the port is taken.
pub fn bind(at: SocketAddr, plan: &SocketPlan) -> Result<Bound, Error> {
    // Two that allow it could both reserve a port on which neither listens yet.
    bind_as(at, plan, at.port() != 0)
}

/// Reserves a port of a range, at an address whose own port counts for nothing. The first one to be tried
/// is drawn, so that many sessions that begin at once seldom meet.
///
/// # Errors
/// [`Error::Listen`] when the address is not this host's or every port of the range is taken.
pub fn bind_within(
    at: SocketAddr,
    ports: RangeInclusive<u16>,
    plan: &SocketPlan,
) -> Result<Bound, Error> {
    let (least, count) = (
        *ports.start(),
        u64::try_from(ports.len()).unwrap_or(1).max(1),
    );
    let drawn = RandomState::new().hash_one(()) % count;
    let mut taken = None;
    // Connections of an earlier session that are in TIME_WAIT block a port for all that do not allow it. One
    // that allows it may meet another that does, so such ports come last.
    for reuse in [false, true] {
        for step in 0..count {
            let offset = u16::try_from((drawn + step) % count).unwrap_or(0);
            // The scope of an IPv6 address stays.
            let mut at = at;
            at.set_port(least + offset);
            match bind_as(at, plan, reuse) {
                Err(Error::Listen { at, source }) if source.kind() == ErrorKind::AddrInUse => {
                    taken = Some(Error::Listen { at, source });
                }
                other => return other,
            }
        }
    }
    Err(taken.unwrap_or(Error::NoAddress))
}

fn bind_as(at: SocketAddr, plan: &SocketPlan, reuse: bool) -> Result<Bound, Error> {
    let failed = |errno: Errno| Error::Listen {
        at,
        source: errno.into(),
    };
    let socket = new_socket(at, SocketFlags::CLOEXEC).map_err(failed)?;
    sockopt::set_socket_reuseaddr(&socket, reuse).map_err(failed)?;
    if at.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        sockopt::set_ipv6_v6only(&socket, false).map_err(failed)?;
    }
    plan.apply(&socket)?;
    net::bind(&socket, &at).map_err(failed)?;
    let bound = net::getsockname(&socket).map_err(failed)?;
    let at = SocketAddr::try_from(bound).map_err(failed)?;
    Ok(Bound { socket, at })
}

/// Listens; port 0 lets the kernel choose. `[::]` takes IPv4 as well.
pub fn listen(at: SocketAddr, plan: &SocketPlan) -> Result<TcpListener, Error> {
    bind(at, plan)?.listen()
}

/// Takes the next connection, set up as its listener was.
pub fn accept(
    listener: &TcpListener,
    patience: Patience<'_>,
) -> Result<(TcpStream, SocketAddr), Error> {
    let at = listener.local_addr().map_err(|source| Error::Read {
        what: "address",
        source,
    })?;
    let deadline = Instant::now() + patience.timeout;
    loop {
        if patience.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let mut polled = [PollFd::new(listener, PollFlags::IN)];
        let failed = |source| Error::Accept { at, source };
        if glance(&mut polled, deadline).map_err(|errno| failed(errno.into()))? {
            match listener.accept() {
                Ok((stream, from)) => return Ok((stream, from)),
                Err(error) if gone_again(&error) => {}
                Err(source) => return Err(failed(source)),
            }
        } else if Instant::now() >= deadline {
            return Err(Error::Unvisited {
                at,
                seconds: patience.timeout.as_secs_f64(),
            });
        }
    }
}

/// Whether a connection broke between its arrival and accept(2), which accept(2) reports.
fn gone_again(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}

/// A connection under way.
struct Attempt {
    socket: OwnedFd,
    to: SocketAddr,
}

impl Attempt {
    fn begin(to: SocketAddr, plan: &SocketPlan) -> Result<Self, Error> {
        let failed = |errno: Errno| Error::Connect {
            to,
            source: errno.into(),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = new_socket(to, flags).map_err(failed)?;
        plan.apply(&socket)?;
        match net::connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self { socket, to }),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// After the socket became writable: connected, or why not.
    fn end(self) -> Result<TcpStream, Error> {
        let to = self.to;
        let failed = |source| Error::Connect { to, source };
        sockopt::socket_error(&self.socket)
            .and_then(|result| result)
            .map_err(|errno| failed(errno.into()))?;
        let stream = TcpStream::from(self.socket);
        stream.set_nonblocking(false).map_err(failed)?;
        Ok(stream)
    }
}

/// Connections under way together.
struct Attempts<'a> {
    pending: Vec<Attempt>,
    patience: Patience<'a>,
    deadline: Instant,
}

impl<'a> Attempts<'a> {
    fn new(patience: Patience<'a>) -> Self {
        Self {
            pending: Vec::new(),
            patience,
            deadline: Instant::now() + patience.timeout,
        }
    }

    /// Gives up those between the first and the newest, of `each` at a time.
    fn keep_first_and_newest(&mut self, each: usize) {
        let newest = self.pending.len().saturating_sub(each);
        if newest > each {
            self.pending.drain(each..newest);
        }
    }

    /// Waits until something has ended, or a while; hands out what has ended well and badly.
    fn wait(&mut self, until: Instant) -> Result<(Vec<TcpStream>, Vec<Error>), Error> {
        if self.patience.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let ready: Vec<bool> = {
            let mut polled: Vec<_> = self
                .pending
                .iter()
                .map(|attempt| PollFd::from_borrowed_fd(fd(attempt), PollFlags::OUT))
                .collect();
            let to = self.pending.first().map(|attempt| attempt.to);
            glance(&mut polled, until).map_err(|errno| match to {
                Some(to) => Error::Connect {
                    to,
                    source: errno.into(),
                },
                None => Error::NoAddress,
            })?;
            polled.iter().map(|fd| !fd.revents().is_empty()).collect()
        };
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        let mut still = Vec::with_capacity(self.pending.len());
        for (attempt, ready) in self.pending.drain(..).zip(ready) {
            if !ready {
                still.push(attempt);
                continue;
            }
            match attempt.end() {
                Ok(stream) => done.push(stream),
                Err(error) => failed.push(error),
            }
        }
        self.pending = still;
        Ok((done, failed))
    }

    fn unanswered(&self) -> Error {
        let mut to: Vec<String> = self
            .pending
            .iter()
            .map(|attempt| attempt.to.to_string())
            .collect();
        to.dedup();
        Error::Unanswered {
            to: to.join(", "),
            seconds: self.patience.timeout.as_secs_f64(),
        }
    }
}

fn fd(attempt: &Attempt) -> BorrowedFd<'_> {
    attempt.socket.as_fd()
}

fn new_socket(address: SocketAddr, flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    net::socket_with(family, SocketType::STREAM, flags, Some(net::ipproto::TCP))
}

/// poll(2) for a short while at most; whether anything is ready.
fn glance(polled: &mut [PollFd<'_>], until: Instant) -> rustix::io::Result<bool> {
    let wait = until.saturating_duration_since(Instant::now()).min(GLANCE);
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: wait.subsec_nanos().into(),
    };
    match poll(polled, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}
