//! The BLAKE3 of a large file, of slices that any thread hashes in any order.
//!
//! BLAKE3 paper §2.1: in the tree, every left subtree is full, a power of two long and aligned to its
//! length. A slice is such a subtree, so its chaining value needs nothing of the others.

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

/// Length of a slice, in bytes; a power of two.
pub const SLICE_BYTES: u64 = 32 << 20;

/// A hasher of the slice that begins at `offset`, in bytes.
pub fn hasher(offset: u64) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset);
    hasher
}

/// The digest of a file of `size` bytes, more than one slice, of the values of its slices in order.
pub fn digest(values: &[ChainingValue], size: u64) -> [u8; 32] {
    let left = left_subtree_len(size);
    let (left_value, right_value) = halves(values, left, size);
    *merge_subtrees_root(&left_value, &right_value, Mode::Hash).as_bytes()
}

fn halves(values: &[ChainingValue], left: u64, size: u64) -> (ChainingValue, ChainingValue) {
    let at = usize::try_from(left / SLICE_BYTES).unwrap_or(usize::MAX);
    (
        subtree(&values[..at], left),
        subtree(&values[at..], size - left),
    )
}

fn subtree(values: &[ChainingValue], size: u64) -> ChainingValue {
    if let [only] = values {
        return *only;
    }
    let (left, right) = halves(values, left_subtree_len(size), size);
    merge_subtrees_non_root(&left, &right, Mode::Hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_give_the_digest_of_the_whole() {
        for slices in [2u64, 3, 4, 5] {
            for beyond in [1, 1025, SLICE_BYTES] {
                let size = (slices - 1) * SLICE_BYTES + beyond;
                let content: Vec<u8> = (0..size).map(|at| (at / 7 % 256) as u8).collect();
                let values: Vec<ChainingValue> = content
                    .chunks(SLICE_BYTES as usize)
                    .zip((0..).step_by(SLICE_BYTES as usize))
                    .map(|(slice, offset)| hasher(offset).update(slice).finalize_non_root())
                    .collect();
                assert_eq!(
                    digest(&values, size),
                    *blake3::hash(&content).as_bytes(),
                    "{size}"
                );
            }
        }
    }
}
