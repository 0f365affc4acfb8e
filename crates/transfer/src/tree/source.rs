//! What is to be sent: the sources a user named, opened once, and the tree below each.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use howdah_filter::{Filters, Folder, Side};
use howdah_wire::{
    Attributes, Content, Keep, LinkTarget, Owner, PathError, Special, TreePath, Walk, XattrsSum,
    printable,
};
use rustix::fs::{AtFlags, Dir, FileType, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::end::open_files::allow_open_files;
use crate::error::TransferError;
use crate::tree::content::Noting;
use crate::tree::filter_file;
use crate::tree::flags::Flags;
use crate::tree::inlet::Inlet;
use crate::tree::owners::Senders;
use crate::tree::part::is_part_name;
use crate::tree::reach::Reach;
use crate::tree::source_file::SourceFile;
use crate::tree::source_kept::inode;
use crate::tree::source_links::{Becomes, LastFolder};
use crate::tree::unfinished::MARK;
use crate::tree::unread::UnreadFolders;
use crate::tree::xattrs::Of;

/// Below a source, or a destination, nothing but what is in it is opened, whatever becomes of its
/// names meanwhile.
pub(crate) const INSIDE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_SYMLINKS);

/// One thing to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Index of its source.
    pub source: u16,
    /// Path below the source.
    pub path: TreePath,
    /// What it is.
    pub kind: Kind,
}

impl Entry {
    /// What it takes of memory, in bytes, but for what it shares with others.
    pub fn held_bytes(&self) -> usize {
        let other_name = match &self.kind {
            Kind::HardLink { first, .. } => first.as_bytes().len(),
            Kind::Link { target, .. } => target.as_bytes().len(),
            _ => 0,
        };
        size_of::<Self>() + self.path.as_bytes().len() + other_name
    }
}

/// What an [`Entry`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File {
        /// Its size in bytes.
        size: u64,
        /// Its mode and modification time.
        attributes: Attributes,
        /// What tells its other names, if it has any.
        inode: Option<Inode>,
        /// What tells its extended attributes, if they are kept and can be read.
        xattrs: Option<XattrsSum>,
    },
    /// A file that the receiver has, but for its extended attributes.
    Attributes {
        /// Its size in bytes.
        size: u64,
        /// Its mode, modification time and owner.
        attributes: Attributes,
    },
    /// Another name of a file that was found before.
    HardLink {
        /// Index of the source that the first name belongs to.
        first_source: u16,
        /// The first name, below that source.
        first: TreePath,
        /// The file's size in bytes.
        size: u64,
        /// Its modification time, in nanoseconds since 1970.
        mtime_ns: i64,
    },
    /// A folder.
    Folder(Attributes),
    /// A symbolic link, sent as such.
    Link {
        /// Where it points.
        target: LinkTarget,
        /// Its modification time, in nanoseconds since 1970.
        mtime_ns: i64,
        /// To whom it belongs, if that is kept.
        owner: Option<Arc<Owner>>,
    },
    /// A device, a FIFO or a socket.
    Special {
        /// Its mode and modification time.
        attributes: Attributes,
        /// What it is.
        kind: Special,
        /// The major and the minor number of a device.
        device: (u32, u32),
    },
}

/// A file of more than one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inode {
    /// Device and number, as stat(2) says them.
    pub number: (u64, u64),
    /// How many names it has.
    pub names: u64,
}

/// What a scan comes upon.
#[derive(Debug)]
pub enum Found {
    /// Something to send.
    Entry(Entry),
    /// A special file, or what an interrupted copy has left, which is left out; a line that says so.
    Special(String),
    /// Something that cannot be read; a line that says why.
    Unreadable(String),
    /// Names in a folder, of sources that note them.
    Content(Content),
}

impl Found {
    /// Whether it is a folder to send.
    pub(super) fn is_folder(&self) -> bool {
        matches!(self, Self::Entry(entry) if matches!(entry.kind, Kind::Folder(_)))
    }
}

/// The name a source gets inside an existing folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseName {
    /// Its own last name.
    Named(Vec<u8>),
    /// None: only what is in it is copied (`SRC/.`).
    Contents,
}

/// The last name of a path, as `cp -r` sees it.
///
/// # Errors
/// When the path ends in `..`, whose name cannot be told without looking.
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
    opened: Vec<Source>,
    filters: Filters,
    notes_content: bool,
    pub(super) walk: Walk,
    pub(super) reach: Reach,
    pub(super) keep: Keep,
    pub(super) owners: Senders,
    pub(super) flags: Flags,
    /// Whether something had flags that are not kept.
    pub(super) fixed: AtomicBool,
    inlet: Option<Inlet>,
}

#[derive(Debug)]
struct Source {
    path: Vec<u8>,
    /// What its names begin with for the filters; empty where only what is in it is copied.
    name: Vec<u8>,
    root: OwnedFd,
    stat: Stat,
}

impl Sources {
    /// Opens what the user named, of which the filters leave out some; a symbolic link named here is followed.
    ///
    /// # Errors
    /// When one is missing, unreadable, or neither file nor folder.
    pub fn open(paths: &[Vec<u8>], filters: Filters, reach: &Reach) -> Result<Self, TransferError> {
        allow_open_files();
        let opened = paths
            .iter()
            .map(|path| Source::open(path, reach))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            opened,
            filters,
            notes_content: false,
            walk: Walk::default(),
            reach: reach.clone(),
            keep: Keep::default(),
            owners: Senders::default(),
            flags: Flags::default(),
            fixed: AtomicBool::new(false),
            inlet: None,
        })
    }

    /// A pipe, and no files.
    pub fn of_pipe(inlet: Inlet) -> Self {
        Self {
            opened: Vec::new(),
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

    /// The pipe, if that is what is sent.
    pub fn inlet(&self) -> Option<&Inlet> {
        self.inlet.as_ref()
    }

    /// Refuses all but one file, for a pipe takes no more.
    ///
    /// # Errors
    /// When it is a folder.
    pub fn check_for_pipe(&self) -> Result<(), TransferError> {
        let folder = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        match &self.opened[..] {
            [Source { stat, .. }] if !folder(stat) => Ok(()),
            [Source { path, .. }] => Err(TransferError::Here(format!(
                "cannot write {} into a pipe: it is a folder; name one file in it",
                printable(path)
            ))),
            sources => Err(TransferError::Here(format!(
                "cannot write {} sources into a pipe; name one file",
                sources.len()
            ))),
        }
    }

    /// The same sources; of each folder that is scanned the names that the filters leave in it are handed out, if
    /// `notes` says so: also of what is not sent.
    #[must_use]
    pub fn noting_content(mut self, notes: bool) -> Self {
        self.notes_content = notes;
        self
    }

    /// The same, gone through as a job says.
    #[must_use]
    pub fn walking(self, walk: Walk) -> Self {
        Self { walk, ..self }
    }

    /// The same, where more is kept of files.
    #[must_use]
    pub fn keeping(self, keep: Keep) -> Self {
        Self {
            keep,
            owners: Senders::new(keep),
            ..self
        }
    }

    /// The path of an entry as its user would write it.
    pub fn display(&self, source: u16, path: &TreePath) -> Vec<u8> {
        let mut display = self.opened[usize::from(source)].path.clone();
        if !path.is_root() {
            if !display.ends_with(b"/") {
                display.push(b'/');
            }
            display.extend_from_slice(path.as_bytes());
        }
        display
    }

    /// Opens a file that had `size` bytes and the modification time `mtime_ns` when it was found; quicker with what is
    /// known from the `last` one.
    ///
    /// # Errors
    /// [`TransferError::Unreadable`] when it has gone, may not be read, has changed since it was found
    /// or is no regular file any more.
    pub fn open_file(
        &self,
        last: Option<&mut LastFolder>,
        source: u16,
        path: &TreePath,
        size: u64,
        mtime_ns: i64,
    ) -> Result<SourceFile, TransferError> {
        let root = &self.opened[usize::from(source)].root;
        let opened = if path.is_root() {
            rustix::io::fcntl_dupfd_cloexec(root, 0)
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
        } else if self::size(&stat) < size {
            "it has become shorter since it was found"
        } else if self::size(&stat) > size || self::mtime_ns(&stat) != mtime_ns {
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

    /// Walks all sources, folders before what is in them, and hands out what is there.
    ///
    /// # Errors
    /// Of `found`, and when this host can read nothing any more.
    pub fn scan(
        &self,
        found: &mut dyn FnMut(Found) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        for (source, Source { stat, root, .. }) in (0u16..).zip(&self.opened) {
            let path = TreePath::default();
            let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let above = Folder::default();
            if self.leaves_out(source, &above, &path, is_folder) {
                continue;
            }
            if !is_folder {
                let kind = Kind::File {
                    size: size(stat),
                    attributes: self.attributes(stat),
                    inode: inode(stat),
                    xattrs: self.xattrs_sum(Of::Open(root.as_fd())),
                };
                found(Found::Entry(Entry { source, path, kind }))?;
                continue;
            }
            found(Found::Entry(Entry {
                source,
                path: path.clone(),
                kind: Kind::Folder(self.attributes(stat)),
            }))?;
            let mut unread = UnreadFolders::default();
            let mut next = Some((path, above));
            while let Some((folder, above)) = next {
                match self.scan_folder(source, &folder, &above, &mut unread, found) {
                    Err(TransferError::Unreadable(why)) => found(Found::Unreadable(why))?,
                    other => other?,
                }
                next = unread.pop();
            }
        }
        Ok(())
    }

    fn scan_folder(
        &self,
        source: u16,
        folder: &TreePath,
        above: &Folder,
        unread: &mut UnreadFolders,
        found: &mut dyn FnMut(Found) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        if self.is_elsewhere(source, folder)? {
            return Ok(());
        }
        self.list(source, folder, above, &mut |here, rules| {
            if let Found::Entry(entry) = &here
                && here.is_folder()
            {
                unread.add(folder, rules, &entry.path);
            }
            found(here)
        })
    }

    /// Hands out what is in one folder, with the rules there.
    pub(super) fn list(
        &self,
        source: u16,
        folder: &TreePath,
        above: &Folder,
        found: &mut dyn FnMut(Found, &Folder) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let failed = |error: Errno| {
            TransferError::reading("read folder", &self.display(source, folder), error)
        };
        let descriptor = self.open_folder(source, folder)?;
        let rules = filter_file::enter(
            &self.filters,
            &self.filtered_name(source, folder),
            &descriptor,
            above,
            &self.display(source, folder),
        )?;
        let names = Dir::read_from(&descriptor).map_err(failed)?;
        let mut noting = self.notes_content.then(|| Noting::new(source, folder));
        let listed = names.into_iter().try_for_each(|name| {
            let name = name.map_err(failed)?;
            let name = name.file_name().to_bytes();
            let noting = noting.as_mut();
            self.list_one(source, folder, &descriptor, &rules, name, noting, found)
        });
        if let (Some(noting), Ok(()) | Err(TransferError::Unreadable(_))) = (noting, &listed) {
            found(Found::Content(noting.rest()), &rules)?;
        }
        listed
    }

    /// Hands out what is under a name in an open folder.
    #[allow(
        clippy::too_many_arguments,
        reason = "they are what there is of one folder"
    )]
    fn list_one(
        &self,
        source: u16,
        folder: &TreePath,
        descriptor: &OwnedFd,
        rules: &Folder,
        name: &[u8],
        noting: Option<&mut Noting>,
        found: &mut dyn FnMut(Found, &Folder) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        if matches!(name, b"." | b"..") {
            return Ok(());
        }
        if let Some(left) = self.left_by_a_copy(source, folder, name) {
            return found(left, rules);
        }
        let here = match self.look(source, folder, descriptor, name) {
            Ok(Some(here)) => here,
            // Deleted since its folder was read.
            Ok(None) => return Ok(()),
            Err(TransferError::Unreadable(why)) => Found::Unreadable(why),
            Err(error) => return Err(error),
        };
        if !self.filters.is_empty()
            && let Ok(path) = folder.join(name)
            && self.leaves_out(source, rules, &path, here.is_folder())
        {
            return Ok(());
        }
        if let Some(full) = noting.and_then(|noting| noting.add(name)) {
            found(Found::Content(full), rules)?;
        }
        found(here, rules)
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

    /// What an interrupted copy has left under a name, as a line.
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

    /// Why something named is not sent that is not there.
    pub(super) fn missing(&self, source: u16, folder: &TreePath, name: &[u8]) -> TransferError {
        let path = [&self.display(source, folder), b"/".as_slice(), name].concat();
        TransferError::reading("read", &path, Errno::NOENT)
    }

    /// A source as it was opened.
    pub(super) fn root(&self, source: u16) -> (&OwnedFd, &Stat) {
        let Source { root, stat, .. } = &self.opened[usize::from(source)];
        (root, stat)
    }

    /// The only source, if it is a folder.
    pub(super) fn only_folder(&self) -> Option<&Stat> {
        match &self.opened[..] {
            [Source { stat, .. }]
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory =>
            {
                Some(stat)
            }
            _ => None,
        }
    }

    /// Whether the filters leave out a path, of which `rules` are those of its folder.
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
        let name = &self.opened[usize::from(source)].name;
        let between = !name.is_empty() && !path.is_root();
        let slash: &[u8] = if between { b"/" } else { b"" };
        [name, slash, path.as_bytes()].concat()
    }

    /// What `name` in an open folder is; `None` when it is there no more.
    pub(super) fn look(
        &self,
        source: u16,
        folder: &TreePath,
        descriptor: &OwnedFd,
        name: &[u8],
    ) -> Result<Option<Found>, TransferError> {
        let refused = |error: PathError| {
            let folder = printable(&self.display(source, folder));
            TransferError::Unreadable(format!("cannot read {folder}/{}: {error}", printable(name)))
        };
        let path = folder.join(name).map_err(refused)?;
        let failed =
            |error: Errno| TransferError::reading("read", &self.display(source, &path), error);
        let mut stat = match rustix::fs::statat(descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            other => other.map_err(failed)?,
        };
        let mut behind = None;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            let target = match rustix::fs::readlinkat(descriptor, name, Vec::new()) {
                Err(Errno::NOENT) => return Ok(None),
                other => LinkTarget::try_from(other.map_err(failed)?.into_bytes()),
            };
            let target = target.map_err(refused)?;
            match self.becomes_of(source, &path, target.as_bytes()) {
                Becomes::Kept => {
                    let kind = Kind::Link {
                        target,
                        mtime_ns: mtime_ns(&stat),
                        owner: self.owners.of(&stat),
                    };
                    return Ok(Some(Found::Entry(Entry { source, path, kind })));
                }
                Becomes::LeftOut => return Ok(Some(self.leads_out(source, &path))),
                Becomes::Followed => {
                    let open = self.behind(source, &path)?;
                    stat = rustix::fs::fstat(&open).map_err(failed)?;
                    behind = Some(open);
                }
            }
        }
        let of = match &behind {
            Some(open) => Of::Path(open.as_fd()),
            None => Of::Named(descriptor.as_fd(), name),
        };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File {
                size: size(&stat),
                attributes: self.attributes(&stat),
                inode: inode(&stat),
                xattrs: self.xattrs_sum(of),
            },
            FileType::Directory => Kind::Folder(self.attributes(&stat)),
            other => match self.special(&stat) {
                Some(kind) => kind,
                None => {
                    let path = printable(&self.display(source, &path));
                    let line = format!("left out {path}: {}", special(other));
                    return Ok(Some(Found::Special(line)));
                }
            },
        };
        Ok(Some(Found::Entry(Entry { source, path, kind })))
    }
}

impl Source {
    fn open(path: &[u8], reach: &Reach) -> Result<Self, TransferError> {
        let failed = |error: Errno| TransferError::reading("read", path, error);
        let stat = reach.stat(path).map_err(failed)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::Directory) {
            return Err(TransferError::Here(format!(
                "cannot copy {}: {}",
                printable(path),
                special(kind)
            )));
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let root = reach.open(path, flags).map_err(failed)?;
        let stat = rustix::fs::fstat(root.as_fd()).map_err(failed)?;
        // A name that cannot be told is one that the receiver does not need either.
        let name = match base_name(path) {
            Ok(BaseName::Named(name)) => name,
            Ok(BaseName::Contents) | Err(_) => Vec::new(),
        };
        Ok(Self {
            path: path.to_vec(),
            name,
            root,
            stat,
        })
    }
}

/// What a file is that cannot be copied.
pub(crate) fn special(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "it is a FIFO",
        FileType::Socket => "it is a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "it is a device",
        _ => "it is neither file, folder nor link",
    }
}

pub(super) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Modification time in nanoseconds since 1970; times beyond 1677–2262 are moved to its ends.
pub(crate) fn mtime_ns(stat: &Stat) -> i64 {
    let seconds = i128::from(stat.st_mtime);
    let ns = seconds * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
