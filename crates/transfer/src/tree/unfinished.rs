//! The mark `.howdah-part` in a folder that a copy makes under a new name. It is there until the folder is complete.
//!
//! As with `cp -r`, a destination that does not exist becomes the source's new name, and a destination that is a
//! folder gets the source inside it. So the same command would mean something else once an interrupted copy has made
//! the folder. The mark says which source has this new name. It is a hint for names only: the entries of the folder
//! are compared as always.

use std::os::fd::{AsFd, OwnedFd};

use howdah_wire::limits::MAX_PATH_BYTES;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::tree::destination::open_folder;
use crate::tree::part::{PRIVATE, part_name};
use crate::tree::reach::INSIDE;

/// Its name.
pub const MARK: &[u8] = b".howdah-part";

/// The text of a mark: the source's path as the user wrote it, without `/.` or `/` at its end.
pub fn marked(source: &[u8]) -> &[u8] {
    let mut name = source;
    while let Some(shorter) = name.strip_suffix(b"/.").or_else(|| name.strip_suffix(b"/")) {
        name = shorter;
    }
    name
}

/// Makes the folder `name` as the new name of `source` ([`marked`]). Its mode closes it to all but its owner until it
/// is complete.
///
/// It has another name until the mark is in it and, if `durable`, on stable storage, so that no power cut leaves it
/// without the mark. If that is not possible, it is made at once, and marked afterwards.
///
/// # Errors
/// When it cannot be made; [`Errno::EXIST`] when the name exists.
pub fn make(
    parent: &OwnedFd,
    name: &[u8],
    source: &[u8],
    mode: Mode,
    durable: bool,
) -> Result<(), Errno> {
    let beside = part_name(name);
    if make_marked(parent, &beside, source, mode, durable).is_ok() {
        let from = beside.as_slice();
        let renamed =
            match rustix::fs::renameat_with(parent, from, parent, name, RenameFlags::NOREPLACE) {
                // A network file system: it replaces at most an empty folder.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    rustix::fs::renameat(parent, from, parent, name)
                }
                other => other,
            };
        if renamed.is_ok() {
            return Ok(());
        }
        if let Ok(folder) = open_folder(parent, &beside) {
            let _ = remove(&folder);
        }
        let _ = rustix::fs::unlinkat(parent, from, AtFlags::REMOVEDIR);
        if renamed == Err(Errno::EXIST) {
            return renamed;
        }
    }
    rustix::fs::mkdirat(parent, name, mode)?;
    if let Ok(folder) = open_folder(parent, name) {
        leave(&folder, source);
    }
    Ok(())
}

/// Makes a marked folder, or takes the one that a copy has left that was cut before it had its name.
fn make_marked(
    parent: &OwnedFd,
    beside: &[u8],
    source: &[u8],
    mode: Mode,
    durable: bool,
) -> Result<(), Errno> {
    match rustix::fs::mkdirat(parent, beside, mode) {
        Err(Errno::EXIST) => {
            // It goes if nothing but a mark is in it.
            remove(open_folder(parent, beside)?)?;
            rustix::fs::unlinkat(parent, beside, AtFlags::REMOVEDIR)?;
            rustix::fs::mkdirat(parent, beside, mode)?;
        }
        other => other?,
    }
    let folder = open_folder(parent, beside)?;
    leave(&folder, source);
    if durable {
        flush(&folder)?;
    }
    Ok(())
}

/// Puts a mark and its name on stable storage.
fn flush(folder: &OwnedFd) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mark = rustix::fs::openat2(folder, MARK, flags, Mode::empty(), INSIDE)?;
    rustix::fs::fsync(mark)?;
    match rustix::fs::fsync(folder) {
        // Some file systems flush no single folder.
        Err(Errno::INVAL) => rustix::fs::syncfs(folder),
        other => other,
    }
}

/// Marks a folder as the new name of `source` ([`marked`]). If the mark cannot be made, the copy goes on: without it,
/// the same command would only begin again below the folder.
pub fn leave(folder: impl AsFd, source: &[u8]) {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::openat2(folder, MARK, flags, PRIVATE, INSIDE) {
        let _ = rustix::io::pwrite(&file, source, 0);
    }
}

/// Whether a folder is marked as the new name of `source`.
pub fn is_of(folder: impl AsFd, source: &[u8]) -> bool {
    read(folder).is_ok_and(|marked| marked == source)
}

/// Removes the mark, if there is one.
///
/// # Errors
/// When the file system refuses.
pub fn remove(folder: impl AsFd) -> Result<(), Errno> {
    match rustix::fs::unlinkat(folder, MARK, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

fn read(folder: impl AsFd) -> Result<Vec<u8>, Errno> {
    // A FIFO waits for nobody so.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: OwnedFd = rustix::fs::openat2(folder, MARK, flags, Mode::empty(), INSIDE)?;
    let stat = rustix::fs::fstat(&file)?;
    let own = stat.st_uid == rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !own {
        return Err(Errno::INVAL);
    }
    let mut marked = vec![0; MAX_PATH_BYTES + 1];
    let len = rustix::io::pread(&file, &mut marked, 0)?;
    marked.truncate(len);
    Ok(marked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_is_whose_mark_it_has_until_that_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let folder = File::open(base.path()).unwrap();
        assert_eq!(
            [b"a/.".as_slice(), b"a//", b"a/./.", b"a"].map(marked),
            [b"a"; 4]
        );
        assert!(!is_of(&folder, b"run 42"));
        leave(&folder, b"run 42");
        assert!(is_of(&folder, b"run 42") && !is_of(&folder, b"run 4") && !is_of(&folder, b""));
        leave(&folder, b"other");
        assert!(is_of(&folder, b"run 42"), "the first one counts");
        remove(&folder).unwrap();
        remove(&folder).unwrap();
        assert!(!is_of(&folder, b"run 42"));
    }

    #[test]
    fn a_folder_has_its_name_with_its_mark_alone() {
        let base = tempfile::tempdir().unwrap();
        let parent: OwnedFd = File::open(base.path()).unwrap().into();
        let names = || -> Vec<_> {
            let entries = fs::read_dir(base.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect()
        };
        make(&parent, b"new", b"run 42", Mode::RWXU, true).unwrap();
        assert!(is_of(open_folder(&parent, b"new").unwrap(), b"run 42"));
        assert_eq!(names(), ["new"]);
        assert_eq!(
            make(&parent, b"new", b"run 43", Mode::RWXU, true),
            Err(Errno::EXIST)
        );
        assert!(is_of(open_folder(&parent, b"new").unwrap(), b"run 42"));
        assert_eq!(names(), ["new"]);
        fs::remove_dir_all(base.path().join("new")).unwrap();

        // A copy was cut before the folder had its name.
        fs::create_dir(base.path().join(".new.howdah-part")).unwrap();
        fs::write(base.path().join(".new.howdah-part/.howdah-part"), b"run 4").unwrap();
        make(&parent, b"new", b"run 42", Mode::RWXU, false).unwrap();
        assert!(is_of(open_folder(&parent, b"new").unwrap(), b"run 42"));
        assert_eq!(names(), ["new"]);
        fs::remove_dir_all(base.path().join("new")).unwrap();

        // A user's own folder is left alone.
        fs::create_dir_all(base.path().join(".new.howdah-part/precious")).unwrap();
        make(&parent, b"new", b"run 42", Mode::RWXU, true).unwrap();
        assert!(is_of(open_folder(&parent, b"new").unwrap(), b"run 42"));
        assert!(base.path().join(".new.howdah-part/precious").exists());
    }

    #[test]
    fn what_others_put_at_its_name_says_nothing() {
        let base = tempfile::tempdir().unwrap();
        let folder = File::open(base.path()).unwrap();
        let mark = base.path().join(".howdah-part");
        fs::write(base.path().join("words"), b"run 42").unwrap();
        symlink("words", &mark).unwrap();
        assert!(!is_of(&folder, b"run 42"));
        fs::remove_file(&mark).unwrap();
        fs::create_dir(&mark).unwrap();
        assert!(!is_of(&folder, b"run 42"));
    }
}
