//! Enters the folders below the targets. A missing folder is made. A folder that is closed to this user, its owner,
//! is opened, and gets its mode at the end of the copy ([`crate::tree::folders`]).

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use howdah_wire::{Attributes, printable};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::tree::destination::open_folder;
use crate::tree::folders::{Folder, FolderMode, OWNER_MODE};
use crate::tree::folding::{Within, hash};
use crate::tree::metadata::NotKept;
use crate::tree::new_modes::{is_unfinished, new_folder_mode};
use crate::tree::place::{Placement, parent_and_name};
use crate::tree::reach::INSIDE;
use crate::tree::target::Target;
use crate::tree::unfinished;
use crate::tree::xattrs::way;

/// Folders kept open, so that files of one folder do not look it up again.
const MAX_OPEN_FOLDERS: usize = 128;
/// What the owner of a folder needs to look at what is in it.
const LOOK_MODE: u32 = 0o500;

/// Open folders, by source and path below its target's folder.
pub(super) type OpenFolders = HashMap<(u16, Vec<u8>), Entered>;

/// An open folder.
#[derive(Debug)]
pub(super) struct Entered {
    folder: Arc<OwnedFd>,
    /// Whether it was made sure, as far as that can be, that this process may change names in it.
    to_change: bool,
}

impl Placement {
    /// Opens a folder below a target's folder. It is made if it is missing, with the folders above it. Something that
    /// has its name and is not a folder is removed.
    pub(super) fn folder(
        &self,
        source: u16,
        target: &Target,
        relative: &[u8],
    ) -> Result<Arc<OwnedFd>, TransferError> {
        if relative.is_empty() {
            return target.folder.clone().ok_or(TransferError::Cancelled);
        }
        let key = (source, relative.to_vec());
        if let Some(entered) = lock(&self.open).get(&key) {
            return Ok(Arc::clone(&entered.folder));
        }
        let (above, name) = parent_and_name(relative);
        let parent = self.folder(source, target, above)?;
        let failed = |error: Errno| self.not_entered(target, relative, &parent, error);
        let mut entered = enter(&parent, name);
        if matches!(entered, Err(Errno::ACCESS)) {
            self.open_way(source, target, relative);
            entered = enter(&parent, name);
        }
        // What has the name of the source itself stays.
        let is_top = above.is_empty() && target.name.is_some();
        if matches!(entered, Err(Errno::NOTDIR | Errno::LOOP)) && !is_top {
            let display = target.display(relative);
            if self.skip.there {
                let shown = printable(&display);
                let text = format!("left out {shown}: it is there, and is no folder");
                return Err(TransferError::InTheWay(text));
            }
            let parent = self.folder_to_change(source, target, above)?;
            self.folding
                .naming(hash(above), Within::Open(parent.as_fd()), name, &display)
                .take()?;
            self.room.make_for_folder(&parent, name, &display)?;
            entered = Err(Errno::NOENT);
        }
        let display = target.display(relative);
        let naming = |parent| {
            self.folding
                .naming(hash(above), Within::Open(parent), name, &display)
        };
        let folder = match entered {
            Err(Errno::NOENT) => {
                let parent = self.folder_to_change(source, target, above)?;
                let mut naming = naming(parent.as_fd());
                let is_new = self.make(target, relative, &parent)?;
                naming.folder(relative, is_new)?;
                enter(&parent, name).map_err(failed)?
            }
            other => {
                let folder = other.map_err(failed)?;
                naming(parent.as_fd()).folder(relative, false)?;
                folder
            }
        };
        self.open_to_owner(source, target, relative, &folder, LOOK_MODE);
        let folder = Arc::new(folder);
        if is_top {
            self.note_top(source, &folder);
        }
        self.keep_open(key, &folder, false);
        Ok(folder)
    }

    /// The same, and opens the folder to its owner if this process cannot change names in it.
    pub(super) fn folder_to_change(
        &self,
        source: u16,
        target: &Target,
        relative: &[u8],
    ) -> Result<Arc<OwnedFd>, TransferError> {
        let key = (source, relative.to_vec());
        if let Some(entered) = lock(&self.open).get(&key)
            && entered.to_change
        {
            return Ok(Arc::clone(&entered.folder));
        }
        let folder = self.folder(source, target, relative)?;
        self.open_to_owner(source, target, relative, &folder, OWNER_MODE);
        self.keep_open(key, &folder, true);
        Ok(folder)
    }

    fn keep_open(&self, key: (u16, Vec<u8>), folder: &Arc<OwnedFd>, to_change: bool) {
        let mut open = lock(&self.open);
        if open.len() >= MAX_OPEN_FOLDERS {
            open.clear();
        }
        let folder = Arc::clone(folder);
        open.insert(key, Entered { folder, to_change });
    }

    /// Makes a folder that is missing; only its owner may enter until it is complete and gets its own mode. Returns false if
    /// there is one meanwhile.
    fn make(
        &self,
        target: &Target,
        relative: &[u8],
        parent: &Arc<OwnedFd>,
    ) -> Result<bool, TransferError> {
        let (above, name) = parent_and_name(relative);
        let is_top = above.is_empty() && target.name.is_some();
        let mode = new_folder_mode(self.metadata.keep.perms);
        let made = match &target.renamed {
            Some(source) if is_top => {
                // Two streams at once would take each other's mark away.
                let _alone = lock(&self.marking);
                match enter(parent, name) {
                    Err(Errno::NOENT) => unfinished::make(parent, name, source, mode, self.durable),
                    _ => Err(Errno::EXIST),
                }
            }
            _ => rustix::fs::mkdirat(parent, name, mode),
        };
        let is_new = match made {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(self.folder_not_made(target, relative, error)),
        };
        self.unflushed.note(parent, &target.display(relative))?;
        Ok(is_new)
    }

    /// Opens the folders on the way to an entry to their owner, so that they can be read. If the entry is a folder,
    /// it is opened too.
    pub(super) fn open_way(&self, source: u16, target: &Target, relative: &[u8]) {
        let Some(root) = &target.folder else { return };
        self.open_to_owner(source, target, b"", root, LOOK_MODE);
        let slashes = (0..relative.len()).filter(|&at| relative[at] == b'/');
        for end in slashes.chain([relative.len()]) {
            let folder = &relative[..end];
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat2(root, folder, flags, Mode::empty(), INSIDE) {
                Ok(open) => self.open_to_owner(source, target, folder, &open, LOOK_MODE),
                Err(_) => return,
            }
        }
    }

    /// Opens a folder of this user to its owner if its mode lacks a bit of `needed`. Notes the mode that it had, if
    /// it gets no other one at the end. If this is refused, the folder stays as it is, and the operation that needs
    /// it is refused later.
    ///
    /// `folder` is the one at `relative` in the target. Folders that are not part of the copy stay as they are.
    pub(super) fn open_to_owner(
        &self,
        source: u16,
        target: &Target,
        relative: &[u8],
        folder: &OwnedFd,
        needed: u32,
    ) {
        if !lacks(folder, needed) {
            return;
        }
        let (Some(path), Some(root)) = (target.path_of(relative), &target.folder) else {
            return;
        };
        // One stream at a time: a second one would note what the first one has given it.
        let mut folders = lock(&self.folders);
        let Ok(stat) = rustix::fs::fstat(folder) else {
            return;
        };
        let mode = stat.st_mode & 0o7777;
        if mode & OWNER_MODE == OWNER_MODE {
            return;
        }
        let top_is_given_one = self.metadata.keep.top && !self.named;
        let is_given_one = self.metadata.keep.perms && (!path.is_root() || top_is_given_one);
        if !is_given_one && !is_unfinished(&stat) {
            let had = Folder {
                source,
                path,
                attributes: Attributes {
                    mode,
                    mtime_ns: 0,
                    owner: None,
                    xattrs: None,
                },
                mode: FolderMode::Had(mode),
            };
            if folders.add(&had, root).is_err() {
                return;
            }
        }
        let _ = give_mode(folder, mode | OWNER_MODE);
    }

    /// Restores the mode that a folder had. Returns why that is not possible, if so.
    pub(super) fn close_to_owner(
        &self,
        folder: &Folder,
        mode: u32,
    ) -> Result<NotKept, TransferError> {
        let (target, relative) = self.relative(folder.source, &folder.path)?;
        let Some(root) = &target.folder else {
            return Ok(None);
        };
        let display = target.display(&relative);
        let failed = |error| TransferError::path("set the mode of", &display, error);
        let open = match open_folder(root, &relative) {
            // It has been removed or replaced meanwhile.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Ok(Some(failed(error).to_string())),
            Ok(open) => open,
        };
        if let Err(error) = give_mode(&open, mode) {
            return Ok(Some(failed(error).to_string()));
        }
        self.unflushed.note(&Arc::new(open), &display)?;
        Ok(None)
    }

    /// At an early end of the copy, restores the modes of the folders that were opened to their owner and get no
    /// other mode.
    pub fn close_all_to_owner(&self) {
        let folders = std::mem::take(&mut *lock(&self.folders));
        let _ = folders.each(|folder, mode| {
            if let (FolderMode::Had(_), Some(mode)) = (folder.mode, mode) {
                let _ = self.close_to_owner(&folder, mode);
            }
            Ok(())
        });
    }
}

pub(super) fn enter(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat2(parent, name, flags, Mode::empty(), INSIDE)
}

/// Whether a folder is of this user, and its mode keeps this process from what is `needed`.
fn lacks(folder: &OwnedFd, needed: u32) -> bool {
    let is_closed = |stat: Stat| {
        stat.st_mode & needed != needed && stat.st_uid == rustix::process::geteuid().as_raw()
    };
    if !rustix::fs::fstat(folder).is_ok_and(is_closed) {
        return false;
    }
    // Root's capabilities let it in anyway.
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(folder, ".", all, AtFlags::EACCESS) == Err(Errno::ACCESS)
}

fn give_mode(folder: &OwnedFd, mode: u32) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(mode);
    match rustix::fs::fchmod(folder, mode) {
        // It is open as a mere path, because it may not be read.
        Err(Errno::BADF) => {
            let path = way(folder.as_fd(), b"");
            rustix::fs::chmodat(CWD, path, mode, AtFlags::empty())
        }
        other => other,
    }
}
