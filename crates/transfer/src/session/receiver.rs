//! The receiving end, near or far. It answers offers, receives, and reports when everything is in place.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use howdah_wire::limits::MAX_STEERINGS_OPEN;
use howdah_wire::{
    Direction, Finished, Memory, Message, Progress, Removal, Same, Sample, Side, Spent,
    StreamSummary, Totals,
};

use crate::connect::near_port;
use crate::connect::setup::{StreamSetup, Work};
use crate::end::abort::lock;
use crate::end::context::Context;
use crate::error::TransferError;
use crate::session::answering::answer;
use crate::session::comparing::Comparing;
use crate::session::control::Event;
use crate::session::inbox::{Inbox, Input};
use crate::session::listing::Listing;
use crate::session::liveness::{Liveness, Owed};
use crate::session::memory::MemoryMark;
use crate::session::names;
use crate::session::removing::Removing;
use crate::session::sender::{SPENT_EVERY, note_samples, tell_spent};
use crate::session::steer::{Wish, note_change};
use crate::streams::receive::Receiving;
use crate::streams::sample::Sampler;
use crate::tree::names::NamesFile;
use crate::tree::place::Placement;
use crate::tree::queue::MAX_WAITING;
use crate::tree::target::Targets;

/// Between two words on how much has arrived.
const PROGRESS_EVERY: Duration = Duration::from_millis(150);
/// The same where a sender holds what it reads from a pipe until it is told that it has arrived.
const PIPE_PROGRESS_EVERY: Duration = Duration::from_millis(20);
/// Between two looks at the sockets.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The receiving end's results.
pub struct Received {
    /// What arrived and is here now.
    pub totals: Totals,
    /// Its sockets.
    pub streams: Vec<StreamSummary>,
    /// How the thread that flushes files has spent its time.
    pub naming: Spent,
    /// How long that thread flushed files and gave names after everything had arrived, in nanoseconds.
    pub finishing_ns: u64,
    /// When the last payload was verified.
    pub verified: Instant,
    /// The sender's report, if this is the near end.
    pub peer: Option<Finished>,
    /// Dry run: what it would do.
    pub listed: Listing,
    /// The result of the removal, if the job asks for one.
    pub removal: Option<Removal>,
}

/// Carries out the receiving end of a job. A near end has the list of names, if there is one. `sampled` gets the
/// sender's samples.
///
/// # Errors
/// Whatever ends the transfer early. Threads may still be running then; drop the context only
/// after [`Context::join`], so that incomplete files are gone.
pub fn run(
    context: &Arc<Context>,
    events: &Receiver<Event>,
    stream_setup: StreamSetup,
    targets: Targets,
    list: Option<NamesFile>,
    mark: MemoryMark,
    sampled: &mut dyn FnMut(Vec<Sample>),
) -> Result<Received, TransferError> {
    let job = &context.job;
    let receiving = Receiving::new(
        Placement::new(targets.each)
            .skipping(job.skip)
            .durable(job.sync)
            .deleting(job.delete)
            .named(job.named)
            .keeping(job.keep, targets.reach.is_confined())
            .within(targets.reach),
        job.plan.streams,
        job.sync,
    );
    let receiving = Arc::new(match job.pipe {
        true => receiving.with_pipe(targets.outlet),
        false => receiving,
    });
    lock(&context.board.notes).into_folder = targets.into_folder;
    if job.direction == Direction::Push {
        let fresh = targets.fresh && !job.dry_run;
        context.control.say(Message::Accept {
            fresh,
            into_folder: targets.into_folder,
        });
    }
    if !job.dry_run {
        let naming = Arc::clone(&receiving);
        context.spawn("howdah-flush", move |context| naming.name_files(context))?;
        let receiving = Arc::clone(&receiving);
        let work: Arc<Work> = Arc::new(move |context, connection, stream| {
            let outcome = receiving.work(context, connection, stream);
            // A connection that breaks leaves what has come for the one after it.
            if !matches!(outcome, Ok(()) | Err(TransferError::Lost(_))) || context.abort.stopping()
            {
                receiving.discard();
            }
            outcome
        });
        stream_setup.open(context, false, work)?;
    }
    let (names_taken, taken) = mpsc::channel();
    if let Some(list) = list {
        context.spawn("howdah-names", move |context| {
            names::say(context, list, &taken)
        })?;
    }
    let listed = Arc::default();
    let by_content = job.skip.same == Same::Content;
    let mut run = Run {
        context,
        comparing: by_content.then(|| Comparing::new(&receiving, &listed)),
        compared: 0,
        receiving,
        inbox: Inbox::new(events, context.side, &context.path),
        sampled,
        in_place: false,
        all_offered: false,
        refuse_offers: targets.fresh && !job.dry_run,
        wishes: VecDeque::new(),
        peer: None,
        listed,
        removing: job.delete.map(|_| Arc::default()),
        finishing: false,
        liveness: Liveness::new(context.side, context.patience, Instant::now()),
        offered: 0,
        look_at: Instant::now(),
        tell_at: Instant::now() + SPENT_EVERY,
        reported: Progress::default(),
        names_taken,
    };
    let outcome = run.until_finished(mark);
    if let Err(error) = &outcome {
        context.abort.trigger();
        context.join();
        run.receiving.discard();
        // Where the connection was lost another end may go on already, and needs folders as they are.
        if !matches!(error, TransferError::Gone(_) | TransferError::Silent(_)) {
            run.receiving.placement().close_all_to_owner();
        }
    }
    outcome
}

struct Run<'a> {
    context: &'a Arc<Context>,
    receiving: Arc<Receiving>,
    inbox: Inbox<'a>,
    sampled: &'a mut dyn FnMut(Vec<Sample>),
    in_place: bool,
    all_offered: bool,
    /// Nothing is there that could be skipped: offers made in ignorance of that count as wanted.
    refuse_offers: bool,
    /// What the sender was asked for and has not answered.
    wishes: VecDeque<Wish>,
    peer: Option<Finished>,
    listed: Arc<Mutex<Listing>>,
    /// Of a job that tells files by their content, and how many of its digests have come.
    comparing: Option<Comparing>,
    compared: u64,
    /// Of a job that removes what the sender has not.
    removing: Option<Arc<Removing>>,
    /// All has come, and this end brings it to its end.
    finishing: bool,
    reported: Progress,
    liveness: Liveness,
    /// Files that were offered.
    offered: u64,
    look_at: Instant,
    tell_at: Instant,
    names_taken: Sender<()>,
}

impl Run<'_> {
    fn until_finished(&mut self, mark: MemoryMark) -> Result<Received, TransferError> {
        let dry_run = self.context.job.dry_run;
        self.step_until(|run| match dry_run {
            true => run.all_offered && !run.is_waiting(),
            false => run.context.connections.left() == 0,
        })?;
        if let Some(removing) = self.removing.clone() {
            self.step_until(|_| removing.is_all_sent())?;
        }
        let all_come = Instant::now();
        if !dry_run || self.removing.is_some() {
            self.finish()?;
        }
        let verified = Instant::now();
        let finishing = verified.duration_since(all_come);
        self.context.abort.settle();
        self.tell_progress();
        let totals = self.receiving.totals();
        let mut sum: Totals = totals.iter().map(|(_, totals)| totals).sum();
        if let Some(Memory::Bytes(bytes)) = self.context.job.memory
            && bytes != sum.bytes
        {
            return Err(TransferError::Here(format!(
                "the other end broke the protocol: {} bytes arrived of {bytes}",
                sum.bytes
            )));
        }
        sum.special_files = sum.special_files.saturating_sub(self.receiving.not_made());
        let streams =
            Sampler::new(verified).summaries(&self.context.abort, &totals, &self.context.books);
        let peak_memory_bytes = mark.peak_growth_bytes();
        let finished = Finished {
            totals: sum,
            digests: self.context.board.digests.sum(),
            removal: self.removal(),
            peak_memory_bytes,
            streams: streams.clone(),
            naming: self.context.books.naming.spent(),
            finishing_ns: u64::try_from(finishing.as_nanos()).unwrap_or(u64::MAX),
        };
        let (naming, finishing_ns) = (finished.naming, finished.finishing_ns);
        self.context
            .control
            .say(Message::Finished(Box::new(finished)));
        while self.context.side == Side::Near && self.peer.is_none() {
            self.step(PROGRESS_EVERY)?;
        }
        if let Some(peer) = &self.peer {
            self.context.compare_digests(peer)?;
        }
        let listed = std::mem::take(&mut *lock(&self.listed));
        sum.take_away(&self.receiving.given_up());
        sum.files += self.receiving.resumed().files;
        if self.context.job.dry_run
            && let Some(peer) = &self.peer
        {
            // Only the sender counts what else than files there is.
            sum = Totals {
                bytes: sum.bytes,
                files: sum.files,
                ..peer.totals
            };
        }
        Ok(Received {
            totals: sum,
            streams,
            naming,
            finishing_ns,
            verified,
            peer: self.peer.take(),
            listed,
            removal: self.removal(),
        })
    }

    /// Brings what has come to its end, on a thread of its own, because millions of folders take a while and this one
    /// listens.
    fn finish(&mut self) -> Result<(), TransferError> {
        self.finishing = true;
        let (receiving, listed) = (Arc::clone(&self.receiving), Arc::clone(&self.listed));
        let removing = self.removing.clone();
        self.context.spawn("howdah-finish", move |context| {
            let dry_run = context.job.dry_run;
            if !dry_run {
                receiving.all_named(context)?;
            }
            if let Some(removing) = removing {
                removing.carry_out(context, receiving.placement(), &listed)?;
            }
            if !dry_run {
                receiving.place_later(context)?;
                receiving.finish(context)?;
                receiving.placement().check_paths()?;
            }
            let _ = context.events.send(Event::InPlace);
            Ok(())
        })?;
        self.step_until(|run| run.in_place)
    }

    /// Whether offers wait for a comparison.
    fn is_waiting(&self) -> bool {
        self.comparing.as_ref().is_some_and(Comparing::is_waiting)
    }

    fn removal(&self) -> Option<Removal> {
        self.removing.as_ref()?.came_to()
    }

    /// Handles what comes, and tells how far this end is, until `reached`.
    fn step_until(&mut self, reached: impl Fn(&Self) -> bool) -> Result<(), TransferError> {
        let mut progress_at = Instant::now();
        let every = match self.context.job.pipe {
            true => PIPE_PROGRESS_EVERY,
            false => PROGRESS_EVERY,
        };
        while !reached(self) {
            self.step(progress_at.saturating_duration_since(Instant::now()))?;
            let now = Instant::now();
            if now >= progress_at {
                self.tell_progress();
                progress_at = now + every;
            }
        }
        Ok(())
    }

    fn step(&mut self, timeout: Duration) -> Result<(), TransferError> {
        let now = Instant::now();
        if now >= self.look_at {
            self.context.look_at_path(now)?;
            if !self.context.path.in_touch() && self.receiving.is_asked_for() {
                let words = "another copy goes on with what this one has left";
                return Err(TransferError::Silent(words.to_owned()));
            }
            self.look_at = now + LOOK_EVERY;
        }
        if now >= self.tell_at && !self.in_place {
            tell_spent(self.context, self.context.books.sum());
            self.tell_at = now + SPENT_EVERY;
        }
        let there = self.context.path.in_touch();
        self.liveness
            .look(self.evidence(), self.owed(), there, now)?;
        match self.inbox.next(timeout.min(LOOK_EVERY))? {
            Some(Input::Message(message)) => self.hear(message),
            Some(Input::InPlace) => {
                self.in_place = true;
                Ok(())
            }
            Some(Input::Steer(wish)) => {
                // When all is in place this end has said, or says, its last.
                if self.wishes.len() as u64 >= MAX_STEERINGS_OPEN {
                    return Err(TransferError::Here(format!(
                        "the far end has not answered {} changes of its streams",
                        self.wishes.len()
                    )));
                }
                if !self.in_place {
                    let steering = wish.steering.clone();
                    self.context.control.say(Message::Steer(steering));
                    self.wishes.push_back(wish);
                }
                Ok(())
            }
            Some(Input::Limit(limit)) => {
                self.context.limiter.set(limit);
                if !self.in_place {
                    self.context.control.say(Message::Limit(limit));
                }
                Ok(())
            }
            Some(Input::StreamDone) | None => Ok(()),
        }
    }

    fn hear(&mut self, message: Message) -> Result<(), TransferError> {
        match message {
            Message::Offer(offer) if !self.refuse_offers => {
                self.offered += offer.files.len() as u64;
                let mut needs = Vec::with_capacity(offer.files.len());
                for file in &offer.files {
                    let placement = self.receiving.placement();
                    let not_kept = |why| self.context.leave_out_once(why);
                    needs.push(placement.needs(file, self.context.job.dry_run, not_kept)?);
                }
                let foreseen = self.receiving.placement().foreseen();
                foreseen
                    .into_iter()
                    .for_each(|line| self.context.warn(line));
                match &mut self.comparing {
                    Some(comparing) => comparing.put_off(self.context, offer, needs)?,
                    None => answer(self.context, &self.listed, offer, needs),
                }
            }
            Message::Compared(compared) => {
                if let Some(comparing) = &self.comparing {
                    comparing.hear(self.context, compared)?;
                    self.compared += 1;
                }
            }
            Message::Scanned(scanned) => {
                self.all_offered = scanned.complete;
                lock(&self.context.board.notes).scanned = scanned;
            }
            Message::Samples(samples) => {
                note_samples(self.context, &samples);
                (self.sampled)(samples);
            }
            Message::Spent(spent) => lock(&self.context.board.notes).far_spent = *spent,
            Message::Warning(text) => lock(&self.context.board.notes).warnings.add(text),
            Message::LeftOut(why) => lock(&self.context.board.notes).left_out.add(why),
            Message::Steered(steered) => {
                if let Some(wish) = self.wishes.pop_front() {
                    note_change(self.context, wish, steered);
                }
            }
            Message::NamesTaken => drop(self.names_taken.send(())),
            Message::Limit(limit) => self.context.limiter.set(limit),
            // What was new a moment ago has nothing in it that the sender has not.
            Message::Content(content) if !self.refuse_offers => {
                if let Some(removing) = &self.removing {
                    let placement = self.receiving.placement();
                    content
                        .iter()
                        .try_for_each(|content| removing.note(content, placement))?;
                }
            }
            Message::AllSent { whole } => {
                if let Some(removing) = &self.removing {
                    removing.all_sent(whole);
                }
            }
            Message::Finished(finished) => self.peer = Some(*finished),
            message => near_port::hear(self.context, &message)?,
        }
        Ok(())
    }

    /// Grows with each step of the sender that this end can see. What its scan has found counts as far
    /// as it can be true: more files cannot wait to be offered or sent.
    fn evidence(&self) -> u64 {
        let board = &self.context.board;
        let pieces = board.pieces.load(Ordering::Relaxed);
        let scanned = lock(&board.notes).scanned;
        let believed = |one: &Comparing| one.believed(scanned.digested);
        let digested = self.comparing.as_ref().map_or(0, believed);
        let most = self.offered.max(pieces) + MAX_WAITING as u64;
        board
            .bytes
            .load(Ordering::Relaxed)
            .wrapping_add(pieces)
            .wrapping_add(self.offered)
            .wrapping_add(self.compared)
            .wrapping_add(digested)
            .wrapping_add(scanned.files.min(most))
            .wrapping_add(u64::from(scanned.complete))
            .wrapping_add(self.context.connections.left() as u64)
    }

    /// What the sender has to do next.
    fn owed(&self) -> Owed {
        if self.in_place {
            return Owed::Step("has not sent its account");
        }
        if let Some(comparing) = self.comparing.as_ref().filter(|one| one.is_waiting()) {
            return match comparing.is_busy() {
                true => Owed::Nothing,
                false => Owed::Step("has not compared its files"),
            };
        }
        let all_come = self.context.connections.left() == 0 && !self.context.job.dry_run;
        let told = self.removing.as_ref().is_none_or(|one| one.is_all_sent());
        let job = &self.context.job;
        // Whoever writes into the sender's pipe takes the time that it takes.
        let pipe = job.pipe && job.direction == Direction::Push;
        let finishing = self.finishing || all_come && told || pipe;
        let unread = self
            .context
            .abort
            .any(|socket| rustix::io::ioctl_fionread(socket).is_ok_and(|bytes| bytes > 0));
        if finishing || unread || self.receiving.flushing() {
            Owed::Nothing
        } else if self.context.limiter.paused() {
            Owed::End
        } else {
            Owed::Step("has sent nothing")
        }
    }

    /// Tells the sender how far this end is, if that has changed.
    fn tell_progress(&mut self) {
        let board = &self.context.board;
        let streams = self.context.abort.open_streams();
        let current = {
            let mut notes = lock(&board.notes);
            notes.streams = streams;
            notes.current.clone().map(|(_, path)| path)
        };
        let progress = Progress {
            bytes: board.bytes.load(Ordering::Relaxed),
            hole_bytes: board.hole_bytes.load(Ordering::Relaxed),
            files: board.files.load(Ordering::Relaxed),
            resumed: board.resumed_bytes.load(Ordering::Relaxed),
            streams,
            taken: self.context.connections.all_taken(),
            current,
            looked_at: board.looked_at.load(Ordering::Relaxed),
            removed: board.removed.load(Ordering::Relaxed),
            digested: self.comparing.as_ref().map_or(0, Comparing::read_bytes),
        };
        if progress != self.reported {
            self.context
                .control
                .say(Message::Progress(progress.clone()));
            self.reported = progress;
        }
    }
}
