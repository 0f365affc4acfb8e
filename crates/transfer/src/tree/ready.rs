//! Entries that can be sent at once, cut into blocks. Small files are packed, and big ones sliced. Parts that the
//! receiver may already have are compared first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};

use howdah_wire::limits::MIN_BLOCK_BYTES;
use howdah_wire::{Checked, Checksum, ProtocolError, Span};

use crate::tree::block::{BigFile, Block, Reading, Unchecked};
use crate::tree::entry::{Entry, Kind};
use crate::tree::slicing::Slicing;

/// A file of at most this size is not sliced, unless blocks are smaller because little is left, in bytes.
const WHOLE_BYTES: u64 = 256 << 10;
/// Most payload of one block of small files, in bytes: the least that makes a packing pay.
const MAX_PACK_BYTES: u64 = 1 << 20;
/// Most small files in one block.
const MAX_PACK_FILES: usize = 256;
/// The most parts that are compared at a time. Each may keep a file open at the receiver.
pub(super) const MAX_UNCHECKED: usize = 64;
/// Files with holes that are on the way, about at most: then no other file is begun that takes several pieces. Holes cost
/// no bytes, so a stream that is slow could hold pieces of any number of files, and each of these is open at the receiver.
const MAX_HOLED: usize = 64;

/// What can be sent at once.
#[derive(Debug, Default)]
pub struct Ready {
    /// With what the receiver may have of each.
    entries: VecDeque<(Entry, Vec<Span>)>,
    /// The memory of the entries, in bytes.
    memory_bytes: usize,
    bytes: u64,
    slicing: Option<(Arc<BigFile>, Slicing)>,
    /// Parts that are being compared, by the file's number and the part's offset.
    unchecked: HashMap<(u64, u64), Unchecked>,
    /// Parts that differ.
    differing: VecDeque<(Arc<BigFile>, Span)>,
    next_number: u64,
    /// Held by each file with holes that is on the way.
    holed: Arc<()>,
}

impl Ready {
    /// Adds an entry. The receiver may already have these parts of it.
    pub fn add(&mut self, entry: Entry, there: Vec<Span>) {
        if let Kind::File { size, .. } = entry.kind {
            self.bytes += size;
        }
        self.memory_bytes += entry.memory_bytes();
        self.entries.push_back((entry, there));
    }

    fn pop(&mut self) -> Option<(Entry, Vec<Span>)> {
        let (entry, there) = self.entries.pop_front()?;
        self.memory_bytes -= entry.memory_bytes();
        Some((entry, there))
    }

    /// Entries of which nothing was taken.
    pub fn waiting(&self) -> usize {
        self.entries.len()
    }

    /// The memory of the entries, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Bytes that are not taken yet.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of files, folders and links that were taken.
    pub fn taken(&self) -> u64 {
        self.next_number
    }

    /// Whether nothing is left to be sent or compared.
    pub fn is_over(&self) -> bool {
        self.entries.is_empty()
            && self.slicing.is_none()
            && self.unchecked.is_empty()
            && self.differing.is_empty()
    }

    /// The next block of at most `limit` bytes, if there is one now.
    pub fn next(&mut self, limit: u64) -> Option<Block> {
        if let Some((file, span)) = self.differing.pop_front() {
            self.bytes -= span.len;
            return Some(Block::Slice(file, span));
        }
        let mut pack = Vec::new();
        let mut pack_bytes = 0;
        while self.slicing.is_none() {
            let size = match self.entries.front()?.0.kind {
                Kind::File { size, .. } => size,
                _ => 0,
            };
            if size > limit.clamp(MIN_BLOCK_BYTES, WHOLE_BYTES) {
                if !pack.is_empty() {
                    return Some(Block::Pack(pack));
                }
                if Arc::strong_count(&self.holed) > MAX_HOLED {
                    return None;
                }
                let (entry, there) = self.pop()?;
                let number = self.number();
                let file = BigFile {
                    number,
                    entry,
                    size,
                    reading: Mutex::new(Reading::new(size)),
                    holed: OnceLock::new(),
                };
                self.slicing = Some((Arc::new(file), Slicing::new(size, there)));
                break;
            }
            let (entry, _) = self.pop()?;
            self.bytes -= size;
            pack_bytes += size;
            pack.push((self.number(), entry));
            let full = pack_bytes >= limit.min(MAX_PACK_BYTES) || pack.len() == MAX_PACK_FILES;
            if full || self.entries.is_empty() {
                return Some(Block::Pack(pack));
            }
        }
        let (file, mut slicing) = self.slicing.take()?;
        if slicing.compares() && self.unchecked.len() >= MAX_UNCHECKED {
            self.slicing = Some((file, slicing));
            return None;
        }
        let there = slicing.compares();
        let span = slicing.next(limit)?;
        self.bytes -= span.len;
        if !slicing.is_done() {
            self.slicing = Some((Arc::clone(&file), slicing));
        }
        if !there {
            return Some(Block::Slice(file, span));
        }
        let unchecked = Unchecked {
            file: Arc::clone(&file),
            span,
            checksum: None,
        };
        self.unchecked.insert((file.number, span.offset), unchecked);
        Some(Block::There(file, span))
    }

    /// Notes that a file has holes, and that the part `beyond`, which was not taken yet, is one.
    pub fn note_hole(&mut self, file: &BigFile, beyond: Option<Span>) {
        file.holed.get_or_init(|| Arc::clone(&self.holed));
        if let (Some(beyond), Some((slicing_file, slicing))) = (beyond, &mut self.slicing)
            && slicing_file.number == file.number
        {
            slicing.note_hole(beyond);
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Notes the hash of a part that is being compared.
    pub fn note_read(&mut self, file: u64, offset: u64, checksum: Checksum) {
        if let Some(unchecked) = self.unchecked.get_mut(&(file, offset)) {
            unchecked.checksum = Some(checksum);
        }
    }

    /// Cancels the comparison of a part, because its file is not sent.
    pub fn forget(&mut self, file: u64, offset: u64) {
        self.unchecked.remove(&(file, offset));
    }

    /// Handles the receiver's result on a part that was compared. Returns the part if it is the same. A part that
    /// differs is sent next.
    ///
    /// # Errors
    /// When that part was not being compared.
    pub fn checked(&mut self, checked: &Checked) -> Result<Option<Unchecked>, ProtocolError> {
        let Checked { file, span, same } = checked;
        let known = self.unchecked.remove(&(*file, span.offset));
        let unchecked = known.filter(|known| known.span == *span);
        let unchecked = unchecked.ok_or(ProtocolError("a comparison that was not asked for"))?;
        if *same {
            return Ok(Some(unchecked));
        }
        self.bytes += span.len;
        self.differing.push_back((unchecked.file, *span));
        Ok(None)
    }

    /// Parts that are being compared.
    pub fn unchecked(&self) -> usize {
        self.unchecked.len()
    }
}
