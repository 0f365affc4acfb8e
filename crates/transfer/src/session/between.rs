//! The near end of a copy between two far ends: it gives both their job, and carries what they say from one to
//! the other. The data goes straight between them.
//!
//! Each far end has a conversation with this one alone, by the rules of any copy. To the sender this is a near
//! end that receives, to the receiver one that sends. So all that one of them says is judged here before the
//! other one hears it, and neither has a say in what the other one's job is.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use howdah_wire::limits::{MAX_ADDRESSES, MAX_STEERINGS_OPEN, MAX_TEXT_BYTES};
use howdah_wire::{
    DataPort, Direction, Finished, Job, Limit, Message, OfferedFile, Peer, Side, Steered, Totals,
    Way, printable_within,
};
use serde::Serialize;

use crate::end::abort::{Abort, lock};
use crate::end::context::{Board, Context};
use crate::end::digests::{Digest, Digests};
use crate::error::TransferError;
use crate::session::control::{Channel, Control, Event, MAX_EVENTS};
use crate::session::job::{self, Asked, Between, Connects};
use crate::session::listing::{Action, Listing};
use crate::session::liveness::{Liveness, Owed};
use crate::session::memory::MemoryMark;
use crate::session::names;
use crate::session::near::{Greeted, Session};
use crate::session::reachability::{Reachability, Ridden};
use crate::session::report::{self, Account};
use crate::session::sender::note_samples;
use crate::session::steer::Wish;
use crate::streams::sample::Trace;
use crate::tree::names::NamesFile;
use crate::tree::queue::MAX_WAITING;

/// Between two looks at whether both ends are there, and the copy moves.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The path between the far ends may be out for their patience, and they wait this much longer.
const FAR_WAITS_LONGER: Duration = Duration::from_secs(60);

impl Session {
    /// Has the far end try the data port of another one, at these addresses. What comes of it is in
    /// [`Self::port_tried`].
    ///
    /// # Errors
    /// When there is no address, or the session is over.
    pub fn try_port(&self, addresses: Vec<IpAddr>, port: u16) -> Result<(), TransferError> {
        let setup = lock(&self.setup);
        let channel = setup.channel.as_ref().ok_or(TransferError::Cancelled)?;
        let port = DataPort { addresses, port };
        channel.control().say(Message::TryPort(port));
        Ok(())
    }

    /// PortTried as JSON, or `None` when it is not there after `timeout`.
    ///
    /// # Errors
    /// When the far end has gone.
    pub fn port_tried(&self, timeout: Duration) -> Result<Option<Vec<u8>>, TransferError> {
        #[derive(Serialize)]
        struct Json {
            rtt_s: Option<f64>,
            why_not: Option<String>,
        }
        let setup = lock(&self.setup);
        let tried = setup.heard(Instant::now() + timeout, |message| match message {
            Message::PortTried(tried) => Some(tried),
            _ => None,
        })?;
        let json = tried.map(|tried| match tried {
            Ok(ns) => Json {
                rtt_s: Some(Duration::from_nanos(ns).as_secs_f64()),
                why_not: None,
            },
            Err(why) => Json {
                rtt_s: None,
                why_not: Some(printable_within(why.as_bytes(), MAX_TEXT_BYTES)),
            },
        });
        Ok(json.map(|json| report::to_json(&json)))
    }

    /// Carries out a Job by a Plan, both JSON, in which this session's far end sends to that of `receiver`. From
    /// then on this session is of the whole copy; the other one has to live as long.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_between(
        &self,
        receiver: &Self,
        job: &[u8],
        plan: &[u8],
    ) -> Result<(), TransferError> {
        let Asked {
            job,
            digests,
            names,
            between,
            ..
        } = job::read(job, plan)?;
        job::check(&job)?;
        let can_be = |between: &Between| {
            job.memory.is_none()
                && job.delete.is_none()
                && !job.pipe
                && (1..=MAX_ADDRESSES).contains(&between.to.len())
        };
        let Some(between) = between.filter(can_be) else {
            let words = "a copy between two far ends is of files, removes nothing, and says which end connects, and where to";
            return Err(TransferError::Here(words.to_owned()));
        };
        let list = names.map(|names| names.open()).transpose()?;
        let mut setup = lock(&self.setup);
        let sender = setup.greeted()?;
        let receiver = lock(&receiver.setup).greeted()?;
        let jobs = Jobs::new(job, &between, &sender, &receiver, digests.is_some());
        let digests = digests.map_or_else(Digests::nowhere, |path| Digests::to_file(&path));
        let board = Arc::new(Board::new(digests));
        lock(&self.shared.state).running = Some((jobs.receiver.clone(), Arc::clone(&board)));
        let (shared, events) = (Arc::clone(&self.shared), self.events.clone());
        let patience = self.patience;
        let spawned = thread::Builder::new()
            .name("howdah-between".into())
            .spawn(move || {
                let mut channels = [sender.channel, receiver.channel];
                let controls = channels.each_ref().map(Channel::control);
                let inboxes = [sender.inbox, receiver.inbox];
                let path_patience = Duration::from_nanos(jobs.sender.patience_ns);
                let context = Context::new(
                    Side::Near,
                    jobs.sender.clone(),
                    controls[0].clone(),
                    events,
                    patience + path_patience + FAR_WAITS_LONGER,
                    Arc::clone(&shared.abort),
                    board,
                );
                let outcome = carry_out(&context, jobs, &between, controls, inboxes, list);
                shared.abort.trigger();
                context.join();
                channels.iter_mut().for_each(Channel::close);
                shared.end(outcome);
            });
        let thread = spawned
            .map_err(|error| TransferError::Here(format!("cannot start a thread: {error}")))?;
        setup.thread = Some(thread);
        Ok(())
    }
}

/// What each far end is told to do.
struct Jobs {
    sender: Job,
    receiver: Job,
}

impl Jobs {
    fn new(
        job: Job,
        between: &Between,
        sender: &Greeted,
        receiver: &Greeted,
        tells_digests: bool,
    ) -> Self {
        let connect = |to: &Greeted| Way::Connect {
            to: DataPort {
                addresses: between.to.clone(),
                port: to.hello.port,
            },
            token: to.hello.token,
        };
        let accept = Way::Accept { from: between.from };
        let (sends, receives) = match between.connects {
            Connects::Sender => (connect(receiver), accept),
            Connects::Receiver => (accept, connect(sender)),
        };
        let peer = |of: &Greeted, way| {
            let key = of.hello.key.clone();
            Some(Peer { key, way })
        };
        Self {
            sender: Job {
                direction: Direction::Pull,
                peer: peer(receiver, sends),
                tells_digests,
                ..job.clone()
            },
            receiver: Job {
                direction: Direction::Push,
                peer: peer(sender, receives),
                ..job
            },
        }
    }
}

/// One of the two far ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Sender,
    Receiver,
}

const ENDS: [End; 2] = [End::Sender, End::Receiver];

fn carry_out(
    context: &Arc<Context>,
    jobs: Jobs,
    between: &Between,
    controls: [Control; 2],
    inboxes: [Receiver<Event>; 2],
    list: Option<NamesFile>,
) -> Result<Vec<u8>, TransferError> {
    let mark = MemoryMark::now();
    let now = Instant::now();
    let receiver_job = jobs.receiver;
    let (names_taken, taken) = mpsc::channel();
    let mut run = Run {
        context,
        between,
        sender: controls[0].clone(),
        receiver: controls[1].clone(),
        receiver_path: Reachability::new(
            Side::Near,
            Duration::from_nanos(receiver_job.patience_ns),
            now,
        ),
        liveness: Liveness::new(Side::Near, context.patience, now),
        sender_job: Some(jobs.sender),
        list: list.map(|list| (list, taken)),
        names_taken,
        offered: VecDeque::new(),
        steps: Steps::default(),
        wishes: VecDeque::new(),
        trace: Trace::new(),
        listed: Listing::default(),
        finished: [None, None],
        verified: None,
        failed: None,
    };
    let outcome = run.until_finished(&receiver_job, inboxes);
    if let Err(error) = &outcome {
        run.say_why(error);
    }
    context.abort.settle();
    if let Some(why) = context.board.digests.finish() {
        context.warn(format!("the digests could not all be kept: {why}"));
    }
    outcome?;
    let account = run.account(&mark);
    Ok(report::outcome(
        &receiver_job,
        &context.board,
        &run.trace,
        &account,
    ))
}

/// What both far ends have done, by what each has said.
#[derive(Debug, Default)]
struct Steps {
    accepted: bool,
    offered: u64,
    answered: u64,
    checked: u64,
    /// Messages on files that are compared by their content.
    compared: u64,
    /// What each end has read of them, by its account, in bytes.
    digested: [u64; 2],
    /// Pieces that the receiver has taken.
    taken: u64,
}

struct Run<'a> {
    context: &'a Arc<Context>,
    between: &'a Between,
    sender: Control,
    receiver: Control,
    /// Whether the receiver can be reached; the context's is of the sender.
    receiver_path: Reachability,
    liveness: Liveness,
    /// Until the receiver has accepted.
    sender_job: Option<Job>,
    /// The list of what is moved, until the sender has its job.
    list: Option<(NamesFile, Receiver<()>)>,
    names_taken: Sender<()>,
    /// What was offered and not answered. The conversation with the sender bounds it.
    offered: VecDeque<OfferedFile>,
    steps: Steps,
    /// What the sender was asked for and has not answered.
    wishes: VecDeque<Wish>,
    trace: Trace,
    listed: Listing,
    finished: [Option<Finished>; 2],
    /// When the receiver had all.
    verified: Option<Instant>,
    /// The end that has failed by its own word.
    failed: Option<End>,
}

impl Run<'_> {
    fn until_finished(
        &mut self,
        job: &Job,
        inboxes: [Receiver<Event>; 2],
    ) -> Result<(), TransferError> {
        let (merged, events) = mpsc::sync_channel(MAX_EVENTS);
        for (end, inbox) in ENDS.into_iter().zip(inboxes) {
            let (merged, abort) = (merged.clone(), Arc::clone(&self.context.abort));
            // It ends by itself, and nobody waits for that.
            let spawned = thread::Builder::new()
                .name("howdah-merge".into())
                .spawn(move || merge(&abort, end, &inbox, &merged));
            spawned
                .map_err(|error| TransferError::Here(format!("cannot start a thread: {error}")))?;
        }
        drop(merged);
        self.receiver.say(Message::Job(Box::new(job.clone())));
        let mut look_at = Instant::now();
        while self.finished.iter().any(Option::is_none) {
            let now = Instant::now();
            if now >= look_at {
                self.look(now)?;
                look_at = now + LOOK_EVERY;
            }
            match events.recv_timeout(look_at.saturating_duration_since(now)) {
                Ok((end, event)) => self.take(end, event)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(TransferError::Cancelled),
            }
        }
        if let [Some(sent), Some(received)] = &self.finished {
            if sent.digests != received.digests {
                return Err(TransferError::Here(
                    "the digests of the two ends differ: what has arrived is not what was sent; \
                     delete what this copy wrote and run it again"
                        .to_owned(),
                ));
            }
            if self.context.job.tells_digests {
                self.context.compare_digests(received)?;
            }
            self.context.board.digests.take_for_all(sent.digests);
        }
        Ok(())
    }

    fn take(&mut self, end: End, event: Event) -> Result<(), TransferError> {
        match event {
            Event::Message(Message::Failed(text)) => {
                self.failed = Some(end);
                Err(TransferError::Here(self.said(end, &text)))
            }
            Event::Message(message) => {
                let now = Instant::now();
                match (end, message) {
                    (End::Sender, message) => {
                        self.context.path.word(now);
                        self.hear_sender(message)
                    }
                    (End::Receiver, message) => {
                        self.receiver_path.word(now);
                        self.hear_receiver(message)
                    }
                }
            }
            Event::Steer(wish) => self.steer(wish),
            Event::Limit(limit) => {
                self.limit(limit);
                Ok(())
            }
            Event::Closed(None) if self.finished[end as usize].is_some() => Ok(()),
            Event::Closed(None) => {
                self.failed = Some(end);
                Err(TransferError::Gone(format!(
                    "{} has gone before the transfer ended; its ssh connection closed or howdah was killed \
                     there; run the same command again to go on",
                    self.name(end)
                )))
            }
            Event::Closed(Some(TransferError::Here(text))) => {
                self.failed = Some(end);
                Err(TransferError::Here(format!("{}: {text}", self.name(end))))
            }
            Event::Closed(Some(error)) | Event::Failed(error) | Event::Stop(error) => Err(error),
            Event::StreamDone | Event::InPlace => Ok(()),
        }
    }

    fn hear_sender(&mut self, message: Message) -> Result<(), TransferError> {
        match message {
            Message::Offer(offer) => {
                self.steps.offered += offer.files.len() as u64;
                self.offered.extend(offer.files.iter().cloned());
                self.receiver.say(Message::Offer(offer));
            }
            Message::Compared(compared) => {
                self.steps.compared += 1;
                self.receiver.say(Message::Compared(compared));
            }
            Message::Scanned(scanned) => {
                self.steps.digested[End::Sender as usize] = scanned.digested;
                lock(&self.context.board.notes).scanned = scanned;
                self.receiver.say(Message::Scanned(scanned));
            }
            Message::Samples(samples) => {
                note_samples(self.context, &samples);
                self.trace.add(samples);
            }
            Message::Warning(text) => self.warn(End::Sender, &text),
            Message::LeftOut(text) => self.leave_out(End::Sender, &text),
            Message::Steered(mut steered) => {
                if let Steered {
                    taken: Err(reason), ..
                } = &mut steered
                {
                    *reason = self.said(End::Sender, reason);
                }
                if let Some(wish) = self.wishes.pop_front() {
                    let change = wish.came_to(steered);
                    lock(&self.context.board.notes).changes.add(change);
                }
            }
            Message::NamesTaken => drop(self.names_taken.send(())),
            Message::Digests(digests) => {
                let digests = digests.into_iter().map(|digest| Digest {
                    source: digest.source,
                    path: digest.path,
                    blake3: digest.blake3,
                });
                self.context.note_digests(digests);
            }
            Message::Finished(finished) => {
                self.finished[End::Sender as usize] = Some(*finished);
            }
            _ => {}
        }
        Ok(())
    }

    fn hear_receiver(&mut self, message: Message) -> Result<(), TransferError> {
        match message {
            Message::Accept { fresh, into_folder } => {
                self.steps.accepted = true;
                lock(&self.context.board.notes).into_folder = into_folder;
                self.start_sender(fresh)?;
            }
            Message::Answer(answer) => {
                self.note_answer(&answer.needed);
                self.sender.say(Message::Answer(answer));
            }
            Message::Compare(compare) => {
                self.steps.compared += 1;
                self.sender.say(Message::Compare(compare));
            }
            Message::Checked(checked) => {
                self.steps.checked += 1;
                self.sender.say(Message::Checked(checked));
            }
            Message::Progress(progress) => {
                let board = &self.context.board;
                if progress.bytes > 0 {
                    board.payload_begins();
                }
                board.bytes.store(progress.bytes, Ordering::Relaxed);
                board.files.store(progress.files, Ordering::Relaxed);
                let resumed = &board.resumed_bytes;
                resumed.store(progress.resumed, Ordering::Relaxed);
                self.steps.digested[End::Receiver as usize] = progress.digested;
                let taken = progress.taken.iter().copied();
                self.steps.taken = taken.fold(0, u64::saturating_add);
                {
                    let mut notes = lock(&board.notes);
                    notes.streams = progress.streams;
                    notes.current = progress.current.clone().map(|path| (0, path));
                }
                self.sender.say(Message::Progress(progress));
            }
            Message::Warning(text) => self.warn(End::Receiver, &text),
            Message::LeftOut(text) => self.leave_out(End::Receiver, &text),
            Message::Finished(finished) => {
                self.verified = Some(Instant::now());
                self.sender.say(Message::Finished(finished.clone()));
                self.finished[End::Receiver as usize] = Some(*finished);
            }
            _ => {}
        }
        Ok(())
    }

    fn leave_out(&self, end: End, text: &str) {
        let why = self.said(end, text);
        lock(&self.context.board.notes).left_out.add(why);
    }

    /// Gives the sender its job, and the list of names if there is one.
    fn start_sender(&mut self, fresh: bool) -> Result<(), TransferError> {
        let Some(mut job) = self.sender_job.take() else {
            return Ok(());
        };
        job.fresh = fresh;
        self.sender.say(Message::Job(Box::new(job)));
        for wish in &self.wishes {
            self.sender.say(Message::Steer(wish.steering.clone()));
        }
        let Some((list, taken)) = self.list.take() else {
            return Ok(());
        };
        self.context.spawn("howdah-names", move |context| {
            names::say(context, list, &taken)
        })
    }

    /// Counts what need not be sent, and lists what a dry run would do.
    fn note_answer(&mut self, needed: &[bool]) {
        self.steps.answered += needed.len() as u64;
        let mut notes = lock(&self.context.board.notes);
        for (&needed, file) in needed.iter().zip(self.offered.drain(..needed.len())) {
            if !needed {
                notes.skipped.files += 1;
                notes.skipped.bytes = notes.skipped.bytes.saturating_add(file.size);
            }
            if self.context.job.dry_run {
                let action = Action::of(needed);
                self.listed.add(file.source, file.path, file.size, action);
            }
        }
    }

    fn steer(&mut self, wish: Wish) -> Result<(), TransferError> {
        if self.wishes.len() as u64 >= MAX_STEERINGS_OPEN {
            return Err(TransferError::Here(format!(
                "{} has not answered {} changes of its streams",
                self.between.sender,
                self.wishes.len()
            )));
        }
        if self.verified.is_none() {
            // Before its job the sender takes none; it has them behind that.
            if self.sender_job.is_none() {
                self.sender.say(Message::Steer(wish.steering.clone()));
            }
            self.wishes.push_back(wish);
        }
        Ok(())
    }

    /// Limits what the sender sends, and has the receiver know of a pause.
    fn limit(&mut self, limit: Limit) {
        self.context.limiter.set(limit);
        // When all is in place it has been said to the sender, as the last word.
        if self.verified.is_some() {
            return;
        }
        self.receiver.say(Message::Limit(limit));
        match &mut self.sender_job {
            Some(job) => job.limit = limit,
            None => self.sender.say(Message::Limit(limit)),
        }
    }

    /// Looks whether both ends are there, and whether the copy moves.
    fn look(&mut self, now: Instant) -> Result<(), TransferError> {
        let looks = [
            (End::Sender, self.context.path.look(Duration::ZERO, now)),
            (End::Receiver, self.receiver_path.look(Duration::ZERO, now)),
        ];
        let [sender, receiver] = looks.map(|(end, ridden)| {
            ridden.map_err(|error| TransferError::Here(format!("{}: {error}", self.name(end))))
        });
        let (sender, receiver) = (sender?, receiver?);
        // Mostly it is this host's own way out that is gone, and with it both.
        let longest = |one: &Ridden| (one.out_for, one.all);
        let ridden = match longest(&receiver) > longest(&sender) {
            true => receiver,
            false => sender,
        };
        lock(&self.context.board.notes).ridden = ridden;
        let there = self.context.path.in_touch() && self.receiver_path.in_touch();
        let (evidence, owed) = (self.evidence(), self.owed());
        self.liveness.look(evidence, owed, there, now)
    }

    /// Grows with each step of both. One alone may say what it likes: what the receiver says has arrived counts as
    /// far as the sender's kernel says the same.
    fn evidence(&self) -> u64 {
        let board = &self.context.board;
        let (scanned, acked) = {
            let notes = lock(&board.notes);
            let acked = notes.acked.values().copied();
            (notes.scanned, acked.fold(0, u64::saturating_add))
        };
        let steps = &self.steps;
        let moved = board.bytes.load(Ordering::Relaxed);
        let moved = moved.saturating_add(steps.taken).min(acked);
        let most = steps.offered.max(steps.taken) + MAX_WAITING as u64;
        moved
            .wrapping_add(steps.answered)
            .wrapping_add(steps.compared)
            .wrapping_add(steps.digested[0].min(steps.digested[1]))
            .wrapping_add(steps.checked.min(steps.taken))
            .wrapping_add(scanned.files.min(most))
            .wrapping_add(u64::from(scanned.complete))
            .wrapping_add(u64::from(steps.accepted))
            .wrapping_add(u64::from(self.verified.is_some()))
    }

    /// What the far ends have to do next.
    fn owed(&self) -> Owed {
        let board = &self.context.board;
        let notes = lock(&board.notes);
        let there = notes
            .skipped
            .bytes
            .saturating_add(board.resumed_bytes.load(Ordering::Relaxed));
        let to_move = notes.scanned.bytes.saturating_sub(there);
        if !self.steps.accepted {
            Owed::Step("has not said whether it takes the copy")
        } else if notes.scanned.complete && board.bytes.load(Ordering::Relaxed) >= to_move {
            Owed::LastStep("has not confirmed the copy")
        } else if self.context.limiter.paused() {
            Owed::End
        } else {
            Owed::Step("has moved nothing")
        }
    }

    fn account(&mut self, mark: &MemoryMark) -> Account {
        let board = &self.context.board;
        let ended = Instant::now();
        let [sent, received] = self
            .finished
            .each_mut()
            .map(|one| one.take().unwrap_or_default());
        // Folders and links are not offered, so of a dry run only the sender knows them.
        let made = match self.context.job.dry_run {
            true => sent.totals,
            false => received.totals,
        };
        Account {
            totals: Totals {
                bytes: board.bytes.load(Ordering::Relaxed),
                files: board.files.load(Ordering::Relaxed),
                ..made
            },
            sender_streams: sent.streams,
            receiver_streams: received.streams,
            verified: self.verified.unwrap_or(ended),
            ended,
            near_peak_memory_bytes: mark.peak_growth_bytes(),
            far_peak_memory_bytes: sent.peak_memory_bytes.max(received.peak_memory_bytes),
            listed: std::mem::take(&mut self.listed),
            removal: None,
        }
    }

    /// Has each end know why this one stops, unless it has said so itself.
    fn say_why(&self, error: &TransferError) {
        for (end, control) in ENDS.into_iter().zip([&self.sender, &self.receiver]) {
            if self.failed != Some(end) {
                control.say(match error {
                    TransferError::Cancelled => Message::Cancel,
                    error => Message::Failed(error.to_string()),
                });
            }
        }
    }

    fn warn(&self, end: End, text: &str) {
        let line = self.said(end, text);
        lock(&self.context.board.notes).warnings.add(line);
    }

    /// The words of an end as one line, of which a terminal obeys nothing.
    fn said(&self, end: End, text: &str) -> String {
        let text = printable_within(text.as_bytes(), MAX_TEXT_BYTES);
        format!("{}: {text}", self.name(end))
    }

    fn name(&self, end: End) -> &str {
        match end {
            End::Sender => &self.between.sender,
            End::Receiver => &self.between.receiver,
        }
    }
}

/// Hands on what happens at one end, as long as the copy goes on.
fn merge(abort: &Abort, end: End, inbox: &Receiver<Event>, merged: &SyncSender<(End, Event)>) {
    while !abort.stopping() {
        match inbox.recv_timeout(LOOK_EVERY) {
            Ok(event) => {
                if merged.send((end, event)).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
