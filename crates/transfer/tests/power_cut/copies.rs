//! The copies whose disk is recorded, and what their trees are.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::fs::XattrFlags;
use serde_json::{Value, json};

use super::MIB;
use super::ends::{Ends, content, job};
use super::recorder::Log;

/// The attribute that files of a mirror have.
const XATTR: &str = "user.version";
/// Between two flushes that another program asks for.
const FLUSHES_EACH: Duration = Duration::from_millis(2);
/// What each version of a mirror has that no other one has: so much that its removal outlasts some flushes.
const GONE: usize = 900;
/// Files of a mirror that have several names, and how many.
const NAMED: usize = 6;
const NAMES: usize = 40;
/// So many that giving them their attributes outlasts some flushes.
const FOLDERS: usize = 600;

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
            asked["keep"] =
                json!({"hard_links": true, "owner": true, "group": true, "xattrs": true});
        }
        asked
    }
}

/// Copies trees to a disk: each target again after its source has changed. Beside some of the copies another program
/// has the disk flushed all the time, so that many moments of theirs are in the log.
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
    for (version, (kind, target, flushes)) in plan.into_iter().enumerate() {
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
            begun: log.len(),
            ended: 0,
        };
        // Slow enough that the file system commits in between.
        let plan = json!({"streams": 2, "pacing_bps": 20_000_000});
        let run = || Ends::run_with(&copy.job(root), &plan).unwrap();
        let outcome = match flushes {
            true => flushing(root, run),
            false => run(),
        };
        assert_eq!(outcome["left_out"], json!([]), "{target}");
        copy.ended = log.len();
        copies.push(copy);
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
}

/// A tree of which all can be kept; each version has files that the others have not, and owners of its own.
fn write_mirror(root: &Path, version: usize) {
    let id = 1000 + version as u32;
    fs::create_dir_all(root.join("names")).unwrap();
    fs::create_dir(root.join(format!("gone {version}"))).unwrap();
    fs::write(root.join("big"), content(2 * MIB + version)).unwrap();
    fs::write(root.join("program"), content(9_000 + version)).unwrap();
    chown(root.join("program"), Some(id), Some(id)).unwrap();
    fs::set_permissions(root.join("program"), Permissions::from_mode(0o4755)).unwrap();
    for number in 0..GONE {
        fs::write(root.join(format!("gone {version}/{number}")), b"").unwrap();
    }
    for number in 0..NAMED {
        let first = root.join(format!("names/{number} 0"));
        fs::write(&first, content(5_000 + 10 * number + version)).unwrap();
        for name in 1..NAMES {
            fs::hard_link(&first, root.join(format!("names/{number} {name}"))).unwrap();
        }
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
        let value = format!("version {version}");
        rustix::fs::setxattr(&path, XATTR, value.as_bytes(), XattrFlags::empty()).unwrap();
        set_time(&path, 1_000_000_000);
    }
    for number in 0..FOLDERS {
        let path = root.join(format!("folders/{number}"));
        fs::create_dir_all(&path).unwrap();
        chown(&path, Some(id), Some(id)).unwrap();
        let modes = [0o755, 0o750, 0o700, 0o2770];
        let mode = modes[(number + version) % modes.len()];
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        set_time(&path, 1_000_000_000 + version as u64);
    }
}

fn set_time(path: &Path, since_1970_s: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(since_1970_s);
    let times = FileTimes::new().set_modified(time);
    File::open(path).unwrap().set_times(times).unwrap();
}
