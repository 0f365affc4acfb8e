//! How a file is received: as a whole, in parts that come in any order, or by comparison with what is here. If the
//! sender gives the file up, it is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use blake3::hazmat::{ChainingValue, HasherExt};
use howdah_wire::limits::MAX_OPEN_FILES;
use howdah_wire::{
    Arrivals, Checked, Checksum, Doing, FilePiece, Message, PieceError, Span, Totals, Verdict,
};

use crate::end::abort::lock;
use crate::end::context::Context;
use crate::end::spent;
use crate::error::TransferError;
use crate::streams::receive::{Receiver, hash, not_kept};
use crate::tree::assembly::Assembly;
use crate::tree::commit::Complete;
use crate::tree::draft::Draft;
use crate::tree::handover::is_asked_for;
use crate::tree::place::Placement;
use crate::tree::zeros;

/// Files of which some pieces have arrived, by their number.
#[derive(Default)]
pub(super) struct OpenFiles {
    files: Mutex<HashMap<u64, Arc<OpenFile>>>,
}

struct OpenFile {
    first: FilePiece,
    /// Its whole path, for messages.
    display: Vec<u8>,
    parts: Mutex<Parts>,
}

/// What has arrived of a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Come {
    /// Its bytes.
    Payload,
    /// The word that it is a hole.
    Hole,
}

/// What there is of an [`OpenFile`].
struct Parts {
    /// Absent once the file is given up, and where it is left out for what is in its way.
    draft: Option<Arc<Draft>>,
    arrivals: Arrivals,
    assembly: Assembly,
}

impl OpenFiles {
    /// The whole path of one of them.
    pub(super) fn any(&self) -> Option<Vec<u8>> {
        let files = lock(&self.files);
        files.values().next().map(|file| file.display.clone())
    }

    /// Whether another copy asks for one of them.
    pub(super) fn are_asked_for(&self) -> bool {
        let files: Vec<_> = lock(&self.files).values().cloned().collect();
        files.iter().any(|file| {
            let parts = lock(&file.parts);
            let draft = parts.draft.as_ref();
            draft.is_some_and(|draft| is_asked_for(draft.descriptor()))
        })
    }

    /// Drops what is incomplete.
    pub(super) fn clear(&self) {
        lock(&self.files).clear();
    }

    fn remove(&self, file: u64) {
        lock(&self.files).remove(&file);
    }

    /// The file of a piece, which is opened with the first that comes.
    fn of(
        &self,
        placement: &Placement,
        context: &Arc<Context>,
        piece: &FilePiece,
    ) -> Result<Arc<OpenFile>, TransferError> {
        let mut open = lock(&self.files);
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
        let began = placement.draft_in_parts(
            piece.source,
            &piece.path,
            piece.size,
            piece.attributes.mtime_ns,
        );
        let (draft, why) = match began {
            Err(TransferError::InTheWay(why) | TransferError::Refused(why)) => {
                context.leave_out_once(why);
                (None, None)
            }
            other => other.map(|(draft, why)| (Some(Arc::new(draft)), why))?,
        };
        let display = draft.as_ref().map(|draft| draft.display().to_vec());
        let file = Arc::new(OpenFile {
            first: piece.clone(),
            display: display.unwrap_or_else(|| piece.path.as_bytes().to_vec()),
            parts: Mutex::new(Parts {
                draft: draft.clone(),
                arrivals: Arrivals::new(piece.size),
                assembly: Assembly::new(piece.size),
            }),
        });
        open.insert(piece.file, Arc::clone(&file));
        drop(open);
        if let Some(why) = why {
            context.warn(why);
        }
        if let Some(draft) = draft
            && draft.wants_pages(piece.size)
        {
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

impl Receiver<'_> {
    pub(super) fn receive_whole(
        &mut self,
        piece: FilePiece,
        come: Come,
    ) -> Result<(), TransferError> {
        let opening = spent::doing(Doing::Opening);
        let placement = &self.receiving.placement;
        let began = placement.draft(piece.source, &piece.path, piece.size, &piece.attributes);
        let draft = match began {
            Err(TransferError::InTheWay(why) | TransferError::Refused(why)) => {
                self.context.leave_out_once(why);
                None
            }
            other => Some(Arc::new(other?)),
        };
        drop(opening);
        let mut hasher = blake3::Hasher::new();
        self.content(&piece, come, draft.as_ref(), &mut hasher)?;
        let blake3 = *hasher.finalize().as_bytes();
        let verdict = self.verdict(blake3)?;
        let mut arrivals = Arrivals::new(piece.size);
        self.arrived(&mut arrivals, &piece, come, verdict)?;
        if arrivals.given_up() {
            self.give_up(&arrivals, &arrivals.come());
            return Ok(());
        }
        match draft {
            Some(draft) => self.complete(draft, piece, blake3),
            None => {
                self.receiving.not_placed(self.context, piece, blake3);
                Ok(())
            }
        }
    }

    /// Takes the payload of a piece, or has zeros in its place.
    fn content(
        &mut self,
        piece: &FilePiece,
        come: Come,
        draft: Option<&Arc<Draft>>,
        hasher: &mut blake3::Hasher,
    ) -> Result<(), TransferError> {
        let has_written = match (come, draft) {
            (Come::Payload, _) => {
                self.payload(piece.len, |parts, offset| {
                    hash(hasher, parts);
                    match draft {
                        Some(draft) => draft.write_at(parts, piece.offset + offset),
                        None => Ok(()),
                    }
                })?;
                true
            }
            (Come::Hole, draft) => {
                let cleared = draft.map(|draft| draft.clear(piece.span()));
                zeros::hash(hasher, piece.len);
                cleared.transpose()?.unwrap_or(false)
            }
        };
        if let (true, false, Some(draft)) = (has_written, piece.is_whole(), draft) {
            let _flush = spent::doing(Doing::Flush);
            let behind = &self.receiving.behind;
            behind.written(draft, piece.offset, piece.len)?;
        }
        Ok(())
    }

    /// Adds a piece to what has come of its file.
    fn arrived(
        &self,
        arrivals: &mut Arrivals,
        piece: &FilePiece,
        come: Come,
        verdict: Verdict,
    ) -> Result<(), TransferError> {
        match come {
            Come::Payload => arrivals.add(piece, verdict)?,
            Come::Hole => {
                arrivals.add_hole(piece, verdict)?;
                self.context.board.add_holes(piece.len);
            }
        }
        Ok(())
    }

    pub(super) fn receive_part(
        &mut self,
        piece: &FilePiece,
        come: Come,
    ) -> Result<(), TransferError> {
        let file = self.open_file(piece)?;
        let draft = lock(&file.parts).draft.clone();
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(piece.offset);
        self.content(piece, come, draft.as_ref(), &mut hasher)?;
        drop(draft);
        let value = hasher.finalize_non_root();
        let verdict = self.verdict(value)?;
        let mut parts = lock(&file.parts);
        let known = parts.arrivals.given_up();
        self.arrived(&mut parts.arrivals, piece, come, verdict)?;
        if parts.arrivals.given_up() {
            let again = match come {
                Come::Payload => piece.totals(),
                Come::Hole => piece.hole_totals(),
            };
            self.drop_file(piece, parts, known, &again);
            return Ok(());
        }
        self.add(&file, piece, parts, value)
    }

    /// Compares a part that an earlier copy may have left with the sender's, and reports the result.
    pub(super) fn compare(&mut self, piece: &FilePiece) -> Result<(), TransferError> {
        let file = self.open_file(piece)?;
        let span = piece.span();
        let draft = lock(&file.parts).draft.clone();
        let reading = spent::doing(Doing::Disk);
        let value = draft.and_then(|draft| draft.value_of(span));
        drop(reading);
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
                self.drop_file(piece, parts, known, &Totals::default());
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

    fn open_file(&self, piece: &FilePiece) -> Result<Arc<OpenFile>, TransferError> {
        let receiving = self.receiving;
        let _opening = spent::doing(Doing::Opening);
        let file = receiving
            .open
            .of(&receiving.placement, self.context, piece)?;
        lock(&self.context.board.notes).current = Some((piece.source, piece.path.clone()));
        Ok(file)
    }

    /// Drops a file that its sender has given up; `again` is what of it was counted since that was known.
    fn drop_file(
        &self,
        piece: &FilePiece,
        mut parts: MutexGuard<'_, Parts>,
        known: bool,
        again: &Totals,
    ) {
        if let Some(draft) = parts.draft.take() {
            draft.discard();
        }
        let arrivals = &parts.arrivals;
        if !known {
            let found = arrivals.found().bytes;
            self.context.board.take_back_resumed(found);
        }
        let come = arrivals.come();
        self.give_up(arrivals, if known { again } else { &come });
        if arrivals.ended() {
            self.receiving.open.remove(piece.file);
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
            drop(parts);
            self.receiving.open.remove(piece.file);
            let first = file.first.clone();
            self.receiving
                .not_placed(self.context, first, *digest.as_bytes());
            return Ok(());
        };
        lock(&self.receiving.resumed).add(&parts.arrivals.found());
        drop(parts);
        self.receiving.open.remove(piece.file);
        self.complete(draft, file.first.clone(), *digest.as_bytes())
    }

    /// Counts no longer what has come of a file that is given up.
    fn give_up(&self, arrivals: &Arrivals, counted: &Totals) {
        self.context.board.take_back_bytes(counted.bytes);
        self.context.board.take_back_holes(counted.hole_bytes);
        if arrivals.ended() {
            lock(&self.receiving.given_up).add(&arrivals.come());
        }
    }

    /// Passes a complete file on. It gets its name when it is on stable storage.
    pub(super) fn complete(
        &self,
        draft: Arc<Draft>,
        mut piece: FilePiece,
        blake3: Checksum,
    ) -> Result<(), TransferError> {
        let metadata = self.receiving.placement.metadata();
        let stay = spent::doing(Doing::Opening);
        not_kept(self.context, draft.complete(&piece.attributes, metadata)?);
        // It has them, and thousands of files may wait.
        piece.attributes.xattrs = None;
        let file = Complete {
            draft,
            piece,
            blake3,
        };
        let stop = || self.context.abort.stopping();
        stay.then(Doing::Naming);
        self.receiving.committer.hand_over(file, stop)
    }
}
