//! Flags of files, as chattr(1) sets them. The sender reads them, and the receiver sets them. They are kept if
//! extended attributes are.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use howdah_wire::FileFlags;
use rustix::fs::{
    AtFlags, CWD, IFlags, Mode, OFlags, StatxAttributes, ioctl_getflags, ioctl_setflags,
};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::tree::xattrs::{Of, way};

/// Flags with which a file can be neither changed nor replaced. They are not kept.
const FIXED: IFlags = IFlags::IMMUTABLE.union(IFlags::APPEND);

/// Whether statx(2) reports a flag that forbids changes.
pub(super) fn is_fixed(attributes: StatxAttributes) -> bool {
    attributes.intersects(StatxAttributes::IMMUTABLE.union(StatxAttributes::APPEND))
}

/// The flags of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct There {
    /// Those that are kept.
    pub kept: FileFlags,
    /// Whether it has a flag that forbids changes.
    pub fixed: bool,
}

/// Reads flags of files. Opens no file on a file system without flags.
#[derive(Debug, Default)]
pub struct Flags {
    /// The devices of file systems without flags.
    without: Mutex<HashSet<u64>>,
}

impl Flags {
    /// The flags of a file; `None` if its file system has none, or they cannot be read.
    pub fn read(&self, of: Of<'_>) -> Option<There> {
        let stat = match of {
            Of::Open(file) | Of::Path(file) => rustix::fs::fstat(file),
            Of::Named(folder, name) => rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW),
        };
        let device = stat.ok()?.st_dev;
        if lock(&self.without).contains(&device) {
            return None;
        }
        let got = get(of);
        if got.is_err_and(is_none) {
            lock(&self.without).insert(device);
        }
        let flags = got.ok()?;
        Some(There {
            kept: FileFlags::of(flags.bits()),
            fixed: flags.intersects(FIXED),
        })
    }
}

fn get(of: Of<'_>) -> Result<IFlags, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open: OwnedFd = match of {
        Of::Open(file) => return ioctl_getflags(file),
        Of::Named(folder, name) => {
            rustix::fs::openat(folder, name, flags | OFlags::NOFOLLOW, Mode::empty())?
        }
        Of::Path(file) => rustix::fs::openat(CWD, way(file, b""), flags, Mode::empty())?,
    };
    ioctl_getflags(&open)
}

/// Whether an error means that the file system has no flags, or lacks this one.
pub fn is_none(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL
    )
}

/// Sets these flags of an open file, as far as its file system has them, and clears the others of those that are
/// kept.
///
/// # Errors
/// The first error in setting or clearing one of them.
pub fn give(file: impl AsFd, wanted: FileFlags) -> Result<(), Errno> {
    let mut there = ioctl_getflags(&file)?;
    let mut given = Ok(());
    for flag in FileFlags::EACH.map(IFlags::from_bits_retain) {
        let wants = wanted.bits() & flag.bits() != 0;
        if there.intersects(flag) == wants {
            continue;
        }
        let mut next = there;
        next.set(flag, wants);
        match ioctl_setflags(&file, next) {
            Ok(()) => there = next,
            Err(error) => given = given.and(Err(error)),
        }
    }
    given
}
