//! How data from a pipe is sent, from the blocks that are kept of it.

use std::sync::Arc;

use howdah_wire::{Piece, PieceError, TreePath};

use crate::end::digests::Digest;
use crate::error::TransferError;
use crate::streams::kept::Sent;
use crate::streams::send::Sender;
use crate::tree::inlet::PipedBlock;

impl Sender<'_> {
    /// Sends a block for the first time. After the last block it sends the end of the pipe, with the digest of all
    /// blocks.
    pub(super) fn send_piped(&mut self, block: Arc<PipedBlock>) -> Result<(), TransferError> {
        let inlet = self.sending.sources.inlet().ok_or(PieceError::Malformed)?;
        let seal = inlet.add(&block)?;
        // Both are kept before one of them leaves: a connection that breaks in between sends both again.
        self.kept.keep(Sent::Piped(Arc::clone(&block)));
        if let Some(seal) = &seal {
            self.kept.keep(Sent::Header(seal.clone()));
        }
        self.put_piped(&block)?;
        match seal {
            Some(seal) => self.put(&seal),
            None => Ok(()),
        }
    }

    /// Sends a block.
    pub(super) fn put_piped(&mut self, block: &PipedBlock) -> Result<(), TransferError> {
        self.put(&Piece::Piped(block.piece()))?;
        // The payload begins a record, so that the receiver hashes and writes aligned chunks.
        self.stream.send(block.bytes())?;
        Ok(self.stream.put(&block.checksum())?)
    }
}

/// The digest of everything that was read from a pipe, at its end.
pub(super) fn digest_of(sealed: &Piece) -> Option<Digest> {
    match sealed {
        Piece::Sealed { blake3, .. } => Some(Digest {
            source: 0,
            path: TreePath::default(),
            blake3: *blake3,
        }),
        _ => None,
    }
}
