//! Digests of whole files, for copies that compare files by their content. A few threads read the files, and end when
//! none is left.
//!
//! Files come in batches. The digests of a batch are handed out together, and in the order of the batches, because
//! the other end expects them in that order.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::io::Errno;

use crate::end::abort::lock;
use crate::end::context::Context;
use crate::error::TransferError;

/// The BLAKE3 digest of a file; `None` if it cannot be read completely.
pub type FileBlake3 = Option<[u8; 32]>;

/// Threads that read at the most. Each hashes faster than most disks read.
const MAX_THREADS: usize = 4;
/// What is read at a time, in bytes.
const READ_BYTES: usize = 256 << 10;

/// How an end reads files and uses their digests.
pub trait Files: Send + Sync + 'static {
    /// One file that is to be read.
    type File: Send;

    /// The digest of a file; what is read is added to `read`.
    fn digest(&self, context: &Context, file: &Self::File, read: &AtomicU64) -> FileBlake3;

    /// Takes what came of the batch that begins with the offered file `first`.
    ///
    /// # Errors
    /// Whatever ends the copy.
    fn take(
        &self,
        context: &Context,
        first: u64,
        digests: Vec<FileBlake3>,
    ) -> Result<(), TransferError>;
}

/// The files that one end has to read.
pub struct Digesting<F: Files> {
    files: F,
    state: Mutex<State<F::File>>,
    read: AtomicU64,
}

struct State<File> {
    /// By the number of the batch and the place in it.
    waiting: VecDeque<(u64, usize, File)>,
    batches: VecDeque<Batch>,
    /// The number of the first of them.
    number: u64,
    threads: usize,
}

struct Batch {
    first: u64,
    digests: Vec<FileBlake3>,
    left: usize,
}

impl<F: Files> Digesting<F> {
    /// Nothing to read yet.
    pub fn new(files: F) -> Arc<Self> {
        Arc::new(Self {
            files,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                batches: VecDeque::new(),
                number: 0,
                threads: 0,
            }),
            read: AtomicU64::new(0),
        })
    }

    /// What the end does with them.
    pub fn files(&self) -> &F {
        &self.files
    }

    /// The bytes that were read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Whether files are left to be read.
    pub fn is_busy(&self) -> bool {
        !lock(&self.state).batches.is_empty()
    }

    /// Adds a batch, which has at least one file.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn add(
        self: &Arc<Self>,
        context: &Arc<Context>,
        first: u64,
        files: Vec<F::File>,
    ) -> Result<(), TransferError> {
        let mut state = lock(&self.state);
        let number = state.number + state.batches.len() as u64;
        state.batches.push_back(Batch {
            first,
            digests: vec![None; files.len()],
            left: files.len(),
        });
        let files = files.into_iter().enumerate();
        state
            .waiting
            .extend(files.map(|(index, file)| (number, index, file)));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let wanted = state.waiting.len().min(cores).min(MAX_THREADS);
        while state.threads < wanted {
            let digesting = Arc::clone(self);
            context.spawn("howdah-digest", move |context| digesting.work(context))?;
            state.threads += 1;
        }
        Ok(())
    }

    fn work(&self, context: &Context) -> Result<(), TransferError> {
        let mut state = lock(&self.state);
        while !context.abort.stopping()
            && let Some((number, index, file)) = state.waiting.pop_front()
        {
            drop(state);
            let digest = self.files.digest(context, &file, &self.read);
            drop(file);
            state = lock(&self.state);
            let at = usize::try_from(number - state.number).unwrap_or(usize::MAX);
            let Some(batch) = state.batches.get_mut(at) else {
                continue;
            };
            batch.digests[index] = digest;
            batch.left -= 1;
            while state.batches.front().is_some_and(|batch| batch.left == 0)
                && let Some(batch) = state.batches.pop_front()
            {
                state.number += 1;
                self.files.take(context, batch.first, batch.digests)?;
            }
        }
        state.threads -= 1;
        Ok(())
    }
}

/// The digest of the first `size` bytes of an open file. The file must have that many.
pub fn digest(context: &Context, file: &OwnedFd, size: u64, read: &AtomicU64) -> FileBlake3 {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    while at < size {
        if context.abort.stopping() {
            return None;
        }
        let most = usize::try_from(size - at).map_or(READ_BYTES, |left| left.min(READ_BYTES));
        match rustix::io::pread(file, &mut buffer[..most], at) {
            Ok(0) => return None,
            Ok(count) => {
                hasher.update(&buffer[..count]);
                at += count as u64;
                read.fetch_add(count as u64, Ordering::Relaxed);
            }
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(*hasher.finalize().as_bytes())
}
