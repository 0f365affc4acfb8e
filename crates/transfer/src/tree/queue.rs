//! What is left to send, handed out block by block to whichever stream is free.
//!
//! Streams take the next block themselves, so a slow stream holds none of the others back. Blocks
//! shrink towards the end so that all streams end together.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use howdah_wire::limits::{
    MAX_COMPARED_OFFERS_OPEN, MAX_OFFERED_FILES, MAX_OFFERS_OPEN, MAX_PIECE_BYTES, MIN_BLOCK_BYTES,
};
use howdah_wire::{
    Answer, Checked, Checksum, Compare, Extraneous, Memory, Offer, OfferedFile, ProtocolError,
    Scanned, Span, Totals, Xattrs,
};

use crate::end::abort::{Abort, lock};
use crate::error::TransferError;
use crate::session::comparing::Asked;
use crate::session::listing::{Action, Listing};
use crate::tree::assembly::Assembly;
use crate::tree::inlet::PipedBlock;
use crate::tree::slicing::Slicing;
use crate::tree::source::{Entry, Kind};
use crate::tree::source_file::SourceFile;

/// Entries that may wait, somewhat more than may be offered; the scan waits beyond that. Some 10 MB in a deep tree.
pub(crate) const MAX_WAITING: usize = 20 * 1024;
/// Most payload of one block of small files, in bytes: the least that makes a packing pay.
const MAX_PACK_BYTES: u64 = 1 << 20;
/// Most small files in one block.
const MAX_PACK_FILES: usize = 256;
/// What a stream takes at a time while time is the limit: as much as goes in this time at the mean
/// rate so far, so that one with a small window is not long beyond the end, nor less than the bytes.
const TIMED_BLOCK: Duration = Duration::from_millis(20);
const TIMED_BLOCK_MIN_BYTES: u64 = 64 << 10;
/// Parts that are being compared, at most. Each may hold a file open at the receiver.
const MAX_UNCHECKED: usize = 64;
/// How long a wait looks away from the stop flag.
const GLANCE: Duration = Duration::from_millis(50);

/// A file that is sent in more than one piece, or alone.
#[derive(Debug)]
pub struct BigFile {
    /// Its number in the protocol.
    pub number: u64,
    /// Where it is and how big.
    pub entry: Entry,
    /// Its size in bytes.
    pub size: u64,
    /// How far it has been read.
    pub reading: Mutex<Reading>,
}

/// What is known of reading a [`BigFile`].
#[derive(Debug)]
pub struct Reading {
    /// Opened by the first stream that takes a piece.
    pub opened: Opened,
    /// Its pieces that were begun.
    pub begun: Totals,
    /// What of it was begun to be compared, in bytes.
    pub compared_bytes: u64,
    /// What of it the receiver had, and is the same.
    pub resumed: Totals,
    /// The digests of its pieces that were sent.
    pub digests: Assembly,
    /// Its extended attributes, once it is open.
    pub xattrs: Option<Arc<Xattrs>>,
}

impl Reading {
    /// Nothing has been read of a file of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self {
            opened: Opened::NotYet,
            begun: Totals::default(),
            compared_bytes: 0,
            resumed: Totals::default(),
            digests: Assembly::new(size),
            xattrs: None,
        }
    }
}

/// Whether a [`BigFile`] is open.
#[derive(Debug)]
pub enum Opened {
    /// Nobody has tried.
    NotYet,
    /// It is.
    Yes(Arc<SourceFile>),
    /// It cannot be read, or not to its end: no piece of it is begun any more.
    Unreadable,
}

/// What a stream sends before it asks again.
#[derive(Debug)]
pub enum Block {
    /// Small files, folders and links, whole, with their numbers.
    Pack(Vec<(u64, Entry)>),
    /// A part of a file, to be sent.
    Slice(Arc<BigFile>, Span),
    /// A part of a file, to be compared with what the receiver has.
    There(Arc<BigFile>, Span),
    /// Payload from memory, in bytes.
    Memory(u64),
    /// Part of what a pipe gave.
    Piped(Arc<PipedBlock>),
}

/// What is still to come from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Supply {
    /// So much.
    Bytes(u64),
    /// As much as goes in this time, once the first block is taken.
    Time(Duration),
    /// As much as goes between these two.
    Between(Instant, Instant),
}

/// A part that is being compared.
#[derive(Debug)]
pub struct Unchecked {
    /// The file.
    pub file: Arc<BigFile>,
    /// The part.
    pub span: Span,
    /// Its checksum at this end, once it was read.
    pub checksum: Option<Checksum>,
}

/// Whether files are offered before they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The receiver has not said yet.
    Unknown,
    /// The destination is new: everything is sent.
    Fresh,
    /// Each file is offered.
    Negotiate,
}

/// The queue between the scan, the answers and the streams.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    abort: Arc<Abort>,
    block_bytes: u64,
    dry_run: bool,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    /// Offers that wait for their answer, at the most.
    most_open: usize,
    /// Streams that get blocks, those with the least index; the others wait.
    streams: u16,
    /// With what the receiver may have of each.
    ready: VecDeque<(Entry, Vec<Span>)>,
    ready_bytes: u64,
    slicing: Option<(Arc<BigFile>, Slicing)>,
    /// Parts that are being compared, by the file's number and the part's offset.
    unchecked: HashMap<(u64, u64), Unchecked>,
    /// Parts that differ.
    differing: VecDeque<(Arc<BigFile>, Span)>,
    memory: Supply,
    memory_taken: u64,
    /// What a pipe gave.
    piped: VecDeque<Arc<PipedBlock>>,
    /// Files to be offered or offered; the first `offered` of them are.
    pending: VecDeque<Entry>,
    offered: usize,
    next_offer: u64,
    offers_open: usize,
    next_number: u64,
    scanned: Scanned,
    skipped: Scanned,
    listed: Listing,
    /// Dry run: the folders and links that the scan has found.
    passed: Totals,
}

impl Queue {
    /// An empty queue for `streams` streams and blocks of at most `block_bytes`.
    pub fn new(abort: Arc<Abort>, streams: u16, block_bytes: u64, dry_run: bool) -> Self {
        let most = 1 << block_bytes.clamp(MIN_BLOCK_BYTES, MAX_PIECE_BYTES).ilog2();
        let state = State {
            mode: Mode::Unknown,
            most_open: MAX_OFFERS_OPEN,
            streams: streams.max(1),
            ready: VecDeque::new(),
            ready_bytes: 0,
            slicing: None,
            unchecked: HashMap::new(),
            differing: VecDeque::new(),
            memory: Supply::Bytes(0),
            memory_taken: 0,
            piped: VecDeque::new(),
            pending: VecDeque::new(),
            offered: 0,
            next_offer: 0,
            offers_open: 0,
            next_number: 0,
            scanned: Scanned::default(),
            skipped: Scanned::default(),
            listed: Listing::default(),
            passed: Totals::default(),
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            abort,
            block_bytes: most,
            dry_run,
        }
    }

    /// The same, where the receiver holds offers until they are compared, if `by_content` says so.
    #[must_use]
    pub fn comparing(self, by_content: bool) -> Self {
        if by_content {
            lock(&self.state).most_open = MAX_COMPARED_OFFERS_OPEN;
        }
        self
    }

    /// Has this sent from memory; nothing is scanned then.
    pub fn add_memory(&self, memory: Memory) {
        let mut state = lock(&self.state);
        match memory {
            Memory::Bytes(bytes) => {
                state.memory = Supply::Bytes(bytes);
                state.scanned.bytes = bytes;
                state.scanned.complete = true;
            }
            Memory::Time(ns) => state.memory = Supply::Time(Duration::from_nanos(ns)),
        }
        self.changed.notify_all();
    }

    /// Adds what a pipe gave; waits while each stream has a block to take. The pipe is read no further then.
    ///
    /// # Errors
    /// [`TransferError::Cancelled`] when this end stops.
    pub fn add_piped(&self, block: PipedBlock) -> Result<(), TransferError> {
        let mut state = lock(&self.state);
        while state.piped.len() >= usize::from(state.streams) {
            if self.abort.stopping() {
                return Err(TransferError::Cancelled);
            }
            state = self.wait(state);
        }
        let piece = block.piece();
        state.scanned.files = 1;
        state.scanned.bytes += piece.len;
        state.scanned.complete = piece.last;
        state.piped.push_back(Arc::new(block));
        self.changed.notify_all();
        Ok(())
    }

    /// Adds what the scan found; waits while too much is waiting.
    ///
    /// # Errors
    /// [`TransferError::Cancelled`] when this end stops.
    pub fn add(&self, entry: Entry) -> Result<(), TransferError> {
        let mut state = lock(&self.state);
        while state.ready.len() + state.pending.len() >= MAX_WAITING {
            if self.abort.stopping() {
                return Err(TransferError::Cancelled);
            }
            state = self.wait(state);
        }
        if let Kind::File { size, .. } = entry.kind {
            state.scanned.files += 1;
            state.scanned.bytes += size;
        }
        match (state.mode, &entry.kind) {
            (Mode::Fresh, _) => state.make_ready(entry, Vec::new()),
            (_, Kind::File { .. }) => {
                // No stream has anything to do yet; to wake one for each file would cost more than the file does.
                state.pending.push_back(entry);
                return Ok(());
            }
            (_, Kind::Folder(_)) if self.dry_run => state.passed.folders += 1,
            (_, Kind::Link { .. } | Kind::HardLink { .. } | Kind::Special { .. })
                if self.dry_run =>
            {
                state.passed.links += 1;
            }
            _ => state.make_ready(entry, Vec::new()),
        }
        self.changed.notify_one();
        Ok(())
    }

    /// Has so many streams get blocks, and no others.
    pub fn use_streams(&self, streams: u16) {
        lock(&self.state).streams = streams.max(1);
        self.changed.notify_all();
    }

    /// Takes a file that cannot be read after all out of the account.
    pub fn leave_out(&self, size: u64) {
        let mut state = lock(&self.state);
        state.scanned.files -= 1;
        state.scanned.bytes -= size;
    }

    /// Notes that the scan has found everything.
    pub fn scan_complete(&self) {
        lock(&self.state).scanned.complete = true;
        self.changed.notify_all();
    }

    /// Takes the receiver's word on whether its destination is new.
    pub fn accept(&self, fresh: bool) {
        let mut state = lock(&self.state);
        if fresh {
            state.mode = Mode::Fresh;
            state.offered = 0;
            state.offers_open = 0;
            for entry in std::mem::take(&mut state.pending) {
                state.make_ready(entry, Vec::new());
            }
        } else {
            state.mode = Mode::Negotiate;
        }
        self.changed.notify_all();
    }

    /// Has `say` make all offers that can be made now, in order.
    pub fn make_offers(&self, mut say: impl FnMut(Offer)) {
        let mut state = lock(&self.state);
        while let Some(offer) = state.take_offer() {
            say(offer);
        }
    }

    /// Takes the answer to the oldest open offer; `howdah_wire::Conversation` has checked its order.
    ///
    /// # Errors
    /// When the receiver has more of a file than there is.
    pub fn answer(&self, answer: Answer) -> Result<(), ProtocolError> {
        let mut state = lock(&self.state);
        state.offers_open = state.offers_open.saturating_sub(1);
        let mut found = answer.found.into_iter().peekable();
        let mut other_xattrs = answer.other_xattrs.into_iter().peekable();
        for (index, needed) in answer.needed.into_iter().enumerate() {
            let Some(entry) = state.pending.pop_front() else {
                break;
            };
            let there = found.next_if(|found| usize::from(found.index) == index);
            let there = there.map_or_else(Vec::new, |found| found.spans);
            state.offered = state.offered.saturating_sub(1);
            if let Kind::File { size, .. } = entry.kind
                && !needed
            {
                state.skipped.files += 1;
                state.skipped.bytes += size;
            }
            if self.dry_run {
                let size = match entry.kind {
                    Kind::File { size, .. } => size,
                    _ => 0,
                };
                let action = Action::of(needed);
                state.listed.add(entry.source, entry.path, size, action);
            } else if needed {
                if !can_be_of(&there, &entry) {
                    return Err(ProtocolError("it has more of a file than there is"));
                }
                state.make_ready(entry, there);
            } else if other_xattrs
                .next_if(|other| usize::from(*other) == index)
                .is_some()
                && let Kind::File {
                    size, attributes, ..
                } = entry.kind
            {
                let kind = Kind::Attributes { size, attributes };
                state.make_ready(Entry { kind, ..entry }, Vec::new());
            }
        }
        self.changed.notify_all();
        Ok(())
    }

    /// The files that the receiver asks to be compared; `howdah_wire::Conversation` has checked that they are offered.
    ///
    /// # Errors
    /// When one of them is not.
    pub fn asked(&self, compare: &Compare) -> Result<Vec<Asked>, ProtocolError> {
        let state = lock(&self.state);
        let answered = state.next_offer - state.offered as u64;
        let begin = compare.first.checked_sub(answered);
        let entry = |&index: &u16| {
            let at = usize::try_from(begin?).ok()?.checked_add(index.into())?;
            let entry = state.pending.get(at).filter(|_| at < state.offered)?;
            match entry.kind {
                Kind::File {
                    size,
                    ref attributes,
                    ..
                } => Some(Asked {
                    source: entry.source,
                    path: entry.path.clone(),
                    size,
                    mtime_ns: attributes.mtime_ns,
                }),
                _ => None,
            }
        };
        let asked: Option<Vec<_>> = compare.files.iter().map(entry).collect();
        asked.ok_or(ProtocolError("a comparison of what was not offered"))
    }

    /// Notes what was read of a part that is being compared.
    pub fn note_read(&self, file: u64, offset: u64, checksum: Checksum) {
        if let Some(unchecked) = lock(&self.state).unchecked.get_mut(&(file, offset)) {
            unchecked.checksum = Some(checksum);
        }
    }

    /// Takes a part out of what is being compared: its file is not sent.
    pub fn forget(&self, file: u64, offset: u64) {
        lock(&self.state).unchecked.remove(&(file, offset));
        self.changed.notify_all();
    }

    /// Takes the receiver's word on a part that was compared; the part if it is the same. One that
    /// differs is sent next.
    ///
    /// # Errors
    /// When that part was not to be compared.
    pub fn checked(&self, checked: &Checked) -> Result<Option<Unchecked>, ProtocolError> {
        let Checked { file, span, same } = checked;
        let mut state = lock(&self.state);
        let known = state.unchecked.remove(&(*file, span.offset));
        let unchecked = known.filter(|known| known.span == *span);
        let unchecked = unchecked.ok_or(ProtocolError("a comparison that was not asked for"))?;
        self.changed.notify_all();
        if *same {
            return Ok(Some(unchecked));
        }
        state.ready_bytes += span.len;
        state.differing.push_back((unchecked.file, *span));
        Ok(None)
    }

    /// Parts that are being compared.
    pub fn unchecked(&self) -> usize {
        lock(&self.state).unchecked.len()
    }

    /// What the scan has found so far; complete once all of it that must be offered is.
    pub fn scanned(&self) -> Scanned {
        let state = lock(&self.state);
        let complete = state.scanned.complete && state.pending.len() == state.offered;
        Scanned {
            complete,
            ..state.scanned
        }
    }

    /// Files that the receiver has already, and their bytes.
    pub fn skipped(&self) -> Scanned {
        lock(&self.state).skipped
    }

    /// Whether the receiver has said that it takes the job.
    pub fn accepted(&self) -> bool {
        lock(&self.state).mode != Mode::Unknown
    }

    /// Offers that wait for their answer, and files that have one.
    pub fn offers(&self) -> (usize, u64) {
        let state = lock(&self.state);
        (state.offers_open, state.next_offer - state.offered as u64)
    }

    /// Files, folders and links that streams have taken.
    pub fn taken(&self) -> u64 {
        lock(&self.state).next_number
    }

    /// Dry run: notes what the receiver would remove.
    pub fn list_extraneous(&self, found: Vec<Extraneous>) {
        let listed = &mut lock(&self.state).listed;
        for Extraneous {
            source,
            path,
            folder,
        } in found
        {
            listed.add(source, path, 0, Action::Remove { folder });
        }
    }

    /// Dry run: each file with whether it would be sent.
    pub fn take_listed(&self) -> Listing {
        std::mem::take(&mut lock(&self.state).listed)
    }

    /// Dry run: the folders and links that it would make.
    pub fn passed(&self) -> Totals {
        lock(&self.state).passed
    }

    /// The next block for a stream if there is one now.
    pub fn try_next(&self, stream: u16) -> Option<Block> {
        let block = self.take(&mut lock(&self.state), stream);
        if !matches!(block, None | Some(Block::Memory(_))) {
            self.changed.notify_all();
        }
        block
    }

    /// Waits for the next block for a stream; `None` when there will be none.
    ///
    /// # Errors
    /// [`TransferError::Cancelled`] when this end stops, and what `look` says, which is asked each moment.
    pub fn next_block(
        &self,
        stream: u16,
        look: impl Fn() -> Result<(), TransferError>,
    ) -> Result<Option<Block>, TransferError> {
        let mut state = lock(&self.state);
        loop {
            if self.abort.stopping() {
                return Err(TransferError::Cancelled);
            }
            look()?;
            if let Some(block) = self.take(&mut state, stream) {
                self.changed.notify_all();
                return Ok(Some(block));
            }
            if state.exhausted() {
                return Ok(None);
            }
            state = self.wait(state);
        }
    }

    fn wait<'a>(
        &self,
        state: std::sync::MutexGuard<'a, State>,
    ) -> std::sync::MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, GLANCE);
        waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
    }

    fn take(&self, state: &mut State, stream: u16) -> Option<Block> {
        if stream >= state.streams {
            return None;
        }
        let limit = self.block_limit(state);
        if let Some(len) = state.take_memory(limit) {
            return Some(Block::Memory(len));
        }
        if let Some(block) = state.piped.pop_front() {
            return Some(Block::Piped(block));
        }
        if let Some((file, span)) = state.differing.pop_front() {
            state.ready_bytes -= span.len;
            return Some(Block::Slice(file, span));
        }
        let mut pack = Vec::new();
        let mut pack_bytes = 0;
        while state.slicing.is_none() {
            let size = match state.ready.front()?.0.kind {
                Kind::File { size, .. } => size,
                _ => 0,
            };
            if size > MIN_BLOCK_BYTES {
                if !pack.is_empty() {
                    return Some(Block::Pack(pack));
                }
                let (entry, there) = state.ready.pop_front()?;
                let number = state.number();
                let file = BigFile {
                    number,
                    entry,
                    size,
                    reading: Mutex::new(Reading::new(size)),
                };
                state.slicing = Some((Arc::new(file), Slicing::new(size, there)));
                break;
            }
            let (entry, _) = state.ready.pop_front()?;
            state.ready_bytes -= size;
            pack_bytes += size;
            pack.push((state.number(), entry));
            let full = pack_bytes >= limit.min(MAX_PACK_BYTES) || pack.len() == MAX_PACK_FILES;
            if full || state.ready.is_empty() {
                return Some(Block::Pack(pack));
            }
        }
        let (file, mut slicing) = state.slicing.take()?;
        if slicing.compares() && state.unchecked.len() >= MAX_UNCHECKED {
            state.slicing = Some((file, slicing));
            return None;
        }
        let there = slicing.compares();
        let span = slicing.next(limit)?;
        state.ready_bytes -= span.len;
        if !slicing.is_done() {
            state.slicing = Some((Arc::clone(&file), slicing));
        }
        if !there {
            return Some(Block::Slice(file, span));
        }
        let unchecked = Unchecked {
            file: Arc::clone(&file),
            span,
            checksum: None,
        };
        state
            .unchecked
            .insert((file.number, span.offset), unchecked);
        Some(Block::There(file, span))
    }

    /// Half of what each stream's share is of what remains, a power of two between the smallest
    /// block and the plan's.
    fn block_limit(&self, state: &State) -> u64 {
        if !state.scanned.complete {
            return self.block_bytes;
        }
        let memory_bytes = match state.memory {
            Supply::Bytes(bytes) => bytes,
            _ => 0,
        };
        let share = (state.ready_bytes + memory_bytes) / (2 * u64::from(state.streams));
        1 << share.clamp(MIN_BLOCK_BYTES, self.block_bytes).ilog2()
    }
}

impl State {
    fn make_ready(&mut self, entry: Entry, there: Vec<Span>) {
        if let Kind::File { size, .. } = entry.kind {
            self.ready_bytes += size;
        }
        self.ready.push_back((entry, there));
    }

    /// The length of the next block from memory; `None` when there is no more.
    fn take_memory(&mut self, limit: u64) -> Option<u64> {
        let now = Instant::now();
        if let Supply::Time(time) = self.memory {
            self.memory = Supply::Between(now, now + time);
        }
        let len = match &mut self.memory {
            Supply::Bytes(left) => {
                let len = limit.min(*left);
                *left -= len;
                len
            }
            Supply::Between(begun, end) if now < *end => {
                let rate = self.memory_taken as f64 / now.duration_since(*begun).as_secs_f64();
                let each = rate / f64::from(self.streams) * TIMED_BLOCK.as_secs_f64();
                1 << (each as u64).clamp(TIMED_BLOCK_MIN_BYTES, limit).ilog2()
            }
            _ => {
                self.memory = Supply::Bytes(0);
                self.scanned.bytes = self.memory_taken;
                self.scanned.complete = true;
                0
            }
        };
        self.memory_taken += len;
        (len > 0).then_some(len)
    }

    fn take_offer(&mut self) -> Option<Offer> {
        let unoffered = self.pending.len() - self.offered;
        let enough = if self.scanned.complete {
            1
        } else {
            MAX_OFFERED_FILES
        };
        let most_open = match self.mode {
            Mode::Unknown => 1,
            Mode::Fresh => 0,
            Mode::Negotiate => self.most_open,
        };
        if unoffered < enough || self.offers_open >= most_open {
            return None;
        }
        let count = unoffered.min(MAX_OFFERED_FILES);
        let files = self.pending.range(self.offered..self.offered + count);
        let files = files.filter_map(|entry| match entry.kind {
            Kind::File {
                size,
                ref attributes,
                xattrs,
                ..
            } => Some(OfferedFile {
                source: entry.source,
                path: entry.path.clone(),
                size,
                mtime_ns: attributes.mtime_ns,
                mode: attributes.mode,
                owner: attributes.owner.clone(),
                xattrs,
            }),
            _ => None,
        });
        let offer = Offer {
            first: self.next_offer,
            files: files.collect(),
        };
        self.offered += count;
        self.offers_open += 1;
        self.next_offer += count as u64;
        Some(offer)
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn exhausted(&self) -> bool {
        self.scanned.complete
            && self.pending.is_empty()
            && self.ready.is_empty()
            && self.slicing.is_none()
            && self.unchecked.is_empty()
            && self.differing.is_empty()
            && self.piped.is_empty()
            && self.memory == Supply::Bytes(0)
    }
}

/// Whether the receiver can have these parts of a file.
fn can_be_of(there: &[Span], entry: &Entry) -> bool {
    let (Some(last), Kind::File { size, .. }) = (there.last(), &entry.kind) else {
        return there.is_empty();
    };
    let end = last.end();
    *size > MIN_BLOCK_BYTES
        && (end == Some(*size)
            || end.is_some_and(|end| end < *size && end.is_multiple_of(MIN_BLOCK_BYTES)))
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
