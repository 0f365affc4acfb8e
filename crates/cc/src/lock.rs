//! Locks that only root can take. Every user who can open a file can take an flock(2) on it, so these are files and
//! folders that nobody else can open.
//!
//! One lock is for the mounts of this process's mount namespace. The other one is for the store itself, which several
//! mount namespaces may share.

use std::{
    fs, io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{
        CWD, FlockOperation, Mode, OFlags, Stat, fchmod, flock, fstat, lstat, mkdirat, openat, stat,
    },
    io::Errno,
    process::geteuid,
};

use crate::Error;

/// The folder of the lock of the mounts. A service may write nowhere else in /run (its unit's RuntimeDirectory).
const FOLDER: &str = "/run/howdah";
const MOUNTS: &str = "/run/howdah/cc.lock";
/// How long a lock is waited for. Another howdah that changes programs is done in far less.
const WITHIN: Duration = Duration::from_secs(20);
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(5);
/// The permission bits of others than the owner.
const OTHERS: u32 = 0o077;
/// Those that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// Both locks, until this is dropped.
pub(crate) struct Locks {
    pub folder: Option<OwnedFd>,
    #[expect(dead_code, reason = "held until all is tidy")]
    pub mounting: OwnedFd,
}

/// Locks the mounts of this process's mount namespace.
pub(crate) fn of_mounts() -> Result<OwnedFd, Error> {
    own_folder(Path::new(FOLDER))?;
    of_file(Path::new(MOUNTS))
}

/// Makes a folder in which others may look, and refuses one that they made or could write to.
fn own_folder(path: &Path) -> Result<(), Error> {
    let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
    match mkdirat(CWD, path, mode) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(refused(path, error)),
    }
    let found = lstat(path).map_err(|error| refused(path, error))?;
    trusted(path, &found, OTHERS_WRITE)
}

fn of_file(path: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file =
        openat(CWD, path, flags, Mode::RUSR | Mode::WUSR).map_err(|error| refused(path, error))?;
    let found = fstat(&file).map_err(|error| refused(path, error))?;
    trusted(path, &found, OTHERS)?;
    wait_for(path, &file)?;
    Ok(file)
}

/// Makes the folder of a store, for its owner alone, and locks it.
pub(crate) fn of_folder(path: &Path) -> Result<OwnedFd, Error> {
    let wrong = |error| refused(path, error);
    loop {
        match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(wrong(error)),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match openat(CWD, path, flags, Mode::empty()) {
            // Whoever held the lock has tidied up.
            Err(Errno::NOENT) => continue,
            other => other.map_err(wrong)?,
        };
        let found = fstat(&folder).map_err(wrong)?;
        if found.st_uid == geteuid().as_raw() && found.st_mode & OTHERS_WRITE == 0 {
            // An earlier howdah let others look into it.
            fchmod(&folder, Mode::RWXU).map_err(wrong)?;
        } else {
            trusted(path, &found, OTHERS)?;
        }
        wait_for(path, &folder)?;
        if stat(path).is_ok_and(|now| now.st_ino == found.st_ino && now.st_dev == found.st_dev) {
            return Ok(folder);
        }
    }
}

/// Refuses what another user made, or has any of the permissions `not_allowed` for.
fn trusted(path: &Path, found: &Stat, not_allowed: u32) -> Result<(), Error> {
    let own = geteuid().as_raw();
    let mode = found.st_mode & 0o7777;
    if found.st_uid == own && mode & not_allowed == 0 {
        return Ok(());
    }
    Err(Error::Untrusted {
        path: path.display().to_string(),
        owner: found.st_uid,
        mode,
    })
}

fn wait_for(path: &Path, file: impl AsFd) -> Result<(), Error> {
    let until = Instant::now() + WITHIN;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => {
                thread::sleep(TRY_AGAIN_AFTER);
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::Busy {
                    path: path.display().to_string(),
                    seconds: WITHIN.as_secs(),
                    process: process_with(path).unwrap_or_else(|| "another process".to_owned()),
                });
            }
            Err(error) => return Err(refused(path, error)),
        }
    }
}

/// Who holds a lock, by proc_locks(5).
fn process_with(path: &Path) -> Option<String> {
    let inode = format!(":{}", stat(path).ok()?.st_ino);
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let locks = locks
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut flocks = locks.filter(|words| words.get(1) == Some(&"FLOCK"));
    let words = flocks.find(|words| words.get(5).is_some_and(|file| file.ends_with(&inode)))?;
    Some(format!("process {}", words.get(4)?))
}

fn refused(path: &Path, error: Errno) -> Error {
    let source = io::Error::from(error);
    if matches!(error, Errno::ACCESS | Errno::PERM) {
        return Error::Privilege;
    }
    Error::System {
        what: format!("lock {}", path.display()),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn what_others_own_or_can_write_to_is_refused() {
        let base = std::env::temp_dir().join(format!("howdah-lock-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let (file, folder, link) = (base.join("file"), base.join("folder"), base.join("link"));
        drop(of_file(&file).unwrap());
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let said = of_file(&file).unwrap_err().to_string();
        assert!(said.contains("mode 644"), "{said}");
        symlink(&file, &link).unwrap();
        assert!(of_file(&link).is_err() && of_folder(&link).is_err());

        own_folder(&folder).unwrap();
        own_folder(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o775)).unwrap();
        let said = own_folder(&folder).unwrap_err().to_string();
        assert!(said.contains("mode 775"), "{said}");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        drop(of_folder(&folder).unwrap());
        assert_eq!(
            fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
            0o700
        );
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).unwrap();
        let said = of_folder(&folder).unwrap_err().to_string();
        assert!(
            said.contains("mode 1777") && said.contains("remove it"),
            "{said}"
        );
        if geteuid().is_root() {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
            chown(&folder, Some(12345), None).unwrap();
            let said = of_folder(&folder).unwrap_err().to_string();
            assert!(said.contains("belongs to user 12345"), "{said}");
        }
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn who_waits_for_a_folder_that_is_taken_away_locks_the_next_one() {
        let path = std::env::temp_dir().join(format!("howdah-lock-again-{}", std::process::id()));
        let first = of_folder(&path).unwrap();
        let waiting = {
            let path = path.clone();
            thread::spawn(move || of_folder(&path).unwrap())
        };
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        fs::remove_dir(&path).unwrap();
        drop(first);
        let second = fstat(waiting.join().unwrap()).unwrap();
        assert_eq!(stat(&path).unwrap().st_ino, second.st_ino);
        fs::remove_dir(&path).unwrap();
    }
}
