//! The work of one sending stream: take the next block, put it on the wire.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, OnceLock};

use blake3::hazmat::HasherExt;
use howdah_wire::{
    Attributes, Checksum, FilePiece, Piece, PieceError, StreamTally, Totals, TreePath, Verdict,
    printable,
};
use rustix::io::Errno;

use crate::abort::lock;
use crate::context::Context;
use crate::digests::Digest;
use crate::error::TransferError;
use crate::queue::{BigFile, Block, Opened, Queue, Reading};
use crate::source::{BECAME_SHORTER, Entry, Kind, SourceFile, Sources};
use crate::stream::{CHUNK_BYTES, Stream};

/// From this length on payload starts in a record of its own and at the start of a send, so that
/// the receiver hashes and writes aligned chunks.
const ALIGN_FROM_BYTES: u64 = 1 << 20;

/// Digests that a stream which never pauses holds back, so that streams seldom meet over them.
const DIGESTS_HELD: usize = 512;

/// What all sending streams of one end share.
pub struct Sending {
    /// What is left to send.
    pub queue: Queue,
    /// Where files are read.
    pub sources: Sources,
    totals: Mutex<Vec<(u16, Totals)>>,
    given_up: Mutex<Totals>,
}

impl Sending {
    /// Nothing sent yet.
    pub fn new(queue: Queue, sources: Sources) -> Self {
        Self {
            queue,
            sources,
            totals: Mutex::default(),
            given_up: Mutex::default(),
        }
    }

    /// What each stream that has ended carried.
    pub fn totals(&self) -> Vec<(u16, Totals)> {
        lock(&self.totals).clone()
    }

    /// What of all that was in files given up on the way.
    pub fn given_up(&self) -> Totals {
        *lock(&self.given_up)
    }

    /// Sends blocks until there are no more, then the account of the stream.
    ///
    /// # Errors
    /// When a source or the stream fails, or this end stops.
    pub fn work(
        &self,
        context: &Context,
        index: u16,
        stream: &mut dyn Stream,
    ) -> Result<(), TransferError> {
        let mut sender = Sender {
            sending: self,
            context,
            stream,
            header: Vec::new(),
            tally: StreamTally::default(),
            digests: Vec::new(),
        };
        loop {
            let block = match self.queue.try_next(index) {
                Some(block) => block,
                None => {
                    sender.stream.flush()?;
                    sender.note_digests();
                    match self.queue.next_block(index)? {
                        Some(block) => block,
                        None => break,
                    }
                }
            };
            context.board.payload_begins();
            sender.send(block)?;
            if sender.digests.len() >= DIGESTS_HELD {
                sender.note_digests();
            }
        }
        let totals = sender.finish()?;
        lock(&self.totals).push((index, totals));
        Ok(())
    }
}

struct Sender<'a> {
    sending: &'a Sending,
    context: &'a Context,
    stream: &'a mut dyn Stream,
    header: Vec<u8>,
    tally: StreamTally,
    /// Of small files sent and not yet noted on the board.
    digests: Vec<Digest>,
}

impl Sender<'_> {
    fn send(&mut self, block: Block) -> Result<(), TransferError> {
        match block {
            Block::Pack(pack) => pack
                .into_iter()
                .try_for_each(|(number, entry)| self.send_entry(number, entry)),
            Block::Slice { file, offset, len } => self.send_slice(&file, offset, len),
            Block::Memory(len) => self.send_memory(len),
        }
    }

    fn finish(mut self) -> Result<Totals, TransferError> {
        self.note_digests();
        let totals = self.tally.totals();
        self.header(&Piece::End(totals))?;
        self.stream.finish()?;
        Ok(totals)
    }

    fn note_digests(&mut self) {
        self.context.note_digests(self.digests.drain(..));
    }

    fn header(&mut self, piece: &Piece) -> Result<(), TransferError> {
        self.tally.accept(piece)?;
        self.header.clear();
        piece.encode(&mut self.header)?;
        Ok(self.stream.put(&self.header)?)
    }

    fn send_entry(&mut self, number: u64, entry: Entry) -> Result<(), TransferError> {
        let Entry { source, path, kind } = entry;
        match kind {
            Kind::Folder(attributes) => self.header(&Piece::Folder {
                source,
                path,
                attributes,
            }),
            Kind::Link { target, mtime_ns } => self.header(&Piece::Link {
                source,
                path,
                target,
                mtime_ns,
            }),
            Kind::File { size, attributes } => {
                let Some(file) = self.open(source, &path, size, attributes.mtime_ns)? else {
                    return Ok(());
                };
                let piece = FilePiece {
                    file: number,
                    source,
                    path: path.clone(),
                    attributes,
                    size,
                    offset: 0,
                    len: size,
                };
                let begun = piece.totals();
                self.header(&Piece::File(piece))?;
                let mut hasher = blake3::Hasher::new();
                let display = || self.sending.sources.display(source, &path);
                if let Some(why) = send_range(self.stream, &file, 0, size, &mut hasher, &display)? {
                    self.give_up(size, &begun, why);
                    return self.verdict(Some(begun.bytes));
                }
                self.verdict(None)?;
                let blake3 = *hasher.finalize().as_bytes();
                self.stream.put(&blake3)?;
                self.note_digest(source, path, blake3);
                Ok(())
            }
        }
    }

    fn send_slice(&mut self, file: &BigFile, offset: u64, len: u64) -> Result<(), TransferError> {
        let Entry { source, path, kind } = &file.entry;
        let attributes = match kind {
            Kind::File { attributes, .. } => *attributes,
            _ => Attributes {
                mode: 0,
                mtime_ns: 0,
            },
        };
        let piece = FilePiece {
            file: file.number,
            source: *source,
            path: path.clone(),
            attributes,
            size: file.size,
            offset,
            len,
        };
        let whole = piece.is_whole();
        let Some(opened) = self.opened(file, &piece)? else {
            return Ok(());
        };
        lock(&self.context.board.notes).current = Some((*source, path.clone()));
        self.header(&Piece::File(piece))?;
        if len >= ALIGN_FROM_BYTES {
            self.stream.flush()?;
        } else {
            self.stream.boundary()?;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(offset);
        let display = || self.sending.sources.display(*source, path);
        if let Some(why) = send_range(self.stream, &opened, offset, len, &mut hasher, &display)? {
            let begun_bytes = self.give_up_big(file, why);
            return self.verdict(Some(begun_bytes));
        }
        self.verdict(None)?;
        let value = if whole {
            *hasher.finalize().as_bytes()
        } else {
            hasher.finalize_non_root()
        };
        self.stream.put(&value)?;
        let digest = if whole {
            Some(value)
        } else {
            let added = lock(&file.reading).digests.add(offset, len, value);
            added
                .map_err(|_| PieceError::Malformed)?
                .map(|digest| *digest.as_bytes())
        };
        if let Some(blake3) = digest {
            self.note_digest(*source, path.clone(), blake3);
        }
        Ok(())
    }

    fn note_digest(&mut self, source: u16, path: TreePath, blake3: Checksum) {
        self.digests.push(Digest {
            source,
            path,
            blake3,
        });
    }

    /// The file open and `piece` of it begun; `None` when no more of it is sent.
    fn opened(
        &self,
        file: &BigFile,
        piece: &FilePiece,
    ) -> Result<Option<Arc<SourceFile>>, TransferError> {
        let Reading { opened, begun, .. } = &mut *lock(&file.reading);
        let mtime_ns = piece.attributes.mtime_ns;
        if let Opened::NotYet = opened {
            *opened = match self.open(file.entry.source, &file.entry.path, file.size, mtime_ns)? {
                Some(descriptor) => Opened::Yes(Arc::new(descriptor)),
                None => Opened::Unreadable,
            };
        }
        let Opened::Yes(descriptor) = opened else {
            return Ok(None);
        };
        begun.add(&piece.totals());
        Ok(Some(Arc::clone(descriptor)))
    }

    /// Begins no more of a file; what of it has begun, in bytes.
    fn give_up_big(&self, file: &BigFile, why: String) -> u64 {
        let mut reading = lock(&file.reading);
        // Others may have failed in it before.
        if let Opened::Yes(_) = std::mem::replace(&mut reading.opened, Opened::Unreadable) {
            self.give_up(file.size, &reading.begun, why);
        }
        reading.begun.bytes
    }

    /// Leaves a file out of which pieces have begun.
    fn give_up(&self, size: u64, begun: &Totals, why: String) {
        self.sending.queue.leave_out(size);
        lock(&self.sending.given_up).add(begun);
        self.context.leave_out(why);
    }

    /// Says behind a piece's payload whether its file is given up, and what of it has begun, in bytes.
    fn verdict(&mut self, begun_bytes: Option<u64>) -> Result<(), TransferError> {
        let given_up = begun_bytes.and_then(NonZeroU64::new);
        Ok(self.stream.put(&Verdict { given_up }.encode())?)
    }

    /// A file opened; `None` when it cannot be read: it is left out, the others are sent.
    fn open(
        &self,
        source: u16,
        path: &TreePath,
        size: u64,
        mtime_ns: i64,
    ) -> Result<Option<SourceFile>, TransferError> {
        match self.sending.sources.open_file(source, path, size, mtime_ns) {
            Err(TransferError::Unreadable(why)) => {
                self.sending.queue.leave_out(size);
                self.context.leave_out(why);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn send_memory(&mut self, len: u64) -> Result<(), TransferError> {
        self.header(&Piece::Memory { len })?;
        let pattern = pattern();
        let mut left = len;
        while left > 0 {
            let part = &pattern[..left.min(pattern.len() as u64) as usize];
            self.stream.send(part)?;
            left -= part.len() as u64;
        }
        Ok(())
    }
}

/// Reads `len` bytes at `offset` straight into the stream. Says why, if they cannot all be read or
/// the file has changed since it was opened; zeros are in the place of what was not read.
fn send_range(
    stream: &mut dyn Stream,
    file: &SourceFile,
    mut offset: u64,
    len: u64,
    hasher: &mut blake3::Hasher,
    display: &dyn Fn() -> Vec<u8>,
) -> Result<Option<String>, TransferError> {
    let end = offset + len;
    while offset < end {
        let room = stream.room()?;
        let most = (end - offset).min(room.len() as u64) as usize;
        let count = match rustix::io::pread(file.descriptor(), &mut room[..most], offset) {
            Ok(0) => {
                fill_up(stream, end - offset)?;
                let path = printable(&display());
                let why = format!("cannot read {path}: {BECAME_SHORTER}");
                return Ok(Some(why));
            }
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(error) => match TransferError::reading("read", &display(), error) {
                TransferError::Unreadable(why) => {
                    fill_up(stream, end - offset)?;
                    return Ok(Some(why));
                }
                error => return Err(error),
            },
        };
        hasher.update(&room[..count]);
        stream.advance(count);
        offset += count as u64;
    }
    Ok(file.changed().map(|change| {
        let path = printable(&display());
        format!("cannot read {path}: {change}")
    }))
}

/// Puts zeros where payload was announced.
fn fill_up(stream: &mut dyn Stream, mut len: u64) -> Result<(), TransferError> {
    while len > 0 {
        let room = stream.room()?;
        let count = len.min(room.len() as u64) as usize;
        room[..count].fill(0);
        stream.advance(count);
        len -= count as u64;
    }
    Ok(())
}

/// Payload of memory-to-memory transfers: does not compress, costs nothing to make.
fn pattern() -> &'static [u8] {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    PATTERN.get_or_init(|| {
        let mut bytes = vec![0; CHUNK_BYTES];
        blake3::Hasher::new()
            .update(b"howdah")
            .finalize_xof()
            .fill(&mut bytes);
        bytes
    })
}
