//! The far end of one transfer.

use std::env;
use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use howdah_tcp::{HostLimits, ssh_rtt};
use howdah_wire::{Direction, FarHello, Hello, Job, Message, Sample, Side};

use crate::abort::Abort;
use crate::context::{Board, Context};
use crate::control::{Channel, Event, MAX_EVENTS};
use crate::digests::Digests;
use crate::door::{Door, open_listener};
use crate::error::TransferError;
use crate::liveness::FAR_PATIENCE;
use crate::memory::MemoryMark;
use crate::session::say_why;
use crate::source::Sources;
use crate::target::{Targets, expand_home};
use crate::tls::{Acceptor, Identity};
use crate::{receiver, sender};

/// A near end has this long from its start to its job. One that is kept for the next copy is ended
/// earlier by its keeper.
const JOB_WITHIN: Duration = FAR_PATIENCE;

/// Serves one transfer to a [`crate::Session`] over two descriptors; returns when the session has
/// ended, well or not. SIGTERM, SIGINT and SIGHUP end it; they stay blocked for this thread.
///
/// # Errors
/// Why the transfer ended early. The near end has been told.
pub fn serve(read: OwnedFd, write: OwnedFd) -> Result<(), TransferError> {
    let signals = signal_descriptor()
        .map_err(|error| TransferError::Here(format!("cannot watch signals: {error}")))?;
    let (events, inbox) = mpsc::sync_channel(MAX_EVENTS);
    let mut channel = Channel::open(Side::Far, read, write, Some(signals), events.clone())
        .map_err(|error| TransferError::Here(format!("control channel: {error}")))?;
    let outcome = greet(&channel).and_then(|far| {
        let Some((hello, job)) = wait_for_job(&inbox)? else {
            return Ok(());
        };
        far.carry_out(&channel, events, &inbox, &hello, job)
    });
    if let Err(error) = &outcome
        && *error != TransferError::Cancelled
    {
        say_why(&channel.control(), error);
    }
    channel.close();
    outcome
}

struct Far {
    identity: Identity,
    listener: TcpListener,
    token: [u8; 32],
}

fn greet(channel: &Channel) -> Result<Far, TransferError> {
    let identity = Identity::generate()?;
    let listener = open_listener()?;
    let here = |error: &dyn std::fmt::Display| TransferError::Here(error.to_string());
    let port = listener.local_addr().map_err(|error| here(&error))?.port();
    let mut token = [0; 32];
    aws_lc_rs::rand::fill(&mut token).map_err(|_| here(&"no entropy for a token"))?;
    let limits = HostLimits::gather().map_err(|error| here(&error))?;
    let ssh = env::var("SSH_CONNECTION").unwrap_or_default();
    let rtt = ssh_rtt(&ssh).and_then(|rtt| u64::try_from(rtt.min.as_nanos()).ok());
    channel.control().say(Message::FarHello(Box::new(FarHello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        key: identity.public_key().to_vec(),
        token,
        limits_json: serde_json::to_vec(&limits).map_err(|error| here(&error))?,
        addresses: addresses(&ssh),
        port,
        rtt_ns: rtt,
    })));
    Ok(Far {
        identity,
        listener,
        token,
    })
}

/// The address ssh was reached at; without ssh, this host alone.
fn addresses(ssh_connection: &str) -> Vec<String> {
    match ssh_connection.split(' ').nth(2) {
        Some(server) => vec![server.to_owned()],
        None => vec!["127.0.0.1".to_owned(), "::1".to_owned()],
    }
}

/// The greeting and the job; `None` when the near end leaves without one.
fn wait_for_job(inbox: &Receiver<Event>) -> Result<Option<(Hello, Job)>, TransferError> {
    let mut greeting = None;
    let deadline = Instant::now() + JOB_WITHIN;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let event = match inbox.recv_timeout(left) {
            Ok(event) if !left.is_zero() => event,
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(_) | Err(RecvTimeoutError::Timeout) => {
                return Err(TransferError::Here(format!(
                    "the near end has sent no job for {} s",
                    JOB_WITHIN.as_secs()
                )));
            }
        };
        match event {
            Event::Message(Message::Hello(hello)) => greeting = Some(hello),
            Event::Message(Message::Job(job)) => return Ok(greeting.map(|hello| (hello, *job))),
            Event::Message(Message::Failed(_) | Message::Cancel) | Event::Closed(None) => break,
            Event::Closed(Some(error)) | Event::Failed(error) | Event::Stop(error) => {
                return Err(error);
            }
            Event::Message(_) | Event::StreamDone | Event::InPlace | Event::Steer(_) => {}
        }
    }
    Ok(None)
}

impl Far {
    fn carry_out(
        self,
        channel: &Channel,
        events: SyncSender<Event>,
        inbox: &Receiver<Event>,
        hello: &Hello,
        job: Job,
    ) -> Result<(), TransferError> {
        let mark = MemoryMark::now();
        let tls = if job.encrypt {
            Some(Acceptor::new(&self.identity, &hello.key)?)
        } else {
            None
        };
        let door = Door::Accept {
            listener: self.listener,
            token: self.token,
            tls,
        };
        let abort = Arc::new(Abort::default());
        let board = Arc::new(Board::new(Digests::nowhere()));
        let control = channel.control();
        let context = Context::new(
            Side::Far,
            job,
            control.clone(),
            events,
            FAR_PATIENCE,
            Arc::clone(&abort),
            board,
        );
        let home = env::var_os("HOME");
        let home = home.as_deref().map(OsStrExt::as_bytes);
        let job = &context.job;
        let mut report = |round: Vec<Sample>| {
            if job.direction == Direction::Pull && !round.is_empty() {
                control.say(Message::Samples(round));
            }
        };
        let outcome = match job.direction {
            Direction::Push => {
                let destination = expand_home(&job.destination, home);
                Targets::of(job, &destination).and_then(|targets| {
                    receiver::run(&context, inbox, door, targets, mark, &mut report).map(|_| ())
                })
            }
            Direction::Pull => {
                let sources: Vec<_> = job
                    .sources
                    .iter()
                    .map(|source| expand_home(source, home))
                    .collect();
                Sources::open(&sources).and_then(|sources| {
                    sender::run(&context, inbox, door, sources, mark, &mut report).map(|_| ())
                })
            }
        };
        if outcome.is_err() {
            abort.trigger();
        }
        context.join();
        outcome
    }
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
