//! What of the target is not at the source, and what became of it: of jobs that ask for its removal.

use serde::{Deserialize, Serialize};

use crate::kind::Kind;
use crate::limits::{MAX_CONTENT_FOLDERS, MAX_CONTENT_NAMES, MAX_EXTRANEOUS};
use crate::path::TreePath;

/// What a job has removed at the receiver, beside what it copies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delete {
    /// Whether that is also of what the filters leave out at both ends.
    pub excluded: bool,
    /// The most that is removed; where there is more, nothing is.
    pub most: Option<u64>,
}

/// A name in a folder: the first bytes of its BLAKE3 digest. Two names that share them are told apart by nobody, so
/// one of them stays.
pub type NameHash = [u8; 8];

/// Names in one folder of a source, of which no more is needed than that they are there. Those of a folder follow one
/// another, in any order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Index of the source.
    pub source: u16,
    /// The folder's path below that source.
    pub folder: TreePath,
    /// Names in it.
    pub names: Vec<NameHash>,
    /// Whether the folder has no others.
    pub complete: bool,
}

/// Checks what is in folders told at once; `open` is the one that is not complete.
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

/// Something at the target that is not at the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extraneous {
    /// Index of the source whose target it is in.
    pub source: u16,
    /// Its path below that.
    pub path: TreePath,
    /// What it is; what is in a folder comes before it.
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

/// What became of what was not at the source: files, folders and links, each of them one.
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
