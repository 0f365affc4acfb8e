//! What pieces of an object hold, and a digest of them that needs no order.
//!
//! The digest of an object is the sum of the BLAKE3 digests of its pieces, each with its number in front: the additive
//! hash of Bellare and Micciancio (EUROCRYPT '97), in four lanes of 64 bits. It finds every accident; it is no
//! proof against somebody who chooses the pieces.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Writes the content of a piece; the same `seed` and number give the same bytes.
pub fn fill(seed: u64, number: u64, piece: &mut [u8]) {
    // The odd factor is that of splitmix64, so that neighbours begin far apart.
    let state = seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Xoshiro256PlusPlus::seed_from_u64(state).fill_bytes(piece);
}

/// Of the pieces added so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest([u64; 4]);

impl Digest {
    /// Adds a piece.
    pub fn add(&mut self, number: u64, piece: &[u8]) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&number.to_le_bytes()).update(piece);
        let hash = hasher.finalize();
        for (lane, bytes) in self.0.iter_mut().zip(hash.as_bytes().as_chunks::<8>().0) {
            *lane = lane.wrapping_add(u64::from_le_bytes(*bytes));
        }
    }

    /// As 64 hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|lane| format!("{lane:016x}")).collect()
    }
}
