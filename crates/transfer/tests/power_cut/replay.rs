//! Cuts the power at places of a recorded log, drawn by seed, and looks at what each cut leaves.
//!
//! A disk keeps what came before its last flush. Of what came after it, it keeps what it likes: here all of
//! it, or some of its sectors, drawn by seed. docs/guarantees.md says what may be found then.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;

use super::copies::{Copy, Kind, copied, tree_of, write_tree};
use super::ends::{Ends, job};
use super::excluded::{Step, Steps, TARGETS, excluded};
use super::machine::{DISK_BYTES, Machine, left_by};
use super::recorder::{self, Event, Log};
use super::{make_ext4, own_mounts, run};

const SEED: u64 = 9;
/// Cuts that are tried; `HOWDAH_POWER_CUTS` says otherwise.
const CUTS: usize = 40;
/// Each such cut is also followed by the same command.
const FINISHED_EACH: usize = 10;

/// Mounts a disk that holds `blank` and is recorded, lets `work` have it, and returns its log.
fn recorded<T>(
    base: &Path,
    blank: &[u8],
    commit_s: u32,
    work: impl FnOnce(&Path, &Log) -> T,
) -> (T, Log) {
    let (device, root) = (base.join("device"), base.join("recorded"));
    fs::create_dir(&device).unwrap();
    fs::create_dir(&root).unwrap();
    let (log, session) = recorder::mount(blank.to_vec(), &device).unwrap();
    let disk = device.join(recorder::NAME);
    let options = format!("loop,commit={commit_s}");
    let paths = [disk.to_str().unwrap(), root.to_str().unwrap()];
    run("mount", &["-o", &options, paths[0], paths[1]]);
    let done = work(&root, &log);
    run("umount", &[paths[1]]);
    session.umount_and_join().unwrap();
    (done, log)
}

/// A copy asks the disk to flush, and one that is told not to sync does not.
pub fn a_copy_without_sync_flushes_nothing() {
    own_mounts();
    let base = tempfile::tempdir().unwrap();
    let image = base.path().join("image");
    make_ext4(&image, DISK_BYTES);
    let blank = fs::read(&image).unwrap();
    let source = base.path().join("source");
    write_tree(&source, 0);
    // The file system commits nothing by itself meanwhile.
    let (flushes, _) = recorded(base.path(), &blank, 300, |root, log| {
        ["without", "with"].map(|target| {
            let before = log.flushes();
            let mut job = job("push", &[&source.join(".")], &root.join(target));
            job["sync"] = json!(target == "with");
            Ends::run(&job).unwrap();
            assert_eq!(tree_of(&root.join(target)), tree_of(&source));
            log.flushes() - before
        })
    });
    assert_eq!(flushes[0], 0, "without sync");
    assert!(flushes[1] > 0, "with sync");
}

/// A step of a mirror, by its name.
type Named = (&'static str, fn(&Steps) -> Step);
const STEPS: [Named; 3] = [
    ("the removal", |steps| steps.removal),
    ("the giving of other names", |steps| steps.other_names),
    ("the giving of folders' attributes", |steps| steps.folders),
];

/// Fails where a mirror that is flushed has no flush in the middle of one of its steps, so that no cut could be there.
/// Says what is excluded of what it saw.
fn each_step_has_a_flush(
    machine: &Machine,
    blank: &[u8],
    events: &[Event],
    copies: &[Copy],
) -> Vec<String> {
    let mut wrong = Vec::new();
    let flushed = |copy: &&Copy| copy.kind == Kind::Mirrors && copy.flushed;
    for copy in copies.iter().filter(flushed) {
        let behind_flushes: Vec<usize> = (copy.begun + 1..copy.ended)
            .filter(|cut| matches!(events[cut - 1], Event::Flush))
            .collect();
        let mut seen = BTreeMap::new();
        let mut at = |cut: usize| {
            *seen.entry(cut).or_insert_with(|| {
                let left = left_by(blank, &events[..cut], || true);
                let (found, steps) = machine.started(&left, |root| excluded(root, copies, cut));
                wrong.extend(found.into_iter().map(|what| after(cut, events, &what)));
                steps
            })
        };
        for (name, step) in STEPS {
            // No step undoes what it has done.
            let first = behind_flushes.partition_point(|&cut| step(&at(cut)).done == 0);
            let is_amid = behind_flushes
                .get(first)
                .is_some_and(|&cut| step(&at(cut)).is_amid());
            let source = copy.source.file_name().unwrap().display();
            assert!(is_amid, "no flush is amid {name} of the copy of {source}");
        }
    }
    wrong
}

fn after(cut: usize, events: &[Event], what: &str) -> String {
    format!("after {cut} of {} events: {what}", events.len())
}

/// Gives the command of a copy again; what is wrong with what that leaves.
fn finished_wrongly(copy: &Copy, root: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    Ends::run(&copy.job(root)).unwrap();
    if tree_of(&root.join(copy.target)) != copy.tree {
        wrong.push("the same command leaves another tree".to_owned());
    }
    for entry in fs::read_dir(root).unwrap() {
        let name = entry.unwrap().file_name();
        let mut known = TARGETS.iter().chain(&["lost+found"]);
        if !known.any(|known| *known == name) {
            wrong.push(format!("{} is left", name.display()));
        }
    }
    wrong
}

/// Runs the recorded copies and cuts the power at many places of the log.
pub fn no_cut_leaves_what_the_guarantees_exclude() {
    own_mounts();
    let base = tempfile::tempdir().unwrap();
    let machine = Machine::new(base.path());
    let mut stable = fs::read(machine.image()).unwrap();
    let (copies, log) = recorded(base.path(), &stable, 1, |root, log| {
        copied(base.path(), root, log)
    });
    let events = log.take();
    let mut wrong = each_step_has_a_flush(&machine, &stable, &events, &copies);

    let cuts = match std::env::var("HOWDAH_POWER_CUTS") {
        Ok(cuts) => cuts.parse().unwrap(),
        Err(_) => CUTS,
    };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    // Each copy has as many, however little it writes. A mirror's steps after the last byte are short, and lie in the
    // last quarter of its events: half of its cuts are there.
    let mut places: Vec<usize> = (0..cuts)
        .map(|number| {
            let (round, copy) = (number / copies.len(), &copies[number % copies.len()]);
            let events = copy.ended - copy.begun + 1;
            let late = copy.kind == Kind::Mirrors && round.is_multiple_of(2);
            let among = if late { events.div_ceil(4) } else { events };
            copy.ended - random.next_u64() as usize % among
        })
        .collect();
    // The moments at which a copy has said that it is done are the strictest ones.
    places.extend(copies.iter().map(|copy| copy.ended));
    places.sort_unstable();
    let mut applied = 0;
    let (mut outside, mut inside, mut again) = (0, 0, 0);
    let (mut removal, mut other_names, mut folders) = (0, 0, 0);
    for (number, cut) in places.into_iter().enumerate() {
        let flushed = events[..cut]
            .iter()
            .rposition(|event| matches!(event, Event::Flush))
            .unwrap_or(0);
        if flushed > applied {
            stable = left_by(&stable, &events[applied..flushed], || true);
            applied = flushed;
        }
        // All sectors, or some of them.
        let all = number % 2 == 0;
        let left = left_by(&stable, &events[applied..cut], || {
            all || random.next_u64() % 2 == 0
        });
        let (found, steps) = machine.started(&left, |root| {
            let seen = excluded(root, &copies, cut);
            let Some(copy) = copies
                .iter()
                .find(|copy| copy.begun < cut && cut < copy.ended)
            else {
                outside += 1;
                return seen;
            };
            inside += 1;
            // Its mark goes last, so that there is nothing left to finish, as the page says.
            let complete =
                copy.kind == Kind::Renames && tree_of(&root.join(copy.target)) == copy.tree;
            if number % FINISHED_EACH == 0 && !complete {
                again += 1;
                wrong.extend(
                    finished_wrongly(copy, root)
                        .iter()
                        .map(|what| after(cut, &events, what)),
                );
            }
            seen
        });
        removal += u32::from(steps.removal.is_amid());
        other_names += u32::from(steps.other_names.is_amid());
        folders += u32::from(steps.folders.is_amid());
        wrong.extend(found.iter().map(|what| after(cut, &events, what)));
    }
    let counted = json!({
        "events": events.len(), "in_a_copy": inside, "outside_one": outside, "finished_again": again,
        "amid_removal": removal, "amid_other_names": other_names, "amid_folders": folders, "wrong": wrong,
    });
    println!("power cuts: {counted}");
    assert_eq!(wrong, [""; 0], "seed {SEED}");
    assert!(
        inside > cuts / 4 && again > 0,
        "{inside} of {cuts} cuts were in a copy"
    );
}
