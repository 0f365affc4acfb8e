//! Finds the names of a list below a source, each with the folders above it.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use howdah_filter::Folder;
use howdah_wire::{Named, TreePath};
use rustix::fs::Stat;

use crate::error::TransferError;
use crate::tree::entry::{Entry, Found, Kind};
use crate::tree::source::Sources;

type Take<'a> = dyn FnMut(Found) -> Result<(), TransferError> + 'a;
type Next<'a> = dyn FnMut() -> Result<Option<Vec<Named>>, TransferError> + 'a;

/// The paths that were found already, each as half of a BLAKE3 digest. A list may be long, and may name a path twice.
#[derive(Default)]
struct Seen(HashSet<[u8; 16]>);

impl Seen {
    /// Whether a path is seen for the first time.
    fn first(&mut self, path: &TreePath) -> bool {
        let digest = blake3::hash(path.as_bytes());
        let mut half = [0; 16];
        half.copy_from_slice(&digest.as_bytes()[..16]);
        self.0.insert(half)
    }
}

/// A search for the names of one list.
struct Search<'a> {
    sources: &'a Sources,
    seen: Seen,
    /// The folder in which something was looked for last.
    open: Option<(TreePath, OwnedFd)>,
    found: &'a mut Take<'a>,
}

impl Sources {
    /// Finds the names from `next` below the only source, which is a folder, with the folders above them. If the
    /// target folder takes the entries of the source without the source folder itself, that folder is found only if
    /// it is named.
    ///
    /// # Errors
    /// Errors of `next` and `found`, when there is no such source, and when this host can read nothing any more.
    pub fn scan_names<'a>(
        &'a self,
        next: &mut Next<'_>,
        found: &'a mut Take<'a>,
    ) -> Result<(), TransferError> {
        let Some(stat) = self.only_folder() else {
            let words = "a list of names is of one source, which is a folder";
            return Err(TransferError::Here(words.to_owned()));
        };
        let mut search = Search {
            sources: self,
            seen: Seen::default(),
            open: None,
            found,
        };
        if !self.filtered_name(0, &TreePath::default()).is_empty() {
            search.itself(stat)?;
        }
        while let Some(names) = next()? {
            for Named { path, content } in &names {
                if path.is_root() {
                    search.itself(stat)?;
                }
                match search.look_for(path, *content) {
                    Err(TransferError::Unreadable(why)) => (search.found)(Found::Unreadable(why))?,
                    other => other?,
                }
            }
        }
        Ok(())
    }
}

impl Search<'_> {
    /// Hands out the source itself, once.
    fn itself(&mut self, stat: &Stat) -> Result<(), TransferError> {
        let root = TreePath::default();
        if !self.seen.first(&root) {
            return Ok(());
        }
        let kind = Kind::Folder(self.sources.attributes(stat));
        (self.found)(entry(root, kind))
    }

    fn look_for(&mut self, path: &TreePath, content: bool) -> Result<(), TransferError> {
        if path.is_root() {
            return match content {
                true => self.content(path),
                false => Ok(()),
            };
        }
        let (folder, name) = split(path);
        let here = self.look(&folder, name)?;
        let is_folder = here.is_folder();
        // The folders that it is in are not held against the filters, as in rsync.
        if self
            .sources
            .leaves_out(0, &Folder::default(), path, is_folder)
        {
            return Ok(());
        }
        self.above(&folder)?;
        if self.seen.first(path) {
            (self.found)(here)?;
        }
        match content && is_folder {
            true => self.content(path),
            false => Ok(()),
        }
    }

    /// What is there under a name in a folder.
    fn look(&mut self, folder: &TreePath, name: &[u8]) -> Result<Found, TransferError> {
        if let Some(left) = self.sources.left_by_a_copy(0, folder, name) {
            return Ok(left);
        }
        if self.open.as_ref().is_none_or(|(open, _)| open != folder) {
            let descriptor = self.sources.open_folder(0, folder)?;
            self.open = Some((folder.clone(), descriptor));
        }
        let Some((_, descriptor)) = &self.open else {
            unreachable!("it was opened above")
        };
        let found = self.sources.look(0, folder, descriptor, name)?;
        found.ok_or_else(|| self.sources.missing(0, folder, name))
    }

    /// Hands out the folders that something is in, the highest first.
    fn above(&mut self, folder: &TreePath) -> Result<(), TransferError> {
        if folder.is_root() || !self.seen.first(folder) {
            return Ok(());
        }
        let (above, name) = split(folder);
        self.above(&above)?;
        let here = self.look(&above, name)?;
        (self.found)(here)
    }

    /// Hands out what is in a folder, and not what is in the folders there.
    fn content(&mut self, folder: &TreePath) -> Result<(), TransferError> {
        let mut found = Vec::new();
        let mut take = |here: Found, _: &Folder| {
            found.push(here);
            Ok(())
        };
        self.sources
            .list(0, folder, &Folder::default(), &mut take)?;
        for here in found {
            let first = match &here {
                Found::Entry(entry) => self.seen.first(&entry.path),
                _ => true,
            };
            if first {
                (self.found)(here)?;
            }
        }
        Ok(())
    }
}

/// The folder of a path, and the name in it.
pub(super) fn split(path: &TreePath) -> (TreePath, &[u8]) {
    let bytes = path.as_bytes();
    match bytes.iter().rposition(|&byte| byte == b'/') {
        Some(at) => {
            let folder = TreePath::try_from(bytes[..at].to_vec());
            (folder.expect("it begins a path"), &bytes[at + 1..])
        }
        None => (TreePath::default(), bytes),
    }
}

fn entry(path: TreePath, kind: Kind) -> Found {
    Found::Entry(Entry {
        source: 0,
        path,
        kind,
    })
}

#[cfg(test)]
#[path = "listed_tests.rs"]
mod tests;
