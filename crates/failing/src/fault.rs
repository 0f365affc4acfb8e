//! What a disk is told to fail with EIO, for how long, and how much has failed.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io};

use fuser::Errno;

/// What a disk writes as one begins at multiples of this, in bytes.
const SECTOR_BYTES: usize = 512;
/// Ends of writes that are remembered, about as many as the pieces of what a loop device writes at a time.
const ENDS: usize = 256;

/// What sectors begin with.
type Sectors = HashSet<[u8; 8]>;

/// What fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Each write.
    Writes,
    /// Each flush of a file or a folder.
    Flushes,
    /// Each close of a file that was open for writing.
    Closes,
    /// Each new name of a file or folder that has one: rename and link.
    Names,
    /// Each new folder.
    Folders,
    /// Each change of an owner, a mode, a time, a size, or an extended attribute.
    Attributes,
    /// Each read of a file.
    Reads,
    /// Each write of sectors of a file. A loop device sends what it writes in pieces, and takes some of them for all
    /// (`lo_complete_rq` in drivers/block/loop.c): a piece that goes on where another one has ended is written.
    WritesOf(Arc<Sectors>),
}

impl Fault {
    /// Each write of sectors of that file.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn of(file: &Path) -> io::Result<Self> {
        let bytes = fs::read(file)?;
        let begins = bytes.chunks(SECTOR_BYTES).filter_map(<[u8]>::first_chunk);
        let sectors: Sectors = begins.filter(|begin| **begin != [0; 8]).copied().collect();
        Ok(Self::WritesOf(Arc::new(sectors)))
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "writes" => Ok(Self::Writes),
            "flushes" => Ok(Self::Flushes),
            "closes" => Ok(Self::Closes),
            "names" => Ok(Self::Names),
            "folders" => Ok(Self::Folders),
            "attributes" => Ok(Self::Attributes),
            "reads" => Ok(Self::Reads),
            _ => Err(format!("nothing that fails is called {word}")),
        }
    }
}

/// How long something fails.
enum Lasts {
    Once,
    Until(Instant),
    UntilWell,
}

/// What a disk has been told. Clones tell the same disk.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    fault: Option<(Fault, Lasts)>,
    failed: u64,
    /// Where the last writes that were done have ended.
    ends: VecDeque<u64>,
}

impl Told {
    /// From now on that fails, until the disk is well again.
    pub fn fail(&self, fault: Fault) {
        self.state().fault = Some((fault, Lasts::UntilWell));
    }

    /// That fails the next time, and not after it.
    pub fn fail_once(&self, fault: Fault) {
        self.state().fault = Some((fault, Lasts::Once));
    }

    /// That fails for a while from now on.
    pub fn fail_for(&self, fault: Fault, a_while: Duration) {
        self.state().fault = Some((fault, Lasts::Until(Instant::now() + a_while)));
    }

    /// Nothing fails any more.
    pub fn be_well(&self) {
        self.state().fault = None;
    }

    /// How much has failed so far.
    pub fn failed(&self) -> u64 {
        self.state().failed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// EIO if that fault is the one of now.
    pub(crate) fn meet(&self, fault: &Fault) -> Result<(), Errno> {
        self.meet_one(|now| now == fault)
    }

    /// EIO if a fault that is as `meets` says is the one of now.
    fn meet_one(&self, meets: impl FnOnce(&Fault) -> bool) -> Result<(), Errno> {
        let state = &mut *self.state();
        let Some((fault, lasts)) = &state.fault else {
            return Ok(());
        };
        if !meets(fault) {
            return Ok(());
        }
        match lasts {
            Lasts::Until(end) if *end <= Instant::now() => {
                state.fault = None;
                return Ok(());
            }
            Lasts::Once => state.fault = None,
            Lasts::Until(_) | Lasts::UntilWell => {}
        }
        state.failed += 1;
        Err(Errno::EIO)
    }

    /// The same of a write.
    pub(crate) fn write(&self, data: &[u8], offset: u64) -> Result<(), Errno> {
        let goes_on = self.state().ends.contains(&offset);
        self.meet_one(|fault| match fault {
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
