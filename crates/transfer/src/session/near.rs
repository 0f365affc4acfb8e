//! The near end of one transfer.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use howdah_wire::limits::MAX_TEXT_BYTES;
use howdah_wire::{Direction, FarHello, Hello, Job, Message, Sample, Side, printable_within};

use crate::connect::detour::Detour;
use crate::connect::near_port::NearPort;
use crate::connect::setup::{SETUP_TIMEOUT, StreamSetup};
use crate::end::abort::{Abort, lock};
use crate::end::context::{Board, Context};
use crate::end::digests::Digests;
use crate::error::TransferError;
use crate::session::control::{Channel, Control, Event, MAX_EVENTS};
use crate::session::job::{self, Asked};
use crate::session::liveness::NEAR_PATIENCE;
use crate::session::memory::MemoryMark;
use crate::session::report::{self, Account};
use crate::session::steer::Wish;
use crate::session::{receiver, sender};
use crate::streams::sample::Trace;
use crate::tls::{Acceptor, Connector, Identity};
use crate::tree::inlet::Inlet;
use crate::tree::names::NamesFile;
use crate::tree::outlet::Outlet;
use crate::tree::reach::Reach;
use crate::tree::source::Sources;
use crate::tree::target::Targets;

/// The near end of one transfer, speaking to [`crate::serve`] over two descriptors.
pub struct Session {
    pub(super) events: SyncSender<Event>,
    identity: Arc<Identity>,
    pub(super) patience: Duration,
    pub(super) setup: Mutex<Setup>,
    pub(super) shared: Arc<Shared>,
}

/// What there is before the transfer runs.
pub(super) struct Setup {
    pub(super) channel: Option<Channel>,
    inbox: Option<Receiver<Event>>,
    hello: Option<FarHello>,
    /// A port of this host that the far end was asked to try.
    near_port: Option<NearPort>,
    pub(super) thread: Option<JoinHandle<()>>,
}

/// A far end that has said hello and has no job yet.
pub(super) struct Greeted {
    pub(super) hello: FarHello,
    pub(super) channel: Channel,
    pub(super) inbox: Receiver<Event>,
}

/// What the thread of the transfer and its owner share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    changed: Condvar,
    pub(super) abort: Arc<Abort>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) running: Option<(Job, Arc<Board>)>,
    ended: Option<(Instant, Result<Vec<u8>, TransferError>)>,
}

impl Setup {
    /// Takes out what a job needs.
    pub(super) fn greeted(&mut self) -> Result<Greeted, TransferError> {
        let Self {
            hello,
            channel,
            inbox,
            ..
        } = self;
        match (hello.take(), channel.take(), inbox.take()) {
            (Some(hello), Some(channel), Some(inbox)) => Ok(Greeted {
                hello,
                channel,
                inbox,
            }),
            _ => Err(TransferError::Here(
                "the session is not ready for a job".to_owned(),
            )),
        }
    }

    /// Waits for a message that `take` takes; `None` when none has come by the deadline.
    pub(super) fn heard<T>(
        &self,
        deadline: Instant,
        take: impl Fn(Message) -> Option<T>,
    ) -> Result<Option<T>, TransferError> {
        let Some(inbox) = &self.inbox else {
            return Err(TransferError::Cancelled);
        };
        loop {
            match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Message(Message::Failed(text))) => {
                    return Err(TransferError::There(printable_within(
                        text.as_bytes(),
                        MAX_TEXT_BYTES,
                    )));
                }
                Ok(Event::Message(message)) => {
                    if let Some(taken) = take(message) {
                        return Ok(Some(taken));
                    }
                }
                Ok(Event::Stop(error) | Event::Failed(error) | Event::Closed(Some(error))) => {
                    return Err(error);
                }
                Ok(Event::Closed(None)) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(TransferError::Here(
                        "the far end has gone before it said anything".to_owned(),
                    ));
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(None),
            }
        }
    }
}

impl Session {
    /// Takes the descriptors over and says hello at once; does not wait for the answer.
    ///
    /// # Errors
    /// When the system has no descriptor, thread or entropy left.
    pub fn new(read: OwnedFd, write: OwnedFd) -> Result<Self, TransferError> {
        let identity = Identity::generate()?;
        let (events, inbox) = mpsc::sync_channel(MAX_EVENTS);
        let channel = Channel::open(Side::Near, read, write, None, events.clone())
            .map_err(|error| TransferError::Here(format!("control channel: {error}")))?;
        channel.control().say(Message::Hello(Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            key: identity.public_key().to_vec(),
        }));
        let setup = Setup {
            channel: Some(channel),
            inbox: Some(inbox),
            hello: None,
            near_port: None,
            thread: None,
        };
        Ok(Self {
            events,
            identity: Arc::new(identity),
            patience: NEAR_PATIENCE,
            setup: Mutex::new(setup),
            shared: Arc::default(),
        })
    }

    /// The same session with another limit on how long the far end may be there and do nothing.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// FarHello as JSON, or `None` when it is not there after `timeout`.
    ///
    /// # Errors
    /// When the far end is no howdah, another version, or has gone.
    pub fn hello(&self, timeout: Duration) -> Result<Option<Vec<u8>>, TransferError> {
        let mut setup = lock(&self.setup);
        if setup.hello.is_none() {
            setup.hello = setup.heard(Instant::now() + timeout, |message| match message {
                Message::FarHello(hello) => Some(*hello),
                _ => None,
            })?;
        }
        setup.hello.as_ref().map(report::far_hello).transpose()
    }

    /// Has the far end try a port of this host, of a range if there is one. Its address is the one that this host
    /// has towards `far`. What comes of it is in [`Self::port_tried`].
    ///
    /// # Errors
    /// When no port can be opened, or the session is over.
    pub fn try_near(
        &self,
        far: SocketAddr,
        ports: Option<RangeInclusive<u16>>,
    ) -> Result<(), TransferError> {
        let mut setup = lock(&self.setup);
        let channel = setup.channel.as_ref().ok_or(TransferError::Cancelled)?;
        let port = NearPort::towards(far, ports, None, channel.control());
        let opened = port.filter(|port| port.ask());
        if opened.is_none() {
            return Err(TransferError::Here(format!(
                "no port of this host can be opened towards {far}"
            )));
        }
        setup.near_port = opened;
        Ok(())
    }

    /// Carries out a Job by a Plan, both JSON, on threads of its own.
    ///
    /// # Errors
    /// When they cannot be read, or the far end has not said hello yet.
    pub fn start(&self, job: &[u8], plan: &[u8]) -> Result<(), TransferError> {
        let Asked {
            job,
            data_address,
            detour_port,
            near_ports,
            digests,
            names,
            pipe,
            ..
        } = job::read(job, plan)?;
        job::check(&job)?;
        let list = names.map(|names| names.open()).transpose()?;
        let mut setup = lock(&self.setup);
        let Greeted {
            hello,
            channel,
            inbox,
        } = setup.greeted()?;
        let digests = digests.map_or_else(Digests::nowhere, |path| Digests::to_file(&path));
        let board = Arc::new(Board::new(digests));
        lock(&self.shared.state).running = Some((job.clone(), Arc::clone(&board)));
        let near = Near {
            shared: Arc::clone(&self.shared),
            identity: Arc::clone(&self.identity),
            patience: self.patience,
            events: self.events.clone(),
            channel,
            inbox,
            hello,
            data_address,
            detour_port,
            near_ports,
            board,
            list: Mutex::new(list),
            pipe: Mutex::new(pipe),
        };
        let spawned = thread::Builder::new()
            .name("howdah-near".into())
            .spawn(move || near.run(job));
        let thread = spawned
            .map_err(|error| TransferError::Here(format!("cannot start a thread: {error}")))?;
        setup.thread = Some(thread);
        Ok(())
    }

    /// Waits until the transfer has ended, well or not, at most `timeout`; says whether it has.
    pub fn wait(&self, timeout: Duration) -> bool {
        let state = lock(&self.shared.state);
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, timeout, |state| state.ended.is_none());
        waited
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .ended
            .is_some()
    }

    /// Progress as JSON.
    pub fn progress(&self) -> Vec<u8> {
        let state = lock(&self.shared.state);
        let Some((job, board)) = &state.running else {
            return report::progress(&Board::new(Digests::nowhere()), None, None, Duration::ZERO);
        };
        let (until, ended) = match &state.ended {
            Some((at, outcome)) => (*at, Some(outcome.is_ok())),
            None => (Instant::now(), None),
        };
        report::progress(board, Some(job), ended, until.duration_since(board.started))
    }

    /// Has the streams send by a Steering, JSON, from now on; does not wait. What came of it is in the
    /// progress, and all that came of any in the outcome; when all has arrived, nothing comes of it.
    ///
    /// # Errors
    /// When it cannot be read, asks for more streams than the plan opened, or nothing was started.
    pub fn steer(&self, steering: &[u8]) -> Result<(), TransferError> {
        let state = lock(&self.shared.state);
        let Some((job, _)) = &state.running else {
            return Err(TransferError::Here(
                "there is no transfer to steer".to_owned(),
            ));
        };
        if job.dry_run {
            return Err(TransferError::Here(
                "a dry run has no streams to steer".to_owned(),
            ));
        }
        let wish = Wish::read(steering, job.plan.streams)?;
        let _ = self.events.send(Event::Steer(wish));
        Ok(())
    }

    /// Has all streams together send by a Limit, JSON, from now on, whatever plan and steerings say; both ends hear
    /// of a pause. Does not wait.
    ///
    /// # Errors
    /// When it cannot be read, nothing gets through it, or nothing was started.
    pub fn limit(&self, limit: &[u8]) -> Result<(), TransferError> {
        if lock(&self.shared.state).running.is_none() {
            return Err(TransferError::Here(
                "there is no transfer to limit".to_owned(),
            ));
        }
        let _ = self.events.send(Event::Limit(job::limit(limit)?));
        Ok(())
    }

    /// Tells the far end to stop and stops this one; complete files are kept.
    pub fn cancel(&self) {
        let _ = self.events.send(Event::Stop(TransferError::Cancelled));
        if lock(&self.shared.state).running.is_none() {
            self.shared.end(Err(TransferError::Cancelled));
            if let Some(mut channel) = lock(&self.setup).channel.take() {
                channel.control().say(Message::Cancel);
                channel.close();
            }
        }
    }

    /// Outcome as JSON.
    ///
    /// # Errors
    /// Why the transfer failed, or that it has not ended.
    pub fn result(&self) -> Result<Vec<u8>, TransferError> {
        match &lock(&self.shared.state).ended {
            Some((_, outcome)) => outcome.clone(),
            None => Err(TransferError::Here("the transfer has not ended".to_owned())),
        }
    }

    /// Whether the transfer has ended because the connection to the far end was lost.
    pub fn lost_connection(&self) -> bool {
        let state = lock(&self.shared.state);
        let board = state.running.as_ref().map(|(_, board)| board);
        let moved = board.is_some_and(|board| board.bytes.load(Ordering::Relaxed) > 0);
        match &state.ended {
            Some((_, Err(error))) => error.lost_connection(moved),
            _ => false,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.events.send(Event::Stop(TransferError::Cancelled));
        if let Some(thread) = lock(&self.setup).thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    pub(super) fn end(&self, outcome: Result<Vec<u8>, TransferError>) {
        lock(&self.state)
            .ended
            .get_or_insert((Instant::now(), outcome));
        self.changed.notify_all();
    }
}

/// The thread of one transfer.
struct Near {
    shared: Arc<Shared>,
    identity: Arc<Identity>,
    patience: Duration,
    events: SyncSender<Event>,
    channel: Channel,
    inbox: Receiver<Event>,
    hello: FarHello,
    data_address: Option<String>,
    detour_port: Option<u16>,
    near_ports: Option<RangeInclusive<u16>>,
    board: Arc<Board>,
    /// The list of what is moved, until it is read.
    list: Mutex<Option<NamesFile>>,
    /// What is read or written in place of files, until that begins.
    pipe: Mutex<Option<OwnedFd>>,
}

/// What is open at this end before the far end hears of the job.
enum Here {
    Sources(Box<Sources>),
    Targets(Targets),
}

impl Near {
    fn run(mut self, job: Job) {
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
            .inspect_err(|error| say_why(&self.channel.control(), error))?;
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
                let sources = Sources::open(&job.sources, job.filters.clone(), &reach)?;
                let sources = sources.keeping(job.keep).walking(job.walk);
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
            say_why(&self.channel.control(), error);
            self.shared.abort.trigger();
        }
        context.join();
        if let Some(why) = context.board.digests.finish() {
            context.warn(format!("the digests could not all be kept: {why}"));
        }
    }

    fn stream_setup(&self, job: &Job) -> Result<StreamSetup, TransferError> {
        let tls = if job.encrypt {
            Some(Connector::new(&self.identity, &self.hello.key)?)
        } else {
            None
        };
        let port = self.hello.port;
        let names = match &self.data_address {
            Some(address) => std::slice::from_ref(address),
            None => &self.hello.addresses,
        };
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for name in names {
            // One that cannot be resolved here may be of use to others.
            addresses.extend(
                (name.as_str(), port)
                    .to_socket_addrs()
                    .into_iter()
                    .flatten(),
            );
        }
        let round_trip = Duration::from_nanos(self.hello.rtt_ns.unwrap_or_default());
        let detour = match self.detour_port {
            Some(port) => Some(Detour::new(
                (Ipv4Addr::LOCALHOST, port).into(),
                round_trip.min(SETUP_TIMEOUT),
                self.near_port(job, addresses.first())?,
            )),
            None => None,
        };
        if addresses.is_empty() && detour.is_none() {
            return Err(TransferError::Here(format!(
                "no address for the data streams in: {}; name one with --data-address",
                printable_within(names.join(" ").as_bytes(), MAX_TEXT_BYTES)
            )));
        }
        Ok(StreamSetup::Connect {
            addresses,
            detour,
            token: self.hello.token,
            tls,
        })
    }

    /// The port of this end that the far end may connect to, which has this address.
    fn near_port(
        &self,
        job: &Job,
        far: Option<&SocketAddr>,
    ) -> Result<Option<Arc<NearPort>>, TransferError> {
        let tls = job
            .encrypt
            .then(|| Acceptor::new(&self.identity, &self.hello.key));
        let (tls, control) = (tls.transpose()?, self.channel.control());
        let port =
            far.and_then(|far| NearPort::towards(*far, self.near_ports.clone(), tls, control));
        Ok(port.map(Arc::new))
    }
}

/// Has the other end know why this one stops, unless it knows.
pub(crate) fn say_why(control: &Control, error: &TransferError) {
    match error {
        TransferError::There(_) => {}
        TransferError::Cancelled => control.say(Message::Cancel),
        error => control.say(Message::Failed(error.to_string())),
    }
}
