//! How a file is sent: it is opened and read directly into the stream. If it cannot be read, it is given up.

use std::num::NonZeroU64;
use std::sync::Arc;

use blake3::hazmat::HasherExt;
use howdah_wire::{Attributes, Doing, FilePiece, Span, Totals, TreePath, Verdict, printable};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::end::spent;
use crate::error::TransferError;
use crate::streams::kept::{Form, Read, Sent, SentFile};
use crate::streams::send::Sender;
use crate::streams::stream::{CHUNK_BYTES, Stream};
use crate::tree::block::{BigFile, Opened, Reading};
use crate::tree::entry::{Entry, Kind};
use crate::tree::source_file::{BECAME_SHORTER, SourceFile};
use crate::tree::source_holes::{self, Extent};
use crate::tree::zeros;

/// From this length on payload starts in a record of its own and at the start of a send, so that
/// the receiver hashes and writes aligned chunks.
const ALIGN_FROM_BYTES: u64 = 1 << 20;

impl Sender<'_> {
    /// The parts of a slice, with how each is sent: holes as holes, and everything else in the form `form`. There are
    /// no parts if the file cannot be read.
    pub(super) fn parts_of(
        &mut self,
        file: &Arc<BigFile>,
        span: Span,
        form: Form,
    ) -> Result<Vec<(Arc<BigFile>, Span, Form)>, TransferError> {
        let whole = |form| vec![(Arc::clone(file), span, form)];
        let queue = &self.sending.queue;
        let Some(opened) = self.opened(file)? else {
            if form == Form::There {
                queue.forget(file.number, span.offset);
            }
            return Ok(Vec::new());
        };
        // Whoever reads a pipe gets each byte.
        if self.context.job.pipe || !opened.may_have_holes() {
            return Ok(whole(form));
        }
        let disk = spent::doing(Doing::Disk);
        let holes = source_holes::holes(opened.descriptor(), span, file.size);
        drop(disk);
        let Some(last) = holes.last() else {
            return Ok(whole(form));
        };
        let (end, last_end) = (span.offset + span.len, last.offset + last.len);
        let beyond = last_end.checked_sub(end).filter(|len| *len > 0);
        queue.note_hole(file, beyond.map(|len| Span { offset: end, len }));
        let parts = source_holes::cut(span, &holes);
        if form == Form::There {
            // A hole is told sooner than it is compared. One that is only a part of this is compared with it.
            if parts.iter().any(|(_, is_hole)| !is_hole) {
                return Ok(whole(form));
            }
            queue.forget(file.number, span.offset);
        }
        let parts = parts.into_iter().map(|(part, is_hole)| {
            let form = if is_hole { Form::Hole } else { form };
            (Arc::clone(file), part, form)
        });
        Ok(parts.collect())
    }

    /// Sends a part of a file for the first time.
    pub(super) fn send_part(
        &mut self,
        file: Arc<BigFile>,
        Span { offset, len }: Span,
        form: Form,
    ) -> Result<(), TransferError> {
        let Entry { source, path, kind } = &file.entry;
        let attributes = match kind {
            Kind::File { attributes, .. } => attributes.clone(),
            _ => Attributes {
                mode: 0,
                mtime_ns: 0,
                owner: None,
                xattrs: None,
            },
        };
        let mut piece = FilePiece {
            file: file.number,
            source: *source,
            path: path.clone(),
            attributes,
            size: file.size,
            offset,
            len,
        };
        let mut reading = lock(&file.reading);
        let Opened::Yes(opened) = &reading.opened else {
            drop(reading);
            // It was given up since it was cut.
            if form == Form::There {
                self.sending.queue.forget(file.number, offset);
            }
            return Ok(());
        };
        let opened = Arc::clone(opened);
        piece.attributes.xattrs = reading.xattrs.clone();
        match form {
            Form::Payload => reading.begun.add(&piece.totals()),
            Form::Hole => reading.begun.add(&piece.hole_totals()),
            Form::There => reading.compared_bytes += len,
        }
        drop(reading);
        lock(&self.context.board.notes).current = Some((*source, path.clone()));
        self.send_file(piece, Some(file), opened, form)
    }

    /// Sends a part of a file for the first time, or all of it.
    pub(super) fn send_file(
        &mut self,
        piece: FilePiece,
        big: Option<Arc<BigFile>>,
        opened: Arc<SourceFile>,
        form: Form,
    ) -> Result<(), TransferError> {
        let file = SentFile {
            piece,
            big,
            read: Read::NotYet,
            form,
        };
        let number = self.kept.keep(Sent::File(file.clone()));
        self.put_file(number, &file, Some(opened))
    }

    /// Sends a part of a file, or all of it: the header, what can be read, and the verdict. If the file is not open
    /// any more, it is given up.
    pub(super) fn put_file(
        &mut self,
        number: u64,
        file: &SentFile,
        opened: Option<Arc<SourceFile>>,
    ) -> Result<(), TransferError> {
        let FilePiece { offset, len, .. } = file.piece;
        self.put(&file.header())?;
        // What follows may take a while; the receiver reads or makes its own meanwhile.
        if file.form == Form::There || len >= ALIGN_FROM_BYTES {
            self.stream.flush()?;
        } else if file.big.is_some() && file.form == Form::Payload {
            self.stream.boundary()?;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(offset);
        let display = || {
            self.sending
                .sources
                .display(file.piece.source, &file.piece.path)
        };
        // A hole that was hashed before stays one as long as its file does not change.
        let known = match (file.form, file.read) {
            (Form::Hole, Read::Whole(checksum)) => Some(checksum),
            _ => None,
        };
        let failed = match (&opened, file.form) {
            (Some(source), Form::Payload) => {
                send_range(self.stream, source, offset, len, &mut hasher, &display)?
            }
            (Some(source), Form::Hole) => {
                if known.is_none() {
                    zeros::hash(&mut hasher, len);
                }
                what_changed(source, &display)
            }
            (Some(source), Form::There) => hash_range(source, offset, len, &mut hasher, &display)?,
            (None, Form::Payload) => {
                fill_up(self.stream, len)?;
                None
            }
            (None, Form::Hole | Form::There) => None,
        };
        // There is nothing of an empty file that could not be read.
        if len > 0 && (failed.is_some() || opened.is_none()) {
            if let (true, Some(why)) = (self.context.job.pipe, &failed) {
                // What the receiver has written cannot be taken back.
                return Err(TransferError::Here(why.clone()));
            }
            let begun_bytes = self.give_up(file, failed);
            self.kept.note_read(number, Read::GivenUp);
            return self.verdict(NonZeroU64::new(begun_bytes));
        }
        let checksum = known.unwrap_or_else(|| match file.piece.is_whole() {
            true => *hasher.finalize().as_bytes(),
            false => hasher.finalize_non_root(),
        });
        self.kept.note_read(number, Read::Whole(checksum));
        if file.form == Form::There {
            let queue = &self.sending.queue;
            queue.note_read(file.piece.file, offset, checksum);
        }
        self.verdict(None)?;
        Ok(self.stream.put(&checksum)?)
    }

    /// The file open; `None` when no more of it is sent.
    fn opened(&mut self, file: &BigFile) -> Result<Option<Arc<SourceFile>>, TransferError> {
        let Reading { opened, xattrs, .. } = &mut *lock(&file.reading);
        let mtime_ns = match &file.entry.kind {
            Kind::File { attributes, .. } => attributes.mtime_ns,
            _ => 0,
        };
        if let Opened::NotYet = opened {
            *opened = match self.open(file.entry.source, &file.entry.path, file.size, mtime_ns)? {
                Some(descriptor) => {
                    let (source, path) = (file.entry.source, &file.entry.path);
                    *xattrs = self.xattrs(source, path, descriptor.descriptor());
                    Opened::Yes(Arc::new(descriptor))
                }
                None => Opened::Unreadable,
            };
        }
        Ok(match opened {
            Opened::Yes(descriptor) => Some(Arc::clone(descriptor)),
            Opened::NotYet | Opened::Unreadable => None,
        })
    }

    /// The file of a piece that is sent again; `None` if the file was given up, now or before.
    pub(super) fn open_again(
        &mut self,
        file: &SentFile,
    ) -> Result<Option<Arc<SourceFile>>, TransferError> {
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
                let (last, mtime_ns) = (&mut self.last_folder, attributes.mtime_ns);
                match sources.open_file(Some(last), *source, path, *size, mtime_ns) {
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
            lock(&self.sending.resumed).take_away(&reading.resumed);
            self.context.board.take_back_resumed(reading.resumed.bytes);
        }
        reading.begun.bytes + reading.begun.hole_bytes + reading.compared_bytes
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

    /// Opens a file; `None` if it cannot be read. The file is then left out, and the others are sent.
    pub(super) fn open(
        &mut self,
        source: u16,
        path: &TreePath,
        size: u64,
        mtime_ns: i64,
    ) -> Result<Option<SourceFile>, TransferError> {
        let _opening = spent::doing(Doing::Opening);
        let (sources, last) = (&self.sending.sources, &mut self.last_folder);
        match sources.open_file(Some(last), source, path, size, mtime_ns) {
            Err(TransferError::Unreadable(why)) if !self.context.job.pipe => {
                self.sending.queue.leave_out(size);
                self.context.leave_out(why);
                Ok(None)
            }
            other => other.map(Some),
        }
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
        let stay = spent::doing(Doing::Disk);
        let count = match rustix::io::pread(file.descriptor(), &mut room[..most], offset) {
            Ok(0) => {
                drop(stay);
                fill_up(stream, end - offset)?;
                let path = printable(&display());
                let why = format!("cannot read {path}: {BECAME_SHORTER}");
                return Ok(Some(why));
            }
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(error) => match TransferError::reading("read", &display(), error) {
                TransferError::Unreadable(why) => {
                    drop(stay);
                    fill_up(stream, end - offset)?;
                    return Ok(Some(why));
                }
                error => return Err(error),
            },
        };
        stay.then(Doing::Digest);
        hasher.update(&room[..count]);
        drop(stay);
        stream.advance(count);
        offset += count as u64;
    }
    if len == 0 {
        return Ok(None);
    }
    Ok(what_changed(file, display))
}

/// Reads `len` bytes at `offset` to compare them; says why as [`send_range`] does.
fn hash_range(
    file: &SourceFile,
    mut offset: u64,
    len: u64,
    hasher: &mut blake3::Hasher,
    display: &dyn Fn() -> Vec<u8>,
) -> Result<Option<String>, TransferError> {
    let end = offset + len;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut data_end = if file.may_have_holes() { offset } else { end };
    while offset < end {
        if offset == data_end {
            match source_holes::extent(file.descriptor(), offset, end) {
                Extent::Hole(hole) => {
                    zeros::hash(hasher, hole.len);
                    offset += hole.len;
                    data_end = offset;
                    continue;
                }
                Extent::Data(data) => data_end = offset + data.len,
            }
        }
        let most = (data_end - offset).min(buffer.len() as u64) as usize;
        let stay = spent::doing(Doing::Disk);
        match rustix::io::pread(file.descriptor(), &mut buffer[..most], offset) {
            Ok(0) => {
                let path = printable(&display());
                return Ok(Some(format!("cannot read {path}: {BECAME_SHORTER}")));
            }
            Ok(count) => {
                stay.then(Doing::Digest);
                hasher.update(&buffer[..count]);
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => match TransferError::reading("read", &display(), error) {
                TransferError::Unreadable(why) => return Ok(Some(why)),
                error => return Err(error),
            },
        }
    }
    Ok(what_changed(file, display))
}

/// Why the file cannot be read, if it has changed since it was opened.
fn what_changed(file: &SourceFile, display: &dyn Fn() -> Vec<u8>) -> Option<String> {
    file.changed().map(|change| {
        let path = printable(&display());
        format!("cannot read {path}: {change}")
    })
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
