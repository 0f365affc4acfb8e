//! The work of one sending stream: it takes the next block, and sends it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use howdah_tcp::SocketPlan;
use howdah_wire::{
    Checked, Checksum, Connection, Doing, FilePiece, Piece, PieceError, ProtocolError, Span,
    TAKEN_BYTES, Totals, TreePath, Xattrs,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;

use crate::end::abort::lock;
use crate::end::context::Context;
use crate::end::digests::Digest;
use crate::end::spent;
use crate::error::TransferError;
use crate::streams::kept::{Form, Kept, Read, Sent, SentFile};
use crate::streams::send_pipe::digest_of;
use crate::streams::stream::{CHUNK_BYTES, Stream, StreamError};
use crate::tree::block::{BigFile, Block, Opened, Unchecked};
use crate::tree::entry::{Entry, Kind};
use crate::tree::queue::Queue;
use crate::tree::source::Sources;
use crate::tree::source_links::LastFolder;
use crate::tree::stat::of_special;

/// How long a wait looks away from the stop flag and from its connection.
const GLANCE: Duration = Duration::from_millis(20);
/// When the receiver has closed a connection, its word on what it has taken may take this long.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// The state that all sending streams of one end share.
pub struct Sending {
    /// What is left to send.
    pub queue: Queue,
    /// Where files are read.
    pub sources: Sources,
    lines: Vec<Line>,
    pub(super) given_up: Mutex<Totals>,
    /// Counts of what the receiver already had, and is the same.
    pub(super) resumed: Mutex<Totals>,
}

/// One stream, on whichever connection.
struct Line {
    /// Sent, and not known to be taken.
    kept: Kept,
    /// Small files, folders and links of the block that it is at, with their numbers.
    pack: Mutex<VecDeque<(u64, Entry)>>,
    /// Parts of its present slice, with how each is sent.
    pub(super) parts: Mutex<VecDeque<(Arc<BigFile>, Span, Form)>>,
}

impl Sending {
    /// Nothing sent yet.
    pub fn new(queue: Queue, sources: Sources, streams: u16) -> Self {
        let line = |_| Line {
            kept: Kept::new(streams),
            pack: Mutex::default(),
            parts: Mutex::default(),
        };
        Self {
            queue,
            sources,
            lines: (0..streams).map(line).collect(),
            given_up: Mutex::default(),
            resumed: Mutex::default(),
        }
    }

    /// What each stream has carried.
    pub fn totals(&self) -> Vec<(u16, Totals)> {
        let totals = self.lines.iter().map(|line| line.kept.totals());
        (0..).zip(totals).collect()
    }

    /// The counts of what was sent of files that were given up.
    pub fn given_up(&self) -> Totals {
        *lock(&self.given_up)
    }

    /// The counts of what the receiver had from an interrupted copy, and is the same.
    pub fn resumed(&self) -> Totals {
        *lock(&self.resumed)
    }

    /// Handles the receiver's result on a part that was compared.
    ///
    /// # Errors
    /// When this part was not being compared.
    pub fn checked(&self, context: &Context, checked: &Checked) -> Result<(), TransferError> {
        let Some(Unchecked {
            file,
            span,
            checksum,
        }) = self.queue.checked(checked)?
        else {
            return Ok(());
        };
        let checksum = checksum.ok_or(ProtocolError("it has compared what was not read yet"))?;
        let mut reading = lock(&file.reading);
        if let Opened::Unreadable = reading.opened {
            return Ok(());
        }
        let added = reading.digests.add(span.offset, span.len, checksum);
        let digest = added.map_err(|_| PieceError::Malformed)?;
        let resumed = Totals {
            bytes: span.len,
            files: u64::from(span.offset == 0),
            ..Totals::default()
        };
        reading.resumed.add(&resumed);
        lock(&self.resumed).add(&resumed);
        context.board.add_resumed(span.len);
        drop(reading);
        context.note_digests(digest.map(|digest| Digest {
            source: file.entry.source,
            path: file.entry.path.clone(),
            blake3: digest.into(),
        }));
        Ok(())
    }

    /// Whether each stream has sent its end.
    pub fn all_sent(&self) -> bool {
        self.lines.iter().all(|line| line.kept.ended())
    }

    /// Drops the pieces of a stream that the receiver has confirmed, `taken` in all.
    ///
    /// # Errors
    /// When it confirms more than was sent.
    pub fn let_go(&self, context: &Context, stream: u16, taken: u64) -> Result<(), TransferError> {
        let mut digests = Vec::new();
        for sent in self.line(stream)?.kept.let_go(taken)? {
            if let Sent::Header(piece) = &sent {
                digests.extend(digest_of(piece));
            }
            if let Sent::File(file) = sent
                && file.form != Form::There
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

    /// Drops all pieces, because the receiver has everything.
    ///
    /// # Errors
    /// As [`Self::let_go`].
    pub fn let_all_go(&self, context: &Context) -> Result<(), TransferError> {
        (0..)
            .zip(&self.lines)
            .try_for_each(|(stream, line)| self.let_go(context, stream, line.kept.sent()))
    }

    /// Notes the digests of files that were sent completely and not confirmed. The receiver may have given them their
    /// names before it was lost.
    pub fn leave_unconfirmed(&self, context: &Context) {
        for line in &self.lines {
            let (_, pieces) = line.kept.all();
            let digests = pieces.into_iter().filter_map(|sent| match sent {
                Sent::File(file) => match file.read {
                    // A part that was compared and is counted already is no part of a file that is whole only now.
                    Read::Whole(checksum) => digest(file, checksum).ok().flatten(),
                    Read::NotYet | Read::GivenUp => None,
                },
                Sent::Header(_) | Sent::Piped(_) => None,
            });
            context.board.digests.leave_unconfirmed(digests);
        }
    }

    /// Sends blocks until there are no more, and then the end of the stream with its counts. If the connection
    /// replaces another one, it first sends what was not confirmed. Returns when the receiver has everything.
    ///
    /// # Errors
    /// [`TransferError::Lost`] when the connection breaks. Other errors end the transfer: a source fails, or this end
    /// stops.
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
            last_folder: LastFolder::default(),
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
            let part = lock(&line.parts).pop_front();
            if let Some((file, span, form)) = part {
                sender.send_part(file, span, form)?;
                continue;
            }
            sender.last_folder = LastFolder::default();
            if let Some(most_bytes) = self.queue.unsent_at_most() {
                sender.wait_for_socket(most_bytes)?;
            }
            let block = match self.queue.try_next(connection.stream) {
                Some(block) => Some(block),
                None => {
                    sender.stream.flush()?;
                    let look = || sender.look();
                    let _waiting = spent::doing(Doing::Waiting);
                    self.queue.next_block(connection.stream, look)?
                }
            };
            context.board.payload_begins();
            spent::started();
            match block {
                Some(Block::Pack(pack)) => lock(&line.pack).extend(pack),
                Some(Block::Slice(file, span)) => {
                    let parts = sender.parts_of(&file, span, Form::Payload)?;
                    lock(&line.parts).extend(parts);
                }
                Some(Block::There(file, span)) => {
                    let parts = sender.parts_of(&file, span, Form::There)?;
                    lock(&line.parts).extend(parts);
                }
                Some(Block::Piped(block)) => sender.send_piped(block)?,
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

pub(super) struct Sender<'a> {
    pub(super) sending: &'a Sending,
    pub(super) context: &'a Context,
    connection: Connection,
    pub(super) kept: &'a Kept,
    pub(super) stream: &'a mut dyn Stream,
    /// Of its present block, because names may change.
    pub(super) last_folder: LastFolder,
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
                Sent::Piped(block) => self.put_piped(&block)?,
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
        let _socket = spent::doing(Doing::Socket);
        while !self.kept.has_room() {
            if self.context.abort.stopping() {
                return Err(TransferError::Cancelled);
            }
            self.look()?;
            self.kept.wait(GLANCE);
        }
        Ok(())
    }

    /// Waits while so much is unsent. The other streams take their blocks meanwhile, also those that connect a
    /// little later.
    fn wait_for_socket(&mut self, most_bytes: u32) -> Result<(), TransferError> {
        self.stream.flush()?;
        // A socket that refuses keeps what it has.
        let _ = SocketPlan {
            notsent_lowat_bytes: Some(most_bytes),
            ..SocketPlan::default()
        }
        .apply(self.stream.socket());
        let _socket = spent::doing(Doing::Socket);
        while !polled(self.stream, PollFlags::OUT, GLANCE) {
            if self.context.abort.stopping() {
                return Err(TransferError::Cancelled);
            }
            self.look()?;
        }
        Ok(())
    }

    /// Waits until the receiver has taken all of the stream. It closes the connection then, and says so
    /// on the control channel, which may take longer.
    fn wait_until_taken(&self) -> Result<(), TransferError> {
        let mut closed = None;
        let _socket = spent::doing(Doing::Socket);
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
            Sent::File(file) => file.header(),
            Sent::Piped(block) => Piece::Piped(block.piece()),
        };
        self.kept.keep(sent);
        self.put(&piece)
    }

    /// Sends a header, and the payload if it comes from memory.
    pub(super) fn put(&mut self, piece: &Piece) -> Result<(), TransferError> {
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
            Kind::Folder(mut attributes) => {
                let sources = &self.sending.sources;
                if context_keeps(self.context)
                    && let Ok(folder) = sources.open_folder(source, &path)
                {
                    attributes.xattrs = self.xattrs(source, &path, &folder);
                }
                self.send(Sent::Header(Piece::Folder {
                    source,
                    path,
                    attributes,
                }))
            }
            Kind::Attributes {
                size,
                mut attributes,
            } => {
                let opened = self.open(source, &path, size, attributes.mtime_ns)?;
                if let Some(opened) = opened {
                    attributes.xattrs = self.xattrs(source, &path, opened.descriptor());
                    self.send(Sent::Header(Piece::Attributes {
                        source,
                        path,
                        size,
                        attributes,
                    }))?;
                }
                Ok(())
            }
            Kind::Link {
                target,
                mtime_ns,
                owner,
            } => {
                let xattrs = self.xattrs_of_unopened(source, &path, FileType::Symlink);
                self.send(Sent::Header(Piece::Link {
                    source,
                    path,
                    target,
                    mtime_ns,
                    owner,
                    xattrs,
                }))
            }
            Kind::Special {
                mut attributes,
                kind,
                device,
            } => {
                attributes.xattrs = self.xattrs_of_unopened(source, &path, of_special(kind));
                self.send(Sent::Header(Piece::Special {
                    source,
                    path,
                    attributes,
                    kind,
                    device,
                }))
            }
            Kind::HardLink {
                first_source,
                first,
                size,
                mtime_ns,
            } => self.send(Sent::Header(Piece::HardLink {
                source,
                path,
                first_source,
                first,
                size,
                mtime_ns,
            })),
            Kind::File {
                size,
                mut attributes,
                ..
            } => {
                let Some(opened) = self.open(source, &path, size, attributes.mtime_ns)? else {
                    return Ok(());
                };
                attributes.xattrs = self.xattrs(source, &path, opened.descriptor());
                let piece = FilePiece {
                    file: number,
                    source,
                    path,
                    attributes,
                    size,
                    offset: 0,
                    len: size,
                };
                self.send_file(piece, None, Arc::new(opened), Form::Payload)
            }
        }
    }

    /// The extended attributes of an open file or folder, if they are kept.
    pub(super) fn xattrs(
        &self,
        source: u16,
        path: &TreePath,
        file: &OwnedFd,
    ) -> Option<Arc<Xattrs>> {
        let sources = &self.sending.sources;
        let _opening = spent::doing(Doing::Opening);
        let display = || sources.display(source, path);
        let not_kept = |why| self.context.leave_out(why);
        sources.xattrs(file, display, not_kept, |line| self.context.warn(line))
    }

    /// The extended attributes of a link or a special file, if they are kept.
    fn xattrs_of_unopened(
        &self,
        source: u16,
        path: &TreePath,
        kind: FileType,
    ) -> Option<Arc<Xattrs>> {
        let _opening = spent::doing(Doing::Opening);
        let not_kept = |why| self.context.leave_out(why);
        let sources = &self.sending.sources;
        sources.xattrs_of_unopened(source, path, kind, not_kept)
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

/// Whether folders are opened for what is kept of them.
fn context_keeps(context: &Context) -> bool {
    context.job.keep.xattrs || context.job.keep.acls
}

/// Whether the other end sends nothing more on a connection, or it is broken.
fn closed_by_peer(stream: &dyn Stream) -> bool {
    polled(stream, PollFlags::RDHUP, Duration::ZERO)
}

/// Whether this holds of a connection, or it is broken; waits so long for it.
fn polled(stream: &dyn Stream, flags: PollFlags, wait: Duration) -> bool {
    let socket = stream.socket();
    let mut polled = [PollFd::new(&socket, flags)];
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(wait.subsec_nanos()),
    };
    poll(&mut polled, Some(&wait)).is_ok_and(|found| found > 0)
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
