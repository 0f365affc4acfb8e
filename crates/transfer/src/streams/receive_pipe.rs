//! How data is received if one end has a pipe: from the sender's pipe into a file, or from a file into the receiver's
//! pipe.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use blake3::hazmat::HasherExt;
use howdah_wire::limits::MAX_PIPED_BYTES;
use howdah_wire::{Arrivals, Checksum, Doing, FilePiece, Piece, PieceError, PipedPiece, TreePath};

use crate::end::context::Context;
use crate::end::digests::Digest;
use crate::end::spent;
use crate::error::TransferError;
use crate::streams::receive::{Receiver, Receiving, hash, not_as_sent};
use crate::tree::commit::Complete;
use crate::tree::outlet::Outlet;
use crate::tree::piped_file::PipedFile;

/// The pipe that one end of a job has.
pub enum Pipe {
    /// The sender has a pipe. This is the file that it becomes.
    In(PipedFile),
    /// This end has one.
    Out(Arc<Outlet>),
}

impl Pipe {
    /// Notes that nothing more will arrive. Returns whether everything is done.
    ///
    /// # Errors
    /// When something is missing, or this end's pipe cannot be written to.
    pub(super) fn all_come(&self, context: &Context) -> Result<bool, TransferError> {
        match self {
            Self::Out(outlet) => {
                let blake3 = outlet.finish(|| context.abort.stopping())?;
                context.board.files.fetch_add(1, Ordering::Relaxed);
                context.note_digests([Digest {
                    source: 0,
                    path: TreePath::default(),
                    blake3,
                }]);
                Ok(true)
            }
            Self::In(file) if !file.is_complete() => Err(TransferError::Here(
                "the other end broke the protocol: the end of its pipe has not come".to_owned(),
            )),
            Self::In(_) => Ok(false),
        }
    }
}

impl Receiving {
    /// The same for a job with a pipe. If there is an outlet, the pipe is at this end.
    #[must_use]
    pub fn with_pipe(mut self, outlet: Option<Arc<Outlet>>) -> Self {
        let pipe = outlet.map_or_else(|| Pipe::In(PipedFile::default()), Pipe::Out);
        self.pipe = Some(pipe);
        self
    }
}

impl Receiver<'_> {
    /// Handles a piece of a job with a pipe.
    pub(super) fn take_of_pipe(&mut self, pipe: &Pipe, piece: Piece) -> Result<(), TransferError> {
        match (pipe, piece) {
            (_, Piece::End(_)) => Ok(()),
            (Pipe::Out(outlet), Piece::File(piece)) => self.pour(outlet, &piece),
            (Pipe::In(file), Piece::Piped(piece)) => self.receive_piped(file, &piece),
            (
                Pipe::In(file),
                Piece::Sealed {
                    size,
                    blake3,
                    attributes,
                },
            ) => {
                let sealed = file.seal(size, blake3, attributes)?;
                self.complete_piped(sealed)
            }
            _ => Err(PieceError::Malformed.into()),
        }
    }

    /// Writes a part of what the sender's pipe gives.
    fn receive_piped(&mut self, file: &PipedFile, piece: &PipedPiece) -> Result<(), TransferError> {
        let draft = file.draft(|| self.receiving.placement().draft_of_pipe())?;
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(piece.offset);
        self.payload(piece.len, |parts, offset| {
            hash(&mut hasher, parts);
            draft.write_at(parts, piece.offset + offset)
        })?;
        let behind = &self.receiving.behind;
        let flush = spent::doing(Doing::Flush);
        behind.written(&draft, piece.offset, piece.len)?;
        drop((draft, flush));
        let value = value_of(&hasher, piece.is_whole());
        let mut sent = Checksum::default();
        self.stream.take(&mut sent)?;
        if sent != value {
            return Err(not_as_sent());
        }
        let added = file.add(piece, value)?;
        self.complete_piped(added)
    }

    fn complete_piped(&self, file: Option<Complete>) -> Result<(), TransferError> {
        match file {
            Some(Complete {
                draft,
                piece,
                blake3,
            }) => self.complete(draft, piece, blake3),
            None => Ok(()),
        }
    }

    /// Hands a part of the sender's file on to the pipe, once it is verified.
    fn pour(&mut self, outlet: &Arc<Outlet>, piece: &FilePiece) -> Result<(), TransferError> {
        if piece.len > MAX_PIPED_BYTES {
            return Err(PieceError::Malformed.into());
        }
        let mut bytes = Vec::with_capacity(piece.len as usize);
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(piece.offset);
        self.payload(piece.len, |parts, _| {
            for part in parts.iter() {
                bytes.extend_from_slice(part);
            }
            Ok(())
        })?;
        hasher.update(&bytes);
        let value = value_of(&hasher, piece.is_whole());
        let verdict = self.verdict(value)?;
        Arrivals::new(piece.size).add(piece, verdict)?;
        if verdict.given_up.is_some() {
            return Err(TransferError::Here(
                "the far end could not read its file to the end; what has come out here is a part of it"
                    .to_owned(),
            ));
        }
        let stop = || self.context.abort.stopping();
        let _disk = spent::doing(Doing::Disk);
        outlet.take(piece, bytes, value, stop)
    }
}

fn value_of(hasher: &blake3::Hasher, whole: bool) -> Checksum {
    match whole {
        true => *hasher.finalize().as_bytes(),
        false => hasher.finalize_non_root(),
    }
}
