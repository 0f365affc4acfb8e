//! Files of a folder that a list does not name.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::disk::Unread;

/// The names of a list, of which there may be millions: 16 bytes each.
#[derive(Debug, Default)]
pub struct Names(HashSet<[u8; 16]>);

impl Names {
    /// Adds a name.
    pub fn add(&mut self, name: &[u8]) {
        self.0.insert(key(name));
    }

    fn has(&self, name: &[u8]) -> bool {
        self.0.contains(&key(name))
    }
}

fn key(name: &[u8]) -> [u8; 16] {
    let hash = blake3::hash(name);
    let mut key = [0; 16];
    key.copy_from_slice(&hash.as_bytes()[..16]);
    key
}

/// Hands each regular file below `folder` that `names` has not to `found`, and each folder that cannot be read
/// with its reason. Symbolic links are not followed. `found` ends it with false.
pub fn walk(
    folder: BorrowedFd<'_>,
    names: &Names,
    mut found: impl FnMut(Vec<u8>, Option<Unread>) -> bool,
) {
    let mut folders = vec![Vec::new()];
    while let Some(below) = folders.pop() {
        let mut look = |name: Vec<u8>, kind: Option<FileType>| match kind {
            Some(FileType::Directory) => {
                folders.push(name);
                true
            }
            Some(FileType::RegularFile) if !names.has(&name) => found(name, None),
            _ => true,
        };
        match list(folder, &below, &mut look) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                if !found(below, Some(error.into())) {
                    return;
                }
            }
        }
    }
}

fn list(
    folder: BorrowedFd<'_>,
    below: &[u8],
    look: &mut impl FnMut(Vec<u8>, Option<FileType>) -> bool,
) -> Result<bool, Errno> {
    let name = if below.is_empty() { b"." } else { below };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let last = entry.file_name();
        if matches!(last.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            // Some file systems do not say it in the listing.
            FileType::Unknown => {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::statat(opened.as_fd(), last, flags)
                    .ok()
                    .map(|stat| FileType::from_raw_mode(stat.st_mode))
            }
            kind => Some(kind),
        };
        let name = if below.is_empty() {
            last.to_bytes().to_vec()
        } else {
            [below, b"/", last.to_bytes()].concat()
        };
        if !look(name, kind) {
            return Ok(false);
        }
    }
    Ok(true)
}
