//! Extended attributes and access lists: read at the sender, given at the receiver.
//!
//! Linux keeps access lists as attributes of the system (acl(5)), so they travel as such. Which attributes are kept
//! follows rsync: of an ordinary user those of users, of root all but the system's other ones.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use howdah_wire::{Keep, Xattr, Xattrs, printable};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::error::plain;

/// Longest list of names, and longest value (Linux `XATTR_LIST_MAX`, `XATTR_SIZE_MAX`), in bytes.
const MAX_BYTES: usize = 64 << 10;
const ACCESS_LISTS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];
/// Rights of programs (capabilities(7)) and labels of security modules.
const SECURITY: &[u8] = b"security.";

/// Which attributes are kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope {
    pub(super) keep: Keep,
    /// Whether those that only root can change are.
    pub(super) privileged: bool,
}

impl Scope {
    /// Whether any are.
    pub fn is_empty(self) -> bool {
        !(self.keep.xattrs || self.keep.acls)
    }

    fn holds(self, name: &[u8]) -> bool {
        if name.starts_with(b"system.") {
            return self.keep.acls && ACCESS_LISTS.contains(&name);
        }
        self.keep.xattrs && (name.starts_with(b"user.") || self.privileged)
    }
}

/// A file of which attributes are read.
#[derive(Debug, Clone, Copy)]
pub enum Of<'a> {
    /// An open one.
    Open(BorrowedFd<'a>),
    /// One by its name in an open folder, which is not followed.
    Named(BorrowedFd<'a>, &'a [u8]),
    /// One that is open as a path alone.
    Path(BorrowedFd<'a>),
}

impl Of<'_> {
    fn names(self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Open(file) => rustix::fs::flistxattr(file, buffer),
            Self::Named(folder, name) => rustix::fs::llistxattr(way(folder, name), buffer),
            Self::Path(file) => rustix::fs::listxattr(way(file, b""), buffer),
        }
    }

    fn value(self, name: &[u8], buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Open(file) => rustix::fs::fgetxattr(file, name, buffer),
            Self::Named(folder, file) => rustix::fs::lgetxattr(way(folder, file), name, buffer),
            Self::Path(file) => rustix::fs::getxattr(way(file, b""), name, buffer),
        }
    }
}

/// The way to an open file, or to a name in an open folder.
fn way(file: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    let mut way = format!("/proc/self/fd/{}", file.as_raw_fd()).into_bytes();
    if !name.is_empty() {
        way.push(b'/');
        way.extend_from_slice(name);
    }
    way
}

/// Reads those of a file that are kept; none where its file system has none. `None` if they take more than travels.
///
/// # Errors
/// When they cannot be read.
pub fn read(of: Of<'_>, scope: Scope) -> Result<Option<Xattrs>, Errno> {
    let mut buffer = vec![0; MAX_BYTES];
    let count = match of.names(&mut buffer) {
        Err(Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    if count == 0 {
        return Ok(Some(Xattrs::default()));
    }
    let names = buffer[..count].to_vec();
    let mut each = Vec::new();
    for name in names.split(|&byte| byte == 0) {
        if name.is_empty() || !scope.holds(name) {
            continue;
        }
        match of.value(name, &mut buffer) {
            Ok(len) => each.push(Xattr {
                name: name.to_vec(),
                value: buffer[..len].to_vec(),
            }),
            // It has gone since.
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Xattrs::new(each))
}

/// What tells the attributes of two files apart.
pub fn digest(xattrs: &Xattrs) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for Xattr { name, value } in xattrs.iter() {
        for part in [name, value] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// Gives an open file these and no others of those that are kept. Rights of programs and labels are given only if
/// `with_security`, and never taken away. What could not be done, and why.
pub fn give(
    file: impl AsFd,
    wanted: &Xattrs,
    scope: Scope,
    with_security: bool,
) -> Result<(), (Vec<u8>, Errno)> {
    let file = file.as_fd();
    let there = read(Of::Open(file), scope).map_err(|error| (Vec::new(), error))?;
    let there = there.unwrap_or_default();
    for Xattr { name, .. } in there.iter() {
        if wanted.get(name).is_none() && !name.starts_with(SECURITY) {
            match rustix::fs::fremovexattr(file, name.as_slice()) {
                Ok(()) | Err(Errno::NODATA) => {}
                Err(error) => return Err((name.clone(), error)),
            }
        }
    }
    for Xattr { name, value } in wanted.iter() {
        let given = scope.holds(name) && (with_security || !name.starts_with(SECURITY));
        if given && there.get(name) != Some(value) {
            rustix::fs::fsetxattr(file, name.as_slice(), value, XattrFlags::empty())
                .map_err(|error| (name.clone(), error))?;
        }
    }
    Ok(())
}

/// Why an attribute could not be given, in words.
pub fn refused(display: &[u8], (name, error): (Vec<u8>, Errno)) -> String {
    let (path, name, why) = (printable(display), printable(&name), plain(&error.into()));
    format!("cannot set attribute {name} of {path}: {why}")
}
