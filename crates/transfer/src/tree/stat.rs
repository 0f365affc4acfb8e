//! Results of stat(2), in the types of this crate.

use howdah_wire::{Kind, Special};
use rustix::fs::{FileType, Stat};

/// The kind of a file that cannot be copied, in words.
pub(crate) fn special(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "it is a FIFO",
        FileType::Socket => "it is a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "it is a device",
        _ => "it is neither file, folder nor link",
    }
}

/// The kind of an entry in the list of a dry run.
pub(super) fn kind_of(stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        _ => Kind::Special,
    }
}

/// The file type of a special file in stat(2).
pub(crate) fn of_special(kind: Special) -> FileType {
    match kind {
        Special::Fifo => FileType::Fifo,
        Special::Socket => FileType::Socket,
        Special::CharacterDevice => FileType::CharacterDevice,
        Special::BlockDevice => FileType::BlockDevice,
    }
}

pub(super) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Modification time in nanoseconds since 1970. A time outside 1677–2262 becomes the nearest of the two.
pub(crate) fn mtime_ns(stat: &Stat) -> i64 {
    let seconds = i128::from(stat.st_mtime);
    let ns = seconds * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// Whether a modification time is the first or the last that can be represented, and may stand for others beyond it.
pub(super) fn is_moved(mtime_ns: i64) -> bool {
    matches!(mtime_ns, i64::MIN | i64::MAX)
}
