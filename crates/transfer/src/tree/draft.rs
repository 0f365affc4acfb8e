//! A file that has no name, or not its own, until it is complete.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use howdah_wire::{Attributes, printable};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::tree::destination::{Destination, set_attributes, temporary_name};
use crate::tree::durable::lost;
use crate::tree::source::INSIDE;

/// Files from this size on get their space before their content, so that a full disk shows early.
const PREALLOCATE_BYTES: u64 = 1 << 20;
/// From this size on a tmpfs file's pages are taken beside the streams.
const TAKE_PAGES_FROM_BYTES: u64 = 64 << 20;
/// Pages taken at a time, in bytes; writers wait meanwhile, some milliseconds.
const TAKE_PAGES_BYTES: u64 = 8 << 20;
/// `f_type` of a tmpfs (linux/magic.h), on which reserving is not quick: it takes all pages.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Only its owner may look into it until it is complete.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A file being written. Dropped before [`Self::give_name`], it leaves nothing behind.
#[derive(Debug)]
pub struct Draft {
    destination: Destination,
    file: OwnedFd,
    /// Its name beside the target, where the file system has no unnamed files.
    beside: Mutex<Option<Vec<u8>>>,
    /// Writers of one file take turns here, asleep. The kernel has them take turns anyway, but
    /// lets them spin, which takes a core from the streams.
    turn: Mutex<()>,
}

impl Draft {
    /// Makes an empty draft for a file of `size` bytes.
    ///
    /// # Errors
    /// When there is no permission or no space for it.
    pub(crate) fn create(destination: Destination, size: u64) -> Result<Self, TransferError> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(&destination.folder, ".", flags, PRIVATE) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                Self::create_beside(destination, size)
            }
            Err(error) => Err(TransferError::path("write", &destination.display, error)),
            Ok(file) => Self::begin(destination, file, None, size),
        }
    }

    /// The same with a name beside the target, which any file system can.
    pub(crate) fn create_beside(
        destination: Destination,
        size: u64,
    ) -> Result<Self, TransferError> {
        let name = temporary_name(&destination.name);
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let flags = new | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::openat2(&destination.folder, name.as_slice(), flags, PRIVATE, INSIDE) {
            Err(error) => Err(TransferError::path("write", &destination.display, error)),
            Ok(file) => Self::begin(destination, file, Some(name), size),
        }
    }

    fn begin(
        destination: Destination,
        file: OwnedFd,
        beside: Option<Vec<u8>>,
        size: u64,
    ) -> Result<Self, TransferError> {
        let draft = Self {
            destination,
            file,
            beside: Mutex::new(beside),
            turn: Mutex::new(()),
        };
        if size >= PREALLOCATE_BYTES {
            draft.reserve(size)?;
        }
        Ok(draft)
    }

    /// The whole path it will have, for messages.
    pub fn display(&self) -> &[u8] {
        &self.destination.display
    }

    /// Writes `parts`, one behind the other, at `offset`.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write_at(
        &self,
        mut parts: &mut [IoSlice<'_>],
        mut offset: u64,
    ) -> Result<(), TransferError> {
        let _turn = lock(&self.turn);
        while !parts.is_empty() {
            match rustix::io::pwritev(&self.file, parts, offset) {
                Ok(0) => return Err(self.failed(Errno::NOSPC)),
                Ok(count) => {
                    IoSlice::advance_slices(&mut parts, count);
                    offset += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    /// Gives the complete file its attributes.
    ///
    /// # Errors
    /// When they are refused.
    pub fn complete(&self, attributes: Attributes) -> Result<(), TransferError> {
        set_attributes(&self.file, attributes).map_err(|error| self.failed(error))
    }

    /// The file itself.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The name it gets.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The storage has lost bytes of it.
    pub fn lost(&self, error: impl Into<io::Error>) -> TransferError {
        lost(&self.destination.display, error)
    }

    /// Gives the file its name, which must be complete and on stable storage; a file of that name is
    /// replaced.
    ///
    /// # Errors
    /// When the name is refused; nothing is left behind then.
    pub fn give_name(&self) -> Result<(), TransferError> {
        let name = self.destination.name.as_slice();
        let mut beside = lock(&self.beside);
        if beside.is_none() {
            match self.link(name) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(self.failed(error)),
            }
            let other = temporary_name(name);
            self.link(&other).map_err(|error| self.failed(error))?;
            *beside = Some(other);
        }
        if let Some(beside) = &*beside {
            self.destination.replace_by(beside)?;
        }
        *beside = None;
        Ok(())
    }

    /// Links the unnamed file. Linux before 6.10 lets only the privileged do that by descriptor,
    /// others through `/proc` (open(2), `O_TMPFILE`).
    fn link(&self, name: &[u8]) -> Result<(), Errno> {
        let folder = &self.destination.folder;
        match rustix::fs::linkat(&self.file, "", folder, name, AtFlags::EMPTY_PATH) {
            Err(Errno::NOENT | Errno::PERM) => {
                let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                rustix::fs::linkat(rustix::fs::CWD, path, folder, name, AtFlags::SYMLINK_FOLLOW)
            }
            other => other,
        }
    }

    fn reserve(&self, size: u64) -> Result<(), TransferError> {
        if let Ok(space) = rustix::fs::fstatvfs(&self.file) {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            if free < size {
                return Err(TransferError::Here(format!(
                    "no space left for {}: it has {size} bytes, {free} are free; make room and \
                     run the same command again, complete files are kept",
                    printable(&self.destination.display)
                )));
            }
        }
        if self.on_tmpfs() {
            // Where they fit into the file, tmpfs may then give huge pages (huge=within_size).
            return rustix::fs::ftruncate(&self.file, size).map_err(|error| self.failed(error));
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, size) {
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(self.failed(error)),
            // Not every file system can; then a full disk shows when it is full.
            _ => Ok(()),
        }
    }

    fn on_tmpfs(&self) -> bool {
        rustix::fs::fstatfs(&self.file).is_ok_and(|system| system.f_type == TMPFS_MAGIC)
    }

    /// Whether [`Self::take_pages`] pays for a file of `size` bytes.
    pub fn wants_pages(&self, size: u64) -> bool {
        size >= TAKE_PAGES_FROM_BYTES && self.on_tmpfs()
    }

    /// Takes a tmpfs file's pages ahead of its content, a few at a time, until `stop` says so. That
    /// is a third of the work of writing them, and done while the connections still ramp up.
    pub fn take_pages(&self, size: u64, stop: impl Fn() -> bool) {
        let mut offset = 0;
        while offset < size && !stop() {
            let len = TAKE_PAGES_BYTES.min(size - offset);
            // Without space the write itself fails, and says so.
            if rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, len).is_err() {
                return;
            }
            offset += len;
        }
    }

    fn failed(&self, error: impl Into<io::Error>) -> TransferError {
        TransferError::path("write", &self.destination.display, error)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(beside) = &*lock(&self.beside) {
            let _ = rustix::fs::unlinkat(
                &self.destination.folder,
                beside.as_slice(),
                AtFlags::empty(),
            );
        }
    }
}
