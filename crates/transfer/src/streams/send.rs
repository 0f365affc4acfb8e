//! The work of one sending stream: take the next block, put it on the wire.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use blake3::hazmat::HasherExt;
use howdah_wire::{
    Attributes, Checksum, Connection, FilePiece, Piece, PieceError, TAKEN_BYTES, Totals, TreePath,
    Verdict, printable,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::end::context::Context;
use crate::end::digests::Digest;
use crate::error::TransferError;
use crate::streams::kept::{Kept, Read, Sent, SentFile};
use crate::streams::stream::{CHUNK_BYTES, Stream, StreamError};
use crate::tree::queue::{BigFile, Block, Opened, Queue, Reading};
use crate::tree::source::{BECAME_SHORTER, Entry, Kind, SourceFile, Sources};

/// From this length on payload starts in a record of its own and at the start of a send, so that
/// the receiver hashes and writes aligned chunks.
const ALIGN_FROM_BYTES: u64 = 1 << 20;

/// How long a wait looks away from the stop flag and from its connection.
const GLANCE: Duration = Duration::from_millis(20);
/// When the receiver has closed a connection, its word on what it has taken may take this long.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// What all sending streams of one end share.
pub struct Sending {
    /// What is left to send.
    pub queue: Queue,
    /// Where files are read.
    pub sources: Sources,
    lines: Vec<Line>,
    given_up: Mutex<Totals>,
}

/// One stream, on whichever connection.
struct Line {
    /// Sent, and not known to be taken.
    kept: Kept,
    /// Small files, folders and links of the block that it is at, with their numbers.
    pack: Mutex<VecDeque<(u64, Entry)>>,
}

impl Sending {
    /// Nothing sent yet.
    pub fn new(queue: Queue, sources: Sources, streams: u16) -> Self {
        let line = |_| Line {
            kept: Kept::new(streams),
            pack: Mutex::default(),
        };
        Self {
            queue,
            sources,
            lines: (0..streams).map(line).collect(),
            given_up: Mutex::default(),
        }
    }

    /// What each stream has carried.
    pub fn totals(&self) -> Vec<(u16, Totals)> {
        let totals = self.lines.iter().map(|line| line.kept.totals());
        (0..).zip(totals).collect()
    }

    /// What of all that was in files given up on the way.
    pub fn given_up(&self) -> Totals {
        *lock(&self.given_up)
    }

    /// Whether each stream has sent its end.
    pub fn all_sent(&self) -> bool {
        self.lines.iter().all(|line| line.kept.ended())
    }

    /// Lets go of what the receiver has taken of a stream, which is `taken` pieces in all.
    ///
    /// # Errors
    /// When it says that it has taken what was not sent.
    pub fn let_go(&self, context: &Context, stream: u16, taken: u64) -> Result<(), TransferError> {
        let mut digests = Vec::new();
        for sent in self.line(stream)?.kept.let_go(taken)? {
            if let Sent::File(file) = sent
                && let Read::Whole(checksum) = file.read
                && let Some(digest) = digest(file, checksum)?
            {
                digests.push(digest);
            }
        }
        context.connections.note_taken(stream, taken);
        context.note_digests(digests);
        Ok(())
    }

    /// Lets go of everything: the receiver has it all.
    ///
    /// # Errors
    /// As [`Self::let_go`].
    pub fn let_all_go(&self, context: &Context) -> Result<(), TransferError> {
        (0..)
            .zip(&self.lines)
            .try_for_each(|(stream, line)| self.let_go(context, stream, line.kept.sent()))
    }

    /// Sends blocks until there are no more, then the account of the stream; first of all, on a connection
    /// that replaces another one, what was not taken. Returns when the receiver has all of it.
    ///
    /// # Errors
    /// [`TransferError::Lost`] when the connection breaks. Whatever else ends the transfer: a source
    /// fails, or this end stops.
    pub fn work(
        &self,
        context: &Context,
        connection: Connection,
        stream: &mut dyn Stream,
    ) -> Result<(), TransferError> {
        let line = self.line(connection.stream)?;
        let mut sender = Sender {
            sending: self,
            context,
            connection,
            kept: &line.kept,
            stream,
            header: Vec::new(),
        };
        if connection.incarnation > 0 {
            sender.send_again()?;
        }
        while !line.kept.ended() {
            sender.wait_for_room()?;
            let entry = lock(&line.pack).pop_front();
            if let Some((number, entry)) = entry {
                sender.send_entry(number, entry)?;
                continue;
            }
            let block = match self.queue.try_next(connection.stream) {
                Some(block) => Some(block),
                None => {
                    sender.stream.flush()?;
                    let look = || sender.look();
                    self.queue.next_block(connection.stream, look)?
                }
            };
            context.board.payload_begins();
            match block {
                Some(Block::Pack(pack)) => lock(&line.pack).extend(pack),
                Some(Block::Slice { file, offset, len }) => sender.send_slice(file, offset, len)?,
                Some(Block::Memory(len)) => sender.send(Sent::Header(Piece::Memory { len }))?,
                None => sender.send(Sent::Header(Piece::End(line.kept.totals())))?,
            }
        }
        sender.stream.finish()?;
        sender.wait_until_taken()
    }

    fn line(&self, stream: u16) -> Result<&Line, PieceError> {
        self.lines
            .get(usize::from(stream))
            .ok_or(PieceError::Greeting)
    }
}

/// The digest of a file, once all its pieces have been taken.
fn digest(file: SentFile, checksum: Checksum) -> Result<Option<Digest>, PieceError> {
    let FilePiece {
        source,
        path,
        offset,
        len,
        size,
        ..
    } = file.piece;
    let blake3 = match file.big {
        Some(big) if len < size => {
            let added = lock(&big.reading).digests.add(offset, len, checksum);
            added.map_err(|_| PieceError::Malformed)?.map(Into::into)
        }
        _ => Some(checksum),
    };
    Ok(blake3.map(|blake3| Digest {
        source,
        path,
        blake3,
    }))
}

struct Sender<'a> {
    sending: &'a Sending,
    context: &'a Context,
    connection: Connection,
    kept: &'a Kept,
    stream: &'a mut dyn Stream,
    header: Vec<u8>,
}

impl Sender<'_> {
    /// Sends what the receiver has not taken on the connections before this one.
    fn send_again(&mut self) -> Result<(), TransferError> {
        let mut taken = [0; TAKEN_BYTES];
        self.stream.take(&mut taken)?;
        let taken = u64::from_le_bytes(taken);
        let (first, _) = self.kept.all();
        if taken < first {
            return Err(PieceError::Tally.into());
        }
        self.sending
            .let_go(self.context, self.connection.stream, taken)?;
        let (first, pieces) = self.kept.all();
        for (number, sent) in (first..).zip(pieces) {
            self.look()?;
            match sent {
                Sent::Header(piece) => self.put(&piece)?,
                Sent::File(file) => {
                    let opened = self.open_again(&file)?;
                    self.put_file(number, &file, opened)?;
                }
            }
        }
        Ok(())
    }

    /// Whether this connection is still the one of its stream, and up.
    fn look(&self) -> Result<(), TransferError> {
        if self.context.connections.replaced(self.connection) {
            return Err(TransferError::Lost(
                "data stream: another connection has taken its place".to_owned(),
            ));
        }
        if closed_by_peer(self.stream) && !self.kept.ended() {
            return Err(StreamError::Truncated.into());
        }
        Ok(())
    }

    /// Waits while too much is on the way.
    fn wait_for_room(&mut self) -> Result<(), TransferError> {
        if self.kept.has_room() {
            return Ok(());
        }
        self.stream.flush()?;
        while !self.kept.has_room() {
            if self.context.abort.stopping() {
                return Err(TransferError::Cancelled);
            }
            self.look()?;
            self.kept.wait(GLANCE);
        }
        Ok(())
    }

    /// Waits until the receiver has taken all of the stream. It closes the connection then, and says so
    /// on the control channel, which may take longer.
    fn wait_until_taken(&self) -> Result<(), TransferError> {
        let mut closed = None;
        while !self.kept.all_taken() {
            if self.context.abort.stopping() {
                return Err(TransferError::Cancelled);
            }
            self.look()?;
            if closed_by_peer(self.stream)
                && closed.get_or_insert_with(Instant::now).elapsed() > TOLD_WITHIN
            {
                return Err(StreamError::Truncated.into());
            }
            self.kept.wait(GLANCE);
        }
        Ok(())
    }

    /// Sends something for the first time that has no payload of a file.
    fn send(&mut self, sent: Sent) -> Result<(), TransferError> {
        let piece = match &sent {
            Sent::Header(piece) => piece.clone(),
            Sent::File(file) => Piece::File(file.piece.clone()),
        };
        self.kept.keep(sent);
        self.put(&piece)
    }

    /// Sends a header, and its payload if that is from memory.
    fn put(&mut self, piece: &Piece) -> Result<(), TransferError> {
        self.header.clear();
        piece.encode(&mut self.header)?;
        self.stream.put(&self.header)?;
        match piece {
            Piece::Memory { len } => self.put_memory(*len),
            _ => Ok(()),
        }
    }

    fn send_entry(&mut self, number: u64, entry: Entry) -> Result<(), TransferError> {
        let Entry { source, path, kind } = entry;
        match kind {
            Kind::Folder(attributes) => self.send(Sent::Header(Piece::Folder {
                source,
                path,
                attributes,
            })),
            Kind::Link { target, mtime_ns } => self.send(Sent::Header(Piece::Link {
                source,
                path,
                target,
                mtime_ns,
            })),
            Kind::File { size, attributes } => {
                let Some(opened) = self.open(source, &path, size, attributes.mtime_ns)? else {
                    return Ok(());
                };
                let piece = FilePiece {
                    file: number,
                    source,
                    path,
                    attributes,
                    size,
                    offset: 0,
                    len: size,
                };
                self.send_file(piece, None, Arc::new(opened))
            }
        }
    }

    fn send_slice(
        &mut self,
        file: Arc<BigFile>,
        offset: u64,
        len: u64,
    ) -> Result<(), TransferError> {
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
        let Some(opened) = self.opened(&file, &piece)? else {
            return Ok(());
        };
        lock(&self.context.board.notes).current = Some((*source, path.clone()));
        self.send_file(piece, Some(file), opened)
    }

    /// Sends a part of a file for the first time, or all of it.
    fn send_file(
        &mut self,
        piece: FilePiece,
        big: Option<Arc<BigFile>>,
        opened: Arc<SourceFile>,
    ) -> Result<(), TransferError> {
        let file = SentFile {
            piece,
            big,
            read: Read::NotYet,
        };
        let number = self.kept.keep(Sent::File(file.clone()));
        self.put_file(number, &file, Some(opened))
    }

    /// Sends a part of a file, or all of it: its header, what can be read of it, and what came of that. It
    /// is given up where it is not open any more.
    fn put_file(
        &mut self,
        number: u64,
        file: &SentFile,
        opened: Option<Arc<SourceFile>>,
    ) -> Result<(), TransferError> {
        let FilePiece { offset, len, .. } = file.piece;
        self.put(&Piece::File(file.piece.clone()))?;
        if len >= ALIGN_FROM_BYTES {
            self.stream.flush()?;
        } else if file.big.is_some() {
            self.stream.boundary()?;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(offset);
        let display = || {
            self.sending
                .sources
                .display(file.piece.source, &file.piece.path)
        };
        let failed = match &opened {
            Some(source) => send_range(self.stream, source, offset, len, &mut hasher, &display)?,
            None => {
                fill_up(self.stream, len)?;
                None
            }
        };
        // There is nothing of an empty file that could not be read.
        if len > 0 && (failed.is_some() || opened.is_none()) {
            let begun_bytes = self.give_up(file, failed);
            self.kept.note_read(number, Read::GivenUp);
            return self.verdict(NonZeroU64::new(begun_bytes));
        }
        let checksum = if file.piece.is_whole() {
            *hasher.finalize().as_bytes()
        } else {
            hasher.finalize_non_root()
        };
        self.kept.note_read(number, Read::Whole(checksum));
        self.verdict(None)?;
        Ok(self.stream.put(&checksum)?)
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

    /// The file of a piece that is sent again; `None` when it is given up, now or before.
    fn open_again(&self, file: &SentFile) -> Result<Option<Arc<SourceFile>>, TransferError> {
        let FilePiece {
            source,
            path,
            size,
            attributes,
            ..
        } = &file.piece;
        match (&file.big, file.read) {
            (Some(big), _) => Ok(match &lock(&big.reading).opened {
                Opened::Yes(descriptor) => Some(Arc::clone(descriptor)),
                Opened::NotYet | Opened::Unreadable => None,
            }),
            (None, Read::GivenUp) => Ok(None),
            (None, Read::NotYet | Read::Whole(_)) if *size == 0 => Ok(None),
            (None, Read::NotYet | Read::Whole(_)) => {
                let sources = &self.sending.sources;
                match sources.open_file(*source, path, *size, attributes.mtime_ns) {
                    Err(TransferError::Unreadable(why)) => {
                        self.leave_out(*size, &file.piece.totals(), why);
                        Ok(None)
                    }
                    opened => opened.map(|opened| Some(Arc::new(opened))),
                }
            }
        }
    }

    /// Begins no more of a file; what of it has begun, in bytes. `why` is absent where that was said before.
    fn give_up(&self, file: &SentFile, why: Option<String>) -> u64 {
        let Some(big) = &file.big else {
            let begun = file.piece.totals();
            if let Some(why) = why {
                self.leave_out(file.piece.size, &begun, why);
            }
            return begun.bytes;
        };
        let mut reading = lock(&big.reading);
        // Others may have failed in it before.
        if let Some(why) = why
            && let Opened::Yes(_) = std::mem::replace(&mut reading.opened, Opened::Unreadable)
        {
            self.leave_out(big.size, &reading.begun, why);
        }
        reading.begun.bytes
    }

    /// Leaves a file out of which pieces have begun.
    fn leave_out(&self, size: u64, begun: &Totals, why: String) {
        self.sending.queue.leave_out(size);
        lock(&self.sending.given_up).add(begun);
        self.context.leave_out(why);
    }

    /// Says behind a piece's payload whether its file is given up, and what of it has begun, in bytes.
    fn verdict(&mut self, given_up: Option<NonZeroU64>) -> Result<(), TransferError> {
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

    fn put_memory(&mut self, len: u64) -> Result<(), TransferError> {
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

/// Whether the other end sends nothing more on a connection, or it is broken.
fn closed_by_peer(stream: &dyn Stream) -> bool {
    let socket = stream.socket();
    let mut polled = [PollFd::new(&socket, PollFlags::RDHUP)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&now)).is_ok_and(|found| found > 0)
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
    if len == 0 {
        return Ok(None);
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
