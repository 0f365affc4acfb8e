//! The attributes of files that a sender sends beside names and contents.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use howdah_wire::limits::MAX_XATTRS_BYTES;
use howdah_wire::{Attributes, Keep, Special, TreePath, Xattrs, XattrsSum, printable};
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use crate::error::reason;
use crate::tree::entry::{Inode, Kind};
use crate::tree::flags::There;
use crate::tree::source::Sources;
use crate::tree::stat::mtime_ns;
use crate::tree::xattrs::{self, Of, Scope};

impl Sources {
    /// What a file or folder keeps beside its content.
    pub(super) fn attributes(&self, stat: &Stat) -> Attributes {
        Attributes {
            mode: stat.st_mode & 0o7777,
            mtime_ns: mtime_ns(stat),
            owner: self.owners.of(stat),
            xattrs: None,
        }
    }

    /// Which extended attributes are kept, if any are.
    fn scope(&self) -> Option<Scope> {
        let kept = self.keep.xattrs || self.keep.acls;
        kept.then(|| Scope {
            keep: self.keep,
            privileged: rustix::process::geteuid().is_root(),
        })
    }

    /// The flags of a file, if they are kept, can be read, and its file system has some.
    fn flags_of(&self, of: Of<'_>) -> Option<There> {
        self.keep.xattrs.then(|| self.flags.read(of)).flatten()
    }

    /// A digest of the extended attributes of a file, if they are kept and can be read.
    pub(super) fn xattrs_sum(&self, of: Of<'_>) -> Option<XattrsSum> {
        let scope = self.scope()?;
        let all = xattrs::read(of, scope, &self.owners.names).ok()??;
        Some(XattrsSum {
            digest: xattrs::digest(&all),
            flags: self.flags_of(of).map(|flags| flags.kept),
        })
    }

    /// The extended attributes of an open file or folder, if they are kept. `not_kept` is called with the reason if
    /// they cannot be kept. `warn` is called once if a file has flags that are never kept.
    pub(crate) fn xattrs(
        &self,
        file: &OwnedFd,
        display: impl FnOnce() -> Vec<u8>,
        not_kept: impl FnOnce(String),
        warn: impl FnOnce(String),
    ) -> Option<Arc<Xattrs>> {
        let scope = self.scope()?;
        let of = Of::Open(file.as_fd());
        match self.read_xattrs(of, scope) {
            Ok(mut all) => {
                let flags = self.flags_of(of);
                all.flags = flags.map(|flags| flags.kept);
                let fixed = flags.is_some_and(|flags| flags.fixed);
                if fixed && !self.fixed.swap(true, Ordering::Relaxed) {
                    let path = printable(&display());
                    warn(format!(
                        "flags i and a are not kept: nothing could replace such a file later; first {path}"
                    ));
                }
                Some(Arc::new(all))
            }
            Err(why) => {
                not_kept(cannot_keep(&display(), &why));
                None
            }
        }
    }

    /// The extended attributes of a link or a special file of this kind, if they are kept. `not_kept` is called with
    /// the reason if they cannot be kept. The file is not opened for reading, because that could wait for ever, or
    /// start a device.
    pub(crate) fn xattrs_of_unopened(
        &self,
        source: u16,
        path: &TreePath,
        kind: FileType,
        not_kept: impl FnOnce(String),
    ) -> Option<Arc<Xattrs>> {
        let scope = self.scope()?;
        if !scope.is_of(kind) {
            return None;
        }
        let read = || {
            let file = self.open_as_path(source, path, kind);
            let file = file.map_err(reason)?;
            let stat = rustix::fs::fstat(&file).map_err(reason)?;
            if FileType::from_raw_mode(stat.st_mode) != kind {
                return Err("it has changed since it was found; run the same command again".into());
            }
            self.read_xattrs(Of::Path(file.as_fd()), scope)
        };
        match read() {
            Ok(all) => Some(Arc::new(all)),
            Err(why) => {
                not_kept(cannot_keep(&self.display(source, path), &why));
                None
            }
        }
    }

    fn open_as_path(&self, source: u16, path: &TreePath, kind: FileType) -> Result<OwnedFd, Errno> {
        if path.is_root() {
            let (root, _) = self.root(source)?;
            return rustix::io::fcntl_dupfd_cloexec(root, 0);
        }
        let itself = match kind {
            FileType::Symlink => OFlags::NOFOLLOW,
            _ => OFlags::empty(),
        };
        self.open_below(source, path, OFlags::PATH | itself)
    }

    fn read_xattrs(&self, of: Of<'_>, scope: Scope) -> Result<Xattrs, String> {
        match xattrs::read(of, scope, &self.owners.names) {
            Ok(Some(all)) => Ok(all),
            Ok(None) => Err(format!("they take more than {MAX_XATTRS_BYTES} bytes")),
            Err(error) => Err(reason(error)),
        }
    }

    /// A special file that is kept; `None` if it is not kept.
    pub(super) fn special(&self, stat: &Stat) -> Option<Kind> {
        special_kind(self.keep, stat).map(|kind| Kind::Special {
            attributes: self.attributes(stat),
            kind,
            device: (
                rustix::fs::major(stat.st_rdev),
                rustix::fs::minor(stat.st_rdev),
            ),
        })
    }
}

fn cannot_keep(display: &[u8], why: &str) -> String {
    let path = printable(display);
    format!("cannot keep the attributes of {path}: {why}")
}

/// Which special file it is, if such files are kept.
pub(super) fn special_kind(keep: Keep, stat: &Stat) -> Option<Special> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => Special::Fifo,
        FileType::Socket => Special::Socket,
        FileType::CharacterDevice => Special::CharacterDevice,
        FileType::BlockDevice => Special::BlockDevice,
        _ => return None,
    };
    let kept = match kind.is_device() {
        true => keep.devices,
        false => keep.specials,
    };
    kept.then_some(kind)
}

/// The identity of a file with several names.
pub(super) fn inode(stat: &Stat) -> Option<Inode> {
    #[allow(
        clippy::useless_conversion,
        reason = "it has 32 bits on other architectures"
    )]
    let names = u64::from(stat.st_nlink);
    (names > 1).then_some(Inode {
        number: (stat.st_dev, stat.st_ino),
        names,
    })
}
