//! The attributes that an existing file gets that is not sent.

use std::os::fd::{AsFd, OwnedFd};

use howdah_wire::{Attributes, OfferedFile, TreePath, XattrsSum, printable};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::{TransferError, reason};
use crate::tree::destination::open_folder;
use crate::tree::durable::lost;
use crate::tree::metadata::NotKept;
use crate::tree::place::{Placement, not_asked_for, parent_and_name, same_time};
use crate::tree::reach::INSIDE;
use crate::tree::stat::mtime_ns;
use crate::tree::target::Target;
use crate::tree::xattrs::{self, Of};

/// How an existing file is opened to be read or changed.
pub(super) const TO_CHANGE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

fn open_to_change(folder: &OwnedFd, relative: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat2(folder, relative, TO_CHANGE, Mode::empty(), INSIDE)
}

/// The folder that something is in, if that is of the same file system.
fn open_beside(folder: &OwnedFd, relative: &[u8], there: &Stat) -> Result<OwnedFd, Errno> {
    let opened = open_folder(folder, parent_and_name(relative).0)?;
    match rustix::fs::fstat(&opened)?.st_dev == there.st_dev {
        true => Ok(opened),
        false => Err(Errno::XDEV),
    }
}

impl Placement {
    /// Sets owner and mode of an existing file if they differ, and its time if `with_time` is true. Returns, in
    /// words, what could not be kept.
    pub(super) fn mend(
        &self,
        target: &Target,
        relative: &[u8],
        there: &Stat,
        attributes: &Attributes,
        with_time: bool,
    ) -> NotKept {
        let folder = target.folder.as_ref()?;
        let lacks = self.metadata.lacks(there, attributes);
        let other_time = with_time && mtime_ns(there) != attributes.mtime_ns;
        if !lacks && !other_time {
            return None;
        }
        let display = target.display(relative);
        match open_to_change(folder, relative) {
            Ok(open) => {
                let why = lacks
                    .then(|| self.metadata.mend(&open, there, attributes, &display))
                    .flatten();
                why.or_else(|| {
                    let give = || {
                        self.metadata
                            .give_time(&open, attributes.mtime_ns, &display)
                    };
                    let error = other_time.then(give)?.err()?;
                    let (path, why) = (printable(&display), reason(error));
                    Some(format!("cannot set the time of {path}: {why}"))
                })
            }
            Err(error) => {
                let (path, why) = (printable(&display), reason(error));
                Some(format!("cannot set owner and mode of {path}: {why}"))
            }
        }
    }

    /// Notes that an existing file that is not replaced has to be put on stable storage too. It is not known whether
    /// the program that wrote it has flushed it.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub(super) fn note_skipped(
        &self,
        file: &OfferedFile,
        target: &Target,
        relative: &[u8],
        there: &Stat,
    ) -> Result<(), TransferError> {
        let Some(folder) = target.folder.as_ref().filter(|_| self.durable) else {
            return Ok(());
        };
        let is_file = FileType::from_raw_mode(there.st_mode) == FileType::RegularFile;
        let open = || match is_file {
            true => {
                open_to_change(folder, relative).or_else(|_| open_beside(folder, relative, there))
            }
            false => open_beside(folder, relative, there),
        };
        let display = &target.folder_path;
        let as_one = self.unflushed.note_system(there.st_dev, display, open);
        if as_one == Ok(true) || !is_file {
            return Ok(());
        }
        let record = (file.source, file.path.clone());
        let kept = lock(&self.skipped).add(&record, folder);
        kept.map_err(|error| TransferError::path("flush", &target.display(relative), error))
    }

    /// Flushes the existing files on file systems that cannot be flushed as a whole, until `stop` returns true.
    /// `not_kept` is called for each file that cannot be flushed.
    ///
    /// # Errors
    /// When the storage fails; [`TransferError::Cancelled`] when it was stopped.
    pub(super) fn flush_skipped(
        &self,
        stop: impl Fn() -> bool,
        not_kept: impl Fn(String),
    ) -> Result<(), TransferError> {
        let skipped = std::mem::take(&mut *lock(&self.skipped));
        skipped.each(&mut |(source, path)| {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            let (target, relative) = self.relative(source, &path)?;
            let Some(folder) = &target.folder else {
                return Ok(());
            };
            let lost = |error: Errno| lost(&target.display(&relative), error);
            match open_to_change(folder, &relative).and_then(rustix::fs::fsync) {
                // It has been removed or replaced meanwhile.
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(error @ (Errno::ACCESS | Errno::PERM)) => not_kept(lost(error).to_string()),
                Err(error) => return Err(lost(error)),
            }
            Ok(())
        })
    }

    /// Whether a file has these extended attributes, as far as they are kept. If they cannot be read, it counts as
    /// having them.
    pub(super) fn has_xattrs(
        &self,
        folder: &OwnedFd,
        relative: &[u8],
        wanted: Option<XattrsSum>,
    ) -> bool {
        let scope = self.metadata.scope();
        let Some(wanted) = wanted.filter(|_| !scope.is_empty()) else {
            return true;
        };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(there) = rustix::fs::openat2(folder, relative, flags, Mode::empty(), INSIDE) else {
            return true;
        };
        let of = Of::Path(there.as_fd());
        let read = xattrs::read(of, scope, &self.metadata.names);
        read.is_ok_and(|all| all.is_none_or(|all| xattrs::digest(&all) == wanted.digest))
            && self.metadata.has_flags(of, wanted.flags)
    }

    /// Sets the attributes of a file that was not sent. Returns, in words, what could not be kept.
    ///
    /// # Errors
    /// When the user has not asked for extended attributes, or the peer names a source that is not in the job.
    pub fn give_attributes(
        &self,
        source: u16,
        path: &TreePath,
        size: u64,
        attributes: &Attributes,
    ) -> Result<NotKept, TransferError> {
        if self.metadata.scope().is_empty() {
            return Err(not_asked_for("attributes"));
        }
        let (target, relative) = self.relative(source, path)?;
        let Some(folder) = &target.folder else {
            return Ok(None);
        };
        let display = target.display(&relative);
        let given = open_to_change(folder, &relative).and_then(|file| {
            let stat = rustix::fs::fstat(&file)?;
            let is_it = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                && u64::try_from(stat.st_size) == Ok(size)
                && (!self.metadata.has_times() || same_time(attributes.mtime_ns, mtime_ns(&stat)));
            let gets = self.metadata.of_same_file(attributes);
            match is_it {
                true => self.metadata.give(&file, attributes, gets, &display),
                false => Err(Errno::STALE),
            }
        });
        Ok(given.unwrap_or_else(|error| {
            let (path, why) = (printable(&display), reason(error));
            Some(format!("cannot set the attributes of {path}: {why}"))
        }))
    }
}
