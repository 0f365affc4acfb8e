//! Forwards messages between two far ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use howdah_wire::limits::{MAX_STEERINGS_OPEN, MAX_TEXT_BYTES};
use howdah_wire::{
    Finished, Job, Limit, Message, Offered, OfferedFile, Steered, Totals, printable_within,
};

use super::movement::Movement;
use super::{ENDS, End, Jobs};
use crate::end::abort::{Abort, lock};
use crate::end::context::Context;
use crate::end::digests::Digest;
use crate::error::TransferError;
use crate::session::control::{Control, Event, MAX_EVENTS, Onward};
use crate::session::job::Between;
use crate::session::listing::Listing;
use crate::session::memory::MemoryMark;
use crate::session::names;
use crate::session::report::Account;
use crate::session::sender::note_samples;
use crate::session::steer::{Wish, note_change};
use crate::streams::sample::Trace;
use crate::tree::names::NamesFile;

/// Between two looks at whether both ends are there, and the copy moves.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is between the two.
pub struct Relay<'a> {
    context: &'a Arc<Context>,
    between: &'a Between,
    sender: Control,
    receiver: Control,
    /// Where the names in the sender's folders wait for the receiver.
    onward: Arc<Onward>,
    movement: Movement,
    receiver_job: Job,
    /// Until the receiver has accepted.
    sender_job: Option<Job>,
    /// The list of what is moved, until the sender has its job.
    list: Option<(NamesFile, Receiver<()>)>,
    names_taken: Sender<()>,
    /// What was offered and not answered. The conversation with the sender bounds it.
    offered: VecDeque<OfferedFile>,
    /// What the sender was asked for and has not answered.
    wishes: VecDeque<Wish>,
    trace: Trace,
    listed: Listing,
    finished: [Option<Finished>; 2],
    /// The end that has failed by its own word.
    failed: Option<End>,
}

impl<'a> Relay<'a> {
    /// Nothing was said yet.
    pub fn new(
        context: &'a Arc<Context>,
        between: &'a Between,
        jobs: Jobs,
        ([sender, receiver], onward): ([Control; 2], Arc<Onward>),
        list: Option<NamesFile>,
    ) -> Self {
        let path_patience = Duration::from_nanos(jobs.receiver.patience_ns);
        let (names_taken, taken) = mpsc::channel();
        Self {
            context,
            between,
            sender,
            receiver,
            onward,
            movement: Movement::new(context, path_patience, Instant::now()),
            receiver_job: jobs.receiver,
            sender_job: Some(jobs.sender),
            list: list.map(|list| (list, taken)),
            names_taken,
            offered: VecDeque::new(),
            wishes: VecDeque::new(),
            trace: Trace::new(),
            listed: Listing::default(),
            finished: [None, None],
            failed: None,
        }
    }

    /// Gives the receiver its job, and forwards messages until both ends have said that the copy is complete.
    ///
    /// # Errors
    /// Why the copy has failed, at either end.
    pub fn until_finished(&mut self, inboxes: [Receiver<Event>; 2]) -> Result<(), TransferError> {
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
        self.receiver
            .say(Message::Job(Box::new(self.receiver_job.clone())));
        let mut look_at = Instant::now();
        while self.finished.iter().any(Option::is_none) {
            let now = Instant::now();
            if now >= look_at {
                if self.onward.waiting() {
                    // It is the receiver, or the path to it, that holds the sender back.
                    self.movement.word(self.context, End::Sender, now);
                }
                self.movement.look(self.context, self.between, now)?;
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
                self.movement.word(self.context, end, Instant::now());
                match end {
                    End::Sender => self.hear_sender(message),
                    End::Receiver => self.hear_receiver(message),
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
                    end.name(self.between)
                )))
            }
            Event::Closed(Some(TransferError::Here(text))) => {
                self.failed = Some(end);
                Err(TransferError::Here(format!(
                    "{}: {text}",
                    end.name(self.between)
                )))
            }
            Event::Closed(Some(error)) | Event::Failed(error) | Event::Stop(error) => Err(error),
            Event::StreamDone | Event::InPlace => Ok(()),
        }
    }

    fn hear_sender(&mut self, message: Message) -> Result<(), TransferError> {
        match message {
            Message::Offer(offer) => {
                self.movement.steps.offered += offer.files.len() as u64;
                self.offered.extend(offer.files.iter().cloned());
                self.receiver.say(Message::Offer(offer));
            }
            Message::Compared(compared) => {
                self.movement.steps.compared += 1;
                self.receiver.say(Message::Compared(compared));
            }
            Message::Scanned(scanned) => {
                self.movement.steps.digested[End::Sender as usize] = scanned.digested;
                lock(&self.context.board.notes).scanned = scanned;
                self.receiver.say(Message::Scanned(scanned));
            }
            // The receiver removes nothing but what its own job says, whatever the sender tells it.
            Message::Content(content) => self.receiver.say(Message::Content(content)),
            Message::AllSent { whole } => {
                self.movement.steps.all_sent = Some(Instant::now());
                self.receiver.say(Message::AllSent { whole });
            }
            Message::Spent(spent) => lock(&self.context.board.notes).near_spent = *spent,
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
                    note_change(self.context, wish, steered);
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
                self.movement.steps.accepted = true;
                lock(&self.context.board.notes).into_folder = into_folder;
                self.start_sender(fresh)?;
            }
            Message::Answer(answer) => {
                self.note_answer(&answer.needed);
                self.sender.say(Message::Answer(answer));
            }
            Message::Compare(compare) => {
                self.movement.steps.compared += 1;
                self.sender.say(Message::Compare(compare));
            }
            Message::Checked(checked) => {
                self.movement.steps.checked += 1;
                self.sender.say(Message::Checked(checked));
            }
            Message::Progress(progress) => {
                let board = &self.context.board;
                if progress.bytes > 0 {
                    board.payload_begins();
                }
                board.bytes.store(progress.bytes, Ordering::Relaxed);
                let hole_bytes = &board.hole_bytes;
                hole_bytes.store(progress.hole_bytes, Ordering::Relaxed);
                board.files.store(progress.files, Ordering::Relaxed);
                let resumed = &board.resumed_bytes;
                resumed.store(progress.resumed, Ordering::Relaxed);
                self.movement.steps.digested[End::Receiver as usize] = progress.digested;
                let taken = progress.taken.iter().copied();
                self.movement.steps.taken = taken.fold(0, u64::saturating_add);
                board.removed.store(progress.removed, Ordering::Relaxed);
                self.movement.cleaned(&progress);
                {
                    let mut notes = lock(&board.notes);
                    notes.streams = progress.streams;
                    notes.current = progress.current.clone().map(|path| (0, path));
                }
                self.sender.say(Message::Progress(progress));
            }
            Message::Spent(spent) => lock(&self.context.board.notes).far_spent = *spent,
            Message::Extraneous(found) => found
                .into_iter()
                .for_each(|extraneous| self.listed.add_extraneous(extraneous)),
            Message::Warning(text) => self.warn(End::Receiver, &text),
            Message::LeftOut(text) => self.leave_out(End::Receiver, &text),
            Message::Finished(finished) => {
                self.movement.steps.verified = Some(Instant::now());
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
        self.movement.steps.answered += needed.len() as u64;
        let mut notes = lock(&self.context.board.notes);
        for (&needed, file) in needed.iter().zip(self.offered.drain(..needed.len())) {
            if !needed && file.kind == Offered::File {
                notes.skipped.files += 1;
                notes.skipped.bytes = notes.skipped.bytes.saturating_add(file.size);
            }
            if self.context.job.dry_run {
                let kind = file.kind.kind();
                self.listed
                    .add_answered(file.source, file.path, kind, file.size, needed);
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
        if self.movement.steps.verified.is_none() {
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
        if self.movement.steps.verified.is_some() {
            return;
        }
        self.receiver.say(Message::Limit(limit));
        match &mut self.sender_job {
            Some(job) => job.limit = limit,
            None => self.sender.say(Message::Limit(limit)),
        }
    }

    /// The samples, and the reports of both ends on the copy.
    pub fn account(self, mark: &MemoryMark) -> (Trace, Account) {
        let board = &self.context.board;
        let ended = Instant::now();
        let [sent, received] = self.finished.map(Option::unwrap_or_default);
        // Of a dry run only the sender counts what else than files there is.
        let made = match self.context.job.dry_run {
            true => sent.totals,
            false => received.totals,
        };
        let account = Account {
            totals: Totals {
                bytes: board.bytes.load(Ordering::Relaxed),
                hole_bytes: board.hole_bytes.load(Ordering::Relaxed),
                files: board.files.load(Ordering::Relaxed),
                ..made
            },
            sender_streams: sent.streams,
            receiver_streams: received.streams,
            naming: received.naming,
            finishing_ns: received.finishing_ns,
            verified: self.movement.steps.verified.unwrap_or(ended),
            ended,
            near_peak_memory_bytes: mark.peak_growth_bytes(),
            far_peak_memory_bytes: sent.peak_memory_bytes.max(received.peak_memory_bytes),
            listed: self.listed,
            removal: received.removal,
        };
        (self.trace, account)
    }

    /// Tells each end why this one stops, unless that end has given the reason itself.
    pub fn say_why(&self, error: &TransferError) {
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
        format!("{}: {text}", end.name(self.between))
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
