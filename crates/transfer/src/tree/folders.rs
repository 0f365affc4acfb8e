//! The attributes that folders get at the end, after the last change in them.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;

use howdah_wire::{Attributes, TreePath};
use serde::{Deserialize, Serialize};

use crate::error::TransferError;
use crate::tree::spool::Spool;

/// The permission bits with which the owner of a folder can change its entries.
pub(super) const OWNER_MODE: u32 = 0o700;

/// A folder and its attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    /// Index of the source it belongs to.
    pub source: u16,
    /// Its path below that source.
    pub path: TreePath,
    /// What it gets beside its mode.
    pub attributes: Attributes,
    /// The mode that it gets.
    pub mode: FolderMode,
}

/// The mode that a folder gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FolderMode {
    /// That of its source.
    Source(u32),
    /// What is left of that for a folder that was made, in a mode that is open to its owner.
    New(u32),
    /// That which it has.
    Own,
    /// That which it had before it was opened to its owner. Such a folder may be noted for its attributes, too.
    Had(u32),
}

impl FolderMode {
    /// One that lets the owner still change what is in the folder; `None`: that which it has.
    fn open_to_owner(self) -> Option<u32> {
        match self {
            Self::Source(mode) => Some(mode | OWNER_MODE),
            // By the mode in which it was made the next copy tells that it lacks its own.
            Self::New(mode) if !is_closed(mode) => Some(mode),
            Self::New(_) | Self::Own | Self::Had(_) => None,
        }
    }

    /// One that does not.
    fn closed_to_owner(self) -> Option<u32> {
        match self {
            Self::Source(mode) | Self::New(mode) => Some(mode).filter(|mode| is_closed(*mode)),
            Self::Had(mode) => Some(mode),
            Self::Own => None,
        }
    }
}

fn is_closed(mode: u32) -> bool {
    mode & OWNER_MODE != OWNER_MODE
}

impl Folder {
    fn depth(&self) -> usize {
        let path = self.path.as_bytes();
        let slashes = path.iter().filter(|&&byte| byte == b'/').count();
        slashes + usize::from(!path.is_empty())
    }
}

/// Folders, in the order in which they came.
#[derive(Debug, Default)]
pub struct Folders {
    spool: Spool<Folder>,
    /// How deep those lie whose owner may not change them in the end; at most as many as a path has
    /// names.
    closed_depths: BTreeSet<usize>,
}

impl Folders {
    /// Adds one; see [`Spool::add`].
    ///
    /// # Errors
    /// As there.
    pub fn add(&mut self, folder: &Folder, destination: impl AsFd) -> io::Result<()> {
        if folder.mode.closed_to_owner().is_some() {
            self.closed_depths.insert(folder.depth());
        }
        self.spool.add(folder, destination)
    }

    /// Calls `set` for each folder, with the mode to set unless it keeps its own. The order is one that works: first
    /// all folders, with modes that their owner can still change, then those with other modes, the innermost first.
    ///
    /// # Errors
    /// Errors of `set`, and when the nameless file cannot be read.
    pub fn each(
        &self,
        mut set: impl FnMut(Folder, Option<u32>) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        self.spool.each(&mut |folder: Folder| match folder.mode {
            FolderMode::Had(_) => Ok(()),
            mode => set(folder, mode.open_to_owner()),
        })?;
        for &depth in self.closed_depths.iter().rev() {
            self.spool
                .each(&mut |folder: Folder| match folder.mode.closed_to_owner() {
                    Some(mode) if folder.depth() == depth => set(folder, Some(mode)),
                    _ => Ok(()),
                })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(path: &str, mode: FolderMode) -> Folder {
        Folder {
            source: 3,
            path: TreePath::try_from(path.as_bytes().to_vec()).unwrap(),
            attributes: Attributes {
                mode: 0o640,
                mtime_ns: 7,
                owner: None,
                xattrs: None,
            },
            mode,
        }
    }

    /// The folders of these modes, in the order in which they get which.
    fn order(modes: &[(&str, FolderMode)]) -> Vec<(String, Option<u32>)> {
        let base = tempfile::tempdir().unwrap();
        let destination = fs::File::open(base.path()).unwrap();
        let mut folders = Folders::default();
        for (path, mode) in modes {
            folders.add(&folder(path, *mode), &destination).unwrap();
        }
        let mut order = Vec::new();
        let read = folders.each(|got, mode| {
            let path = String::from_utf8(got.path.as_bytes().to_vec()).unwrap();
            order.push((path, mode));
            Ok(())
        });
        read.unwrap();
        order
    }

    #[test]
    fn a_folder_is_closed_to_its_owner_after_those_in_it() {
        let modes = [("a/b", 0o500), ("", 0o555), ("a", 0o000), ("c", 0o750)];
        let order = order(&modes.map(|(path, mode)| (path, FolderMode::Source(mode))));
        let expected = [
            ("a/b", 0o700),
            ("", 0o755),
            ("a", 0o700),
            ("c", 0o750),
            ("a/b", 0o500),
            ("a", 0o000),
            ("", 0o555),
        ];
        assert_eq!(
            order,
            expected.map(|(path, mode)| (path.to_owned(), Some(mode)))
        );
    }

    #[test]
    fn a_folder_that_keeps_its_own_mode_gets_none_and_a_new_one_its_last_at_once() {
        let order = order(&[
            ("own", FolderMode::Own),
            ("new", FolderMode::New(0o750)),
            ("closed", FolderMode::New(0o555)),
        ]);
        let expected = [
            ("own", None),
            ("new", Some(0o750)),
            ("closed", None),
            ("closed", Some(0o555)),
        ];
        assert_eq!(order, expected.map(|(path, mode)| (path.to_owned(), mode)));
    }

    #[test]
    fn a_folder_that_was_opened_gets_its_mode_back_after_those_in_it() {
        let order = order(&[
            ("a", FolderMode::Had(0o500)),
            ("a/b", FolderMode::Had(0o000)),
            ("a", FolderMode::Own),
        ]);
        let expected = [("a", None), ("a/b", Some(0o000)), ("a", Some(0o500))];
        assert_eq!(order, expected.map(|(path, mode)| (path.to_owned(), mode)));
    }
}
