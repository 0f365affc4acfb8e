//! The work of one receiving stream. It reads pieces, verifies them, and passes each on by its kind.

use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use howdah_wire::{
    Checksum, Connection, Doing, FilePiece, HEADER_LENGTH_BYTES, Piece, PieceError, StreamTally,
    TAKEN_BYTES, Totals, Verdict, printable,
};

use crate::end::abort::lock;
use crate::end::context::Context;
use crate::end::digests::Digest;
use crate::end::spent::{self, OTHERS_MEASURE};
use crate::error::TransferError;
use crate::streams::receive_file::{Come, OpenFiles};
use crate::streams::receive_pipe::Pipe;
use crate::streams::stream::{Stream, StreamError};
use crate::tree::commit::{Committer, Complete};
use crate::tree::later::Later;
use crate::tree::metadata::NotKept;
use crate::tree::other_names::OtherName;
use crate::tree::place::Placement;
use crate::tree::special_files::Made;
use crate::tree::write_behind::WriteBehind;

/// Parts that payload usually comes in.
const PARTS: usize = 64;

/// The state that all receiving streams of one end share.
pub struct Receiving {
    pub(super) placement: Placement,
    /// Whether all is put on stable storage.
    sync: bool,
    pub(super) committer: Committer,
    pub(super) behind: WriteBehind,
    pub(super) open: OpenFiles,
    /// What has been taken of each stream.
    tallies: Mutex<Vec<StreamTally>>,
    pub(super) given_up: Mutex<Totals>,
    /// Special files that came and were not made.
    not_made: AtomicU64,
    /// Counts of what was here already of the complete files.
    pub(super) resumed: Mutex<Totals>,
    pub(super) pipe: Option<Pipe>,
}

pub(super) fn hash(hasher: &mut blake3::Hasher, parts: &[IoSlice<'_>]) {
    let _digest = spent::doing(Doing::Digest);
    for part in parts {
        hasher.update(part);
    }
}

impl Receiving {
    /// Nothing received yet.
    pub fn new(placement: Placement, streams: u16, sync: bool) -> Self {
        Self {
            placement,
            sync,
            committer: Committer::new(sync),
            behind: WriteBehind::default(),
            open: OpenFiles::default(),
            tallies: Mutex::new(vec![StreamTally::default(); usize::from(streams)]),
            given_up: Mutex::default(),
            not_made: AtomicU64::new(0),
            resumed: Mutex::default(),
            pipe: None,
        }
    }

    /// Where things are placed.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Receives pieces until the regular end of the stream. Begins with the first piece that was not taken yet.
    ///
    /// # Errors
    /// [`TransferError::Lost`] when the connection breaks. Another connection then continues with what was not taken.
    /// Other errors end the transfer: the destination fails, or the sender breaks the protocol.
    pub fn work(
        &self,
        context: &Arc<Context>,
        connection: Connection,
        stream: &mut dyn Stream,
    ) -> Result<(), TransferError> {
        let connections = &context.connections;
        let index = connection.stream;
        let mut tally = lock(&self.tallies)[usize::from(index)];
        if connection.incarnation > 0 {
            let taken: [u8; TAKEN_BYTES] = connections.taken(index).to_le_bytes();
            stream.put(&taken)?;
            stream.flush()?;
        }
        let mut receiver = Receiver {
            receiving: self,
            context,
            stream,
            header: Vec::new(),
            counted_bytes: 0,
        };
        while !tally.ended() {
            let piece = receiver.header()?;
            tally.accept(&piece)?;
            context.board.payload_begins();
            spent::started();
            receiver.receive(piece)?;
            context.board.pieces.fetch_add(1, Ordering::Relaxed);
            lock(&self.tallies)[usize::from(index)] = tally;
            connections.note_taken(index, connections.taken(index) + 1);
        }
        match receiver.stream.data(1) {
            Ok([_, ..]) => Err(PieceError::Tally.into()),
            // All has come; how its connection ends is of no account.
            _ => Ok(()),
        }
    }

    /// The work of the thread that gives complete files their names, or that writes into this end's pipe.
    ///
    /// # Errors
    /// When a file cannot be put on stable storage or get its name, or the pipe cannot be written to.
    pub fn name_files(&self, context: &Context) -> Result<(), TransferError> {
        let stop = || context.abort.stopping();
        let _booked = spent::begin(Arc::clone(&context.books.naming), OTHERS_MEASURE);
        spent::started();
        if let Some(Pipe::Out(outlet)) = &self.pipe {
            return outlet.pour(stop);
        }
        self.committer.run(stop, |file| self.name(context, file))
    }

    /// Gives a file its name, or has it wait until that is free.
    fn name(&self, context: &Context, file: Complete) -> Result<(), TransferError> {
        match file.draft.give_name() {
            Err(TransferError::InTheWay(why)) => {
                if let Some((Later::File(file), why)) =
                    self.placement.put_off(Later::File(file), why)
                {
                    context.leave_out(why);
                    self.not_placed(context, file.piece, file.blake3);
                }
                return Ok(());
            }
            Err(TransferError::Refused(why)) => {
                file.draft.discard();
                context.leave_out_once(why);
                self.not_placed(context, file.piece, file.blake3);
                return Ok(());
            }
            other => other?,
        }
        self.placement.note_named(file.draft.destination())?;
        context.board.files.fetch_add(1, Ordering::Relaxed);
        context.note_digests([digest_of(file.piece, file.blake3)]);
        Ok(())
    }

    /// Counts a file as received, and not as one that was here before.
    pub(super) fn not_placed(&self, context: &Context, piece: FilePiece, blake3: Checksum) {
        context.board.digests.count(&digest_of(piece, blake3));
        lock(&self.given_up).add(&Totals {
            files: 1,
            ..Totals::default()
        });
    }

    /// Places the entries that had to wait for the removal. An entry that still cannot be placed is left out.
    ///
    /// # Errors
    /// When the system refuses; [`TransferError::Cancelled`] when this end stops.
    pub fn place_later(&self, context: &Context) -> Result<(), TransferError> {
        for later in self.placement.take_later() {
            if context.abort.stopping() {
                return Err(TransferError::Cancelled);
            }
            match later {
                Later::File(file) => self.name(context, file)?,
                Later::Made(piece) => self.make(context, piece)?,
                Later::Name(name) => match self.placement.give_other_name(&name) {
                    Err(
                        TransferError::Here(why)
                        | TransferError::InTheWay(why)
                        | TransferError::Refused(why),
                    ) => context.leave_out_once(why),
                    other => other?,
                },
            }
        }
        Ok(())
    }

    /// Makes what has no content of its own; where its name is taken, it waits for that or is left out.
    fn make(&self, context: &Context, piece: Piece) -> Result<(), TransferError> {
        let may_wait = matches!(piece, Piece::Link { .. } | Piece::Special { .. });
        let again = may_wait.then(|| Later::Made(piece.clone()));
        let why = match self.try_to_make(context, piece) {
            Err(TransferError::InTheWay(why)) => why,
            Err(TransferError::Refused(why)) => {
                context.leave_out_once(why);
                return Ok(());
            }
            other => return other,
        };
        let left_out = match again {
            Some(later) => self.placement.put_off(later, why).map(|(_, why)| why),
            None => Some(why),
        };
        left_out.into_iter().for_each(|why| context.leave_out(why));
        Ok(())
    }

    fn try_to_make(&self, context: &Context, piece: Piece) -> Result<(), TransferError> {
        let _opening = spent::doing(Doing::Opening);
        let placement = &self.placement;
        match piece {
            Piece::Folder {
                source,
                path,
                attributes,
            } => placement.make_folder(source, &path, attributes),
            Piece::Link {
                source,
                path,
                target,
                mtime_ns,
                owner,
                xattrs,
            } => {
                let kept = (owner.as_deref(), xattrs.as_deref());
                not_kept(
                    context,
                    placement.link(source, &path, &target, mtime_ns, kept)?,
                );
                Ok(())
            }
            Piece::Attributes {
                source,
                path,
                size,
                attributes,
            } => {
                let why = placement.give_attributes(source, &path, size, &attributes)?;
                not_kept(context, why);
                Ok(())
            }
            Piece::Special {
                source,
                path,
                attributes,
                kind,
                device,
            } => {
                match placement.make_special(source, &path, &attributes, kind, device)? {
                    Made::Yes => {}
                    Made::Without(why) => context.leave_out(why),
                    Made::LeftOut(why) => {
                        self.not_made.fetch_add(1, Ordering::Relaxed);
                        context.warn(why);
                    }
                    Made::Failed(why) => {
                        self.not_made.fetch_add(1, Ordering::Relaxed);
                        context.leave_out(why);
                    }
                }
                Ok(())
            }
            Piece::HardLink {
                source,
                path,
                first_source,
                first,
                size,
                mtime_ns,
            } => placement.note_other_name(&OtherName {
                source,
                path,
                first_source,
                first,
                size,
                mtime_ns,
            }),
            _ => Err(PieceError::Malformed.into()),
        }
    }

    /// After all streams have ended, waits until all files have all their names. No part may be missing. Returns
    /// early when this end stops.
    ///
    /// # Errors
    /// When files are incomplete, or the storage fails.
    pub fn all_named(&self, context: &Context) -> Result<(), TransferError> {
        let stop = || context.abort.stopping();
        if let Some(pipe) = &self.pipe
            && pipe.all_come(context)?
        {
            return Ok(());
        }
        if let Some(path) = self.open.any() {
            return Err(TransferError::Here(format!(
                "the other end broke the protocol: {} is incomplete",
                printable(&path)
            )));
        }
        self.committer.finish(stop)?;
        let not_kept = |why| context.leave_out_once(why);
        self.placement.give_other_names(stop, not_kept)
    }

    /// Completes the job after the last name has changed: puts everything on stable storage. Returns early when this
    /// end stops.
    ///
    /// # Errors
    /// When a folder cannot get its attributes, or the storage fails.
    pub fn finish(&self, context: &Context) -> Result<(), TransferError> {
        let stop = || context.abort.stopping();
        let not_kept = |why| context.leave_out(why);
        self.placement.finish(self.sync, stop, not_kept)?;
        for line in self.placement.metadata().not_kept_by_system() {
            context.warn(line);
        }
        Ok(())
    }

    /// Whether complete files are being put on stable storage.
    pub fn flushing(&self) -> bool {
        match &self.pipe {
            Some(Pipe::Out(outlet)) => outlet.is_busy(),
            _ => self.committer.busy(),
        }
    }

    /// Special files that came and were not made here.
    pub fn not_made(&self) -> u64 {
        self.not_made.load(Ordering::Relaxed)
    }

    /// What each stream has carried.
    pub fn totals(&self) -> Vec<(u16, Totals)> {
        let tallies = lock(&self.tallies);
        (0..).zip(tallies.iter().map(StreamTally::totals)).collect()
    }

    /// The counts of what has arrived of files that the sender gave up.
    pub fn given_up(&self) -> Totals {
        *lock(&self.given_up)
    }

    /// The counts of what was here from an interrupted copy, and is the same.
    pub fn resumed(&self) -> Totals {
        *lock(&self.resumed)
    }

    /// Whether another copy asks for files that are incomplete here.
    pub fn is_asked_for(&self) -> bool {
        self.open.are_asked_for()
    }

    /// Drops incomplete files, except the parts with which the next copy can continue.
    pub fn discard(&self) {
        self.open.clear();
        if let Some(Pipe::In(file)) = &self.pipe {
            file.discard();
        }
    }
}

/// The error if what has arrived is not what the sender has read.
pub(super) fn not_as_sent() -> TransferError {
    let words = "data stream: a checksum does not match; bytes were damaged on the way";
    TransferError::Stream(words.to_owned())
}

pub(super) struct Receiver<'a> {
    pub(super) receiving: &'a Receiving,
    pub(super) context: &'a Arc<Context>,
    pub(super) stream: &'a mut dyn Stream,
    header: Vec<u8>,
    /// What has come of the piece that is coming.
    counted_bytes: u64,
}

impl Receiver<'_> {
    fn header(&mut self) -> Result<Piece, TransferError> {
        let mut length = [0; HEADER_LENGTH_BYTES];
        self.stream.take(&mut length)?;
        self.header.resize(Piece::header_len(length)?, 0);
        self.stream.take(&mut self.header)?;
        Ok(Piece::decode(&self.header)?)
    }

    fn receive(&mut self, piece: Piece) -> Result<(), TransferError> {
        self.counted_bytes = 0;
        let outcome = self.take(piece);
        if let Err(TransferError::Lost(_)) = outcome {
            // It comes again.
            self.context.board.take_back_bytes(self.counted_bytes);
        }
        outcome
    }

    fn count(&mut self, bytes: u64) {
        self.counted_bytes += bytes;
        self.context.board.add_bytes(bytes);
    }

    fn take(&mut self, piece: Piece) -> Result<(), TransferError> {
        let receiving = self.receiving;
        if let Some(pipe) = &receiving.pipe {
            return self.take_of_pipe(pipe, piece);
        }
        match piece {
            Piece::File(piece) if piece.is_whole() => self.receive_whole(piece, Come::Payload),
            Piece::File(piece) => self.receive_part(&piece, Come::Payload),
            Piece::Hole(piece) if piece.is_whole() => self.receive_whole(piece, Come::Hole),
            Piece::Hole(piece) => self.receive_part(&piece, Come::Hole),
            Piece::There(piece) => self.compare(&piece),
            Piece::Memory { len } => self.receive_memory(len),
            Piece::End(_) => Ok(()),
            Piece::Piped(_) | Piece::Sealed { .. } => Err(PieceError::Malformed.into()),
            piece => receiving.make(self.context, piece),
        }
    }

    fn receive_memory(&mut self, len: u64) -> Result<(), TransferError> {
        if self.context.job.memory.is_none() {
            return Err(PieceError::Malformed.into());
        }
        let mut left = len;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let count = self.stream.discard(most)? as u64;
            if count == 0 {
                return Err(StreamError::Truncated.into());
            }
            left -= count;
            self.count(count);
        }
        Ok(())
    }

    /// Gives `len` bytes of payload to `take`, with their offset in the payload. The checksum that follows shows
    /// whether they are what the sender has read.
    pub(super) fn payload(
        &mut self,
        len: u64,
        mut take: impl FnMut(&mut [IoSlice<'_>], u64) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let mut offset = 0;
        while offset < len {
            let most = usize::try_from(len - offset).unwrap_or(usize::MAX);
            let mut parts = Vec::with_capacity(PARTS);
            self.stream.parts(most, &mut parts)?;
            let count = parts.iter().map(|part| part.len() as u64).sum::<u64>();
            if count == 0 {
                return Err(StreamError::Truncated.into());
            }
            take(&mut parts, offset)?;
            offset += count;
            self.count(count);
        }
        Ok(())
    }

    /// Takes what follows a file's payload: the verdict, and a checksum unless the file is given up.
    pub(super) fn verdict(&mut self, computed: Checksum) -> Result<Verdict, TransferError> {
        let (verdict, sent) = self.verdict_and_checksum()?;
        if sent.is_some_and(|sent| sent != computed) {
            return Err(not_as_sent());
        }
        Ok(verdict)
    }

    pub(super) fn verdict_and_checksum(
        &mut self,
    ) -> Result<(Verdict, Option<Checksum>), TransferError> {
        let mut bytes = [0; Verdict::BYTES];
        self.stream.take(&mut bytes)?;
        let verdict = Verdict::decode(bytes)?;
        if verdict.given_up.is_some() {
            return Ok((verdict, None));
        }
        let mut sent = Checksum::default();
        self.stream.take(&mut sent)?;
        Ok((verdict, Some(sent)))
    }
}

/// Tells the user which attribute of a file could not be kept.
pub(super) fn not_kept(context: &Context, why: NotKept) {
    why.into_iter().for_each(|why| context.leave_out(why));
}

fn digest_of(piece: FilePiece, blake3: Checksum) -> Digest {
    let FilePiece { source, path, .. } = piece;
    Digest {
        source,
        path,
        blake3,
    }
}
