//! What a dry run would do, file by file, as far as a session can hold it.

use howdah_wire::{Extraneous, TreePath};
use serde::Serialize;

/// What is kept, in bytes: some hundred thousand files.
const MAX_BYTES: usize = 16 << 20;

/// What is done with something of a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is sent.
    Copy,
    /// It is there already.
    Skip,
    /// It is removed at the target.
    Remove {
        /// Whether it is a folder.
        folder: bool,
    },
}

impl Action {
    /// What is done with a file that the receiver needs, or not.
    pub fn of(needed: bool) -> Self {
        match needed {
            true => Self::Copy,
            false => Self::Skip,
        }
    }
}

/// One file of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Index of its source.
    pub source: u16,
    /// Its path below that source.
    pub path: TreePath,
    /// Its size in bytes.
    pub size: u64,
    /// What would be done with it.
    pub action: Action,
}

/// Files of a dry run that were counted and not kept.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Beyond {
    /// Files that would be sent.
    pub copy: u64,
    /// Their sizes in bytes.
    pub copy_bytes: u64,
    /// Files that are there already.
    pub skip: u64,
    /// What would be removed: files, folders and links.
    pub remove: u64,
}

/// Files in the order in which they came; those that come when it is full are only counted.
#[derive(Debug, Default)]
pub struct Listing {
    kept: Vec<Listed>,
    bytes: usize,
    beyond: Beyond,
    full: bool,
}

impl Listing {
    /// Adds a file.
    pub fn add(&mut self, source: u16, path: TreePath, size: u64, action: Action) {
        let bytes = self.bytes + path.as_bytes().len() + size_of::<Listed>();
        self.full |= bytes > MAX_BYTES;
        if self.full {
            let beyond = &mut self.beyond;
            match action {
                Action::Copy => {
                    beyond.copy += 1;
                    beyond.copy_bytes = beyond.copy_bytes.saturating_add(size);
                }
                Action::Skip => beyond.skip += 1,
                Action::Remove { .. } => beyond.remove += 1,
            }
            return;
        }
        self.bytes = bytes;
        self.kept.push(Listed {
            source,
            path,
            size,
            action,
        });
    }

    /// Adds what would be removed.
    pub fn add_extraneous(&mut self, extraneous: Extraneous) {
        let Extraneous {
            source,
            path,
            folder,
        } = extraneous;
        self.add(source, path, 0, Action::Remove { folder });
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
            listing.add(0, path(number), 3, Action::of(number % 4 > 0));
        }
        let kept = listing.kept().len() as u64;
        assert!((100_000..2_000_000).contains(&kept), "{kept}");
        let beyond = listing.beyond();
        assert_eq!(kept + beyond.copy + beyond.skip, 2_000_000);
        assert_eq!(beyond.copy_bytes, 3 * beyond.copy);
        assert!(beyond.copy > beyond.skip && beyond.skip > 0);
        assert_eq!(listing.kept().last().unwrap().path, path(kept - 1));
    }
}
