//! Entries of the target that cannot be written although others can. They are left out, and the user is told. If a
//! folder is the reason, it is named once for all of its entries.
//!
//! The copy ends with an error if nothing can be written: if the target folder refuses, or its file system is
//! read-only.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use howdah_wire::OfferedFile;
use rustix::fs::{
    Access, AtFlags, FallocateFlags, FileType, Mode, OFlags, Stat, StatVfsMountFlags,
    StatxAttributes, StatxFlags,
};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::tree::destination::{Destination, open_folder};
use crate::tree::flags::is_fixed;
use crate::tree::part::PRIVATE;
use crate::tree::place::{Placement, parent_and_name};
use crate::tree::reach::INSIDE;
use crate::tree::target::Target;

/// Folders of which it is kept that they refuse something.
const MAX_FOLDERS: usize = 4096;

/// The place in the target at which an entry is refused.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    /// The folder that everything lands in.
    pub top: &'a OwnedFd,
    /// Whether the entry lies in that folder itself.
    pub in_top: bool,
    /// The whole path of the entry, for messages.
    pub display: &'a [u8],
}

/// What an error is about.
#[derive(Clone, Copy)]
enum About {
    /// The entry alone.
    Entry,
    /// The folder that it is in.
    Folder,
    /// All that is to be written.
    All,
}

impl<'a> At<'a> {
    /// An error of making an entry is mostly about its folder.
    fn of_making(self, error: Errno) -> About {
        match error {
            Errno::PERM if self.in_top => About::All,
            Errno::PERM => About::Folder,
            _ => self.of_placing(error),
        }
    }

    /// One of giving an entry its name, or of entering it, is mostly about what has the name.
    fn of_placing(self, error: Errno) -> About {
        match error {
            Errno::ACCESS | Errno::ROFS if self.in_top => About::All,
            Errno::ROFS if is_read_only(self.top) => About::All,
            Errno::ACCESS | Errno::ROFS => About::Folder,
            error if is_of_entry(error) => About::Entry,
            _ => About::All,
        }
    }

    /// The error for the user, and the path of what refuses if not all does.
    fn error(self, action: &str, about: About, error: Errno) -> (TransferError, Option<&'a [u8]>) {
        match about {
            About::All => (TransferError::path(action, self.display, error), None),
            About::Entry => {
                let refused = TransferError::refused(action, self.display, error);
                (refused, Some(self.display))
            }
            About::Folder => {
                let folder = folder_of(self.display);
                let refused = TransferError::refused(WRITE_INTO, folder, error);
                (refused, Some(folder))
            }
        }
    }
}

/// What cannot be done with a folder that refuses.
const WRITE_INTO: &str = "write into folder";
const ENTER: &str = "enter folder";
const MAKE: &str = "make folder";

/// A file of this size every file system holds, in bytes.
const ANY_TAKES_BYTES: u64 = i32::MAX as u64;

/// Whether a file of `size` bytes is too large for the file system of an open file. The check asks for a hole at the
/// last byte. Linux refuses that before it asks the file system (`vfs_fallocate` in fs/open.c), and nothing is
/// changed.
pub(super) fn is_too_large(file: impl AsFd, size: u64) -> bool {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    size > ANY_TAKES_BYTES
        && (i64::try_from(size).is_err()
            || rustix::fs::fallocate(file, hole, size - 1, 1) == Err(Errno::FBIG))
}

/// Whether a file of `size` bytes is too large for the folder at a path, or for the innermost above it that is there. Where
/// no file can be made without a name that shows when it comes.
fn takes_no_such_size(root: &OwnedFd, folder: &[u8], size: u64) -> bool {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match open_folder(root, folder) {
        Ok(open) => rustix::fs::openat(&open, ".", flags, PRIVATE)
            .is_ok_and(|file| is_too_large(&file, size)),
        Err(Errno::NOENT) if !folder.is_empty() => {
            takes_no_such_size(root, parent_and_name(folder).0, size)
        }
        Err(_) => false,
    }
}

/// Whether what the system says is of one entry alone.
fn is_of_entry(error: Errno) -> bool {
    matches!(
        error,
        Errno::PERM
            | Errno::BUSY
            | Errno::NAMETOOLONG
            | Errno::LOOP
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::INVAL
            | Errno::ILSEQ
            | Errno::MLINK
            | Errno::FBIG
    )
}

/// Whether what the system says is of a name that its file system does not take.
fn is_of_name(error: Errno) -> bool {
    matches!(error, Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ)
}

/// The path of the folder that something is in.
fn folder_of(display: &[u8]) -> &[u8] {
    match display.iter().rposition(|&byte| byte == b'/') {
        Some(0) => b"/",
        Some(slash) => &display[..slash],
        None => b".",
    }
}

fn is_read_only(folder: &OwnedFd) -> bool {
    rustix::fs::fstatvfs(folder)
        .is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Why this process may not look into a folder, or may not change it: the action and the error.
fn refuses(folder: &OwnedFd) -> Option<(&'static str, Errno)> {
    let may = |access: Access| {
        let asked = rustix::fs::accessat(folder, ".", access, AtFlags::EACCESS);
        asked.err()
    };
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    let error = may(all)?;
    let is_own = |stat: Stat| stat.st_uid == rustix::process::geteuid().as_raw();
    if error == Errno::ACCESS && rustix::fs::fstat(folder).is_ok_and(is_own) {
        // It is opened to its owner.
        return None;
    }
    match error {
        Errno::ACCESS if may(Access::READ_OK | Access::EXEC_OK).is_some() => Some((ENTER, error)),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => Some((WRITE_INTO, error)),
        _ => None,
    }
}

impl Destination {
    fn at(&self) -> At<'_> {
        At {
            top: &self.top,
            in_top: Arc::ptr_eq(&self.folder, &self.top),
            display: &self.display,
        }
    }

    /// The error of making an entry in its folder.
    pub(crate) fn not_made(&self, action: &str, error: Errno) -> TransferError {
        let at = self.at();
        at.error(action, at.of_making(error), error).0
    }

    /// The error of giving an entry its name.
    pub(crate) fn not_placed(&self, action: &str, error: Errno) -> TransferError {
        let at = self.at();
        at.error(action, at.of_placing(error), error).0
    }
}

/// The result of examining a folder in which files are offered one after the other.
#[derive(Debug)]
pub(super) struct Judged {
    source: u16,
    path: Vec<u8>,
    refuses: Option<String>,
}

impl Placement {
    /// Why a folder cannot be entered.
    pub(super) fn not_entered(
        &self,
        target: &Target,
        relative: &[u8],
        parent: &OwnedFd,
        error: Errno,
    ) -> TransferError {
        let (Some(top), display) = (&target.folder, target.display(relative)) else {
            return TransferError::Cancelled;
        };
        let in_top = parent_and_name(relative).0.is_empty();
        let may_search =
            || rustix::fs::accessat(parent, ".", Access::EXEC_OK, AtFlags::EACCESS).is_ok();
        if error == Errno::ACCESS && may_search() {
            self.note_refusing(&display);
            return TransferError::refused(ENTER, &display, error);
        }
        let at = At {
            top,
            in_top,
            display: &display,
        };
        let about = match error {
            Errno::NOTDIR | Errno::LOOP if !self.has_other_targets() => About::All,
            error => at.of_placing(error),
        };
        self.noted(at.error(MAKE, about, error))
    }

    /// Why a folder cannot be made.
    pub(super) fn folder_not_made(
        &self,
        target: &Target,
        relative: &[u8],
        error: Errno,
    ) -> TransferError {
        let (Some(top), display) = (&target.folder, target.display(relative)) else {
            return TransferError::Cancelled;
        };
        let at = At {
            top,
            in_top: parent_and_name(relative).0.is_empty(),
            display: &display,
        };
        self.noted(at.error(MAKE, at.of_making(error), error))
    }

    fn noted(&self, (error, refusing): (TransferError, Option<&[u8]>)) -> TransferError {
        if let Some(folder) = refusing {
            self.note_refusing(folder);
        }
        error
    }

    fn note_refusing(&self, display: &[u8]) {
        let mut refusing = lock(&self.refusing);
        if refusing.len() < MAX_FOLDERS {
            refusing.insert(display.to_vec());
        }
    }

    /// Whether a folder was named as the reason for an entry that was left out.
    pub(super) fn is_refusing(&self, display: &[u8]) -> bool {
        lock(&self.refusing).contains(display)
    }

    /// The same for a folder or one of the folders above it.
    pub(super) fn is_within_refusing(&self, target: &Target, relative: &[u8]) -> bool {
        let slashes = (0..relative.len()).filter(|&at| relative[at] == b'/');
        let mut ends = slashes.chain([relative.len()]);
        ends.any(|end| self.is_refusing(&target.display(&relative[..end])))
    }

    /// Why a needed file cannot be written, as far as that can be found out before it is sent.
    pub(super) fn foreseen_refusal(
        &self,
        file: &OfferedFile,
        target: &Target,
        relative: &[u8],
        there: Result<&Stat, Errno>,
    ) -> Option<String> {
        let root = target.folder.as_ref()?;
        let (above, name) = parent_and_name(relative);
        if let Some(why) = self.folder_refusal(file.source, target, root, above) {
            return Some(why);
        }
        let refused = |error| TransferError::refused("write", &target.display(relative), error);
        if file.size > ANY_TAKES_BYTES && takes_no_such_size(root, above, file.size) {
            return Some(refused(Errno::FBIG).to_string());
        }
        match there {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory => {
                let error = self.stays(root, name, above.is_empty())?;
                Some(refused(error).to_string())
            }
            Err(error) if is_of_name(error) => Some(refused(error).to_string()),
            _ => None,
        }
    }

    /// What keeps something from being replaced that was just looked at.
    fn stays(&self, root: &OwnedFd, name: &[u8], in_top: bool) -> Option<Errno> {
        let looked_into = lock(&self.looked_into);
        let folder = match &*looked_into {
            Some((_, _, folder)) if !in_top => folder,
            _ if in_top => root,
            _ => return None,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let found = rustix::fs::statx(folder, name, flags, StatxFlags::TYPE).ok()?;
        match found.stx_attributes {
            has if has.contains(StatxAttributes::MOUNT_ROOT) => Some(Errno::BUSY),
            has if is_fixed(has) => Some(Errno::PERM),
            _ => None,
        }
    }

    /// Why nothing can be written in a folder below the top one.
    fn folder_refusal(
        &self,
        source: u16,
        target: &Target,
        root: &OwnedFd,
        relative: &[u8],
    ) -> Option<String> {
        let mut judged = lock(&self.judged);
        if let Some(last) = &*judged
            && last.source == source
            && last.path == relative
        {
            return last.refuses.clone();
        }
        let refuses = self.find_refusal(target, root, relative);
        *judged = Some(Judged {
            source,
            path: relative.to_vec(),
            refuses: refuses.clone(),
        });
        refuses
    }

    /// Looks for the folder that decides: the innermost one that is there.
    fn find_refusal(&self, target: &Target, root: &OwnedFd, relative: &[u8]) -> Option<String> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = relative;
        while !folder.is_empty() {
            let display = target.display(folder);
            let said = |action: &str, error: Errno| {
                self.note_refusing(&display);
                Some(TransferError::refused(action, &display, error).to_string())
            };
            let above = parent_and_name(folder).0;
            match rustix::fs::openat2(root, folder, flags, Mode::empty(), INSIDE) {
                Ok(open) => {
                    let (action, error) = refuses(&open)?;
                    // Then the copy ends.
                    let is_whole = error == Errno::ROFS && is_read_only(root);
                    return said(action, error).filter(|_| !is_whole);
                }
                Err(error) if is_of_name(error) => return said(MAKE, error),
                // What has the name of the source itself stays.
                Err(error @ (Errno::NOTDIR | Errno::LOOP))
                    if above.is_empty() && target.name.is_some() && self.has_other_targets() =>
                {
                    return said(MAKE, error);
                }
                Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR | Errno::LOOP) => folder = above,
                Err(_) => return None,
            }
        }
        None
    }
}

/// Folders that refuse an entry, by their whole paths.
pub(super) type Refusing = HashSet<Vec<u8>>;
