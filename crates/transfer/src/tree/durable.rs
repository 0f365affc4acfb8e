//! Puts what was written on stable storage: content of files, then names in folders.
//!
//! A file gets its name only after its content is on stable storage, so a name never stands for
//! bytes that a power cut can take away. Many small files share one flush of their file system
//! (`syncfs`), because a flush each would cost a disk some milliseconds each.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::tree::draft::Draft;

/// From this many files of one file system on, one `syncfs` replaces a `fdatasync` each.
const SYNC_ALL_FROM_FILES: usize = 8;
/// `f_type` of ext4, XFS, btrfs and tmpfs (linux/magic.h), whose files have no `flush` (fs/ext4/file.c, fs/xfs/xfs_file.c,
/// fs/btrfs/file.c, mm/shmem.c).
const WITHOUT_FLUSH: [i64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994];
/// Folders that are flushed one by one at the end. With more of them whole file systems are flushed,
/// which also waits for what other programs have written there.
const MAX_FOLDERS: usize = 64;

/// Flushes the content of files if `sync` says so, and checks what closing them reports.
///
/// # Errors
/// When the storage has lost bytes of one of them; it is named.
pub fn finish_writing(files: &[&Draft], sync: bool) -> Result<(), TransferError> {
    for files in by_system(files)? {
        if sync {
            flush(&files)?;
        }
        if says_nothing_at_close(files[0].descriptor()) {
            continue;
        }
        for file in files {
            close_again(file.descriptor()).map_err(|error| file.lost(error))?;
        }
    }
    Ok(())
}

/// The files of each file system. Each is in the file system of its folder, and those of one folder come one behind
/// the other.
fn by_system<'a>(files: &[&'a Draft]) -> Result<Vec<Vec<&'a Draft>>, TransferError> {
    let mut systems: BTreeMap<u64, Vec<&Draft>> = BTreeMap::new();
    let mut before: Option<(&Arc<OwnedFd>, u64)> = None;
    for &file in files {
        let folder = &file.destination().folder;
        let device = match before {
            Some((same, device)) if Arc::ptr_eq(same, folder) => device,
            _ => {
                let stat = rustix::fs::fstat(folder).map_err(|error| file.lost(error))?;
                stat.st_dev
            }
        };
        before = Some((folder, device));
        systems.entry(device).or_default().push(file);
    }
    Ok(systems.into_values().collect())
}

/// Flushes files of one file system.
fn flush(files: &[&Draft]) -> Result<(), TransferError> {
    let flushed =
        files.len() >= SYNC_ALL_FROM_FILES && rustix::fs::syncfs(files[0].descriptor()).is_ok();
    if !flushed {
        // Also after a flush that failed: the failure may be another program's.
        for file in files {
            rustix::fs::fdatasync(file.descriptor()).map_err(|error| file.lost(error))?;
        }
    }
    Ok(())
}

/// Whether a file is on a file system that has nothing to do, and so to report, when one is closed.
fn says_nothing_at_close(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|system| WITHOUT_FLUSH.contains(&system.f_type))
}

/// Has the file system report what it reports only when a file is closed, as network file systems do:
/// each descriptor of a file that is closed is one (`flush` in the kernel's vfs.rst).
fn close_again(file: BorrowedFd<'_>) -> io::Result<()> {
    let again = rustix::io::fcntl_dupfd_cloexec(file, 0)?;
    // SAFETY: the descriptor was owned here, and nobody uses it after this.
    match unsafe { libc::close(again.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The folders in which names have changed and are not on stable storage yet.
#[derive(Debug, Default)]
pub struct Unflushed(Mutex<Changed>);

#[derive(Debug, Default)]
struct Changed {
    /// By device and inode.
    few: BTreeMap<(u64, u64), Folder>,
    /// File systems of those beyond the few, by device.
    systems: BTreeMap<u64, Folder>,
    /// The folder that was noted last, for itself and for its file system: many files in a row are of one.
    last: [Option<Arc<OwnedFd>>; 2],
}

#[derive(Debug, Clone)]
struct Folder {
    descriptor: Arc<OwnedFd>,
    display: Vec<u8>,
}

impl Unflushed {
    /// Notes that names or attributes in a folder, or its own, have changed.
    ///
    /// # Errors
    /// When the folder cannot be asked what it is.
    pub fn note(&self, descriptor: &Arc<OwnedFd>, display: &[u8]) -> Result<(), TransferError> {
        self.add(descriptor, display, MAX_FOLDERS)
    }

    /// Notes a file system on which names must be stable that others may have made.
    ///
    /// # Errors
    /// When the folder cannot be asked what it is.
    pub fn note_system(
        &self,
        descriptor: &Arc<OwnedFd>,
        display: &[u8],
    ) -> Result<(), TransferError> {
        self.add(descriptor, display, 0)
    }

    fn add(
        &self,
        descriptor: &Arc<OwnedFd>,
        display: &[u8],
        most: usize,
    ) -> Result<(), TransferError> {
        let changed = &mut *lock(&self.0);
        let last = &mut changed.last[usize::from(most == 0)];
        if last
            .as_ref()
            .is_some_and(|last| Arc::ptr_eq(last, descriptor))
        {
            return Ok(());
        }
        let stat = rustix::fs::fstat(descriptor).map_err(|error| lost(display, error))?;
        *last = Some(Arc::clone(descriptor));
        let key = (stat.st_dev, stat.st_ino);
        if changed.systems.contains_key(&key.0) || most > 0 && changed.few.contains_key(&key) {
            return Ok(());
        }
        let folder = Folder {
            descriptor: Arc::clone(descriptor),
            display: display.to_vec(),
        };
        if changed.few.len() < most {
            changed.few.insert(key, folder);
        } else {
            changed.few.retain(|(device, _), _| *device != key.0);
            changed.systems.insert(key.0, folder);
        }
        Ok(())
    }

    /// Flushes all that was noted.
    ///
    /// # Errors
    /// When the storage refuses; [`TransferError::Cancelled`] when `stop` says so.
    pub fn flush(&self, stop: impl Fn() -> bool) -> Result<(), TransferError> {
        let Changed { few, systems, .. } = std::mem::take(&mut *lock(&self.0));
        for folder in few.values() {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            match rustix::fs::fsync(&folder.descriptor) {
                // Some file systems flush no single folder.
                Err(Errno::INVAL) => rustix::fs::syncfs(&folder.descriptor),
                other => other,
            }
            .map_err(|error| lost(&folder.display, error))?;
        }
        for folder in systems.values() {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            rustix::fs::syncfs(folder.descriptor.as_fd())
                .map_err(|error| lost(&folder.display, error))?;
        }
        Ok(())
    }
}

/// What was written may not outlive a power cut.
pub(crate) fn lost(path: &[u8], error: impl Into<io::Error>) -> TransferError {
    TransferError::path("put on stable storage", path, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn open(path: &std::path::Path) -> Arc<OwnedFd> {
        Arc::new(fs::File::open(path).unwrap().into())
    }

    #[test]
    fn a_few_folders_are_flushed_alone_and_many_as_their_file_system() {
        let base = tempfile::tempdir().unwrap();
        let unflushed = Unflushed::default();
        let count = || {
            let changed = lock(&unflushed.0);
            (changed.few.len(), changed.systems.len())
        };
        for number in 0..=MAX_FOLDERS {
            assert_eq!(count(), (number, 0));
            let folder = base.path().join(number.to_string());
            fs::create_dir(&folder).unwrap();
            for _ in 0..2 {
                unflushed.note(&open(&folder), b"folder").unwrap();
            }
        }
        assert_eq!(count(), (0, 1));
        unflushed.flush(|| false).unwrap();
        assert_eq!(count(), (0, 0));
    }

    #[test]
    fn a_file_system_is_flushed_also_where_one_of_its_folders_is_known() {
        let base = tempfile::tempdir().unwrap();
        let folder = open(base.path());
        let unflushed = Unflushed::default();
        unflushed.note(&folder, b"folder").unwrap();
        unflushed.note_system(&folder, b"folder").unwrap();
        let changed = lock(&unflushed.0);
        assert_eq!((changed.few.len(), changed.systems.len()), (0, 1));
    }
}
