//! A file whose content comes from a pipe at the other end, so that its size is known last. It gets its name when the
//! end of the pipe has come, and everything is as the sender has read it.

use std::sync::{Arc, Mutex};

use howdah_wire::{Attributes, Checksum, FilePiece, PieceError, PipedPiece, TreePath};

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::tree::assembly::Assembly;
use crate::tree::commit::Complete;
use crate::tree::draft::Draft;

/// Most subtrees that are kept of it: far more than a sender can have on the way.
const MAX_KEPT: usize = 2048;

/// The file of one job.
#[derive(Debug)]
pub struct PipedFile(Mutex<State>);

#[derive(Debug)]
struct State {
    draft: Option<Arc<Draft>>,
    assembly: Assembly,
    /// Size and digest of what has come, once that is all.
    come: Option<(u64, Checksum)>,
    seal: Option<Seal>,
    complete: bool,
}

#[derive(Debug)]
struct Seal {
    size: u64,
    blake3: Checksum,
    attributes: Attributes,
}

impl Default for PipedFile {
    fn default() -> Self {
        Self(Mutex::new(State {
            draft: None,
            assembly: Assembly::of_unknown_size(),
            come: None,
            seal: None,
            complete: false,
        }))
    }
}

impl PipedFile {
    /// The draft into which it is written. `make` makes it for the first part.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn draft(
        &self,
        make: impl FnOnce() -> Result<Draft, TransferError>,
    ) -> Result<Arc<Draft>, TransferError> {
        let mut state = lock(&self.0);
        if let Some(draft) = &state.draft {
            return Ok(Arc::clone(draft));
        }
        let draft = Arc::new(make()?);
        state.draft = Some(Arc::clone(&draft));
        Ok(draft)
    }

    /// Adds a part that is written and verified. Returns the file if no part is missing.
    ///
    /// # Errors
    /// When the part has come before, and those of [`Self::seal`].
    pub fn add(
        &self,
        piece: &PipedPiece,
        value: Checksum,
    ) -> Result<Option<Complete>, TransferError> {
        let mut state = lock(&self.0);
        let PipedPiece { offset, len, last } = *piece;
        if state.come.is_some() {
            return Err(PieceError::Malformed.into());
        }
        state.come = match (piece.is_whole(), last) {
            (true, _) if state.assembly.received() == 0 => Some((len, value)),
            (true, _) => return Err(PieceError::Malformed.into()),
            (false, last) => {
                let added = match last {
                    true => state.assembly.add_last(offset, len, value),
                    false => state.assembly.add(offset, len, value),
                };
                let digest = added.map_err(|_| PieceError::Malformed)?;
                digest.map(|digest| (state.assembly.received(), digest.into()))
            }
        };
        if state.assembly.kept() > MAX_KEPT {
            return Err(TransferError::Here(
                "the other end broke the protocol: too much of its pipe is missing".to_owned(),
            ));
        }
        state.completed()
    }

    /// Notes the sender's size and digest of the whole. Returns the file if no part is missing.
    ///
    /// # Errors
    /// When they came before, or do not match what has arrived.
    pub fn seal(
        &self,
        size: u64,
        blake3: Checksum,
        attributes: Attributes,
    ) -> Result<Option<Complete>, TransferError> {
        let mut state = lock(&self.0);
        if state.seal.is_some() {
            return Err(PieceError::Malformed.into());
        }
        state.seal = Some(Seal {
            size,
            blake3,
            attributes,
        });
        state.completed()
    }

    /// Whether everything has arrived, with size and digest.
    pub fn is_complete(&self) -> bool {
        lock(&self.0).complete
    }

    /// Drops what has come.
    pub fn discard(&self) {
        lock(&self.0).draft = None;
    }
}

impl State {
    fn completed(&mut self) -> Result<Option<Complete>, TransferError> {
        let (Some(come), Some(seal)) = (self.come, &self.seal) else {
            return Ok(None);
        };
        if come != (seal.size, seal.blake3) {
            return Err(TransferError::Here(
                "the digests of the two ends differ: what has arrived is not what the pipe gave; \
                 nothing is under its name"
                    .to_owned(),
            ));
        }
        let Some(draft) = self.draft.take() else {
            return Ok(None);
        };
        self.complete = true;
        let piece = FilePiece {
            file: 0,
            source: 0,
            path: TreePath::default(),
            attributes: seal.attributes.clone(),
            size: seal.size,
            offset: 0,
            len: seal.size,
        };
        Ok(Some(Complete {
            draft,
            piece,
            blake3: seal.blake3,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_wire::limits::MIN_BLOCK_BYTES;

    #[test]
    fn a_pipe_of_which_every_other_part_is_missing_takes_no_memory_for_ever() {
        let file = PipedFile::default();
        let add = |number: u64| {
            let piece = PipedPiece {
                offset: 2 * number * MIN_BLOCK_BYTES,
                len: MIN_BLOCK_BYTES,
                last: false,
            };
            file.add(&piece, Checksum::default())
        };
        for number in 0..MAX_KEPT as u64 {
            assert!(add(number).unwrap().is_none());
        }
        let refused = add(MAX_KEPT as u64).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("too much of its pipe is missing")
        );
    }
}
