//! A pipe into which the near end writes a file. Its parts arrive in any order, and are written in the right one.
//!
//! A part that comes early waits in memory, and its stream continues, up to [`MAX_EARLY_BYTES`] in all. Beyond that
//! streams wait, their sockets fill, and the sender waits too. The same happens if the reader of the pipe is slow.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_wire::limits::MAX_PIPED_BYTES;
use howdah_wire::{Checksum, FilePiece, PieceError};
use rustix::event::PollFlags;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::{MAKE_ROOM, TransferError, plain};
use crate::tree::assembly::Assembly;
use crate::tree::inlet::is_ready;

/// Most that waits for what comes before it, in bytes.
const MAX_EARLY_BYTES: u64 = 128 << 20;
/// How long a wait looks away from the stop flag.
const GLANCE: Duration = Duration::from_millis(50);
/// Where poll(2) says that it can be written to, a pipe takes so much without blocking (`PIPE_BUF`).
const UNBLOCKED_BYTES: usize = 4096;

/// The pipe, and the data on its way into it.
#[derive(Debug)]
pub struct Outlet {
    pipe: OwnedFd,
    /// What is written at a time.
    at_once: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The first part that came: the others are of the same file.
    first: Option<FilePiece>,
    digests: Option<Assembly>,
    /// The digest of the file, once all of it has come.
    digest: Option<Checksum>,
    /// Where the next part begins that is written.
    next: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
    waiting_bytes: u64,
    writing: bool,
    /// Why the thread that writes has ended too early.
    failed: Option<TransferError>,
}

impl Outlet {
    /// A pipe into which nothing has been written.
    pub fn new(pipe: OwnedFd) -> Self {
        let (pipe, at_once) = unblocking(pipe);
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, MAX_PIPED_BYTES as usize);
        Self {
            pipe,
            at_once,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Adds a verified part. Waits while there are too many early parts.
    ///
    /// # Errors
    /// When the part is of another file, or has come before; when the pipe cannot be written to; and
    /// [`TransferError::Cancelled`] when `stop` returns true.
    pub fn take(
        &self,
        piece: &FilePiece,
        bytes: Vec<u8>,
        value: Checksum,
        stop: impl Fn() -> bool,
    ) -> Result<(), TransferError> {
        let mut state = lock(&self.state);
        state.add(piece, value)?;
        while piece.offset != state.next && state.waiting_bytes + piece.len > MAX_EARLY_BYTES {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state = self.wait(state);
        }
        if piece.len > 0 {
            state.waiting_bytes += piece.len;
            state.waiting.insert(piece.offset, bytes);
        }
        self.changed.notify_all();
        Ok(())
    }

    /// The work of the writing thread: writes all parts, in their order.
    ///
    /// # Errors
    /// When the pipe cannot be written to.
    pub fn pour(&self, stop: impl Fn() -> bool) -> Result<(), TransferError> {
        let mut state = lock(&self.state);
        while !state.is_done() {
            if stop() {
                return Ok(());
            }
            let next = state.next;
            let Some(bytes) = state.waiting.remove(&next) else {
                state = self.wait(state);
                continue;
            };
            state.writing = true;
            drop(state);
            let written = self.write(&bytes, &stop);
            state = lock(&self.state);
            state.writing = false;
            state.waiting_bytes -= bytes.len() as u64;
            state.next += bytes.len() as u64;
            if let Err(error) = written {
                state.failed = Some(error.clone());
                return Err(error);
            }
            self.changed.notify_all();
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Waits until everything is written. Returns the digest.
    ///
    /// # Errors
    /// When a part is missing and nothing more comes, and [`TransferError::Cancelled`] when `stop` returns true.
    pub fn finish(&self, stop: impl Fn() -> bool) -> Result<Checksum, TransferError> {
        let mut state = lock(&self.state);
        let Some(digest) = state.digest else {
            return Err(TransferError::Here(
                "the other end broke the protocol: its file is incomplete".to_owned(),
            ));
        };
        while !state.is_done() {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            state = self.wait(state);
        }
        Ok(digest)
    }

    /// Whether this end waits for the reader of the pipe.
    pub fn is_busy(&self) -> bool {
        lock(&self.state).writing
    }

    fn write(&self, mut bytes: &[u8], stop: &impl Fn() -> bool) -> Result<(), TransferError> {
        while !bytes.is_empty() {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            if !is_ready(&self.pipe, PollFlags::OUT).map_err(|error| self.failed(error))? {
                continue;
            }
            match rustix::io::write(&self.pipe, &bytes[..bytes.len().min(self.at_once)]) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    fn failed(&self, error: Errno) -> TransferError {
        let kind = rustix::fs::fstat(&self.pipe);
        let kind = kind.map(|stat| FileType::from_raw_mode(stat.st_mode));
        let is_pipe = matches!(kind, Ok(FileType::Fifo | FileType::Socket));
        TransferError::Here(match error {
            Errno::PIPE => {
                "the program that reads the pipe has ended before it had read all".to_owned()
            }
            Errno::NOSPC | Errno::DQUOT if !is_pipe => {
                format!("no space left to write standard output; {MAKE_ROOM}")
            }
            error => {
                let what = if is_pipe {
                    "into the pipe"
                } else {
                    "standard output"
                };
                format!("cannot write {what}: {}", plain(&error.into()))
            }
        })
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, GLANCE);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl State {
    /// Notes a part and its checksum.
    fn add(&mut self, piece: &FilePiece, value: Checksum) -> Result<(), PieceError> {
        let first = self.first.get_or_insert_with(|| piece.clone());
        let same = FilePiece {
            offset: first.offset,
            len: first.len,
            ..piece.clone()
        };
        if same != *first || piece.source != 0 || !piece.path.is_root() || self.digest.is_some() {
            return Err(PieceError::Malformed);
        }
        if piece.is_whole() {
            self.digest = Some(value);
            return Ok(());
        }
        let digests = self
            .digests
            .get_or_insert_with(|| Assembly::new(piece.size));
        let added = digests.add(piece.offset, piece.len, value);
        self.digest = added.map_err(|_| PieceError::Malformed)?.map(Into::into);
        Ok(())
    }

    fn is_done(&self) -> bool {
        let size = self.first.as_ref().map(|first| first.size);
        self.digest.is_some() && size == Some(self.next)
    }
}

/// The same pipe where a write does not block, and how much is written at a time. A reader that stops would hold the
/// thread for good otherwise. The descriptor that a user's shell has opened stays as it is: others share it.
fn unblocking(pipe: OwnedFd) -> (OwnedFd, usize) {
    let kind = rustix::fs::fstat(&pipe).map(|stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        Ok(FileType::RegularFile) => (pipe, usize::MAX),
        Ok(FileType::Fifo) => {
            let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
            let opened = OpenOptions::new()
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(path);
            match opened {
                Ok(file) => (file.into(), usize::MAX),
                Err(_) => (pipe, UNBLOCKED_BYTES),
            }
        }
        _ => (pipe, UNBLOCKED_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::assembly::tests::value_of;
    use howdah_wire::{Attributes, TreePath};
    use std::io::{Read, pipe};
    use std::sync::Arc;
    use std::thread;

    const BLOCK: u64 = 1 << 18;

    const NO_SPACE: &str =
        "no space left to write standard output; make room (df, df -i and quota show where)";

    #[test]
    fn a_full_disk_is_told_from_a_pipe() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = tempfile::tempfile().unwrap();
        let (_reads, pipe) = pipe().unwrap();
        for (output, says) in [
            (OwnedFd::from(full), NO_SPACE),
            (file.into(), NO_SPACE),
            (
                pipe.into(),
                "cannot write into the pipe: No space left on device",
            ),
        ] {
            let error = Outlet::new(output).failed(Errno::NOSPC);
            assert_eq!(error, TransferError::Here(says.to_owned()));
        }
    }

    fn piece(size: u64, offset: u64, len: u64) -> FilePiece {
        FilePiece {
            file: 1,
            source: 0,
            path: TreePath::default(),
            attributes: Attributes {
                mode: 0o600,
                mtime_ns: 0,
                owner: None,
                xattrs: None,
            },
            size,
            offset,
            len,
        }
    }

    fn take(outlet: &Outlet, content: &[u8], offset: u64, len: u64) -> Result<(), TransferError> {
        let bytes = content[offset as usize..(offset + len) as usize].to_vec();
        let value = value_of(&bytes, offset);
        let piece = piece(content.len() as u64, offset, len);
        outlet.take(&piece, bytes, value, || true)
    }

    #[test]
    fn parts_leave_in_order_however_they_come() {
        let content: Vec<u8> = (0..4 * BLOCK + 7)
            .map(|at| (at / 1000 % 251) as u8)
            .collect();
        let (mut reader, writer) = pipe().unwrap();
        let outlet = Arc::new(Outlet::new(writer.into()));
        let pouring = thread::spawn({
            let outlet = Arc::clone(&outlet);
            move || outlet.pour(|| false)
        });
        for number in [4, 1, 3, 0, 2] {
            let len = if number == 4 { 7 } else { BLOCK };
            take(&outlet, &content, number * BLOCK, len).unwrap();
        }
        let mut came = vec![0; content.len()];
        reader.read_exact(&mut came).unwrap();
        assert!(came == content);
        let digest = outlet.finish(|| false).unwrap();
        assert_eq!(digest, *blake3::hash(&content).as_bytes());
        pouring.join().unwrap().unwrap();
    }

    #[test]
    fn parts_that_contradict_each_other_are_refused_and_a_missing_one_is_told() {
        let content = vec![7; 3 * BLOCK as usize];
        let (_reader, writer) = pipe().unwrap();
        let outlet = Outlet::new(writer.into());
        take(&outlet, &content, 0, BLOCK).unwrap();
        let refused = take(&outlet, &content, 0, BLOCK).unwrap_err();
        assert!(refused.to_string().contains("malformed"));
        let refused = take(&outlet, &content[..2 * BLOCK as usize], BLOCK, BLOCK).unwrap_err();
        assert!(refused.to_string().contains("malformed"));
        let incomplete = outlet.finish(|| false).unwrap_err();
        assert!(incomplete.to_string().contains("incomplete"));
    }

    #[test]
    fn no_more_waits_for_what_is_missing_than_it_may() {
        let size = MAX_EARLY_BYTES + 2 * BLOCK;
        let (_reader, writer) = pipe().unwrap();
        let outlet = Outlet::new(writer.into());
        let early = |offset: u64| {
            let bytes = vec![0; BLOCK as usize];
            outlet.take(&piece(size, offset, BLOCK), bytes, [0; 32], || true)
        };
        let taken = (1..size / BLOCK).take_while(|number| early(number * BLOCK).is_ok());
        assert_eq!(taken.count() as u64, MAX_EARLY_BYTES / BLOCK);
        // What all wait for is always taken.
        early(0).unwrap();
    }
}
