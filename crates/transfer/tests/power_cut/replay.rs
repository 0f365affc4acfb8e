//! Cuts the power at places of a recorded log, drawn by seed, and looks at what each cut leaves.
//!
//! A disk keeps what came before its last flush. Of what came after it, it keeps what it likes: here all of
//! it, or some of its sectors, drawn by seed. docs/guarantees.md says what may be found then.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;

use super::ends::{Ends, content, job, listing};
use super::recorder::{self, Event, Log};
use super::{MIB, make_ext4, own_mounts, run};

const DISK_BYTES: u64 = 64 << 20;
const SEED: u64 = 9;
/// Cuts that are tried; `HOWDAH_POWER_CUTS` says otherwise.
const CUTS: usize = 40;
/// Each such cut is also followed by the same command.
const FINISHED_EACH: usize = 10;

/// Everything below a folder by its path: mode, time, and the digest of what it holds.
type Tree = BTreeMap<PathBuf, (u32, i64, i64, blake3::Hash)>;

fn tree_of(root: &Path) -> Tree {
    let entries = listing(root).into_iter();
    entries
        .map(|(path, mode, s, ns, content)| (path, (mode, s, ns, blake3::hash(&content))))
        .collect()
}

/// One copy into a target, and when it ran, in events of the log.
struct Copy {
    source: PathBuf,
    target: &'static str,
    tree: Tree,
    begun: usize,
    ended: usize,
}

impl Copy {
    fn job(&self, root: &Path) -> serde_json::Value {
        job("push", &[&self.source.join(".")], &root.join(self.target))
    }
}

fn write_tree(root: &Path, version: usize) {
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    for number in 0..3 {
        let bytes = content(2 * MIB + 3 * version + number);
        fs::write(root.join(format!("big {number}")), bytes).unwrap();
    }
    for number in 0..40 {
        let bytes = content(number * 150 + version);
        fs::write(root.join(format!("sub/{number}")), bytes).unwrap();
    }
    fs::write(root.join("sub/deep/one"), content(300_000 + version)).unwrap();
}

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

/// Copies trees to a disk: two targets, and the first one again after its source has changed.
fn copied(base: &Path, root: &Path, log: &Log) -> Vec<Copy> {
    let mut copies = Vec::new();
    for (version, target) in ["one", "two", "one"].into_iter().enumerate() {
        let source = base.join(format!("source {version}"));
        write_tree(&source, version);
        let mut copy = Copy {
            tree: tree_of(&source),
            source,
            target,
            begun: log.len(),
            ended: 0,
        };
        // Slow enough that the file system commits in between.
        let plan = json!({"streams": 2, "pacing_bps": 20_000_000});
        Ends::run_with(&copy.job(root), &plan).unwrap();
        copy.ended = log.len();
        copies.push(copy);
    }
    copies
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

/// The disk after a power cut: what was stable, and what `kept` says of the sectors that were not.
fn left_by(stable: &[u8], unflushed: &[Event], mut kept: impl FnMut() -> bool) -> Vec<u8> {
    let mut image = stable.to_vec();
    for event in unflushed {
        if let Event::Write(offset, sector) = event
            && kept()
        {
            image[*offset..offset + sector.len()].copy_from_slice(sector);
        }
    }
    image
}

/// Says what docs/guarantees.md excludes of what is on the disk after a cut behind `cut` events.
fn excluded(root: &Path, copies: &[Copy], cut: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    for target in ["one", "two"] {
        let folder = root.join(target);
        let found = if folder.exists() {
            tree_of(&folder)
        } else {
            Tree::new()
        };
        let begun: Vec<&Copy> = copies
            .iter()
            .filter(|copy| copy.target == target && copy.begun < cut)
            .collect();
        let finished = begun.iter().rposition(|copy| copy.ended <= cut);
        let may_be = &begun[finished.unwrap_or(0)..];
        for (path, (mode, _, _, digest)) in &found {
            let is_file = mode & libc::S_IFMT == libc::S_IFREG;
            let as_sent = |copy: &&&Copy| {
                copy.tree.get(path).is_some_and(|(sent_mode, .., sent)| {
                    sent == digest && sent_mode & libc::S_IFMT == mode & libc::S_IFMT
                })
            };
            if may_be.iter().any(|copy| as_sent(&copy)) || is_file && is_part(path, &begun) {
                continue;
            }
            wrong.push(format!("{target}/{}: not as it was sent", path.display()));
        }
        if let Some(finished) = finished {
            let last = begun[finished];
            for (path, sent) in &last.tree {
                // A copy that has begun since may have replaced it, and works in its folders.
                let same = finished + 1 < begun.len() || found.get(path) == Some(sent);
                if !found.contains_key(path) || !same {
                    wrong.push(format!(
                        "{target}/{}: was finished, and is not there",
                        path.display()
                    ));
                }
            }
        }
    }
    wrong
}

/// Whether a file is one that a copy writes beside a target, and not a name of a user.
fn is_part(path: &Path, copies: &[&Copy]) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    let of = |sent: &Path| {
        let sent_name = sent.file_name().unwrap().to_str().unwrap();
        sent.parent() == path.parent()
            && name
                .strip_prefix('.')
                .and_then(|rest| rest.strip_prefix(sent_name))
                .is_some_and(|rest| rest == ".howdah-part")
    };
    copies
        .iter()
        .any(|copy| copy.tree.keys().any(|sent| of(sent)))
}

/// Runs the recorded copies and cuts the power at many places of the log.
pub fn no_cut_leaves_what_the_guarantees_exclude() {
    own_mounts();
    let base = tempfile::tempdir().unwrap();
    let (image, root) = (base.path().join("image"), base.path().join("disk"));
    make_ext4(&image, DISK_BYTES);
    fs::create_dir(&root).unwrap();
    let file = File::options().write(true).open(&image).unwrap();
    let mut stable = fs::read(&image).unwrap();
    let (copies, log) = recorded(base.path(), &stable, 1, |root, log| {
        copied(base.path(), root, log)
    });
    let events = log.take();

    let cuts = match std::env::var("HOWDAH_POWER_CUTS") {
        Ok(cuts) => cuts.parse().unwrap(),
        Err(_) => CUTS,
    };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut places: Vec<usize> = (0..cuts)
        .map(|_| random.next_u64() as usize % (events.len() + 1))
        .collect();
    // The moments at which a copy has said that it is done are the strictest ones.
    places.extend(copies.iter().map(|copy| copy.ended));
    places.sort_unstable();
    let mut applied = 0;
    let (mut outside, mut inside, mut again) = (0, 0, 0);
    let mut wrong = Vec::new();
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
        file.write_all_at(&left, 0).unwrap();
        let paths = [image.to_str().unwrap(), root.to_str().unwrap()];
        run("mount", &["-o", "loop", paths[0], paths[1]]);
        for what in excluded(&root, &copies, cut) {
            wrong.push(format!("after {cut} of {} events: {what}", events.len()));
        }
        match copies
            .iter()
            .find(|copy| copy.begun < cut && cut < copy.ended)
        {
            Some(copy) => {
                inside += 1;
                if number % FINISHED_EACH == 0 {
                    again += 1;
                    Ends::run(&copy.job(&root)).unwrap();
                    if tree_of(&root.join(copy.target)) != copy.tree {
                        wrong.push(format!(
                            "after {cut} events: the same command leaves another tree"
                        ));
                    }
                }
            }
            None => outside += 1,
        }
        run("umount", &[paths[1]]);
    }
    let counted = json!({
        "events": events.len(), "in_a_copy": inside, "outside_one": outside, "finished_again": again,
        "wrong": wrong,
    });
    println!("power cuts: {counted}");
    assert_eq!(wrong, [""; 0], "seed {SEED}");
    assert!(
        inside > cuts / 4 && again > 0,
        "{inside} of {cuts} cuts were in a copy"
    );
}
