//! Zeros that nobody reads.

use howdah_wire::Doing;

use crate::end::spent;

/// As much as one look at them takes, in bytes; it fits into the caches of a processor.
const ZEROS_BYTES: usize = 128 << 10;
static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];

/// So many zeros, in parts.
pub(crate) fn parts(len: u64) -> impl Iterator<Item = &'static [u8]> {
    (0..len)
        .step_by(ZEROS_BYTES)
        .map(move |at| &ZEROS[..(len - at).min(ZEROS_BYTES as u64) as usize])
}

/// Hashes so many zeros.
pub(crate) fn hash(hasher: &mut blake3::Hasher, len: u64) {
    let _digest = spent::doing(Doing::Digest);
    for part in parts(len) {
        hasher.update(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_as_many_as_were_asked_for() {
        for len in [0, 1, ZEROS_BYTES as u64, 3 * ZEROS_BYTES as u64 + 7] {
            let mut hasher = blake3::Hasher::new();
            hash(&mut hasher, len);
            let all = vec![0; len as usize];
            assert_eq!(hasher.finalize(), blake3::hash(&all), "{len}");
        }
    }
}
