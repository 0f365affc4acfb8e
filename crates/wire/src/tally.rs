//! Counts of what passed through data streams, and their check against the counts at a stream's end.

use std::iter::Sum;

use serde::{Deserialize, Serialize};

use crate::piece::{Piece, PieceError};

/// What passed through a stream, or through all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Payload in bytes.
    pub bytes: u64,
    /// Holes in bytes. Their zeros are not sent.
    pub hole_bytes: u64,
    /// Regular files. Each is counted on the stream that carries its first byte.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Symbolic links, and names of files beside their first.
    pub links: u64,
    /// Devices, FIFOs and sockets.
    pub special_files: u64,
}

impl<'a> Sum<&'a Totals> for Totals {
    fn sum<I: Iterator<Item = &'a Totals>>(each: I) -> Self {
        each.fold(Self::default(), |mut sum, totals| {
            sum.add(totals);
            sum
        })
    }
}

impl Totals {
    /// Adds the counts of another stream. A sum that would overflow becomes the largest number.
    pub fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.hole_bytes = self.hole_bytes.saturating_add(other.hole_bytes);
        self.files = self.files.saturating_add(other.files);
        self.folders = self.folders.saturating_add(other.folders);
        self.links = self.links.saturating_add(other.links);
        self.special_files = self.special_files.saturating_add(other.special_files);
    }

    /// Subtracts counts that are part of these.
    pub fn take_away(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.hole_bytes = self.hole_bytes.saturating_sub(other.hole_bytes);
        self.files = self.files.saturating_sub(other.files);
        self.folders = self.folders.saturating_sub(other.folders);
        self.links = self.links.saturating_sub(other.links);
        self.special_files = self.special_files.saturating_sub(other.special_files);
    }

    /// Adds one piece.
    pub fn count(&mut self, piece: &Piece) {
        let one = match piece {
            Piece::File(file) => file.totals(),
            Piece::Hole(file) => file.hole_totals(),
            Piece::Piped(piped) => piped.totals(),
            Piece::Memory { len } => Self {
                bytes: *len,
                ..Self::default()
            },
            Piece::Folder { .. } => Self {
                folders: 1,
                ..Self::default()
            },
            Piece::Link { .. } | Piece::HardLink { .. } => Self {
                links: 1,
                ..Self::default()
            },
            Piece::Special { .. } => Self {
                special_files: 1,
                ..Self::default()
            },
            Piece::End(_) | Piece::There(_) | Piece::Attributes { .. } | Piece::Sealed { .. } => {
                Self::default()
            }
        };
        self.add(&one);
    }
}

/// The counts of one receiving stream. It checks that nothing follows the end, and that the end has the same counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamTally {
    totals: Totals,
    ended: bool,
}

impl StreamTally {
    /// Counts the next piece.
    ///
    /// # Errors
    /// [`PieceError::Tally`] when the stream has ended before, or when this is its end and has other counts.
    pub fn accept(&mut self, piece: &Piece) -> Result<(), PieceError> {
        if self.ended {
            return Err(PieceError::Tally);
        }
        if let Piece::End(totals) = piece {
            self.ended = true;
            return if *totals == self.totals {
                Ok(())
            } else {
                Err(PieceError::Tally)
            };
        }
        self.totals.count(piece);
        Ok(())
    }

    /// What has arrived so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether the stream has ended as it should.
    pub fn ended(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::TreePath;
    use crate::piece::{Attributes, FilePiece};

    #[test]
    fn the_end_must_tally_and_be_last() {
        let totals = Totals {
            bytes: 10,
            files: 1,
            ..Totals::default()
        };
        let file = Piece::File(FilePiece {
            file: 7,
            source: 0,
            path: TreePath::default(),
            attributes: Attributes {
                mode: 0o644,
                mtime_ns: -1,
                owner: None,
                xattrs: None,
            },
            size: 10,
            offset: 0,
            len: 10,
        });
        let mut tally = StreamTally::default();
        tally.accept(&file).unwrap();
        assert!(!tally.ended());
        tally.accept(&Piece::End(totals)).unwrap();
        assert!(tally.ended());
        assert_eq!(tally.accept(&file), Err(PieceError::Tally));
        let wrong = Piece::End(Totals {
            bytes: 11,
            ..totals
        });
        assert_eq!(
            StreamTally::default().accept(&wrong),
            Err(PieceError::Tally)
        );
    }
}
