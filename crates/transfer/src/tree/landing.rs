//! Several sources that are copied to the same place. If several of them have an entry, the first one's is sent.
//! Folders are merged.
//!
//! Nothing that a scan has found is kept. While a later source is scanned, the earlier ones are examined again, in
//! the folder that is copied to the same place. An entry that an earlier source has and does not send does not count.
//!
//! Deviations from rsync: if the first source has a file and a later one a folder, rsync takes the folder. If rsync
//! leaves an entry of the first source out because of its kind, such as a FIFO, it also leaves out the entry with
//! that name of a later source.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use howdah_filter::Folder;
use howdah_wire::{Links, TreePath, printable};

use crate::error::TransferError;
use crate::tree::entry::{Entry, Found};
use crate::tree::extraneous::ways;
use crate::tree::filter_file;
use crate::tree::listed::split;
use crate::tree::source::Sources;

/// The places of sources, in their order: the common folder, or a name in it.
#[derive(Debug, Default)]
pub(super) struct Landings {
    /// Those of which only what is in them is copied.
    contents: Vec<u16>,
    /// The others, by their names.
    named: HashMap<Box<[u8]>, u16>,
}

/// What happens to an entry because of earlier sources.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lands {
    /// No earlier source has it.
    First,
    /// It is a folder that an earlier one has: what is in it is sent, and the folder is not.
    Within,
    /// It is left out, because an earlier one has it.
    Behind,
    /// The same; an earlier one has a folder there and this is none, or the other way round. A line says so.
    Against(String),
}

/// The entries of earlier sources at the place of a later source's folder.
pub(super) struct Earlier<'a> {
    sources: &'a Sources,
    source: u16,
    /// Whether that is the folder in which all sources land.
    at_top: bool,
    folders: Vec<EarlierFolder>,
}

/// The folder of an earlier source.
struct EarlierFolder {
    source: u16,
    path: TreePath,
    open: OwnedFd,
    /// The rules there.
    rules: Folder,
}

/// Something that an earlier source sends.
struct Sent {
    source: u16,
    path: TreePath,
    is_folder: bool,
}

impl Landings {
    /// The places of sources with these names. The name is empty if only the entries of the source are copied.
    pub fn of<'a>(names: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut landings = Self::default();
        for (source, name) in (0u16..).zip(names) {
            if name.is_empty() {
                landings.contents.push(source);
            } else {
                landings.named.entry(name.into()).or_insert(source);
            }
        }
        landings
    }

    /// Whether an earlier source may have what this one has.
    fn overlaps(&self, source: u16) -> bool {
        match self.contents.first() {
            Some(&first) if first < source => true,
            Some(&first) => first == source && source > 0,
            None => false,
        }
    }

    fn contents_before(&self, source: u16) -> impl Iterator<Item = u16> + '_ {
        let before = move |other: &u16| *other < source;
        self.contents.iter().copied().take_while(before)
    }

    fn named_before(&self, name: &[u8], source: u16) -> Option<u16> {
        let named = self.named.get(name).copied();
        named.filter(|&other| other < source)
    }
}

impl Sources {
    /// What happens to a source itself because of earlier ones.
    ///
    /// # Errors
    /// When this host can read nothing any more.
    pub(super) fn lands(&self, source: u16, is_folder: bool) -> Result<Lands, TransferError> {
        if !self.landings.overlaps(source) {
            return Ok(Lands::First);
        }
        let name = self.filtered_name(source, &TreePath::default());
        if name.is_empty() {
            let mut before = self.landings.contents_before(source);
            let within = before.any(|other| self.root(other).is_ok());
            return Ok(if within { Lands::Within } else { Lands::First });
        }
        let folder = self.earlier_at(source, b"")?;
        folder.decide(&name, &TreePath::default(), is_folder)
    }

    /// The entries of earlier sources at the place of a folder; `None` if there are no earlier sources there.
    ///
    /// # Errors
    /// When a filter file of an earlier source cannot be read, or this host can read nothing any more.
    pub(super) fn earlier(
        &self,
        source: u16,
        folder: &TreePath,
    ) -> Result<Option<Earlier<'_>>, TransferError> {
        if !self.landings.overlaps(source) {
            return Ok(None);
        }
        let landing = self.filtered_name(source, folder);
        self.earlier_at(source, &landing).map(Some)
    }

    fn earlier_at(&self, source: u16, landing: &[u8]) -> Result<Earlier<'_>, TransferError> {
        let mut folders = Vec::new();
        for other in self.landings.contents_before(source) {
            folders.extend(self.earlier_folder(other, landing)?);
        }
        let slash = landing.iter().position(|&byte| byte == b'/');
        let (name, below) = match slash {
            Some(slash) => (&landing[..slash], &landing[slash + 1..]),
            None => (landing, b"".as_slice()),
        };
        if let Some(other) = self.landings.named_before(name, source) {
            folders.extend(self.earlier_folder(other, below)?);
        }
        folders.sort_by_key(|folder| folder.source);
        Ok(Earlier {
            sources: self,
            source,
            at_top: landing.is_empty(),
            folders,
        })
    }

    /// A folder of an earlier source, if it has it and sends what is in it.
    fn earlier_folder(
        &self,
        source: u16,
        path: &[u8],
    ) -> Result<Option<EarlierFolder>, TransferError> {
        // One of this length was found below another source, whose name may be shorter.
        let Ok(path) = TreePath::try_from(path.to_vec()) else {
            return Ok(None);
        };
        let entered = self.enter_earlier(source, &path);
        match entered {
            // What it cannot read it does not send.
            Err(TransferError::Unreadable(_)) => Ok(None),
            other => other,
        }
    }

    fn enter_earlier(
        &self,
        source: u16,
        path: &TreePath,
    ) -> Result<Option<EarlierFolder>, TransferError> {
        let open = self.open_folder(source, path)?;
        let mut rules = Folder::default();
        for folder in ways(path) {
            if self.leaves_out(source, &rules, &folder, true)
                || self.is_elsewhere(source, &folder)?
                || !self.is_as_it_is_found(source, &folder)?
            {
                return Ok(None);
            }
            if self.filters.read_folders() {
                rules = filter_file::enter(
                    &self.filters,
                    &self.filtered_name(source, &folder),
                    &self.open_folder(source, &folder)?,
                    &rules,
                    &self.display(source, &folder),
                )?;
            }
        }
        Ok(Some(EarlierFolder {
            source,
            path: path.clone(),
            open,
            rules,
        }))
    }

    /// Whether a folder of a source is one as a scan finds it too: where links are followed, it may be behind one that is
    /// not.
    fn is_as_it_is_found(&self, source: u16, folder: &TreePath) -> Result<bool, TransferError> {
        if self.walk.links == Links::Kept || folder.is_root() {
            return Ok(true);
        }
        let (above, name) = split(folder);
        let open = self.open_folder(source, &above)?;
        let found = self.look(source, &above, &open, name)?;
        Ok(found.is_some_and(|found| found.is_folder()))
    }
}

impl Earlier<'_> {
    /// What happens to an entry of the folder.
    ///
    /// # Errors
    /// When this host can read nothing any more.
    pub fn lands(&self, entry: &Entry) -> Result<Lands, TransferError> {
        let name = entry.path.as_bytes().rsplit(|&byte| byte == b'/').next();
        self.decide(name.unwrap_or_default(), &entry.path, entry.is_folder())
    }

    fn decide(
        &self,
        name: &[u8],
        path: &TreePath,
        is_folder: bool,
    ) -> Result<Lands, TransferError> {
        let Some(first) = self.first(name)? else {
            return Ok(Lands::First);
        };
        Ok(match (first.is_folder, is_folder) {
            (true, true) => Lands::Within,
            (false, false) => Lands::Behind,
            _ => {
                let display = |source, path| printable(&self.sources.display(source, path));
                Lands::Against(format!(
                    "left out {}: {} lands there, and only one of them is a folder",
                    display(self.source, path),
                    display(first.source, &first.path)
                ))
            }
        })
    }

    /// What the first of the earlier sources sends that has something of that name.
    fn first(&self, name: &[u8]) -> Result<Option<Sent>, TransferError> {
        let named = match self.at_top {
            true => self.sources.landings.named_before(name, self.source),
            false => None,
        };
        let mut named = named.and_then(|source| self.named(source));
        for folder in &self.folders {
            if named
                .as_ref()
                .is_some_and(|named| named.source < folder.source)
            {
                break;
            }
            if let Some(sent) = self.below(folder, name)? {
                named = Some(sent);
                break;
            }
        }
        Ok(named)
    }

    /// An earlier source of that name itself.
    fn named(&self, source: u16) -> Option<Sent> {
        let path = TreePath::default();
        let is_folder = self.sources.each[usize::from(source)]
            .opened
            .as_ref()
            .ok()?
            .is_folder();
        let left_out = self
            .sources
            .leaves_out(source, &Folder::default(), &path, is_folder);
        (!left_out).then_some(Sent {
            source,
            path,
            is_folder,
        })
    }

    /// What is in a folder of an earlier source.
    fn below(&self, folder: &EarlierFolder, name: &[u8]) -> Result<Option<Sent>, TransferError> {
        let (sources, source) = (self.sources, folder.source);
        if sources.left_by_a_copy(source, &folder.path, name).is_some() {
            return Ok(None);
        }
        let is_folder = match sources.look(source, &folder.path, &folder.open, name) {
            Ok(Some(Found::Entry(entry))) => entry.is_folder(),
            Ok(_) | Err(TransferError::Unreadable(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(path) = folder.path.join(name) else {
            return Ok(None);
        };
        let left_out = sources.leaves_out(source, &folder.rules, &path, is_folder);
        Ok((!left_out).then_some(Sent {
            source,
            path,
            is_folder,
        }))
    }
}

#[cfg(test)]
#[path = "landing_tests.rs"]
mod tests;
