//! The sources that a user has named, opened once, and the tree below each.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicBool;

use howdah_filter::{Filters, Folder, Side};
use howdah_wire::{Keep, TreePath, Walk, printable};
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use crate::end::open_files::allow_open_files;
use crate::error::TransferError;
use crate::tree::entry::Found;
use crate::tree::flags::Flags;
use crate::tree::inlet::Inlet;
use crate::tree::landing::Landings;
use crate::tree::owners::Senders;
use crate::tree::part::is_part_name;
use crate::tree::reach::Reach;
use crate::tree::source_file::SourceFile;
use crate::tree::source_kept::special_kind;
use crate::tree::source_links::LastFolder;
use crate::tree::stat::{self, special};
use crate::tree::unfinished::MARK;
use crate::tree::untold::{UNTOLD, has_untold};

/// The name a source gets inside an existing folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseName {
    /// Its own last name.
    Named(Vec<u8>),
    /// None: only what is in it is copied (`SRC/.`).
    Contents,
}

/// The last name of a path, as `cp -r` uses it.
///
/// # Errors
/// When the path ends in `..`, because its name is not known from the path.
pub fn base_name(path: &[u8]) -> Result<BaseName, TransferError> {
    let end = path
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(0, |last| last + 1);
    let name = path[..end]
        .rsplit(|&byte| byte == b'/')
        .next()
        .unwrap_or_default();
    match name {
        b"" | b"." => Ok(BaseName::Contents),
        b".." => Err(TransferError::Here(format!(
            "source {} has no name of its own; name the folder, or copy what is in it with {}/.",
            printable(path),
            printable(path)
        ))),
        name => Ok(BaseName::Named(name.to_vec())),
    }
}

/// The sources of a job, opened.
#[derive(Debug)]
pub struct Sources {
    pub(super) each: Vec<Source>,
    pub(super) landings: Landings,
    pub(super) filters: Filters,
    pub(super) notes_content: bool,
    pub(super) walk: Walk,
    pub(super) reach: Reach,
    pub(super) keep: Keep,
    pub(super) owners: Senders,
    pub(super) flags: Flags,
    /// Whether an entry had flags that are not kept.
    pub(super) fixed: AtomicBool,
    inlet: Option<Inlet>,
}

#[derive(Debug)]
pub(super) struct Source {
    path: Vec<u8>,
    /// What its names begin with for the filters; empty where only what is in it is copied.
    name: Vec<u8>,
    /// Its kind, or why it is left out.
    pub(super) opened: Result<Opened, String>,
}

/// A source that exists. A special file is open with `O_PATH`.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) root: OwnedFd,
    pub(super) stat: Stat,
}

impl Sources {
    /// Opens the sources that the user has named, without those that the filters exclude. A symbolic link is
    /// followed. A source that cannot be copied is left out, and a scan reports the reason.
    ///
    /// # Errors
    /// When no source can be copied: each is missing, unreadable, or a special file that is not kept.
    pub fn open(
        paths: &[Vec<u8>],
        filters: Filters,
        keep: Keep,
        reach: &Reach,
    ) -> Result<Self, TransferError> {
        allow_open_files();
        let each = paths
            .iter()
            .map(|path| Source::open(path, keep, reach))
            .collect::<Result<Vec<_>, _>>()?;
        let all_left_out = each.iter().all(|source| source.opened.is_err());
        if let (true, Some(Err(why))) = (all_left_out, each.first().map(|first| &first.opened)) {
            return Err(TransferError::Unreadable(why.clone()));
        }
        Ok(Self {
            landings: Landings::of(each.iter().map(|source| source.name.as_slice())),
            each,
            filters,
            notes_content: false,
            walk: Walk::default(),
            reach: reach.clone(),
            keep,
            owners: Senders::new(keep),
            flags: Flags::default(),
            fixed: AtomicBool::new(false),
            inlet: None,
        })
    }

    /// A pipe, and no files.
    pub fn of_pipe(inlet: Inlet) -> Self {
        Self {
            each: Vec::new(),
            landings: Landings::default(),
            filters: Filters::default(),
            notes_content: false,
            walk: Walk::default(),
            reach: Reach::default(),
            keep: Keep::default(),
            owners: Senders::default(),
            flags: Flags::default(),
            fixed: AtomicBool::new(false),
            inlet: Some(inlet),
        }
    }

    /// The pipe, if a pipe is sent.
    pub fn inlet(&self) -> Option<&Inlet> {
        self.inlet.as_ref()
    }

    /// Checks that there is only one source and that it is a file, because a pipe takes no more.
    ///
    /// # Errors
    /// When it is a folder or a special file.
    pub fn check_for_pipe(&self) -> Result<(), TransferError> {
        match &self.each[..] {
            [source] => {
                let why = match source.kind() {
                    Some(FileType::Directory) => "it is a folder; name one file in it",
                    Some(FileType::RegularFile) | None => return Ok(()),
                    Some(kind) => special(kind),
                };
                let path = printable(&source.path);
                Err(TransferError::Here(format!(
                    "cannot write {path} into a pipe: {why}"
                )))
            }
            sources => Err(TransferError::Here(format!(
                "cannot write {} sources into a pipe; name one file",
                sources.len()
            ))),
        }
    }

    /// The same sources. If `notes` is true, a scan also reports the names in each folder that the filters do not
    /// exclude, including entries that are not sent.
    #[must_use]
    pub fn noting_content(mut self, notes: bool) -> Self {
        self.notes_content = notes;
        self
    }

    /// The same, with the job's rules on how to walk them.
    #[must_use]
    pub fn walking(self, walk: Walk) -> Self {
        Self { walk, ..self }
    }

    /// The path of an entry, as its user would write it.
    pub fn display(&self, source: u16, path: &TreePath) -> Vec<u8> {
        let mut display = self.each[usize::from(source)].path.clone();
        if !path.is_root() {
            if !display.ends_with(b"/") {
                display.push(b'/');
            }
            display.extend_from_slice(path.as_bytes());
        }
        display
    }

    /// Opens a file that had `size` bytes and the modification time `mtime_ns` when it was found. It is faster with
    /// the folder of the `last` one.
    ///
    /// # Errors
    /// [`TransferError::Unreadable`] when it has disappeared, may not be read, has changed since it was found, or is
    /// not a regular file any more.
    pub fn open_file(
        &self,
        last: Option<&mut LastFolder>,
        source: u16,
        path: &TreePath,
        size: u64,
        mtime_ns: i64,
    ) -> Result<SourceFile, TransferError> {
        let opened = if path.is_root() {
            let root = self.root(source);
            root.and_then(|(root, _)| rustix::io::fcntl_dupfd_cloexec(root, 0))
        } else {
            // Without NONBLOCK a FIFO that took the file's name would block this thread for good.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK;
            match last {
                Some(last) => self.open_below_in(last, source, path, flags),
                None => self.open_below(source, path, flags),
            }
        };
        let failed =
            |error: Errno| TransferError::reading("read", &self.display(source, path), error);
        let descriptor = opened.map_err(failed)?;
        let stat = rustix::fs::fstat(&descriptor).map_err(failed)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let changed = if kind != FileType::RegularFile {
            special(kind)
        } else if stat::size(&stat) < size {
            "it has become shorter since it was found"
        } else if stat::size(&stat) > size || stat::mtime_ns(&stat) != mtime_ns {
            "it has changed since it was found; run the same command again"
        } else {
            let file = SourceFile {
                descriptor,
                opened: stat,
            };
            file.let_the_clock_tick();
            return Ok(file);
        };
        let path = printable(&self.display(source, path));
        Err(TransferError::Unreadable(format!(
            "cannot read {path}: {changed}"
        )))
    }

    /// Opens a folder below a source.
    pub(crate) fn open_folder(
        &self,
        source: u16,
        folder: &TreePath,
    ) -> Result<OwnedFd, TransferError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        self.open_below(source, folder, flags).map_err(|error| {
            TransferError::reading("read folder", &self.display(source, folder), error)
        })
    }

    /// The line on a file that an interrupted copy has left under a name.
    pub(super) fn left_by_a_copy(
        &self,
        source: u16,
        folder: &TreePath,
        name: &[u8],
    ) -> Option<Found> {
        (is_part_name(name) || name == MARK).then(|| {
            let path = [&self.display(source, folder), b"/".as_slice(), name].concat();
            Found::Special(format!(
                "left out {}: it is what a copy that was interrupted has left",
                printable(&path)
            ))
        })
    }

    /// Why a named source that does not exist is not sent.
    pub(super) fn missing(&self, source: u16, folder: &TreePath, name: &[u8]) -> TransferError {
        let path = [&self.display(source, folder), b"/".as_slice(), name].concat();
        TransferError::reading("read", &path, Errno::NOENT)
    }

    /// A source as it was opened.
    ///
    /// # Errors
    /// When it is left out.
    pub(super) fn root(&self, source: u16) -> Result<(&OwnedFd, &Stat), Errno> {
        let opened = self.each[usize::from(source)].opened.as_ref();
        let Opened { root, stat } = opened.map_err(|_| Errno::NOENT)?;
        Ok((root, stat))
    }

    /// The only source, if it is a folder.
    pub(super) fn only_folder(&self) -> Option<&Stat> {
        match &self.each[..] {
            [
                Source {
                    opened: Ok(opened), ..
                },
            ] if opened.is_folder() => Some(&opened.stat),
            _ => None,
        }
    }

    /// Whether the filters exclude a path; `rules` are those of its folder.
    pub(super) fn leaves_out(
        &self,
        source: u16,
        rules: &Folder,
        path: &TreePath,
        is_folder: bool,
    ) -> bool {
        if self.filters.is_empty() {
            return false;
        }
        let path = self.filtered_name(source, path);
        let is_root = path.is_empty();
        !is_root
            && self
                .filters
                .leave_out(Side::Sender, rules, &path, is_folder)
    }

    /// The name of a path below the transfer's root.
    pub(super) fn filtered_name(&self, source: u16, path: &TreePath) -> Vec<u8> {
        let name = &self.each[usize::from(source)].name;
        let between = !name.is_empty() && !path.is_root();
        let slash: &[u8] = if between { b"/" } else { b"" };
        [name, slash, path.as_bytes()].concat()
    }
}

impl Source {
    fn open(path: &[u8], keep: Keep, reach: &Reach) -> Result<Self, TransferError> {
        let opened = match Opened::open(path, keep, reach) {
            Ok(opened) => Ok(opened),
            Err(TransferError::Unreadable(why)) => Err(why),
            Err(error) => return Err(error),
        };
        // A name that cannot be told is one that the receiver does not need either.
        let name = match base_name(path) {
            Ok(BaseName::Named(name)) => name,
            Ok(BaseName::Contents) | Err(_) => Vec::new(),
        };
        Ok(Self {
            path: path.to_vec(),
            name,
            opened,
        })
    }

    /// What it is; `None` where it is left out.
    fn kind(&self) -> Option<FileType> {
        let opened = self.opened.as_ref().ok()?;
        Some(FileType::from_raw_mode(opened.stat.st_mode))
    }
}

impl Opened {
    fn open(path: &[u8], keep: Keep, reach: &Reach) -> Result<Self, TransferError> {
        let failed = |error: Errno| TransferError::reading("read", path, error);
        let cannot = |what: &str, why: &str| {
            let path = printable(path);
            TransferError::Unreadable(format!("cannot copy {what}{path}{why}"))
        };
        let stat = reach.stat(path).map_err(|error| match error {
            Errno::NOENT if is_link(path, reach) => cannot("what ", " leads to: there is nothing"),
            error => failed(error),
        })?;
        let flags = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Directory => OFlags::RDONLY | OFlags::NONBLOCK,
            _ if special_kind(keep, &stat).is_some() => OFlags::PATH,
            kind => return Err(cannot("", &format!(": {}", special(kind)))),
        };
        let root = reach.open(path, flags).map_err(failed)?;
        let stat = rustix::fs::fstat(root.as_fd()).map_err(failed)?;
        let again = || rustix::io::fcntl_dupfd_cloexec(&root, 0);
        match has_untold(&stat, &root, again).map_err(failed)? {
            true => Err(cannot("", &format!(": {UNTOLD}"))),
            false => Ok(Self { root, stat }),
        }
    }

    pub(super) fn is_folder(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }
}

/// Whether a path is a symbolic link.
fn is_link(path: &[u8], reach: &Reach) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let stat = reach.open(path, flags).and_then(rustix::fs::fstat);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
