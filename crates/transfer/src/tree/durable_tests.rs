//! Flushes, and what a kernel reports of lost bytes, in a model of it.

use super::*;
use std::cell::Cell;
use std::fs;
use std::path::Path;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn open(path: &Path) -> Arc<OwnedFd> {
    Arc::new(fs::File::open(path).unwrap().into())
}

/// Nothing noted yet, where the file system of `base` counts as local or not, whatever it is.
fn unflushed(base: &Path, local: bool) -> Unflushed {
    let device = rustix::fs::stat(base).unwrap().st_dev;
    let kind = Kind {
        local,
        as_one: local,
    };
    Unflushed(Mutex::new(Changed {
        kinds: BTreeMap::from([(device, kind)]),
        ..Changed::default()
    }))
}

#[test]
fn a_few_folders_are_flushed_alone_and_many_as_their_file_system() {
    let base = tempfile::tempdir().unwrap();
    let unflushed = unflushed(base.path(), true);
    let count = || {
        let changed = lock(&unflushed.0);
        (changed.few.len(), changed.systems.len())
    };
    for number in 0..=MAX_FOLDERS {
        assert_eq!(count(), (number, 0));
        let folder = base.path().join(number.to_string());
        fs::create_dir(&folder).unwrap();
        for _ in 0..2 {
            unflushed.note(&open(&folder), b"folder").unwrap();
        }
    }
    assert_eq!(count(), (0, 1));
    let asked = lock(&unflushed.0).systems.values().next().unwrap().noted;
    assert_eq!(asked, 0, "a younger one may be told of less");
    unflushed.flush(|| false).unwrap();
    assert_eq!(count(), (0, 0));
}

#[test]
fn a_file_system_is_flushed_also_where_one_of_its_folders_is_known() {
    let base = tempfile::tempdir().unwrap();
    let folder = open(base.path());
    let unflushed = unflushed(base.path(), true);
    unflushed.note(&folder, b"folder").unwrap();
    let device = rustix::fs::fstat(&folder).unwrap().st_dev;
    for _ in 0..2 {
        let opened = || Ok(folder.try_clone().unwrap());
        assert_eq!(unflushed.note_system(device, b"file", opened), Ok(true));
    }
    let changed = lock(&unflushed.0);
    assert_eq!((changed.few.len(), changed.systems.len()), (0, 1));
}

#[test]
fn folders_of_a_file_system_that_is_not_local_are_all_flushed_alone() {
    let base = tempfile::tempdir().unwrap();
    let unflushed = unflushed(base.path(), false);
    let device = rustix::fs::stat(base.path()).unwrap().st_dev;
    let opened = || panic!("it is known already");
    assert_eq!(unflushed.note_system(device, b"top", opened), Ok(false));
    let mut most = 0;
    for number in 0..=MAX_FOLDERS {
        let folder = base.path().join(number.to_string());
        fs::create_dir(&folder).unwrap();
        unflushed.note(&open(&folder), b"folder").unwrap();
        most = most.max(lock(&unflushed.0).few.len());
    }
    let changed = lock(&unflushed.0);
    let left = (most, changed.few.len(), changed.systems.len());
    assert_eq!(left, (MAX_FOLDERS, 1, 0));
}

#[test]
fn a_syncfs_reports_losses_from_linux_5_8_on() {
    for (release, reports) in [
        ("4.18.0-553.el8_10.x86_64", false),
        ("5.7.19", false),
        ("5.8.0-1-amd64", true),
        ("5.10", true),
        ("6.1.0-13-amd64", true),
        ("unknown", false),
    ] {
        assert_eq!(syncfs_reports(release), reports, "{release}");
    }
}

/// What Linux remembers of losses, and tells each who asks (lib/errseq.c); all errors are the same here.
#[derive(Default)]
struct Errseq(Cell<u32>);

impl Errseq {
    const LOST: u32 = 1;
    const SEEN: u32 = 2;
    const ONE: u32 = 4;

    fn set(&self) {
        let old = self.0.get();
        let more = if old & Self::SEEN == 0 { 0 } else { Self::ONE };
        self.0.set((old & !Self::SEEN | Self::LOST) + more);
    }

    fn sample(&self) -> u32 {
        let now = self.0.get();
        if now & Self::SEEN == 0 { 0 } else { now }
    }

    fn check_and_advance(&self, since: &Cell<u32>) -> Result<(), Errno> {
        if self.0.get() == since.get() {
            return Ok(());
        }
        self.0.set(self.0.get() | Self::SEEN);
        since.set(self.0.get());
        Err(Errno::IO)
    }
}

/// An open file of a file system that loses bytes.
struct Modelled<'a> {
    number: u64,
    goes_on: bool,
    lost: Cell<bool>,
    system: &'a Errseq,
    system_sample: Cell<u32>,
    own: Errseq,
    own_sample: Cell<u32>,
}

impl<'a> Modelled<'a> {
    /// Opens one of which an earlier copy may have written something, which may be lost already.
    fn open(number: u64, system: &'a Errseq, goes_on: bool, lost: bool) -> Self {
        let file = Self {
            number,
            goes_on,
            lost: Cell::new(lost),
            system,
            system_sample: Cell::new(system.sample()),
            own: Errseq::default(),
            own_sample: Cell::new(0),
        };
        if lost {
            file.own.set();
        }
        file.own_sample.set(file.own.sample());
        file
    }

    /// The kernel cannot write some of it, and drops it.
    fn lose(&self) {
        self.lost.set(true);
        self.own.set();
        self.system.set();
    }
}

impl Written for &Modelled<'_> {
    fn opened(&self) -> u64 {
        self.number
    }

    fn goes_on(&self) -> bool {
        self.goes_on
    }

    fn sync_system(&self) -> Result<(), Errno> {
        self.system.check_and_advance(&self.system_sample)
    }

    fn sync(&self) -> Result<(), TransferError> {
        let outcome = self.own.check_and_advance(&self.own_sample);
        outcome.map_err(|error| lost(b"file", error))
    }
}

/// Flushes batches of a copy on a file system that loses bytes: how many files were flushed, and how many batches
/// refused.
fn flush_by_seed(seed: u64) -> (u64, u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = |limit: u64| random.next_u64() % limit;
    let system = Errseq::default();
    let other = Cell::new(0);
    let mut open: Vec<Modelled> = Vec::new();
    let (mut named, mut refused) = (0, 0);
    for number in 0..400 {
        let goes_on = below(8) == 0;
        let lost_before = goes_on && below(4) == 0;
        if lost_before {
            system.set();
        }
        open.push(Modelled::open(number, &system, goes_on, lost_before));
        let any = below(open.len() as u64) as usize;
        match below(20) {
            0 => open[any].lose(),
            // Another program loses something, or is told of all losses so far.
            1 => system.set(),
            2..=4 => drop(system.check_and_advance(&other)),
            _ => {}
        }
        if open.len() < 40 {
            continue;
        }
        // A batch is in no order.
        for last in (1..open.len()).rev() {
            open.swap(last, below(last as u64 + 1) as usize);
        }
        let batch = open.split_off(open.len() - 4 - below(20) as usize);
        let files: Vec<&Modelled> = batch.iter().collect();
        let lost = batch.iter().any(|file| file.lost.get());
        assert_eq!(flush(&files, true).is_err(), lost, "seed {seed}");
        match lost {
            true => refused += 1,
            false => named += files.len() as u64,
        }
    }
    (named, refused)
}

#[test]
fn no_file_of_which_the_kernel_has_lost_bytes_counts_as_flushed() {
    let (mut named, mut refused) = (0, 0);
    for seed in 0..500 {
        let (some, others) = flush_by_seed(seed);
        named += some;
        refused += others;
    }
    assert!(named > 10_000 && refused > 1_000, "{named} {refused}");
}
