//! The copies whose disk is recorded, and what their trees are.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::fs::{IFlags, XattrFlags};
use serde_json::{Value, json};

use super::MIB;
use super::ends::{Ends, content, job};
use super::recorder::Log;

/// The attribute that files of a mirror have.
const XATTR: &str = "user.version";
/// Between two flushes that another program asks for.
const FLUSHES_EACH: Duration = Duration::from_millis(2);
/// What each version of a mirror has that no other one has.
const GONE: usize = 900;
/// Files of a mirror that have several names, and how many.
const NAMED: usize = 6;
const NAMES: usize = 40;
/// Folders that have attributes.
const FOLDERS: usize = 600;
/// So much of what goes, of other names and of folders is flushed one by one where a mirror is flushed. Each of these
/// steps may as a whole take less time than one flush.
const AT_ONCE: usize = 20;

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    pub mtime: (i64, i64),
    pub xattr: Vec<u8>,
    pub digest: blake3::Hash,
    /// The first name of the same file.
    pub first: PathBuf,
}

impl Node {
    pub fn kind(&self) -> u32 {
        self.mode & libc::S_IFMT
    }

    pub fn is_file(&self) -> bool {
        self.kind() == libc::S_IFREG
    }

    /// Whether it has the same content.
    pub fn is_as(&self, other: &Self) -> bool {
        (self.kind(), self.digest) == (other.kind(), other.digest)
    }

    /// Whether it is given the same, whatever its content and names are.
    pub fn is_given_as(&self, other: &Self) -> bool {
        let given = |node: &Self| (node.mode, node.user, node.group, node.mtime);
        given(self) == given(other) && self.xattr == other.xattr
    }
}

/// Everything below a folder by its path.
pub type Tree = BTreeMap<PathBuf, Node>;

pub fn tree_of(root: &Path) -> Tree {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let entry = entry.unwrap();
            paths.push(entry.path());
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    paths.sort();
    let mut firsts = BTreeMap::new();
    let mut tree = Tree::new();
    for path in paths {
        let meta = fs::symlink_metadata(&path).unwrap();
        let relative = path.strip_prefix(root).unwrap().to_owned();
        let content = if meta.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        let mut xattr = [0; 64];
        let length = rustix::fs::lgetxattr(&path, XATTR, &mut xattr[..]).unwrap_or(0);
        let first = match meta.is_file() {
            true => firsts.entry(meta.ino()).or_insert(relative.clone()).clone(),
            false => relative.clone(),
        };
        let node = Node {
            mode: meta.mode(),
            user: meta.uid(),
            group: meta.gid(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            xattr: xattr[..length].to_vec(),
            digest: blake3::hash(&content),
            first,
        };
        tree.insert(relative, node);
    }
    tree
}

/// What a copy does beside copying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Plain,
    /// It makes a folder under a new name, which has to take in the same source again.
    Renames,
    /// It keeps all that can be kept, and removes what its source has not.
    Mirrors,
}

/// One copy into a target, and when it ran, in events of the log.
pub struct Copy {
    pub kind: Kind,
    pub source: PathBuf,
    pub target: &'static str,
    /// Whether the disk is flushed all the time beside it, and in the middle of each step of a mirror.
    pub flushed: bool,
    pub tree: Tree,
    pub begun: usize,
    pub ended: usize,
}

impl Copy {
    /// What it is asked for, of a disk that is mounted there.
    pub fn job(&self, root: &Path) -> Value {
        let target = root.join(self.target);
        let mut asked = match self.kind {
            Kind::Renames => job("push", &[&self.source], &target),
            _ => job("push", &[&self.source.join(".")], &target),
        };
        if self.kind == Kind::Mirrors {
            asked["delete"] = json!(true);
            asked["keep"] = json!({"hard_links": true, "owner": true, "group": true, "xattrs": true, "sparse": true});
        }
        asked
    }
}

/// Copies trees to a disk: each target again after its source has changed. Beside some of the copies another program
/// has the disk flushed all the time, so that many moments of theirs are in the log. Part of each step of a mirror is
/// flushed as it is done, so that its middle is in the log however short it is.
pub fn copied(base: &Path, root: &Path, log: &Log) -> Vec<Copy> {
    let plan = [
        (Kind::Plain, "one", false),
        (Kind::Plain, "two", false),
        (Kind::Plain, "one", false),
        (Kind::Renames, "new", true),
        (Kind::Mirrors, "mirror", false),
        (Kind::Mirrors, "mirror", true),
        (Kind::Mirrors, "mirror", false),
        (Kind::Mirrors, "mirror", true),
    ];
    let mut copies = Vec::new();
    for (version, (kind, target, flushed)) in plan.into_iter().enumerate() {
        let source = base.join(format!("source {version}"));
        match kind {
            Kind::Plain | Kind::Renames => write_tree(&source, version),
            Kind::Mirrors => write_mirror(&source, version),
        }
        let mut copy = Copy {
            kind,
            tree: tree_of(&source),
            source,
            target,
            flushed,
            begun: log.len(),
            ended: 0,
        };
        // Slow enough that the file system commits in between.
        let plan = json!({"streams": 2, "pacing_bps": 20_000_000});
        let run = || Ends::run_with(&copy.job(root), &plan).unwrap();
        let steps = match kind {
            Kind::Mirrors if flushed => folders_of_steps(&root.join(target), version - 1),
            _ => Vec::new(),
        };
        set_flushed(&steps, true);
        let outcome = match flushed {
            true => flushing(root, run),
            false => run(),
        };
        assert_eq!(outcome["left_out"], json!([]), "{target}");
        copy.ended = log.len();
        copies.push(copy);
        set_flushed(&steps, false);
    }
    copies
}

/// Does `work` while the disk is flushed again and again.
fn flushing<T>(root: &Path, work: impl FnOnce() -> T) -> T {
    /// Also where the work panics.
    struct SetAtTheEnd<'a>(&'a AtomicBool);
    impl Drop for SetAtTheEnd<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let root = File::open(root).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                rustix::fs::syncfs(&root).unwrap();
                thread::sleep(FLUSHES_EACH);
            }
        });
        let _done = SetAtTheEnd(&done);
        work()
    })
}

/// Where a mirror that has this version is flushed in each step that comes after the last byte, and what of it.
fn folders_of_steps(target: &Path, version: usize) -> Vec<(PathBuf, IFlags)> {
    let names = ["names".to_owned(), format!("gone {version}")];
    let names = names.map(|name| (target.join(name).join("at once"), IFlags::DIRSYNC));
    let folders = (0..FOLDERS).step_by(FOLDERS / AT_ONCE);
    let attributes = folders.map(|number| (target.join(format!("folders/{number}")), IFlags::SYNC));
    names.into_iter().chain(attributes).collect()
}

/// Has ext4 flush each change of the names in a folder, or of its extended attributes, before the call returns that
/// makes it; or no more.
fn set_flushed(folders: &[(PathBuf, IFlags)], on: bool) {
    for (path, flag) in folders {
        // What the mirror has removed has no flags.
        if !on && !path.exists() {
            continue;
        }
        let folder = File::open(path).unwrap();
        let mut flags = rustix::fs::ioctl_getflags(&folder).unwrap();
        flags.set(*flag, on);
        rustix::fs::ioctl_setflags(&folder, flags).unwrap();
    }
}

pub fn write_tree(root: &Path, version: usize) {
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    for number in 0..3 {
        let bytes = content(2 * MIB + 3 * version + number);
        fs::write(root.join(format!("big {number}")), bytes).unwrap();
    }
    for number in 0..40 {
        let bytes = content(number * 150 + version);
        fs::write(root.join(format!("sub/{number}")), bytes).unwrap();
    }
    fs::write(root.join("sub/deep/one"), content(300_000 + version)).unwrap();
    write_holed(&root.join("holed"), version);
}

/// A file with a hole before its data and one behind.
pub fn write_holed(path: &Path, version: usize) {
    let holed = File::create(path).unwrap();
    holed.set_len(2 * MIB as u64 + 5).unwrap();
    let data = content(9_000 + version);
    holed.write_all_at(&data, MIB as u64).unwrap();
}

/// A tree of which all can be kept; each version has files that the others have not, and owners of its own.
fn write_mirror(root: &Path, version: usize) {
    let id = 1000 + version as u32;
    fs::create_dir_all(root.join("names/at once")).unwrap();
    fs::create_dir_all(root.join(format!("gone {version}/at once"))).unwrap();
    fs::write(root.join("big"), content(2 * MIB + version)).unwrap();
    write_holed(&root.join("holed"), version);
    fs::write(root.join("program"), content(9_000 + version)).unwrap();
    chown(root.join("program"), Some(id), Some(id)).unwrap();
    fs::set_permissions(root.join("program"), Permissions::from_mode(0o4755)).unwrap();
    for number in 0..GONE {
        let folder = if number < AT_ONCE { "at once/" } else { "" };
        fs::write(root.join(format!("gone {version}/{folder}{number}")), b"").unwrap();
    }
    let named = |folder: &str, number: usize, names: usize| {
        let of = |name: usize| root.join(format!("names/{folder}{number} {name}"));
        fs::write(of(0), content(5_000 + 10 * number + version)).unwrap();
        for name in 1..names {
            fs::hard_link(of(0), of(name)).unwrap();
        }
    };
    named("at once/", NAMED, AT_ONCE);
    for number in 0..NAMED {
        named("", number, NAMES);
    }
    // What changes of these is not their content.
    for number in 0..10 {
        let path = root.join(format!("same {number}"));
        fs::write(&path, content(1_000 + number)).unwrap();
        chown(&path, Some(id), Some(id + 1)).unwrap();
        let mode = if version.is_multiple_of(2) {
            0o640
        } else {
            0o604
        };
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        set_version(&path, version);
        set_time(&path, 1_000_000_000);
    }
    for number in 0..FOLDERS {
        let path = root.join(format!("folders/{number}"));
        fs::create_dir_all(&path).unwrap();
        chown(&path, Some(id), Some(id)).unwrap();
        let modes = [0o755, 0o750, 0o700, 0o2770];
        let mode = modes[(number + version) % modes.len()];
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        if number.is_multiple_of(FOLDERS / AT_ONCE) {
            set_version(&path, version);
        }
        set_time(&path, 1_000_000_000 + version as u64);
    }
}

fn set_version(path: &Path, version: usize) {
    let value = format!("version {version}");
    rustix::fs::setxattr(path, XATTR, value.as_bytes(), XattrFlags::empty()).unwrap();
}

fn set_time(path: &Path, since_1970_s: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(since_1970_s);
    let times = FileTimes::new().set_modified(time);
    File::open(path).unwrap().set_times(times).unwrap();
}
