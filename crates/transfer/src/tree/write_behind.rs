//! Limits how much written data the page cache has that is not on a slow disk yet.
//!
//! Content must be on stable storage before a copy ends, so data in memory only postpones the wait. Without a limit,
//! a flush at the end could take minutes without visible progress.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, Weak};

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::tree::draft::Draft;

/// Written to files and perhaps not to the disk yet, at most, in bytes.
const MAX_BEHIND_BYTES: u64 = 256 << 20;

/// The ranges that were written and not waited for, oldest first.
#[derive(Debug, Default)]
pub struct WriteBehind(Mutex<Ranges>);

#[derive(Debug, Default)]
struct Ranges {
    waiting: VecDeque<Range>,
    bytes: u64,
}

#[derive(Debug)]
struct Range {
    /// A file that was given up or is complete needs no wait here.
    draft: Weak<Draft>,
    offset: u64,
    len: u64,
}

impl WriteBehind {
    /// Makes the kernel begin to write a range to the disk. Waits for the oldest ranges while too much is not written
    /// yet.
    ///
    /// # Errors
    /// When the disk has lost bytes of a file. The error names it.
    pub fn written(&self, draft: &Arc<Draft>, offset: u64, len: u64) -> Result<(), TransferError> {
        self.begin(draft, offset, len)?;
        let range = Range {
            draft: Arc::downgrade(draft),
            offset,
            len,
        };
        let mut ranges = lock(&self.0);
        ranges.bytes += len;
        ranges.waiting.push_back(range);
        while ranges.bytes > MAX_BEHIND_BYTES {
            let Some(oldest) = ranges.waiting.pop_front() else {
                break;
            };
            ranges.bytes -= oldest.len;
            drop(ranges);
            if let Some(draft) = oldest.draft.upgrade() {
                let wait = libc::SYNC_FILE_RANGE_WAIT_BEFORE
                    | libc::SYNC_FILE_RANGE_WRITE
                    | libc::SYNC_FILE_RANGE_WAIT_AFTER;
                sync_range(&draft, oldest.offset, oldest.len, wait)?;
            }
            ranges = lock(&self.0);
        }
        Ok(())
    }

    /// Makes the kernel begin to write a range to the disk.
    ///
    /// # Errors
    /// As [`Self::written`].
    pub fn begin(&self, draft: &Draft, offset: u64, len: u64) -> Result<(), TransferError> {
        sync_range(draft, offset, len, libc::SYNC_FILE_RANGE_WRITE)
    }
}

/// sync_file_range(2). The kernel reports a lost write to a descriptor once, here or in the flush, so
/// what is reported here counts (`file_check_and_advance_wb_err` in mm/filemap.c). A file system that
/// cannot flush a range leaves all to the flush.
fn sync_range(
    draft: &Draft,
    offset: u64,
    len: u64,
    flags: libc::c_uint,
) -> Result<(), TransferError> {
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
        return Ok(());
    };
    // SAFETY: the descriptor is open for the whole call, which takes numbers alone.
    let done = unsafe { libc::sync_file_range(draft.descriptor().as_raw_fd(), offset, len, flags) };
    if done == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::ESPIPE | libc::ENOSYS | libc::EOPNOTSUPP) => Ok(()),
        _ => Err(draft.lost(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::place::Placement;
    use crate::tree::target::Target;

    #[test]
    fn what_is_behind_has_a_limit_and_keeps_no_file_open() {
        let base = tempfile::tempdir().unwrap();
        let placement = Placement::new(vec![Target {
            folder: Some(Arc::new(std::fs::File::open(base.path()).unwrap().into())),
            folder_path: b"dst".to_vec(),
            name: Some(b"file".to_vec()),
            renamed: None,
        }]);
        let behind = WriteBehind::default();
        for number in 1..40 {
            let draft = Arc::new(placement.draft_of_pipe().unwrap());
            behind.written(&draft, 0, 16 << 20).unwrap();
            let ranges = lock(&behind.0);
            assert_eq!(ranges.bytes, (number * (16 << 20)).min(MAX_BEHIND_BYTES));
            assert_eq!(
                ranges.bytes,
                ranges.waiting.iter().map(|range| range.len).sum::<u64>()
            );
            assert_eq!(Arc::strong_count(&draft), 1);
        }
    }
}
