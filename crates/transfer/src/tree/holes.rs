//! Finds runs of zeros in data that is written, so that they become holes.

use std::io::IoSlice;

use howdah_wire::Span;

use crate::error::TransferError;

/// What is all zeros or not, in bytes: the block of most file systems.
const BLOCK_BYTES: usize = 4096;
static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// A run of blocks of one kind.
#[derive(Debug)]
pub enum Run<'a, 'b> {
    /// Something to write at an offset.
    Data(&'a mut [IoSlice<'b>], u64),
    /// Zeros, and where they lie.
    Zeros(&'a mut [IoSlice<'b>], Span),
}

/// Splits `parts`, which follow each other at `offset`, into runs, in their order. A block of the file that is only
/// partly in them counts by that part.
///
/// # Errors
/// Of `take`.
pub fn runs(
    parts: &[IoSlice<'_>],
    offset: u64,
    take: impl FnMut(Run<'_, '_>) -> Result<(), TransferError>,
) -> Result<(), TransferError> {
    let mut growing = Growing {
        run: Vec::new(),
        zeros: false,
        begun: offset,
        at: offset,
        take,
    };
    let mut block: Vec<&[u8]> = Vec::new();
    let mut at = offset;
    for part in parts {
        let mut rest: &[u8] = part;
        while !rest.is_empty() {
            let left = BLOCK_BYTES - (at % BLOCK_BYTES as u64) as usize;
            let (piece, behind) = rest.split_at(left.min(rest.len()));
            block.push(piece);
            at += piece.len() as u64;
            rest = behind;
            if at.is_multiple_of(BLOCK_BYTES as u64) {
                growing.add(&mut block)?;
            }
        }
    }
    growing.add(&mut block)?;
    growing.end()
}

/// A run that grows by blocks.
struct Growing<'b, Take> {
    run: Vec<IoSlice<'b>>,
    zeros: bool,
    /// Where it begins, and where it ends so far.
    begun: u64,
    at: u64,
    take: Take,
}

impl<'b, Take: FnMut(Run<'_, '_>) -> Result<(), TransferError>> Growing<'b, Take> {
    /// Adds a block, which is emptied; one of another kind ends the run and begins the next.
    fn add(&mut self, block: &mut Vec<&'b [u8]>) -> Result<(), TransferError> {
        let zeros = block.iter().all(|piece| **piece == ZEROS[..piece.len()]);
        if zeros != self.zeros && !block.is_empty() {
            self.end()?;
            self.zeros = zeros;
        }
        for piece in block.drain(..) {
            self.at += piece.len() as u64;
            self.run.push(IoSlice::new(piece));
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), TransferError> {
        let (offset, len) = (self.begun, self.at - self.begun);
        let ended = match (len, self.zeros) {
            (0, _) => Ok(()),
            (_, true) => (self.take)(Run::Zeros(&mut self.run, Span { offset, len })),
            (_, false) => (self.take)(Run::Data(&mut self.run, offset)),
        };
        self.run.clear();
        self.begun = self.at;
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The runs of some bytes cut into parts: whether zeros, where, how many, and the bytes.
    fn runs_of(bytes: &[u8], cut: usize, offset: u64) -> Vec<(bool, u64, Vec<u8>)> {
        let parts: Vec<_> = bytes.chunks(cut).map(IoSlice::new).collect();
        let mut found = Vec::new();
        let joined = |parts: &[IoSlice<'_>]| parts.iter().flat_map(|part| part.to_vec()).collect();
        runs(&parts, offset, |run| {
            found.push(match run {
                Run::Data(parts, offset) => (false, offset, joined(parts)),
                Run::Zeros(parts, span) => {
                    let bytes: Vec<u8> = joined(parts);
                    assert_eq!(bytes.len() as u64, span.len);
                    (true, span.offset, bytes)
                }
            });
            Ok(())
        })
        .unwrap();
        found
    }

    #[test]
    fn blocks_of_zeros_are_found_whatever_the_parts_are() {
        let mut bytes = vec![0; 5 * BLOCK_BYTES + 10];
        bytes[2 * BLOCK_BYTES] = 1;
        for cut in [1000, BLOCK_BYTES, 16 << 10, 1 << 20] {
            let kinds: Vec<_> = runs_of(&bytes, cut, 0)
                .into_iter()
                .map(|(zeros, at, bytes)| (zeros, at, bytes.len()))
                .collect();
            let block = BLOCK_BYTES as u64;
            let expected = [
                (true, 0, 2 * BLOCK_BYTES),
                (false, 2 * block, BLOCK_BYTES),
                (true, 3 * block, 2 * BLOCK_BYTES + 10),
            ];
            assert_eq!(kinds, expected, "{cut}");
        }
    }

    proptest! {
        #[test]
        fn the_runs_are_all_of_it_in_order(
            blocks in prop::collection::vec((any::<bool>(), 1..6000usize), 0..6),
            cut in 1..9000usize,
            offset in 0..10_000u64,
        ) {
            let bytes: Vec<u8> = blocks
                .iter()
                .flat_map(|&(zeros, len)| vec![u8::from(!zeros); len])
                .collect();
            let mut at = offset;
            let mut all = Vec::new();
            for (zeros, from, run) in runs_of(&bytes, cut, offset) {
                prop_assert_eq!(from, at);
                prop_assert!(!zeros || run.iter().all(|&byte| byte == 0));
                at += run.len() as u64;
                all.extend(run);
            }
            prop_assert_eq!(all, bytes);
        }
    }
}
