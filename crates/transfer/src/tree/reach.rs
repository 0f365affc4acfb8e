//! What a near end's paths may reach: everything that the far user may, or what is beneath one folder.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::error::TransferError;

/// The kernel gives up on `..` while names above it change (openat2(2), EAGAIN); it is asked again this often.
const TRIES: usize = 100;

/// How the kernel resolves a path beneath the folder: whatever would lead out fails with EXDEV.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// How the kernel resolves names below a source or a destination: nothing outside of it is opened, even if its names
/// change meanwhile.
pub(crate) const INSIDE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_SYMLINKS);

/// What a near end can reach at a far end. By default, everything that the far user can.
#[derive(Debug, Default, Clone)]
pub struct Reach {
    folder: Option<Arc<OwnedFd>>,
    read_only: bool,
}

impl Reach {
    /// Only what is beneath a folder, to read and write, or to read only. Every path begins at the folder: `/x` and
    /// `~/x` as well as `x`. `..` and symbolic links do not leave it.
    pub fn beneath(folder: OwnedFd, read_only: bool) -> Self {
        Self {
            folder: Some(Arc::new(folder)),
            read_only,
        }
    }

    /// Whether it is one folder alone.
    pub(crate) fn is_confined(&self) -> bool {
        self.folder.is_some()
    }

    /// Why nothing may be written; `None` if it may.
    pub(crate) fn forbids_writing(&self) -> Option<TransferError> {
        let words = "this login may only read here, so nothing is copied to it; \
                     copy from it, or ask the administrator of this host for one that may write";
        self.read_only
            .then(|| TransferError::Here(words.to_owned()))
    }

    /// Why this end may not connect to another far end; `None` if it may.
    pub(crate) fn forbids_connecting(&self) -> Option<TransferError> {
        let words = "this login is for copies alone and connects to no other host";
        self.folder
            .is_some()
            .then(|| TransferError::Here(words.to_owned()))
    }

    /// The folder that `~` stands for, given the far user's home folder.
    pub(crate) fn home<'a>(&self, own: Option<&'a [u8]>) -> Option<&'a [u8]> {
        match self.folder {
            Some(_) => Some(b"/"),
            None => own,
        }
    }

    /// Opens a path that exists.
    pub(crate) fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let Some(folder) = &self.folder else {
            return rustix::fs::openat(CWD, path, flags, Mode::empty());
        };
        let path = from_the_folder(path);
        let mut opened = Err(Errno::AGAIN);
        for _ in 0..TRIES {
            opened = rustix::fs::openat2(folder, path, flags, Mode::empty(), BENEATH);
            if !matches!(opened, Err(Errno::AGAIN)) {
                break;
            }
        }
        opened
    }

    /// What a path points to, following symbolic links.
    pub(crate) fn stat(&self, path: &[u8]) -> Result<Stat, Errno> {
        match self.folder {
            Some(_) => rustix::fs::fstat(self.open(path, OFlags::PATH)?.as_fd()),
            None => rustix::fs::stat(path),
        }
    }
}

/// A path without what makes it absolute, because a folder is its beginning already.
fn from_the_folder(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|&byte| byte != b'/');
    match start {
        Some(start) => &path[start..],
        None => b".",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;

    fn reach(folder: &Path) -> Reach {
        Reach::beneath(File::open(folder).unwrap().into(), false)
    }

    #[test]
    fn every_path_begins_at_the_folder() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("sub")).unwrap();
        symlink("sub", base.path().join("link")).unwrap();
        symlink("../sub", base.path().join("sub/up")).unwrap();
        let reach = reach(base.path());
        let inode = |path: &str| reach.stat(path.as_bytes()).map(|stat| stat.st_ino);
        let top = fs::metadata(base.path()).unwrap().ino();
        for path in ["", "/", "//", ".", "./", "/.", "sub/..", "/sub/../"] {
            assert_eq!(inode(path), Ok(top), "{path}");
        }
        let sub = fs::metadata(base.path().join("sub")).unwrap().ino();
        for path in [
            "sub",
            "/sub",
            "//sub/",
            "link",
            "sub/../sub",
            "sub/up",
            "link/up/.",
        ] {
            assert_eq!(inode(path), Ok(sub), "{path}");
        }
        assert_eq!(inode("none"), Err(Errno::NOENT));
        assert_eq!(reach.home(Some(b"/home/u")), Some(b"/".as_slice()));
    }

    #[test]
    fn no_path_leads_out() {
        let base = tempfile::tempdir().unwrap();
        let (inside, outside) = (base.path().join("in"), base.path().join("out"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink("../out", inside.join("relative")).unwrap();
        symlink(&outside, inside.join("absolute")).unwrap();
        // An absolute link is of another file system than a near end sees, even where it leads back.
        symlink(&inside, inside.join("back")).unwrap();
        symlink("relative", inside.join("again")).unwrap();
        let reach = reach(&inside);
        for path in [
            "..",
            "/..",
            "../out",
            "../in",
            "relative",
            "relative/x",
            "absolute",
            "absolute/../in",
            "back",
            "again",
            "./../../out",
        ] {
            assert_eq!(
                reach.stat(path.as_bytes()).err(),
                Some(Errno::XDEV),
                "{path}"
            );
        }
    }
}
