//! A set of parts of one file. Parts that touch are joined.

use std::collections::BTreeMap;

use howdah_wire::Span;
use howdah_wire::limits::MIN_BLOCK_BYTES;

/// Parts with gaps between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans(BTreeMap<u64, u64>);

impl Spans {
    /// Adds a part, which may overlap others. A part whose end does not fit into a number is left out.
    pub fn add(&mut self, span: Span) {
        let (Some(mut end), mut start) = (span.end(), span.offset) else {
            return;
        };
        if span.len == 0 {
            return;
        }
        while let Some((&other, &other_end)) = self.0.range(..=end).next_back()
            && other_end >= start
        {
            self.0.remove(&other);
            start = start.min(other);
            end = end.max(other_end);
        }
        self.0.insert(start, end);
    }

    /// The parts, in order.
    pub fn each(&self) -> impl Iterator<Item = Span> {
        self.0.iter().map(|(&offset, &end)| Span {
            offset,
            len: end - offset,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Those of them, and parts of them, that can be pieces of a file of `size` bytes: multiples of the smallest
    /// block, except at the end of the file.
    pub fn in_blocks(&self, size: u64) -> impl Iterator<Item = Span> {
        self.each().filter_map(move |Span { offset, len }| {
            let start = offset.checked_next_multiple_of(MIN_BLOCK_BYTES)?;
            let end = match (offset + len).min(size) {
                end if end == size => end,
                end => end - end % MIN_BLOCK_BYTES,
            };
            let len = end.checked_sub(start).filter(|len| *len > 0)?;
            Some(Span { offset: start, len })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT: u64 = MIN_BLOCK_BYTES;

    fn span(offset: u64, len: u64) -> Span {
        Span { offset, len }
    }

    fn set(some: &[Span]) -> Spans {
        let mut spans = Spans::default();
        some.iter().for_each(|&span| spans.add(span));
        spans
    }

    #[test]
    fn neighbours_become_one_and_nothing_overflows() {
        let spans = set(&[span(0, 3), span(6, 2), span(3, 3), span(20, 1), span(9, 0)]);
        let each: Vec<_> = spans.each().collect();
        assert_eq!(each, [span(0, 8), span(20, 1)]);
        let none = set(&[span(u64::MAX, 2), span(1, u64::MAX)]);
        assert_eq!(none.count(), 0);
    }

    #[test]
    fn parts_in_blocks_lie_inside_of_what_is_there() {
        let size = 9 * UNIT + 5;
        for (there, blocks) in [
            (span(0, size), vec![span(0, size)]),
            (span(1, 2 * UNIT), vec![span(UNIT, UNIT)]),
            (span(1, UNIT), vec![]),
            (span(8 * UNIT, UNIT), vec![span(8 * UNIT, UNIT)]),
            (span(8 * UNIT + 1, UNIT + 4), vec![span(9 * UNIT, 5)]),
            (span(9 * UNIT + 1, 4), vec![]),
            (
                span(4 * UNIT, u64::MAX - 4 * UNIT),
                vec![span(4 * UNIT, 5 * UNIT + 5)],
            ),
            (span(u64::MAX - 3, 3), vec![]),
        ] {
            let found: Vec<_> = set(&[there]).in_blocks(size).collect();
            assert_eq!(found, blocks, "{there:?}");
        }
    }

    proptest! {
        #[test]
        fn a_set_is_what_was_added(
            some in prop::collection::vec((0u64..100, 0u64..20), 0..20),
        ) {
            let some: Vec<_> = some.into_iter().map(|(offset, len)| span(offset, len)).collect();
            let spans = set(&some);
            let includes = |mut spans: &mut dyn Iterator<Item = Span>, at| {
                Iterator::any(&mut spans, |span| (span.offset..span.offset + span.len).contains(&at))
            };
            for at in 0..130 {
                prop_assert_eq!(includes(&mut spans.each(), at), includes(&mut some.iter().copied(), at));
            }
            let each: Vec<_> = spans.each().collect();
            prop_assert!(each.windows(2).all(|two| two[0].offset + two[0].len < two[1].offset));
        }
    }
}
