//! The attributes that folders get at the end, when nothing in them changes any more. There may be
//! millions of folders, so what exceeds a small buffer goes to a nameless file at the destination.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};

use howdah_wire::limits::MAX_PATH_BYTES;
use howdah_wire::{Attributes, TreePath};
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{TransferError, plain};
use crate::tree::destination::temporary_name;

/// What is kept in memory, in bytes, but for the last entry.
const BUFFER_BYTES: usize = 1 << 20;
/// What the owner of a folder needs to change what is in it.
const OWNER_MODE: u32 = 0o700;

/// A folder and its attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    /// Index of the source it belongs to.
    pub source: u16,
    /// Its path below that source.
    pub path: TreePath,
    /// What it gets.
    pub attributes: Attributes,
}

impl Folder {
    /// The same folder with attributes that let its owner still change what is in it.
    pub fn open_to_owner(mut self) -> Self {
        self.attributes.mode |= OWNER_MODE;
        self
    }

    fn closed_to_owner(&self) -> bool {
        self.attributes.mode & OWNER_MODE != OWNER_MODE
    }

    fn depth(&self) -> usize {
        let path = self.path.as_bytes();
        let slashes = path.iter().filter(|&&byte| byte == b'/').count();
        slashes + usize::from(!path.is_empty())
    }
}

/// Folders in the order in which they came.
#[derive(Debug, Default)]
pub struct Folders {
    buffer: Vec<u8>,
    spool: Option<OwnedFd>,
    /// How deep those lie whose owner may not change them in the end; at most as many as a path has
    /// names.
    closed_depths: BTreeSet<usize>,
}

impl Folders {
    /// Adds one; what exceeds the buffer goes to a nameless file in `destination`.
    ///
    /// # Errors
    /// When that file cannot be made or written.
    pub fn add(&mut self, folder: &Folder, destination: impl AsFd) -> io::Result<()> {
        if folder.closed_to_owner() {
            self.closed_depths.insert(folder.depth());
        }
        let record = postcard::to_stdvec(folder).map_err(io::Error::other)?;
        let len = u32::try_from(record.len()).map_err(io::Error::other)?;
        self.buffer.extend_from_slice(&len.to_le_bytes());
        self.buffer.extend_from_slice(&record);
        if self.buffer.len() >= BUFFER_BYTES {
            let spool = match self.spool.take() {
                Some(spool) => spool,
                None => nameless(destination)?,
            };
            write_all(&spool, &self.buffer)?;
            self.spool = Some(spool);
            self.buffer.clear();
        }
        Ok(())
    }

    /// Hands out each folder with the attributes to set, in an order in which that can be done: first
    /// all as far as they stay open to their owner, then the others, the innermost first.
    ///
    /// # Errors
    /// Of `set`, and when the nameless file cannot be read.
    pub fn each(
        &self,
        mut set: impl FnMut(Folder) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        self.read(&mut |folder| set(folder.open_to_owner()))?;
        for &depth in self.closed_depths.iter().rev() {
            self.read(&mut |folder| {
                if folder.closed_to_owner() && folder.depth() == depth {
                    set(folder)
                } else {
                    Ok(())
                }
            })?;
        }
        Ok(())
    }

    fn read(
        &self,
        take: &mut dyn FnMut(Folder) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        if let Some(spool) = &self.spool {
            rustix::fs::seek(spool, SeekFrom::Start(0))
                .map_err(|error| unreadable(&error.into()))?;
            let spool = spool.try_clone().map_err(|error| unreadable(&error))?;
            records(&mut BufReader::new(File::from(spool)), take)?;
        }
        records(&mut self.buffer.as_slice(), take)
    }
}

fn records(
    from: &mut impl Read,
    take: &mut dyn FnMut(Folder) -> Result<(), TransferError>,
) -> Result<(), TransferError> {
    let mut record = Vec::with_capacity(MAX_PATH_BYTES);
    while let Some(folder) = next(from, &mut record).map_err(|error| unreadable(&error))? {
        take(folder)?;
    }
    Ok(())
}

fn next(from: &mut impl Read, record: &mut Vec<u8>) -> io::Result<Option<Folder>> {
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    record.resize(u32::from_le_bytes(len) as usize, 0);
    from.read_exact(record)?;
    postcard::from_bytes(record)
        .map(Some)
        .map_err(io::Error::other)
}

fn unreadable(error: &io::Error) -> TransferError {
    TransferError::Here(format!(
        "cannot read the attributes of folders back: {}",
        plain(error)
    ))
}

/// A file in a folder that has no name, or no longer, so that it ends with this process.
fn nameless(folder: impl AsFd) -> io::Result<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(&folder, ".", flags, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
            let name = temporary_name(b"folders");
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&folder, name.as_slice(), flags, mode)?;
            rustix::fs::unlinkat(&folder, name.as_slice(), AtFlags::empty())?;
            Ok(file)
        }
        other => Ok(other?),
    }
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Err(Errno::INTR) => {}
            other => bytes = &bytes[other?..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(path: String, mode: u32) -> Folder {
        Folder {
            source: 3,
            path: TreePath::try_from(path.into_bytes()).unwrap(),
            attributes: Attributes { mode, mtime_ns: 7 },
        }
    }

    #[test]
    fn many_folders_take_little_memory_and_leave_nothing() {
        let base = tempfile::tempdir().unwrap();
        let destination = fs::File::open(base.path()).unwrap();
        let mut folders = Folders::default();
        let name = |number: u32| format!("{}/{number}", "x".repeat(200));
        for number in 0..50_000 {
            folders
                .add(&folder(name(number), 0o755), &destination)
                .unwrap();
            assert!(folders.buffer.capacity() <= 4 * BUFFER_BYTES);
        }
        assert!(folders.spool.is_some());
        let mut expected = 0;
        let read = folders.each(|got| {
            assert_eq!(got, folder(name(expected), 0o755));
            expected += 1;
            Ok(())
        });
        read.unwrap();
        assert_eq!(expected, 50_000);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_is_closed_to_its_owner_after_those_in_it() {
        let base = tempfile::tempdir().unwrap();
        let destination = fs::File::open(base.path()).unwrap();
        let mut folders = Folders::default();
        for (path, mode) in [("a/b", 0o500), ("", 0o555), ("a", 0o000), ("c", 0o750)] {
            folders
                .add(&folder(path.into(), mode), &destination)
                .unwrap();
        }
        let mut order = Vec::new();
        let read = folders.each(|got| {
            let path = String::from_utf8(got.path.as_bytes().to_vec()).unwrap();
            order.push((path, got.attributes.mode));
            Ok(())
        });
        read.unwrap();
        let expected = [
            ("a/b", 0o700),
            ("", 0o755),
            ("a", 0o700),
            ("c", 0o750),
            ("a/b", 0o500),
            ("a", 0o000),
            ("", 0o555),
        ];
        assert_eq!(order, expected.map(|(path, mode)| (path.to_owned(), mode)));
    }
}
