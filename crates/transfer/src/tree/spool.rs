//! Millions of records that one end has to remember, in the order in which they came. Records that do not fit into a
//! small buffer go to a file without a name, at the destination. If the disk is full they stay in memory, because the
//! files that the job removes may be what fills the disk.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{TransferError, plain};
use crate::tree::destination::temporary_name;

/// What is kept in memory, in bytes, but for the last record.
const BUFFER_BYTES: usize = 1 << 20;

/// Records of one kind.
#[derive(Debug)]
pub struct Spool<T> {
    buffer: Vec<u8>,
    file: Option<OwnedFd>,
    /// What the file holds, in bytes.
    written: u64,
    /// The size of the buffer from which on it is written.
    full: usize,
    kind: PhantomData<fn(T) -> T>,
}

impl<T> Default for Spool<T> {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            file: None,
            written: 0,
            full: BUFFER_BYTES,
            kind: PhantomData,
        }
    }
}

impl<T: Serialize + DeserializeOwned> Spool<T> {
    /// Adds a record. What does not fit into the buffer goes to a nameless file in `folder`.
    ///
    /// # Errors
    /// When that file cannot be made or written, for another reason than a full disk.
    pub fn add(&mut self, record: &T, folder: impl AsFd) -> io::Result<()> {
        let record = postcard::to_stdvec(record).map_err(io::Error::other)?;
        let len = u32::try_from(record.len()).map_err(io::Error::other)?;
        self.buffer.extend_from_slice(&len.to_le_bytes());
        self.buffer.extend_from_slice(&record);
        if self.buffer.len() < self.full {
            return Ok(());
        }
        match self.write(folder) {
            Err(error) if is_full(&error) => self.full = self.buffer.len() + BUFFER_BYTES,
            other => other?,
        }
        Ok(())
    }

    /// Writes the buffer; where that fails the file is as before.
    fn write(&mut self, folder: impl AsFd) -> io::Result<()> {
        let file: &OwnedFd = match &self.file {
            Some(file) => file,
            None => self.file.insert(nameless(folder)?),
        };
        if let Err(error) = write_all(file, &self.buffer) {
            rustix::fs::ftruncate(file, self.written)?;
            rustix::fs::seek(file, SeekFrom::Start(self.written))?;
            return Err(error);
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.full = BUFFER_BYTES;
        Ok(())
    }

    /// Calls `take` for each record, in their order.
    ///
    /// # Errors
    /// Errors of `take`, and when the nameless file cannot be read.
    pub fn each(
        &self,
        take: &mut dyn FnMut(T) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        if let Some(file) = &self.file {
            rustix::fs::seek(file, SeekFrom::Start(0))
                .map_err(|error| unreadable(&error.into()))?;
            let file = file.try_clone().map_err(|error| unreadable(&error))?;
            records(&mut BufReader::new(File::from(file)), take)?;
        }
        records(&mut self.buffer.as_slice(), take)
    }
}

fn records<T: DeserializeOwned>(
    from: &mut impl Read,
    take: &mut dyn FnMut(T) -> Result<(), TransferError>,
) -> Result<(), TransferError> {
    let mut record = Vec::new();
    while let Some(next) = next(from, &mut record).map_err(|error| unreadable(&error))? {
        take(next)?;
    }
    Ok(())
}

fn next<T: DeserializeOwned>(from: &mut impl Read, record: &mut Vec<u8>) -> io::Result<Option<T>> {
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
        "cannot read back what was noted for the end of the copy: {}",
        plain(error)
    ))
}

/// Whether a disk is full, or over its quota.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// A file in a folder that has no name, or no longer, so that it ends with this process.
fn nameless(folder: impl AsFd) -> io::Result<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(&folder, ".", flags, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
            let name = temporary_name(b"spool");
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

    #[test]
    fn many_records_take_little_memory_and_leave_nothing() {
        let base = tempfile::tempdir().unwrap();
        let destination = fs::File::open(base.path()).unwrap();
        let mut spool = Spool::default();
        let record = |number: u32| format!("{}/{number}", "x".repeat(200));
        for number in 0..50_000 {
            spool.add(&record(number), &destination).unwrap();
            assert!(spool.buffer.capacity() <= 4 * BUFFER_BYTES);
        }
        assert!(spool.file.is_some());
        let mut expected = 0;
        let read = spool.each(&mut |got| {
            assert_eq!(got, record(expected));
            expected += 1;
            Ok(())
        });
        read.unwrap();
        assert_eq!(expected, 50_000);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }
}
