//! Cuts one file into parts: first those that the receiver lacks, to be sent, then those that it may have, to be
//! compared.

use std::collections::VecDeque;

use blake3::hazmat::left_subtree_len;
use howdah_wire::Span;
use howdah_wire::limits::MAX_PIECE_BYTES;

/// The rest of a file that is not cut yet.
#[derive(Debug)]
pub struct Slicing {
    lacking: VecDeque<Span>,
    there: VecDeque<Span>,
    size: u64,
    /// A part is no longer than this, in bytes.
    most: u64,
    /// A hole that lies before what is to be cut, as far as was seen.
    hole: Option<Span>,
}

impl Slicing {
    /// A whole file of `size` bytes, which is more than 1. The receiver may have the parts `there`, in order.
    pub fn new(size: u64, there: Vec<Span>) -> Self {
        // A file that is compared is never one piece alone, whose checksum would be of another kind.
        let most = if there.is_empty() {
            u64::MAX
        } else {
            left_subtree_len(size)
        };
        let mut lacking = VecDeque::new();
        let mut from = 0;
        let end = Span {
            offset: size,
            len: 0,
        };
        for span in there.iter().chain([&end]) {
            if span.offset > from {
                lacking.push_back(Span {
                    offset: from,
                    len: span.offset - from,
                });
            }
            from = span.offset + span.len;
        }
        Self {
            lacking,
            there: there.into(),
            size,
            most,
            hole: None,
        }
    }

    /// Notes that the source has a hole there. Its parts are as long as a piece may be, because a hole has no
    /// payload.
    pub fn note_hole(&mut self, hole: Span) {
        self.hole = Some(hole);
    }

    /// Whether the next part has to be compared.
    pub fn compares(&self) -> bool {
        self.lacking.is_empty()
    }

    /// Whether there is no part left.
    pub fn is_done(&self) -> bool {
        self.lacking.is_empty() && self.there.is_empty()
    }

    /// The next part, no longer than `limit`, a power of two, unless it is a hole: a subtree of the file's BLAKE3 tree.
    pub fn next(&mut self, limit: u64) -> Option<Span> {
        let spans = if self.compares() {
            &mut self.there
        } else {
            &mut self.lacking
        };
        let span = spans.front_mut()?;
        let aligned = match span.offset {
            0 => u64::MAX,
            offset => 1 << offset.trailing_zeros(),
        };
        let of_hole = self.hole.map_or(0, |Span { offset, len }| {
            let behind = (offset..offset + len).contains(&span.offset);
            match behind {
                true => (offset + len - span.offset).min(MAX_PIECE_BYTES),
                false => 0,
            }
        });
        let most = limit.max(of_hole).min(aligned).min(self.most);
        let len = match most.min(span.len) {
            // What is left of the file's last subtree.
            len if span.offset + len == self.size => len,
            len => 1 << len.ilog2(),
        };
        let next = Span {
            offset: span.offset,
            len,
        };
        span.offset += len;
        span.len -= len;
        if span.len == 0 {
            spans.pop_front();
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_wire::limits::MIN_BLOCK_BYTES;
    use proptest::prelude::*;

    const UNIT: u64 = MIN_BLOCK_BYTES;

    fn span(offset: u64, len: u64) -> Span {
        Span { offset, len }
    }

    #[test]
    fn what_lacks_comes_before_what_is_compared() {
        let size = 8 * UNIT + 1;
        let there = vec![span(UNIT, 3 * UNIT), span(8 * UNIT, 1)];
        let mut slicing = Slicing::new(size, there);
        let mut cut = Vec::new();
        while !slicing.is_done() {
            cut.push((slicing.compares(), slicing.next(4 * UNIT).unwrap()));
        }
        let expected = [
            (false, span(0, UNIT)),
            (false, span(4 * UNIT, 4 * UNIT)),
            (true, span(UNIT, UNIT)),
            (true, span(2 * UNIT, 2 * UNIT)),
            (true, span(8 * UNIT, 1)),
        ];
        assert_eq!(cut, expected);
        assert_eq!(slicing.next(UNIT), None);
    }

    #[test]
    fn a_file_of_which_all_is_there_is_more_than_one_part() {
        let mut slicing = Slicing::new(UNIT + 1, vec![span(0, UNIT + 1)]);
        assert_eq!(slicing.next(64 * UNIT), Some(span(0, UNIT)));
        assert_eq!(slicing.next(64 * UNIT), Some(span(UNIT, 1)));
        assert!(slicing.is_done());
        let mut slicing = Slicing::new(UNIT + 1, Vec::new());
        assert_eq!(slicing.next(64 * UNIT), Some(span(0, UNIT + 1)));
    }

    #[test]
    fn parts_of_a_hole_are_as_long_as_a_piece_may_be() {
        let size = 4 * MAX_PIECE_BYTES + UNIT;
        let mut slicing = Slicing::new(size, Vec::new());
        assert_eq!(slicing.next(UNIT), Some(span(0, UNIT)));
        slicing.note_hole(span(UNIT, 3 * MAX_PIECE_BYTES - UNIT));
        let mut cut = Vec::new();
        while let Some(next) = slicing.next(UNIT) {
            cut.push(next.len);
        }
        let doubled = cut.iter().take_while(|len| **len < MAX_PIECE_BYTES);
        assert_eq!(doubled.sum::<u64>(), MAX_PIECE_BYTES - UNIT);
        let longest = cut.iter().filter(|len| **len == MAX_PIECE_BYTES);
        assert_eq!(longest.count(), 2);
        let behind = &cut[cut.len() - 2..];
        assert_eq!(behind, [UNIT, UNIT], "what lies behind it is data");
    }

    proptest! {
        /// Whatever is there, the parts are pieces that the protocol takes, and make up the file.
        #[test]
        fn the_parts_are_the_file(
            size in UNIT + 1..40 * UNIT,
            bounds in prop::collection::btree_set(0u64..41, 0..12),
            limits in prop::collection::vec(0u32..7, 1..9),
            hole in (0u64..40, 0u64..40),
        ) {
            let bounds: Vec<u64> = bounds.into_iter().map(|unit| (unit * UNIT).min(size)).collect();
            let there = bounds.chunks_exact(2).map(|two| span(two[0], two[1] - two[0]));
            let there: Vec<_> = there.filter(|span| span.len > 0).collect();
            let mut slicing = Slicing::new(size, there.clone());
            let hole = span((hole.0 * UNIT).min(size), (hole.1 * UNIT).min(size.saturating_sub(hole.0 * UNIT)));
            slicing.note_hole(hole);
            let mut covered = std::collections::BTreeMap::new();
            for limit in limits.iter().cycle() {
                let compares = slicing.compares();
                let Some(next) = slicing.next(UNIT << limit) else { break };
                let inside = there.iter().any(|span| {
                    span.offset <= next.offset && next.offset + next.len <= span.offset + span.len
                });
                prop_assert_eq!(compares, inside);
                prop_assert!(there.is_empty() || next.len < size);
                let in_hole = hole.offset <= next.offset && next.offset + next.len <= hole.offset + hole.len;
                prop_assert!(next.len <= UNIT << limit || in_hole);
                let last = next.offset + next.len == size;
                prop_assert!(next.len.is_power_of_two() || last);
                prop_assert!(next.offset.is_multiple_of(next.len.next_power_of_two()));
                prop_assert!(next.offset.is_multiple_of(UNIT));
                covered.insert(next.offset, next.len);
            }
            prop_assert!(slicing.is_done());
            let mut from = 0;
            for (offset, len) in covered {
                prop_assert_eq!(offset, from);
                from += len;
            }
            prop_assert_eq!(from, size);
        }
    }
}
