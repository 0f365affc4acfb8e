//! Parts of a file that a receiver has from an interrupted copy, and the messages about them.

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_SPANS, MAX_SPANS_OF_FILE, MIN_BLOCK_BYTES};

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// Where it starts, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub len: u64,
}

impl Span {
    /// Where it ends, in bytes; `None` if that does not fit into a number.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.len)
    }
}

/// The parts of one needed file that the receiver may already have. Nothing but a comparison follows from them: both
/// ends hash each span before it counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Which file of the answer it is.
    pub index: u16,
    /// The parts, in order and with gaps between them. Each is a multiple of [`MIN_BLOCK_BYTES`], except one at the
    /// end of the file.
    pub spans: Vec<Span>,
}

/// The result of comparing a part of a file at the receiver with the same part at the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Number of the file.
    pub file: u64,
    /// The part.
    pub span: Span,
    /// Whether the receiver's part is the same. If it is not, it must be sent.
    pub same: bool,
}

/// Whether `spans` are as [`Found::spans`] requires, as far as that can be checked without the file's size.
fn in_order(spans: &[Span]) -> bool {
    let mut from = 0;
    let Some((last, others)) = spans.split_last() else {
        return false;
    };
    let mut follows = |span: &Span| {
        let fits =
            span.len > 0 && span.offset >= from && span.offset.is_multiple_of(MIN_BLOCK_BYTES);
        from = span.end().unwrap_or(u64::MAX);
        fits && from < u64::MAX
    };
    others
        .iter()
        .all(|span| follows(span) && span.len.is_multiple_of(MIN_BLOCK_BYTES))
        && follows(last)
}

/// What is wrong with the parts in an answer of `needed`, if anything is.
pub(crate) fn check_found(needed: &[bool], found: &[Found]) -> Result<(), &'static str> {
    let mut next = 0;
    let mut spans = 0;
    for Found { index, spans: some } in found {
        let index = usize::from(*index);
        if index < next || !needed.get(index).is_some_and(|needed| *needed) {
            return Err("parts of a file that is not needed");
        }
        next = index + 1;
        spans += some.len();
        if some.len() > MAX_SPANS_OF_FILE || spans > MAX_SPANS || !in_order(some) {
            return Err("parts of a file that cannot be");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = MIN_BLOCK_BYTES;

    fn span(offset: u64, len: u64) -> Span {
        Span { offset, len }
    }

    fn check(index: u16, spans: Vec<Span>) -> Result<(), &'static str> {
        check_found(&[true, false, true], &[Found { index, spans }])
    }

    #[test]
    fn parts_are_in_order_aligned_and_of_needed_files() {
        check(0, vec![span(0, UNIT), span(3 * UNIT, UNIT + 7)]).unwrap();
        check(2, vec![span(0, 2 * UNIT), span(2 * UNIT, 1)]).unwrap();
        check_found(&[true], &[]).unwrap();
        for wrong in [
            vec![],
            vec![span(0, 0)],
            vec![span(1, UNIT)],
            vec![span(0, UNIT + 1), span(2 * UNIT, UNIT)],
            vec![span(UNIT, UNIT), span(0, UNIT)],
            vec![span(0, 2 * UNIT), span(UNIT, UNIT)],
            vec![span(u64::MAX - UNIT + 1, UNIT)],
            vec![span(UNIT, u64::MAX)],
        ] {
            assert!(check(0, wrong.clone()).is_err(), "{wrong:?}");
        }
        for index in [1, 3, u16::MAX] {
            assert!(check(index, vec![span(0, UNIT)]).is_err());
        }
        let one = |index| Found {
            index,
            spans: vec![span(0, UNIT)],
        };
        assert!(check_found(&[true; 2], &[one(1), one(0)]).is_err());
        assert!(check_found(&[true; 2], &[one(0), one(0)]).is_err());
    }

    #[test]
    fn parts_of_a_file_and_of_an_answer_have_a_bound() {
        let spans = |count: usize| {
            let spans = (0..count as u64).map(|number| span(2 * number * UNIT, UNIT));
            spans.collect::<Vec<_>>()
        };
        check(0, spans(MAX_SPANS_OF_FILE)).unwrap();
        assert!(check(0, spans(MAX_SPANS_OF_FILE + 1)).is_err());
        let files = (MAX_SPANS / MAX_SPANS_OF_FILE + 1) as u16;
        let found = |index| Found {
            index,
            spans: spans(MAX_SPANS_OF_FILE),
        };
        let most = (0..files).map(found).collect::<Vec<_>>();
        let needed = vec![true; most.len()];
        check_found(&needed, &most[1..]).unwrap();
        assert!(check_found(&needed, &most).is_err());
    }
}
