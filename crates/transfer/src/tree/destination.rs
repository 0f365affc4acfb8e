//! A name in an open folder, and what files, folders and links get there: times, or another name until they are
//! complete.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use howdah_wire::printable;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use crate::error::TransferError;
use crate::tree::folding::{Folding, Naming, Within};
use crate::tree::reach::INSIDE;
use crate::tree::room::{Room, device_stays};
use crate::tree::stat::special;

/// A name in an open folder.
#[derive(Debug, Clone)]
pub struct Destination {
    /// The folder.
    pub folder: Arc<OwnedFd>,
    /// The name in it.
    pub name: Vec<u8>,
    /// The whole path, for messages.
    pub display: Vec<u8>,
    /// The folder into which its source is copied.
    pub top: Arc<OwnedFd>,
    /// What may go for it.
    pub room: Arc<Room>,
    /// What is known of names that are one.
    pub(super) folding: Arc<Folding>,
    /// The folder's path below the target's folder.
    pub(super) above: u64,
}

impl Destination {
    /// Begins to give the name. What it returns must live until that is done.
    pub(super) fn naming(&self) -> Naming<'_> {
        let within = Within::Open(self.folder.as_fd());
        self.folding
            .naming(self.above, within, &self.name, &self.display)
    }

    /// Removes an empty folder that has the name.
    ///
    /// # Errors
    /// [`TransferError::InTheWay`] when a folder stays there, or a device. [`TransferError::Refused`] when this copy has
    /// placed what is there under another name.
    pub(super) fn make_room(&self, naming: &mut Naming<'_>) -> Result<(), TransferError> {
        let (folder, name) = (&self.folder, self.name.as_slice());
        let Ok(there) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(());
        };
        naming.take()?;
        let made = match FileType::from_raw_mode(there.st_mode) {
            FileType::Directory => self.room.make_for_file(self),
            _ => device_stays(&there, &self.display).map_or(Ok(()), Err),
        };
        if made.is_err() {
            naming.give_back();
        }
        made
    }

    /// Renames `beside` to this name. What has this name is replaced, except a device or a folder that is not empty.
    ///
    /// # Errors
    /// Those of [`Self::make_room`], and [`TransferError::Refused`]. `beside` then stays.
    pub(super) fn replace_by(
        &self,
        beside: &[u8],
        naming: &mut Naming<'_>,
    ) -> Result<(), TransferError> {
        let (folder, name) = (&self.folder, self.name.as_slice());
        self.make_room(naming)?;
        rustix::fs::renameat(folder, beside, folder, name)
            .map_err(|error| self.not_placed("write", error))?;
        naming.placed();
        Ok(())
    }
}

/// Opens a folder in another one. Does not follow a symbolic link.
pub(crate) fn open_folder(folder: impl AsFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(folder, path, flags, Mode::empty(), INSIDE)
}

/// Opens a folder in another one. If something is mounted on it, the error is [`Errno::XDEV`].
pub(crate) fn open_unmounted(folder: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let within = INSIDE | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(folder, name, flags, Mode::empty(), within)
}

/// Opens a link or a special file with `O_PATH`, so that the call does not wait and starts no device. Does not follow
/// a symbolic link.
///
/// # Errors
/// When something else has the name.
pub(crate) fn open_as_path(
    folder: impl AsFd,
    name: &[u8],
    kind: FileType,
) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(folder, name, flags, Mode::empty(), INSIDE)?;
    let there = rustix::fs::fstat(&file)?;
    match FileType::from_raw_mode(there.st_mode) == kind {
        true => Ok(file),
        false => Err(Errno::EXIST),
    }
}

/// Gives an open file a name. Before Linux 6.10, only privileged processes can do that by descriptor. Others do it
/// through `/proc` (open(2), `O_TMPFILE`).
pub(crate) fn link_open(file: &OwnedFd, folder: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    /// Whether this process was refused and came through by `/proc`.
    static BY_PROC: AtomicBool = AtomicBool::new(false);
    if !BY_PROC.load(Ordering::Relaxed) {
        match rustix::fs::linkat(file, "", folder, name, AtFlags::EMPTY_PATH) {
            Err(Errno::NOENT | Errno::PERM) => {}
            other => return other,
        }
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let linked = rustix::fs::linkat(CWD, path, folder, name, AtFlags::SYMLINK_FOLLOW);
    if linked.is_ok() {
        BY_PROC.store(true, Ordering::Relaxed);
    }
    linked
}

/// Refuses to put anything in the place of a device, a FIFO or a socket.
pub(crate) fn refuse_special(there: &Stat, path: &[u8]) -> Result<(), TransferError> {
    match FileType::from_raw_mode(there.st_mode) {
        FileType::RegularFile | FileType::Directory | FileType::Symlink => Ok(()),
        kind => Err(TransferError::Here(format!(
            "cannot write {}: {}",
            printable(path),
            special(kind)
        ))),
    }
}

/// A modification time, and that of the last access as it is.
pub(crate) fn times(mtime_ns: i64) -> Timestamps {
    modified(Timespec {
        tv_sec: mtime_ns.div_euclid(1_000_000_000),
        tv_nsec: mtime_ns.rem_euclid(1_000_000_000),
    })
}

/// The same of this moment.
pub(crate) fn now() -> Timestamps {
    modified(Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    })
}

fn modified(last_modification: Timespec) -> Timestamps {
    let accessed = Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_OMIT,
    };
    Timestamps {
        last_access: accessed,
        last_modification,
    }
}

/// What stands between a name and what makes it a [`temporary_name`].
const TEMPORARY: &[u8] = b".howdah-";

/// A name beside `name` that no file of a user and of no other copy has. Process numbers alone are not enough,
/// because they are used again, and on other hosts.
pub(crate) fn temporary_name(name: &[u8]) -> Vec<u8> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let (process, now) = (std::process::id(), since_1970.as_nanos());
    let unique = format!("{process:x}-{now:x}-{count:x}");
    [
        b".",
        &name[..name.len().min(200)],
        TEMPORARY,
        unique.as_bytes(),
    ]
    .concat()
}

/// Whether a name is a [`temporary_name`].
pub(crate) fn is_temporary_name(name: &[u8]) -> bool {
    let Some(at) = name
        .windows(TEMPORARY.len())
        .rposition(|some| some == TEMPORARY)
    else {
        return false;
    };
    let numbers: Vec<_> = name[at + TEMPORARY.len()..]
        .split(|&byte| byte == b'-')
        .collect();
    let hexadecimal =
        |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    name.starts_with(b".") && numbers.len() == 3 && numbers.into_iter().all(hexadecimal)
}
