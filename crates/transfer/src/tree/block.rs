//! Blocks, which a stream takes from the queue one at a time, and the files that they are part of.

use std::sync::{Arc, Mutex, OnceLock};

use howdah_wire::{Checksum, Span, Totals, Xattrs};

use crate::tree::assembly::Assembly;
use crate::tree::entry::Entry;
use crate::tree::inlet::PipedBlock;
use crate::tree::source_file::SourceFile;

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
    /// Counts the file among those with holes, from the first hole on until nothing of it is in flight any more.
    pub holed: OnceLock<Arc<()>>,
}

/// The state of reading a [`BigFile`].
#[derive(Debug)]
pub struct Reading {
    /// The open file. The first stream that takes a piece opens it.
    pub opened: Opened,
    /// Its pieces that were begun.
    pub begun: Totals,
    /// Bytes of it whose comparison has begun.
    pub compared_bytes: u64,
    /// What the receiver already had of it, and is the same.
    pub resumed: Totals,
    /// The digests of its pieces that were sent.
    pub digests: Assembly,
    /// Its extended attributes, once it is open.
    pub xattrs: Option<Arc<Xattrs>>,
}

impl Reading {
    /// A file of `size` bytes of which nothing was read.
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

/// What a stream takes from the queue at a time.
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
