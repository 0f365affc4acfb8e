//! A disk that keeps a log of its writes and flushes, so that what a power cut leaves can be made of any
//! part of the log: one file in a FUSE file system of this process, for a loop device.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, WriteFlags,
};

/// The name of the disk in its file system.
pub const NAME: &str = "disk";
/// What a disk writes as one: all of it or nothing.
const SECTOR_BYTES: usize = 4096;
const DISK: INodeNo = INodeNo(2);
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// What happened to the disk.
pub enum Event {
    /// A sector came at an offset. Until the next flush the disk may forget it.
    Write(usize, Vec<u8>),
    /// All that came before is on stable storage.
    Flush,
}

/// The log so far.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    image: Vec<u8>,
    events: Vec<Event>,
}

impl Log {
    /// How many events there are.
    pub fn len(&self) -> usize {
        self.state().events.len()
    }

    /// How many of them are flushes.
    pub fn flushes(&self) -> usize {
        let events = &self.state().events;
        events
            .iter()
            .filter(|event| matches!(event, Event::Flush))
            .count()
    }

    /// All events.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.state().events)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Mounts the file system of a disk that holds `image` on `folder`.
pub fn mount(image: Vec<u8>, folder: &Path) -> io::Result<(Log, BackgroundSession)> {
    let log = Log::default();
    log.state().image = image;
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("howdah-recorder".to_owned())];
    let session = fuser::spawn_mount(Disk(log.clone()), folder, &config)?;
    Ok((log, session))
}

struct Disk(Log);

impl Disk {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let (kind, perm, size) = match inode {
            DISK => (
                FileType::RegularFile,
                0o600,
                self.0.state().image.len() as u64,
            ),
            _ => (FileType::Directory, 0o700, 0),
        };
        FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            let attributes = self.attributes(DISK);
            reply.entry(&FOR_EVER, &attributes, fuser::Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let state = self.0.state();
        let start = (offset as usize).min(state.image.len());
        let end = (start + size as usize).min(state.image.len());
        reply.data(&state.image[start..end]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let State { image, events } = &mut *self.0.state();
        let offset = offset as usize;
        match image.get_mut(offset..offset + data.len()) {
            Some(there) => {
                there.copy_from_slice(data);
                for (number, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                    let at = offset + number * SECTOR_BYTES;
                    events.push(Event::Write(at, sector.to_vec()));
                }
                reply.written(data.len() as u32);
            }
            None => reply.error(Errno::ENOSPC),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.0.state().events.push(Event::Flush);
        reply.ok();
    }
}
