//! The end of a copy at the receiver: folders get their attributes, and lose the marks by which a cut copy is found.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::tree::destination::open_folder;
use crate::tree::entered::enter;
use crate::tree::folders::{Folder, FolderMode};
use crate::tree::metadata::NotKept;
use crate::tree::new_modes::{NEW_MODE, is_unfinished, left, umask};
use crate::tree::place::Placement;
use crate::tree::target::Target;
use crate::tree::unfinished;

impl Placement {
    /// Gives the folders their attributes, the innermost first, after the last change of names in them. Puts all
    /// names on stable storage if `sync` is true, until `stop` returns true. The marks of folders are removed last of
    /// all, because the same command finds the folders by them. `not_kept` is called for each attribute that cannot
    /// be kept, with the reason.
    ///
    /// # Errors
    /// When a folder cannot be changed or the storage fails; [`TransferError::Cancelled`] when it was
    /// stopped.
    pub fn finish(
        &self,
        sync: bool,
        stop: impl Fn() -> bool,
        not_kept: impl Fn(String),
    ) -> Result<(), TransferError> {
        let folders = std::mem::take(&mut *lock(&self.folders));
        // These may be marked, and to take a mark away sets a time. Modes that they had come last.
        let mut tops = BTreeMap::new();
        let given = folders.each(|folder, mode| {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            if folder.path.is_root() {
                let had = matches!(folder.mode, FolderMode::Had(_));
                tops.insert((had, folder.source), (folder, mode));
                return Ok(());
            }
            let why = self.set_attributes_of(&folder, mode)?;
            why.into_iter().for_each(&not_kept);
            Ok(())
        });
        if given.is_err() {
            *lock(&self.folders) = folders;
            return given;
        }
        if sync {
            self.flush_skipped(&stop, &not_kept)?;
            self.unflushed.flush(&stop)?;
        }
        self.remove_marks()?;
        let gets = |source| tops.contains_key(&(false, source));
        for target in &self.targets {
            if self.named && target.name.is_none() && !gets(0) {
                self.leave_new(target)?;
            }
        }
        for (&(had, source), (folder, mode)) in &tops {
            if had && self.metadata.keep.perms && gets(source) {
                continue;
            }
            let why = self.set_attributes_of(folder, *mode)?;
            why.into_iter().for_each(&not_kept);
        }
        if sync {
            self.unflushed.flush(stop)
        } else {
            Ok(())
        }
    }

    /// Gives the folder that takes what a list names the mode of any new folder, if it was made for that and gets no
    /// other.
    fn leave_new(&self, target: &Target) -> Result<(), TransferError> {
        let Some(folder) = &target.folder else {
            return Ok(());
        };
        let given = rustix::fs::fstat(folder).and_then(|stat| match is_unfinished(&stat) {
            true => rustix::fs::fchmod(folder, left(NEW_MODE, folder, umask()).into()),
            false => Ok(()),
        });
        given.map_err(|error| TransferError::path("set the mode of", &target.folder_path, error))
    }

    fn remove_marks(&self) -> Result<(), TransferError> {
        for target in &self.targets {
            let (Some(folder), Some(source)) = (&target.folder, &target.renamed) else {
                continue;
            };
            let name = target.name.as_deref().unwrap_or(b".");
            if let Ok(made) = enter(folder, name)
                && unfinished::is_of(&made, source)
            {
                let display = target.display(name);
                unfinished::remove(&made)
                    .map_err(|error| TransferError::path("finish", &display, error))?;
                self.unflushed.note(&Arc::new(made), &display)?;
            }
        }
        Ok(())
    }

    fn set_attributes_of(
        &self,
        folder: &Folder,
        mode: Option<u32>,
    ) -> Result<NotKept, TransferError> {
        if let (FolderMode::Had(_), Some(mode)) = (folder.mode, mode) {
            return self.close_to_owner(folder, mode);
        }
        let gets = self.metadata.of_folder(mode, &folder.attributes);
        let (target, relative) = self.relative(folder.source, &folder.path)?;
        let display = target.display(&relative);
        let there = target.folder.as_ref();
        match there.map(|root| open_folder(root, &relative)) {
            // Something else has its name now, and is not to go for it again.
            Some(Err(Errno::NOTDIR | Errno::LOOP)) => return Ok(None),
            Some(Ok(there))
                if rustix::fs::fstat(&there)
                    .is_ok_and(|stat| self.metadata.has(&stat, &folder.attributes, gets)) =>
            {
                // Whoever gave it that may not have put it on stable storage.
                self.unflushed.note(&Arc::new(there), &display)?;
                return Ok(None);
            }
            _ => {}
        }
        // What was said of a folder for which something is left out is enough.
        let unless_said = |why: String| Some(why).filter(|_| !self.is_refusing(&display));
        let open = match self.folder(folder.source, target, &relative) {
            Err(TransferError::Refused(why)) => return Ok(unless_said(why)),
            other => other?,
        };
        let failed = |error| TransferError::path("set mode and time of", &display, error);
        let given = self
            .metadata
            .give(&open, &folder.attributes, gets, &display);
        let not_kept = match given {
            Err(error @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => {
                unless_said(failed(error).to_string())
            }
            other => other.map_err(failed)?,
        };
        self.unflushed.note(&open, &display)?;
        Ok(not_kept)
    }
}
