//! Files checked against a list, by many threads.

use std::fs::File;
use std::io::BufRead;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use blake3::hazmat::HasherExt;
use serde::Serialize;

use crate::algorithm::{Algorithm, Hasher};
use crate::disk::{Buffer, DiskFile, Unread};
use crate::extra::{Names, walk};
use crate::manifest::{Entry, Manifest};
use crate::slices::{self, SLICE_BYTES};
use crate::work::{Large, Task, Work, lock};

/// Threads a core: while some wait for the disk the others hash.
const THREADS_PER_CORE: usize = 2;
/// The most threads; each has a buffer and a file open.
const MAX_THREADS: usize = 64;
/// Between two events that say how far it is.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The folder that names are relative to. A file, if the list names one alone.
    pub root: &'a Path,
    /// Of which algorithm the list is.
    pub algorithm: Algorithm,
    /// How many files it names.
    pub files: u64,
    /// Another digest to make of each file that agrees, of the same read.
    pub also: Option<Algorithm>,
    /// Whether files below the root that the list does not name are found.
    pub extra: bool,
}

/// What happens, in the order in which it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// How far it is.
    Progress(Summary),
    /// A file that does not agree.
    Finding(Finding),
    /// The other digest of a file that agrees.
    Digest {
        /// Its name.
        name: Vec<u8>,
        /// The digest.
        digest: Vec<u8>,
    },
}

/// A file that does not agree with the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its name, relative to the root.
    pub name: Vec<u8>,
    /// In what it does not.
    pub what: What,
    /// Why, where it could not be read.
    pub why: Option<String>,
}

/// How a file does not agree with a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Its content is another.
    Differs,
    /// It is not there.
    Missing,
    /// It cannot be read.
    Unreadable,
    /// The list does not name it.
    Extra,
}

/// What was checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Files of the list, whatever came of them.
    pub files: u64,
    /// Bytes that were read and hashed.
    pub bytes: u64,
    /// Files that were read past the page cache.
    pub direct: u64,
    /// Files that do not agree.
    pub differs: u64,
    /// Files that are not there.
    pub missing: u64,
    /// Files, and with `extra` folders, that cannot be read.
    pub unreadable: u64,
    /// Files that the list does not name; zero where they were not looked for.
    pub extra: u64,
}

/// Checks the files of a list. `happened` is called by many threads, and ends the work with false.
///
/// # Errors
/// In one line, when the root or the list cannot be read.
pub fn check<R: BufRead + Send>(
    asked: &Asked<'_>,
    manifest: R,
    happened: &(dyn Fn(Event) -> bool + Sync),
) -> Result<Summary, String> {
    let root = Root::open(asked)?;
    let checking = Checking {
        asked,
        root,
        work: Work::new(Manifest::new(manifest, asked.algorithm)),
        names: Mutex::default(),
        stop: AtomicBool::new(false),
        over: AtomicBool::new(false),
        failed: Mutex::default(),
        counts: Counts::default(),
        happened,
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = (cores * THREADS_PER_CORE).min(MAX_THREADS);
    thread::scope(|scope| {
        let watch = scope.spawn(|| checking.tell_progress());
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| checking.take_tasks()))
            .collect();
        for worker in workers {
            if worker.join().is_err() {
                checking.fail("internal error; please report it".to_owned());
            }
        }
        checking.find_extra();
        checking.over.store(true, Ordering::Relaxed);
        watch.thread().unpark();
    });
    if let Some(why) = lock(&checking.failed).take() {
        return Err(why);
    }
    let files = checking.work.files();
    if !checking.stop.load(Ordering::Relaxed) && files != asked.files {
        return Err(format!(
            "the list changed while it was read: it named {} files and has {files}",
            asked.files
        ));
    }
    Ok(checking.counts.summary())
}

/// Where files are.
enum Root {
    Folder(OwnedFd),
    /// The only file of the list, whatever that calls it.
    File(Vec<u8>),
}

impl Root {
    fn open(asked: &Asked<'_>) -> Result<Self, String> {
        use std::os::unix::ffi::OsStrExt;
        let shown = howdah_wire::printable(asked.root.as_os_str().as_bytes());
        let failed = |error: std::io::Error| {
            let text = error.to_string();
            let why = text.split(" (os error").next().unwrap_or_default();
            format!("cannot read {shown}: {why}")
        };
        let is_folder = asked.root.metadata().map_err(failed)?.is_dir();
        if is_folder {
            return Ok(Self::Folder(File::open(asked.root).map_err(failed)?.into()));
        }
        if asked.files != 1 || asked.extra {
            return Err(format!(
                "{shown} is no folder; give the folder that the {} names of the list are relative to",
                asked.files
            ));
        }
        Ok(Self::File(asked.root.as_os_str().as_bytes().to_vec()))
    }

    fn place<'a>(&'a self, name: &'a [u8]) -> (BorrowedFd<'a>, &'a [u8]) {
        match self {
            Self::Folder(folder) => (folder.as_fd(), name),
            Self::File(path) => (rustix::fs::CWD, path),
        }
    }
}

#[derive(Default)]
struct Counts {
    files: AtomicU64,
    bytes: AtomicU64,
    direct: AtomicU64,
    differs: AtomicU64,
    missing: AtomicU64,
    unreadable: AtomicU64,
    extra: AtomicU64,
}

impl Counts {
    fn of(&self, what: What) -> &AtomicU64 {
        match what {
            What::Differs => &self.differs,
            What::Missing => &self.missing,
            What::Unreadable => &self.unreadable,
            What::Extra => &self.extra,
        }
    }

    fn summary(&self) -> Summary {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Summary {
            files: now(&self.files),
            bytes: now(&self.bytes),
            direct: now(&self.direct),
            differs: now(&self.differs),
            missing: now(&self.missing),
            unreadable: now(&self.unreadable),
            extra: now(&self.extra),
        }
    }
}

struct Checking<'a, R> {
    asked: &'a Asked<'a>,
    root: Root,
    work: Work<R>,
    names: Mutex<Names>,
    stop: AtomicBool,
    over: AtomicBool,
    failed: Mutex<Option<String>>,
    counts: Counts,
    happened: &'a (dyn Fn(Event) -> bool + Sync),
}

impl<R: BufRead> Checking<'_, R> {
    fn take_tasks(&self) {
        let mut buffer = Buffer::new();
        while !self.stopping() {
            match self.work.next() {
                Ok(Some(Task::Open(entry))) => self.open(entry, &mut buffer),
                Ok(Some(Task::Slice(large, slice))) => self.hash_slice(&large, slice, &mut buffer),
                Ok(None) => return,
                Err(error) => return self.fail(format!("the list: {error}")),
            }
        }
    }

    fn open(&self, entry: Entry, buffer: &mut Buffer) {
        if self.asked.extra {
            lock(&self.names).add(&entry.name);
        }
        let (folder, name) = self.root.place(&entry.name);
        let opened = DiskFile::open(folder, name);
        let sliced = self.asked.algorithm == Algorithm::Blake3 && self.asked.also.is_none();
        match opened {
            Ok(file) if sliced && file.size() > SLICE_BYTES => {
                self.work.opened(Some(Large::new(entry, file)));
            }
            opened => {
                self.work.opened(None);
                let hashed = opened.and_then(|file| self.hash(&file, buffer));
                self.judge(&entry, hashed);
            }
        }
    }

    /// The digests of a file that one thread reads.
    fn hash(&self, file: &DiskFile, buffer: &mut Buffer) -> Result<Hashed, Unread> {
        let mut hasher = Hasher::new(self.asked.algorithm);
        let mut other = self.asked.also.map(Hasher::new);
        file.read(0, file.size(), buffer, |bytes| {
            hasher.update(bytes);
            if let Some(other) = &mut other {
                other.update(bytes);
            }
            self.go_on(bytes)
        })?;
        Ok(Hashed {
            digest: hasher.finish(),
            also: other.map(Hasher::finish),
            direct: file.direct(),
        })
    }

    fn hash_slice(&self, large: &Large, slice: usize, buffer: &mut Buffer) {
        let offset = slice as u64 * SLICE_BYTES;
        let end = (offset + SLICE_BYTES).min(large.file.size());
        let mut hasher = slices::hasher(offset);
        let outcome = large.file.read(offset, end, buffer, |bytes| {
            hasher.update(bytes);
            self.go_on(bytes)
        });
        let mut slices = lock(&large.slices);
        slices.left -= 1;
        match outcome {
            Ok(()) => slices.values[slice] = hasher.finalize_non_root(),
            Err(unread) => slices.unread = Some(unread),
        }
        if slices.left == 0 {
            let hashed = slices.unread.take().map_or_else(
                || {
                    Ok(Hashed {
                        digest: slices::digest(&slices.values, large.file.size()).to_vec(),
                        also: None,
                        direct: large.file.direct(),
                    })
                },
                Err,
            );
            drop(slices);
            self.judge(&large.entry, hashed);
        }
    }

    fn judge(&self, entry: &Entry, hashed: Result<Hashed, Unread>) {
        if self.stopping() {
            return;
        }
        self.counts.files.fetch_add(1, Ordering::Relaxed);
        let name = entry.name.clone();
        match hashed {
            Err(unread) => self.found(name, unread),
            Ok(hashed) => {
                self.counts
                    .direct
                    .fetch_add(u64::from(hashed.direct), Ordering::Relaxed);
                if hashed.digest != entry.digest {
                    self.tell_finding(name, What::Differs, None);
                } else if let Some(digest) = hashed.also {
                    self.tell(Event::Digest { name, digest });
                }
            }
        }
    }

    fn find_extra(&self) {
        let Root::Folder(folder) = &self.root else {
            return;
        };
        if !self.asked.extra || self.stopping() {
            return;
        }
        walk(folder.as_fd(), &lock(&self.names), |name, unread| {
            match unread {
                Some(unread) => self.found(name, unread),
                None => self.tell_finding(name, What::Extra, None),
            }
            !self.stopping()
        });
    }

    fn found(&self, name: Vec<u8>, unread: Unread) {
        match unread {
            Unread::Missing => self.tell_finding(name, What::Missing, None),
            Unread::Because(why) => self.tell_finding(name, What::Unreadable, Some(why)),
        }
    }

    fn tell_finding(&self, name: Vec<u8>, what: What, why: Option<String>) {
        self.counts.of(what).fetch_add(1, Ordering::Relaxed);
        self.tell(Event::Finding(Finding { name, what, why }));
    }

    fn tell_progress(&self) {
        while !self.over.load(Ordering::Relaxed) {
            self.tell(Event::Progress(self.counts.summary()));
            thread::park_timeout(PROGRESS_EVERY);
        }
    }

    fn tell(&self, event: Event) {
        if !(self.happened)(event) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn go_on(&self, bytes: &[u8]) -> bool {
        self.counts
            .bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        !self.stopping()
    }

    fn fail(&self, why: String) {
        lock(&self.failed).get_or_insert(why);
        self.stop.store(true, Ordering::Relaxed);
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What came of one file.
struct Hashed {
    digest: Vec<u8>,
    also: Option<Vec<u8>>,
    direct: bool,
}
