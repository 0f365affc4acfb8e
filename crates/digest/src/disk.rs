//! Files read from their disk and not from memory.
//!
//! A file is read with `O_DIRECT` (open(2)), for which the kernel first writes back what is not on the disk yet and
//! then reads past its page cache. Where the file system has none, the file is flushed and its pages are dropped
//! (`POSIX_FADV_DONTNEED`, posix_fadvise(2)) before it is read; pages that another program has mapped stay.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;
/// What `O_DIRECT` wants addresses, offsets and lengths to be multiples of, on any block device in use.
const ALIGN_BYTES: usize = 4096;

/// A file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// There is none of this name.
    Missing,
    /// Why it cannot be read to its end.
    Because(String),
}

impl From<Errno> for Unread {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => Self::Missing,
            Errno::ACCESS | Errno::PERM => {
                Self::Because("no permission to read it; check its owner and mode".to_owned())
            }
            Errno::IO => Self::Because("the disk cannot read it (I/O error)".to_owned()),
            error => {
                let text = std::io::Error::from(error).to_string();
                Self::Because(
                    text.split(" (os error")
                        .next()
                        .unwrap_or_default()
                        .to_owned(),
                )
            }
        }
    }
}

/// A regular file, open.
#[derive(Debug)]
pub struct DiskFile {
    file: OwnedFd,
    stat: Stat,
    direct: AtomicBool,
}

/// Where one thread reads to.
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// Room for one read.
    pub fn new() -> Self {
        Self(vec![0; READ_BYTES + ALIGN_BYTES])
    }

    fn aligned(&mut self) -> &mut [u8] {
        let begin = self.0.as_ptr().align_offset(ALIGN_BYTES).min(ALIGN_BYTES);
        &mut self.0[begin..begin + READ_BYTES]
    }
}

impl DiskFile {
    /// Opens a file below `folder`.
    ///
    /// # Errors
    /// When there is none, or it cannot be read. What is no regular file cannot.
    pub fn open(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Self, Unread> {
        // Without NONBLOCK a FIFO would hold this thread for good.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(Unread::Because("it is no regular file".to_owned()));
        }
        let file = Self {
            direct: AtomicBool::new(rustix::fs::fcntl_setfl(&file, OFlags::DIRECT).is_ok()),
            file,
            stat,
        };
        if !file.direct() {
            file.drop_pages();
        }
        Ok(file)
    }

    /// Its length, in bytes.
    pub fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// Whether it is read past the page cache.
    pub fn direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Hands its bytes from `offset` to `end` to `take`, in order; `take` ends the reading with false.
    ///
    /// # Errors
    /// When they cannot all be read, or the file has changed since it was opened.
    pub fn read(
        &self,
        mut offset: u64,
        end: u64,
        buffer: &mut Buffer,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Unread> {
        let room = buffer.aligned();
        while offset < end {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            // All reads but the last of a file are whole ones, so offsets stay aligned.
            let most = left.next_multiple_of(ALIGN_BYTES).min(room.len());
            match rustix::io::pread(&self.file, &mut room[..most], offset) {
                Ok(0) => return Err(changed()),
                Ok(count) => {
                    let count = count.min(left);
                    if !take(&room[..count]) {
                        return Ok(());
                    }
                    offset += count as u64;
                    if offset < end && count % ALIGN_BYTES != 0 && self.direct() {
                        self.not_direct()?;
                    }
                }
                Err(Errno::INTR) => {}
                // Some file systems take the flag and not the read.
                Err(Errno::INVAL) if self.direct() => self.not_direct()?,
                Err(error) => return Err(error.into()),
            }
        }
        let now = rustix::fs::fstat(&self.file)?;
        let of = |stat: &Stat| {
            let times = (
                stat.st_mtime,
                stat.st_mtime_nsec,
                stat.st_ctime,
                stat.st_ctime_nsec,
            );
            (stat.st_size, times)
        };
        if of(&now) != of(&self.stat) {
            return Err(changed());
        }
        Ok(())
    }

    fn not_direct(&self) -> Result<(), Unread> {
        rustix::fs::fcntl_setfl(&self.file, OFlags::empty())?;
        self.direct.store(false, Ordering::Relaxed);
        self.drop_pages();
        Ok(())
    }

    /// Pages that are not on the disk yet cannot be dropped, hence the flush. Neither may be refused for good:
    /// the bytes are read all the same.
    fn drop_pages(&self) {
        let _ = rustix::fs::fdatasync(&self.file);
        let _ = rustix::fs::fadvise(self.file.as_fd(), 0, None, Advice::DontNeed);
    }
}

fn changed() -> Unread {
    Unread::Because("it changed while it was read".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn a_file_is_read_whole_whatever_its_length_and_where_it_is() {
        // Of the disk and in memory: /dev/shm is a tmpfs.
        for base in [
            tempfile::tempdir_in(".").unwrap(),
            tempfile::tempdir_in("/dev/shm").unwrap(),
        ] {
            let folder: OwnedFd = File::open(base.path()).unwrap().into();
            for size in [0, 1, 4095, 4096, 4097, READ_BYTES, READ_BYTES + 10_000] {
                let content: Vec<u8> = (0..size).map(|at| (at / 3 % 251) as u8).collect();
                fs::write(base.path().join("file"), &content).unwrap();
                let file = DiskFile::open(folder.as_fd(), b"file").unwrap();
                assert_eq!(file.size(), size as u64);
                let mut seen = Vec::new();
                let mut buffer = Buffer::new();
                let take = |bytes: &[u8]| {
                    seen.extend_from_slice(bytes);
                    true
                };
                file.read(0, size as u64, &mut buffer, take).unwrap();
                assert!(seen == content, "{size}");
            }
        }
    }

    #[test]
    fn what_is_no_file_or_changes_is_named() {
        let base = tempfile::tempdir().unwrap();
        let folder: OwnedFd = File::open(base.path()).unwrap().into();
        let open = |name: &str| DiskFile::open(folder.as_fd(), name.as_bytes());
        assert_eq!(open("none").unwrap_err(), Unread::Missing);
        fs::create_dir(base.path().join("folder")).unwrap();
        let no_file = Unread::Because("it is no regular file".to_owned());
        assert_eq!(open("folder").unwrap_err(), no_file);
        assert_eq!(open("folder/none").unwrap_err(), Unread::Missing);
        let fifo = base.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from(0o600), 0).unwrap();
        assert_eq!(open("fifo").unwrap_err(), no_file);
        fs::write(base.path().join("file"), vec![1; 5000]).unwrap();
        assert_eq!(open("file/below").unwrap_err(), Unread::Missing);
        let file = open("file").unwrap();
        fs::write(base.path().join("file"), vec![1; 4000]).unwrap();
        let outcome = file.read(0, 5000, &mut Buffer::new(), |_| true);
        assert_eq!(outcome, Err(changed()));
    }
}
