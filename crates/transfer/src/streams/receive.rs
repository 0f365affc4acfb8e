//! The work of one receiving stream: take pieces off the wire, verify them, write them in place.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use blake3::hazmat::{ChainingValue, HasherExt};
use howdah_wire::limits::MAX_OPEN_FILES;
use howdah_wire::{
    Arrivals, Checked, Checksum, Connection, FilePiece, HEADER_LENGTH_BYTES, Message, Piece,
    PieceError, Span, StreamTally, TAKEN_BYTES, Totals, Verdict, printable,
};

use crate::end::abort::lock;
use crate::end::context::Context;
use crate::end::digests::Digest;
use crate::error::TransferError;
use crate::streams::receive_pipe::Pipe;
use crate::streams::stream::{Stream, StreamError};
use crate::tree::assembly::Assembly;
use crate::tree::commit::{Committer, Complete};
use crate::tree::draft::Draft;
use crate::tree::metadata::NotKept;
use crate::tree::other_names::OtherName;
use crate::tree::place::Placement;
use crate::tree::special_files::Made;
use crate::tree::write_behind::WriteBehind;

/// Parts that payload usually comes in.
const PARTS: usize = 64;

/// What all receiving streams of one end share.
pub struct Receiving {
    placement: Placement,
    /// Whether all is put on stable storage.
    sync: bool,
    committer: Committer,
    pub(super) behind: WriteBehind,
    /// Files of which some pieces have come.
    open: Mutex<HashMap<u64, Arc<OpenFile>>>,
    /// What has been taken of each stream.
    tallies: Mutex<Vec<StreamTally>>,
    given_up: Mutex<Totals>,
    /// What was here of the files that have all come.
    resumed: Mutex<Totals>,
    pub(super) pipe: Option<Pipe>,
}

pub(super) fn hash(hasher: &mut blake3::Hasher, parts: &[IoSlice<'_>]) {
    for part in parts {
        hasher.update(part);
    }
}

struct OpenFile {
    first: FilePiece,
    /// Its whole path, for messages.
    display: Vec<u8>,
    parts: Mutex<Parts>,
}

/// What there is of an [`OpenFile`].
struct Parts {
    /// Absent once the file is given up.
    draft: Option<Arc<Draft>>,
    arrivals: Arrivals,
    assembly: Assembly,
}

impl Receiving {
    /// Nothing received yet.
    pub fn new(placement: Placement, streams: u16, sync: bool) -> Self {
        Self {
            placement,
            sync,
            committer: Committer::new(sync),
            behind: WriteBehind::default(),
            open: Mutex::default(),
            tallies: Mutex::new(vec![StreamTally::default(); usize::from(streams)]),
            given_up: Mutex::default(),
            resumed: Mutex::default(),
            pipe: None,
        }
    }

    /// Where things are placed.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Receives pieces until the stream ends as it should, from the first one on that was not taken yet.
    ///
    /// # Errors
    /// [`TransferError::Lost`] when the connection breaks: another one goes on with what was not taken.
    /// Whatever else ends the transfer: the destination fails, or the sender breaks the protocol.
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

    /// The work of the thread that gives complete files their names, or writes into a pipe of this end.
    ///
    /// # Errors
    /// When a file cannot be put on stable storage or named, or the pipe refuses.
    pub fn name_files(&self, context: &Context) -> Result<(), TransferError> {
        let stop = || context.abort.stopping();
        if let Some(Pipe::Out(outlet)) = &self.pipe {
            return outlet.pour(stop);
        }
        self.committer.run(stop, |file| {
            self.placement.note_named(file.draft.destination())?;
            context.board.files.fetch_add(1, Ordering::Relaxed);
            let digest = Digest {
                source: file.piece.source,
                path: file.piece.path,
                blake3: file.blake3,
            };
            context.note_digests([digest]);
            Ok(())
        })
    }

    /// Waits when all streams have ended until all files have all their names: nothing may be missing. Returns early
    /// when this end stops.
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
        if let Some(file) = lock(&self.open).values().next() {
            return Err(TransferError::Here(format!(
                "the other end broke the protocol: {} is incomplete",
                printable(&file.display)
            )));
        }
        self.committer.finish(stop)?;
        let not_kept = |why| context.leave_out(why);
        self.placement.give_other_names(stop, not_kept)
    }

    /// Ends the job when no name changes any more: all is on stable storage. Returns early when this end stops.
    ///
    /// # Errors
    /// When a folder refuses its attributes, or the storage fails.
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

    /// What each stream has carried.
    pub fn totals(&self) -> Vec<(u16, Totals)> {
        let tallies = lock(&self.tallies);
        (0..).zip(tallies.iter().map(StreamTally::totals)).collect()
    }

    /// What of all that was in files their sender gave up.
    pub fn given_up(&self) -> Totals {
        *lock(&self.given_up)
    }

    /// What was here of all that from a copy that was cut, and is the same.
    pub fn resumed(&self) -> Totals {
        *lock(&self.resumed)
    }

    /// Drops what is incomplete, but for the parts that the next copy can go on with.
    pub fn discard(&self) {
        lock(&self.open).clear();
        if let Some(Pipe::In(file)) = &self.pipe {
            file.discard();
        }
    }

    fn open_file(
        &self,
        context: &Arc<Context>,
        piece: &FilePiece,
    ) -> Result<Arc<OpenFile>, TransferError> {
        let mut open = lock(&self.open);
        if let Some(file) = open.get(&piece.file) {
            let same = FilePiece {
                offset: file.first.offset,
                len: file.first.len,
                ..piece.clone()
            };
            return if same == file.first {
                Ok(Arc::clone(file))
            } else {
                Err(PieceError::Malformed.into())
            };
        }
        if open.len() >= MAX_OPEN_FILES {
            return Err(TransferError::Here(
                "the other end broke the protocol: too many files at once".to_owned(),
            ));
        }
        let (draft, why) = self.placement.draft_in_parts(
            piece.source,
            &piece.path,
            piece.size,
            piece.attributes.mtime_ns,
        )?;
        let draft = Arc::new(draft);
        let file = Arc::new(OpenFile {
            first: piece.clone(),
            display: draft.display().to_vec(),
            parts: Mutex::new(Parts {
                draft: Some(Arc::clone(&draft)),
                arrivals: Arrivals::new(piece.size),
                assembly: Assembly::new(piece.size),
            }),
        });
        open.insert(piece.file, Arc::clone(&file));
        drop(open);
        if let Some(why) = why {
            context.warn(why);
        }
        if draft.wants_pages(piece.size) {
            let size = piece.size;
            context.spawn("howdah-pages", move |context| {
                let alone = || context.abort.stopping() || Arc::strong_count(&draft) == 1;
                draft.take_pages(size, alone);
                Ok(())
            })?;
        }
        Ok(file)
    }
}

/// What came is not what the sender says that it has read.
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
        let placement = &receiving.placement;
        match piece {
            Piece::File(piece) if piece.is_whole() => self.receive_whole(piece),
            Piece::File(piece) => self.receive_part(&piece),
            Piece::There(piece) => self.compare(&piece),
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
            } => {
                let owner = owner.as_deref();
                let not_kept = placement.link(source, &path, &target, mtime_ns, owner)?;
                self.not_kept(not_kept);
                Ok(())
            }
            Piece::Attributes {
                source,
                path,
                size,
                attributes,
            } => {
                self.not_kept(placement.give_attributes(source, &path, size, &attributes)?);
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
                    Made::LeftOut(why) => self.context.warn(why),
                    Made::Failed(why) => self.context.leave_out(why),
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
            Piece::Memory { len } => self.receive_memory(len),
            Piece::End(_) => Ok(()),
            Piece::Piped(_) | Piece::Sealed { .. } => Err(PieceError::Malformed.into()),
        }
    }

    fn receive_whole(&mut self, piece: FilePiece) -> Result<(), TransferError> {
        let draft = self
            .receiving
            .placement
            .draft(piece.source, &piece.path, piece.size)?;
        let mut hasher = blake3::Hasher::new();
        self.payload(piece.len, |parts, offset| {
            hash(&mut hasher, parts);
            draft.write_at(parts, offset)
        })?;
        let blake3 = *hasher.finalize().as_bytes();
        let verdict = self.verdict(blake3)?;
        let mut arrivals = Arrivals::new(piece.size);
        arrivals.add(&piece, verdict)?;
        if arrivals.given_up() {
            self.give_up(&arrivals, piece.len);
            return Ok(());
        }
        self.complete(Arc::new(draft), piece, blake3)
    }

    fn receive_part(&mut self, piece: &FilePiece) -> Result<(), TransferError> {
        let file = self.receiving.open_file(self.context, piece)?;
        lock(&self.context.board.notes).current = Some((piece.source, piece.path.clone()));
        let draft = lock(&file.parts).draft.clone();
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(piece.offset);
        self.payload(piece.len, |parts, offset| {
            hash(&mut hasher, parts);
            match &draft {
                Some(draft) => draft.write_at(parts, piece.offset + offset),
                None => Ok(()),
            }
        })?;
        if let Some(draft) = draft {
            self.receiving
                .behind
                .written(&draft, piece.offset, piece.len)?;
        }
        let value = hasher.finalize_non_root();
        let verdict = self.verdict(value)?;
        let mut parts = lock(&file.parts);
        let known = parts.arrivals.given_up();
        parts.arrivals.add(piece, verdict)?;
        if parts.arrivals.given_up() {
            self.drop_file(piece, parts, known, piece.len);
            return Ok(());
        }
        self.add(&file, piece, parts, value)
    }

    /// Compares a part that an earlier copy may have left with the sender's, and says what came of it.
    fn compare(&mut self, piece: &FilePiece) -> Result<(), TransferError> {
        let file = self.receiving.open_file(self.context, piece)?;
        lock(&self.context.board.notes).current = Some((piece.source, piece.path.clone()));
        let span = piece.span();
        let draft = lock(&file.parts).draft.clone();
        let value = draft.and_then(|draft| draft.value_of(span));
        let (verdict, sent) = self.verdict_and_checksum()?;
        let mut parts = lock(&file.parts);
        let known = parts.arrivals.given_up();
        let given_up = known || verdict.given_up.is_some();
        let value = value.filter(|value| !given_up && sent == Some(*value));
        parts.arrivals.compared(piece, verdict, value.is_some())?;
        let same = value.is_some();
        let outcome = match value {
            Some(value) => {
                self.context.board.add_resumed(piece.len);
                self.add(&file, piece, parts, value)
            }
            None if given_up => {
                self.drop_file(piece, parts, known, 0);
                Ok(())
            }
            None => Ok(()),
        };
        self.context.control.say(Message::Checked(Checked {
            file: piece.file,
            span,
            same,
        }));
        outcome
    }

    /// Drops a file that its sender has given up; `again` is what of it was counted since that was known.
    fn drop_file(
        &self,
        piece: &FilePiece,
        mut parts: MutexGuard<'_, Parts>,
        known: bool,
        again_bytes: u64,
    ) {
        if let Some(draft) = parts.draft.take() {
            draft.discard();
        }
        let arrivals = &parts.arrivals;
        if !known {
            let found = arrivals.found().bytes;
            self.context.board.take_back_resumed(found);
        }
        let come = arrivals.come().bytes;
        self.give_up(arrivals, if known { again_bytes } else { come });
        if arrivals.ended() {
            lock(&self.receiving.open).remove(&piece.file);
        }
    }

    /// Adds a part that is written and verified to its file, which is handed on when that was the last.
    fn add(
        &self,
        file: &OpenFile,
        piece: &FilePiece,
        mut parts: MutexGuard<'_, Parts>,
        value: ChainingValue,
    ) -> Result<(), TransferError> {
        let added = parts.assembly.add(piece.offset, piece.len, value);
        let digest = added.map_err(|_| PieceError::Malformed)?;
        let Some(digest) = digest else {
            if let Some(draft) = &parts.draft
                && let Some(Span { offset, len }) = draft.note(piece.span())
            {
                self.receiving.behind.begin(draft, offset, len)?;
            }
            return Ok(());
        };
        let Some(draft) = parts.draft.take() else {
            return Ok(());
        };
        lock(&self.receiving.resumed).add(&parts.arrivals.found());
        drop(parts);
        lock(&self.receiving.open).remove(&piece.file);
        self.complete(draft, file.first.clone(), *digest.as_bytes())
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

    /// Hands `len` bytes of payload to `take` with their offset in it. The checksum behind them says
    /// whether they are what the sender read.
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

    fn verdict_and_checksum(&mut self) -> Result<(Verdict, Option<Checksum>), TransferError> {
        let mut bytes = [0; Verdict::BYTES];
        self.stream.take(&mut bytes)?;
        let verdict = Verdict::decode(bytes);
        if verdict.given_up.is_some() {
            return Ok((verdict, None));
        }
        let mut sent = Checksum::default();
        self.stream.take(&mut sent)?;
        Ok((verdict, Some(sent)))
    }

    /// Counts no longer what has come of a file that is given up.
    fn give_up(&self, arrivals: &Arrivals, counted_bytes: u64) {
        self.context.board.take_back_bytes(counted_bytes);
        if arrivals.ended() {
            lock(&self.receiving.given_up).add(&arrivals.come());
        }
    }

    /// Has the user know what of a file could not be kept.
    fn not_kept(&self, why: NotKept) {
        why.into_iter().for_each(|why| self.context.leave_out(why));
    }

    /// Hands a file on of which nothing is missing; it is named when it is on stable storage.
    pub(super) fn complete(
        &self,
        draft: Arc<Draft>,
        piece: FilePiece,
        blake3: Checksum,
    ) -> Result<(), TransferError> {
        let metadata = self.receiving.placement.metadata();
        self.not_kept(draft.complete(&piece.attributes, metadata)?);
        let file = Complete {
            draft,
            piece,
            blake3,
        };
        let stop = || self.context.abort.stopping();
        self.receiving.committer.hand_over(file, stop)
    }
}
