//! The sending end, near or far. It scans, offers, sends and samples until it is told that everything has arrived.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use howdah_wire::limits::{MAX_NAMES_OPEN, MAX_PIPED_BYTES};
use howdah_wire::{
    Direction, Finished, Message, Names, Progress, Same, Sample, Scanned, Side, Spent, Steered,
    Steering, StreamSummary, Totals,
};

use crate::connect::near_port;
use crate::connect::setup::StreamSetup;
use crate::end::abort::lock;
use crate::end::context::Context;
use crate::end::tuning::HOLD;
use crate::error::TransferError;
use crate::session::comparing::Asking;
use crate::session::control::Event;
use crate::session::inbox::{Inbox, Input};
use crate::session::listing::Listing;
use crate::session::liveness::{Liveness, Owed};
use crate::session::memory::MemoryMark;
use crate::session::names::{Coming, Origin};
use crate::session::steer::note_change;
use crate::streams::sample::Sampler;
use crate::streams::send::Sending;
use crate::tree::content::Untold;
use crate::tree::entry::Found;
use crate::tree::first_names::FirstNames;
use crate::tree::names::NamesFile;
use crate::tree::queue::Queue;
use crate::tree::source::Sources;

/// The longest between two looks at a socket, however seldom its samples are kept.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Between two words on how far the scan is, while it runs.
const SCANNED_EVERY: Duration = Duration::from_millis(200);
/// The time between two messages on how the streams spend their time.
pub const SPENT_EVERY: Duration = Duration::from_secs(1);

/// The sending end's results.
pub struct Sent {
    /// Its sockets.
    pub streams: Vec<StreamSummary>,
    /// The receiver's account.
    pub peer: Finished,
    /// What is at the receiver now.
    pub arrived: Totals,
    /// When that arrived.
    pub finished: Instant,
    /// Dry run: what it would do.
    pub listed: Listing,
}

/// For how long a receiver's reports on its removals count as progress, at most. They cannot be checked.
pub const REMOVALS_WITHIN: Duration = Duration::from_secs(86_400);

/// Carries out the sending end of a job. A near end has the list of names, if there is one. `sampled` gets the
/// samples of each instant.
///
/// # Errors
/// Whatever ends the transfer early. Threads may still be running then.
pub fn run(
    context: &Arc<Context>,
    events: &Receiver<Event>,
    stream_setup: StreamSetup,
    sources: Sources,
    list: Option<NamesFile>,
    mark: MemoryMark,
    sampled: &mut dyn FnMut(Vec<Sample>),
) -> Result<Sent, TransferError> {
    let job = &context.job;
    let block_bytes = match job.pipe {
        // The receiver holds what comes early in memory.
        true => job.plan.block_bytes.min(MAX_PIPED_BYTES),
        false => job.plan.block_bytes,
    };
    let queue = Queue::new(
        Arc::clone(&context.abort),
        job.plan.streams,
        block_bytes,
        job.dry_run,
    )
    .comparing(job.skip.same == Same::Content);
    let (said, heard) = mpsc::sync_channel(MAX_NAMES_OPEN);
    let names = match (job.named, list) {
        (false, _) => None,
        (true, Some(list)) => Some(Origin::File(list)),
        (true, None) => Some(Origin::Near(heard)),
    };
    let sending = Arc::new(Sending::new(queue, sources, job.plan.streams));
    if job.direction == Direction::Pull {
        sending.queue.accept(job.fresh && !job.dry_run);
    }
    if let Some(memory) = job.memory {
        sending.queue.add_memory(memory);
    } else if sending.sources.inlet().is_some() {
        let sending = Arc::clone(&sending);
        context.spawn("howdah-pipe", move |context| read_pipe(context, &sending))?;
    } else {
        let names = names.map(Coming::new);
        let sending = Arc::clone(&sending);
        context.spawn("howdah-scan", move |context| scan(context, &sending, names))?;
    }
    if !job.dry_run {
        let sending = Arc::clone(&sending);
        stream_setup.open(
            context,
            true,
            Arc::new(move |context, connection, stream| sending.work(context, connection, stream)),
        )?;
    }
    let run = Run {
        context,
        asking: Asking::new(&sending),
        digested: 0,
        sending,
        inbox: Inbox::new(events, context.side, &context.path),
        liveness: Liveness::new(context.side, context.patience, Instant::now()),
        placed: 0,
        compared: 0,
        cleaned: 0,
        told_all_sent: None,
        sampler: Sampler::new(context.board.started),
        sampled,
        finished: None,
        names: said,
    };
    let sending = Arc::clone(&run.sending);
    run.until_finished(mark)
        .inspect_err(|_| sending.leave_unconfirmed(context))
}

/// Reads the pipe of this end to its end.
fn read_pipe(context: &Context, sending: &Sending) -> Result<(), TransferError> {
    let stop = || context.abort.stopping();
    match sending
        .sources
        .inlet()
        .map(|inlet| inlet.read(&sending.queue, stop))
    {
        // This end stops already, and says itself why.
        None | Some(Err(TransferError::Cancelled)) => Ok(()),
        Some(outcome) => outcome,
    }
}

fn scan(
    context: &Arc<Context>,
    sending: &Sending,
    names: Option<Coming>,
) -> Result<(), TransferError> {
    let queue = &sending.queue;
    let offer = || queue.make_offers(|offer| context.control.say(Message::Offer(offer)));
    let mut untold = Untold::default();
    let mut first_names = context.job.keep.hard_links.then(FirstNames::default);
    let mut take = |found| {
        match found {
            Found::Entry(entry) => {
                queue.add(match &mut first_names {
                    Some(names) => names.link(entry),
                    None => entry,
                })?;
                offer();
            }
            Found::Special(line) => context.warn(line),
            Found::Unreadable(why) => context.leave_out(why),
            Found::Content(content) => {
                if let Some(told) = untold.add(content) {
                    context.control.say(Message::Content(told));
                }
            }
        }
        Ok(())
    };
    let scanned = match names {
        None => sending.sources.scan(&mut take),
        Some(mut names) => {
            let mut next = || names.next(context);
            sending.sources.scan_names(&mut next, &mut take)
        }
    };
    match scanned {
        Ok(()) => {
            if let Some(told) = untold.take() {
                context.control.say(Message::Content(told));
            }
            queue.scan_complete();
            offer();
            Ok(())
        }
        // This end stops already, and says itself why.
        Err(TransferError::Cancelled) => Ok(()),
        Err(error) => Err(error),
    }
}

struct Run<'a> {
    context: &'a Arc<Context>,
    sending: Arc<Sending>,
    /// Files whose digests the receiver needs, and
    asking: Asking,
    /// what it has read of its own, by its account, in bytes.
    digested: u64,
    inbox: Inbox<'a>,
    liveness: Liveness,
    /// Files in place by the receiver's account, as far as it can be true.
    placed: u64,
    /// Parts that the receiver has compared.
    compared: u64,
    /// Names that the receiver has looked at or removed, by its account.
    cleaned: u64,
    /// When it was told that all is sent, of a job that removes.
    told_all_sent: Option<Instant>,
    sampler: Sampler,
    sampled: &'a mut dyn FnMut(Vec<Sample>),
    finished: Option<Finished>,
    /// Takes the names that come.
    names: SyncSender<Names>,
}

impl Run<'_> {
    fn until_finished(mut self, mark: MemoryMark) -> Result<Sent, TransferError> {
        let keep_every = Duration::from_nanos(self.context.job.sample_every_ns);
        let look_every = keep_every.min(LOOK_EVERY);
        let mut sample_at = Instant::now();
        let mut keep_at = sample_at;
        let mut scanned_at = Instant::now();
        let mut told_at = scanned_at + SPENT_EVERY;
        let mut reported: Option<Scanned> = None;
        let peer = loop {
            let now = Instant::now();
            if now >= sample_at {
                let keep = now >= keep_at;
                self.sample(keep);
                self.context.look_at_path(now)?;
                sample_at = now + look_every;
                if keep {
                    keep_at = now + keep_every;
                }
                if now >= told_at {
                    tell_spent(self.context, self.sampler.spent(&self.context.books));
                    told_at = now + SPENT_EVERY;
                }
            }
            let scanned = Scanned {
                digested: self.asking.read_bytes(),
                ..self.sending.queue.scanned()
            };
            let ends = scanned.complete && !reported.is_some_and(|one| one.complete);
            let news = reported != Some(scanned) && (ends || now >= scanned_at + SCANNED_EVERY);
            if news {
                self.context.control.say(Message::Scanned(scanned));
                reported = Some(scanned);
                scanned_at = now;
            }
            self.tell_all_sent(scanned.complete);
            {
                let mut notes = lock(&self.context.board.notes);
                notes.scanned = scanned;
                notes.skipped = self.sending.queue.skipped();
                notes.streams = self.context.abort.open_streams();
            }
            if self.all_sent()
                && let Some(finished) = self.finished.take()
            {
                break finished;
            }
            let until = if reported == Some(scanned) {
                sample_at
            } else {
                now + LOOK_EVERY / 10
            };
            match self
                .inbox
                .next(until.min(sample_at).saturating_duration_since(now))?
            {
                Some(Input::Message(message)) => self.hear(message)?,
                Some(Input::Steer(wish)) => {
                    let steered = self.steer(&wish.steering);
                    note_change(self.context, wish, steered);
                }
                Some(Input::Limit(limit)) => {
                    self.context.limiter.set(limit);
                    self.context.control.say(Message::Limit(limit));
                }
                Some(Input::StreamDone | Input::InPlace) | None => {}
            }
            let there = self.context.path.in_touch();
            self.liveness
                .look(self.evidence(), self.owed(), there, Instant::now())?;
        };
        let finished = Instant::now();
        self.context.abort.settle();
        self.sample(true);
        let totals = self.sending.totals();
        let streams = self
            .sampler
            .summaries(&self.context.abort, &totals, &self.context.books);
        let mut sum: Totals = totals.iter().map(|(_, totals)| totals).sum();
        // Of special files, the receiver says how many it has made.
        sum.special_files = sum.special_files.min(peer.totals.special_files);
        if peer.totals != sum {
            return Err(TransferError::Here(format!(
                "the other end broke the protocol: it took {} bytes and {} files of {} and {}",
                peer.totals.bytes, peer.totals.files, sum.bytes, sum.files
            )));
        }
        self.sending.let_all_go(self.context)?;
        self.context.compare_digests(&peer)?;
        sum.add(&self.sending.queue.passed());
        if self.context.job.direction == Direction::Pull {
            let peak_memory_bytes = mark.peak_growth_bytes();
            self.context.board.digests.finish();
            let account = Finished {
                totals: sum,
                digests: self.context.board.digests.sum(),
                removal: None,
                peak_memory_bytes,
                streams: streams.clone(),
                ..Finished::default()
            };
            self.context
                .control
                .say(Message::Finished(Box::new(account)));
        }
        let listed = self.sending.queue.take_listed();
        sum.take_away(&self.sending.given_up());
        sum.files += self.sending.resumed().files;
        Ok(Sent {
            streams,
            peer,
            arrived: sum,
            finished,
            listed,
        })
    }

    /// Says once that no more comes, to a receiver that then removes what was not told of.
    fn tell_all_sent(&mut self, scan_complete: bool) {
        let asked = self.context.job.delete.is_some() && self.told_all_sent.is_none();
        if asked && scan_complete && self.all_sent() {
            let whole = !self.context.board.left_out.load(Ordering::Acquire);
            self.context.control.say(Message::AllSent { whole });
            self.told_all_sent = Some(Instant::now());
        }
    }

    fn sample(&mut self, keep: bool) {
        let round = self.sampler.sample(&self.context.abort);
        note_samples(self.context, &round);
        if keep {
            (self.sampled)(round);
        }
        for connection in self.sampler.dead() {
            self.context.abort.hang_up(connection);
        }
    }

    fn hear(&mut self, message: Message) -> Result<(), TransferError> {
        let sending = Arc::clone(&self.sending);
        let queue = &sending.queue;
        match message {
            Message::Accept { fresh, into_folder } => {
                lock(&self.context.board.notes).into_folder = into_folder;
                queue.accept(fresh);
            }
            Message::Answer(answer) => self.context.note_there(queue.answer(answer)?),
            Message::Compare(compare) => self.asking.hear(self.context, &compare)?,
            Message::Checked(checked) => {
                sending.checked(self.context, &checked)?;
                self.compared += 1;
            }
            Message::Progress(progress) => self.hear_progress(progress)?,
            Message::Spent(spent) => lock(&self.context.board.notes).far_spent = *spent,
            Message::Warning(text) => lock(&self.context.board.notes).warnings.add(text),
            Message::LeftOut(why) => lock(&self.context.board.notes).left_out.add(why),
            // There is room: more at once would break the protocol.
            Message::Names(names) => drop(self.names.try_send(names)),
            Message::Extraneous(found) => queue.list_extraneous(found),
            Message::Finished(finished) => self.finished = Some(*finished),
            Message::Limit(limit) => self.context.limiter.set(limit),
            Message::Steer(steering) => {
                let steered = self.steer(&steering);
                self.context.control.say(Message::Steered(steered));
            }
            message => near_port::hear(self.context, &message)?,
        }
        queue.make_offers(|offer| self.context.control.say(Message::Offer(offer)));
        Ok(())
    }

    fn steer(&self, steering: &Steering) -> Steered {
        let context = self.context;
        let planned = context.job.plan.congestion_control.as_deref();
        let taken = if context.tuning.held_by_rule(planned, &context.abort) {
            Ok(HOLD.to_owned())
        } else {
            let taken = context.tuning.change(steering, &context.abort);
            if taken.is_ok() {
                self.sending.queue.use_streams(steering.streams);
            }
            taken
        };
        let elapsed = context.board.started.elapsed();
        Steered {
            at_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            taken: taken.map_err(|error| error.to_string()),
        }
    }

    /// Grows with each step of the receiver that this end can see: what its kernel acknowledges, what
    /// it answers, and the pieces and files that it has, as far as they were sent. Pieces of holes take it longer than
    /// their bytes take its kernel.
    fn evidence(&self) -> u64 {
        let queue = &self.sending.queue;
        let acked: u64 = lock(&self.context.board.notes).acked.values().sum();
        let (_, answered) = queue.offers();
        let taken = self.context.connections.all_taken();
        acked
            .wrapping_add(taken.into_iter().fold(0, u64::wrapping_add))
            .wrapping_add(answered)
            .wrapping_add(self.placed)
            .wrapping_add(self.compared)
            .wrapping_add(self.digested)
            .wrapping_add(self.cleaned)
            .wrapping_add(u64::from(queue.accepted()))
            .wrapping_add(u64::from(self.finished.is_some()))
    }

    /// What the receiver has to do next.
    fn owed(&self) -> Owed {
        let queue = &self.sending.queue;
        if self.context.job.pipe && self.context.job.direction == Direction::Pull {
            // Whoever reads the receiver's pipe takes the time that it takes.
            return Owed::Nothing;
        }
        let (offers_open, _) = queue.offers();
        let all_sent = self.all_sent() && queue.scanned().complete;
        if !queue.accepted() && self.context.job.memory.is_none() {
            Owed::Step("has not said whether it takes the copy")
        } else if self.sampler.waiting() {
            Owed::Step("has taken no data")
        } else if self.asking.is_busy() {
            Owed::Nothing
        } else if offers_open > 0 {
            Owed::Step("has not said which files it needs")
        } else if queue.unchecked() > 0 {
            Owed::Step("has not compared what it has")
        } else if all_sent {
            Owed::LastStep("has not confirmed the copy")
        } else if self.context.side == Side::Far && self.context.abort.open_streams() == 0 {
            Owed::Step("has opened no data stream")
        } else if self.context.limiter.paused() {
            Owed::End
        } else {
            Owed::Nothing
        }
    }

    /// Whether each stream has sent its end. A dry run has none.
    fn all_sent(&self) -> bool {
        self.context.job.dry_run || self.sending.all_sent()
    }

    fn hear_progress(&mut self, progress: Progress) -> Result<(), TransferError> {
        self.placed = self
            .placed
            .max(progress.files.min(self.sending.queue.taken()));
        self.digested = self.asking.believed(progress.digested);
        let within = |told: Instant| told.elapsed() < REMOVALS_WITHIN;
        if self.told_all_sent.is_some_and(within) {
            self.cleaned = progress.looked_at.wrapping_add(progress.removed);
        }
        let board = &self.context.board;
        board.removed.store(progress.removed, Ordering::Relaxed);
        board.bytes.store(progress.bytes, Ordering::Relaxed);
        let hole_bytes = &board.hole_bytes;
        hole_bytes.store(progress.hole_bytes, Ordering::Relaxed);
        board.files.store(progress.files, Ordering::Relaxed);
        (0..)
            .zip(progress.taken)
            .try_for_each(|(stream, taken)| self.sending.let_go(self.context, stream, taken))
    }
}

/// Tells the near end how this end's streams have spent their time.
pub fn tell_spent(context: &Context, spent: Spent) {
    match context.side {
        Side::Near => lock(&context.board.notes).near_spent = spent,
        Side::Far => context.control.say(Message::Spent(Box::new(spent))),
    }
}

/// Notes the state of the path from a round of samples. The round trip is the mean of the streams that have carried
/// data since the round before. Idle streams count only while no round trip is known, because the round trip of an
/// idle stream is an old one.
pub fn note_samples(context: &Context, round: &[Sample]) {
    if round.is_empty() {
        return;
    }
    let mut notes = lock(&context.board.notes);
    let busy = |sample: &&Sample| {
        let before = notes.acked.get(&sample.stream);
        before.is_some_and(|&acked| acked < sample.bytes_acked)
    };
    let mut rtts: Vec<u32> = round
        .iter()
        .filter(busy)
        .map(|sample| sample.rtt_us)
        .collect();
    if rtts.is_empty() && notes.rtt.is_none() {
        rtts.extend(round.iter().map(|sample| sample.rtt_us));
    }
    if let Ok(count) = u32::try_from(rtts.len())
        && count > 0
    {
        let sum: Duration = rtts
            .iter()
            .map(|&us| Duration::from_micros(us.into()))
            .sum();
        notes.rtt = Some(sum / count);
    }
    let acked = round
        .iter()
        .map(|sample| (sample.stream, sample.bytes_acked));
    notes.acked.extend(acked);
    notes.acked_at_ns = round.iter().map(|sample| sample.at_ns).max().unwrap_or(0);
    notes.retransmissions = round.iter().map(|sample| sample.retransmissions).sum();
}
