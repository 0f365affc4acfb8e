//! Puts data on stable storage: content of files, then names in folders.
//!
//! A file gets its name only after its content is on stable storage. So a power cut never takes bytes away from a
//! file that has its name. Many small files share one flush of their file system (`syncfs`), because a flush of each
//! file takes a disk some milliseconds.
//!
//! Linux reports lost bytes once to each open file description that is older than the loss. That applies to a file
//! (`fsync`) and to its file system (`syncfs`) alike (Documentation/core-api/errseq.rst, fs/sync.c). A younger
//! description gets no report if another one has got it already.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::{Arc, LazyLock, Mutex};

use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::tree::draft::Draft;

/// From this many files of one file system on, one `syncfs` replaces a `fdatasync` each.
const SYNC_ALL_FROM_FILES: usize = 8;
/// `f_type` of ext4, XFS, btrfs and tmpfs (linux/magic.h). Their `syncfs` puts all on stable storage. Their files have no
/// `flush`, which `close` would call (fs/ext4/file.c, fs/xfs/xfs_file.c, fs/btrfs/file.c, mm/shmem.c). Others may leave
/// what a server holds where it is (FUSE, SMB), or tell nothing of what was lost (overlayfs).
const LOCAL: [i64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994];
/// The same of NFS and overlayfs, whose `syncfs` puts all on stable storage too.
const FLUSHED_AS_ONE: [i64; 2] = [0x6969, 0x794c_7630];
/// The first Linux whose `syncfs` reports lost bytes (commit 735e4ae5ba28).
const SYNCFS_REPORTS_FROM: (u32, u32) = (5, 8);
/// Folders that are flushed one by one at the end. With more of them whole local file systems are flushed,
/// which also waits for what other programs have written there.
const MAX_FOLDERS: usize = 64;

/// Flushes the content of files if `sync` is true, and checks the result of closing them.
///
/// # Errors
/// When the storage has lost bytes of a file. The error names it.
pub fn finish_writing(files: &[&Draft], sync: bool) -> Result<(), TransferError> {
    for files in by_system(files)? {
        let is_local = is_local(files[0].descriptor());
        if sync {
            flush(&files, is_local && *SYNCFS_REPORTS)?;
        }
        if is_local {
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

/// A file that was written, as those see it who flush it.
trait Written {
    /// Its place in the order in which files were opened, each before anything was written to it.
    fn opened(&self) -> u64;
    /// Whether some of it was written before it was opened.
    fn goes_on(&self) -> bool;
    /// Flushes all of its file system.
    fn sync_system(&self) -> Result<(), Errno>;
    /// Flushes it alone.
    fn sync(&self) -> Result<(), TransferError>;
}

impl Written for &Draft {
    fn opened(&self) -> u64 {
        Draft::opened(self)
    }

    fn goes_on(&self) -> bool {
        Draft::goes_on(self)
    }

    fn sync_system(&self) -> Result<(), Errno> {
        rustix::fs::syncfs(self.descriptor())
    }

    fn sync(&self) -> Result<(), TransferError> {
        rustix::fs::fdatasync(self.descriptor()).map_err(|error| self.lost(error))
    }
}

/// Flushes files of one file system; `reports` says whether its `syncfs` reports lost bytes.
fn flush(files: &[impl Written], reports: bool) -> Result<(), TransferError> {
    let together = reports && files.len() >= SYNC_ALL_FROM_FILES;
    let oldest = files.iter().min_by_key(|file| file.opened());
    // The oldest is told of whatever was lost since anything was written to one of them.
    let flushed = together && oldest.is_some_and(|oldest| oldest.sync_system().is_ok());
    for file in files {
        // Also after a flush that failed: the failure may be another program's.
        if !flushed || file.goes_on() {
            file.sync()?;
        }
    }
    Ok(())
}

/// Whether this kernel's `syncfs` reports lost bytes.
static SYNCFS_REPORTS: LazyLock<bool> =
    LazyLock::new(|| syncfs_reports(&rustix::system::uname().release().to_string_lossy()));

/// The same of the kernel of that release, such as `6.1.0-13-amd64`.
fn syncfs_reports(release: &str) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|digits| digits.parse().ok());
    (next().unwrap_or(0), next().unwrap_or(0)) >= SYNCFS_REPORTS_FROM
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

/// The folders with changed names that are not on stable storage yet.
#[derive(Debug, Default)]
pub struct Unflushed(Mutex<Changed>);

#[derive(Debug, Default)]
struct Changed {
    /// By device and inode.
    few: BTreeMap<(u64, u64), Folder>,
    /// File systems of those beyond the few, by device.
    systems: BTreeMap<u64, Folder>,
    /// What is known of file systems, by device.
    kinds: BTreeMap<u64, Kind>,
    /// How many folders were noted.
    noted: u64,
    /// The folder that was noted last: many files in a row are of one.
    last: Option<Arc<OwnedFd>>,
}

impl Changed {
    /// Has a file system flushed as a whole, by what was opened first on it, because that is told of most.
    fn add_system(&mut self, device: u64, folder: Folder) {
        let mut first = folder;
        if self.kinds.get(&device).is_some_and(|kind| kind.local) {
            self.few.retain(|(of, _), other| {
                if *of == device && other.noted < first.noted {
                    first = other.clone();
                }
                *of != device
            });
        }
        self.systems.insert(device, first);
    }
}

/// What is known of a file system.
#[derive(Debug, Clone, Copy)]
struct Kind {
    /// Whether it is one of those [`LOCAL`].
    local: bool,
    /// Whether a flush of all of it leaves nothing out.
    as_one: bool,
}

impl Kind {
    fn of(something: impl AsFd) -> Self {
        let kind = rustix::fs::fstatfs(something).map(|system| system.f_type);
        let local = kind.is_ok_and(|kind| LOCAL.contains(&kind));
        Self {
            local,
            as_one: local || kind.is_ok_and(|kind| FLUSHED_AS_ONE.contains(&kind)),
        }
    }
}

/// Whether a file system is one of those [`LOCAL`].
pub(super) fn is_local(something: impl AsFd) -> bool {
    Kind::of(something).local
}

#[derive(Debug, Clone)]
struct Folder {
    /// The folder, or something else of a file system.
    descriptor: Arc<OwnedFd>,
    display: Vec<u8>,
    /// How many were noted before it.
    noted: u64,
}

impl Folder {
    fn flush(&self) -> Result<(), TransferError> {
        match rustix::fs::fsync(&self.descriptor) {
            // Some file systems flush no single folder.
            Err(Errno::INVAL) => rustix::fs::syncfs(&self.descriptor),
            other => other,
        }
        .map_err(|error| lost(&self.display, error))
    }
}

impl Unflushed {
    /// Notes that names or attributes in a folder, or its own attributes, have changed. If the file system cannot be
    /// flushed as a whole and the list is full, the folder is flushed at once.
    ///
    /// # Errors
    /// When the folder cannot be examined, or the storage fails.
    pub fn note(&self, descriptor: &Arc<OwnedFd>, display: &[u8]) -> Result<(), TransferError> {
        let changed = &mut *lock(&self.0);
        let last = &changed.last;
        if last
            .as_ref()
            .is_some_and(|last| Arc::ptr_eq(last, descriptor))
        {
            return Ok(());
        }
        let stat = rustix::fs::fstat(descriptor).map_err(|error| lost(display, error))?;
        let key = (stat.st_dev, stat.st_ino);
        let kinds = &mut changed.kinds;
        let local = kinds
            .entry(key.0)
            .or_insert_with(|| Kind::of(descriptor))
            .local;
        changed.last = Some(Arc::clone(descriptor));
        if local && changed.systems.contains_key(&key.0) || changed.few.contains_key(&key) {
            return Ok(());
        }
        let folder = Folder {
            descriptor: Arc::clone(descriptor),
            display: display.to_vec(),
            noted: changed.noted,
        };
        changed.noted += 1;
        if changed.few.len() >= MAX_FOLDERS && !local {
            let full = std::mem::take(&mut changed.few);
            full.values().try_for_each(Folder::flush)?;
        }
        if changed.few.len() < MAX_FOLDERS {
            changed.few.insert(key, folder);
            return Ok(());
        }
        changed.add_system(key.0, folder);
        Ok(())
    }

    /// Notes the file system of that device. Something on it that other programs may have written must become stable.
    /// `open` opens something on it. Returns whether the file system can be flushed as a whole. If so, nothing else
    /// is needed.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn note_system(
        &self,
        device: u64,
        display: &[u8],
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> Result<bool, Errno> {
        let changed = &mut *lock(&self.0);
        let noted = changed.systems.contains_key(&device);
        match changed.kinds.get(&device) {
            Some(kind) if noted || !kind.as_one => return Ok(kind.as_one),
            _ => {}
        }
        let something = open()?;
        let kinds = &mut changed.kinds;
        let kind = *kinds.entry(device).or_insert_with(|| Kind::of(&something));
        if kind.as_one {
            let folder = Folder {
                descriptor: Arc::new(something),
                display: display.to_vec(),
                noted: changed.noted,
            };
            changed.noted += 1;
            changed.add_system(device, folder);
        }
        Ok(kind.as_one)
    }

    /// Flushes all that was noted.
    ///
    /// # Errors
    /// When the storage fails; [`TransferError::Cancelled`] when `stop` returns true.
    pub fn flush(&self, stop: impl Fn() -> bool) -> Result<(), TransferError> {
        let Changed { few, systems, .. } = std::mem::take(&mut *lock(&self.0));
        for folder in few.values() {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            folder.flush()?;
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

/// The error that data may not survive a power cut.
pub(crate) fn lost(path: &[u8], error: impl Into<io::Error>) -> TransferError {
    TransferError::path("put on stable storage", path, error)
}

#[cfg(test)]
#[path = "durable_tests.rs"]
mod tests;
