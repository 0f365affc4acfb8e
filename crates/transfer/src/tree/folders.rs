//! The attributes that folders get at the end, when nothing in them changes any more.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;

use howdah_wire::{Attributes, TreePath};
use serde::{Deserialize, Serialize};

use crate::error::TransferError;
use crate::tree::spool::Spool;

/// What the owner of a folder needs to change what is in it.
const OWNER_MODE: u32 = 0o700;

/// A folder and its attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    /// Index of the source it belongs to.
    pub source: u16,
    /// Its path below that source.
    pub path: TreePath,
    /// What it gets.
    pub attributes: Attributes,
}

impl Folder {
    /// The same folder with attributes that let its owner still change what is in it.
    pub fn open_to_owner(mut self) -> Self {
        self.attributes.mode |= OWNER_MODE;
        self
    }

    fn closed_to_owner(&self) -> bool {
        self.attributes.mode & OWNER_MODE != OWNER_MODE
    }

    fn depth(&self) -> usize {
        let path = self.path.as_bytes();
        let slashes = path.iter().filter(|&&byte| byte == b'/').count();
        slashes + usize::from(!path.is_empty())
    }
}

/// Folders in the order in which they came.
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
        if folder.closed_to_owner() {
            self.closed_depths.insert(folder.depth());
        }
        self.spool.add(folder, destination)
    }

    /// Hands out each folder with the attributes to set, in an order in which that can be done: first
    /// all as far as they stay open to their owner, then the others, the innermost first.
    ///
    /// # Errors
    /// Of `set`, and when the nameless file cannot be read.
    pub fn each(
        &self,
        mut set: impl FnMut(Folder) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        self.spool.each(&mut |folder| set(folder.open_to_owner()))?;
        for &depth in self.closed_depths.iter().rev() {
            self.spool.each(&mut |folder| {
                if folder.closed_to_owner() && folder.depth() == depth {
                    set(folder)
                } else {
                    Ok(())
                }
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(path: String, mode: u32) -> Folder {
        Folder {
            source: 3,
            path: TreePath::try_from(path.into_bytes()).unwrap(),
            attributes: Attributes {
                mode,
                mtime_ns: 7,
                owner: None,
                xattrs: None,
            },
        }
    }

    #[test]
    fn a_folder_is_closed_to_its_owner_after_those_in_it() {
        let base = tempfile::tempdir().unwrap();
        let destination = fs::File::open(base.path()).unwrap();
        let mut folders = Folders::default();
        for (path, mode) in [("a/b", 0o500), ("", 0o555), ("a", 0o000), ("c", 0o750)] {
            folders
                .add(&folder(path.into(), mode), &destination)
                .unwrap();
        }
        let mut order = Vec::new();
        let read = folders.each(|got| {
            let path = String::from_utf8(got.path.as_bytes().to_vec()).unwrap();
            order.push((path, got.attributes.mode));
            Ok(())
        });
        read.unwrap();
        let expected = [
            ("a/b", 0o700),
            ("", 0o755),
            ("a", 0o700),
            ("c", 0o750),
            ("a/b", 0o500),
            ("a", 0o000),
            ("", 0o555),
        ];
        assert_eq!(order, expected.map(|(path, mode)| (path.to_owned(), mode)));
    }
}
