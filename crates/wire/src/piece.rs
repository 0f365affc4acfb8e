//! Pieces, which follow the greeting on a data stream. Each is a header and its payload.
//!
//! A piece needs no other piece: it names its file, its place in it and the file's attributes. So
//! pieces may take any stream in any order. A piece of a file is a subtree of the file's BLAKE3
//! tree (see `blake3::hazmat`): digests of pieces join to the digest of the file without a second
//! look at the content.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::frame::postcard_bytes;
use crate::keep::{Owner, Special};
use crate::limits::{MAX_HEADER_BYTES, MAX_PIECE_BYTES, MAX_PIPED_BYTES, MIN_BLOCK_BYTES};
use crate::path::{LinkTarget, TreePath};
use crate::span::Span;
use crate::tally::Totals;
use crate::xattrs::Xattrs;

/// Length of the length that precedes a header, little-endian, in bytes.
pub const HEADER_LENGTH_BYTES: usize = 2;
/// Length of the check at the end of a header, in bytes: the first ones of the BLAKE3 digest of what is before it.
const CHECK_BYTES: usize = 8;

const MAX_MODE: u32 = 0o7777;

/// Why bytes are not a piece, or why the piece may not come now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PieceError {
    /// The greeting of a stream is missing or names no stream of the plan.
    #[error("a data stream does not start as one")]
    Greeting,
    /// A header longer than [`MAX_HEADER_BYTES`].
    #[error("a piece's header of {0} bytes is longer than allowed")]
    TooLong(usize),
    /// A header that cannot be read, or whose numbers contradict each other.
    #[error("a piece's header is malformed")]
    Malformed,
    /// A header or a verdict changed on its way. On an encrypted stream the encryption detects that first. A
    /// plaintext stream has only this check.
    #[error("a checksum does not match; bytes were damaged on the way")]
    Damaged,
    /// A piece after the end, or an end whose counts do not match what arrived.
    #[error("a data stream does not tally")]
    Tally,
}

/// What a file or folder keeps beside its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Permission bits.
    pub mode: u32,
    /// Modification time, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Its user and group, if they are kept.
    pub owner: Option<Arc<Owner>>,
    /// Its extended attributes, if they are kept and can be read.
    pub xattrs: Option<Arc<Xattrs>>,
}

impl Attributes {
    /// Whether a file can have these attributes.
    pub(crate) fn is_sound(&self) -> bool {
        self.mode <= MAX_MODE
            && self.owner.as_ref().is_none_or(|owner| owner.is_sound())
            && self.xattrs.as_ref().is_none_or(|xattrs| xattrs.is_sound())
    }
}

/// A part of a file, or all of it. Its payload, a [`crate::Verdict`] and a [`Checksum`] follow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePiece {
    /// Number of the file, the same in all its pieces.
    pub file: u64,
    /// Index of the source it belongs to.
    pub source: u16,
    /// Its path below that source.
    pub path: TreePath,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its size in bytes.
    pub size: u64,
    /// Where this piece starts in the file, in bytes.
    pub offset: u64,
    /// Payload that follows the header, in bytes.
    pub len: u64,
}

/// The sender's hash of what it read: the BLAKE3 digest of the file if the piece is the whole file, else the chaining
/// value of the subtree at its offset. Encryption protects the bytes on the wire alone. This also protects them
/// inside both ends.
pub type Checksum = [u8; 32];

impl FilePiece {
    /// Which part of the file it is.
    pub fn span(&self) -> Span {
        Span {
            offset: self.offset,
            len: self.len,
        }
    }

    /// Whether the piece is the whole file.
    pub fn is_whole(&self) -> bool {
        self.len == self.size
    }

    /// What it counts.
    pub fn totals(&self) -> Totals {
        Totals {
            bytes: self.len,
            files: u64::from(self.offset == 0),
            ..Totals::default()
        }
    }

    /// What it counts if it is a hole, which has no payload.
    pub fn hole_totals(&self) -> Totals {
        Totals {
            hole_bytes: self.len,
            files: u64::from(self.offset == 0),
            ..Totals::default()
        }
    }

    fn is_sound(&self) -> bool {
        let Some(end) = self.offset.checked_add(self.len) else {
            return false;
        };
        let last = end == self.size;
        let subtree = self.len >= MIN_BLOCK_BYTES && self.len.is_power_of_two();
        self.attributes.is_sound()
            && self.len <= MAX_PIECE_BYTES
            && end <= self.size
            && (self.is_whole() || self.len > 0 && (subtree || last))
            && self.offset.is_multiple_of(self.len.next_power_of_two())
            && self.offset.is_multiple_of(MIN_BLOCK_BYTES)
    }
}

/// A part of what is read from a pipe. The size of the whole is known only at its end. The payload and a [`Checksum`]
/// follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipedPiece {
    /// Where it starts, in bytes.
    pub offset: u64,
    /// Payload that follows the header, in bytes. It is 0 only if the pipe was empty.
    pub len: u64,
    /// Whether the pipe ends behind it.
    pub last: bool,
}

impl PipedPiece {
    /// Whether the piece is all that was read from the pipe.
    pub fn is_whole(&self) -> bool {
        self.last && self.offset == 0
    }

    /// What it counts.
    pub fn totals(&self) -> Totals {
        Totals {
            bytes: self.len,
            files: u64::from(self.offset == 0),
            ..Totals::default()
        }
    }

    fn is_sound(&self) -> bool {
        let subtree = self.len >= MIN_BLOCK_BYTES && self.len.is_power_of_two();
        self.offset.checked_add(self.len).is_some()
            && self.len <= MAX_PIPED_BYTES
            && (subtree || self.last)
            && (self.len > 0 || self.is_whole())
            && self.offset.is_multiple_of(self.len.next_power_of_two())
            && self.offset.is_multiple_of(MIN_BLOCK_BYTES)
    }
}

/// The header of a piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Piece {
    /// Part of a regular file.
    File(FilePiece),
    /// A folder.
    Folder {
        /// Index of the source it belongs to.
        source: u16,
        /// Its path below that source.
        path: TreePath,
        /// Its attributes.
        attributes: Attributes,
    },
    /// A symbolic link.
    Link {
        /// Index of the source it belongs to.
        source: u16,
        /// Its path below that source.
        path: TreePath,
        /// Where it points.
        target: LinkTarget,
        /// Its modification time, in nanoseconds since 1970.
        mtime_ns: i64,
        /// Its user and group, if they are kept.
        owner: Option<Arc<Owner>>,
        /// Its extended attributes, if they are kept and can be read.
        xattrs: Option<Arc<Xattrs>>,
    },
    /// Attributes for a file that is not sent, because the receiver has one of this size and time.
    Attributes {
        /// Index of the source it belongs to.
        source: u16,
        /// Its path below that source.
        path: TreePath,
        /// Its size in bytes.
        size: u64,
        /// Its attributes.
        attributes: Attributes,
    },
    /// A device, a FIFO or a socket.
    Special {
        /// Index of the source it belongs to.
        source: u16,
        /// Its path below that source.
        path: TreePath,
        /// Its attributes.
        attributes: Attributes,
        /// What it is.
        kind: Special,
        /// The major and the minor number of a device.
        device: (u32, u32),
    },
    /// Another name of a file (a hard link). The receiver makes it when all files have their first names, and only if
    /// the first name is a file of that size and time.
    HardLink {
        /// Index of the source that the name belongs to.
        source: u16,
        /// Its path below that source.
        path: TreePath,
        /// Index of the source that the file's first name belongs to.
        first_source: u16,
        /// The path of the first name below that source.
        first: TreePath,
        /// Size of the file in bytes.
        size: u64,
        /// Its modification time, in nanoseconds since 1970.
        mtime_ns: i64,
    },
    /// Payload of a memory-to-memory transfer. It belongs to no file. It has no checksum, so that the measurement
    /// does not include hashing.
    Memory {
        /// Payload that follows the header, in bytes.
        len: u64,
    },
    /// The end of this stream, with the counts of what it carried.
    End(Totals),
    /// A part of a regular file that the receiver may already have, to be compared. It has no payload. A
    /// [`crate::Verdict`] and a [`Checksum`] follow it.
    There(FilePiece),
    /// A part of what the sender reads from its pipe.
    Piped(PipedPiece),
    /// The sender's pipe has ended. Only now does the receiver give its file its name.
    Sealed {
        /// Bytes that were read from it in all.
        size: u64,
        /// BLAKE3 of all that.
        blake3: Checksum,
        /// What the file gets.
        attributes: Attributes,
    },
    /// A hole in a regular file, or a file that is one hole. The zeros are not sent. A [`crate::Verdict`] and the
    /// [`Checksum`] of the zeros follow it.
    Hole(FilePiece),
}

impl Piece {
    /// Appends the header with its length to `out`.
    ///
    /// # Errors
    /// [`PieceError::TooLong`] when it is longer than a peer accepts.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), PieceError> {
        let body = postcard_bytes(self).map_err(|_| PieceError::Malformed)?;
        let header_bytes = body.len() + CHECK_BYTES;
        let len = u16::try_from(header_bytes).map_err(|_| PieceError::TooLong(header_bytes))?;
        if header_bytes > MAX_HEADER_BYTES {
            return Err(PieceError::TooLong(header_bytes));
        }
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&body);
        out.extend_from_slice(&Self::check(&body));
        Ok(())
    }

    /// The length of its paths together, in bytes.
    pub fn name_bytes(&self) -> usize {
        let (path, other) = match self {
            Self::File(piece) | Self::There(piece) | Self::Hole(piece) => (&piece.path, 0),
            Self::Link { path, target, .. } => (path, target.as_bytes().len()),
            Self::HardLink { path, first, .. } => (path, first.as_bytes().len()),
            Self::Folder { path, .. }
            | Self::Attributes { path, .. }
            | Self::Special { path, .. } => (path, 0),
            Self::Memory { .. } | Self::End(_) | Self::Piped(_) | Self::Sealed { .. } => return 0,
        };
        path.as_bytes().len() + other
    }

    /// Length of the header that follows its encoded length.
    ///
    /// # Errors
    /// [`PieceError::TooLong`] when it is longer than allowed.
    pub fn header_len(length: [u8; HEADER_LENGTH_BYTES]) -> Result<usize, PieceError> {
        let len = usize::from(u16::from_le_bytes(length));
        if len > MAX_HEADER_BYTES {
            Err(PieceError::TooLong(len))
        } else {
            Ok(len)
        }
    }

    /// The check at the end of a header, computed over all bytes before it.
    pub fn check(body: &[u8]) -> [u8; CHECK_BYTES] {
        let mut check = [0; CHECK_BYTES];
        check.copy_from_slice(&blake3::hash(body).as_bytes()[..CHECK_BYTES]);
        check
    }

    /// The piece that a header describes.
    ///
    /// # Errors
    /// [`PieceError::Damaged`] when the header does not match its check, [`PieceError::Malformed`] when it cannot be
    /// read or contradicts itself.
    pub fn decode(header: &[u8]) -> Result<Self, PieceError> {
        let (body, check) = header.split_last_chunk().ok_or(PieceError::Malformed)?;
        if *check != Self::check(body) {
            return Err(PieceError::Damaged);
        }
        let piece = match postcard::take_from_bytes(body) {
            Ok((piece, [])) => piece,
            _ => return Err(PieceError::Malformed),
        };
        let sound = match &piece {
            Self::File(file) => file.is_sound(),
            Self::There(file) => file.is_sound() && !file.is_whole(),
            Self::Hole(file) => file.is_sound() && file.len > 0,
            Self::Piped(piped) => piped.is_sound(),
            Self::Memory { len } => (1..=MAX_PIECE_BYTES).contains(len),
            Self::Folder { attributes, .. }
            | Self::Special { attributes, .. }
            | Self::Sealed { attributes, .. }
            | Self::Attributes { attributes, .. } => attributes.is_sound(),
            Self::Link { owner, xattrs, .. } => {
                owner.as_ref().is_none_or(|owner| owner.is_sound())
                    && xattrs.as_ref().is_none_or(|xattrs| xattrs.is_sound())
            }
            Self::HardLink { .. } | Self::End(_) => true,
        };
        if sound {
            Ok(piece)
        } else {
            Err(PieceError::Malformed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keep::Account;
    use crate::limits::{MAX_ACCOUNT_BYTES, MAX_XATTRS_BYTES};
    use crate::tally::StreamTally;
    use crate::xattrs::{AccountNames, Xattr};
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn file(size: u64, offset: u64, len: u64) -> Piece {
        Piece::File(FilePiece {
            file: 7,
            source: 0,
            path: TreePath::try_from(b"a/b".to_vec()).unwrap(),
            attributes: Attributes {
                mode: 0o644,
                mtime_ns: -1,
                owner: None,
                xattrs: None,
            },
            size,
            offset,
            len,
        })
    }

    fn encoded(piece: &Piece) -> Vec<u8> {
        let mut bytes = Vec::new();
        piece.encode(&mut bytes).unwrap();
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Piece, PieceError> {
        let (length, header) = bytes.split_first_chunk().unwrap();
        assert_eq!(Piece::header_len(*length).unwrap(), header.len());
        Piece::decode(header)
    }

    #[test]
    fn accepts_whole_files_and_subtrees() {
        for (size, offset, len) in [
            (0, 0, 0),
            (10, 0, 10),
            (5 * MIB, 0, 5 * MIB),
            (5 * MIB, 4 * MIB, MIB),
            (5 * MIB + 1, 4 * MIB, MIB + 1),
            (9 * MIB, 4 * MIB, 4 * MIB),
        ] {
            let piece = file(size, offset, len);
            assert_eq!(decode(&encoded(&piece)), Ok(piece));
        }
    }

    #[test]
    fn refuses_contradictions() {
        for (size, offset, len) in [
            (10, 0, 5),
            (10, 5, 5),
            (10, 0, 11),
            (5 * MIB, 0, 3 * MIB),
            (8 * MIB, 2 * MIB, 4 * MIB),
            (8 * MIB, MIB, 7 * MIB),
            (4 * MIB, 4 * MIB, 0),
            (u64::MAX, u64::MAX - 3, 8),
            (u64::MAX, 0, u64::MAX),
        ] {
            let refused = decode(&encoded(&file(size, offset, len)));
            assert_eq!(refused, Err(PieceError::Malformed), "{size} {offset} {len}");
        }
    }

    #[test]
    fn a_hole_is_a_part_of_a_file_or_all_of_it_and_counts_as_no_payload() {
        let hole = |size, offset, len| match file(size, offset, len) {
            Piece::File(file) => Piece::Hole(file),
            other => other,
        };
        for (size, offset, len) in [
            (10, 0, 10),
            (5 * MIB, 4 * MIB, MIB),
            (1 << 50, 1 << 40, MAX_PIECE_BYTES),
        ] {
            let piece = hole(size, offset, len);
            assert_eq!(decode(&encoded(&piece)), Ok(piece.clone()));
            let mut tally = StreamTally::default();
            tally.accept(&piece).unwrap();
            let totals = Totals {
                hole_bytes: len,
                files: u64::from(offset == 0),
                ..Totals::default()
            };
            assert_eq!(tally.totals(), totals);
        }
        for (size, offset, len) in [
            (0, 0, 0),
            (10, 0, 11),
            (5 * MIB, 0, 3 * MIB),
            (4 * MIB, 4 * MIB, MIB),
            (1 << 50, 0, 2 * MAX_PIECE_BYTES),
        ] {
            let refused = decode(&encoded(&hole(size, offset, len)));
            assert_eq!(refused, Err(PieceError::Malformed), "{size} {offset} {len}");
        }
    }

    #[test]
    fn what_is_there_is_part_of_a_file_and_counts_as_no_payload() {
        let there = |size, offset, len| match file(size, offset, len) {
            Piece::File(file) => Piece::There(file),
            other => other,
        };
        let piece = there(5 * MIB, 4 * MIB, MIB);
        assert_eq!(decode(&encoded(&piece)), Ok(piece.clone()));
        for (size, offset, len) in [(5 * MIB, 0, 5 * MIB), (0, 0, 0), (8 * MIB, MIB, 7 * MIB)] {
            let refused = decode(&encoded(&there(size, offset, len)));
            assert_eq!(refused, Err(PieceError::Malformed), "{size} {offset} {len}");
        }
        let mut tally = StreamTally::default();
        tally.accept(&piece).unwrap();
        tally.accept(&Piece::End(Totals::default())).unwrap();
        assert_eq!(tally.accept(&piece), Err(PieceError::Tally));
    }

    #[test]
    fn owners_and_attributes_have_bounds() {
        let folder = |number: u32, name: &str, xattrs: Option<Xattrs>| {
            let account = |number| Account {
                number,
                name: Some(name.to_owned()),
            };
            Piece::Folder {
                source: 0,
                path: TreePath::default(),
                attributes: Attributes {
                    mode: 0o755,
                    mtime_ns: 0,
                    owner: Some(Arc::new(Owner {
                        user: account(7),
                        group: account(number),
                    })),
                    xattrs: xattrs.map(Arc::new),
                },
            }
        };
        let most = Xattrs::new(vec![Xattr {
            name: b"user.x".to_vec(),
            value: vec![7; MAX_XATTRS_BYTES - 14],
        }]);
        let longest = "x".repeat(MAX_ACCOUNT_BYTES);
        let account = |number| Account {
            number,
            name: Some(longest.clone()),
        };
        let count = MAX_XATTRS_BYTES / (MAX_ACCOUNT_BYTES + 8);
        let names = AccountNames {
            users: Vec::new(),
            groups: (0..count as u32)
                .map(|number| account(u32::MAX - 1000 + number))
                .collect(),
        };
        let named = Xattrs::with_names(Vec::new(), names.clone());
        for most in [most, named] {
            let fits = folder(8, &longest, Some(most.unwrap()));
            assert_eq!(decode(&encoded(&fits)), Ok(fits));
        }
        let strange = AccountNames {
            users: vec![account(9), account(8)],
            ..names
        };
        let strange = Xattrs::unchecked(Vec::new(), strange);
        for wrong in [
            folder(u32::MAX, "me", None),
            folder(8, "", None),
            folder(8, "a\0b", None),
            folder(8, &"x".repeat(MAX_ACCOUNT_BYTES + 1), None),
            folder(8, "me", Some(strange)),
        ] {
            assert_eq!(decode(&encoded(&wrong)), Err(PieceError::Malformed));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_headers_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Piece::decode(&bytes);
        }

        #[test]
        fn a_flipped_bit_is_noticed(bit in 0usize..240) {
            let mut bytes = encoded(&file(9 * MIB, 4 * MIB, 4 * MIB));
            let at = HEADER_LENGTH_BYTES + bit / 8 % (bytes.len() - HEADER_LENGTH_BYTES);
            bytes[at] ^= 1 << (bit % 8);
            let read = Piece::decode(&bytes[HEADER_LENGTH_BYTES..]);
            prop_assert_eq!(read, Err(PieceError::Damaged));
        }
    }
}
