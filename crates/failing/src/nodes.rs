//! What the kernel knows by a number: files and folders below a folder, and files that are open.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{Errno, FileAttr, FileHandle, FileType, INodeNo};
use rustix::fs::{self, AtFlags, CWD, Mode, OFlags, Stat};

/// FUSE's own number for the folder that is mounted.
const ROOT: u64 = 1;

/// A file or folder that the kernel knows, open without being read, so that it outlives its names.
struct Node {
    place: Arc<OwnedFd>,
    /// How often the kernel was told of it.
    lookups: u64,
}

/// A file that is open.
#[derive(Clone)]
pub struct Open {
    pub file: Arc<File>,
    /// Whether it can be written.
    pub writable: bool,
}

pub struct Nodes {
    known: BTreeMap<u64, Node>,
    /// By their handles.
    open: BTreeMap<u64, Open>,
    /// The root's number on its own file system.
    root_number: u64,
}

impl Nodes {
    /// Those below a folder, of which none is known yet.
    pub fn below(folder: &Path) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let place = Arc::new(fs::openat(CWD, folder, flags, Mode::empty())?);
        let root_number = fs::fstat(&place)?.st_ino;
        Ok(Self {
            known: BTreeMap::from([(ROOT, Node { place, lookups: 1 })]),
            open: BTreeMap::new(),
            root_number,
        })
    }

    /// The number by which the kernel knows what has a number on its own file system.
    pub fn number(&self, own: u64) -> INodeNo {
        INodeNo(match own {
            own if own == self.root_number => ROOT,
            ROOT => self.root_number,
            own => own,
        })
    }

    pub fn place(&self, number: INodeNo) -> Result<Arc<OwnedFd>, Errno> {
        let node = self.known.get(&number.0).ok_or(Errno::ESTALE)?;
        Ok(Arc::clone(&node.place))
    }

    /// Looks at a name in a folder for the kernel, which then knows it.
    pub fn look(&mut self, folder: INodeNo, name: &std::ffi::OsStr) -> Result<FileAttr, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = fs::openat(&*self.place(folder)?, name, flags, Mode::empty()).map_err(errno)?;
        let found = fs::fstat(&place).map_err(errno)?;
        let number = self.number(found.st_ino);
        let node = self.known.entry(number.0).or_insert_with(|| Node {
            place: Arc::new(place),
            lookups: 0,
        });
        node.lookups += 1;
        Ok(attributes(number, &found))
    }

    pub fn attributes(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        let found = fs::fstat(&*self.place(number)?).map_err(errno)?;
        Ok(attributes(number, &found))
    }

    /// The kernel forgets so many looks.
    pub fn forget(&mut self, number: INodeNo, lookups: u64) {
        let Some(node) = self.known.get_mut(&number.0) else {
            return;
        };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 && number.0 != ROOT {
            self.known.remove(&number.0);
        }
    }

    pub fn opened(&mut self, open: Open) -> FileHandle {
        let handle = self.open.keys().next_back().map_or(0, |last| last + 1);
        self.open.insert(handle, open);
        FileHandle(handle)
    }

    pub fn file(&self, handle: FileHandle) -> Result<Open, Errno> {
        self.open.get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    pub fn close(&mut self, handle: FileHandle) {
        self.open.remove(&handle.0);
    }
}

/// An error of the folder's own file system.
pub fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

/// A path to something that is open. It leads to a symbolic link, too, but not through it.
pub fn path(place: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd()))
}

/// Those of something that is open without being read.
pub fn is_link(place: &OwnedFd) -> Result<bool, Errno> {
    let found = fs::statat(place, "", AtFlags::EMPTY_PATH).map_err(errno)?;
    Ok(kind(&found) == FileType::Symlink)
}

fn kind(found: &Stat) -> FileType {
    match fs::FileType::from_raw_mode(found.st_mode) {
        fs::FileType::Directory => FileType::Directory,
        fs::FileType::Symlink => FileType::Symlink,
        fs::FileType::Fifo => FileType::NamedPipe,
        fs::FileType::Socket => FileType::Socket,
        fs::FileType::CharacterDevice => FileType::CharDevice,
        fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn attributes(number: INodeNo, found: &Stat) -> FileAttr {
    let at = |seconds: i64, nanoseconds: u64| {
        let within = Duration::from_nanos(nanoseconds);
        let whole = Duration::from_secs(seconds.unsigned_abs());
        match seconds < 0 {
            true => SystemTime::UNIX_EPOCH - whole + within,
            false => SystemTime::UNIX_EPOCH + whole + within,
        }
    };
    FileAttr {
        ino: number,
        size: found.st_size as u64,
        blocks: found.st_blocks as u64,
        atime: at(found.st_atime, found.st_atime_nsec),
        mtime: at(found.st_mtime, found.st_mtime_nsec),
        ctime: at(found.st_ctime, found.st_ctime_nsec),
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind(found),
        perm: (found.st_mode & 0o7777) as u16,
        nlink: found.st_nlink as u32,
        uid: found.st_uid,
        gid: found.st_gid,
        rdev: found.st_rdev as u32,
        blksize: 4096,
        flags: 0,
    }
}
