//! File systems that keep no modes, no times, or not all names, as those of cameras, and some that networks and clouds mount.
//!
//! Needs root. Without it the tests are ignored; in CI they fail.

#[path = "../ends/mod.rs"]
#[allow(dead_code, reason = "other tests need the rest of it")]
mod ends;

mod one_name;
#[path = "../../../cc/tests/privilege/mod.rs"]
mod privilege;
mod system;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use fuser::BackgroundSession;
use rustix::fs::FlockOperation;
use serde_json::{Value, json};

use ends::{Ends, content, job};
use privilege::tests;
use system::{Lacks, Told};

const MIB: usize = 1 << 20;
const MODES: &str = "modes are not kept: the file system refuses them, first for ";
const TIMES: &str = "times are not kept: the file system refuses them, first for ";
/// The files of the tree, and the bytes in them.
const FILES: usize = 45;

/// A tree on a disk as usual, and a file system without modes beside it.
struct World {
    /// Before the folder that holds it, so that it is gone when the folder is removed.
    _mounted: BackgroundSession,
    told: Told,
    base: tempfile::TempDir,
}

impl World {
    fn new(lacks: Lacks) -> Self {
        // SAFETY: no memory is shared in a new way; only this thread's view of mounts changes.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
        let private = Command::new("mount")
            .args(["--make-rprivate", "/"])
            .status();
        assert!(private.unwrap().success());
        let base = tempfile::tempdir().unwrap();
        let mount = base.path().join("mount");
        fs::create_dir(&mount).unwrap();
        let (mounted, told) = system::mount(&mount, lacks).unwrap();
        let world = Self {
            _mounted: mounted,
            told,
            base,
        };
        let source = world.source();
        fs::create_dir_all(source.join("sub/closed")).unwrap();
        for number in 0..40 {
            let path = source.join(format!("sub/{number}"));
            fs::write(&path, content(number * 100)).unwrap();
        }
        fs::write(source.join("sub/closed/file"), b"closed").unwrap();
        for number in 0..3 {
            fs::write(source.join(format!("big {number}")), content(2 * MIB)).unwrap();
        }
        // It can make no holes either.
        let holed = File::create(source.join("holed")).unwrap();
        holed.set_len(5 * MIB as u64 + 7).unwrap();
        holed.write_all_at(b"data", 2 * MIB as u64).unwrap();
        symlink("big 1", source.join("link")).unwrap();
        fs::set_permissions(source.join("big 1"), fs::Permissions::from_mode(0o400)).unwrap();
        let closed = source.join("sub/closed");
        fs::set_permissions(closed, fs::Permissions::from_mode(0o500)).unwrap();
        world
    }

    fn source(&self) -> PathBuf {
        self.base.path().join("src")
    }

    fn job(&self, direction: &str, keep: &Value) -> Value {
        let target = self.base.path().join("mount").join(direction);
        let mut job = job(direction, &[&self.source().join(".")], &target);
        job["destination_is_folder"] = json!(true);
        job["keep"] = keep.clone();
        job
    }

    /// Whether all is there as far as the file system keeps it.
    fn check(&self, direction: &str, with_times: bool) {
        let target = self.base.path().join("mount").join(direction);
        let told = |root: &Path| -> Vec<_> {
            let entries = ends::listing(root).into_iter();
            let told = entries.map(|(path, _, s, ns, content)| {
                let time = with_times.then_some((s, ns));
                (path, time, blake3::hash(&content))
            });
            told.collect()
        };
        assert_eq!(told(&target), told(&self.source()), "{direction}");
        let mode = fs::metadata(target.join("big 1")).unwrap().mode();
        assert_eq!(mode & 0o7777, u32::from(system::MODE));
    }
}

/// Copies, and looks for these warnings and so many files sent.
fn copy(job: &Value, warnings: &[&str], files: usize) {
    let outcome = Ends::run(job).unwrap();
    assert_eq!(outcome["left_out"], json!([]));
    assert_eq!(outcome["files"], json!(files));
    let said = outcome["warnings"].as_array().unwrap();
    let has = |(said, warning): (&Value, &&str)| said.as_str().unwrap().contains(warning);
    let as_expected = said.len() == warnings.len() && said.iter().zip(warnings).all(has);
    assert!(as_expected, "{said:?}");
}

fn modes_that_are_refused_cost_one_warning_and_none_where_they_are_not_kept() {
    let world = World::new(Lacks::Nothing);
    for direction in ["push", "pull"] {
        let usual = world.job(direction, &json!({}));
        copy(&usual, &[MODES], FILES);
        world.check(direction, true);
        copy(&usual, &[MODES], 0);
        copy(&world.job(direction, &json!({"perms": false})), &[], 0);
    }
    for direction in ["push", "pull"] {
        let mut job = world.job(direction, &json!({"perms": false}));
        job["skip"] = json!({"missing": false, "there": false, "newer": false, "same": "nothing"});
        copy(&job, &[], FILES);
        world.check(direction, true);
    }
}

fn times_that_are_refused_cost_one_warning_and_none_where_they_are_not_kept() {
    let world = World::new(Lacks::Times);
    // Which file has another name is told by size alone where its time is not that of its source.
    let source = world.source();
    fs::hard_link(source.join("big 0"), source.join("sub/other name")).unwrap();
    for direction in ["push", "pull"] {
        let usual = world.job(direction, &json!({"hard_links": true}));
        copy(&usual, &[MODES, TIMES], FILES);
        world.check(direction, false);
        // They are not known by their times, as the warning says.
        copy(&usual, &[MODES, TIMES], FILES);
        let mut by_size = usual.clone();
        by_size["skip"] = json!({"missing": false, "there": false, "newer": false, "same": "size"});
        copy(&by_size, &[MODES, TIMES], 0);
        let none = json!({"perms": false, "times": false, "hard_links": true});
        copy(&world.job(direction, &none), &[], FILES);
        world.check(direction, false);
        let target = world.base.path().join("mount").join(direction);
        let inode = |name: &str| fs::metadata(target.join(name)).unwrap().ino();
        assert_eq!(inode("big 0"), inode("sub/other name"));
    }
}

/// Waits until the last thread of a copy that was cut has closed a file, which it had locked.
fn wait_until_let_go(path: &Path) {
    let file = File::open(path).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        assert!(Instant::now() < deadline, "{} stays locked", path.display());
        thread::sleep(Duration::from_millis(5));
    }
}

fn a_copy_that_was_cut_goes_on_where_no_modes_are_kept() {
    let world = World::new(Lacks::Nothing);
    let source = world.source();
    fs::remove_dir_all(&source).unwrap();
    fs::create_dir(&source).unwrap();
    fs::write(source.join("big"), content(32 * MIB + 5)).unwrap();
    for (direction, keep) in [
        ("push", json!({})),
        ("pull", json!({"perms": false, "times": false})),
    ] {
        let target = world.base.path().join("mount").join(direction);
        let mut job = job(direction, &[&source], &target);
        job["keep"] = keep;
        let ends = Ends::start(&job, &json!({"pacing_bps": 50_000_000, "streams": 2}));
        ends.wait_for_bytes(8 * MIB as u64);
        ends.session.cancel();
        ends.result().unwrap_err();
        wait_until_let_go(&target.join(".big.howdah-part"));
        let outcome = Ends::run(&job).unwrap();
        let (sent, resumed) = (&outcome["bytes"], &outcome["bytes_resumed"]);
        let (sent, resumed) = (sent.as_u64().unwrap(), resumed.as_u64().unwrap());
        assert_eq!(sent + resumed, 32 * MIB as u64 + 5);
        assert!(
            resumed >= 4 * MIB as u64,
            "{direction}: {resumed} bytes were there"
        );
        assert_eq!(ends::listing(&target).len(), 1);
        assert_eq!(fs::read(target.join("big")).unwrap(), content(32 * MIB + 5));
    }
}

/// A flush of such a file system as a whole (`syncfs`) does not reach who keeps the files. It lies below the target.
fn each_file_and_folder_is_flushed_alone_also_where_files_are_skipped() {
    let world = World::new(Lacks::Nothing);
    let source = world.base.path().join("from");
    // More than are flushed one by one where a whole file system can be.
    let folders = 70;
    for number in 0..folders {
        let folder = source.join(format!("mount/{number}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("file {number}")), content(number)).unwrap();
    }
    for direction in ["push", "pull"] {
        let mut job = job(direction, &[&source.join(".")], world.base.path());
        job["destination_is_folder"] = json!(true);
        copy(&job, &[MODES], folders);
        assert_eq!(world.told.unflushed(), [""; 0], "{direction}");
        world.told.forget_flushes_of_files();
        assert_eq!(world.told.unflushed().len(), folders);
        copy(&job, &[MODES], 0);
        assert_eq!(world.told.unflushed(), [""; 0], "{direction}, skipped");
        for number in 0..folders {
            let copied = world.base.path().join(format!("mount/{number}"));
            fs::remove_dir_all(copied).unwrap();
        }
    }
}

fn main() -> ExitCode {
    let needing = tests![
        modes_that_are_refused_cost_one_warning_and_none_where_they_are_not_kept,
        times_that_are_refused_cost_one_warning_and_none_where_they_are_not_kept,
        a_copy_that_was_cut_goes_on_where_no_modes_are_kept,
        each_file_and_folder_is_flushed_alone_also_where_files_are_skipped,
        one_name::a_file_that_would_replace_one_of_this_copy_is_left_out_and_named,
        one_name::other_kinds_with_such_names_are_left_out_too,
        one_name::a_folder_that_would_become_one_with_another_is_left_out,
        one_name::a_file_is_not_skipped_because_of_another_one,
        one_name::what_was_there_before_under_another_name_is_replaced,
        one_name::a_removal_takes_nothing_that_was_placed,
        one_name::a_copy_that_was_cut_goes_on_and_leaves_out_the_same,
    ];
    privilege::run([(privilege::missing_root(), needing)])
}
