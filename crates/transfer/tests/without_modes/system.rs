//! A file system in memory that keeps no modes, as FAT: what is in it shows one mode, and a change of it is refused.
//! It can refuse times as well, or take names for one that differ only in case or in the form of `é`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};

/// The mode that all has.
pub const MODE: u16 = 0o755;
const ROOT: u64 = 1;
/// Nothing is remembered by the kernel, so each look is one here.
const AT_ONCE: Duration = Duration::ZERO;
const BLOCK_BYTES: u32 = 4096;
/// What a flush of a file takes, as on a disk.
const FLUSH: Duration = Duration::from_millis(20);

/// What it lacks beside modes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lacks {
    Nothing,
    Times,
    /// It takes several names for one. What has one of them keeps it when it is replaced by another.
    OwnNames,
    /// The same, and all names are stored in upper case.
    LowerCase,
}

/// Mounts an empty one on `folder`.
pub fn mount(folder: &Path, lacks: Lacks) -> io::Result<(BackgroundSession, Told)> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("howdah-without-modes".to_owned())];
    let root = Node::new(Kind::Folder(Names::new(lacks)));
    let nodes = Arc::new(Mutex::new(BTreeMap::from([(ROOT, root)])));
    let system = System {
        lacks,
        nodes: Arc::clone(&nodes),
    };
    fuser::spawn_mount(system, folder, &config).map(|session| (session, Told(nodes)))
}

struct System {
    lacks: Lacks,
    nodes: Arc<Mutex<Nodes>>,
}

/// What it was told to flush.
pub struct Told(Arc<Mutex<Nodes>>);

impl Told {
    /// Names of files and folders that were changed after their last flush, and of files that were renamed before one.
    pub fn unflushed(&self) -> Vec<OsString> {
        let nodes = self.0.lock().unwrap();
        let folders = nodes.values().filter_map(|node| match &node.kind {
            Kind::Folder(names) => Some(&names.all),
            _ => None,
        });
        let is_unflushed = |number: &u64| {
            let node = &nodes[number];
            !matches!(node.kind, Kind::Link(_)) && (!node.flushed || node.named_early)
        };
        let named = folders.flatten().filter(|(_, number)| is_unflushed(number));
        let root = (!nodes[&ROOT].flushed).then(|| OsString::from("/"));
        named.map(|(name, _)| name.clone()).chain(root).collect()
    }

    /// Has all files be as another program has written them just now.
    pub fn forget_flushes_of_files(&self) {
        for node in self.0.lock().unwrap().values_mut() {
            node.flushed &= !matches!(node.kind, Kind::File(_));
        }
    }
}

struct Node {
    kind: Kind,
    mtime: SystemTime,
    names: u32,
    /// Whether nothing has changed since the last flush.
    flushed: bool,
    /// Whether it had another name before, and got its own unflushed.
    named_early: bool,
}

enum Kind {
    File(Vec<u8>),
    Folder(Names),
    Link(PathBuf),
}

struct Names {
    lacks: Lacks,
    all: BTreeMap<OsString, u64>,
}

impl Names {
    fn new(lacks: Lacks) -> Self {
        let all = BTreeMap::new();
        Self { lacks, all }
    }

    /// The name that is there and is one with `name`; else `name`, as it is stored.
    fn stored(&self, name: &OsStr) -> OsString {
        let folded = |name: &OsStr| {
            let lower = name.to_string_lossy().to_lowercase();
            lower.replace('\u{e9}', "e\u{301}")
        };
        match self.lacks {
            Lacks::Nothing | Lacks::Times => name.to_owned(),
            Lacks::OwnNames | Lacks::LowerCase => {
                let same = |there: &&OsString| folded(there) == folded(name);
                let new = match self.lacks {
                    Lacks::LowerCase => name.to_ascii_uppercase(),
                    _ => name.to_owned(),
                };
                self.all.keys().find(same).cloned().unwrap_or(new)
            }
        }
    }

    fn get(&self, name: &OsStr) -> Option<u64> {
        self.all.get(&self.stored(name)).copied()
    }

    fn insert(&mut self, name: &OsStr, number: u64) -> Option<u64> {
        self.all.insert(self.stored(name), number)
    }

    fn remove(&mut self, name: &OsStr) -> Option<u64> {
        self.all.remove(&self.stored(name))
    }
}

impl Node {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            mtime: SystemTime::now(),
            names: 1,
            flushed: false,
            named_early: false,
        }
    }

    fn file_type(&self) -> FileType {
        match self.kind {
            Kind::File(_) => FileType::RegularFile,
            Kind::Folder(_) => FileType::Directory,
            Kind::Link(_) => FileType::Symlink,
        }
    }

    fn attributes(&self, number: u64) -> FileAttr {
        let size = match &self.kind {
            Kind::File(bytes) => bytes.len() as u64,
            Kind::Folder(_) => 0,
            Kind::Link(target) => target.as_os_str().len() as u64,
        };
        FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: self.mtime,
            mtime: self.mtime,
            ctime: self.mtime,
            crtime: self.mtime,
            kind: self.file_type(),
            perm: MODE,
            nlink: self.names,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        }
    }

    fn names_in(&mut self) -> Result<&mut Names, Errno> {
        match &mut self.kind {
            Kind::Folder(names) => Ok(names),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn bytes(&mut self) -> Result<&mut Vec<u8>, Errno> {
        match &mut self.kind {
            Kind::File(bytes) => Ok(bytes),
            _ => Err(Errno::EISDIR),
        }
    }
}

type Nodes = BTreeMap<u64, Node>;

fn node(nodes: &mut Nodes, number: INodeNo) -> Result<&mut Node, Errno> {
    nodes.get_mut(&number.0).ok_or(Errno::ENOENT)
}

fn named(nodes: &mut Nodes, folder: INodeNo, name: &OsStr) -> Result<u64, Errno> {
    let names = node(nodes, folder)?.names_in()?;
    names.get(name).ok_or(Errno::ENOENT)
}

/// Gives a name in a folder, and takes it from what had it.
fn give_name(nodes: &mut Nodes, folder: INodeNo, name: &OsStr, number: u64) -> Result<(), Errno> {
    let folder = node(nodes, folder)?;
    folder.mtime = SystemTime::now();
    folder.flushed = false;
    let before = folder.names_in()?.insert(name, number);
    before.into_iter().for_each(|before| forget(nodes, before));
    Ok(())
}

fn take_name(nodes: &mut Nodes, folder: INodeNo, name: &OsStr) -> Result<u64, Errno> {
    let folder = node(nodes, folder)?;
    folder.mtime = SystemTime::now();
    folder.flushed = false;
    folder.names_in()?.remove(name).ok_or(Errno::ENOENT)
}

/// Takes a name away. What is open stays until the end, which is near.
fn forget(nodes: &mut Nodes, number: u64) {
    if let Some(node) = nodes.get_mut(&number) {
        node.names -= 1;
    }
}

impl System {
    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_flush(&self, number: INodeNo, reply: ReplyEmpty) {
        let flushed = node(&mut self.nodes(), number).map(|node| node.flushed = true);
        answer(flushed, reply);
    }

    fn make(&self, folder: INodeNo, name: &OsStr, kind: Kind) -> Result<FileAttr, Errno> {
        let mut nodes = self.nodes();
        if named(&mut nodes, folder, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        let number = nodes.keys().next_back().map_or(ROOT, |last| last + 1);
        nodes.insert(number, Node::new(kind));
        give_name(&mut nodes, folder, name, number)?;
        Ok(nodes[&number].attributes(number))
    }

    fn make_and_reply(&self, folder: INodeNo, name: &OsStr, kind: Kind, reply: ReplyEntry) {
        match self.make(folder, name, kind) {
            Ok(attributes) => reply.entry(&AT_ONCE, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }
}

fn answer(outcome: Result<(), Errno>, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for System {
    fn lookup(&self, _: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut nodes = self.nodes();
        match named(&mut nodes, folder, name) {
            Ok(number) => {
                let attributes = nodes[&number].attributes(number);
                reply.entry(&AT_ONCE, &attributes, Generation(0));
            }
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match node(&mut self.nodes(), number) {
            Ok(node) => reply.attr(&AT_ONCE, &node.attributes(number.0)),
            Err(error) => reply.error(error),
        }
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
        let no_times = self.lacks == Lacks::Times;
        let refuses_time = mtime.is_some() && size.is_none() && no_times;
        if mode.is_some() || user.is_some() || group.is_some() || refuses_time {
            return reply.error(Errno::EPERM);
        }
        let mut nodes = self.nodes();
        let changed = node(&mut nodes, number).and_then(|node| {
            if let Some(size) = size {
                node.bytes()?.resize(size as usize, 0);
                node.mtime = SystemTime::now();
                node.flushed = false;
            }
            match mtime {
                Some(TimeOrNow::SpecificTime(at)) if !no_times => node.mtime = at,
                Some(_) => node.mtime = SystemTime::now(),
                None => {}
            }
            Ok(node.attributes(number.0))
        });
        match changed {
            Ok(attributes) => reply.attr(&AT_ONCE, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.nodes().get(&number.0).map(|node| &node.kind) {
            Some(Kind::Link(target)) => reply.data(target.as_os_str().as_encoded_bytes()),
            _ => reply.error(Errno::EINVAL),
        }
    }

    fn mkdir(&self, _: &Request, folder: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        self.make_and_reply(folder, name, Kind::Folder(Names::new(self.lacks)), reply);
    }

    fn symlink(
        &self,
        _: &Request,
        folder: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.make_and_reply(folder, name, Kind::Link(target.to_owned()), reply);
    }

    fn create(
        &self,
        _: &Request,
        folder: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.make(folder, name, Kind::File(Vec::new())) {
            Ok(attributes) => reply.created(
                &AT_ONCE,
                &attributes,
                Generation(0),
                FileHandle(0),
                FopenFlags::empty(),
            ),
            Err(error) => reply.error(error),
        }
    }

    fn link(&self, _: &Request, number: INodeNo, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut nodes = self.nodes();
        let linked = match named(&mut nodes, folder, name) {
            Ok(_) => Err(Errno::EEXIST),
            Err(_) => give_name(&mut nodes, folder, name, number.0),
        };
        let linked = linked.and_then(|()| {
            let node = node(&mut nodes, number)?;
            node.names += 1;
            Ok(node.attributes(number.0))
        });
        match linked {
            Ok(attributes) => reply.entry(&AT_ONCE, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut nodes = self.nodes();
        let taken = take_name(&mut nodes, folder, name);
        answer(taken.map(|number| forget(&mut nodes, number)), reply);
    }

    fn rmdir(&self, _: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut nodes = self.nodes();
        let taken = take_name(&mut nodes, folder, name);
        answer(taken.map(|number| forget(&mut nodes, number)), reply);
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
        let mut nodes = self.nodes();
        let taken = named(&mut nodes, to, new_name).is_ok();
        if taken && flags.contains(RenameFlags::RENAME_NOREPLACE) {
            return reply.error(Errno::EEXIST);
        }
        let renamed = take_name(&mut nodes, from, name).and_then(|number| {
            let node = node(&mut nodes, INodeNo(number))?;
            node.named_early = !node.flushed;
            give_name(&mut nodes, to, new_name, number)
        });
        answer(renamed, reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match node(&mut self.nodes(), number).and_then(Node::bytes) {
            Ok(bytes) => {
                let start = (offset as usize).min(bytes.len());
                let end = (start + size as usize).min(bytes.len());
                reply.data(&bytes[start..end]);
            }
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut nodes = self.nodes();
        let written = node(&mut nodes, number).and_then(|node| {
            node.mtime = SystemTime::now();
            let bytes = node.bytes()?;
            let (start, end) = (offset as usize, offset as usize + data.len());
            bytes.resize(bytes.len().max(end), 0);
            bytes[start..end].copy_from_slice(data);
            Ok(())
        });
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        thread::sleep(FLUSH);
        self.note_flush(number, reply);
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.note_flush(number, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        folder: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut nodes = self.nodes();
        let names = match node(&mut nodes, folder).and_then(Node::names_in) {
            Ok(names) => names.all.clone(),
            Err(error) => return reply.error(error),
        };
        let dots = [(".", folder.0), ("..", folder.0)];
        let dots = dots.map(|(name, number)| (OsString::from(name), number));
        let entries = dots.into_iter().chain(names);
        for (next, (name, number)) in (1..).zip(entries).skip(offset as usize) {
            let kind = nodes[&number].file_type();
            if reply.add(INodeNo(number), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = (1 << 30) / u64::from(BLOCK_BYTES);
        reply.statfs(blocks, blocks, blocks, 0, 0, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}
