//! The near end of one transfer, as its owner uses it: to start, watch, steer and stop it.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use howdah_wire::{Hello, Job, Message, Side};

use crate::connect::ahead::Ahead;
use crate::end::abort::{Abort, lock};
use crate::end::context::Board;
use crate::end::digests::{Digests, Unconfirmed};
use crate::error::TransferError;
use crate::session::control::{Channel, Event, MAX_EVENTS};
use crate::session::greeting::{Greeted, Made, Setup};
use crate::session::job::{self, Asked};
use crate::session::liveness::NEAR_PATIENCE;
use crate::session::near_end::Near;
use crate::session::report;
use crate::session::steer::Wish;
use crate::tls::Identity;

/// How long a stop waits before it looks again whether there is room for it.
const ROOM_GLANCE: Duration = Duration::from_millis(1);

/// The near end of one transfer. Its peer is [`crate::serve`], over two descriptors.
pub struct Session {
    pub(super) events: SyncSender<Event>,
    pub(super) identity: Arc<Identity>,
    pub(super) patience: Duration,
    pub(super) setup: Mutex<Setup>,
    pub(super) shared: Arc<Shared>,
}

/// The state that the transfer's thread shares with its owner.
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

impl Session {
    /// Takes the descriptors over and sends hello at once. Does not wait for the answer.
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
            made: None,
            failed: None,
            ahead: Ahead::default(),
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

    /// The same session on connections that were made ahead. It greets on them as soon as the far end's hello has
    /// come. With `fill`, a first window of padding follows on each.
    #[must_use]
    pub fn with_connections(self, sockets: Vec<TcpStream>, fill: bool) -> Self {
        // Without any, no key is needed before the job.
        lock(&self.setup).made = (!sockets.is_empty()).then_some(Made { sockets, fill });
        self
    }

    /// The same session with another limit on how long the far end may be reachable and make no progress.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Carries out a Job by a Plan, both JSON, on threads of its own.
    ///
    /// # Errors
    /// When they cannot be read, or the far end has not sent hello yet.
    pub fn start(&self, job: &[u8], plan: &[u8]) -> Result<(), TransferError> {
        self.start_after(None, job, plan)
    }

    /// The same for a copy whose session before this one ended because its far end was lost. Some files that this end
    /// sent then may be complete without having been confirmed. They get their digests from that session.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_after(
        &self,
        lost: Option<&Self>,
        job: &[u8],
        plan: &[u8],
    ) -> Result<(), TransferError> {
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
            ahead,
        } = setup.greeted()?;
        let digests = digests.map_or_else(Digests::nowhere, |path| Digests::to_file(&path));
        let digests = digests.after(lost.map(Self::take_unconfirmed).unwrap_or_default());
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
            ahead: Mutex::new(ahead),
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

    fn take_unconfirmed(&self) -> Unconfirmed {
        match &lock(&self.shared.state).running {
            Some((_, board)) => board.digests.take_unconfirmed(),
            None => Unconfirmed::default(),
        }
    }

    /// Waits until the transfer has ended, with success or not, at most for `timeout`. Returns whether it has ended.
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

    /// Makes the streams send by a Steering, JSON, from now on. Does not wait. Its result is in the progress, and the
    /// results of all steerings are in the outcome. When everything has arrived, a steering has no result any more.
    ///
    /// # Errors
    /// When it cannot be read, when it asks for more streams than the plan opened, or when nothing was started.
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

    /// Limits what all streams send together by a Limit, JSON, from now on. It has priority over plan and steerings.
    /// Both ends are told of a pause. Does not wait.
    ///
    /// # Errors
    /// When it cannot be read, when it allows nothing to be sent, or when nothing was started.
    pub fn limit(&self, limit: &[u8]) -> Result<(), TransferError> {
        if lock(&self.shared.state).running.is_none() {
            return Err(TransferError::Here(
                "there is no transfer to limit".to_owned(),
            ));
        }
        let _ = self.events.send(Event::Limit(job::limit(limit)?));
        Ok(())
    }

    /// Tells the far end to stop, and stops this one. Complete files are kept.
    pub fn cancel(&self) {
        self.stop();
        if lock(&self.shared.state).running.is_none() {
            self.shared.end(Err(TransferError::Cancelled));
            if let Some(mut channel) = lock(&self.setup).channel.take() {
                channel.control().say(Message::Cancel);
                channel.close();
            }
        }
    }

    /// Has whoever handles events stop. Where nobody does, because there is no job and no greeting is waited for, what the
    /// far end has said may have filled the queue; then there is nobody to stop.
    fn stop(&self) {
        let mut stop = Event::Stop(TransferError::Cancelled);
        while let Err(TrySendError::Full(back)) = self.events.try_send(stop) {
            let nobody_waits = !matches!(self.setup.try_lock(), Err(TryLockError::WouldBlock));
            if nobody_waits && lock(&self.shared.state).running.is_none() {
                return;
            }
            stop = back;
            thread::sleep(ROOM_GLANCE);
        }
    }

    /// Outcome as JSON.
    ///
    /// # Errors
    /// Why the transfer failed, or that it has not ended yet.
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
        self.stop();
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
