//! Flags of a file that chattr(1) sets, as far as a copy keeps them: those that say how programs treat a file. Flags
//! that say how a file system stores it belong to that file system. A file with a flag that forbids changes could not
//! be replaced later, so such flags are not kept either.

use serde::{Deserialize, Serialize};

/// Changes of the file are written at once (`S`; `FS_SYNC_FL` of `linux/fs.h`, as the others).
const SYNC: u32 = 0x8;
/// dump(8) leaves it out (`d`).
const NODUMP: u32 = 0x40;
/// The time of reading is not noted (`A`).
const NOATIME: u32 = 0x80;
/// Changes of the folder are written at once (`D`).
const DIRSYNC: u32 = 0x10000;

/// Which flags a file has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct FileFlags(u32);

/// A flag that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a flag of a file that is not kept")]
pub struct FlagError;

impl FileFlags {
    /// Each flag that is kept, as Linux numbers it.
    pub const EACH: [u32; 4] = [SYNC, NODUMP, NOATIME, DIRSYNC];

    /// Those of a file's flags that are kept.
    pub fn of(bits: u32) -> Self {
        Self(Self::EACH.iter().fold(0, |kept, flag| kept | bits & flag))
    }

    /// The flags as Linux numbers them.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether the file has none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl TryFrom<u32> for FileFlags {
    type Error = FlagError;

    fn try_from(bits: u32) -> Result<Self, FlagError> {
        let flags = Self::of(bits);
        (flags.bits() == bits).then_some(flags).ok_or(FlagError)
    }
}

impl From<FileFlags> for u32 {
    fn from(flags: FileFlags) -> Self {
        flags.bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_flag_is_said() {
        // Immutable (i), append only (a), nodump (d).
        let there = FileFlags::of(0x10 | 0x20 | 0x40);
        assert_eq!(there.bits(), NODUMP);
        assert_eq!(FileFlags::try_from(NODUMP | SYNC).map(u32::from), Ok(0x48));
        assert_eq!(FileFlags::try_from(0x10 | NODUMP), Err(FlagError));
        let bytes = postcard::to_allocvec(&0x50_u32).unwrap();
        assert!(postcard::from_bytes::<FileFlags>(&bytes).is_err());
    }
}
