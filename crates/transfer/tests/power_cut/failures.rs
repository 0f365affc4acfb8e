//! What a disk is told to fail with EIO, and how much has failed.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use fuser::Errno;

/// What a disk writes as one begins at multiples of this, in bytes.
const SECTOR_BYTES: usize = 512;
/// Ends of writes that are remembered, about as many as the pieces of what a loop device writes at a time.
const ENDS: usize = 256;

/// What sectors begin with.
type Sectors = HashSet<[u8; 8]>;

/// What fails, until the disk is well again.
#[derive(Clone, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Each write.
    Writes,
    /// Each flush of a file or a folder.
    Flushes,
    /// Each close of a file.
    Closes,
    /// Each write of sectors of a file. A loop device sends what it writes in pieces, and takes some of them for all
    /// (`lo_complete_rq` in drivers/block/loop.c): a piece that goes on where another one has ended is written.
    WritesOf(Arc<Sectors>),
}

impl Fault {
    /// Each write of sectors of that file.
    pub fn of(file: &Path) -> io::Result<Self> {
        let bytes = fs::read(file)?;
        let begins = bytes.chunks(SECTOR_BYTES).filter_map(<[u8]>::first_chunk);
        let sectors: Sectors = begins.filter(|begin| **begin != [0; 8]).copied().collect();
        Ok(Self::WritesOf(Arc::new(sectors)))
    }
}

/// What the disk has been told.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    fault: Fault,
    failed: u64,
    /// Where the last writes that were done have ended.
    ends: VecDeque<u64>,
}

impl Told {
    /// From now on that fails.
    pub fn fail(&self, fault: Fault) {
        self.state().fault = fault;
    }

    /// How much has failed so far.
    pub fn failed(&self) -> u64 {
        self.state().failed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// EIO if a fault that is as `meets` says is the one of now.
    pub(super) fn meet(&self, meets: impl FnOnce(&Fault) -> bool) -> Result<(), Errno> {
        let state = &mut *self.state();
        if !meets(&state.fault) {
            return Ok(());
        }
        state.failed += 1;
        Err(Errno::EIO)
    }

    /// The same of a write.
    pub(super) fn write(&self, data: &[u8], offset: u64) -> Result<(), Errno> {
        let goes_on = self.state().ends.contains(&offset);
        self.meet(|fault| match fault {
            Fault::Writes => true,
            Fault::WritesOf(lost) if !goes_on => {
                let mut begins = data.chunks(SECTOR_BYTES).filter_map(<[u8]>::first_chunk);
                begins.any(|begin| lost.contains(begin))
            }
            _ => false,
        })?;
        let ends = &mut self.state().ends;
        ends.truncate(ENDS - 1);
        ends.push_front(offset + data.len() as u64);
        Ok(())
    }
}
