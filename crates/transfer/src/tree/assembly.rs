//! Joins the BLAKE3 chaining values of a file's pieces, in any order, to the digest of the file.
//!
//! BLAKE3 paper §2.1: in the tree, every left subtree is full, a power of two long and aligned to its length. Two
//! neighbours are joined as soon as both are known, so only few values are kept. The root is different. While the
//! size is not known, neighbours wait until there is a piece after them.

use std::collections::BTreeMap;

use blake3::hazmat::{
    ChainingValue, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

/// A piece overlaps another one, or reaches beyond the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a piece overlaps another one")]
pub struct Overlap;

/// The pieces of one file so far. Pieces are subtrees of the file's tree, and not the root. `howdah_wire::FilePiece`
/// refuses others.
#[derive(Debug)]
pub struct Assembly {
    /// `None` until the last piece is there, of what a pipe gives.
    size: Option<u64>,
    received: u64,
    subtrees: BTreeMap<u64, (u64, ChainingValue)>,
}

impl Assembly {
    /// A file of `size` bytes without any pieces.
    pub fn new(size: u64) -> Self {
        Self {
            size: Some(size),
            received: 0,
            subtrees: BTreeMap::new(),
        }
    }

    /// A file of unknown size without any pieces.
    pub fn of_unknown_size() -> Self {
        Self {
            size: None,
            received: 0,
            subtrees: BTreeMap::new(),
        }
    }

    /// What has been added, in bytes.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How many subtrees are kept.
    pub fn kept(&self) -> usize {
        self.subtrees.len()
    }

    /// Adds the last piece of the file. Returns the digest of the file if no piece is missing.
    ///
    /// # Errors
    /// [`Overlap`], also if there is a piece after it or the size is known. Nothing was changed then.
    pub fn add_last(
        &mut self,
        offset: u64,
        len: u64,
        value: ChainingValue,
    ) -> Result<Option<blake3::Hash>, Overlap> {
        let end = offset.checked_add(len).ok_or(Overlap)?;
        if self.size.is_some() || self.reach() > end {
            return Err(Overlap);
        }
        self.size = Some(end);
        let added = self.add(offset, len, value);
        if added.is_err() {
            self.size = None;
        }
        added
    }

    /// Adds a piece. Returns the digest of the file if no piece is missing.
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
        let beyond = self.size.is_some_and(|size| end > size);
        if overlaps_before || overlaps_after || beyond || len == 0 {
            return Err(Overlap);
        }
        let last_before = self.subtrees.last_key_value();
        let last_before = last_before.map(|(&start, &(len, _))| (start, len));
        self.received += len;
        self.subtrees.insert(offset, (len, value));
        if let Some((start, len)) = last_before
            && self.reach() == end
        {
            // It may have waited for something beyond it.
            self.join(start, len);
        }
        self.join(offset, len);
        let size = self.size.filter(|size| *size == self.received);
        Ok(size.map(|size| self.root(size)))
    }

    /// Where the last piece ends that is there.
    fn reach(&self) -> u64 {
        let last = self.subtrees.last_key_value();
        last.map_or(0, |(start, (len, _))| start + len)
    }

    /// Joins the subtree at `offset` with its neighbour, and so on up, but never to the root.
    fn join(&mut self, mut offset: u64, mut len: u64) {
        while len.is_power_of_two() {
            let left = offset & !len;
            let right = left + len;
            let may_be_root = match self.size {
                Some(size) => 2 * len >= size,
                None => right + len >= self.reach(),
            };
            if may_be_root {
                return;
            }
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

    fn root(&self, size: u64) -> blake3::Hash {
        let left = left_subtree_len(size);
        merge_subtrees_root(
            &self.subtree(0, left),
            &self.subtree(left, size - left),
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
pub(crate) mod tests {
    use super::*;
    use blake3::hazmat::HasherExt;
    use proptest::prelude::*;

    const UNIT: u64 = 1024;

    fn content(size: u64) -> Vec<u8> {
        (0..size).map(|i| (i / 7 % 256) as u8).collect()
    }

    /// The hash that a sender sends for the piece of a file at `offset`.
    pub fn value_of(piece: &[u8], offset: u64) -> ChainingValue {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(offset);
        hasher.update(piece);
        hasher.finalize_non_root()
    }

    fn add(
        assembly: &mut Assembly,
        content: &[u8],
        offset: u64,
        len: u64,
    ) -> Result<Option<blake3::Hash>, Overlap> {
        let piece = &content[offset as usize..(offset + len) as usize];
        assembly.add(offset, len, value_of(piece, offset))
    }

    /// The same of a size that is not known.
    fn add_of_pipe(
        assembly: &mut Assembly,
        content: &[u8],
        offset: u64,
        len: u64,
    ) -> Result<Option<blake3::Hash>, Overlap> {
        if offset + len < content.len() as u64 {
            return add(assembly, content, offset, len);
        }
        assembly.add_last(offset, len, value_of(&content[offset as usize..], offset))
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
    fn what_is_kept_of_a_pipe_stays_small_in_order() {
        let mut assembly = Assembly::of_unknown_size();
        let content = content(1024 * UNIT);
        let mut most = 0;
        for unit in 0..1023 {
            add_of_pipe(&mut assembly, &content, unit * UNIT, UNIT).unwrap();
            most = most.max(assembly.kept());
        }
        assert!(most <= 12, "{most}");
        let digest = add_of_pipe(&mut assembly, &content, 1023 * UNIT, UNIT);
        assert_eq!(digest, Ok(Some(blake3::hash(&content))));
    }

    #[test]
    fn a_pipe_ends_once_and_nothing_lies_beyond_its_end() {
        let value = [0; 32];
        let mut assembly = Assembly::of_unknown_size();
        assembly.add(4 * UNIT, UNIT, value).unwrap();
        assert_eq!(assembly.add_last(3 * UNIT, UNIT, value), Err(Overlap));
        assert_eq!(assembly.add_last(4 * UNIT, UNIT, value), Err(Overlap));
        assert_eq!(assembly.add_last(5 * UNIT, 7, value), Ok(None));
        assert_eq!(assembly.add_last(6 * UNIT, 7, value), Err(Overlap));
        assert_eq!(assembly.add(6 * UNIT, UNIT, value), Err(Overlap));
        assert_eq!(assembly.add_last(u64::MAX, 7, value), Err(Overlap));
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

        #[test]
        fn so_it_does_where_the_size_comes_with_the_last_piece(
            size in UNIT + 1..80 * UNIT,
            order in prop::collection::vec(any::<u32>(), 80),
        ) {
            let content = content(size);
            let mut pieces = cut(size, &[0]);
            pieces.sort_by_key(|&(offset, _)| order[(offset / UNIT) as usize % 80]);
            let mut assembly = Assembly::of_unknown_size();
            let mut digest = None;
            for (offset, len) in pieces {
                prop_assert_eq!(digest, None);
                digest = add_of_pipe(&mut assembly, &content, offset, len).unwrap();
            }
            prop_assert_eq!(digest, Some(blake3::hash(&content)));
        }
    }
}
