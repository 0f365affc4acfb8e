//! Finds the holes of a source by seeking, without reading them, and cuts them into pieces of their own.

use std::os::fd::AsFd;

use blake3::hazmat::left_subtree_len;
use howdah_wire::Span;
use howdah_wire::limits::MIN_BLOCK_BYTES;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// A run of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Something to read.
    Data(Span),
    /// Zeros that are not stored.
    Hole(Span),
}

/// The run of `file` that begins at `at`. The file ends at `size`. If holes cannot be found, everything is data. The
/// kernel includes data that was written a moment ago. Space that is reserved and not written counts as a hole.
pub(crate) fn extent(file: impl AsFd, at: u64, size: u64) -> Extent {
    let span = |end: u64| Span {
        offset: at,
        len: end.min(size).saturating_sub(at),
    };
    match seek(&file, SeekFrom::Data(at)) {
        Ok(data) if data > at => Extent::Hole(span(data)),
        // Nothing is stored from there on.
        Err(Errno::NXIO) => Extent::Hole(span(size)),
        Ok(_) => match seek(&file, SeekFrom::Hole(at)) {
            Ok(hole) if hole > at => Extent::Data(span(hole)),
            _ => Extent::Data(span(size)),
        },
        Err(_) => Extent::Data(span(size)),
    }
}

/// The holes of `file`, which ends at `size`, within `span`, in order. They are cut to whole smallest blocks, because
/// only such pieces can be holes. The last hole may reach beyond `span`.
pub(crate) fn holes(file: impl AsFd, span: Span, size: u64) -> Vec<Span> {
    let mut holes = Vec::new();
    let (mut at, end) = (span.offset, span.offset + span.len);
    while at < end {
        let run = match extent(&file, at, size) {
            Extent::Hole(run) => {
                holes.extend(in_blocks(run, size));
                run
            }
            Extent::Data(run) => run,
        };
        if run.len == 0 {
            break;
        }
        at = run.offset + run.len;
    }
    holes
}

/// What of a hole are whole smallest blocks, of which the file's last one may be shorter.
fn in_blocks(Span { offset, len }: Span, size: u64) -> Option<Span> {
    let start = offset.checked_next_multiple_of(MIN_BLOCK_BYTES)?;
    let end = match offset + len {
        end if end >= size => size,
        end => end - end % MIN_BLOCK_BYTES,
    };
    let len = end.checked_sub(start).filter(|len| *len > 0)?;
    Some(Span { offset: start, len })
}

/// Cuts a part, a subtree of the file's BLAKE3 tree, into the fewest subtrees that are either holes or contain none,
/// in order. Returns for each whether it is a hole.
pub(crate) fn cut(span: Span, holes: &[Span]) -> Vec<(Span, bool)> {
    let mut parts = Vec::new();
    cut_into(span, holes, &mut parts);
    parts
}

fn cut_into(span: Span, holes: &[Span], parts: &mut Vec<(Span, bool)>) {
    let end = span.offset + span.len;
    let first = holes.partition_point(|hole| hole.offset + hole.len <= span.offset);
    match holes.get(first).filter(|hole| hole.offset < end) {
        None => parts.push((span, false)),
        Some(hole) if hole.offset <= span.offset && end <= hole.offset + hole.len => {
            parts.push((span, true));
        }
        Some(_) => {
            let left = left_subtree_len(span.len);
            let halves = [(span.offset, left), (span.offset + left, span.len - left)];
            for (offset, len) in halves {
                cut_into(Span { offset, len }, &holes[first..], parts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    const UNIT: u64 = MIN_BLOCK_BYTES;

    fn span(offset: u64, len: u64) -> Span {
        Span { offset, len }
    }

    /// A file of `size` bytes with something at these places.
    fn file(size: u64, data: &[Span]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        for span in data {
            file.write_all_at(&vec![1; span.len as usize], span.offset)
                .unwrap();
        }
        file
    }

    #[test]
    fn holes_are_found_where_nothing_is_stored_and_as_whole_blocks() {
        let size = 9 * UNIT + 5;
        let data = [span(2 * UNIT, 1), span(5 * UNIT - 1, 2)];
        let found = holes(file(size, &data), span(0, size), size);
        let expected = [
            span(0, 2 * UNIT),
            span(3 * UNIT, UNIT),
            span(6 * UNIT, 3 * UNIT + 5),
        ];
        assert_eq!(found, expected);
        assert_eq!(
            holes(file(size, &[]), span(UNIT, UNIT), size),
            [span(UNIT, 8 * UNIT + 5)],
            "it says how far a hole goes"
        );
        let full = holes(file(size, &[span(0, size)]), span(0, size), size);
        assert_eq!(full, []);
    }

    #[test]
    fn what_has_grown_and_what_cannot_be_sought_in_is_no_hole_beyond_its_end() {
        let grown = file(4 * UNIT, &[]);
        assert_eq!(holes(&grown, span(0, UNIT), UNIT), [span(0, UNIT)]);
        let (pipe, _writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(holes(pipe, span(0, UNIT), UNIT), []);
    }

    proptest! {
        /// Whatever the holes are, the parts are pieces that the protocol takes, make up the whole, and are holes where
        /// and only where there are some.
        #[test]
        fn the_parts_are_the_whole(
            blocks in 1u64..130,
            beyond in 0u64..UNIT,
            bounds in prop::collection::btree_set(0u64..132, 0..14),
        ) {
            let size = blocks * UNIT + beyond;
            let bounds: Vec<u64> = bounds.into_iter().map(|unit| (unit * UNIT).min(size)).collect();
            let holes = bounds.chunks_exact(2).map(|two| span(two[0], two[1] - two[0]));
            let holes: Vec<_> = holes.filter(|hole| hole.len > 0).collect();
            let mut from = 0;
            let mut hole_bytes = 0;
            for (part, is_hole) in cut(span(0, size), &holes) {
                prop_assert_eq!(part.offset, from);
                from += part.len;
                let whole = part.len == size;
                prop_assert!(whole || part.len.is_power_of_two() && part.len >= UNIT || from == size);
                prop_assert!(part.offset.is_multiple_of(part.len.next_power_of_two()));
                let touched = holes.iter().any(|hole| hole.offset < from && part.offset < hole.offset + hole.len);
                prop_assert_eq!(touched, is_hole);
                hole_bytes += if is_hole { part.len } else { 0 };
            }
            prop_assert_eq!(from, size);
            prop_assert_eq!(hole_bytes, holes.iter().map(|hole| hole.len).sum::<u64>());
        }
    }
}
