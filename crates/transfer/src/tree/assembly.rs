//! Joins the BLAKE3 chaining values of a file's pieces, in any order, to the digest of the file.
//!
//! BLAKE3 paper §2.1: in the tree, every left subtree is full, a power of two long and aligned to
//! its length. Two neighbours are joined as soon as both are there, so what is kept stays small.

use std::collections::BTreeMap;

use blake3::hazmat::{
    ChainingValue, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

/// A piece that overlaps another one or reaches beyond its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a piece overlaps another one")]
pub struct Overlap;

/// The pieces of one file so far. Pieces are subtrees of the file's tree, none of them the root;
/// `howdah_wire::FilePiece` refuses others.
#[derive(Debug)]
pub struct Assembly {
    size: u64,
    received: u64,
    subtrees: BTreeMap<u64, (u64, ChainingValue)>,
}

impl Assembly {
    /// A file of `size` bytes of which nothing is there.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            received: 0,
            subtrees: BTreeMap::new(),
        }
    }

    /// Adds a piece; the digest of the file once all of it is there.
    ///
    /// # Errors
    /// [`Overlap`], after which nothing has changed.
    pub fn add(
        &mut self,
        offset: u64,
        len: u64,
        value: ChainingValue,
    ) -> Result<Option<blake3::Hash>, Overlap> {
        let end = offset.checked_add(len).ok_or(Overlap)?;
        let before = self.subtrees.range(..=offset).next_back();
        let overlaps_before = before.is_some_and(|(&start, &(len, _))| start + len > offset);
        let overlaps_after = self.subtrees.range(offset..end).next().is_some();
        if overlaps_before || overlaps_after || end > self.size || len == 0 {
            return Err(Overlap);
        }
        self.received += len;
        self.subtrees.insert(offset, (len, value));
        self.join(offset, len);
        Ok((self.received == self.size).then(|| self.root()))
    }

    /// Joins the subtree at `offset` with its neighbour, and so on up, but never to the root.
    fn join(&mut self, mut offset: u64, mut len: u64) {
        while len.is_power_of_two() && 2 * len < self.size {
            let left = offset & !len;
            let right = left + len;
            let (Some(&(left_len, left_value)), Some(&(right_len, right_value))) =
                (self.subtrees.get(&left), self.subtrees.get(&right))
            else {
                return;
            };
            if left_len != len || right_len != len {
                return;
            }
            self.subtrees.remove(&right);
            let joined = merge_subtrees_non_root(&left_value, &right_value, Mode::Hash);
            len *= 2;
            offset = left;
            self.subtrees.insert(offset, (len, joined));
        }
    }

    fn root(&self) -> blake3::Hash {
        let left = left_subtree_len(self.size);
        merge_subtrees_root(
            &self.subtree(0, left),
            &self.subtree(left, self.size - left),
            Mode::Hash,
        )
    }

    fn subtree(&self, offset: u64, len: u64) -> ChainingValue {
        match self.subtrees.get(&offset) {
            Some(&(have, value)) if have == len => value,
            _ => {
                let left = left_subtree_len(len);
                let right = self.subtree(offset + left, len - left);
                merge_subtrees_non_root(&self.subtree(offset, left), &right, Mode::Hash)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blake3::hazmat::HasherExt;
    use proptest::prelude::*;

    const UNIT: u64 = 1024;

    fn content(size: u64) -> Vec<u8> {
        (0..size).map(|i| (i / 7 % 256) as u8).collect()
    }

    fn add(
        assembly: &mut Assembly,
        content: &[u8],
        offset: u64,
        len: u64,
    ) -> Result<Option<blake3::Hash>, Overlap> {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(offset);
        hasher.update(&content[offset as usize..(offset + len) as usize]);
        assembly.add(offset, len, hasher.finalize_non_root())
    }

    /// Cuts `0..size` into subtrees of at most `seeds` units, as a sender might.
    fn cut(size: u64, seeds: &[u32]) -> Vec<(u64, u64)> {
        let mut pieces = Vec::new();
        let mut offset = 0u64;
        for seed in seeds.iter().cycle() {
            let aligned = if offset == 0 {
                u64::MAX
            } else {
                1 << offset.trailing_zeros()
            };
            let half = left_subtree_len(size.max(UNIT + 1));
            let len = (UNIT << seed).min(aligned).min(half).min(size - offset);
            pieces.push((offset, len));
            offset += len;
            if offset == size {
                return pieces;
            }
        }
        pieces
    }

    #[test]
    fn refuses_overlaps_and_what_lies_outside() {
        let content = content(8 * UNIT);
        let mut assembly = Assembly::new(8 * UNIT);
        add(&mut assembly, &content, 2 * UNIT, 2 * UNIT).unwrap();
        for (offset, len) in [(2, 2), (2, 1), (3, 1), (0, 4), (0, 8)] {
            let again = add(&mut assembly, &content, offset * UNIT, len * UNIT);
            assert_eq!(again, Err(Overlap), "{offset} {len}");
        }
        let value = [0; 32];
        assert_eq!(assembly.add(8 * UNIT, UNIT, value), Err(Overlap));
        assert_eq!(assembly.add(u64::MAX, 2, value), Err(Overlap));
    }

    #[test]
    fn what_is_kept_stays_small_in_order() {
        let mut assembly = Assembly::new(1024 * UNIT);
        let content = content(1024 * UNIT);
        let mut most = 0;
        for unit in 0..1024 {
            add(&mut assembly, &content, unit * UNIT, UNIT).unwrap();
            most = most.max(assembly.subtrees.len());
        }
        assert!(most <= 11, "{most}");
    }

    proptest! {
        #[test]
        fn any_order_gives_the_digest_of_the_whole(
            size in UNIT + 1..80 * UNIT,
            seeds in prop::collection::vec(0u32..6, 1..8),
            order in prop::collection::vec(any::<u32>(), 80),
        ) {
            let content = content(size);
            let mut pieces = cut(size, &seeds);
            prop_assert!(pieces.len() > 1);
            pieces.sort_by_key(|&(offset, _)| order[(offset / UNIT) as usize % 80]);
            let mut assembly = Assembly::new(size);
            let (last, first) = pieces.split_last().unwrap();
            for &(offset, len) in first {
                prop_assert_eq!(add(&mut assembly, &content, offset, len), Ok(None));
            }
            let digest = add(&mut assembly, &content, last.0, last.1).unwrap();
            prop_assert_eq!(digest, Some(blake3::hash(&content)));
        }
    }
}
