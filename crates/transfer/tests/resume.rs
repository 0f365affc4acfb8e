//! A copy that was cut goes on with the same command: what was verified is compared and not sent again.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File, FileTimes};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use crate::ends::{self, Ends, content, digests, job, keep_digests, listing};
use howdah_transfer::{Session, serve};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;
const BIG: usize = 24 * MIB + 4321;
const STREAMS: usize = 2;
const BLOCK: usize = MIB;
/// Says to a process of this program which end it is.
const ROLE: &str = "HOWDAH_TEST_ROLE";
const JOB: &str = "HOWDAH_TEST_JOB";
const PLAN: &str = "HOWDAH_TEST_PLAN";

/// A folder with a big file, some of a few pieces, and small ones.
struct Tree {
    base: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let source = base.path().join("source");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("big"), content(BIG)).unwrap();
        for number in 0..4 {
            fs::write(source.join(format!("{number}")), content(2 * MIB + number)).unwrap();
        }
        for number in 0..60 {
            fs::write(
                source.join(format!("small {number}")),
                content(number * 300),
            )
            .unwrap();
        }
        Self { base }
    }

    fn source(&self) -> PathBuf {
        self.base.path().join("source")
    }

    fn target(&self) -> PathBuf {
        self.base.path().join("target")
    }

    fn part(&self) -> PathBuf {
        self.target().join(".big.howdah-part")
    }

    fn job(&self, direction: &str, encrypt: bool) -> Value {
        let mut job = job(direction, &[&self.source().join(".")], &self.target());
        job["encrypt"] = json!(encrypt);
        job
    }

    /// Has the same command finish the copy, and nothing but it be there; its outcome.
    fn finish(&self, job: &Value) -> Value {
        let outcome = Ends::run(job).unwrap();
        assert!(listing(&self.target()) == listing(&self.source()), "{job}");
        outcome
    }

    /// Copies until the target has so many bytes, and stops there.
    fn cut(&self, job: &Value, bytes: usize) -> u64 {
        let ends = Ends::start(job, &plan());
        ends.wait_for_bytes(bytes as u64);
        let done = ends.bytes();
        ends.session.cancel();
        // On a busy machine it may have finished before.
        let _ = ends.result();
        done
    }
}

fn plan() -> Value {
    json!({"pacing_bps": 150_000_000, "streams": STREAMS, "block_bytes": BLOCK})
}

/// Numbers that look random (splitmix64).
fn draw(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33
}

fn number(outcome: &Value, key: &str) -> usize {
    outcome[key].as_u64().unwrap().try_into().unwrap()
}

#[test]
fn what_was_verified_is_never_sent_again() {
    for seed in 0..6 {
        let tree = Tree::new();
        let direction = ["push", "pull"][seed as usize % 2];
        let job = tree.job(direction, seed % 3 > 0);
        let done = tree.cut(&job, draw(seed) as usize % (20 * MIB) + MIB) as usize;
        let outcome = tree.finish(&job);
        let all: usize = listing(&tree.source())
            .iter()
            .map(|file| file.4.len())
            .sum();
        let there = number(&outcome, "bytes_resumed") + number(&outcome, "bytes_skipped");
        assert_eq!(number(&outcome, "bytes") + there, all, "{seed}: {outcome}");
        // Whole files of a few MiB are still in flight as well: those that have no name yet.
        assert!(
            there + 2 * STREAMS * BLOCK >= done || number(&outcome, "files") > 3,
            "{seed}: {done} were there, {outcome}"
        );
        assert_eq!(
            number(&outcome, "files") + number(&outcome, "files_skipped"),
            65
        );
    }
}

/// One end of a copy in a process of its own, over its standard input; not a test by itself.
#[test]
fn one_end() {
    let Ok(role) = env::var(ROLE) else { return };
    let descriptor = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3).unwrap();
    let again = descriptor.try_clone().unwrap();
    if role == "far" {
        let _ = serve(descriptor, again);
    } else {
        let session = Session::new(descriptor, again).unwrap();
        while session.hello(Duration::from_secs(1)).unwrap().is_none() {}
        let [job, plan] = [JOB, PLAN].map(|name| env::var(name).unwrap());
        session.start(job.as_bytes(), plan.as_bytes()).unwrap();
        while !session.wait(Duration::from_secs(1)) {}
    }
}

fn spawn(role: &str, job: &Value, socket: UnixStream) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "resume::one_end", "--nocapture"])
        .env(ROLE, role)
        .env(JOB, job.to_string())
        .env(PLAN, plan().to_string())
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_copy_goes_on_after_either_end_was_killed() {
    for seed in 100..112 {
        let tree = Tree::new();
        let direction = ["push", "pull"][seed as usize % 2];
        let job = tree.job(direction, seed % 3 > 0);
        let killed = seed as usize / 2 % 3;
        let (near, far) = UnixStream::pair().unwrap();
        let mut ends = [spawn("near", &job, near), spawn("far", &job, far)];
        thread::sleep(Duration::from_millis(60 + draw(seed) % 350));
        // Near, far, or both at once, as in a power cut that leaves the page cache.
        for (index, end) in ends.iter_mut().enumerate() {
            if killed == 2 || killed == index {
                end.kill().unwrap();
            }
        }
        for end in &mut ends {
            end.wait().unwrap();
        }
        assert_no_wrong_byte(&tree);
        let outcome = tree.finish(&job);
        let there = number(&outcome, "bytes_resumed") + number(&outcome, "bytes_skipped");
        let all: usize = listing(&tree.source())
            .iter()
            .map(|file| file.4.len())
            .sum();
        assert_eq!(number(&outcome, "bytes") + there, all, "{seed}: {outcome}");
        assert_eq!(outcome["left_out"], json!([]));
    }
}

/// Words of both ends carried by two threads, those of the far end only until it is muted.
struct Carried {
    muted: Arc<AtomicBool>,
    ends: [UnixStream; 2],
}

impl Carried {
    /// What the near end speaks to, and what the far end does.
    fn new() -> (Self, UnixStream, UnixStream) {
        let (near, near_side) = UnixStream::pair().unwrap();
        let (far, far_side) = UnixStream::pair().unwrap();
        let muted = Arc::new(AtomicBool::new(false));
        carry(&near_side, &far_side, Arc::default());
        carry(&far_side, &near_side, Arc::clone(&muted));
        let ends = [near_side, far_side];
        (Self { muted, ends }, near, far)
    }

    fn mute_far_end(&self) {
        self.muted.store(true, Ordering::Relaxed);
    }

    fn cut(self) {
        for end in self.ends {
            end.shutdown(Shutdown::Both).unwrap();
        }
    }
}

/// Carries what comes from one socket to the other on a thread of its own, until it is muted.
fn carry(from: &UnixStream, to: &UnixStream, muted: Arc<AtomicBool>) {
    let [mut from, mut to] = [from, to].map(|socket| socket.try_clone().unwrap());
    thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if !muted.load(Ordering::Relaxed) {
                let _ = to.write_all(&bytes[..count]);
            }
        }
    });
}

#[test]
fn files_of_which_a_lost_far_end_did_not_tell_have_their_digests() {
    const FILES: usize = 1000;
    for encrypt in [false, true] {
        let tree = Tree::new();
        fs::remove_dir_all(tree.source()).unwrap();
        fs::create_dir(tree.source()).unwrap();
        for number in 0..FILES {
            fs::write(tree.source().join(format!("many {number}")), content(4000)).unwrap();
        }
        let [first, second] = ["first", "second"].map(|name| tree.base.path().join(name));
        let mut job = tree.job("push", encrypt);
        keep_digests(&mut job, &first);
        let (carried, near, far) = Carried::new();
        let far = thread::spawn(move || serve(far.try_clone().unwrap().into(), far.into()));
        let lost = Session::new(near.try_clone().unwrap().into(), near.into()).unwrap();
        while lost.hello(Duration::from_secs(1)).unwrap().is_none() {}
        let plan = json!({"pacing_bps": 30_000_000, "streams": STREAMS, "block_bytes": BLOCK});
        let text = plan.to_string();
        lost.start(job.to_string().as_bytes(), text.as_bytes())
            .unwrap();
        let named = || {
            fs::read_dir(tree.target()).map_or(0, |folder| {
                let names = folder.map(|entry| entry.unwrap().file_name());
                names
                    .filter(|name| !name.as_bytes().starts_with(b"."))
                    .count()
            })
        };
        let wait = |files| {
            while named() < files {
                assert!(!lost.wait(Duration::from_millis(2)), "{:?}", lost.result());
            }
        };
        wait(10);
        carried.mute_far_end();
        let muted_at = named();
        wait(muted_at + 100);
        carried.cut();
        assert!(lost.wait(Duration::from_secs(60)));
        assert!(lost.lost_connection(), "{:?}", lost.result());
        assert!(far.join().unwrap().is_err());
        let there = named();
        assert!(digests(&first).len() < there, "nothing was left untold");

        keep_digests(&mut job, &second);
        let outcome = Ends::go_on(&lost, &job, &json!({})).result().unwrap();
        assert!(number(&outcome, "files_skipped") >= there, "{outcome}");
        let told: BTreeMap<_, _> = digests(&first)
            .into_iter()
            .chain(digests(&second))
            .collect();
        let mut files = 0;
        for (path, .., content) in listing(&tree.source()) {
            files += 1;
            assert_eq!(
                told[&path],
                blake3::hash(&content).to_hex().as_str(),
                "{path:?}"
            );
        }
        assert_eq!(files, told.len());
    }
}

/// What has its name is whole; beside that there are parts alone.
fn assert_no_wrong_byte(tree: &Tree) {
    if !tree.target().exists() {
        return;
    }
    for (path, .., found) in listing(&tree.target()) {
        let name = path.to_str().unwrap();
        if !(name.starts_with('.') && name.ends_with(".howdah-part")) {
            assert!(
                found == fs::read(tree.source().join(&path)).unwrap(),
                "{name}"
            );
        }
    }
}

/// What of the big file an interrupted copy has left, from its start on.
const LEFT: usize = 10 * MIB;

/// A folder with the big file alone, and what an interrupted copy of it has left.
fn cut_late() -> (Tree, Value) {
    let tree = Tree::new();
    fs::remove_dir_all(tree.source()).unwrap();
    fs::create_dir_all(tree.source()).unwrap();
    fs::create_dir(tree.target()).unwrap();
    fs::write(tree.source().join("big"), content(BIG)).unwrap();
    leave_part(&tree.source().join("big"), &tree.part());
    let job = tree.job("push", true);
    (tree, job)
}

/// Writes what an interrupted copy of a file leaves: its beginning, and behind the place of its end the
/// journal, with magic, size and time of the source and the parts that were verified.
fn leave_part(source: &Path, part: &Path) {
    let whole = fs::read(source).unwrap();
    let meta = source.metadata().unwrap();
    let modified_ns = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
    let mut bytes = whole[..LEFT].to_vec();
    bytes.resize(whole.len(), 0);
    bytes.extend_from_slice(b"\x89HDPART1");
    bytes.extend_from_slice(&(whole.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&modified_ns.to_le_bytes());
    for (offset, len) in [(0, 3 * MIB), (4 * MIB, LEFT - 4 * MIB), (3 * MIB, MIB)] {
        bytes.extend_from_slice(&(offset as u64).to_le_bytes());
        bytes.extend_from_slice(&(len as u64).to_le_bytes());
    }
    fs::write(part, bytes).unwrap();
}

#[test]
fn what_was_left_is_not_sent_again() {
    for direction in ["push", "pull"] {
        for encrypt in [true, false] {
            let (tree, _) = cut_late();
            let outcome = tree.finish(&tree.job(direction, encrypt));
            assert_eq!(number(&outcome, "bytes_resumed"), LEFT);
            assert_eq!(number(&outcome, "bytes"), BIG - LEFT);
            assert_eq!(number(&outcome, "files"), 1);
        }
    }
}

#[test]
fn parts_that_are_not_what_they_say_become_no_wrong_byte() {
    type Harm = fn(&Tree);
    let harms: [(&str, Harm); 11] = [
        ("flipped bits", |tree| {
            let part = File::options()
                .read(true)
                .write(true)
                .open(tree.part())
                .unwrap();
            for at in [5, 3 * MIB + 1, 9 * MIB] {
                let mut byte = [0];
                part.read_exact_at(&mut byte, at as u64).unwrap();
                part.write_all_at(&[!byte[0]], at as u64).unwrap();
            }
        }),
        ("zeros", |tree| {
            let part = File::options().write(true).open(tree.part()).unwrap();
            part.write_all_at(&vec![0; BIG], 0).unwrap();
        }),
        ("a torn record", |tree| {
            let part = File::options().write(true).open(tree.part()).unwrap();
            part.set_len(tree.part().metadata().unwrap().len() - 3)
                .unwrap();
        }),
        ("a torn header", |tree| {
            let part = File::options().write(true).open(tree.part()).unwrap();
            part.set_len(BIG as u64 + 11).unwrap();
        }),
        ("records of nothing", |tree| {
            let mut part = File::options().append(true).open(tree.part()).unwrap();
            part.write_all(&content(4000)).unwrap();
        }),
        ("a record of all of it", |tree| {
            let mut part = File::options().append(true).open(tree.part()).unwrap();
            let record = [0u64.to_le_bytes(), (BIG as u64).to_le_bytes()].concat();
            part.write_all(&record).unwrap();
        }),
        ("another file", |tree| {
            fs::write(tree.part(), content(MIB)).unwrap()
        }),
        ("nothing", |tree| fs::write(tree.part(), b"").unwrap()),
        ("a source of the same size and time", |tree| {
            let path = tree.source().join("big");
            let time = path.metadata().unwrap().modified().unwrap();
            let file = File::options().write(true).open(path).unwrap();
            file.write_all_at(b"changed", 2 * MIB as u64 + 9).unwrap();
            file.set_times(FileTimes::new().set_modified(time)).unwrap();
        }),
        ("a source of another time", |tree| {
            let file = File::options()
                .write(true)
                .open(tree.source().join("big"))
                .unwrap();
            file.write_all_at(b"changed", 2 * MIB as u64 + 9).unwrap();
            file.set_times(FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(9)))
                .unwrap();
        }),
        ("a source of another size", |tree| {
            fs::write(tree.source().join("big"), content(BIG - 5000)).unwrap();
        }),
    ];
    for (what, harm) in harms {
        let (tree, job) = cut_late();
        harm(&tree);
        let outcome = tree.finish(&job);
        let resumed = number(&outcome, "bytes_resumed");
        let anew = matches!(
            what,
            "zeros"
                | "a torn header"
                | "another file"
                | "nothing"
                | "a source of another time"
                | "a source of another size"
        );
        assert_eq!(resumed == 0, anew, "{what}: {outcome}");
        let size = tree.source().join("big").metadata().unwrap().size();
        assert_eq!(number(&outcome, "bytes") + resumed, size as usize, "{what}");
    }
}

#[test]
fn what_is_no_part_of_this_user_is_left_alone() {
    type Harm = fn(&Path, &Path);
    let harms: [(&str, Harm); 3] = [
        ("it is a symbolic link", |part, victim| {
            symlink(victim, part).unwrap()
        }),
        ("it has another name as well", |part, victim| {
            fs::hard_link(victim, part).unwrap()
        }),
        ("it is a FIFO", |part, _| {
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, part, kind, rustix::fs::Mode::RUSR, 0).unwrap();
        }),
    ];
    for (why, harm) in harms {
        let (tree, job) = cut_late();
        let victim = tree.base.path().join("victim");
        fs::write(&victim, b"precious").unwrap();
        fs::remove_file(tree.part()).unwrap();
        harm(&tree.part(), &victim);
        let outcome = Ends::run(&job).unwrap();
        let said = outcome["warnings"].to_string();
        assert!(said.contains(why), "{said}");
        let mut copied = Vec::new();
        let mut file = File::open(tree.target().join("big")).unwrap();
        file.read_to_end(&mut copied).unwrap();
        assert!(copied == content(BIG), "{why}");
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert!(tree.part().symlink_metadata().is_ok(), "{why}");
    }
}

#[test]
fn a_file_that_goes_to_a_name_of_its_own_goes_on_as_well() {
    let (tree, _) = cut_late();
    let target = tree.base.path().join("one");
    let job = job("push", &[&tree.source().join("big")], &target);
    leave_part(
        &tree.source().join("big"),
        &tree.base.path().join(".one.howdah-part"),
    );
    let outcome = Ends::run(&job).unwrap();
    assert_eq!(number(&outcome, "bytes_resumed"), LEFT);
    assert!(fs::read(&target).unwrap() == content(BIG));
    assert!(!tree.base.path().join(".one.howdah-part").exists());
}

#[test]
fn both_ends_know_the_digest_of_a_file_that_was_gone_on_with() {
    for direction in ["push", "pull"] {
        let (tree, _) = cut_late();
        let mut job = tree.job(direction, true);
        let kept = tree.base.path().join("digests");
        ends::keep_digests(&mut job, &kept);
        let outcome = tree.finish(&job);
        assert_eq!(number(&outcome, "bytes_resumed"), LEFT);
        let expected = blake3::hash(&content(BIG)).to_hex().to_string();
        assert_eq!(ends::digests(&kept), [("big".into(), expected)]);
    }
}

#[test]
fn a_copy_that_is_cut_again_and_again_goes_on_each_time() {
    let (tree, job) = cut_late();
    for _ in 0..2 {
        let ends = Ends::start(&job, &plan());
        // On a busy machine it may finish before it is stopped.
        ends.wait_until(|progress| {
            progress["bytes_resumed"].as_u64().unwrap() > MIB as u64 || progress["phase"] == "done"
        });
        ends.session.cancel();
        let _ = ends.result();
    }
    let outcome = tree.finish(&job);
    assert!(number(&outcome, "bytes") <= BIG - LEFT, "{outcome}");
}

#[test]
fn a_dry_run_says_that_it_would_copy_and_touches_no_part() {
    let (tree, mut job) = cut_late();
    let before = fs::read(tree.part()).unwrap();
    job["dry_run"] = json!(true);
    let outcome = Ends::run(&job).unwrap();
    assert_eq!(outcome["dry_run_plan"][0]["action"], "copy");
    assert!(fs::read(tree.part()).unwrap() == before);
}

#[test]
fn what_an_interrupted_copy_has_left_is_not_copied_further() {
    let (tree, _) = cut_late();
    let further = tree.base.path().join("further");
    let outcome = Ends::run(&job("push", &[&tree.target()], &further)).unwrap();
    assert!(
        outcome["warnings"][0]
            .as_str()
            .unwrap()
            .ends_with(".big.howdah-part: it is what a copy that was interrupted has left")
    );
    assert!(listing(&further).is_empty());
}

#[test]
fn a_folder_under_a_new_name_is_gone_on_with_and_takes_in_no_source_twice() {
    for direction in ["push", "pull"] {
        let tree = Tree::new();
        let job = job(direction, &[&tree.source()], &tree.target());
        tree.cut(&job, 6 * MIB);
        let outcome = tree.finish(&job);
        let was_there = number(&outcome, "bytes_skipped") + number(&outcome, "bytes_resumed");
        assert!(was_there > 3 * MIB, "{outcome}");
        // Finished, it is a folder as any other: the same command puts the source into it.
        Ends::run(&job).unwrap();
        let within = tree.target().join("source");
        assert!(listing(&within) == listing(&tree.source()), "{direction}");
    }
}

#[test]
fn another_source_goes_into_a_folder_that_was_not_finished() {
    let tree = Tree::new();
    let other = tree.base.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("one"), content(9)).unwrap();
    let first = job("push", &[&tree.source()], &tree.target());
    tree.cut(&first, 6 * MIB);
    Ends::run(&job("push", &[&other], &tree.target())).unwrap();
    assert_eq!(
        fs::read(tree.target().join("other/one")).unwrap(),
        content(9)
    );
    Ends::run(&first).unwrap();
    assert!(!tree.target().join("source").exists());
    assert_eq!(fs::read(tree.target().join("big")).unwrap(), content(BIG));
}
