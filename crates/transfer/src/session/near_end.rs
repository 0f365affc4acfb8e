//! The near end of one transfer at work. It opens what the job needs, sends the job, and then is the sender or the
//! receiver.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use howdah_wire::limits::MAX_TEXT_BYTES;
use howdah_wire::{Direction, FarHello, Job, Message, Sample, Side, printable_within};

use crate::connect::ahead::Ahead;
use crate::connect::detour::Detour;
use crate::connect::near_port::NearPort;
use crate::connect::other_family::{Addresses, OtherFamily};
use crate::connect::setup::{SETUP_TIMEOUT, StreamSetup};
use crate::end::abort::lock;
use crate::end::context::{Board, Context};
use crate::error::TransferError;
use crate::session::control::{Channel, Event};
use crate::session::memory::MemoryMark;
use crate::session::near::Shared;
use crate::session::report::{self, Account};
use crate::session::{receiver, sender};
use crate::streams::sample::Trace;
use crate::tls::{Identity, SessionKeys};
use crate::tree::inlet::Inlet;
use crate::tree::names::NamesFile;
use crate::tree::outlet::Outlet;
use crate::tree::reach::Reach;
use crate::tree::source::Sources;
use crate::tree::target::Targets;

/// The thread of one transfer.
pub struct Near {
    pub(super) shared: Arc<Shared>,
    pub(super) identity: Arc<Identity>,
    pub(super) patience: Duration,
    pub(super) events: SyncSender<Event>,
    pub(super) channel: Channel,
    pub(super) inbox: Receiver<Event>,
    pub(super) hello: FarHello,
    pub(super) data_address: Option<String>,
    pub(super) detour_port: Option<u16>,
    pub(super) near_ports: Option<RangeInclusive<u16>>,
    pub(super) ahead: Mutex<Ahead>,
    pub(super) board: Arc<Board>,
    /// The list of names, until it is read.
    pub(super) list: Mutex<Option<NamesFile>>,
    /// The pipe that is read or written in place of files, until that begins.
    pub(super) pipe: Mutex<Option<OwnedFd>>,
}

/// What is open at this end before the far end gets the job.
enum Here {
    Sources(Box<Sources>),
    Targets(Targets),
}

impl Near {
    /// Carries the job out. The result is in `shared`.
    pub fn run(mut self, job: Job) {
        let outcome = self.carry_out(job);
        self.shared.abort.trigger();
        self.channel.close();
        self.shared.end(outcome);
    }

    fn carry_out(&self, mut job: Job) -> Result<Vec<u8>, TransferError> {
        let mark = MemoryMark::now();
        let mut trace = Trace::new();
        let mut sampled = |round: Vec<Sample>| trace.add(round);
        let (stream_setup, here) = self
            .open(&mut job)
            .inspect_err(|error| self.channel.control().say_why(error))?;
        let context = self.begin(&job);
        if let StreamSetup::Connect {
            detour: Some(detour),
            ..
        } = &stream_setup
            && let Some(port) = detour.near_port()
        {
            let _ = context.near_port.set(port);
        }
        let list = lock(&self.list).take();
        let account = match here {
            Here::Sources(sources) => {
                let sent = sender::run(
                    &context,
                    &self.inbox,
                    stream_setup,
                    *sources,
                    list,
                    mark,
                    &mut sampled,
                );
                self.settle(&context, sent.as_ref().err());
                let sent = sent?;
                Account {
                    totals: sent.arrived,
                    sender_streams: sent.streams,
                    receiver_streams: sent.peer.streams,
                    naming: sent.peer.naming,
                    finishing_ns: sent.peer.finishing_ns,
                    verified: sent.finished,
                    ended: Instant::now(),
                    near_peak_memory_bytes: mark.peak_growth_bytes(),
                    far_peak_memory_bytes: sent.peer.peak_memory_bytes,
                    listed: sent.listed,
                    removal: sent.peer.removal,
                }
            }
            Here::Targets(targets) => {
                let got = receiver::run(
                    &context,
                    &self.inbox,
                    stream_setup,
                    targets,
                    list,
                    mark,
                    &mut sampled,
                );
                self.settle(&context, got.as_ref().err());
                let got = got?;
                let peer = got.peer.unwrap_or_default();
                Account {
                    totals: got.totals,
                    sender_streams: peer.streams,
                    receiver_streams: got.streams,
                    naming: got.naming,
                    finishing_ns: got.finishing_ns,
                    verified: got.verified,
                    ended: Instant::now(),
                    near_peak_memory_bytes: mark.peak_growth_bytes(),
                    far_peak_memory_bytes: peer.peak_memory_bytes,
                    listed: got.listed,
                    removal: got.removal,
                }
            }
        };
        Ok(report::outcome(&job, &self.board, &trace, &account))
    }

    /// Opens what this end needs; a pull's job learns whether its targets are fresh.
    fn open(&self, job: &mut Job) -> Result<(StreamSetup, Here), TransferError> {
        let stream_setup = self.stream_setup(job)?;
        let here = match (job.direction, lock(&self.pipe).take()) {
            (Direction::Push, Some(pipe)) => {
                let inlet = Inlet::new(pipe, job.plan.block_bytes);
                Here::Sources(Box::new(Sources::of_pipe(inlet)))
            }
            (Direction::Pull, Some(pipe)) => {
                job.fresh = true;
                Here::Targets(Targets::of_pipe(Outlet::new(pipe)))
            }
            (Direction::Push, None) => {
                let reach = Reach::default();
                let filters = job.filters.clone();
                let sources = Sources::open(&job.sources, filters, job.keep, &reach)?;
                let sources = sources.walking(job.walk);
                Here::Sources(Box::new(sources.noting_content(job.delete.is_some())))
            }
            (Direction::Pull, None) => {
                let targets = Targets::of(job, &job.destination, &Reach::default())?;
                job.fresh = targets.fresh;
                Here::Targets(targets)
            }
        };
        Ok((stream_setup, here))
    }

    /// Sends the job off.
    fn begin(&self, job: &Job) -> Arc<Context> {
        let control = self.channel.control();
        control.say(Message::Job(Box::new(job.clone())));
        let (abort, board) = (Arc::clone(&self.shared.abort), Arc::clone(&self.board));
        Context::new(
            Side::Near,
            job.clone(),
            control,
            self.events.clone(),
            self.patience,
            abort,
            board,
        )
    }

    /// Has all threads end, at once if the transfer failed, and closes what they wrote to.
    fn settle(&self, context: &Context, failure: Option<&TransferError>) {
        if let Some(error) = failure {
            self.channel.control().say_why(error);
            self.shared.abort.trigger();
        }
        context.join();
        if let Some(why) = context.board.digests.finish() {
            context.warn(format!("the digests could not all be kept: {why}"));
        }
    }

    fn stream_setup(&self, job: &Job) -> Result<StreamSetup, TransferError> {
        let keys = job
            .encrypt
            .then(|| SessionKeys::agree(&self.identity, &self.hello.key));
        let keys = keys.transpose()?;
        let Addresses {
            first: addresses,
            other,
        } = Addresses::of(self.data_address.as_deref(), &self.hello, job.encrypt);
        let round_trip = Duration::from_nanos(self.hello.rtt_ns.unwrap_or_default());
        let round_trip = round_trip.min(SETUP_TIMEOUT);
        let at = self
            .detour_port
            .map(|port| (Ipv4Addr::LOCALHOST, port).into());
        let near_port =
            at.and_then(|_: SocketAddr| self.near_port(keys.clone(), addresses.first()));
        let other = OtherFamily::new(other, round_trip);
        let detour = (at.is_some() || other.is_some())
            .then(|| Detour::new(at, round_trip, near_port, other));
        // A dry run has no data streams.
        if addresses.is_empty() && detour.is_none() && !job.dry_run {
            return Err(TransferError::Here(format!(
                "no address for the data streams in: {}; give the host a HostName in ~/.ssh/config that this host can resolve",
                printable_within(self.names().as_bytes(), MAX_TEXT_BYTES)
            )));
        }
        Ok(StreamSetup::Connect {
            addresses,
            detour,
            token: self.hello.token,
            keys,
            ahead: std::mem::take(&mut lock(&self.ahead)),
        })
    }

    fn names(&self) -> String {
        let told = || self.hello.addresses.join(" ");
        self.data_address.clone().unwrap_or_else(told)
    }

    /// The port of this end that the far end may connect to, which has this address.
    fn near_port(
        &self,
        keys: Option<SessionKeys>,
        far: Option<&SocketAddr>,
    ) -> Option<Arc<NearPort>> {
        let control = self.channel.control();
        NearPort::towards(*far?, self.near_ports.clone(), keys, control).map(Arc::new)
    }
}
