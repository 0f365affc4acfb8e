//! Both ends of a transfer in one thread: the state that the data plane keeps, without sockets, files and
//! clocks, over connections that a schedule delivers, cuts and damages.

use howdah_wire::Attributes;

mod end;
mod pipe;
mod receiver;
mod sender;
mod session;
mod streams;
pub mod transfer;

/// Why an end gives up, as one line.
type Fault = String;

/// What the far end gives the near end, which shows on each connection that it has it.
const TOKEN: [u8; 32] = [7; 32];

const ATTRIBUTES: Attributes = Attributes {
    mode: 0o755,
    mtime_ns: 1,
    owner: None,
    xattrs: None,
};

/// The content of holes.
const ZEROS: u64 = u64::MAX;

/// What stands for the BLAKE3 value of a piece of `content`.
fn checksum(content: Option<u64>, offset: u64, len: u64) -> [u8; 32] {
    let content = content.map_or([1; 9], |content| {
        let mut bytes = [0; 9];
        bytes[1..].copy_from_slice(&content.to_le_bytes());
        bytes
    });
    let mut hasher = blake3::Hasher::new();
    hasher.update(&content);
    hasher.update(&offset.to_le_bytes());
    hasher.update(&len.to_le_bytes());
    *hasher.finalize().as_bytes()
}
