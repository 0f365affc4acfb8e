//! File systems that take several names for one: names that differ in case, in their Unicode form, or otherwise. Two entries
//! of the source can become one there. The second one is refused, so that it does not replace what this copy has placed, and
//! is not skipped because of it.
//!
//! Which names are one is not known here. A folder is examined when the first entry in it has been found or placed: if the
//! name leads nowhere in the other case, the folder is ordinary, and nothing more is done. Of any other folder, all names
//! are noted that were there before. Each can be taken by one entry of the source. What came later cannot be taken.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};

use howdah_wire::printable;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::tree::content::name_hash;
use crate::tree::durable::is_local;
use crate::tree::place::parent_and_name;
use crate::tree::reach::INSIDE;

/// Ordinary folders that are remembered. Others are examined again.
const MAX_ORDINARY: usize = 4096;
/// `FS_CASEFOLD_FL` (linux/fs.h), of a folder of ext4 and tmpfs.
const CASEFOLD: u32 = 0x4000_0000;

/// The path of a folder below the target's folder, or a name.
type Hash = u64;

/// The hash of a path or a name.
pub(super) fn hash(name: &[u8]) -> Hash {
    Hash::from_le_bytes(name_hash(name))
}

/// What is known of the folders of a copy.
#[derive(Debug, Default)]
pub struct Folding(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    ordinary: HashMap<Hash, Apart>,
    /// The names that were in the other folders before.
    before: HashMap<Hash, Before>,
    /// Folders of the source in such folders that have their name.
    entered: HashSet<Hash>,
    /// Those that have it not, with the reason.
    refused: HashMap<Hash, String>,
    /// The folder of the source that was found last with all that it is in.
    way: Vec<u8>,
}

/// Which names a folder tells apart.
#[derive(Debug, Default, Clone, Copy)]
struct Apart {
    /// Those that differ in the case of ASCII letters.
    case: bool,
    /// Those that differ in other characters than ASCII.
    forms: bool,
}

impl Apart {
    /// Whether this name can be taken for no other one.
    fn tells(self, name: &[u8]) -> bool {
        (self.case || !has_letter(name)) && (self.forms || name.is_ascii())
    }
}

/// Names of a folder, and which of them are taken.
#[derive(Debug)]
struct Before {
    names: Box<[Hash]>,
    taken: Box<[bool]>,
}

impl Before {
    fn of(folder: BorrowedFd<'_>) -> Result<Self, Errno> {
        let mut names = Vec::new();
        each_name(folder, |name| {
            names.push(hash(name));
            false
        })?;
        names.sort_unstable();
        Ok(Self {
            taken: vec![false; names.len()].into(),
            names: names.into(),
        })
    }

    /// Where a name is that is not taken.
    fn free(&self, name: &[u8]) -> Option<usize> {
        let at = self.names.binary_search(&hash(name)).ok()?;
        (!self.taken[at]).then_some(at)
    }
}

/// The folder in which a name is given.
#[derive(Clone, Copy)]
pub(super) enum Within<'a> {
    /// An open one.
    Open(BorrowedFd<'a>),
    /// One with this path below the target's folder.
    Below(&'a OwnedFd, &'a [u8]),
}

/// An entry of the source that gets or finds its name. Nothing else gets one in a folder that is not ordinary until this is
/// dropped.
pub(crate) struct Naming<'a> {
    /// Absent in an ordinary folder.
    known: Option<MutexGuard<'a, Known>>,
    folder: Hash,
    within: Within<'a>,
    name: &'a [u8],
    display: &'a [u8],
    /// Whether what has the name may be replaced or kept.
    may: bool,
    /// The name that was taken among those that were there before.
    taken: Option<usize>,
}

impl Folding {
    /// An entry with this name in a folder; `display` is its whole path.
    pub(super) fn naming<'a>(
        &'a self,
        folder: Hash,
        within: Within<'a>,
        name: &'a [u8],
        display: &'a [u8],
    ) -> Naming<'a> {
        let known = lock(&self.0);
        let ordinary = known.ordinary.get(&folder).copied().unwrap_or_default();
        Naming {
            known: (!ordinary.tells(name)).then_some(known),
            folder,
            within,
            name,
            display,
            may: false,
            taken: None,
        }
    }

    /// Whether a name in a folder of the source stands for an entry of the source, or came after the copy began. That cannot
    /// be told from the name alone in a folder that takes several names for one.
    pub(super) fn keeps(&self, folder: &[u8], name: &[u8]) -> bool {
        let known = lock(&self.0);
        let before = known.before.get(&hash(folder));
        before.is_some_and(|before| before.free(name).is_none())
    }

    /// Why a folder of the source, or one that it is in, was refused.
    pub(super) fn refusal(&self, path: &[u8]) -> Option<String> {
        let known = lock(&self.0);
        if known.refused.is_empty() {
            return None;
        }
        ends(path).find_map(|end| known.refused.get(&hash(&path[..end])).cloned())
    }

    /// Finds the entry with this path below the target's folder, which is kept as it is. `is_folder` says what the source has.
    ///
    /// # Errors
    /// [`TransferError::Refused`] when it is of another name, or lies in a folder that is.
    pub(super) fn find(
        &self,
        root: &OwnedFd,
        relative: &[u8],
        is_folder: bool,
        display: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Result<(), TransferError> {
        self.look(root, relative, is_folder, true, display)
    }

    /// The same for an entry that will be replaced. It is not taken yet.
    pub(super) fn foresee(
        &self,
        root: &OwnedFd,
        relative: &[u8],
        display: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Result<(), TransferError> {
        self.look(root, relative, false, false, display)
    }

    fn look(
        &self,
        root: &OwnedFd,
        relative: &[u8],
        is_folder: bool,
        takes: bool,
        display: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Result<(), TransferError> {
        let folder = match is_folder {
            true => relative,
            false => parent_and_name(relative).0,
        };
        if lock(&self.0).way != folder {
            for end in ends(folder) {
                let path = &relative[..end];
                let (above, name) = parent_and_name(path);
                let within = Within::Below(root, above);
                let display = display(path);
                let mut naming = self.naming(hash(above), within, name, &display);
                naming.folder(path, false)?;
            }
            lock(&self.0).way = folder.to_vec();
        }
        if is_folder {
            return Ok(());
        }
        let (above, name) = parent_and_name(relative);
        let display = display(relative);
        let mut naming = self.naming(hash(above), Within::Below(root, above), name, &display);
        naming.take()?;
        if !takes {
            naming.give_back();
        }
        Ok(())
    }
}

impl<'a> Naming<'a> {
    /// Takes what has the name, which is to be replaced or kept.
    ///
    /// # Errors
    /// [`TransferError::Refused`] when that has come since the copy began.
    pub(crate) fn take(&mut self) -> Result<(), TransferError> {
        if self.may {
            return Ok(());
        }
        let (name, folder) = (self.name, self.folder);
        let Some((known, open)) = self.look_in() else {
            self.may = true;
            return Ok(());
        };
        let Some(before) = known.before.get_mut(&folder) else {
            self.may = true;
            return Ok(());
        };
        let stored = match before.free(name) {
            Some(_) => Some(name.to_vec()),
            None => stored(open.as_fd(), name),
        };
        if let Some(stored) = stored {
            let Some(at) = before.free(&stored) else {
                return Err(TransferError::Refused(self.refusal(&stored)));
            };
            before.taken[at] = true;
            self.taken = Some(at);
        }
        self.may = true;
        Ok(())
    }

    /// Gives back what was taken, which stays what it was.
    pub(crate) fn give_back(&mut self) {
        if let (Some(known), Some(at)) = (&mut self.known, self.taken.take())
            && let Some(before) = known.before.get_mut(&self.folder)
        {
            before.taken[at] = false;
        }
        self.may = false;
    }

    /// Notes that the entry has its name. If it took nothing, nothing was there.
    pub(crate) fn placed(&mut self) {
        let is_known = |known: &MutexGuard<'_, Known>| known.before.contains_key(&self.folder);
        if !self.may && self.known.as_ref().is_some_and(|known| !is_known(known)) {
            // If the folder is not ordinary, the entry is among the names that are noted now.
            let _ = self.take();
        }
    }

    /// A folder of the source with this path, which has been made, or found.
    ///
    /// # Errors
    /// [`TransferError::Refused`] when it is another folder of the source.
    pub(super) fn folder(&mut self, path: &[u8], is_new: bool) -> Result<(), TransferError> {
        let path = hash(path);
        match &self.known {
            None => return Ok(()),
            Some(known) if known.entered.contains(&path) => return Ok(()),
            Some(known) => {
                if let Some(why) = known.refused.get(&path) {
                    return Err(TransferError::Refused(why.clone()));
                }
            }
        }
        let outcome = match is_new {
            true => {
                self.placed();
                Ok(())
            }
            false => self.take(),
        };
        if let Some(known) = &mut self.known {
            match &outcome {
                Ok(()) if known.before.contains_key(&self.folder) => {
                    known.entered.insert(path);
                }
                Err(TransferError::Refused(why)) => {
                    known.refused.insert(path, why.clone());
                }
                _ => {}
            }
        }
        outcome
    }

    /// What is known, and the open folder, unless the folder is ordinary. It is examined if that is not known.
    fn look_in(&mut self) -> Option<(&mut Known, Open<'a>)> {
        let known = self.known.as_deref_mut()?;
        let open = match self.within {
            Within::Open(folder) => Open::Borrowed(folder),
            Within::Below(root, path) => {
                let path = if path.is_empty() { b"." } else { path };
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                Open::Own(rustix::fs::openat2(root, path, flags, Mode::empty(), INSIDE).ok()?)
            }
        };
        if !known.before.contains_key(&self.folder) {
            let apart = known.ordinary.get(&self.folder).copied();
            let apart = examine(open.as_fd(), self.name, apart.unwrap_or_default());
            if known.ordinary.len() >= MAX_ORDINARY {
                known.ordinary.clear();
            }
            known.ordinary.insert(self.folder, apart);
            if apart.tells(self.name) {
                return None;
            }
            // Of a folder that cannot be read, nothing can be told.
            let before = Before::of(open.as_fd()).ok()?;
            known.before.insert(self.folder, before);
        }
        Some((known, open))
    }

    fn refusal(&self, stored: &[u8]) -> String {
        let (shown, stored) = (printable(self.display), printable(stored));
        format!(
            "cannot write {shown}: its file system takes that name for {stored}, which this copy or another program has put there \
             since the copy began; give one of the two another name"
        )
    }
}

/// An open folder.
enum Open<'a> {
    Borrowed(BorrowedFd<'a>),
    Own(OwnedFd),
}

impl AsFd for Open<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Borrowed(folder) => *folder,
            Self::Own(folder) => folder.as_fd(),
        }
    }
}

fn has_letter(name: &[u8]) -> bool {
    name.iter().any(u8::is_ascii_alphabetic)
}

/// Where the names of a path end.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = (0..path.len()).filter(|&at| path[at] == b'/');
    slashes.chain((!path.is_empty()).then_some(path.len()))
}

/// Which names a folder tells apart, as far as one that is in it shows.
fn examine(folder: BorrowedFd<'_>, name: &[u8], known: Apart) -> Apart {
    let case = known.case || has_letter(name) && !is_found_in_other_case(folder, name);
    let forms =
        known.forms || !name.is_ascii() && (case || !has_letter(name)) && tells_forms_apart(folder);
    Apart { case, forms }
}

fn is_found_in_other_case(folder: BorrowedFd<'_>, name: &[u8]) -> bool {
    let swapped: Vec<u8> = name
        .iter()
        .map(|byte| match byte.is_ascii_lowercase() {
            true => byte.to_ascii_uppercase(),
            false => byte.to_ascii_lowercase(),
        })
        .collect();
    let is_same = number(folder, &swapped)
        .is_some_and(|other| number(folder, name).is_some_and(|one| one == other));
    // Two names of one file may differ only in case anywhere.
    let is_listed = |sought: &[u8]| each_name(folder, |listed| listed == sought) == Ok(true);
    is_same && !(is_listed(&swapped) && is_listed(name))
}

/// Whether a file system is known to tell all other characters apart than ASCII letters: a local one without `casefold`.
fn tells_forms_apart(folder: BorrowedFd<'_>) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folds = || {
        let open = rustix::fs::openat(folder, ".", flags, Mode::empty())?;
        rustix::fs::ioctl_getflags(open).map(|flags| flags.bits() & CASEFOLD != 0)
    };
    is_local(folder) && !matches!(folds(), Ok(true))
}

/// The device and number of what has a name.
fn number(folder: BorrowedFd<'_>, name: &[u8]) -> Option<(u64, u64)> {
    let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    found
        .ok()
        .map(|Stat { st_dev, st_ino, .. }| (st_dev, st_ino))
}

/// The name under which a folder lists what it finds for `name`. Names that differ only in case are tried first.
fn stored(folder: BorrowedFd<'_>, name: &[u8]) -> Option<Vec<u8>> {
    let sought = number(folder, name)?;
    let lower = |name: &[u8]| String::from_utf8_lossy(name).to_lowercase();
    let alike = lower(name);
    let mut found = None;
    for only_alike in [true, false] {
        let is_it = |other: &[u8]| {
            let is_it =
                (lower(other) == alike) == only_alike && number(folder, other) == Some(sought);
            if is_it {
                found = Some(other.to_vec());
            }
            is_it
        };
        if each_name(folder, is_it) != Ok(false) {
            break;
        }
    }
    found
}

/// Calls `take` for each name in a folder until it returns true. Returns whether it did.
fn each_name(folder: BorrowedFd<'_>, mut take: impl FnMut(&[u8]) -> bool) -> Result<bool, Errno> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") && take(name) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::place::Placement;
    use crate::tree::target::Target;
    use howdah_wire::{Attributes, TreePath};
    use std::fs::{self, File};
    use std::io::IoSlice;
    use std::sync::Arc;

    fn placement(folder: &std::path::Path) -> Placement {
        Placement::new(vec![Target {
            folder: Some(Arc::new(File::open(folder).unwrap().into())),
            folder_path: b"dst".to_vec(),
            name: None,
            renamed: None,
        }])
    }

    fn place(placement: &Placement, name: &str, content: &[u8]) -> Result<(), TransferError> {
        let path = TreePath::try_from(name.as_bytes().to_vec()).unwrap();
        let attributes = Attributes {
            mode: 0o600,
            mtime_ns: 0,
            owner: None,
            xattrs: None,
        };
        let draft = placement.draft(0, &path, 0, &attributes).unwrap();
        draft.write_at(&mut [IoSlice::new(content)], 0).unwrap();
        draft.give_name()
    }

    /// As on a file system that takes `old` and `new` for what else the source calls them.
    #[test]
    fn a_file_without_a_name_replaces_what_was_there_before_once_and_nothing_new() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("old"), b"before").unwrap();
        let placement = placement(base.path());
        let folder = File::open(base.path()).unwrap();
        let before = Before::of(folder.as_fd()).unwrap();
        lock(&placement.folding.0).before.insert(hash(b""), before);
        for name in ["old", "new"] {
            place(&placement, name, b"first").unwrap();
            let refused = place(&placement, name, b"second").unwrap_err();
            assert!(matches!(refused, TransferError::Refused(_)), "{refused}");
            assert_eq!(fs::read(base.path().join(name)).unwrap(), b"first");
        }
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_ordinary_folder_is_examined_once_and_nothing_of_it_is_noted() {
        let base = tempfile::tempdir().unwrap();
        let placement = placement(base.path());
        // Names of one file may differ in case alone.
        fs::write(base.path().join("Readme"), b"one").unwrap();
        fs::hard_link(base.path().join("Readme"), base.path().join("rEADME")).unwrap();
        let names = [
            "Readme",
            "README",
            "1",
            "caf\u{e9}",
            "cafe\u{301}",
            "\u{304c}",
        ];
        for name in names.iter().chain(&names) {
            place(&placement, name, name.as_bytes()).unwrap();
        }
        let known = lock(&placement.folding.0);
        assert!(known.before.is_empty() && known.entered.is_empty());
        let apart = known.ordinary[&hash(b"")];
        assert!(apart.case && apart.forms);
        drop(known);
        for name in names {
            assert_eq!(fs::read(base.path().join(name)).unwrap(), name.as_bytes());
        }
    }
}
