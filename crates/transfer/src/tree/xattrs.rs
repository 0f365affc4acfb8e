//! Extended attributes and access lists. The sender reads them, and the receiver sets them.
//!
//! Linux keeps access lists as system attributes (acl(5)). They are sent as such, with the names of their users and
//! groups. Which attributes are kept follows rsync: an ordinary user's copy keeps user attributes, and root's keeps
//! all except other system attributes.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, BorrowedFd};

use howdah_wire::access_list::{ACCESS_LISTS, Entry, Who, entries, with_numbers};
use howdah_wire::{AccountNames, Keep, Xattr, Xattrs, printable};
use rustix::fs::{FileType, XattrFlags};
use rustix::io::Errno;

use crate::error::reason;
use crate::tree::owners::{HostNames, Receivers};

/// Longest list of names, and longest value (Linux `XATTR_LIST_MAX`, `XATTR_SIZE_MAX`), in bytes.
const MAX_BYTES: usize = 64 << 10;
/// Rights of programs (capabilities(7)) and labels of security modules.
const SECURITY: &[u8] = b"security.";

/// Which attributes are kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope {
    pub(super) keep: Keep,
    /// Whether attributes that only root can change are kept.
    pub(super) privileged: bool,
}

impl Scope {
    /// Whether any are.
    pub fn is_empty(self) -> bool {
        !(self.keep.xattrs || self.keep.acls)
    }

    /// Whether a link or a special file can have kept attributes. On Linux they have no user attributes (xattr(7)),
    /// and links have no access list.
    pub fn is_of(self, kind: FileType) -> bool {
        self.keep.xattrs && self.privileged || self.keep.acls && kind != FileType::Symlink
    }

    fn includes(self, name: &[u8]) -> bool {
        if name.starts_with(b"system.") {
            return self.keep.acls && ACCESS_LISTS.contains(&name);
        }
        self.keep.xattrs && (name.starts_with(b"user.") || self.privileged)
    }
}

/// A file whose attributes are read.
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

/// A file whose attributes are set.
#[derive(Debug, Clone, Copy)]
pub enum To<'a> {
    /// An open one.
    Open(BorrowedFd<'a>),
    /// One that is open as a path alone: a link, or a special file.
    Path(BorrowedFd<'a>),
}

impl<'a> To<'a> {
    fn of(self) -> Of<'a> {
        match self {
            Self::Open(file) => Of::Open(file),
            Self::Path(file) => Of::Path(file),
        }
    }

    fn set(self, name: &[u8], value: &[u8]) -> Result<(), Errno> {
        let flags = XattrFlags::empty();
        match self {
            Self::Open(file) => rustix::fs::fsetxattr(file, name, value, flags),
            // It leads to the very file, also to a link itself.
            Self::Path(file) => rustix::fs::setxattr(way(file, b""), name, value, flags),
        }
    }

    fn remove(self, name: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Open(file) => rustix::fs::fremovexattr(file, name),
            Self::Path(file) => rustix::fs::removexattr(way(file, b""), name),
        }
    }
}

/// The path to an open file, or to a name in an open folder.
pub(super) fn way(file: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    let mut way = format!("/proc/self/fd/{}", file.as_raw_fd()).into_bytes();
    if !name.is_empty() {
        way.push(b'/');
        way.extend_from_slice(name);
    }
    way
}

/// Reads the attributes of a file that are kept. They are empty if its file system has none; `None` if they are too
/// long to be sent.
///
/// # Errors
/// When they cannot be read.
pub fn read(of: Of<'_>, scope: Scope, names: &HostNames) -> Result<Option<Xattrs>, Errno> {
    let each = read_each(of, scope)?;
    let who = each
        .iter()
        .filter(|xattr| is_access_list(&xattr.name))
        .flat_map(|xattr| entries(&xattr.value).unwrap_or_default())
        .map(|entry| entry.who());
    let mut told = AccountNames::default();
    for who in who.collect::<BTreeSet<_>>() {
        let (accounts, account) = match who {
            Who::User(number) => (&mut told.users, names.user(number)),
            Who::Group(number) => (&mut told.groups, names.group(number)),
            Who::Other => continue,
        };
        if account.name.is_some() {
            accounts.push(account);
        }
    }
    Ok(Xattrs::with_names(each, told))
}

fn is_access_list(name: &[u8]) -> bool {
    ACCESS_LISTS.contains(&name)
}

fn read_each(of: Of<'_>, scope: Scope) -> Result<Vec<Xattr>, Errno> {
    let mut buffer = vec![0; MAX_BYTES];
    let count = match of.names(&mut buffer) {
        Err(Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    let names = buffer[..count].to_vec();
    let mut each = Vec::new();
    for name in names.split(|&byte| byte == 0) {
        if name.is_empty() || !scope.includes(name) {
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
    Ok(each)
}

/// A digest by which the attributes of two files are compared, also on two hosts. In access lists, names are used if
/// there are any.
pub fn digest(xattrs: &Xattrs) -> u64 {
    let mut hasher = blake3::Hasher::new();
    let mut update = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    for Xattr { name, value } in xattrs.iter() {
        update(name);
        match entries(value).filter(|_| is_access_list(name)) {
            Some(entries) => update(&told(xattrs, entries)),
            None => update(value),
        }
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// Entries of an access list as any host tells them, in an order that is the same on all.
fn told(xattrs: &Xattrs, entries: Vec<Entry>) -> Vec<u8> {
    let mut each: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            let account = xattrs.name_of(entry.who());
            let name = account.and_then(|account| account.name.as_deref());
            let number = match entry.who() {
                Who::User(number) | Who::Group(number) if name.is_none() => number,
                _ => 0,
            };
            (entry.what(), name.unwrap_or_default(), number)
        })
        .collect();
    each.sort_unstable();
    let mut told = Vec::new();
    for ((tag, may), name, number) in each {
        told.extend(tag.to_le_bytes());
        told.extend(may.to_le_bytes());
        told.extend(number.to_le_bytes());
        told.extend((name.len() as u64).to_le_bytes());
        told.extend(name.as_bytes());
    }
    told
}

/// The value of an attribute as it is here, where users and groups have other numbers.
fn here(xattrs: &Xattrs, Xattr { name, value }: &Xattr, owners: &Receivers) -> Vec<u8> {
    let entries = entries(value).filter(|_| is_access_list(name));
    let Some(entries) = entries else {
        return value.clone();
    };
    with_numbers(entries, |who| {
        let account = xattrs.name_of(who)?;
        match who {
            Who::User(_) => Some(owners.user(account)),
            Who::Group(_) => Some(owners.group(account)),
            Who::Other => None,
        }
    })
}

/// Sets these attributes of a file, and removes others of those that are kept. Access lists get the numbers that
/// users and groups have here. Capabilities and labels are set only if `with_security`, and never removed. Returns
/// what could not be done, and why.
pub fn give(
    file: To<'_>,
    wanted: &Xattrs,
    scope: Scope,
    with_security: bool,
    owners: &Receivers,
) -> Result<(), (Vec<u8>, Errno)> {
    let there = read_each(file.of(), scope).map_err(|error| (Vec::new(), error))?;
    for Xattr { name, .. } in &there {
        if wanted.get(name).is_none() && !name.starts_with(SECURITY) {
            match file.remove(name) {
                Ok(()) | Err(Errno::NODATA) => {}
                Err(error) => return Err((name.clone(), error)),
            }
        }
    }
    for xattr in wanted.iter() {
        let name = xattr.name.as_slice();
        if !scope.includes(name) || name.starts_with(SECURITY) && !with_security {
            continue;
        }
        let value = here(wanted, xattr, owners);
        let is_there = |other: &Xattr| other.name == name && other.value == value;
        if !there.iter().any(is_there) {
            file.set(name, &value)
                .map_err(|error| (name.to_vec(), error))?;
        }
    }
    Ok(())
}

/// Why an attribute could not be set, in words.
pub fn refused(display: &[u8], (name, error): (Vec<u8>, Errno)) -> String {
    let (path, name, why) = (printable(display), printable(&name), reason(error));
    format!("cannot set attribute {name} of {path}: {why}")
}
