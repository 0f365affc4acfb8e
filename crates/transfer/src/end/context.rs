//! What all threads of one end of a transfer share.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use howdah_tcp::Info;
use howdah_wire::{Connection, Finished, Job, Message, Scanned, Side, Spent, TreePath};

use crate::connect::connections::Connections;
use crate::connect::near_port::{Caller, NearPort};
use crate::end::abort::{Abort, lock, stays_here};
use crate::end::digests::{Digest, Digests};
use crate::end::lines::Lines;
use crate::end::naming::Naming;
use crate::end::spent::Books;
use crate::end::tuning::Tuning;
use crate::error::TransferError;
use crate::session::control::{Control, Event};
use crate::session::reachability::{Reachability, Ridden};
use crate::session::steer::Changes;
use crate::streams::limiter::Limiter;

/// One end of one transfer.
pub struct Context {
    /// Which end this is.
    pub side: Side,
    /// What to do.
    pub job: Job,
    /// To the other end.
    pub control: Control,
    /// The events for the thread that runs this end.
    pub events: SyncSender<Event>,
    /// How long the other end may be reachable and make no progress.
    pub patience: Duration,
    /// Whether its host can be reached.
    pub path: Reachability,
    /// Stops this end.
    pub abort: Arc<Abort>,
    /// How far it has come.
    pub board: Arc<Board>,
    /// How its streams send since the last steering, if there was one.
    pub tuning: Tuning,
    /// What its streams may send together.
    pub limiter: Arc<Limiter>,
    /// The connections of its streams, and how far each stream is.
    pub connections: Connections,
    /// How its threads spend their time.
    pub books: Books,
    /// At a near end: the port to which the far end may connect.
    pub near_port: OnceLock<Arc<NearPort>>,
    /// At a far end: what it needs to connect to the near end.
    pub caller: Mutex<Option<Caller>>,
    naming: OnceLock<Naming>,
    /// What was said last of what is left out.
    left_out: Mutex<VecDeque<String>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Lines that are held against the next one. What is in one folder comes mostly one behind the other.
const LINES_KEPT: usize = 64;

/// How long threads that were told to stop are waited for; one may hang on a dead disk.
const JOIN_WITHIN: Duration = Duration::from_millis(1500);

impl Context {
    /// The context of one end that is about to carry out `job`.
    pub fn new(
        side: Side,
        job: Job,
        control: Control,
        events: SyncSender<Event>,
        patience: Duration,
        abort: Arc<Abort>,
        board: Arc<Board>,
    ) -> Arc<Self> {
        let path_patience = Duration::from_nanos(job.patience_ns);
        Arc::new(Self {
            path: Reachability::new(side, path_patience, Instant::now()),
            limiter: Arc::new(Limiter::new(job.limit, Arc::clone(&abort))),
            connections: Connections::new(job.plan.streams),
            books: Books::new(job.plan.streams),
            side,
            job,
            control,
            events,
            patience,
            abort,
            board,
            tuning: Tuning::default(),
            near_port: OnceLock::new(),
            caller: Mutex::default(),
            naming: OnceLock::new(),
            left_out: Mutex::default(),
            threads: Mutex::default(),
        })
    }

    /// Waits for the threads of this end, for a limited time.
    pub fn join(&self) {
        let deadline = Instant::now() + JOIN_WITHIN;
        loop {
            let threads = std::mem::take(&mut *lock(&self.threads));
            let (done, busy): (Vec<_>, Vec<_>) =
                threads.into_iter().partition(|thread| thread.is_finished());
            for thread in done {
                let _ = thread.join();
            }
            let mut threads = lock(&self.threads);
            threads.extend(busy);
            if threads.is_empty() || Instant::now() > deadline {
                return;
            }
            drop(threads);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Checks whether the other host answers on the open connections. If the path is down, the connections end: their
    /// kernel would retry too late, and the near end dials new ones. A connection within this host says nothing about
    /// the path.
    ///
    /// # Errors
    /// As [`Reachability::look`].
    pub fn look_at_path(&self, now: Instant) -> Result<(), TransferError> {
        let mut round_trip = Duration::ZERO;
        let mut open: Vec<(Connection, Duration)> = Vec::new();
        self.abort.each(|socket| {
            if socket.open
                && !stays_here(socket)
                && let Ok(info) = Info::read(socket)
            {
                round_trip = round_trip.max(info.rtt.unwrap_or_default());
                open.push((socket.connection, info.heard_ago));
            }
        });
        if let Some(at) = open
            .iter()
            .filter_map(|(_, ago)| now.checked_sub(*ago))
            .max()
        {
            self.path.heard(at);
        }
        let ridden = self.path.look(round_trip, now)?;
        if let Some(out_for) = ridden.out_for {
            for (connection, ago) in open {
                // One that has just been made has its time.
                if ago > out_for / 2 {
                    self.abort.hang_up(connection);
                }
            }
        }
        lock(&self.board.notes).ridden = ridden;
        Ok(())
    }

    /// Notes the digests of files that are complete.
    pub fn note_digests(&self, digests: impl IntoIterator<Item = Digest>) {
        self.board.digests.add(digests, || self.naming());
    }

    /// Notes files that the receiver already has, by source and path.
    pub fn note_there(&self, there: Vec<(u16, TreePath)>) {
        self.board.digests.confirm(there, || self.naming());
    }

    /// Compares the digests of all files with those of the other end.
    ///
    /// # Errors
    /// When they are not the same.
    pub fn compare_digests(&self, peer: &Finished) -> Result<(), TransferError> {
        if peer.digests == self.board.digests.sum() {
            return Ok(());
        }
        Err(TransferError::Here(
            "the digests of the two ends differ: what has arrived is not what was sent; \
             delete what this copy wrote and run it again"
                .to_owned(),
        ))
    }

    /// The names of files at the destination; known once the receiver has accepted the job.
    fn naming(&self) -> &Naming {
        let into_folder = || lock(&self.board.notes).into_folder;
        self.naming
            .get_or_init(|| Naming::new(&self.job, into_folder()))
    }

    /// Runs `work` on a thread of its own. An error or a panic of it becomes an event.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn spawn(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Arc<Self>) -> Result<(), TransferError> + Send + 'static,
    ) -> Result<(), TransferError> {
        let context = Arc::clone(self);
        let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(&context)));
            let failure = match outcome {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error,
                Err(_) => TransferError::Here("internal error; please report it".to_owned()),
            };
            let _ = context.events.send(Event::Failed(failure));
        });
        let spawned = spawned
            .map_err(|error| TransferError::Here(format!("cannot start a thread: {error}")))?;
        lock(&self.threads).push(spawned);
        Ok(())
    }

    /// Sends the user a warning. The copy goes on.
    pub fn warn(&self, text: String) {
        match self.side {
            Side::Near => lock(&self.board.notes).warnings.add(text),
            Side::Far => self.control.say(Message::Warning(text)),
        }
    }

    /// Tells the user why a source file or folder is not sent.
    pub fn leave_out(&self, why: String) {
        self.board.left_out.store(true, Ordering::Release);
        match self.side {
            Side::Near => lock(&self.board.notes).left_out.add(why),
            Side::Far => self.control.say(Message::LeftOut(why)),
        }
    }

    /// The same, unless the same line was sent a short while ago. One folder may be the reason for everything in it.
    pub fn leave_out_once(&self, why: String) {
        let mut said = lock(&self.left_out);
        if said.contains(&why) {
            return;
        }
        if said.len() >= LINES_KEPT {
            said.pop_front();
        }
        said.push_back(why.clone());
        drop(said);
        self.leave_out(why);
    }
}

/// The progress of one end, readable by all threads.
#[derive(Debug)]
pub struct Board {
    /// When the job was given.
    pub started: Instant,
    /// When the first payload was sent or arrived.
    pub first_payload: OnceLock<Instant>,
    /// Payload that has arrived at the receiver, in bytes. Each piece was verified.
    pub bytes: AtomicU64,
    /// Holes that the receiver has made, in bytes. Their zeros are not sent.
    pub hole_bytes: AtomicU64,
    /// Bytes that the receiver had from an interrupted copy, and that were compared and are the same.
    pub resumed_bytes: AtomicU64,
    /// Files in place at the receiver.
    pub files: AtomicU64,
    /// Pieces of files, folders and links that have arrived completely.
    pub pieces: AtomicU64,
    /// Whether the sender left out a source file or folder because of an error.
    pub left_out: AtomicBool,
    /// Names at the target that were checked for removal.
    pub looked_at: AtomicU64,
    /// Of those, how many were removed.
    pub removed: AtomicU64,
    /// Digests of the files that are complete.
    pub digests: Digests,
    /// What changes less often.
    pub notes: Mutex<Notes>,
}

/// The progress that is not in the counters of a [`Board`].
#[derive(Debug, Default)]
pub struct Notes {
    /// What the scan has found.
    pub scanned: Scanned,
    /// What was there already.
    pub skipped: Scanned,
    /// Whether the destination is a folder that sources land in by their names.
    pub into_folder: bool,
    /// A file that is being copied: its source and path.
    pub current: Option<(u16, TreePath)>,
    /// Data streams open.
    pub streams: u16,
    /// Data streams that began on connections which were made ahead; known to the near end.
    pub ahead: u64,
    /// Connections of data streams that broke and were replaced; known to the near end.
    pub replaced: u64,
    /// What the path was out for.
    pub ridden: Ridden,
    /// The far end's address of the other family than ssh has used, and why, if the data streams go there; known to the
    /// near end.
    pub other_address: Option<String>,
    /// Why the data streams take the detour, if they do; known to the near end.
    pub detour: Option<String>,
    /// Why the far end connects the data streams, if it does; known to the near end.
    pub by_far: Option<String>,
    /// Segments sent again, all streams.
    pub retransmissions: u64,
    /// Mean round trip of the streams that carry something.
    pub rtt: Option<Duration>,
    /// The bytes of each stream that were acknowledged at its last sample.
    pub acked: HashMap<u16, u64>,
    /// The time of that sample, in nanoseconds since the sender's start of the job.
    pub acked_at_ns: u64,
    /// What the user should know.
    pub warnings: Lines,
    /// For each file or folder that was left out, the reason.
    pub left_out: Lines,
    /// What came of each steering.
    pub changes: Changes,
    /// How the streams' threads of this end have spent their time so far. In a copy between two far ends: those of
    /// the sender.
    pub near_spent: Spent,
    /// The same of the far end, or of the receiver.
    pub far_spent: Spent,
}

impl Board {
    /// A board at the start of a job.
    pub fn new(digests: Digests) -> Self {
        Self {
            started: Instant::now(),
            first_payload: OnceLock::new(),
            bytes: AtomicU64::new(0),
            hole_bytes: AtomicU64::new(0),
            resumed_bytes: AtomicU64::new(0),
            files: AtomicU64::new(0),
            pieces: AtomicU64::new(0),
            left_out: AtomicBool::new(false),
            looked_at: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            digests,
            notes: Mutex::default(),
        }
    }

    /// Counts payload.
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts the counts of a file that was given up.
    pub fn take_back_bytes(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts holes.
    pub fn add_holes(&self, bytes: u64) {
        self.hole_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts the counts of a file that was given up.
    pub fn take_back_holes(&self, bytes: u64) {
        self.hole_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes of the job that need not be sent, because the receiver has them or they are holes.
    pub fn unsent_bytes(&self) -> u64 {
        let [holes, resumed] =
            [&self.hole_bytes, &self.resumed_bytes].map(|bytes| bytes.load(Ordering::Relaxed));
        holes.saturating_add(resumed)
    }

    /// Counts what need not be sent.
    pub fn add_resumed(&self, bytes: u64) {
        self.resumed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts the counts of a file that was given up.
    pub fn take_back_resumed(&self, bytes: u64) {
        self.resumed_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Notes that payload begins to move.
    pub fn payload_begins(&self) {
        self.first_payload.get_or_init(Instant::now);
    }
}
