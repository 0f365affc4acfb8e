//! Gives complete files their names, in batches: one flush serves all files of a batch.
//!
//! Streams hand over what they have completed and go on. While one batch is flushed the next one
//! gathers, so a slow disk makes batches larger. A full queue holds the streams back.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_wire::{Checksum, Doing, FilePiece};
use rustix::process::{Resource, getrlimit};

use crate::end::abort::lock;
use crate::end::spent;
use crate::error::TransferError;
use crate::tree::draft::Draft;
use crate::tree::durable::finish_writing;

/// Most files of a batch. Each is an open descriptor, and another batch may be in the queue.
const MAX_FILES: usize = 256;
/// Most bytes of files that came whole and wait for the next batch: they would all come again if this end
/// were killed.
const MAX_BYTES: u64 = 32 << 20;
/// A batch takes at most this part of the descriptors that the process may have.
const PART_OF_DESCRIPTORS: usize = 8;
/// The longest that a wait does not look at the stop flag.
const GLANCE: Duration = Duration::from_millis(50);

/// A file that is complete and verified, and has no name yet.
#[derive(Debug)]
pub struct Complete {
    /// What was written of it; its attributes are set.
    pub draft: Arc<Draft>,
    /// One of its pieces.
    pub piece: FilePiece,
    /// Its digest.
    pub blake3: Checksum,
}

impl Complete {
    /// What would have to come again if this end were killed now: all of a file that came whole.
    fn at_risk_bytes(&self) -> u64 {
        if self.piece.is_whole() {
            self.piece.size
        } else {
            0
        }
    }
}

/// The queue of complete files, and the thread that names them.
#[derive(Debug)]
pub struct Committer {
    sync: bool,
    state: Mutex<State>,
    changed: Condvar,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Complete>,
    /// What of them would have to come again.
    bytes: u64,
    /// A batch is being flushed and named.
    busy: bool,
    /// No more files come.
    closed: bool,
    /// Why the thread has ended before all were named.
    failed: Option<TransferError>,
}

impl State {
    fn is_full(&self, most: usize) -> bool {
        self.waiting.len() >= most || self.bytes >= MAX_BYTES
    }
}

impl Committer {
    /// A committer with nothing to name; it flushes each file before, if `sync` says so.
    pub fn new(sync: bool) -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        Self {
            sync,
            state: Mutex::default(),
            changed: Condvar::new(),
            most: (descriptors / PART_OF_DESCRIPTORS).clamp(1, MAX_FILES),
        }
    }

    /// Hands a file over; waits while too many are waiting.
    ///
    /// # Errors
    /// [`TransferError::Cancelled`] when `stop` says so, and why the thread has failed.
    pub fn hand_over(&self, file: Complete, stop: impl Fn() -> bool) -> Result<(), TransferError> {
        let mut state = lock(&self.state);
        while state.is_full(self.most) && state.failed.is_none() {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            state = self.wait(state);
        }
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        state.bytes += file.at_risk_bytes();
        state.waiting.push(file);
        self.changed.notify_all();
        Ok(())
    }

    /// The work of the thread: flushes and names batches until [`Self::finish`] has been called and
    /// all is done. `named` takes each file that has its name. When this end stops, what is waiting
    /// is still named, because it is complete.
    ///
    /// # Errors
    /// When a file cannot be flushed or named.
    pub fn run(
        &self,
        stop: impl Fn() -> bool,
        mut named: impl FnMut(Complete) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let outcome = self.name_batches(stop, &mut named);
        let mut state = lock(&self.state);
        state.busy = false;
        state.failed = outcome.as_ref().err().cloned();
        state.waiting.clear();
        self.changed.notify_all();
        outcome
    }

    fn name_batches(
        &self,
        stop: impl Fn() -> bool,
        named: &mut impl FnMut(Complete) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        while let Some(batch) = self.next_batch(&stop) {
            let drafts: Vec<&Draft> = batch.iter().map(|file| &*file.draft).collect();
            let stay = spent::doing(Doing::Flush);
            finish_writing(&drafts, self.sync)?;
            stay.then(Doing::Naming);
            for file in batch {
                file.draft.give_name()?;
                named(file)?;
            }
        }
        Ok(())
    }

    /// What is waiting, once something is; `None` when nothing more comes.
    fn next_batch(&self, stop: impl Fn() -> bool) -> Option<Vec<Complete>> {
        let mut state = lock(&self.state);
        state.busy = false;
        self.changed.notify_all();
        let _waiting = spent::doing(Doing::Waiting);
        while state.waiting.is_empty() {
            if state.closed || stop() {
                return None;
            }
            state = self.wait(state);
        }
        state.busy = true;
        let batch = std::mem::take(&mut state.waiting);
        state.bytes = 0;
        self.changed.notify_all();
        Some(batch)
    }

    /// Whether files are waiting or being flushed.
    pub fn busy(&self) -> bool {
        let state = lock(&self.state);
        state.busy || !state.waiting.is_empty()
    }

    /// Waits until all files that were handed over have their names.
    ///
    /// # Errors
    /// [`TransferError::Cancelled`] when `stop` says so, and why the thread has failed.
    pub fn finish(&self, stop: impl Fn() -> bool) -> Result<(), TransferError> {
        let mut state = lock(&self.state);
        state.closed = true;
        self.changed.notify_all();
        while state.failed.is_none() && (state.busy || !state.waiting.is_empty()) {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            state = self.wait(state);
        }
        state.failed.clone().map_or(Ok(()), Err)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, GLANCE);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::place::Placement;
    use crate::tree::target::Target;
    use howdah_wire::{Attributes, TreePath};

    #[test]
    fn files_that_would_come_again_wait_in_small_batches_and_others_do_not() {
        let base = tempfile::tempdir().unwrap();
        let placement = Placement::new(vec![Target {
            folder: Some(Arc::new(std::fs::File::open(base.path()).unwrap().into())),
            folder_path: b"dst".to_vec(),
            name: None,
            renamed: None,
        }]);
        let path = TreePath::try_from(b"file".to_vec()).unwrap();
        let complete = |len: u64| Complete {
            draft: Arc::new(placement.draft(0, &path, 0).unwrap()),
            piece: FilePiece {
                file: 1,
                source: 0,
                path: path.clone(),
                attributes: Attributes {
                    mode: 0o600,
                    mtime_ns: 0,
                    owner: None,
                    xattrs: None,
                },
                size: 4 << 20,
                offset: 0,
                len,
            },
            blake3: Checksum::default(),
        };
        for (len, waiting) in [(4 << 20, 8), (1 << 20, 20)] {
            let committer = Committer::new(true);
            let mut handed = 0;
            while handed < 20 && committer.hand_over(complete(len), || true).is_ok() {
                handed += 1;
            }
            assert_eq!(handed, waiting);
        }
    }
}
