//! Jobs that remove what is at the target and not at the source: what was found, and the result.

use serde::{Deserialize, Serialize};

use crate::kind::Kind;
use crate::limits::{MAX_CONTENT_FOLDERS, MAX_CONTENT_NAMES, MAX_EXTRANEOUS};
use crate::path::TreePath;

/// What a job removes at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delete {
    /// Whether files that the filters exclude are removed too.
    pub excluded: bool,
    /// The most files, folders and links that are removed. If there are more, nothing is removed.
    pub most: Option<u64>,
}

/// A name in a folder, as the first bytes of its BLAKE3 digest. If two names have the same bytes, neither end can
/// tell them apart, and a name that should be removed stays.
pub type NameHash = [u8; 8];

/// Names in one folder of a source. Only their existence counts. The names of a folder are sent one after the other,
/// in any order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Index of the source.
    pub source: u16,
    /// The folder's path below that source.
    pub folder: TreePath,
    /// Names in it.
    pub names: Vec<NameHash>,
    /// Whether these are the last names of the folder.
    pub complete: bool,
}

/// Checks the folders of one message; `open` is the folder whose names are not complete.
pub(crate) fn check_content(
    told: &[Content],
    sources: usize,
    open: &mut Option<(u16, TreePath)>,
) -> Result<(), &'static str> {
    let names: usize = told.iter().map(|content| content.names.len()).sum();
    if !(1..=MAX_CONTENT_FOLDERS).contains(&told.len()) || names > MAX_CONTENT_NAMES {
        return Err("no folders, or too many folders or names at once");
    }
    told.iter()
        .try_for_each(|content| content.check(sources, open))
}

impl Content {
    fn check(
        &self,
        sources: usize,
        open: &mut Option<(u16, TreePath)>,
    ) -> Result<(), &'static str> {
        if usize::from(self.source) >= sources {
            return Err("what is in a source that the job has not");
        }
        let other = open
            .as_ref()
            .is_some_and(|(source, folder)| (*source, folder) != (self.source, &self.folder));
        if other {
            return Err("what is in a folder before another one is complete");
        }
        *open = (!self.complete).then(|| (self.source, self.folder.clone()));
        Ok(())
    }
}

/// An entry at the target that is not at the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extraneous {
    /// Index of the source whose target it is in.
    pub source: u16,
    /// Its path below that.
    pub path: TreePath,
    /// Its kind. The entries of a folder come before the folder.
    pub kind: Kind,
}

pub(crate) fn check_extraneous(found: &[Extraneous]) -> Result<(), &'static str> {
    match found.len() {
        1..=MAX_EXTRANEOUS => Ok(()),
        _ => Err("no or too many names to remove at once"),
    }
}

/// Why a receiver has removed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Withheld {
    /// The sender could not read all of its sources.
    LeftOut,
    /// There is more than [`Delete::most`].
    TooMany,
}

/// The result of a removal. Files, folders and links count as one each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// How many were found at the target.
    pub extraneous: u64,
    /// How many of them were removed.
    pub removed: u64,
    /// How many could not be looked into or removed.
    pub failed: u64,
    /// Why none was removed, if that has a reason beside a dry run.
    pub withheld: Option<Withheld>,
}

impl Removal {
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let more = self.removed > self.extraneous;
        if more || self.withheld.is_some() && self.removed > 0 {
            return Err("an account of what was removed that cannot be");
        }
        Ok(())
    }
}
