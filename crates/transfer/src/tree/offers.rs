//! Files that are offered before they are sent: which offers can be made now, and the answers. A dry run offers
//! entries of all kinds.

use std::collections::VecDeque;

use howdah_wire::limits::{
    MAX_COMPARED_OFFERS_OPEN, MAX_FIRST_NAMES_BYTES, MAX_OFFERED_FILES, MAX_OFFERS_OPEN,
    MIN_BLOCK_BYTES,
};
use howdah_wire::{Answer, Compare, Offer, ProtocolError, Span};

use crate::session::comparing::Asked;
use crate::tree::entry::{Entry, Kind};

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

/// Files that are not offered yet, and files with an open offer, in order.
#[derive(Debug)]
pub struct Offers {
    mode: Mode,
    /// The first `offered` of them are.
    pending: VecDeque<Entry>,
    offered: usize,
    /// What they take of memory, in bytes.
    memory_bytes: usize,
    /// The number of the next file to be offered.
    next: u64,
    /// Offers that wait for their answer,
    open: usize,
    /// at the most.
    most_open: usize,
}

/// A file that was answered.
#[derive(Debug)]
pub struct Answered {
    /// The file.
    pub entry: Entry,
    /// What the receiver needs of it.
    pub needs: Needs,
}

/// What the receiver needs of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needs {
    /// What is in it, but perhaps for these parts.
    Content(Vec<Span>),
    /// Its attributes alone.
    Attributes,
    /// Nothing.
    Nothing,
}

impl Default for Offers {
    fn default() -> Self {
        Self {
            mode: Mode::Unknown,
            pending: VecDeque::new(),
            offered: 0,
            memory_bytes: 0,
            next: 0,
            open: 0,
            most_open: MAX_OFFERS_OPEN,
        }
    }
}

impl Offers {
    /// Allows more open offers, because the receiver answers each only when its files are compared.
    pub fn open_more(&mut self) {
        self.most_open = MAX_COMPARED_OFFERS_OPEN;
    }

    /// Notes whether the receiver's destination is new. Returns the files that then need no offer.
    pub fn accept(&mut self, fresh: bool) -> VecDeque<Entry> {
        if !fresh {
            self.mode = Mode::Negotiate;
            return VecDeque::new();
        }
        self.mode = Mode::Fresh;
        self.offered = 0;
        self.memory_bytes = 0;
        self.open = 0;
        std::mem::take(&mut self.pending)
    }

    /// Whether the receiver has said that it takes the job.
    pub fn accepted(&self) -> bool {
        self.mode != Mode::Unknown
    }

    /// Whether the receiver has said that its destination is new: nothing is offered.
    pub fn fresh(&self) -> bool {
        self.mode == Mode::Fresh
    }

    /// Adds a file to be offered.
    pub fn add(&mut self, file: Entry) {
        self.memory_bytes += file.memory_bytes();
        self.pending.push_back(file);
    }

    /// Files that are not answered.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The memory of those, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Whether all files so far were offered.
    pub fn all_offered(&self) -> bool {
        self.pending.len() == self.offered
    }

    /// Offers that wait for their answer.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Files that have an answer.
    pub fn answered(&self) -> u64 {
        self.next - self.offered as u64
    }

    /// The next offer, if one can be made now. While more files may come, only a full offer is made.
    pub fn take(&mut self, all_found: bool) -> Option<Offer> {
        let unoffered = self.pending.len() - self.offered;
        let enough = if all_found { 1 } else { MAX_OFFERED_FILES };
        let most_open = match self.mode {
            Mode::Unknown => 1,
            Mode::Fresh => 0,
            Mode::Negotiate => self.most_open,
        };
        if unoffered < enough || self.open >= most_open {
            return None;
        }
        let mut first_names_bytes = 0;
        let fits = |entry: &&Entry| {
            let fits = first_names_bytes < MAX_FIRST_NAMES_BYTES;
            if let Kind::HardLink { first, .. } = &entry.kind {
                first_names_bytes += first.as_bytes().len();
            }
            fits
        };
        let most = unoffered.min(MAX_OFFERED_FILES);
        let files = self.pending.range(self.offered..self.offered + most);
        let files: Vec<_> = files.take_while(fits).map(Entry::offered).collect();
        let count = files.len();
        let offer = Offer {
            first: self.next,
            files,
        };
        self.offered += count;
        self.open += 1;
        self.next += count as u64;
        Some(offer)
    }

    /// Handles the answer to the oldest open offer. `howdah_wire::Conversation` has checked the order.
    pub fn answer(&mut self, answer: Answer) -> Vec<Answered> {
        self.open = self.open.saturating_sub(1);
        let mut found = answer.found.into_iter().peekable();
        let mut other_xattrs = answer.other_xattrs.into_iter().peekable();
        let files = answer.needed.into_iter().enumerate();
        let answered = files.map_while(|(index, needed)| {
            let entry = self.pending.pop_front()?;
            self.memory_bytes -= entry.memory_bytes();
            self.offered = self.offered.saturating_sub(1);
            let there = found.next_if(|found| usize::from(found.index) == index);
            let other = other_xattrs.next_if(|other| usize::from(*other) == index);
            let needs = match (needed, other) {
                (true, _) => Needs::Content(there.map_or_else(Vec::new, |found| found.spans)),
                (false, Some(_)) => Needs::Attributes,
                (false, None) => Needs::Nothing,
            };
            Some(Answered { entry, needs })
        });
        answered.collect()
    }

    /// The files that the receiver wants to compare. `howdah_wire::Conversation` has checked that they were offered.
    ///
    /// # Errors
    /// When one of them is not.
    pub fn asked(&self, compare: &Compare) -> Result<Vec<Asked>, ProtocolError> {
        let answered = self.answered();
        let begin = compare.first.checked_sub(answered);
        let entry = |&index: &u16| {
            let at = usize::try_from(begin?).ok()?.checked_add(index.into())?;
            let entry = self.pending.get(at).filter(|_| at < self.offered)?;
            let (source, path, size, mtime_ns) = match &entry.kind {
                Kind::File {
                    size, attributes, ..
                } => (entry.source, &entry.path, *size, attributes.mtime_ns),
                Kind::HardLink {
                    first_source,
                    first,
                    size,
                    mtime_ns,
                } => (*first_source, first, *size, *mtime_ns),
                _ => return None,
            };
            Some(Asked {
                source,
                path: path.clone(),
                size,
                mtime_ns,
            })
        };
        let asked: Option<Vec<_>> = compare.files.iter().map(entry).collect();
        asked.ok_or(ProtocolError("a comparison of what was not offered"))
    }
}

/// Whether these can be parts of the file.
pub fn can_be_of(there: &[Span], entry: &Entry) -> bool {
    let (Some(last), Kind::File { size, .. }) = (there.last(), &entry.kind) else {
        return there.is_empty();
    };
    let end = last.end();
    *size > MIN_BLOCK_BYTES
        && (end == Some(*size)
            || end.is_some_and(|end| end < *size && end.is_multiple_of(MIN_BLOCK_BYTES)))
}
