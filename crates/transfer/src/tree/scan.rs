//! Scans the sources. Each folder is read once, before its subfolders.

use std::os::fd::{AsFd, OwnedFd};

use howdah_filter::Folder;
use howdah_wire::{LinkTarget, PathError, TreePath, printable};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::TransferError;
use crate::tree::content::Noting;
use crate::tree::entry::{Entry, Found, Kind};
use crate::tree::filter_file;
use crate::tree::landing::Lands;
use crate::tree::reach::INSIDE;
use crate::tree::source::{Opened, Sources};
use crate::tree::source_kept::inode;
use crate::tree::source_links::Becomes;
use crate::tree::stat::{mtime_ns, size, special};
use crate::tree::unread::UnreadFolders;
use crate::tree::untold::{UNTOLD, has_untold};
use crate::tree::xattrs::{Of, way};

impl Sources {
    /// Walks all sources, and calls `found` for each entry. A folder comes before its entries.
    ///
    /// # Errors
    /// Errors of `found`, and when this host can read nothing any more.
    pub fn scan(
        &self,
        found: &mut dyn FnMut(Found) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        for (number, source) in (0u16..).zip(&self.each) {
            match &source.opened {
                Ok(opened) => self.scan_source(number, opened, found)?,
                Err(why) => found(Found::Unreadable(why.clone()))?,
            }
        }
        Ok(())
    }

    fn scan_source(
        &self,
        source: u16,
        opened: &Opened,
        found: &mut dyn FnMut(Found) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let Opened { root, stat } = opened;
        let path = TreePath::default();
        let is_folder = opened.is_folder();
        let above = Folder::default();
        if self.leaves_out(source, &above, &path, is_folder) {
            return Ok(());
        }
        let kind = match (is_folder, self.special(stat)) {
            (true, _) => Kind::Folder(self.attributes(stat)),
            (false, Some(kind)) => kind,
            (false, None) => Kind::File {
                size: size(stat),
                attributes: self.attributes(stat),
                inode: inode(stat),
                xattrs: self.xattrs_sum(Of::Open(root.as_fd())),
            },
        };
        match self.lands(source, is_folder)? {
            Lands::First => found(Found::Entry(Entry { source, path, kind }))?,
            Lands::Within => {}
            Lands::Behind => return Ok(()),
            Lands::Against(line) => return found(Found::Special(line)),
        }
        if !is_folder {
            return Ok(());
        }
        let mut unread = UnreadFolders::default();
        let mut next = Some((TreePath::default(), above));
        while let Some((folder, above)) = next {
            match self.scan_folder(source, &folder, &above, &mut unread, found) {
                Err(TransferError::Unreadable(why)) => found(Found::Unreadable(why))?,
                other => other?,
            }
            next = unread.pop();
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
        let earlier = self.earlier(source, folder)?;
        self.list(source, folder, above, &mut |here, rules| {
            let Found::Entry(entry) = &here else {
                return found(here);
            };
            let lands = match &earlier {
                Some(earlier) => earlier.lands(entry)?,
                None => Lands::First,
            };
            if entry.is_folder() && matches!(lands, Lands::First | Lands::Within) {
                unread.add(folder, rules, &entry.path);
            }
            match lands {
                Lands::First => found(here),
                Lands::Within | Lands::Behind => Ok(()),
                Lands::Against(line) => found(Found::Special(line)),
            }
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
        let to_open = behind.as_ref().map(|open| way(open.as_fd(), b""));
        let open = || {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            match &to_open {
                Some(way) => rustix::fs::openat(CWD, way, flags, Mode::empty()),
                None => rustix::fs::openat2(descriptor, name, flags, Mode::empty(), INSIDE),
            }
        };
        if has_untold(&stat, behind.as_ref().unwrap_or(descriptor), open).map_err(failed)? {
            let path = printable(&self.display(source, &path));
            return Err(TransferError::Unreadable(format!(
                "cannot copy {path}: {UNTOLD}"
            )));
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
