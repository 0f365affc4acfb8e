//! Reliable blast UDP without I/O: an object as pieces, each round those that are still missing.
//!
//! RBUDP (He, Leigh, Yu, DeFanti, "Reliable Blast UDP: predictable high performance bulk data transfer", IEEE Cluster
//! 2002, §2): all data leaves at a rate, then the receiver tells over TCP what it has not, then that leaves,
//! until nothing is missing. Deviations: what is missing is told as ranges and not as a bitmap, the first
//! [`MAX_RANGES`] of them, the rest a round later; nothing is kept of the content but its digest.

use serde::{Deserialize, Serialize};

use crate::{Digest, Error};

/// Most ranges in one list of what is missing.
pub const MAX_RANGES: usize = 1 << 16;
/// Largest object, bytes.
const MAX_OBJECT_BYTES: u64 = 64 << 30;

/// An object and how it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    object_bytes: u64,
    piece_bytes: u64,
}

impl Shape {
    /// `object_bytes` in pieces of `piece_bytes`, the last one shorter where it does not come out even.
    ///
    /// # Errors
    /// When the object is empty or too large.
    pub fn new(object_bytes: u64, piece_bytes: usize) -> Result<Self, Error> {
        if object_bytes == 0 || object_bytes > MAX_OBJECT_BYTES {
            return Err(Error::ObjectSize(object_bytes));
        }
        Ok(Self {
            object_bytes,
            piece_bytes: piece_bytes.max(1) as u64,
        })
    }

    /// How many pieces.
    pub fn pieces(&self) -> u64 {
        self.object_bytes.div_ceil(self.piece_bytes)
    }

    /// Length of one, in bytes; `None` when there is no such piece.
    pub fn length(&self, number: u64) -> Option<usize> {
        let rest = self
            .object_bytes
            .checked_sub(number.checked_mul(self.piece_bytes)?)?;
        (rest > 0).then(|| rest.min(self.piece_bytes) as usize)
    }
}

/// Ranges of pieces, each its first and how many; ascending and apart from one another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing(pub Vec<(u64, u64)>);

impl Missing {
    /// How many pieces.
    pub fn pieces(&self) -> u64 {
        self.0.iter().map(|range| range.1).sum()
    }

    /// Whether it can be said of an object of so many pieces.
    fn fits(&self, pieces: u64) -> bool {
        let mut from = 0;
        self.0.iter().all(|&(first, count)| {
            let end = first.checked_add(count).filter(|&end| end <= pieces);
            let good = first >= from && count > 0 && end.is_some();
            from = end.unwrap_or(u64::MAX);
            good
        })
    }
}

/// A piece that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its place in the object, from 0.
    pub number: u64,
    /// In bytes.
    pub length: usize,
    /// Whether it has been sent in no round before.
    pub first_time: bool,
}

/// The sender of one object.
#[derive(Debug)]
pub struct Blast {
    shape: Shape,
    /// What is left of this round, in reverse.
    left: Vec<(u64, u64)>,
    rounds: u64,
}

impl Blast {
    /// One that begins with its first round, of everything.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            left: vec![(0, shape.pieces())],
            rounds: 1,
        }
    }

    /// The next round, of what is missing.
    ///
    /// # Errors
    /// When that can not be said of this object.
    pub fn again(&mut self, mut missing: Missing) -> Result<(), Error> {
        if missing.0.len() > MAX_RANGES || !missing.fits(self.shape.pieces()) {
            return Err(Error::StrangePieces);
        }
        missing.0.reverse();
        self.left = missing.0;
        self.rounds += 1;
        Ok(())
    }

    /// How many pieces are left of this round.
    pub fn left(&self) -> u64 {
        self.left.iter().map(|range| range.1).sum()
    }
}

impl Iterator for Blast {
    type Item = Piece;

    /// The next piece of this round.
    fn next(&mut self) -> Option<Piece> {
        let (first, count) = self.left.last_mut()?;
        let number = *first;
        (*first, *count) = (*first + 1, *count - 1);
        if *count == 0 {
            self.left.pop();
        }
        let length = self.shape.length(number)?;
        Some(Piece {
            number,
            length,
            first_time: self.rounds == 1,
        })
    }
}

/// The receiver of one object.
#[derive(Debug)]
pub struct Gathering {
    shape: Shape,
    here: Vec<u64>,
    left: u64,
    digest: Digest,
}

impl Gathering {
    /// One that has nothing yet.
    pub fn new(shape: Shape) -> Self {
        let pieces = shape.pieces();
        Self {
            shape,
            here: vec![0; pieces.div_ceil(64) as usize],
            left: pieces,
            digest: Digest::default(),
        }
    }

    /// Takes a piece in; whether it was new. What the object has no such piece of changes nothing.
    pub fn take(&mut self, number: u64, piece: &[u8]) -> bool {
        if self.shape.length(number) != Some(piece.len()) {
            return false;
        }
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        let new = self.here[word] & bit == 0;
        if new {
            self.here[word] |= bit;
            self.left -= 1;
            self.digest.add(number, piece);
        }
        new
    }

    /// Whether nothing is missing.
    pub fn whole(&self) -> bool {
        self.left == 0
    }

    /// What is missing, as far as one list takes it.
    pub fn missing(&self) -> Missing {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in (0..self.shape.pieces()).filter(|&number| !self.has(number)) {
            if let Some((first, count)) = ranges.last_mut()
                && *first + *count == number
            {
                *count += 1;
            } else if ranges.len() < MAX_RANGES {
                ranges.push((number, 1));
            } else {
                break;
            }
        }
        Missing(ranges)
    }

    /// Of what is here.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    fn has(&self, number: u64) -> bool {
        self.here[(number / 64) as usize] & (1 << (number % 64)) != 0
    }
}
