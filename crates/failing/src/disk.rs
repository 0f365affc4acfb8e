//! The file system: what the kernel asks for is done in the folder, unless it has to fail.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{
    self, AtFlags, CWD, Dir, FileType as Kind, Gid, Mode, OFlags, RenameFlags as How, Timespec,
    Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags,
};

use crate::answer::{AT_ONCE, answer, answer_attributes, answer_entry, answer_xattr};
use crate::fault::{Fault, Told};
use crate::nodes::{Nodes, Open, errno, is_link, path};

/// More than any list or value of extended attributes has (xattr(7)).
const XATTR_BYTES: usize = 64 << 10;

/// A folder, as the disk that fails shows it.
pub struct Disk {
    nodes: Mutex<Nodes>,
    told: Told,
}

impl Disk {
    pub(crate) fn new(nodes: Nodes, told: Told) -> Self {
        let nodes = Mutex::new(nodes);
        Self { nodes, told }
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a name in a folder, and looks at it.
    fn made(
        &self,
        folder: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>,
    ) -> Result<FileAttr, Errno> {
        let place = self.nodes().place(folder)?;
        make(&place).map_err(errno)?;
        self.nodes().look(folder, name)
    }

    fn removed(&self, folder: INodeNo, name: &OsStr, flags: AtFlags) -> Result<(), Errno> {
        let place = self.nodes().place(folder)?;
        fs::unlinkat(&*place, name, flags).map_err(errno)
    }

    fn set(
        &self,
        number: INodeNo,
        mode: Option<u32>,
        owner: (Option<u32>, Option<u32>),
        size: Option<u64>,
        times: (Option<TimeOrNow>, Option<TimeOrNow>),
    ) -> Result<FileAttr, Errno> {
        self.told.meet(&Fault::Attributes)?;
        let place = self.nodes().place(number)?;
        if let (user, group) = owner
            && (user.is_some() || group.is_some())
        {
            let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
            fs::chownat(&*place, "", user, group, AtFlags::EMPTY_PATH).map_err(errno)?;
        }
        if let Some(mode) = mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            fs::chmodat(CWD, path(&place), mode, AtFlags::empty()).map_err(errno)?;
        }
        if let Some(size) = size {
            File::options()
                .write(true)
                .open(path(&place))?
                .set_len(size)?;
        }
        if times.0.is_some() || times.1.is_some() {
            let times = Timestamps {
                last_access: timespec(times.0),
                last_modification: timespec(times.1),
            };
            fs::utimensat(&*place, "", &times, AtFlags::EMPTY_PATH).map_err(errno)?;
        }
        self.nodes().attributes(number)
    }

    fn opened(&self, number: INodeNo, flags: OpenFlags) -> Result<(FileHandle, FopenFlags), Errno> {
        let place = self.nodes().place(number)?;
        let writable = flags.acc_mode() != OpenAccMode::O_RDONLY;
        // The kernel reads before it writes a part of a page.
        let file = File::options()
            .read(true)
            .write(writable)
            .open(path(&place))?;
        let file = Arc::new(file);
        // So that a read which fails is one of a program, and none that the kernel makes ahead.
        let how = match writable {
            true => FopenFlags::empty(),
            false => FopenFlags::FOPEN_DIRECT_IO,
        };
        Ok((self.nodes().opened(Open { file, writable }), how))
    }

    fn list(&self, folder: INodeNo) -> Result<Vec<(INodeNo, FileType, Vec<u8>)>, Errno> {
        let place = self.nodes().place(folder)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = fs::openat(&*place, ".", flags, Mode::empty()).map_err(errno)?;
        let mut found = Vec::new();
        for entry in Dir::new(opened).map_err(errno)? {
            let entry = entry.map_err(errno)?;
            let kind = match entry.file_type() {
                Kind::Directory => FileType::Directory,
                Kind::Symlink => FileType::Symlink,
                Kind::Fifo => FileType::NamedPipe,
                Kind::Socket => FileType::Socket,
                Kind::CharacterDevice => FileType::CharDevice,
                Kind::BlockDevice => FileType::BlockDevice,
                _ => FileType::RegularFile,
            };
            let number = self.nodes().number(entry.ino());
            found.push((number, kind, entry.file_name().to_bytes().to_owned()));
        }
        found.sort_by(|(.., one), (.., other)| one.cmp(other));
        Ok(found)
    }

    fn xattr(&self, number: INodeNo, name: Option<&OsStr>) -> Result<Vec<u8>, Errno> {
        let place = self.nodes().place(number)?;
        if is_link(&place)? {
            return name.map_or(Ok(Vec::new()), |_| Err(Errno::ENODATA));
        }
        let mut value = vec![0; XATTR_BYTES];
        let filled = match name {
            Some(name) => fs::getxattr(path(&place), name, &mut value[..]),
            None => fs::listxattr(path(&place), &mut value[..]),
        };
        value.truncate(filled.map_err(errno)?);
        Ok(value)
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(UTIME_OMIT),
        Some(TimeOrNow::Now) => special(UTIME_NOW),
        Some(TimeOrNow::SpecificTime(at)) => match at.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => Timespec {
                tv_sec: since.as_secs() as i64,
                tv_nsec: since.subsec_nanos().into(),
            },
            Err(before) => {
                let before = before.duration().as_nanos() as i64;
                Timespec {
                    tv_sec: (-before).div_euclid(1_000_000_000),
                    tv_nsec: (-before).rem_euclid(1_000_000_000),
                }
            }
        },
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(self.nodes().look(folder, name), reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.nodes().forget(number, lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer_attributes(self.nodes().attributes(number), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = self.set(number, mode, (user, group), size, (atime, mtime));
        answer_attributes(set, reply);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let read = || {
            let place = self.nodes().place(number)?;
            fs::readlinkat(&*place, "", Vec::new()).map_err(errno)
        };
        match read() {
            Ok(target) => reply.data(target.to_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        _: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let (kind, mode) = (
            Kind::from_raw_mode(mode),
            Mode::from_raw_mode(mode & !umask),
        );
        let make = |place: &OwnedFd| fs::mknodat(place, name, kind, mode, device.into());
        answer_entry(self.made(folder, name, make), reply);
    }

    fn mkdir(
        &self,
        _: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let mode = Mode::from_raw_mode(mode & !umask);
        let made = self
            .told
            .meet(&Fault::Folders)
            .and_then(|()| self.made(folder, name, |place| fs::mkdirat(place, name, mode)));
        answer_entry(made, reply);
    }

    fn symlink(
        &self,
        _: &Request,
        folder: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let make = |place: &OwnedFd| fs::symlinkat(target, place, name);
        answer_entry(self.made(folder, name, make), reply);
    }

    fn create(
        &self,
        _: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let mode = Mode::from_raw_mode(mode & !umask);
        let own = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let flags = own | (OFlags::from_bits_truncate(flags as u32) & OFlags::EXCL);
        let mut file = None;
        let made = self.made(folder, name, |place| {
            file = Some(fs::openat(place, name, flags, mode)?);
            Ok(())
        });
        match (made, file) {
            (Ok(attributes), Some(file)) => {
                let file = Arc::new(File::from(file));
                let writable = true;
                let handle = self.nodes().opened(Open { file, writable });
                let flags = FopenFlags::empty();
                reply.created(&AT_ONCE, &attributes, Generation(0), handle, flags);
            }
            (made, _) => reply.error(made.err().unwrap_or(Errno::EIO)),
        }
    }

    fn link(&self, _: &Request, number: INodeNo, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = || {
            self.told.meet(&Fault::Names)?;
            let from = self.nodes().place(number)?;
            let link = |to: &OwnedFd| fs::linkat(&*from, "", to, name, AtFlags::EMPTY_PATH);
            self.made(folder, name, link)
        };
        answer_entry(linked(), reply);
    }

    fn unlink(&self, _: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.removed(folder, name, AtFlags::empty()), reply);
    }

    fn rmdir(&self, _: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.removed(folder, name, AtFlags::REMOVEDIR), reply);
    }

    fn rename(
        &self,
        _: &Request,
        from: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = || {
            self.told.meet(&Fault::Names)?;
            let nodes = self.nodes();
            let (from, to) = (nodes.place(from)?, nodes.place(to)?);
            let how = How::from_bits_retain(flags.bits());
            fs::renameat_with(&*from, name, &*to, new_name, how).map_err(errno)
        };
        answer(renamed(), reply);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.opened(number, flags) {
            Ok((handle, how)) => reply.opened(handle, how),
            Err(error) => reply.error(error),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.nodes().close(handle);
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        let read = || {
            self.told.meet(&Fault::Reads)?;
            let file = self.nodes().file(handle)?.file;
            let mut filled = 0;
            while filled < bytes.len() {
                match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
                    0 => break,
                    count => filled += count,
                }
            }
            Ok::<_, Errno>(filled)
        };
        let outcome = { read }();
        match outcome {
            Ok(filled) => reply.data(&bytes[..filled]),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = || {
            self.told.write(data, offset)?;
            let file = self.nodes().file(handle)?.file;
            Ok::<_, Errno>(file.write_all_at(data, offset)?)
        };
        match write() {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let closed = || match self.nodes().file(handle)?.writable {
            true => self.told.meet(&Fault::Closes),
            false => Ok(()),
        };
        answer(closed(), reply);
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let flushed = || {
            self.told.meet(&Fault::Flushes)?;
            let file = self.nodes().file(handle)?.file;
            Ok(file.sync_data()?)
        };
        answer(flushed(), reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.told.meet(&Fault::Flushes), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        folder: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let found = match self.list(folder) {
            Ok(found) => found,
            Err(error) => return reply.error(error),
        };
        for (next, (number, kind, name)) in (1..).zip(found).skip(offset as usize) {
            if reply.add(number, next, kind, OsStr::from_bytes(&name)) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, number: INodeNo, reply: ReplyStatfs) {
        let place = self.nodes().place(number);
        match place.and_then(|place| fs::fstatvfs(&*place).map_err(errno)) {
            Ok(found) => reply.statfs(
                found.f_blocks,
                found.f_bfree,
                found.f_bavail,
                found.f_files,
                found.f_ffree,
                found.f_bsize as u32,
                found.f_namemax as u32,
                found.f_frsize as u32,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let set = || {
            self.told.meet(&Fault::Attributes)?;
            let place = self.nodes().place(number)?;
            let flags = XattrFlags::from_bits_retain(flags as u32);
            fs::setxattr(path(&place), name, value, flags).map_err(errno)
        };
        answer(set(), reply);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        answer_xattr(self.xattr(number, Some(name)), size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        answer_xattr(self.xattr(number, None), size, reply);
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = || {
            self.told.meet(&Fault::Attributes)?;
            let place = self.nodes().place(number)?;
            fs::removexattr(path(&place), name).map_err(errno)
        };
        answer(removed(), reply);
    }
}
