//! The kept inputs: one file a target, in which each input follows its length of four bytes, little-endian.
//!
//! They come from two places. [`crate::targets`] makes the first ones of real values of the protocol
//! (`seeds`); libFuzzer found the others and kept of them the fewest that reach the same code
//! (`-merge=1`), of which the shortest are kept here. The program `corpus` (`src/bin/`) unpacks a file into
//! a folder for libFuzzer and packs what came of it.

use std::path::PathBuf;
use std::{fs, io};

use crate::Target;

/// What a target may keep, in bytes: all of them together stay below 200 kB.
const MOST_BYTES: usize = 12 << 10;

/// The file of a target's kept inputs.
pub fn path(target: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    PathBuf::from(folder).join(target)
}

/// The kept inputs of a target.
///
/// # Errors
/// When there is no such file, or it is no corpus.
pub fn kept(target: &str) -> Result<Vec<Vec<u8>>, String> {
    let path = path(target);
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    unpack(&bytes).ok_or_else(|| format!("{}: it ends in the middle of an input", path.display()))
}

/// The inputs in a file.
fn unpack(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut inputs = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk()?;
        let (input, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        inputs.push(input.to_vec());
        bytes = rest;
    }
    Some(inputs)
}

/// Keeps the seeds of a target and of `found` the shortest, as many as there is room for.
///
/// # Errors
/// When the file cannot be written.
pub fn keep(target: &Target, mut found: Vec<Vec<u8>>) -> io::Result<()> {
    let seeds = (target.seeds)();
    found.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    found.dedup();
    found.retain(|input| !seeds.contains(input));
    let mut bytes = Vec::new();
    for (number, input) in seeds.iter().chain(&found).enumerate() {
        if number >= seeds.len() && bytes.len() + 4 + input.len() > MOST_BYTES {
            break;
        }
        let length = u32::try_from(input.len()).map_err(io::Error::other)?;
        bytes.extend(length.to_le_bytes());
        bytes.extend(input);
    }
    fs::write(path(target.name), bytes)
}
