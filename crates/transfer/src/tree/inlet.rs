//! A pipe from which the near end sends. It is read into blocks, and each block is kept until the receiver has it.
//!
//! A pipe can be read once, so data that a broken connection has lost is sent again from the blocks. They take
//! [`MAX_PIPED_KEPT_BYTES`] of memory at most. If the path or the receiver is slower than the program that writes
//! into the pipe, the pipe is not read, and the kernel makes that program wait.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use blake3::hazmat::HasherExt;
use howdah_wire::limits::{MAX_PIPED_BYTES, MAX_PIPED_KEPT_BYTES, MIN_BLOCK_BYTES};
use howdah_wire::{Attributes, Checksum, Piece, PieceError, PipedPiece};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::{TransferError, plain};
use crate::tree::assembly::Assembly;
use crate::tree::new_modes::umask;
use crate::tree::queue::Queue;

/// How long a wait looks away from the stop flag.
const GLANCE: Duration = Duration::from_millis(50);
/// The mode of a new file before the umask, as a shell makes it.
const NEW_FILE: u32 = 0o666;

/// The pipe, and the state of reading it.
#[derive(Debug)]
pub struct Inlet {
    pipe: OwnedFd,
    block_bytes: usize,
    kept: Arc<Kept>,
    digests: Mutex<Assembly>,
}

/// How many bytes from the pipe are kept.
#[derive(Debug, Default)]
struct Kept {
    bytes: Mutex<u64>,
    changed: Condvar,
}

/// A block that was read from the pipe. Dropping it makes room for another one.
#[derive(Debug)]
pub struct PipedBlock {
    piece: PipedPiece,
    room: Room,
    checksum: OnceLock<Checksum>,
}

/// Memory for a block, which counts as kept.
#[derive(Debug)]
struct Room {
    bytes: Vec<u8>,
    kept: Arc<Kept>,
    counted: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        *lock(&self.kept.bytes) -= self.counted;
        self.kept.changed.notify_all();
    }
}

impl PipedBlock {
    /// What it is.
    pub fn piece(&self) -> PipedPiece {
        self.piece
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.room.bytes
    }

    /// Its checksum: the digest if the block is everything, else the chaining value of its subtree.
    pub fn checksum(&self) -> Checksum {
        *self.checksum.get_or_init(|| {
            let mut hasher = blake3::Hasher::new();
            hasher.set_input_offset(self.piece.offset);
            hasher.update(self.bytes());
            match self.piece.is_whole() {
                true => *hasher.finalize().as_bytes(),
                false => hasher.finalize_non_root(),
            }
        })
    }
}

impl Inlet {
    /// A pipe, cut into blocks of at most this many bytes, a power of two.
    pub fn new(pipe: OwnedFd, block_bytes: u64) -> Self {
        // A larger pipe wakes its writer less often; a user's share of such memory may be used up.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, MAX_PIPED_BYTES as usize);
        let block_bytes = 1 << block_bytes.clamp(MIN_BLOCK_BYTES, MAX_PIPED_BYTES).ilog2();
        Self {
            pipe,
            block_bytes,
            kept: Arc::default(),
            digests: Mutex::new(Assembly::of_unknown_size()),
        }
    }

    /// Reads the pipe to its end, and gives its blocks to `queue`. A block is handed on when it is known whether it
    /// is the last one.
    ///
    /// # Errors
    /// When it cannot be read; [`TransferError::Cancelled`] when this end stops.
    pub fn read(&self, queue: &Queue, stop: impl Fn() -> bool) -> Result<(), TransferError> {
        let mut offset = 0;
        let mut full: Option<Room> = None;
        let mut room = self.room(&stop)?;
        let mut hand_on = |room: Room, last: bool| {
            let len = room.bytes.len() as u64;
            let piece = PipedPiece { offset, len, last };
            offset += len;
            queue.add_piped(PipedBlock {
                piece,
                room,
                checksum: OnceLock::new(),
            })
        };
        loop {
            let more = self.read_some(&mut room.bytes, &stop)?;
            if more && let Some(full) = full.take() {
                hand_on(full, false)?;
            }
            if !more {
                return hand_on(full.unwrap_or(room), true);
            }
            if room.bytes.len() == self.block_bytes {
                full = Some(std::mem::replace(&mut room, self.room(&stop)?));
            }
        }
    }

    /// Adds the checksum of a block that is about to be sent for the first time. For the last block to be added,
    /// returns the end of the pipe, with the digest of everything.
    ///
    /// # Errors
    /// When a block is added twice.
    pub fn add(&self, block: &PipedBlock) -> Result<Option<Piece>, TransferError> {
        let PipedPiece { offset, len, last } = block.piece;
        let checksum = block.checksum();
        let mut digests = lock(&self.digests);
        let sealed = match (block.piece.is_whole(), last) {
            (true, _) => Some((len, checksum)),
            (false, true) => digests
                .add_last(offset, len, checksum)
                .map_err(|_| PieceError::Malformed)?
                .map(|digest| (digests.received(), digest.into())),
            (false, false) => digests
                .add(offset, len, checksum)
                .map_err(|_| PieceError::Malformed)?
                .map(|digest| (digests.received(), digest.into())),
        };
        Ok(sealed.map(|(size, blake3)| Piece::Sealed {
            size,
            blake3,
            attributes: as_new(),
        }))
    }

    /// Room for a block, once there is some.
    fn room(&self, stop: &impl Fn() -> bool) -> Result<Room, TransferError> {
        let counted = self.block_bytes as u64;
        let mut bytes = lock(&self.kept.bytes);
        while *bytes + counted > MAX_PIPED_KEPT_BYTES {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            let waited = self.kept.changed.wait_timeout(bytes, GLANCE);
            bytes = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *bytes += counted;
        drop(bytes);
        Ok(Room {
            bytes: Vec::with_capacity(self.block_bytes),
            kept: Arc::clone(&self.kept),
            counted,
        })
    }

    /// Reads what there is, as far as a block has room for it; whether there was something before the end.
    fn read_some(
        &self,
        bytes: &mut Vec<u8>,
        stop: &impl Fn() -> bool,
    ) -> Result<bool, TransferError> {
        let failed = |error: Errno| {
            TransferError::Here(format!("cannot read the pipe: {}", plain(&error.into())))
        };
        loop {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            if !is_ready(&self.pipe, PollFlags::IN).map_err(failed)? {
                continue;
            }
            let filled = bytes.len();
            bytes.resize(self.block_bytes, 0);
            let read = rustix::io::read(&self.pipe, &mut bytes[filled..]);
            bytes.truncate(filled + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(count) => return Ok(count > 0),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// Waits until a descriptor is ready, for a moment only, so that the caller can stop. Returns whether it is ready.
pub(crate) fn is_ready(descriptor: impl AsFd, flags: PollFlags) -> Result<bool, Errno> {
    let mut polled = [PollFd::new(&descriptor, flags)];
    let glance = Timespec {
        tv_sec: 0,
        tv_nsec: GLANCE.subsec_nanos().into(),
    };
    match poll(&mut polled, Some(&glance)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a file has that a program of this user makes now.
fn as_new() -> Attributes {
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Attributes {
        mode: NEW_FILE & !umask(),
        mtime_ns: i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX),
        owner: None,
        xattrs: None,
    }
}
