//! The file `.NAME.howdah-part` beside a target. It contains what has arrived of an incomplete file.
//!
//! Its name follows from the target's name alone, so the next copy finds what an interrupted one has left. While it
//! is written it is locked (flock), so two copies never write the same part. Anybody who can write in the folder can
//! put anything there under that name. So only a regular file of this user with no other name is used.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::tree::destination::is_temporary_name;
use crate::tree::reach::INSIDE;
use crate::tree::stat::special;

/// What its name ends with.
const SUFFIX: &[u8] = b".howdah-part";
/// Longest name of a file (Linux `NAME_MAX`), in bytes.
const MAX_NAME_BYTES: usize = howdah_wire::limits::MAX_NAME_BYTES;
/// Only its owner may look into it until it is complete.
pub(crate) const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);
/// What has not changed for so long and has no lock belongs to no copy any more.
const IDLE: Duration = Duration::from_secs(3600);
/// Why a file of another user cannot be used.
const OF_ANOTHER: &str = "it belongs to another user";
/// How often another copy may take the name away between two looks at it.
const ATTEMPTS: usize = 8;

/// Why a part cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Another copy is writing it.
    Busy,
    /// Something else has its name.
    Foreign(&'static str),
    /// The file system refuses.
    Failed(Errno),
}

impl From<Errno> for Unusable {
    fn from(error: Errno) -> Self {
        Self::Failed(error)
    }
}

/// The name of the part beside a file named `name`.
pub fn part_name(name: &[u8]) -> Vec<u8> {
    let whole = [b".", name, SUFFIX].concat();
    if whole.len() <= MAX_NAME_BYTES {
        return whole;
    }
    let hash = blake3::hash(name).to_hex();
    let unique = [b"-", &hash.as_bytes()[..16]].concat();
    let mut most = MAX_NAME_BYTES - 1 - unique.len() - SUFFIX.len();
    // Some file systems take only whole characters.
    while most > 0 && name[most] & 0xc0 == 0x80 {
        most -= 1;
    }
    [b".", &name[..most], &unique, SUFFIX].concat()
}

/// Whether a name is the name of a part.
pub fn is_part_name(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(SUFFIX) && name.len() > 1 + SUFFIX.len()
}

/// Opens and locks the part with that name; `None` if there is none.
///
/// # Errors
/// When there is one, and it cannot be used.
pub fn existing(folder: impl AsFd, name: &[u8]) -> Result<Option<OwnedFd>, Unusable> {
    for _ in 0..ATTEMPTS {
        // Opened so, a device does nothing and a FIFO waits for nobody.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match rustix::fs::openat2(&folder, name, flags, Mode::empty(), INSIDE) {
            Err(Errno::NOENT) => return Ok(None),
            other => other?,
        };
        check(&rustix::fs::fstat(&found)?)?;
        let way = format!("/proc/self/fd/{}", found.as_raw_fd());
        let open = || {
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            rustix::fs::openat(CWD, way.as_str(), flags, Mode::empty())
        };
        let file = match open() {
            // It was complete, and had the mode of its source.
            Err(Errno::ACCESS) => {
                rustix::fs::chmod(way.as_str(), PRIVATE)?;
                open()?
            }
            other => other?,
        };
        lock(&file)?;
        if is_named(&folder, name, &file)? {
            match rustix::fs::fchmod(&file, PRIVATE) {
                // The file system keeps no modes, and this user owns the file.
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {}
                other => other?,
            }
            return Ok(Some(file));
        }
    }
    Err(Unusable::Busy)
}

/// Opens and locks the part with that name, and makes it if there is none. Returns whether it existed.
///
/// # Errors
/// When it cannot be used or made.
pub fn open(folder: impl AsFd, name: &[u8]) -> Result<(OwnedFd, bool), Unusable> {
    for _ in 0..ATTEMPTS {
        if let Some(file) = existing(&folder, name)? {
            return Ok((file, true));
        }
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let flags = new | OFlags::RDWR | OFlags::CLOEXEC;
        let file = match rustix::fs::openat2(&folder, name, flags, PRIVATE, INSIDE) {
            Err(Errno::EXIST) => continue,
            other => other?,
        };
        match lock(&file) {
            Ok(()) if is_named(&folder, name, &file)? => return Ok((file, false)),
            Ok(()) | Err(Unusable::Busy) => {}
            Err(error) => {
                let _ = rustix::fs::unlinkat(&folder, name, AtFlags::empty());
                return Err(error);
            }
        }
    }
    Err(Unusable::Busy)
}

/// Removes the part with that name if no copy is writing it. Returns whether there is none any more.
pub fn remove(folder: impl AsFd, name: &[u8]) -> bool {
    match existing(&folder, name) {
        Ok(None) => true,
        Ok(Some(_locked)) => rustix::fs::unlinkat(folder, name, AtFlags::empty()).is_ok(),
        Err(Unusable::Foreign(OF_ANOTHER)) if rustix::process::geteuid().is_root() => {
            remove_of_another(folder, name).unwrap_or(false)
        }
        Err(_) => false,
    }
}

/// Removes a part of another user. A copy that keeps owners, and was cut between that and the file's name, has left it
/// so. It is never gone on with, because that user may have it open.
fn remove_of_another(folder: impl AsFd, name: &[u8]) -> Result<bool, Unusable> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(&folder, name, flags, Mode::empty(), INSIDE)?;
    lock(&file)?;
    let stat = rustix::fs::fstat(&file)?;
    let of_another = check(&stat) == Err(Unusable::Foreign(OF_ANOTHER)) && stat.st_nlink == 1;
    if !of_another || !is_named(&folder, name, &file)? {
        return Ok(false);
    }
    rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
    Ok(true)
}

/// Whether a copy may be writing the entry with this name now.
pub fn in_use(folder: impl AsFd, name: &[u8], found: &Stat) -> bool {
    let part = is_part_name(name);
    if !part && !is_temporary_name(name) {
        return false;
    }
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile if part => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = rustix::fs::openat2(folder, name, flags, Mode::empty(), INSIDE);
            let shared = FlockOperation::NonBlockingLockShared;
            opened
                .and_then(|file| rustix::fs::flock(file, shared))
                .is_err()
        }
        // Nothing locks these, but whoever writes them changes them.
        FileType::RegularFile | FileType::Symlink => changed_lately(found),
        _ => false,
    }
}

fn changed_lately(found: &Stat) -> bool {
    let changed = Duration::from_secs(u64::try_from(found.st_ctime).unwrap_or(0));
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    now.saturating_sub(changed) < IDLE
}

/// Locks a file until all its descriptors are closed.
///
/// # Errors
/// When another copy has locked it, or the file system has no locks.
pub fn lock(file: impl AsFd) -> Result<(), Unusable> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(Unusable::Busy),
        other => Ok(other?),
    }
}

/// Whether this file has that name.
///
/// # Errors
/// When one of them cannot be examined.
pub fn is_named(folder: impl AsFd, name: &[u8], file: impl AsFd) -> Result<bool, Errno> {
    let named = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(false),
        other => other?,
    };
    let file = rustix::fs::fstat(file)?;
    Ok((named.st_dev, named.st_ino) == (file.st_dev, file.st_ino))
}

fn check(stat: &Stat) -> Result<(), Unusable> {
    let why = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_uid != rustix::process::geteuid().as_raw() => OF_ANOTHER,
        FileType::RegularFile if stat.st_nlink != 1 => "it has another name as well",
        FileType::RegularFile => return Ok(()),
        FileType::Symlink => "it is a symbolic link",
        FileType::Directory => "it is a folder",
        other => special(other),
    };
    Err(Unusable::Foreign(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn names_follow_from_the_target_and_fit() {
        assert_eq!(part_name(b"a b"), b".a b.howdah-part");
        let long = "ä".repeat(127).into_bytes();
        let other = [&long[..], b"x"].concat();
        for name in [&long, &other] {
            let part = part_name(name);
            assert!(part.len() <= MAX_NAME_BYTES && is_part_name(&part));
            assert!(std::str::from_utf8(&part).is_ok());
            assert_eq!(part, part_name(name));
        }
        assert_ne!(part_name(&long), part_name(&other));
        assert_eq!(part_name(&[b'x'; 242]).len(), MAX_NAME_BYTES);
        for name in [
            b".howdah-part".as_slice(),
            b"x.howdah-part",
            b".x.howdah-par",
        ] {
            assert!(!is_part_name(name), "{name:?}");
        }
    }

    #[test]
    fn only_one_writes_it_at_a_time() {
        let base = tempfile::tempdir().unwrap();
        let folder = File::open(base.path()).unwrap();
        assert!(existing(&folder, b".x.howdah-part").unwrap().is_none());
        let (first, was_there) = open(&folder, b".x.howdah-part").unwrap();
        assert!(!was_there);
        assert_eq!(
            open(&folder, b".x.howdah-part").unwrap_err(),
            Unusable::Busy
        );
        assert!(!remove(&folder, b".x.howdah-part"));
        drop(first);
        assert!(open(&folder, b".x.howdah-part").unwrap().1);
        assert!(remove(&folder, b".x.howdah-part") && remove(&folder, b".x.howdah-part"));
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let folder = File::open(base.path()).unwrap();
        let at = |name: &str| base.path().join(name);
        fs::write(at("victim"), b"precious").unwrap();
        symlink("victim", at("link")).unwrap();
        fs::hard_link(at("victim"), at("hard")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        for (name, why) in [
            ("link", "it is a symbolic link"),
            ("hard", "it has another name as well"),
            ("folder", "it is a folder"),
            ("fifo", "it is a FIFO"),
        ] {
            let error = open(&folder, name.as_bytes()).unwrap_err();
            assert_eq!(error, Unusable::Foreign(why));
            assert!(!remove(&folder, name.as_bytes()) && at(name).symlink_metadata().is_ok());
        }
        assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
    }

    #[test]
    fn one_that_had_its_mode_already_is_taken_and_private_again() {
        let base = tempfile::tempdir().unwrap();
        let folder = File::open(base.path()).unwrap();
        let path = base.path().join("part");
        fs::write(&path, b"x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(open(&folder, b"part").unwrap().1);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
