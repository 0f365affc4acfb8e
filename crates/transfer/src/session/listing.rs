//! What a dry run would do, name by name. The number of names is limited, so that they fit into memory.

use howdah_wire::{Extraneous, Kind, TreePath};
use serde::Serialize;

/// What is kept, in bytes: some hundred thousand names.
const MAX_BYTES: usize = 16 << 20;

/// What a copy would do with an entry of a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is made, or takes the place of what has its name.
    Copy,
    /// It is there already.
    Skip,
    /// It is removed at the target.
    Remove,
}

/// One name of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Index of its source.
    pub source: u16,
    /// Its path below that source.
    pub path: TreePath,
    /// What it is.
    pub kind: Kind,
    /// The size of a file, in bytes.
    pub size: u64,
    /// What would be done with it.
    pub action: Action,
}

/// Names of a dry run that were counted and not kept.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Beyond {
    /// Files that would be sent.
    pub copy: u64,
    /// Their sizes in bytes.
    pub copy_bytes: u64,
    /// Folders, links and special files that would be made.
    pub make: u64,
    /// Files that are there already.
    pub skip: u64,
    /// What would be removed: files, folders and links.
    pub remove: u64,
}

/// Names in the order in which they came. When there is no more room, names are only counted.
#[derive(Debug, Default)]
pub struct Listing {
    kept: Vec<Listed>,
    bytes: usize,
    beyond: Beyond,
    full: bool,
}

impl Listing {
    /// Adds the receiver's answer on an offered entry. An entry that is no file and already exists is not listed.
    pub fn add_answered(
        &mut self,
        source: u16,
        path: TreePath,
        kind: Kind,
        size: u64,
        needed: bool,
    ) {
        match (needed, kind) {
            (true, Kind::File) => self.add(source, path, kind, size, Action::Copy),
            (true, _) => self.add(source, path, kind, 0, Action::Copy),
            (false, Kind::File) => self.add(source, path, kind, size, Action::Skip),
            (false, _) => {}
        }
    }

    fn add(&mut self, source: u16, path: TreePath, kind: Kind, size: u64, action: Action) {
        let bytes = self.bytes + path.as_bytes().len() + size_of::<Listed>();
        self.full |= bytes > MAX_BYTES;
        if self.full {
            let beyond = &mut self.beyond;
            match action {
                Action::Copy if kind != Kind::File => beyond.make += 1,
                Action::Copy => {
                    beyond.copy += 1;
                    beyond.copy_bytes = beyond.copy_bytes.saturating_add(size);
                }
                Action::Skip => beyond.skip += 1,
                Action::Remove => beyond.remove += 1,
            }
            return;
        }
        self.bytes = bytes;
        self.kept.push(Listed {
            source,
            path,
            kind,
            size,
            action,
        });
    }

    /// Adds what would be removed.
    pub fn add_extraneous(&mut self, extraneous: Extraneous) {
        let Extraneous { source, path, kind } = extraneous;
        self.add(source, path, kind, 0, Action::Remove);
    }

    /// The first ones.
    pub fn kept(&self) -> &[Listed] {
        &self.kept
    }

    /// What came after them.
    pub fn beyond(&self) -> Beyond {
        self.beyond
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_millions_of_files_the_first_are_kept_and_all_are_counted() {
        let mut listing = Listing::default();
        let path =
            |number: u64| TreePath::try_from(format!("folder/{number}").into_bytes()).unwrap();
        for number in 0..2_000_000 {
            let kind = match number % 10 {
                0 => Kind::Folder,
                _ => Kind::File,
            };
            listing.add_answered(0, path(number), kind, 3, number % 4 > 0);
        }
        let kept = listing.kept().len() as u64;
        assert!((100_000..2_000_000).contains(&kept), "{kept}");
        let beyond = listing.beyond();
        let folders_there = 2_000_000 / 20;
        let all = kept + beyond.copy + beyond.make + beyond.skip;
        assert_eq!(all, 2_000_000 - folders_there);
        assert!(beyond.make > 50_000, "{beyond:?}");
        assert_eq!(beyond.copy_bytes, 3 * beyond.copy);
        assert!(beyond.copy > beyond.skip && beyond.skip > 0);
        // One of twenty is a folder that is there.
        let last = 20 * ((kept - 1) / 19) + (kept - 1) % 19 + 1;
        assert_eq!(listing.kept().last().unwrap().path, path(last));
    }
}
