//! Symbolic links in a source that are not copied as links, and folders on other file systems. The options are those
//! of rsync.
//!
//! A link that is followed may point to anything that the user of this end may read, but not outside the folder that
//! a far end serves.

use std::os::fd::OwnedFd;

use howdah_wire::{Links, TreePath, printable};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::TransferError;
use crate::tree::entry::Found;
use crate::tree::extraneous::ways;
use crate::tree::reach::INSIDE;
use crate::tree::source::Sources;

/// How a path is resolved where links are followed.
const FOLLOWING: ResolveFlags = ResolveFlags::NO_MAGICLINKS;

/// The folder below a source in which a file was opened last. Files come folder by folder, and in a deep tree it
/// takes longer to find their folder than to open them.
#[derive(Debug, Default)]
pub struct LastFolder(Option<(u16, Box<[u8]>, OwnedFd)>);

/// What becomes of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Becomes {
    /// It is copied as a link.
    Kept,
    /// What it leads to is copied.
    Followed,
    /// Nothing is.
    LeftOut,
}

impl Sources {
    /// How a link is copied, by where it points.
    pub(super) fn becomes_of(&self, source: u16, path: &TreePath, target: &[u8]) -> Becomes {
        let leads_out = || leads_out(&self.filtered_name(source, path), target);
        match self.walk.links {
            Links::Followed => Becomes::Followed,
            Links::Unsafe if leads_out() => Becomes::Followed,
            _ if self.walk.safe_links && leads_out() => Becomes::LeftOut,
            _ => Becomes::Kept,
        }
    }

    /// The line on a link that is left out.
    pub(super) fn leads_out(&self, source: u16, path: &TreePath) -> Found {
        let path = printable(&self.display(source, path));
        Found::Special(format!("left out {path}: it points out of what is copied"))
    }

    /// What a link points to, open with `O_PATH`.
    ///
    /// # Errors
    /// [`TransferError::Unreadable`] when that cannot be copied.
    pub(super) fn behind(&self, source: u16, path: &TreePath) -> Result<OwnedFd, TransferError> {
        let cannot = |why: &str| {
            let path = printable(&self.display(source, path));
            TransferError::Unreadable(format!("cannot copy what {path} leads to: {why}"))
        };
        let open = |path: &TreePath| self.open_below(source, path, OFlags::PATH);
        let behind = open(path).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => cannot("there is nothing"),
            Errno::XDEV => cannot("it is not in the folder that the far end serves"),
            Errno::LOOP => cannot("links lead to one another"),
            error => TransferError::reading("read", &self.display(source, path), error),
        })?;
        let number = |file: &OwnedFd| {
            rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino, stat.st_mode))
        };
        let failed =
            |error: Errno| TransferError::reading("read", &self.display(source, path), error);
        let own = number(&behind).map_err(failed)?;
        if FileType::from_raw_mode(own.2) == FileType::Directory {
            for above in ways(path).filter(|above| above != path) {
                if open(&above)
                    .and_then(|above| number(&above))
                    .map_err(failed)?
                    == own
                {
                    return Err(cannot("it is a folder that the link itself is in"));
                }
            }
        }
        Ok(behind)
    }

    /// Whether a folder is not read because it is on another file system than its source.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) fn is_elsewhere(
        &self,
        source: u16,
        folder: &TreePath,
    ) -> Result<bool, TransferError> {
        if !self.walk.one_file_system {
            return Ok(false);
        }
        let failed = |error: Errno| {
            TransferError::reading("read folder", &self.display(source, folder), error)
        };
        let (_, top) = self.root(source).map_err(failed)?;
        let open = self.open_folder(source, folder)?;
        let stat = rustix::fs::fstat(&open).map_err(failed)?;
        Ok(stat.st_dev != top.st_dev)
    }

    /// The same as [`Self::open_below`]. Uses the open folder of the last call, if it is the right one.
    pub(super) fn open_below_in(
        &self,
        LastFolder(last): &mut LastFolder,
        source: u16,
        path: &TreePath,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let slash = path.as_bytes().iter().rposition(|&byte| byte == b'/');
        let (Some(slash), Links::Kept) = (slash, self.walk.links) else {
            return self.open_below(source, path, flags);
        };
        let (parent, name) = (&path.as_bytes()[..slash], &path.as_bytes()[slash + 1..]);
        let opened = match last.take() {
            Some(last) if last.0 == source && *last.1 == *parent => last,
            _ => {
                let (root, _) = self.root(source)?;
                let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let folder = rustix::fs::openat2(root, parent, folder, Mode::empty(), INSIDE)?;
                (source, parent.into(), folder)
            }
        };
        let (_, _, folder) = last.insert(opened);
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(folder, name, flags, Mode::empty(), INSIDE)
    }

    /// Opens an entry below a source. Links are followed if the job says so.
    pub(super) fn open_below(
        &self,
        source: u16,
        path: &TreePath,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let (root, _) = self.root(source)?;
        let below = match path.is_root() {
            true => b".".as_slice(),
            false => path.as_bytes(),
        };
        match self.walk.links {
            Links::Kept => {
                let flags = flags | OFlags::NOFOLLOW;
                rustix::fs::openat2(root, below, flags, Mode::empty(), INSIDE)
            }
            _ if self.reach.is_confined() => self.reach.open(&self.display(source, path), flags),
            _ => rustix::fs::openat2(root, below, flags, Mode::empty(), FOLLOWING),
        }
    }
}

/// Whether a link leads out of what is copied, by its path below what is copied and where it points, as rsync judges it:
/// `..` counts at the beginning alone, and anywhere else it might lead anywhere.
fn leads_out(link: &[u8], target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") {
        return true;
    }
    let depth = link
        .split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty())
        .count();
    let names: Vec<&[u8]> = target
        .split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty())
        .collect();
    let ups = names.iter().take_while(|name| **name == b"..").count();
    let later = names[ups..].contains(&b"..".as_slice());
    let bare_end = ups > 1 && ups == names.len() && !target.ends_with(b"/");
    later || bare_end || ups >= depth.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_out_where_rsync_says_so() {
        let cases: [(&str, &str, bool); 18] = [
            ("a", "../x", true),
            ("s/a", "../x", false),
            ("s/a", "../../x", true),
            ("s/sub/b", "../../x", false),
            ("a", "..", true),
            ("s/c", "..", false),
            ("s/sub/dd", "../..", true),
            ("s/sub/e", "../../", false),
            ("s/f", "sub/../x", true),
            ("s/g", "./../x", true),
            ("h", "/etc", true),
            ("i", "sub", false),
            ("sub/j", "../sub", false),
            ("sub/k", "..", false),
            ("s/l", "../s/x", false),
            ("m", "", true),
            ("n", "..x/y", false),
            ("sub/o", "..//x", false),
        ];
        for (link, target, out) in cases {
            assert_eq!(
                leads_out(link.as_bytes(), target.as_bytes()),
                out,
                "{link} -> {target}"
            );
        }
    }
}
