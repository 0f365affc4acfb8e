//! Whether a file that is sent in pieces is complete: it is once all pieces have arrived, unless the sender gives it
//! up.
//!
//! A sender gives a file up if it cannot read it to its end. By then parts of it have been sent, and others may be on
//! their way on other streams. The sender begins no more pieces of it, and fills up the pieces that it has begun with
//! zeros. Behind each of these it says how much of the file has begun to be sent. So the receiver knows when the last
//! piece of a file that it drops has arrived, and need not remember which files were dropped.

use std::num::NonZeroU64;

use crate::piece::{FilePiece, PieceError};
use crate::tally::Totals;

/// Whether the sender gives the file up. It follows the payload of a [`FilePiece`], before the checksum. If the file
/// is given up, no checksum follows. After a [`crate::Piece::There`] or a [`crate::Piece::Hole`] it follows the
/// header at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    /// If the file is given up: how many bytes of it have begun to be sent or compared, on any stream. The part of
    /// the piece that could not be read is filled up with zeros.
    pub given_up: Option<NonZeroU64>,
}

impl Verdict {
    /// Length on the wire, in bytes: a number, and its complement for a check.
    pub const BYTES: usize = 16;

    /// The verdict as bytes.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let given_up = u128::from(self.given_up.map_or(0, NonZeroU64::get));
        ((!given_up << u64::BITS) | given_up).to_le_bytes()
    }

    /// Reads a verdict from `bytes`.
    ///
    /// # Errors
    /// [`PieceError::Damaged`] when they were changed on their way.
    pub fn decode(bytes: [u8; Self::BYTES]) -> Result<Self, PieceError> {
        let number = u128::from_le_bytes(bytes) as u64;
        let verdict = Self {
            given_up: NonZeroU64::new(number),
        };
        match verdict.encode() == bytes {
            true => Ok(verdict),
            false => Err(PieceError::Damaged),
        }
    }
}

/// How much of one file has arrived.
#[derive(Debug)]
pub struct Arrivals {
    size: u64,
    come: Totals,
    found: Totals,
    /// Bytes that were compared and differ. They are sent in addition.
    differed: u64,
    given_up: Option<NonZeroU64>,
}

impl Arrivals {
    /// A file of `size` bytes of which nothing has arrived.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            come: Totals::default(),
            found: Totals::default(),
            differed: 0,
            given_up: None,
        }
    }

    /// Adds a piece whose payload has arrived.
    ///
    /// # Errors
    /// [`PieceError::Tally`] when more arrives than the file has, or two verdicts contradict each other.
    pub fn add(&mut self, piece: &FilePiece, verdict: Verdict) -> Result<(), PieceError> {
        self.judge(piece, verdict, self.differed)?;
        self.come.add(&piece.totals());
        Ok(())
    }

    /// Adds a piece that is a hole.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_hole(&mut self, piece: &FilePiece, verdict: Verdict) -> Result<(), PieceError> {
        self.judge(piece, verdict, self.differed)?;
        self.come.add(&piece.hole_totals());
        Ok(())
    }

    /// Adds a piece that was compared with the receiver's part, and whether both are the same.
    ///
    /// # Errors
    /// As [`Self::add`], and when more differs than was compared.
    pub fn compared(
        &mut self,
        piece: &FilePiece,
        verdict: Verdict,
        same: bool,
    ) -> Result<(), PieceError> {
        let more = if same { 0 } else { piece.len };
        let differed = self.differed.checked_add(more);
        let differed = differed.filter(|differed| *differed <= self.size);
        let differed = differed.ok_or(PieceError::Tally)?;
        self.judge(piece, verdict, differed)?;
        self.differed = differed;
        if same {
            self.found.add(&piece.totals());
        }
        Ok(())
    }

    /// Takes what follows a piece, unless that cannot be.
    fn judge(
        &mut self,
        piece: &FilePiece,
        verdict: Verdict,
        differed: u64,
    ) -> Result<(), PieceError> {
        let known = self.given_up.or(verdict.given_up);
        let all = self.size.saturating_add(differed);
        let begun = known.map_or(all, NonZeroU64::get);
        let contradicts = verdict.given_up.is_some() && verdict.given_up != known;
        let ended = self.count().checked_add(piece.len);
        if contradicts || begun > all || ended.is_none_or(|ended| ended > begun) {
            return Err(PieceError::Tally);
        }
        self.given_up = known;
        Ok(())
    }

    /// Bytes that have arrived or were compared.
    fn count(&self) -> u64 {
        let Self { come, found, .. } = self;
        let come = come.bytes.saturating_add(come.hole_bytes);
        let count = come.saturating_add(found.bytes);
        count.saturating_add(self.differed)
    }

    /// Whether the sender has given the file up.
    pub fn given_up(&self) -> bool {
        self.given_up.is_some()
    }

    /// Whether no more of the file will arrive.
    pub fn ended(&self) -> bool {
        let all = self.size.saturating_add(self.differed);
        self.count() == self.given_up.map_or(all, NonZeroU64::get)
    }

    /// What has arrived.
    pub fn come(&self) -> Totals {
        self.come
    }

    /// What the receiver already had, and is the same.
    pub fn found(&self) -> Totals {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MIN_BLOCK_BYTES;
    use crate::path::TreePath;
    use crate::piece::Attributes;
    use proptest::prelude::*;

    fn piece(size: u64, offset: u64, len: u64) -> FilePiece {
        FilePiece {
            file: 1,
            source: 0,
            path: TreePath::default(),
            attributes: Attributes {
                mode: 0o600,
                mtime_ns: 0,
                owner: None,
                xattrs: None,
            },
            size,
            offset,
            len,
        }
    }

    fn given_up(begun_bytes: u64) -> Verdict {
        Verdict {
            given_up: NonZeroU64::new(begun_bytes),
        }
    }

    #[test]
    fn contradictions_are_refused_and_change_nothing() {
        let first = piece(10, 0, 4);
        for wrong in [given_up(3), given_up(11), given_up(u64::MAX)] {
            let mut arrivals = Arrivals::new(10);
            assert_eq!(arrivals.add(&first, wrong), Err(PieceError::Tally));
            assert!(!arrivals.given_up() && arrivals.come() == Totals::default());
        }
        let mut arrivals = Arrivals::new(10);
        arrivals.add(&first, given_up(8)).unwrap();
        let second = piece(10, 4, 4);
        assert_eq!(arrivals.add(&second, given_up(9)), Err(PieceError::Tally));
        assert!(!arrivals.ended());
        arrivals.add(&second, Verdict::default()).unwrap();
        assert!(arrivals.ended() && arrivals.given_up());
        let third = piece(10, 8, 2);
        assert_eq!(
            arrivals.add(&third, Verdict::default()),
            Err(PieceError::Tally)
        );
    }

    #[test]
    fn an_empty_file_is_whole_at_once_and_cannot_be_given_up() {
        let empty = piece(0, 0, 0);
        let mut arrivals = Arrivals::new(0);
        assert_eq!(arrivals.add(&empty, given_up(1)), Err(PieceError::Tally));
        arrivals.add(&empty, Verdict::default()).unwrap();
        assert!(arrivals.ended() && arrivals.come().files == 1);
    }

    #[test]
    fn what_differs_comes_on_top_once() {
        let (first, second) = (piece(10, 0, 4), piece(10, 4, 6));
        let mut arrivals = Arrivals::new(10);
        arrivals
            .compared(&first, Verdict::default(), false)
            .unwrap();
        arrivals
            .compared(&second, Verdict::default(), true)
            .unwrap();
        assert!(!arrivals.ended());
        let more = arrivals.compared(&second, Verdict::default(), true);
        assert_eq!(more, Err(PieceError::Tally));
        let never_ending = arrivals.compared(&piece(10, 0, 7), Verdict::default(), false);
        assert_eq!(never_ending, Err(PieceError::Tally));
        arrivals.add(&first, Verdict::default()).unwrap();
        assert!(arrivals.ended() && !arrivals.given_up());
        assert_eq!((arrivals.come().bytes, arrivals.come().files), (4, 1));
        assert_eq!((arrivals.found().bytes, arrivals.found().files), (6, 0));
    }

    #[test]
    fn holes_come_as_payload_does_and_are_counted_apart() {
        let (first, second) = (piece(10, 0, 4), piece(10, 4, 6));
        let mut arrivals = Arrivals::new(10);
        arrivals.add_hole(&first, Verdict::default()).unwrap();
        let more = arrivals.add_hole(&piece(10, 0, 7), Verdict::default());
        assert_eq!(more, Err(PieceError::Tally));
        assert!(!arrivals.ended());
        arrivals.add(&second, Verdict::default()).unwrap();
        assert!(arrivals.ended() && !arrivals.given_up());
        let come = arrivals.come();
        assert_eq!((come.bytes, come.hole_bytes, come.files), (6, 4, 1));
        let mut arrivals = Arrivals::new(10);
        arrivals.add_hole(&first, given_up(10)).unwrap();
        assert!(!arrivals.ended());
        arrivals.add_hole(&second, Verdict::default()).unwrap();
        assert!(arrivals.ended() && arrivals.given_up());
    }

    #[test]
    fn a_file_given_up_ends_with_the_last_that_was_compared() {
        let (first, second) = (piece(10, 0, 4), piece(10, 4, 4));
        let mut arrivals = Arrivals::new(10);
        arrivals
            .compared(&first, Verdict::default(), false)
            .unwrap();
        // The first part was sent, because it differed, and with the second that makes 12.
        arrivals.add(&first, given_up(12)).unwrap();
        assert!(!arrivals.ended());
        arrivals
            .compared(&second, Verdict::default(), false)
            .unwrap();
        assert!(arrivals.ended() && arrivals.given_up());
        let mut arrivals = Arrivals::new(10);
        let more = arrivals.compared(&first, given_up(15), false);
        assert_eq!(more, Err(PieceError::Tally));
    }

    proptest! {
        #[test]
        fn a_verdict_survives_the_wire(begun_bytes: u64) {
            let verdict = given_up(begun_bytes);
            prop_assert_eq!(Verdict::decode(verdict.encode()), Ok(verdict));
        }

        #[test]
        fn a_flipped_bit_is_noticed(begun_bytes: u64, bit in 0..8 * Verdict::BYTES) {
            let mut bytes = given_up(begun_bytes).encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Verdict::decode(bytes), Err(PieceError::Damaged));
        }

        /// Pieces begin in order; some cannot be read; they come in any order. The receiver knows
        /// with the last one, and not before, that no more comes, and what had come.
        #[test]
        fn the_last_piece_is_known_in_any_order(
            pieces in 1u64..12,
            failing in prop::collection::btree_set(0u64..16, 0..3),
            beyond in 0u64..4,
            order in Just((0u64..12).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let size = pieces * MIN_BLOCK_BYTES;
            let failing: Vec<u64> = failing.into_iter().filter(|at| *at < pieces).collect();
            // Others had begun when the last one failed, those behind it had not.
            let begun = failing.last().map_or(pieces, |last| (last + 1 + beyond).min(pieces));
            let mut arrivals = Arrivals::new(size);
            let mut come = 0;
            for at in order.into_iter().filter(|at| *at < begun) {
                prop_assert!(!arrivals.ended());
                let verdict = if failing.contains(&at) {
                    given_up(begun * MIN_BLOCK_BYTES)
                } else {
                    Verdict::default()
                };
                arrivals.add(&piece(size, at * MIN_BLOCK_BYTES, MIN_BLOCK_BYTES), verdict).unwrap();
                come += 1;
                prop_assert_eq!(arrivals.come().bytes, come * MIN_BLOCK_BYTES);
            }
            prop_assert!(arrivals.ended());
            prop_assert_eq!(arrivals.given_up(), !failing.is_empty());
            prop_assert_eq!(arrivals.come().files, 1);
        }
    }
}
