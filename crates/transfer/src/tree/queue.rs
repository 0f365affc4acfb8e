//! The queue of what has to be sent. A stream that is free takes the next block.
//!
//! Because streams take blocks themselves, a slow stream does not delay the others. Blocks become smaller towards the
//! end, so that all streams end together.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_wire::limits::{MAX_PIECE_BYTES, MIN_BLOCK_BYTES};
use howdah_wire::{
    Answer, Checked, Checksum, Compare, Extraneous, Kind as Told, Memory, Offer, ProtocolError,
    Scanned, Span, Totals, TreePath,
};

use crate::end::abort::{Abort, lock};
use crate::error::TransferError;
use crate::session::comparing::Asked;
use crate::session::listing::Listing;
use crate::tree::block::{BigFile, Block, Unchecked};
use crate::tree::entry::{Entry, Kind};
use crate::tree::inlet::PipedBlock;
use crate::tree::offers::{Answered, Needs, Offers, can_be_of};
use crate::tree::ready::Ready;
use crate::tree::supply::{Supplied, Supply};

/// The most entries that wait, somewhat more than may be offered. The scan waits when there are more.
pub(crate) const MAX_WAITING: usize = 20 * 1024;
/// What they may take of memory, in bytes: in a deep tree most of that is paths.
const MAX_WAITING_BYTES: usize = 6 << 20;
/// Where blocks are smaller because little is left, no stream keeps another one waiting for its share.
const RESTRAINED_BYTES: u64 = 512 << 10;
/// How long a wait looks away from the stop flag.
const GLANCE: Duration = Duration::from_millis(50);

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
    /// Streams that get blocks, those with the least index; the others wait.
    streams: u16,
    offers: Offers,
    ready: Ready,
    memory: Supply,
    /// What a pipe gave.
    piped: VecDeque<Arc<PipedBlock>>,
    scanned: Scanned,
    skipped: Scanned,
    listed: Listing,
    /// Dry run: the folders, links and special files that the scan has found.
    passed: Totals,
}

impl Queue {
    /// An empty queue for `streams` streams and blocks of at most `block_bytes`.
    pub fn new(abort: Arc<Abort>, streams: u16, block_bytes: u64, dry_run: bool) -> Self {
        let most = 1 << block_bytes.clamp(MIN_BLOCK_BYTES, MAX_PIECE_BYTES).ilog2();
        let state = State {
            streams: streams.max(1),
            offers: Offers::default(),
            ready: Ready::default(),
            memory: Supply::default(),
            piped: VecDeque::new(),
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

    /// The same, for a job that compares files by their content if `by_content` is true. The receiver then answers an
    /// offer only when its files are compared.
    #[must_use]
    pub fn comparing(self, by_content: bool) -> Self {
        if by_content {
            lock(&self.state).offers.open_more();
        }
        self
    }

    /// Sends this from memory. Nothing is scanned then.
    pub fn add_memory(&self, memory: Memory) {
        let mut state = lock(&self.state);
        if let Memory::Bytes(bytes) = memory {
            state.scanned.bytes = bytes;
            state.scanned.complete = true;
        }
        state.memory = Supply::of(memory);
        self.changed.notify_all();
    }

    /// Adds a block from a pipe. Waits while there is a block for each stream, so that the pipe is read no further.
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

    /// Adds an entry from the scan. Waits while too many entries wait.
    ///
    /// # Errors
    /// [`TransferError::Cancelled`] when this end stops.
    pub fn add(&self, entry: Entry) -> Result<(), TransferError> {
        let mut state = lock(&self.state);
        while state.is_full() {
            if self.abort.stopping() {
                return Err(TransferError::Cancelled);
            }
            state = self.wait(state);
        }
        if let Kind::File { size, .. } = entry.kind {
            state.scanned.files += 1;
            state.scanned.bytes = state.scanned.bytes.saturating_add(size);
        }
        match &entry.kind {
            _ if state.offers.fresh() => state.ready.add(entry, Vec::new()),
            kind if self.dry_run || matches!(kind, Kind::File { .. }) => {
                match kind.told() {
                    Told::File => {}
                    Told::Folder => state.passed.folders += 1,
                    Told::Link | Told::HardLink => state.passed.links += 1,
                    Told::Special => state.passed.special_files += 1,
                }
                // No stream has anything to do yet; to wake one for each file would cost more than the file does.
                state.offers.add(entry);
                return Ok(());
            }
            _ => state.ready.add(entry, Vec::new()),
        }
        self.changed.notify_one();
        Ok(())
    }

    /// Sets the number of streams that get blocks.
    pub fn use_streams(&self, streams: u16) {
        lock(&self.state).streams = streams.max(1);
        self.changed.notify_all();
    }

    /// Subtracts a file that cannot be read after all from the counts.
    pub fn leave_out(&self, size: u64) {
        let mut state = lock(&self.state);
        state.scanned.files -= 1;
        state.scanned.bytes = state.scanned.bytes.saturating_sub(size);
    }

    /// Notes that the scan has found everything.
    pub fn scan_complete(&self) {
        lock(&self.state).scanned.complete = true;
        self.changed.notify_all();
    }

    /// Notes whether the receiver's destination is new.
    pub fn accept(&self, fresh: bool) {
        let mut state = lock(&self.state);
        for entry in state.offers.accept(fresh) {
            state.ready.add(entry, Vec::new());
        }
        self.changed.notify_all();
    }

    /// Calls `say` with all offers that can be made now, in order.
    pub fn make_offers(&self, mut say: impl FnMut(Offer)) {
        let mut state = lock(&self.state);
        let all_found = state.scanned.complete;
        while let Some(offer) = state.offers.take(all_found) {
            say(offer);
        }
    }

    /// Handles the answer to the oldest open offer. `howdah_wire::Conversation` has checked the order. Returns the
    /// source and path of each file whose content the receiver does not need.
    ///
    /// # Errors
    /// When the receiver reports more of a file than there is.
    pub fn answer(&self, answer: Answer) -> Result<Vec<(u16, TreePath)>, ProtocolError> {
        let mut there = Vec::new();
        let mut state = lock(&self.state);
        for Answered { entry, needs } in state.offers.answer(answer) {
            let size = match entry.kind {
                Kind::File { size, .. } => size,
                _ => 0,
            };
            let needed = matches!(needs, Needs::Content(_));
            let kind = entry.kind.told();
            if !needed && kind == Told::File {
                state.skipped.files += 1;
                state.skipped.bytes = state.skipped.bytes.saturating_add(size);
                there.push((entry.source, entry.path.clone()));
            }
            if self.dry_run {
                let listed = &mut state.listed;
                listed.add_answered(entry.source, entry.path, kind, size, needed);
                continue;
            }
            match (needs, entry.kind) {
                (Needs::Content(there), kind) => {
                    let entry = Entry { kind, ..entry };
                    if !can_be_of(&there, &entry) {
                        return Err(ProtocolError("it has more of a file than there is"));
                    }
                    state.ready.add(entry, there);
                }
                (
                    Needs::Attributes,
                    Kind::File {
                        size, attributes, ..
                    },
                ) => {
                    let kind = Kind::Attributes { size, attributes };
                    state.ready.add(Entry { kind, ..entry }, Vec::new());
                }
                _ => {}
            }
        }
        self.changed.notify_all();
        Ok(there)
    }

    /// The files that the receiver wants to compare. `howdah_wire::Conversation` has checked that they were offered.
    ///
    /// # Errors
    /// When one of them is not.
    pub fn asked(&self, compare: &Compare) -> Result<Vec<Asked>, ProtocolError> {
        lock(&self.state).offers.asked(compare)
    }

    /// Notes that a file has holes, and that the part `beyond`, which was not taken yet, is one.
    pub fn note_hole(&self, file: &BigFile, beyond: Option<Span>) {
        lock(&self.state).ready.note_hole(file, beyond);
    }

    /// Notes the hash of a part that is being compared.
    pub fn note_read(&self, file: u64, offset: u64, checksum: Checksum) {
        lock(&self.state).ready.note_read(file, offset, checksum);
    }

    /// Cancels the comparison of a part, because its file is not sent.
    pub fn forget(&self, file: u64, offset: u64) {
        lock(&self.state).ready.forget(file, offset);
        self.changed.notify_all();
    }

    /// Handles the receiver's result on a part that was compared. Returns the part if it is the same. A part that
    /// differs is sent next.
    ///
    /// # Errors
    /// When that part was not being compared.
    pub fn checked(&self, checked: &Checked) -> Result<Option<Unchecked>, ProtocolError> {
        let unchecked = lock(&self.state).ready.checked(checked)?;
        self.changed.notify_all();
        Ok(unchecked)
    }

    /// Parts that are being compared.
    pub fn unchecked(&self) -> usize {
        lock(&self.state).ready.unchecked()
    }

    /// What the scan has found so far. It is complete once all offers that are needed are made.
    pub fn scanned(&self) -> Scanned {
        let state = lock(&self.state);
        let complete = state.scanned.complete && state.offers.all_offered();
        Scanned {
            complete,
            ..state.scanned
        }
    }

    /// Files that the receiver already has, and their bytes.
    pub fn skipped(&self) -> Scanned {
        lock(&self.state).skipped
    }

    /// Whether the receiver has said that it takes the job.
    pub fn accepted(&self) -> bool {
        lock(&self.state).offers.accepted()
    }

    /// The number of open offers, and of files with an answer.
    pub fn offers(&self) -> (usize, u64) {
        let state = lock(&self.state);
        (state.offers.open(), state.offers.answered())
    }

    /// Files, folders and links that streams have taken.
    pub fn taken(&self) -> u64 {
        lock(&self.state).ready.taken()
    }

    /// In a dry run: notes what the receiver would remove.
    pub fn list_extraneous(&self, found: Vec<Extraneous>) {
        let listed = &mut lock(&self.state).listed;
        found
            .into_iter()
            .for_each(|extraneous| listed.add_extraneous(extraneous));
    }

    /// In a dry run: what would be sent or made, and each existing file.
    pub fn take_listed(&self) -> Listing {
        std::mem::take(&mut lock(&self.state).listed)
    }

    /// In a dry run: the folders, links and special files that would be made.
    pub fn passed(&self) -> Totals {
        lock(&self.state).passed
    }

    /// With this many unsent bytes or more, a stream should not take a block now; `None` if there is no such bound.
    /// When little is left, a stream with many unsent bytes would end after all others.
    pub fn unsent_at_most(&self) -> Option<u32> {
        let state = lock(&self.state);
        let limit = self.block_limit(&state);
        let comes = state.ready.bytes() > 0 || state.memory.bytes() > 0;
        let all_known = state.scanned.complete && state.offers.pending() == 0;
        (all_known && comes && limit < RESTRAINED_BYTES).then_some((limit / 2) as u32)
    }

    /// The next block for a stream, if there is one now.
    pub fn try_next(&self, stream: u16) -> Option<Block> {
        let block = self.take(&mut lock(&self.state), stream);
        if !matches!(block, None | Some(Block::Memory(_))) {
            self.changed.notify_all();
        }
        block
    }

    /// Waits for the next block for a stream; `None` if there will be none.
    ///
    /// # Errors
    /// [`TransferError::Cancelled`] when this end stops, and errors of `look`, which is called again and again while
    /// it waits.
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

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, GLANCE);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn take(&self, state: &mut State, stream: u16) -> Option<Block> {
        if stream >= state.streams {
            return None;
        }
        let limit = self.block_limit(state);
        match state.memory.next(limit, state.streams) {
            Supplied::Block(len) => return Some(Block::Memory(len)),
            Supplied::Over(taken) => {
                state.scanned.bytes = taken;
                state.scanned.complete = true;
            }
            Supplied::Nothing => {}
        }
        if let Some(block) = state.piped.pop_front() {
            return Some(Block::Piped(block));
        }
        state.ready.next(limit)
    }

    /// Half of what each stream's share is of what remains, a power of two between the smallest
    /// block and the plan's.
    fn block_limit(&self, state: &State) -> u64 {
        if !state.scanned.complete {
            return self.block_bytes;
        }
        let left = state.ready.bytes() + state.memory.bytes();
        let share = left / (2 * u64::from(state.streams));
        1 << share.clamp(MIN_BLOCK_BYTES, self.block_bytes).ilog2()
    }
}

impl State {
    /// Whether so much waits that the scan has to.
    fn is_full(&self) -> bool {
        self.ready.waiting() + self.offers.pending() >= MAX_WAITING
            || self.ready.memory_bytes() + self.offers.memory_bytes() >= MAX_WAITING_BYTES
    }

    fn exhausted(&self) -> bool {
        self.scanned.complete
            && self.offers.pending() == 0
            && self.ready.is_over()
            && self.piped.is_empty()
            && self.memory.is_over()
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
