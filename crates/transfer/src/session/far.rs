//! The far end of one transfer.

use std::env;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use howdah_tcp::{Bound, HostLimits, ssh_rtt};
use howdah_wire::{DataPort, Direction, FarHello, Hello, Job, Message, Peer, Sample, Side, Way};

use crate::connect::ahead::{Ahead, Opened, OwnPort};
use crate::connect::other_family::reserve_beside;
use crate::connect::pending::PendingPeers;
use crate::connect::setup::{NearEnd, SETUP_TIMEOUT, StreamSetup, reserve};
use crate::connect::tried_port::{self, OPENS_WITHIN};
use crate::end::abort::Abort;
use crate::end::context::{Board, Context};
use crate::end::digests::Digests;
use crate::error::TransferError;
use crate::session::control::{Channel, Control, Event, MAX_EVENTS};
use crate::session::liveness::FAR_PATIENCE;
use crate::session::memory::MemoryMark;
use crate::session::site::Site;
use crate::session::{receiver, sender};
use crate::tls::{Identity, SessionKeys};
use crate::tree::expand::expand;
use crate::tree::reach::Reach;
use crate::tree::source::Sources;
use crate::tree::target::{Targets, expand_home};

/// A near end has this long from its start to its job. One that is kept for the next copy is ended
/// earlier by its keeper.
const JOB_WITHIN: Duration = FAR_PATIENCE;
/// A far end that is kept for the next copy looks so often whether its greeting is still true.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Serves one transfer to a [`crate::Session`], which may reach everything that this user may; see [`FarEnd`].
///
/// # Errors
/// Those of [`FarEnd::prepare`] and [`FarEnd::serve`].
pub fn serve(read: OwnedFd, write: OwnedFd) -> Result<(), TransferError> {
    FarEnd::prepare(Site::default())?.serve(read, write, &Reach::default())
}

/// The far end of one transfer, with everything that it needs from this host beside the files. So a process can be
/// confined between [`Self::prepare`] and [`Self::serve`], before it has received anything.
pub struct FarEnd {
    identity: Identity,
    bound: Bound,
    other: Option<Bound>,
    client: IpAddr,
    hello: FarHello,
    site: Site,
}

impl FarEnd {
    /// Reserves a port that the site allows, and reads the limits of this host.
    ///
    /// # Errors
    /// When this host lacks something. No near end is told, because there is none yet.
    pub fn prepare(site: Site) -> Result<Self, TransferError> {
        // Of a process that is not dumpable only root starts the record of the peak afresh.
        let _ = MemoryMark::now();
        prepare(site)
    }

    /// Serves one transfer over two descriptors. Returns when the session has ended, with success or not. SIGTERM,
    /// SIGINT and SIGHUP end it. They stay blocked for this thread.
    ///
    /// # Errors
    /// Why the transfer ended early, or what the site refuses. The near end has been told.
    pub fn serve(self, read: OwnedFd, write: OwnedFd, reach: &Reach) -> Result<(), TransferError> {
        let signals = signal_descriptor()
            .map_err(|error| TransferError::Here(format!("cannot watch signals: {error}")))?;
        let (events, inbox) = mpsc::sync_channel(MAX_EVENTS);
        let mut channel = Channel::open(Side::Far, read, write, Some(signals), events.clone())
            .map_err(|error| TransferError::Here(format!("control channel: {error}")))?;
        let outcome = self.answer(&channel, events, &inbox, reach);
        // It closes the connection of a near end that could not be read: the connection is what was lost.
        if let Err(error) = &outcome
            && !matches!(error, TransferError::Cancelled | TransferError::Silent(_))
        {
            channel.control().say_why(error);
        }
        channel.close();
        outcome
    }

    fn answer(
        self,
        channel: &Channel,
        events: SyncSender<Event>,
        inbox: &Receiver<Event>,
        reach: &Reach,
    ) -> Result<(), TransferError> {
        let token = self.hello.token;
        let greeting = Message::FarHello(Box::new(self.hello));
        let control = channel.control();
        control.say(greeting);
        let try_port = |asked| try_port(&control, reach, self.client, asked);
        let expand = |patterns: Vec<Vec<u8>>| {
            let home = env::var_os("HOME");
            let home = reach.home(home.as_deref().map(OsStrExt::as_bytes));
            let found = expand(&patterns, reach, home).map_err(|error| error.to_string());
            control.say(Message::Expanded(found));
        };
        let limits = limits_to_watch();
        let outdated = || limits_to_watch() != limits;
        let port = OwnPort::new(self.bound, self.other, self.site.ahead.into(), self.client)?;
        let job = wait_for_job(inbox, port, try_port, expand, outdated)?;
        let Some((hello, job, Opened { listeners, ahead })) = job else {
            return Ok(());
        };
        if job.direction == Direction::Push
            && let Some(refusal) = reach.forbids_writing()
        {
            return Err(refusal);
        }
        let (key, from) = match &job.peer {
            None => (&hello.key, self.client),
            Some(Peer { key, way }) => match way {
                Way::Accept { from } => (key, from.to_canonical()),
                Way::Connect { .. } => (key, self.client),
            },
        };
        let keys = job.encrypt.then(|| SessionKeys::agree(&self.identity, key));
        let keys = keys.transpose()?;
        let stream_setup = match &job.peer {
            Some(Peer {
                way: Way::Connect { to, token },
                ..
            }) => {
                if let Some(refusal) = reach.forbids_connecting() {
                    return Err(refusal);
                }
                StreamSetup::Connect {
                    addresses: tried_port::sockets(to),
                    detour: None,
                    token: *token,
                    keys,
                    ahead: Ahead::default(),
                }
            }
            _ => {
                let near = match (&job.peer, reach.forbids_connecting()) {
                    (None, None) => Some(NearEnd {
                        address: self.client,
                        keys: keys.clone(),
                    }),
                    _ => None,
                };
                let mut pending = PendingPeers::new(token, keys, from);
                let until = Instant::now() + SETUP_TIMEOUT;
                for (socket, from) in ahead {
                    pending.take(socket, from, until);
                }
                StreamSetup::Accept {
                    listeners,
                    pending,
                    near,
                }
            }
        };
        self.site.accept(&job)?;
        carry_out(channel, events, inbox, stream_setup, job, &self.site, reach)
    }
}

fn prepare(site: Site) -> Result<FarEnd, TransferError> {
    let identity = Identity::generate()?;
    let ssh = env::var("SSH_CONNECTION").unwrap_or_default();
    let route = SshRoute::of(&ssh);
    let mut bound = reserve(route.server, site.ports.clone())?;
    if site.ahead > 0 && site.ports.is_none() {
        // Only a port that was asked for by its number stays reserved when it is closed again.
        let port = bound.port();
        drop(bound);
        bound = reserve(route.server, Some(port..=port))?;
    }
    let here = |error: &dyn std::fmt::Display| TransferError::Here(error.to_string());
    let port = bound.port();
    let mut addresses = vec![route.name];
    let other = reserve_beside(route.server.ip(), port).map(|(ip, bound)| {
        addresses.push(ip.to_string());
        bound
    });
    let mut token = [0; 32];
    aws_lc_rs::rand::fill(&mut token).map_err(|_| here(&"no entropy for a token"))?;
    let limits = HostLimits::gather().map_err(|error| here(&error))?;
    let rtt = ssh_rtt(&ssh).and_then(|rtt| u64::try_from(rtt.min.as_nanos()).ok());
    let hello = FarHello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        key: identity.public_key().to_vec(),
        token,
        limits_json: serde_json::to_vec(&limits).map_err(|error| here(&error))?,
        addresses,
        port,
        rtt_ns: rtt,
    };
    Ok(FarEnd {
        identity,
        bound,
        other,
        client: route.client,
        hello,
        site,
    })
}

/// The ends of the ssh connection that started this process.
#[derive(Debug, PartialEq)]
struct SshRoute {
    /// The address at which it reached this host; without ssh, loopback. Any port.
    server: SocketAddr,
    /// The same address as ssh writes it.
    name: String,
    /// The address from which it came.
    client: IpAddr,
}

impl SshRoute {
    /// Reads `SSH_CONNECTION`.
    fn of(ssh_connection: &str) -> Self {
        match howdah_tcp::ssh_ends(ssh_connection) {
            Some((mut server, client)) => {
                server.set_port(0);
                let name = ssh_connection.split_whitespace().nth(2).unwrap_or_default();
                Self {
                    server,
                    name: name.to_owned(),
                    client: client.ip(),
                }
            }
            None => Self {
                server: (Ipv4Addr::LOCALHOST, 0).into(),
                name: Ipv4Addr::LOCALHOST.to_string(),
                client: Ipv4Addr::LOCALHOST.into(),
            },
        }
    }
}

/// The port that a near end asks to be tried before its job.
enum Asked {
    /// That of another far end.
    Far(DataPort),
    /// That of the near end itself.
    Near(u16),
}

/// Has a thread try a port, and say what came of it.
fn try_port(
    control: &Control,
    reach: &Reach,
    client: IpAddr,
    asked: Asked,
) -> Result<(), TransferError> {
    if let Some(refusal) = reach.forbids_connecting() {
        control.say(Message::PortTried(Err(refusal.to_string())));
        return Ok(());
    }
    let port = match asked {
        Asked::Far(port) => port,
        Asked::Near(port) => DataPort {
            addresses: vec![client],
            port,
        },
    };
    let control = control.clone();
    let spawned = thread::Builder::new()
        .name("howdah-try".into())
        .spawn(move || {
            let to = tried_port::sockets(&port);
            let tried = tried_port::round_trip(&to, OPENS_WITHIN, &AtomicBool::new(false));
            let tried = tried.and_then(|ns| ns.ok_or_else(|| "no round trip".to_owned()));
            control.say(Message::PortTried(tried));
        });
    spawned
        .map(drop)
        .map_err(|error| TransferError::Here(format!("cannot start a thread: {error}")))
}

/// The limits of this host as they are seen from here; a process that is confined may see none. Controls come and go as
/// programs are loaded, also for others: a copy that lacks one asks another far end.
fn limits_to_watch() -> Option<HostLimits> {
    let limits = HostLimits::gather().ok()?;
    Some(HostLimits {
        congestion_controls_available: Vec::new(),
        congestion_controls_allowed: Vec::new(),
        ..limits
    })
}

/// The greeting, the job, and the port opened in between; `None` when the near end leaves without a job, or when what
/// this end has said of its host is `outdated` before there is one.
fn wait_for_job(
    inbox: &Receiver<Event>,
    port: OwnPort,
    try_port: impl Fn(Asked) -> Result<(), TransferError>,
    expand: impl Fn(Vec<Vec<u8>>),
    outdated: impl Fn() -> bool,
) -> Result<Option<(Hello, Job, Opened)>, TransferError> {
    let (mut greeting, mut opened, mut port) = (None, None, Some(port));
    let deadline = Instant::now() + JOB_WITHIN;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let next = match greeting {
            None => left.min(LOOK_EVERY),
            Some(_) => left,
        };
        let event = match inbox.recv_timeout(next) {
            Ok(event) if !left.is_zero() => event,
            Err(RecvTimeoutError::Timeout) if next < left && outdated() => break,
            Err(RecvTimeoutError::Timeout) if next < left => continue,
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(_) | Err(RecvTimeoutError::Timeout) => {
                return Err(TransferError::Here(format!(
                    "the near end has sent no job for {} s",
                    JOB_WITHIN.as_secs()
                )));
            }
        };
        match event {
            Event::Message(Message::Hello(hello)) => {
                // Until a near end is there nobody else can connect, however long this end is kept ready.
                if let Some(port) = port.take() {
                    opened = Some(port.open()?);
                }
                greeting = Some(hello);
            }
            Event::Message(Message::TryPort(port)) => try_port(Asked::Far(port))?,
            Event::Message(Message::TryNear(port)) => try_port(Asked::Near(port))?,
            Event::Message(Message::Expand(patterns)) => expand(patterns),
            Event::Message(Message::Job(job)) => {
                let begun = greeting.zip(opened);
                return Ok(begun.map(|(hello, opened)| (hello, *job, opened)));
            }
            Event::Message(Message::Failed(_) | Message::Cancel) | Event::Closed(None) => break,
            Event::Closed(Some(error)) | Event::Failed(error) | Event::Stop(error) => {
                return Err(error);
            }
            Event::Message(_)
            | Event::StreamDone
            | Event::InPlace
            | Event::Steer(_)
            | Event::Limit(_) => {}
        }
    }
    Ok(None)
}

fn carry_out(
    channel: &Channel,
    events: SyncSender<Event>,
    inbox: &Receiver<Event>,
    stream_setup: StreamSetup,
    job: Job,
    site: &Site,
    reach: &Reach,
) -> Result<(), TransferError> {
    let mark = MemoryMark::now();
    let abort = Arc::new(Abort::default());
    let control = channel.control();
    let digests = match job.tells_digests && job.direction == Direction::Pull {
        true => Digests::to_near(control.clone()),
        false => Digests::nowhere(),
    };
    let board = Arc::new(Board::new(digests));
    let context = Context::new(
        Side::Far,
        job,
        control.clone(),
        events,
        FAR_PATIENCE,
        Arc::clone(&abort),
        Arc::clone(&board),
    );
    let home = env::var_os("HOME");
    let home = reach.home(home.as_deref().map(OsStrExt::as_bytes));
    let job = &context.job;
    let mut report = |round: Vec<Sample>| {
        if job.direction == Direction::Pull && !round.is_empty() {
            control.say(Message::Samples(round));
        }
    };
    let carried_out = |report: &mut dyn FnMut(Vec<Sample>)| match job.direction {
        Direction::Push => {
            let destination = expand_home(&job.destination, home);
            Targets::of(job, &destination, reach).and_then(|targets| {
                receiver::run(&context, inbox, stream_setup, targets, None, mark, report)
                    .map(|got| got.totals)
            })
        }
        Direction::Pull => {
            let sources: Vec<_> = job
                .sources
                .iter()
                .map(|source| expand_home(source, home))
                .collect();
            Sources::open(&sources, job.filters.clone(), job.keep, reach).and_then(|sources| {
                if job.pipe {
                    sources.check_for_pipe()?;
                }
                let sources = sources
                    .walking(job.walk)
                    .noting_content(job.delete.is_some());
                sender::run(&context, inbox, stream_setup, sources, None, mark, report)
                    .map(|sent| sent.arrived)
            })
        }
    };
    let outcome = site.watch(&context).and_then(|()| carried_out(&mut report));
    if outcome.is_err() {
        abort.trigger();
    }
    context.join();
    let ended = site.ended(&board, outcome.as_ref());
    outcome.and(ended)
}

/// Blocks the signals that end a process and gives a descriptor that is readable when one comes.
fn signal_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before it is read, all pointers are valid for
    // the calls, and the descriptor is new and owned by nobody else.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        let error = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        let descriptor = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_that_of_ssh_and_loopback_without_it() {
        let route = SshRoute::of("192.0.2.7 51000 198.51.100.2 22");
        assert_eq!(route.server, (Ipv4Addr::new(198, 51, 100, 2), 0).into());
        assert_eq!(route.client, IpAddr::from([192, 0, 2, 7]));
        assert_eq!(route.name, "198.51.100.2");
        let mapped = SshRoute::of("::ffff:192.0.2.7 51000 ::ffff:198.51.100.2 22");
        assert_eq!((mapped.server, mapped.client), (route.server, route.client));
        for zone in ["lo", "1"] {
            let local = SshRoute::of(&format!("fe80::2%{zone} 51000 fe80::1%{zone} 22"));
            assert_eq!(local.name, format!("fe80::1%{zone}"));
            assert_eq!(local.server.to_string(), "[fe80::1%1]:0");
        }
        for none in ["", "nonsense", "1.2.3.4 5", "1.2.3.4 5 fe80::1 22"] {
            assert_eq!(SshRoute::of(none).server, (Ipv4Addr::LOCALHOST, 0).into());
        }
    }
}
