//! Gives complete files their names, in batches. One flush serves all files of a batch.
//!
//! Streams hand complete files over and continue. While one batch is flushed, the batch before it gets its names, and
//! the next one is gathered. So batches are larger on a slow disk. If the queue is full, the streams wait.

use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use howdah_wire::{Checksum, Doing, FilePiece};

use crate::end::abort::lock;
use crate::end::open_files::allow_open_files;
use crate::end::spent;
use crate::error::TransferError;
use crate::tree::draft::Draft;
use crate::tree::durable::finish_writing;

/// Most files of a batch. Each is an open descriptor, and three more batches may be on their way.
const MAX_FILES: usize = 2048;
/// Most bytes of files that came whole and wait for the next batch: they would all come again if this end
/// were killed.
const MAX_BYTES: u64 = 32 << 20;
/// What the names of a batch take of memory, but for the last ones, in bytes: in a deep tree paths are long.
const MAX_NAME_BYTES: usize = 2 << 20;
/// A batch takes at most this part of the descriptors that the process may have.
const PART_OF_DESCRIPTORS: usize = 8;
/// Batches that are flushed and wait for their names. Flushes and names take longer in turns, because each holds up a
/// journal that both write to; without one that waits, each would often wait for the other.
const FLUSHED: usize = 1;
/// So long a batch waits for more files.
const GATHER: Duration = Duration::from_millis(5);
/// The longest that a wait does not look at the stop flag.
const GLANCE: Duration = Duration::from_millis(50);

/// A complete and verified file without its name.
#[derive(Debug)]
pub struct Complete {
    /// The file as it was written, with its attributes.
    pub draft: Arc<Draft>,
    /// One of its pieces, without extended attributes, which the file already has.
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

    /// What its names take of memory, in bytes.
    fn name_bytes(&self) -> usize {
        self.draft.display().len() + self.piece.path.as_bytes().len()
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
    /// What their names take, in bytes.
    name_bytes: usize,
    /// Batches that are being flushed or named.
    at_work: usize,
    /// No more files come.
    closed: bool,
    /// Why the thread has ended before all were named.
    failed: Option<TransferError>,
}

impl State {
    fn is_full(&self, most: usize) -> bool {
        self.waiting.len() >= most || self.bytes >= MAX_BYTES || self.name_bytes >= MAX_NAME_BYTES
    }
}

impl Committer {
    /// A committer without files. If `sync` is true, it flushes each file before it gives the file its name.
    pub fn new(sync: bool) -> Self {
        Self {
            sync,
            state: Mutex::default(),
            changed: Condvar::new(),
            most: (allow_open_files() / PART_OF_DESCRIPTORS).clamp(1, MAX_FILES),
        }
    }

    /// Hands a file over. Waits while too many files wait.
    ///
    /// # Errors
    /// [`TransferError::Cancelled`] when `stop` returns true, and the error of the thread if it has failed.
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
        state.name_bytes += file.name_bytes();
        state.waiting.push(file);
        // To wake the thread for each file would cost more than the file does.
        if state.waiting.len() == 1 || state.is_full(self.most) {
            self.changed.notify_all();
        }
        Ok(())
    }

    /// The work of the thread. It flushes batches and gives their files names, until [`Self::finish`] was called and
    /// all is done. `name` gives each file its name. When this end stops, the files that wait still get their names,
    /// because they are complete.
    ///
    /// # Errors
    /// When a file cannot be flushed or get its name.
    pub fn run(
        &self,
        stop: impl Fn() -> bool,
        name: impl FnMut(Complete) -> Result<(), TransferError> + Send,
    ) -> Result<(), TransferError> {
        let outcome = self.name_batches(stop, name);
        let mut state = lock(&self.state);
        state.at_work = 0;
        if let Err(error) = outcome {
            state.failed.get_or_insert(error);
        }
        state.waiting.clear();
        self.changed.notify_all();
        state.failed.clone().map_or(Ok(()), Err)
    }

    /// Flushes one batch while another thread names the one before it.
    fn name_batches(
        &self,
        stop: impl Fn() -> bool,
        mut name: impl FnMut(Complete) -> Result<(), TransferError> + Send,
    ) -> Result<(), TransferError> {
        thread::scope(|scope| {
            let (flushed, to_name) = mpsc::sync_channel::<Vec<Complete>>(FLUSHED);
            let naming = thread::Builder::new().name("howdah-name".to_owned());
            let naming = naming.spawn_scoped(scope, move || {
                for batch in to_name {
                    let outcome = batch.into_iter().try_for_each(&mut name);
                    let mut state = lock(&self.state);
                    state.at_work -= 1;
                    state.failed = outcome.err();
                    self.changed.notify_all();
                    if state.failed.is_some() {
                        return;
                    }
                }
            });
            naming
                .map_err(|error| TransferError::Here(format!("cannot start a thread: {error}")))?;
            self.flush_batches(stop, flushed)
        })
    }

    fn flush_batches(
        &self,
        stop: impl Fn() -> bool,
        flushed: SyncSender<Vec<Complete>>,
    ) -> Result<(), TransferError> {
        while let Some(mut batch) = self.next_batch(&stop) {
            // Streams take files of several folders in turns. What a folder is asked is asked once for all of its files.
            batch.sort_by_key(|file| Arc::as_ptr(&file.draft.destination().folder));
            let drafts: Vec<&Draft> = batch.iter().map(|file| &*file.draft).collect();
            let stay = spent::doing(Doing::Flush);
            finish_writing(&drafts, self.sync)?;
            // What it waits here is what names take longer than flushes.
            stay.then(Doing::Naming);
            // Where the other thread has failed, it has said why.
            if flushed.send(batch).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// What is waiting, once something is; `None` when nothing more comes.
    fn next_batch(&self, stop: impl Fn() -> bool) -> Option<Vec<Complete>> {
        let mut state = lock(&self.state);
        let _waiting = spent::doing(Doing::Waiting);
        while state.waiting.is_empty() {
            if state.closed || state.failed.is_some() || stop() {
                return None;
            }
            state = self.wait(state);
        }
        // More come at once in most copies, and one flush serves them all.
        let deadline = Instant::now() + GATHER;
        while !(state.is_full(self.most) || state.closed || stop()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.at_work += 1;
        let batch = std::mem::take(&mut state.waiting);
        state.bytes = 0;
        state.name_bytes = 0;
        self.changed.notify_all();
        Some(batch)
    }

    /// Whether files wait or are being flushed.
    pub fn busy(&self) -> bool {
        let state = lock(&self.state);
        state.at_work > 0 || !state.waiting.is_empty()
    }

    /// Waits until all files that were handed over have their names.
    ///
    /// # Errors
    /// [`TransferError::Cancelled`] when `stop` returns true, and the error of the thread if it has failed.
    pub fn finish(&self, stop: impl Fn() -> bool) -> Result<(), TransferError> {
        let mut state = lock(&self.state);
        state.closed = true;
        self.changed.notify_all();
        while state.failed.is_none() && (state.at_work > 0 || !state.waiting.is_empty()) {
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
    use crate::tree::target;
    use howdah_wire::{Attributes, TreePath};

    struct Target {
        base: tempfile::TempDir,
        placement: Placement,
    }

    impl Target {
        fn new() -> Self {
            let base = tempfile::tempdir().unwrap();
            let placement = Placement::new(vec![target::Target {
                folder: Some(Arc::new(std::fs::File::open(base.path()).unwrap().into())),
                folder_path: b"dst".to_vec(),
                name: None,
                renamed: None,
            }]);
            Self { base, placement }
        }

        /// A file of 4 MiB of which the last piece has so many bytes.
        fn complete(&self, name: &str, len: u64) -> Complete {
            let path = TreePath::try_from(name.as_bytes().to_vec()).unwrap();
            let attributes = Attributes {
                mode: 0o600,
                mtime_ns: 0,
                owner: None,
                xattrs: None,
            };
            let draft = self.placement.draft(0, &path, 0, &attributes).unwrap();
            Complete {
                draft: Arc::new(draft),
                piece: FilePiece {
                    file: 1,
                    source: 0,
                    path,
                    attributes,
                    size: 4 << 20,
                    offset: 0,
                    len,
                },
                blake3: Checksum::default(),
            }
        }
    }

    #[test]
    fn files_that_would_come_again_wait_in_small_batches_and_others_do_not() {
        let target = Target::new();
        for (len, waiting) in [(4 << 20, 8), (1 << 20, 20)] {
            let committer = Committer::new(true);
            let mut handed = 0;
            while handed < 20
                && committer
                    .hand_over(target.complete("file", len), || true)
                    .is_ok()
            {
                handed += 1;
            }
            assert_eq!(handed, waiting);
        }
    }

    #[test]
    fn long_names_make_small_batches() {
        let target = Target::new();
        let deep = ["x".repeat(200).as_str(); 10].join("/");
        let names = 2 * deep.len() + "dst/".len();
        let committer = Committer::new(true);
        let waiting = MAX_NAME_BYTES.div_ceil(names).min(committer.most);
        for _ in 0..waiting {
            let file = target.complete(&deep, 0);
            committer.hand_over(file, || true).unwrap();
        }
        let file = target.complete(&deep, 0);
        let refused = committer.hand_over(file, || true);
        assert_eq!(refused, Err(TransferError::Cancelled));
    }

    #[test]
    fn all_files_have_their_names_when_it_has_finished() {
        let target = Target::new();
        let committer = Committer::new(true);
        thread::scope(|scope| {
            scope.spawn(|| committer.run(|| false, |file| file.draft.give_name()));
            for number in 0..3000 {
                let file = target.complete(&number.to_string(), 1);
                committer.hand_over(file, || false).unwrap();
            }
            committer.finish(|| false).unwrap();
            assert_eq!(target.base.path().read_dir().unwrap().count(), 3000);
        });
    }

    #[test]
    fn a_name_that_is_refused_ends_it_and_says_why() {
        let target = Target::new();
        let committer = Committer::new(false);
        let refused = || TransferError::Here("refused".to_owned());
        thread::scope(|scope| {
            let run = scope.spawn(|| committer.run(|| false, |_| Err(refused())));
            let hand_over = || committer.hand_over(target.complete("file", 1), || false);
            let told = std::iter::repeat_with(hand_over).find_map(Result::err);
            assert_eq!(told, Some(refused()));
            assert_eq!(committer.finish(|| false), Err(refused()));
            assert_eq!(run.join().unwrap(), Err(refused()));
        });
        assert!(!committer.busy());
    }
}
