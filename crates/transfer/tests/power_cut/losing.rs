//! A disk that fails with EIO when it is told to: a FUSE file system that passes all on to a folder. A file in it may
//! back a loop device. No real disk and no block device is made to fail.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{
    self as unix, DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{CWD, RenameFlags as How};

use super::failures::{Fault, Told};

const ROOT: u64 = 1;
/// Nothing is remembered by the kernel, so each look is one here.
const AT_ONCE: Duration = Duration::ZERO;

/// Mounts one on `mount` that keeps what it has in `folder`.
pub fn mount(folder: &Path, mount: &Path) -> io::Result<(BackgroundSession, Told)> {
    let told = Told::default();
    let names = Names {
        paths: BTreeMap::from([(ROOT, folder.to_owned())]),
        numbers: BTreeMap::from([(folder.to_owned(), ROOT)]),
        open: BTreeMap::new(),
        last: ROOT,
    };
    let disk = Disk {
        told: told.clone(),
        names: Mutex::new(names),
    };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("howdah-losing".to_owned())];
    let session = fuser::spawn_mount(disk, mount, &config)?;
    Ok((session, told))
}

/// What the kernel knows by a number. Each name has its own, also where a file has several.
struct Names {
    paths: BTreeMap<u64, PathBuf>,
    numbers: BTreeMap<PathBuf, u64>,
    /// Files that are open, by their handles, with their numbers.
    open: BTreeMap<u64, (u64, Arc<File>)>,
    /// The last number that was given.
    last: u64,
}

impl Names {
    fn path(&self, number: INodeNo) -> Result<&Path, Errno> {
        let path = self.paths.get(&number.0);
        path.map(PathBuf::as_path).ok_or(Errno::ENOENT)
    }

    fn number(&mut self, path: &Path) -> u64 {
        if let Some(&number) = self.numbers.get(path) {
            return number;
        }
        self.last += 1;
        self.paths.insert(self.last, path.to_owned());
        self.numbers.insert(path.to_owned(), self.last);
        self.last
    }

    fn forget(&mut self, path: &Path) {
        if let Some(number) = self.numbers.remove(path) {
            self.paths.remove(&number);
        }
    }

    /// Has a path, and all below it, have another name.
    fn rename(&mut self, from: &Path, to: &Path) {
        self.forget(to);
        for (&number, path) in &mut self.paths {
            if let Ok(below) = path.strip_prefix(from) {
                self.numbers.remove(path);
                *path = match below.as_os_str().is_empty() {
                    true => to.to_owned(),
                    false => to.join(below),
                };
                self.numbers.insert(path.clone(), number);
            }
        }
    }

    fn attributes(&mut self, number: INodeNo) -> Result<FileAttr, Errno> {
        let found = match self.paths.get(&number.0) {
            Some(path) => fs::symlink_metadata(path)?,
            // It has lost its name, and may be open.
            None => {
                let mut open = self.open.values();
                let (_, file) = open.find(|(of, _)| *of == number.0).ok_or(Errno::ENOENT)?;
                file.metadata()?
            }
        };
        Ok(attributes(number.0, &found))
    }

    fn opened(&mut self, number: u64, file: File) -> FileHandle {
        let handle = self.open.keys().next_back().map_or(0, |last| last + 1);
        self.open.insert(handle, (number, Arc::new(file)));
        FileHandle(handle)
    }
}

fn attributes(number: u64, found: &Metadata) -> FileAttr {
    let at = |seconds: i64, nanoseconds: i64| {
        let since = Duration::new(seconds as u64, nanoseconds as u32);
        SystemTime::UNIX_EPOCH + since
    };
    FileAttr {
        ino: INodeNo(number),
        size: found.size(),
        blocks: found.blocks(),
        atime: at(found.atime(), found.atime_nsec()),
        mtime: at(found.mtime(), found.mtime_nsec()),
        ctime: at(found.ctime(), found.ctime_nsec()),
        crtime: SystemTime::UNIX_EPOCH,
        kind: FileType::from_std(found.file_type()).expect("of a known kind"),
        perm: (found.mode() & 0o7777) as u16,
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        rdev: found.rdev() as u32,
        blksize: 4096,
        flags: 0,
    }
}

struct Disk {
    told: Told,
    names: Mutex<Names>,
}

impl Disk {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A path in a folder.
    fn within(&self, folder: INodeNo, name: &OsStr) -> Result<PathBuf, Errno> {
        Ok(self.names().path(folder)?.join(name))
    }

    fn file(&self, handle: FileHandle) -> Result<Arc<File>, Errno> {
        let names = self.names();
        let (_, file) = names.open.get(&handle.0).ok_or(Errno::EBADF)?;
        Ok(Arc::clone(file))
    }

    /// Has `make` make a name in a folder, and looks at it.
    fn made(
        &self,
        folder: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<FileAttr, Errno> {
        let path = self.within(folder, name)?;
        make(&path)?;
        let mut names = self.names();
        let number = names.number(&path);
        names.attributes(INodeNo(number))
    }

    /// Has `remove` remove a name from a folder, and forgets it.
    fn removed(
        &self,
        folder: INodeNo,
        name: &OsStr,
        remove: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), Errno> {
        let path = self.within(folder, name)?;
        remove(&path)?;
        self.names().forget(&path);
        Ok(())
    }

    fn flush_file(&self, handle: FileHandle) -> Result<(), Errno> {
        self.told.meet(|fault| matches!(fault, Fault::Flushes))?;
        Ok(self.file(handle)?.sync_data()?)
    }
}

fn answer(outcome: Result<(), Errno>, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn answer_entry(outcome: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match outcome {
        Ok(attributes) => reply.entry(&AT_ONCE, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn answer_attributes(outcome: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match outcome {
        Ok(attributes) => reply.attr(&AT_ONCE, &attributes),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let there = |path: &Path| fs::symlink_metadata(path).map(|_| ());
        answer_entry(self.made(folder, name, there), reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer_attributes(self.names().attributes(number), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = || {
            let mut names = self.names();
            let path = names.path(number)?;
            if let Some(mode) = mode {
                fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?;
            }
            if user.is_some() || group.is_some() {
                unix::lchown(path, user, group)?;
            }
            if let Some(size) = size {
                File::options().write(true).open(path)?.set_len(size)?;
            }
            if let Some(mtime) = mtime {
                let at = match mtime {
                    TimeOrNow::SpecificTime(at) => at,
                    TimeOrNow::Now => SystemTime::now(),
                };
                set_time(path, at)?;
            }
            names.attributes(number)
        };
        answer_attributes(set(), reply);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let target = self.names().path(number).map(fs::read_link);
        match target {
            Ok(Ok(target)) => reply.data(target.as_os_str().as_encoded_bytes()),
            Ok(Err(error)) => reply.error(error.into()),
            Err(error) => reply.error(error),
        }
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
        let mode = mode & !umask & 0o7777;
        let make = |path: &Path| fs::DirBuilder::new().mode(mode).create(path);
        answer_entry(self.made(folder, name, make), reply);
    }

    fn symlink(
        &self,
        _: &Request,
        folder: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let make = |path: &Path| unix::symlink(target, path);
        answer_entry(self.made(folder, name, make), reply);
    }

    fn create(
        &self,
        _: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut file = None;
        let made = self.made(folder, name, |path| {
            let mut how = File::options();
            how.read(true).write(true).create(true);
            file = Some(how.mode(mode & !umask & 0o7777).open(path)?);
            Ok(())
        });
        match (made, file) {
            (Ok(attributes), Some(file)) => {
                let handle = self.names().opened(attributes.ino.0, file);
                let flags = FopenFlags::empty();
                reply.created(&AT_ONCE, &attributes, Generation(0), handle, flags);
            }
            (made, _) => reply.error(made.err().unwrap_or(Errno::EIO)),
        }
    }

    fn link(&self, _: &Request, number: INodeNo, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let from = self.names().path(number).map(Path::to_owned);
        let linked =
            from.and_then(|from| self.made(folder, name, |path| fs::hard_link(from, path)));
        answer_entry(linked, reply);
    }

    fn unlink(&self, _: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(
            self.removed(folder, name, |path| fs::remove_file(path)),
            reply,
        );
    }

    fn rmdir(&self, _: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(
            self.removed(folder, name, |path| fs::remove_dir(path)),
            reply,
        );
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
            let (from, to) = (self.within(from, name)?, self.within(to, new_name)?);
            let how = match flags.contains(RenameFlags::RENAME_NOREPLACE) {
                true => How::NOREPLACE,
                false => How::empty(),
            };
            rustix::fs::renameat_with(CWD, &from, CWD, &to, how).map_err(io::Error::from)?;
            self.names().rename(&from, &to);
            Ok(())
        };
        answer(renamed(), reply);
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let mut names = self.names();
        let how = |path: &Path| File::options().read(true).write(true).open(path);
        match names.path(number).map(how) {
            Ok(Ok(file)) => reply.opened(names.opened(number.0, file), FopenFlags::empty()),
            Ok(Err(error)) => reply.error(error.into()),
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
        self.names().open.remove(&handle.0);
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
            let file = self.file(handle)?;
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
            Ok::<_, Errno>(self.file(handle)?.write_all_at(data, offset)?)
        };
        match write() {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        answer(
            self.told.meet(|fault| matches!(fault, Fault::Closes)),
            reply,
        );
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.flush_file(handle), reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(
            self.told.meet(|fault| matches!(fault, Fault::Flushes)),
            reply,
        );
    }

    fn readdir(
        &self,
        _: &Request,
        folder: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut names = self.names();
        let list = || {
            let path = names.path(folder)?.to_owned();
            let mut found = vec![(folder.0, FileType::Directory, ".".into())];
            found.push((folder.0, FileType::Directory, "..".into()));
            let mut below = fs::read_dir(&path)?.collect::<io::Result<Vec<_>>>()?;
            below.sort_by_key(fs::DirEntry::file_name);
            for entry in below {
                let kind = FileType::from_std(entry.file_type()?).ok_or(Errno::EIO)?;
                found.push((names.number(&entry.path()), kind, entry.file_name()));
            }
            Ok::<_, Errno>(found)
        };
        let found = match { list }() {
            Ok(found) => found,
            Err(error) => return reply.error(error),
        };
        for (next, (number, kind, name)) in (1..).zip(found).skip(offset as usize) {
            if reply.add(INodeNo(number), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match rustix::fs::statvfs(self.names().paths[&ROOT].as_path()) {
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
            Err(error) => reply.error(io::Error::from(error).into()),
        }
    }
}

/// Sets the time of anything, also of a link.
fn set_time(path: &Path, at: SystemTime) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_symlink() {
        return File::open(path)?.set_times(FileTimes::new().set_modified(at));
    }
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let at = rustix::fs::Timespec {
        tv_sec: since.as_secs() as i64,
        tv_nsec: since.subsec_nanos().into(),
    };
    let times = rustix::fs::Timestamps {
        last_access: at,
        last_modification: at,
    };
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    Ok(rustix::fs::utimensat(CWD, path, &times, flags)?)
}
