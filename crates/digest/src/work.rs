//! What is left to hash, for threads that take it as they are free: files in the order of their list, and the
//! slices of large ones before the next file.

use std::collections::VecDeque;
use std::io::BufRead;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use blake3::hazmat::ChainingValue;

use crate::disk::{DiskFile, Unread};
use crate::manifest::{Entry, Manifest, ManifestError};
use crate::slices::SLICE_BYTES;

/// A file of more than one slice.
pub struct Large {
    /// What the list says of it.
    pub entry: Entry,
    /// The file, open.
    pub file: DiskFile,
    /// What has come of its slices.
    pub slices: Mutex<Slices>,
}

/// The slices of a [`Large`] file.
pub struct Slices {
    /// Their values; those not hashed yet are zeros.
    pub values: Vec<ChainingValue>,
    /// How many are left.
    pub left: usize,
    /// Why the file cannot be read.
    pub unread: Option<Unread>,
}

impl Large {
    /// A file of which nothing is hashed.
    pub fn new(entry: Entry, file: DiskFile) -> Arc<Self> {
        let count = usize::try_from(file.size().div_ceil(SLICE_BYTES)).unwrap_or(usize::MAX);
        let slices = Slices {
            values: vec![[0; 32]; count],
            left: count,
            unread: None,
        };
        Arc::new(Self {
            entry,
            file,
            slices: Mutex::new(slices),
        })
    }
}

/// What one thread does next.
pub enum Task {
    /// Open this file. Whoever takes it must say [`Work::opened`].
    Open(Entry),
    /// Hash the slice of this number.
    Slice(Arc<Large>, usize),
}

/// What is left.
pub struct Work<R> {
    state: Mutex<State<R>>,
    changed: Condvar,
}

struct State<R> {
    manifest: Option<Manifest<R>>,
    /// Large files, and the next slice of each.
    large: VecDeque<(Arc<Large>, usize)>,
    /// Files that are being opened, and may be large.
    opening: usize,
    files: u64,
}

impl<R: BufRead> Work<R> {
    /// All files of a list.
    pub fn new(manifest: Manifest<R>) -> Self {
        Self {
            state: Mutex::new(State {
                manifest: Some(manifest),
                large: VecDeque::new(),
                opening: 0,
                files: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// The next task; `None` when there are no more.
    ///
    /// # Errors
    /// When the list cannot be read. There are no more files then.
    pub fn next(&self) -> Result<Option<Task>, ManifestError> {
        let mut state = self.lock();
        loop {
            if let Some((large, slice)) = state.large.pop_front() {
                if slice + 1 < lock(&large.slices).values.len() {
                    state.large.push_front((Arc::clone(&large), slice + 1));
                }
                return Ok(Some(Task::Slice(large, slice)));
            }
            if let Some(manifest) = &mut state.manifest {
                let next = manifest.next_entry();
                if let Ok(Some(entry)) = next {
                    state.opening += 1;
                    state.files += 1;
                    return Ok(Some(Task::Open(entry)));
                }
                state.manifest = None;
                self.changed.notify_all();
                next?;
            }
            if state.opening == 0 {
                return Ok(None);
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A file has been opened; its slices are tasks if it is large.
    pub fn opened(&self, large: Option<Arc<Large>>) {
        let mut state = self.lock();
        state.opening -= 1;
        state.large.extend(large.map(|large| (large, 0)));
        self.changed.notify_all();
    }

    /// Files of the list so far.
    pub fn files(&self) -> u64 {
        self.lock().files
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        lock(&self.state)
    }
}

/// The lock of a mutex whose holders leave nothing half done.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
