//! Finds what is at the target and not at the source, and notes it in an order in which it can be removed.
//!
//! Only folders that the source has too are searched, and folders that go away. None is entered through a symbolic
//! link. What the filters exclude stays, and so do files that another copy is writing. Nothing is changed here.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use howdah_filter::{Filters, Folder, Removal};
use howdah_wire::{Content, Extraneous, Kind, TreePath, printable};
use rustix::fs::{AtFlags, Dir};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{TransferError, reason};
use crate::tree::content::{Contents, name_hash};
use crate::tree::destination::{open_folder, open_unmounted};
use crate::tree::filter_file;
use crate::tree::part;
use crate::tree::place::Placement;
use crate::tree::source::{BaseName, base_name};
use crate::tree::spool::Spool;
use crate::tree::stat::kind_of;
use crate::tree::unfinished::MARK;

/// Names of one folder that are held in memory at a time, 8 bytes each. A folder with more is sifted in turns.
pub const MAX_NAMES_IN_MEMORY: usize = 1 << 20;

/// An entry at the target that is not at the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// What it is.
    pub extraneous: Extraneous,
    /// Whether the folder with it goes away too.
    pub inside: bool,
}

/// All that was found. A folder comes after its entries.
#[derive(Debug, Default)]
pub struct Candidates {
    spool: Spool<Candidate>,
    /// How many there are.
    pub count: u64,
    /// What could not be looked at.
    pub failed: u64,
}

impl Candidates {
    /// Hands them out in their order.
    ///
    /// # Errors
    /// Errors of `take`, and when they cannot be read back.
    pub fn each(
        &self,
        take: &mut dyn FnMut(Candidate) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        self.spool.each(take)
    }
}

/// What a search goes by.
pub struct Search<'a> {
    /// Where the sources have landed.
    pub placement: &'a Placement,
    /// The sources as their user named them.
    pub sources: &'a [Vec<u8>],
    /// The rules that protect.
    pub filters: &'a Filters,
    /// Whether files that the filters exclude are extraneous too.
    pub excluded: bool,
    /// Whether folders on another file system than their target stay as they are.
    pub one_file_system: bool,
    /// Folders at the target whose names belong to something else in the source.
    pub in_the_way: &'a Spool<(u16, TreePath)>,
    /// Whether this is a dry run, in which folders of the source are not made.
    pub dry_run: bool,
    /// The most names of one folder that are in memory at a time, usually [`MAX_NAMES_IN_MEMORY`].
    pub most_names: usize,
    /// Says when this end stops.
    pub stop: &'a dyn Fn() -> bool,
    /// Takes a line for the user.
    pub warn: &'a dyn Fn(String),
    /// Counts the names that were checked.
    pub looked_at: &'a AtomicU64,
}

impl Search<'_> {
    /// Compares the target with the names in the folders of the sources.
    ///
    /// # Errors
    /// When a filter file at the target cannot be used, or the notes cannot be kept.
    pub fn run(&self, contents: &Contents) -> Result<Candidates, TransferError> {
        let mut run = Run {
            search: self,
            found: Candidates::default(),
            known: Vec::new(),
            left: None,
            above: Above::default(),
        };
        contents.each(&mut |content| run.take(&content))?;
        self.in_the_way
            .each(&mut |(source, path)| run.take_in_the_way(source, &path))?;
        Ok(run.found)
    }
}

/// A folder of the target that is open.
struct Here {
    source: u16,
    path: TreePath,
    folder: OwnedFd,
    device: u64,
    /// Its name below the transfer's root.
    filtered: Vec<u8>,
    rules: Folder,
    /// Whether it goes away.
    goes: bool,
}

/// The rules in the folders that the one looked at last is in.
#[derive(Default)]
struct Above {
    source: u16,
    rules: Vec<(TreePath, Folder)>,
}

/// What becomes of a name.
enum Judged {
    Stays,
    Gone,
    Other(TreePath, Kind),
    Folder(Here),
}

/// A folder that goes away, unless something in it stays.
struct Level {
    here: Here,
    names: Dir,
    stays: bool,
}

struct Run<'a> {
    search: &'a Search<'a>,
    found: Candidates,
    /// Names of the folder that is being told, at the source.
    known: Vec<u64>,
    /// Names of it at the target that were not among those told before.
    left: Option<Spool<Vec<u8>>>,
    above: Above,
}

impl Run<'_> {
    fn take(&mut self, content: &Content) -> Result<(), TransferError> {
        if (self.search.stop)() {
            return Err(TransferError::Cancelled);
        }
        let hashes = content.names.iter().map(|hash| u64::from_le_bytes(*hash));
        self.known.extend(hashes);
        if !content.complete && self.known.len() < self.search.most_names {
            return Ok(());
        }
        let mut known = std::mem::take(&mut self.known);
        known.sort_unstable();
        let left = self.left.take();
        let mut next = (!content.complete).then(Spool::default);
        if self.search.dry_run && content.complete {
            self.note_before_folder(content.source, &content.folder)?;
        }
        if let Some(here) = self.enter_known(content.source, &content.folder)? {
            match left {
                Some(left) => left.each(&mut |name| self.sift(&here, &name, &known, &mut next))?,
                None => self.sift_all(&here, &known, &mut next)?,
            }
        }
        // Also where it could not be looked into: what is told next is not all that the folder has.
        self.left = next;
        Ok(())
    }

    /// Sifts all names that are in a folder.
    fn sift_all(
        &mut self,
        here: &Here,
        known: &[u64],
        next: &mut Option<Spool<Vec<u8>>>,
    ) -> Result<(), TransferError> {
        let names = match Dir::read_from(&here.folder) {
            Ok(names) => names,
            Err(error) => {
                self.cannot("look into", &self.shown(here, b""), error);
                return Ok(());
            }
        };
        for name in names {
            match name {
                Ok(name) => self.sift(here, name.file_name().to_bytes(), known, next)?,
                Err(error) => self.cannot("look into", &self.shown(here, b""), error),
            }
        }
        Ok(())
    }

    /// Judges a name that is not known, or keeps it for the names that are told `next`.
    fn sift(
        &mut self,
        here: &Here,
        name: &[u8],
        known: &[u64],
        next: &mut Option<Spool<Vec<u8>>>,
    ) -> Result<(), TransferError> {
        let hash = u64::from_le_bytes(name_hash(name));
        if matches!(name, b"." | b"..") || known.binary_search(&hash).is_ok() {
            return Ok(());
        }
        if let Some(next) = next {
            return next
                .add(&name.to_vec(), &here.folder)
                .map_err(|error| self.unnoted(here, error));
        }
        match self.judge(here, name)? {
            Judged::Stays | Judged::Gone => Ok(()),
            Judged::Other(path, kind) => self.add(here, path, kind, false),
            Judged::Folder(below) => self.descend(below),
        }
    }

    /// Notes a folder with all that is in it, as far as nothing in it stays.
    fn descend(&mut self, top: Here) -> Result<(), TransferError> {
        let mut levels = Vec::new();
        self.push(&mut levels, top);
        while let Some(level) = levels.last_mut() {
            if (self.search.stop)() {
                return Err(TransferError::Cancelled);
            }
            let Some(name) = level.names.next() else {
                let Some(Level { here, stays, .. }) = levels.pop() else {
                    break;
                };
                match (stays, levels.last_mut()) {
                    (true, Some(above)) => above.stays = true,
                    (true, None) => {}
                    (false, above) => {
                        let extraneous = Extraneous {
                            source: here.source,
                            path: here.path.clone(),
                            kind: Kind::Folder,
                        };
                        let inside = above.is_some();
                        self.note(&here, Candidate { extraneous, inside })?;
                    }
                }
                continue;
            };
            let name = match name {
                Ok(name) => name,
                Err(error) => {
                    level.stays = true;
                    let shown = self.shown(&level.here, b"");
                    self.cannot("look into", &shown, error);
                    continue;
                }
            };
            let name = name.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            match self.judge(&level.here, name)? {
                Judged::Stays => level.stays = true,
                Judged::Gone => {}
                Judged::Other(path, kind) => self.add(&level.here, path, kind, true)?,
                Judged::Folder(below) => self.push(&mut levels, below),
            }
        }
        Ok(())
    }

    fn push(&mut self, levels: &mut Vec<Level>, here: Here) {
        match Dir::read_from(&here.folder) {
            Ok(names) => levels.push(Level {
                here,
                names,
                stays: false,
            }),
            Err(error) => {
                self.cannot("look into", &self.shown(&here, b""), error);
                if let Some(above) = levels.last_mut() {
                    above.stays = true;
                }
            }
        }
    }

    /// What becomes of a name that the source has not.
    fn judge(&mut self, here: &Here, name: &[u8]) -> Result<Judged, TransferError> {
        self.search.looked_at.fetch_add(1, Ordering::Relaxed);
        let placement = self.search.placement;
        let (_, folder) = placement.relative(here.source, &here.path)?;
        if !here.goes && placement.folding.keeps(&folder, name) {
            return Ok(Judged::Stays);
        }
        let shown = || self.shown(here, name);
        let Ok(path) = here.path.join(name) else {
            self.cannot("remove", &shown(), Errno::NAMETOOLONG);
            return Ok(Judged::Stays);
        };
        let stat = match rustix::fs::statat(&here.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Judged::Gone),
            Err(error) => {
                self.cannot("look at", &shown(), error);
                return Ok(Judged::Stays);
            }
        };
        let kind = kind_of(&stat);
        let is_folder = kind == Kind::Folder;
        let filtered = below(&here.filtered, name);
        let removal = Removal {
            excluded: self.search.excluded,
            perishes: here.goes,
        };
        let filters = self.search.filters;
        // A mark is no part of what was copied, and goes with its folder.
        if filters.protect(removal, &here.rules, &filtered, is_folder) || name == MARK && !here.goes
        {
            return Ok(Judged::Stays);
        }
        if part::in_use(&here.folder, name, &stat) {
            let own = self.search.placement.is_part_of_waiting(here.source, &path);
            if !own {
                self.stays(&shown(), "another copy is writing it");
            }
            return Ok(Judged::Stays);
        }
        if !is_folder {
            return Ok(Judged::Other(path, kind));
        }
        if stat.st_dev != here.device {
            self.stays(&shown(), "it is of another file system; unmount it first");
            return Ok(Judged::Stays);
        }
        match open_unmounted(&here.folder, name) {
            Ok(folder) => {
                let rules = self.enter(&folder, &filtered, &here.rules, &shown())?;
                Ok(Judged::Folder(Here {
                    source: here.source,
                    path,
                    folder,
                    device: here.device,
                    filtered,
                    rules,
                    goes: true,
                }))
            }
            Err(Errno::NOENT) => Ok(Judged::Gone),
            // A folder that is bound there may be of the same file system.
            Err(Errno::XDEV) => {
                self.stays(&shown(), "something is mounted there; unmount it first");
                Ok(Judged::Stays)
            }
            Err(error) => {
                self.cannot("look into", &shown(), error);
                Ok(Judged::Stays)
            }
        }
    }

    /// Opens the folder at the target that the source has too; `None` where there is none.
    fn enter_known(&mut self, source: u16, path: &TreePath) -> Result<Option<Here>, TransferError> {
        let (target, relative) = self.search.placement.relative(source, path)?;
        let Some(root) = &target.folder else {
            return Ok(None);
        };
        // Another folder of the source is there.
        if self.search.placement.folding.refusal(&relative).is_some() {
            return Ok(None);
        }
        let filtered = self.filtered(source, path);
        let opened = open_folder(root, &relative)
            .and_then(|folder| rustix::fs::fstat(&folder).map(|stat| (folder, stat.st_dev)));
        let (folder, device) = match opened {
            Ok(opened) => opened,
            // In a dry run it is not made yet; what else is in the way has been said.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            // That one was named.
            Err(Errno::ACCESS) if self.search.placement.is_within_refusing(target, &relative) => {
                return Ok(None);
            }
            Err(error) => {
                let shown = printable(&target.display(&relative));
                self.cannot("look into", &shown, error);
                return Ok(None);
            }
        };
        if self.search.one_file_system && !path.is_root() {
            let (_, top) = self
                .search
                .placement
                .relative(source, &TreePath::default())?;
            let top = open_folder(root, &top).and_then(rustix::fs::fstat);
            if top.is_ok_and(|top| top.st_dev != device) {
                return Ok(None);
            }
        }
        let rules = self.rules_in(source, path)?;
        Ok(Some(Here {
            source,
            path: path.clone(),
            folder,
            device,
            filtered,
            rules,
            goes: false,
        }))
    }

    /// The rules in a folder of the target: those of the filter files in it and above it.
    fn rules_in(&mut self, source: u16, path: &TreePath) -> Result<Folder, TransferError> {
        if !self.search.filters.read_folders() {
            return Ok(Folder::default());
        }
        let mut above = std::mem::take(&mut self.above);
        if above.source != source {
            above = Above {
                source,
                rules: Vec::new(),
            };
        }
        let is_in = |folder: &TreePath| {
            let rest = path.as_bytes().strip_prefix(folder.as_bytes());
            folder.is_root() || rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
        };
        while above.rules.last().is_some_and(|(last, _)| !is_in(last)) {
            above.rules.pop();
        }
        for folder in ways(path).skip(above.rules.len()) {
            let (target, relative) = self.search.placement.relative(source, &folder)?;
            let Some(root) = &target.folder else { break };
            let shown = printable(&target.display(&relative));
            let opened = open_folder(root, &relative).map_err(|error| {
                TransferError::path("look into", &target.display(&relative), error)
            })?;
            let outer = above.rules.last().map(|(_, rules)| rules.clone());
            let name = self.filtered(source, &folder);
            let rules = self.enter(&opened, &name, &outer.unwrap_or_default(), &shown)?;
            above.rules.push((folder, rules));
        }
        let rules = above.rules.last().map(|(_, rules)| rules.clone());
        self.above = above;
        Ok(rules.unwrap_or_default())
    }

    fn enter(
        &self,
        folder: &OwnedFd,
        filtered: &[u8],
        above: &Folder,
        shown: &str,
    ) -> Result<Folder, TransferError> {
        let filters = self.search.filters;
        filter_file::enter(filters, filtered, folder, above, shown.as_bytes())
    }

    /// The name of a path below the transfer's root.
    fn filtered(&self, source: u16, path: &TreePath) -> Vec<u8> {
        let named = self.search.sources.get(usize::from(source));
        match named.map(|source| base_name(source)) {
            Some(Ok(BaseName::Named(name))) => below(&name, path.as_bytes()),
            _ => path.as_bytes().to_vec(),
        }
    }

    fn add(
        &mut self,
        here: &Here,
        path: TreePath,
        kind: Kind,
        inside: bool,
    ) -> Result<(), TransferError> {
        let extraneous = Extraneous {
            source: here.source,
            path,
            kind,
        };
        self.note(here, Candidate { extraneous, inside })
    }

    fn note(&mut self, here: &Here, candidate: Candidate) -> Result<(), TransferError> {
        let (target, _) = self.search.placement.relative(here.source, &here.path)?;
        let Some(root) = &target.folder else {
            return Ok(());
        };
        let added = self.found.spool.add(&candidate, root);
        added.map_err(|error| self.unnoted(here, error))?;
        self.found.count += 1;
        Ok(())
    }

    fn unnoted(&self, here: &Here, error: std::io::Error) -> TransferError {
        TransferError::path(
            "note what is to be removed in",
            self.shown(here, b"").as_bytes(),
            error,
        )
    }

    fn shown(&self, here: &Here, name: &[u8]) -> String {
        let path = match self.search.placement.relative(here.source, &here.path) {
            Ok((target, relative)) => target.display(&below(&relative, name)),
            Err(_) => below(here.path.as_bytes(), name),
        };
        printable(&path)
    }

    /// Says that something stays because this end may or can not.
    fn cannot(&mut self, action: &str, shown: &str, error: Errno) {
        self.found.failed += 1;
        let why = reason(error);
        (self.search.warn)(format!("cannot {action} {shown}: {why}; it stays"));
    }

    fn stays(&self, shown: &str, why: &str) {
        (self.search.warn)(format!(
            "{shown} stays, though it is not at the source: {why}"
        ));
    }
}

/// A path and the folders that it is in, the highest first.
pub(super) fn ways(path: &TreePath) -> impl Iterator<Item = TreePath> {
    let bytes = path.as_bytes();
    let ends = (0..bytes.len()).filter(|&at| bytes[at] == b'/');
    let whole = (!path.is_root()).then_some(bytes.len());
    let folders = ends
        .chain(whole)
        .map(|end| TreePath::try_from(bytes[..end].to_vec()).expect("it begins a path"));
    std::iter::once(TreePath::default()).chain(folders)
}

/// A name in a folder of that path; an empty one is the other.
fn below(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = match folder.is_empty() || name.is_empty() {
        true => b"",
        false => b"/",
    };
    [folder, slash, name].concat()
}

#[path = "other_kind.rs"]
mod other_kind;

#[cfg(test)]
#[path = "extraneous_tests.rs"]
mod tests;
