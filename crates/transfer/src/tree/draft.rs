//! A file that gets its name only when it is complete.
//!
//! A file that comes in parts lies beside its target with a journal (`part`, `journal`), so that the next copy can
//! continue it. A file that comes as a whole has no name, if the file system supports that.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use blake3::hazmat::{ChainingValue, HasherExt};
use howdah_wire::{Attributes, Doing, Span, printable};
use rustix::fs::{Advice, AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::end::spent;
use crate::error::TransferError;
use crate::tree::destination::{Destination, link_open, now, temporary_name};
use crate::tree::durable::lost;
use crate::tree::holes::{self, Run};
use crate::tree::journal::Journal;
use crate::tree::metadata::{Metadata, NotKept};
use crate::tree::part::{self, PRIVATE, Unusable, part_name};
use crate::tree::reach::INSIDE;
use crate::tree::refused::is_too_large;
use crate::tree::zeros;

/// Files from this size on get their space before their content, so that a full disk shows early.
const PREALLOCATE_BYTES: u64 = 1 << 20;
/// From this size on a tmpfs file's pages are taken beside the streams.
const TAKE_PAGES_FROM_BYTES: u64 = 64 << 20;
/// Pages taken at a time, in bytes; writers wait meanwhile, some milliseconds.
const TAKE_PAGES_BYTES: u64 = 8 << 20;
/// `f_type` of a tmpfs (linux/magic.h), on which reserving is not quick: it takes all pages.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// What is read at a time to compare it, in bytes.
const READ_BYTES: usize = 256 << 10;

/// Whether a folder that is open has been removed.
fn is_removed(folder: &OwnedFd) -> bool {
    rustix::fs::fstat(folder).is_ok_and(|stat| stat.st_nlink == 0)
}

/// Has the page cache forget what it has of a file and takes for written. The disk may have lost some of that. If another
/// program was told of the loss, no flush here reports it. So the disk's own bytes must be compared.
fn forget_what_is_written(file: &OwnedFd) {
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
}

/// A file that is being written. If it is dropped before [`Self::give_name`], only the parts remain with which the
/// next copy can continue.
#[derive(Debug)]
pub struct Draft {
    destination: Destination,
    file: OwnedFd,
    /// Its place in the order in which files were opened.
    opened: u64,
    /// Whether an earlier copy may have written some of it.
    goes_on: bool,
    /// Its name beside the target, if it has one.
    beside: Mutex<Option<Vec<u8>>>,
    /// Writers of one file take turns here, asleep. The kernel has them take turns anyway, but
    /// lets them spin, which takes a core from the streams.
    turn: Mutex<()>,
    /// What of it was verified, if it comes in parts and can be gone on with.
    journal: Option<Mutex<Journal>>,
    /// Whether the next copy can go on with it.
    worth_keeping: AtomicBool,
    /// Whether its time becomes that of the copy when it gets its name.
    is_to_be_new: AtomicBool,
    /// Whether runs of zeros become holes.
    sparse: bool,
}

impl Draft {
    /// Makes an empty draft for a file of `size` bytes. A draft without a name, which nobody else can open, has
    /// `mode` from the start, as far as the process may set it. A draft with a name gets its mode when it is
    /// complete.
    ///
    /// # Errors
    /// When there is no permission or no space for it.
    pub(crate) fn create(
        destination: Destination,
        size: u64,
        mode: Mode,
        sparse: bool,
    ) -> Result<Self, TransferError> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(&destination.folder, ".", flags, mode) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                Self::create_beside(destination, size, sparse)
            }
            // Of a folder that has been removed, Linux says that it is not permitted.
            Err(Errno::PERM) if is_removed(&destination.folder) => {
                Err(destination.not_made("write", Errno::NOENT))
            }
            Err(error) => Err(destination.not_made("write", error)),
            Ok(file) => Self::begin(destination, file, None, size, None, sparse),
        }
    }

    /// The same with a name beside the target, which every file system supports. What an interrupted copy has left
    /// there is taken over.
    pub(crate) fn create_beside(
        destination: Destination,
        size: u64,
        sparse: bool,
    ) -> Result<Self, TransferError> {
        let name = part_name(&destination.name);
        match part::open(&destination.folder, &name) {
            Ok((file, _)) => {
                rustix::fs::ftruncate(&file, 0)
                    .map_err(|error| TransferError::path("write", &destination.display, error))?;
                Self::begin(destination, file, Some(name), size, None, sparse)
            }
            Err(_) => Self::create_unique(destination, size, sparse),
        }
    }

    /// Makes a draft of a file that comes in parts. It begins with what an interrupted copy has left of a source of
    /// this size and modification time.
    ///
    /// # Errors
    /// When there is no permission or no space for it; [`Unusable`] with the destination when there can be no part
    /// beside it.
    pub(crate) fn in_parts(
        destination: Destination,
        size: u64,
        mtime_ns: i64,
        sparse: bool,
    ) -> Result<Result<Self, (Unusable, Destination)>, TransferError> {
        let name = part_name(&destination.name);
        let (file, was_there) = match part::open(&destination.folder, &name) {
            Ok(opened) => opened,
            Err(unusable) => return Ok(Err((unusable, destination))),
        };
        let found = was_there.then(|| Journal::read(&file, size, mtime_ns));
        let journal = match found.flatten() {
            Some(journal) => {
                forget_what_is_written(&file);
                journal
            }
            None => {
                rustix::fs::ftruncate(&file, 0)
                    .map_err(|error| TransferError::path("write", &destination.display, error))?;
                Journal::new(size, mtime_ns)
            }
        };
        Self::begin(destination, file, Some(name), size, Some(journal), sparse).map(Ok)
    }

    /// The same with a name that nothing else has.
    fn create_unique(
        destination: Destination,
        size: u64,
        sparse: bool,
    ) -> Result<Self, TransferError> {
        let name = temporary_name(&destination.name);
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let flags = new | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::openat2(&destination.folder, name.as_slice(), flags, PRIVATE, INSIDE) {
            Err(error) => Err(destination.not_made("write", error)),
            Ok(file) => Self::begin(destination, file, Some(name), size, None, sparse),
        }
    }

    fn begin(
        destination: Destination,
        file: OwnedFd,
        beside: Option<Vec<u8>>,
        size: u64,
        journal: Option<Journal>,
        sparse: bool,
    ) -> Result<Self, TransferError> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let goes_on = journal
            .as_ref()
            .is_some_and(|journal| !journal.found().is_empty());
        let draft = Self {
            destination,
            file,
            opened: OPENED.fetch_add(1, Ordering::Relaxed),
            goes_on,
            beside: Mutex::new(beside),
            turn: Mutex::new(()),
            journal: journal.map(Mutex::new),
            worth_keeping: AtomicBool::new(goes_on),
            is_to_be_new: AtomicBool::new(false),
            sparse,
        };
        if is_too_large(&draft.file, size) {
            return Err(draft.destination.not_placed("write", Errno::FBIG));
        }
        if sparse {
            draft.extend_to(size)?;
        } else if size >= PREALLOCATE_BYTES {
            draft.reserve(size)?;
        }
        if let Some(journal) = &draft.journal {
            let written = lock(journal).write(&draft.file);
            written.map_err(|error| draft.failed(error))?;
        }
        Ok(draft)
    }

    /// The whole path that it will have, for messages.
    pub fn display(&self) -> &[u8] {
        &self.destination.display
    }

    /// Writes `parts`, one after the other, at `offset`.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write_at(&self, parts: &mut [IoSlice<'_>], offset: u64) -> Result<(), TransferError> {
        let _disk = spent::doing(Doing::Disk);
        let _turn = lock(&self.turn);
        if self.sparse {
            return holes::runs(parts, offset, |run| match run {
                Run::Data(parts, offset) => self.write(parts, offset),
                Run::Zeros(parts, span) => self.leave_hole(parts, span),
            });
        }
        self.write(parts, offset)
    }

    /// Makes `span`, which is a hole at the source, read as zeros. It may contain data from an interrupted copy or a
    /// broken connection. If runs of zeros become holes, the span becomes a hole, else its space stays reserved.
    /// Returns whether zeros had to be written, because the file system supports neither.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn clear(&self, span: Span) -> Result<bool, TransferError> {
        let _disk = spent::doing(Doing::Disk);
        let _turn = lock(&self.turn);
        let flags = match self.sparse {
            true => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            // The file may be shorter yet.
            false => FallocateFlags::ZERO_RANGE,
        };
        if rustix::fs::fallocate(&self.file, flags, span.offset, span.len).is_ok() {
            return Ok(false);
        }
        let mut offset = span.offset;
        for part in zeros::parts(span.len) {
            self.write(&mut [IoSlice::new(part)], offset)?;
            offset += part.len() as u64;
        }
        Ok(true)
    }

    /// Makes a hole of zeros. There may be something in their place, from a copy that was cut or a connection that
    /// broke, so it is punched; where the file system cannot do that, zeros are written.
    fn leave_hole(&self, parts: &mut [IoSlice<'_>], span: Span) -> Result<(), TransferError> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, span.offset, span.len) {
            Ok(()) => Ok(()),
            Err(_) => self.write(parts, span.offset),
        }
    }

    fn write(&self, mut parts: &mut [IoSlice<'_>], mut offset: u64) -> Result<(), TransferError> {
        while !parts.is_empty() {
            match rustix::io::pwritev(&self.file, parts, offset) {
                Ok(0) => return Err(self.failed(Errno::NOSPC)),
                Ok(count) => {
                    IoSlice::advance_slices(&mut parts, count);
                    offset += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    /// The chaining value of a part that an earlier copy may have left; `None` if there is none, or it cannot be
    /// read.
    pub fn value_of(&self, span: Span) -> Option<ChainingValue> {
        self.journal.as_ref()?;
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(span.offset);
        let (mut at, end) = (span.offset, span.end()?);
        let mut buffer = vec![0; READ_BYTES];
        while at < end {
            let most = usize::try_from(end - at).map_or(READ_BYTES, |left| left.min(READ_BYTES));
            match rustix::io::pread(&self.file, &mut buffer[..most], at) {
                // Also where its file system has lost it: then it comes again.
                Ok(0) => return None,
                Ok(count) => {
                    hasher.update(&buffer[..count]);
                    at += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Some(hasher.finalize_non_root())
    }

    /// Notes that a part was verified and written, so that a later copy need not send it again. Returns the range of
    /// the file with that note, if it is time to write it to the disk.
    pub fn note(&self, span: Span) -> Option<Span> {
        let mut journal = lock(self.journal.as_ref()?);
        // Where that cannot be noted it comes again.
        let _ = journal.add(&self.file, span);
        self.worth_keeping.store(true, Ordering::Relaxed);
        journal.due()
    }

    /// Keeps nothing for a later copy, because the source has changed.
    pub fn discard(&self) {
        self.worth_keeping.store(false, Ordering::Relaxed);
    }

    /// Gives the complete file its attributes. Returns, in words, what could not be kept.
    ///
    /// # Errors
    /// When they are refused.
    pub fn complete(
        &self,
        attributes: &Attributes,
        metadata: &Metadata,
    ) -> Result<NotKept, TransferError> {
        if let Some(journal) = &self.journal {
            rustix::fs::ftruncate(&self.file, lock(journal).size())
                .map_err(|error| self.failed(error))?;
        }
        let display = &self.destination.display;
        let gets = metadata.of_file(&self.destination, attributes);
        let not_kept = metadata
            .give(&self.file, attributes, gets, display)
            .map_err(|error| self.failed(error))?;
        if self.journal.is_some() && gets.mtime_ns.is_none() {
            // Until it has its name the next copy tells by the time of the source that it is complete.
            self.is_to_be_new.store(true, Ordering::Relaxed);
            metadata
                .give_time(&self.file, attributes.mtime_ns, display)
                .map_err(|error| self.failed(error))?;
        }
        Ok(not_kept)
    }

    /// Its place in the order in which files were opened. Nothing was written to it before it was opened.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// Whether an earlier copy may have written some of it before it was opened here.
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// The file itself.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The name it gets.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Notes that the storage has lost bytes of it. The page cache may still have them, so the next copy would find
    /// them, and its flush would report no error. Therefore the next copy must start from the beginning.
    pub fn lost(&self, error: impl Into<io::Error>) -> TransferError {
        self.discard();
        lost(&self.destination.display, error)
    }

    /// Gives the file its name. The file must be complete and on stable storage. An existing file of that name is
    /// replaced.
    ///
    /// # Errors
    /// When the name is refused, or another program has removed the file from beside the target.
    /// [`TransferError::InTheWay`] when something with that name is not replaced. [`TransferError::Refused`] when
    /// this name alone, or the folder, is refused, or when this copy has placed what is there under another name.
    pub fn give_name(&self) -> Result<(), TransferError> {
        let name = self.destination.name.as_slice();
        let mut beside = lock(&self.beside);
        let mut naming = self.destination.naming();
        if self.is_to_be_new.load(Ordering::Relaxed) {
            // Where that is refused it has the time of its source, as any copy may.
            let _ = rustix::fs::futimens(&self.file, &now());
        }
        if beside.is_none() {
            match self.link(name) {
                Ok(()) => {
                    naming.placed();
                    return Ok(());
                }
                Err(Errno::EXIST) => self.destination.make_room(&mut naming)?,
                Err(error) => return Err(self.destination.not_placed("write", error)),
            }
            let refused = |error| self.destination.not_made("write", error);
            let other = self.link_beside().map_err(refused)?;
            *beside = Some(other);
        }
        if let Some(beside) = &*beside {
            match part::is_named(&self.destination.folder, beside, &self.file) {
                Ok(true) => self.destination.replace_by(beside, &mut naming)?,
                Ok(false) => return Err(self.failed(Errno::NOENT)),
                Err(error) => return Err(self.failed(error)),
            }
        }
        *beside = None;
        Ok(())
    }

    /// Links the unnamed file beside the target; its name there. What a copy that was cut has left there
    /// is removed. The lock keeps other copies from taking it for that.
    fn link_beside(&self) -> Result<Vec<u8>, Errno> {
        let (folder, name) = (&self.destination.folder, &self.destination.name);
        let part = part_name(name);
        if part::lock(&self.file).is_ok() && part::remove(folder, &part) && self.link(&part).is_ok()
        {
            return Ok(part);
        }
        let unique = temporary_name(name);
        self.link(&unique)?;
        Ok(unique)
    }

    /// Links the unnamed file.
    fn link(&self, name: &[u8]) -> Result<(), Errno> {
        link_open(&self.file, &self.destination.folder, name)
    }

    /// Gives it that size, if it is smaller; what it grows by is a hole.
    fn extend_to(&self, size: u64) -> Result<(), TransferError> {
        match rustix::fs::fstat(&self.file) {
            Ok(stat) if u64::try_from(stat.st_size).is_ok_and(|there| there >= size) => Ok(()),
            _ => rustix::fs::ftruncate(&self.file, size)
                .map_err(|error| self.destination.not_placed("write", error)),
        }
    }

    fn reserve(&self, size: u64) -> Result<(), TransferError> {
        if let Ok(space) = rustix::fs::fstatvfs(&self.file) {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            if free.saturating_add(self.allocated()) < size {
                return Err(TransferError::Here(format!(
                    "no space left for {}: it has {size} bytes, {free} are free; make room and \
                     run the same command again, it goes on where this one stopped",
                    printable(&self.destination.display)
                )));
            }
        }
        if self.on_tmpfs() {
            // Where they fit into the file, tmpfs may then give huge pages (huge=within_size).
            return self.extend_to(size);
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, size) {
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                Err(self.destination.not_placed("write", error))
            }
            // Not every file system can; then a full disk shows when it is full.
            _ => Ok(()),
        }
    }

    /// What it takes of its file system already, in bytes.
    fn allocated(&self) -> u64 {
        let blocks = rustix::fs::fstat(&self.file).map_or(0, |stat| stat.st_blocks);
        u64::try_from(blocks).unwrap_or(0).saturating_mul(512)
    }

    fn on_tmpfs(&self) -> bool {
        rustix::fs::fstatfs(&self.file).is_ok_and(|system| system.f_type == TMPFS_MAGIC)
    }

    /// Whether [`Self::take_pages`] is worthwhile for a file of `size` bytes.
    pub fn wants_pages(&self, size: u64) -> bool {
        !self.sparse && size >= TAKE_PAGES_FROM_BYTES && self.on_tmpfs()
    }

    /// Allocates a tmpfs file's pages before its content comes, a few at a time, until `stop` returns true. That is a
    /// third of the work of writing them, and is done while the connections are still in slow start.
    pub fn take_pages(&self, size: u64, stop: impl Fn() -> bool) {
        let mut offset = 0;
        while offset < size && !stop() {
            let len = TAKE_PAGES_BYTES.min(size - offset);
            // Without space the write itself fails, and says so.
            if rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, len).is_err() {
                return;
            }
            offset += len;
        }
    }

    fn failed(&self, error: impl Into<io::Error>) -> TransferError {
        TransferError::path("write", &self.destination.display, error)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(beside) = &*lock(&self.beside)
            && !self.worth_keeping.load(Ordering::Relaxed)
            && part::is_named(&self.destination.folder, beside, &self.file) == Ok(true)
        {
            let _ = rustix::fs::unlinkat(
                &self.destination.folder,
                beside.as_slice(),
                AtFlags::empty(),
            );
        }
    }
}
