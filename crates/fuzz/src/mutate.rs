//! Random changes of an input, of the kinds that libFuzzer and AFL make.

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Values at the edges of what numbers and lengths can be.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    i64::MAX as u64,
    u64::MAX,
];

/// A number below `below`, which is not 0.
pub fn below(random: &mut Xoshiro256PlusPlus, below: usize) -> usize {
    (random.next_u64() % below as u64) as usize
}

/// Changes `input` in one to eight ways; what is taken from elsewhere is taken from `other`. It grows to
/// `most` bytes at most.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], most: usize, random: &mut Xoshiro256PlusPlus) {
    for _ in 0..1 + below(random, 8) {
        change(input, other, random);
    }
    input.truncate(most);
}

fn change(input: &mut Vec<u8>, other: &[u8], random: &mut Xoshiro256PlusPlus) {
    let length = input.len();
    let at = below(random, length + 1);
    let scale = below(random, 7);
    let span = 1 + below(random, 1 << scale);
    let end = length.min(at + span);
    match below(random, 9) {
        0 if at < length => input[at] ^= 1 << below(random, 8),
        1 if at < length => input[at] = random.next_u32() as u8,
        2 if at < length => {
            input[at] = input[at]
                .wrapping_add(below(random, 35) as u8)
                .wrapping_sub(17)
        }
        3 => drop(input.drain(at..end)),
        4 => {
            let copy = input[at..end].to_vec();
            let to = below(random, length + 1);
            input.splice(to..to, copy);
        }
        5 => {
            let fresh: Vec<u8> = (0..span).map(|_| random.next_u32() as u8).collect();
            input.splice(at..at, fresh);
        }
        6 => {
            let value = EDGES[below(random, EDGES.len())];
            let width = 1 << below(random, 4);
            let bytes = match random.next_u32() & 1 {
                0 => value.to_le_bytes()[..width].to_vec(),
                _ => value.to_be_bytes()[8 - width..].to_vec(),
            };
            input.splice(at..length.min(at + width), bytes);
        }
        7 if !other.is_empty() => {
            let from = below(random, other.len());
            let copy = &other[from..other.len().min(from + span)];
            input.splice(at..end, copy.iter().copied());
        }
        8 if !other.is_empty() => {
            input.truncate(at);
            input.extend_from_slice(&other[below(random, other.len())..]);
        }
        _ => input.push(random.next_u32() as u8),
    }
}
