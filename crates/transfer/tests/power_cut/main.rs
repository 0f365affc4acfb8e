//! What a power cut leaves, on a real ext4: the file system is shut down as `EXT4_IOC_SHUTDOWN` does
//! it, so that nothing is kept that was not on stable storage, and mounted again. `replay` does the same
//! with all that a disk was sent, and with parts of it.
//!
//! Needs root. Without it the tests are ignored; in CI they fail.

#[path = "../ends/mod.rs"]
#[allow(dead_code, reason = "other tests need the rest of it")]
mod ends;

mod copies;
mod excluded;
mod failing;
mod machine;
#[path = "../../../cc/tests/privilege/mod.rs"]
mod privilege;
mod recorder;
mod replay;

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use serde_json::json;

use ends::{Ends, content, job};
use failing::{
    a_disk_that_fails_ends_a_copy_that_names_the_file_and_goes_on_when_it_is_well,
    a_disk_that_fails_is_named_where_a_link_or_an_attribute_is_left_out,
    a_part_that_was_lost_and_told_of_to_another_program_is_not_taken_for_written,
};
use privilege::tests;
use replay::{a_copy_without_sync_flushes_nothing, no_cut_leaves_what_the_guarantees_exclude};

const MIB: usize = 1 << 20;
/// `EXT4_IOC_SHUTDOWN`, `_IOR('X', 125, __u32)`, and `EXT4_GOING_FLAGS_NOLOGFLUSH` (fs/ext4/ext4.h):
/// what the journal holds in memory alone is lost, as in a power cut.
const SHUTDOWN: libc::c_ulong = 0x8004_587d;
const WITHOUT_FLUSH: u32 = 2;

/// An ext4 in a file, mounted in a mount namespace of this thread and those it starts.
struct Disk {
    base: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        own_mounts();
        let disk = Self {
            base: tempfile::tempdir().unwrap(),
        };
        make_ext4(&disk.image(), 256 << 20);
        fs::create_dir(disk.root()).unwrap();
        disk.mount();
        disk
    }

    fn image(&self) -> PathBuf {
        self.base.path().join("image")
    }

    fn root(&self) -> PathBuf {
        self.base.path().join("disk")
    }

    /// Names go to the journal within a second, so that a name that comes too early shows.
    fn mount(&self) {
        let (image, root) = (self.image(), self.root());
        let paths = [image.to_str().unwrap(), root.to_str().unwrap()];
        run("mount", &["-o", "loop,commit=1", paths[0], paths[1]]);
    }

    /// Cuts the power: every write from now on fails.
    fn cut(&self) {
        let (root, how) = (File::open(self.root()).unwrap(), WITHOUT_FLUSH);
        // SAFETY: the call reads one u32, which outlives it.
        let done = unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN, &raw const how) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    /// Starts again after the power was cut.
    fn restart(&self) {
        // The last thread of an end that failed may still close its files.
        let path = self.root();
        let unmounted = (0..100).any(|_| {
            thread::sleep(Duration::from_millis(50));
            Command::new("umount")
                .arg(&path)
                .output()
                .unwrap()
                .status
                .success()
        });
        assert!(unmounted, "{} stays busy", path.display());
        self.mount();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.root()).output();
    }
}

/// Gives this thread, and those it starts, mounts of their own.
fn own_mounts() {
    // SAFETY: no memory is shared in a new way; only this thread's view of mounts changes.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
    run("mount", &["--make-rprivate", "/"]);
}

/// Makes an ext4 in a new file.
fn make_ext4(image: &Path, bytes: u64) {
    File::create_new(image).unwrap().set_len(bytes).unwrap();
    run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
}

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {said}");
}

/// What is below a folder: path, mode, time, and the digest of what it holds.
fn listing(root: &Path) -> Vec<(PathBuf, u32, i64, i64, blake3::Hash)> {
    let entries = ends::listing(root).into_iter();
    entries
        .map(|(path, mode, s, ns, content)| (path, mode, s, ns, blake3::hash(&content)))
        .collect()
}

/// A tree with small and big files, which is not on the disk that fails.
fn tree(root: &Path) {
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    for number in 0..8 {
        fs::write(
            root.join(format!("big {number}")),
            content(3 * MIB + number),
        )
        .unwrap();
    }
    for number in 0..150 {
        fs::write(root.join(format!("sub/{number}")), content(number * 100)).unwrap();
    }
    fs::write(root.join("sub/deep/one"), content(400_000)).unwrap();
    copies::write_holed(&root.join("holed"), 0);
    fs::set_permissions(root.join("sub"), fs::Permissions::from_mode(0o710)).unwrap();
    symlink("big 1", root.join("link")).unwrap();
}

fn what_a_copy_has_finished_outlives_a_power_cut() {
    let disk = Disk::new();
    let source = disk.base.path().join("source");
    tree(&source);
    for direction in ["push", "pull"] {
        let target = disk.root().join(direction);
        Ends::run(&job(direction, &[&source.join(".")], &target)).unwrap();
        disk.cut();
        disk.restart();
        assert_eq!(listing(&target), listing(&source), "{direction}");
    }
    let one = disk.root().join("one");
    Ends::run(&job("push", &[&source.join("big 1")], &one)).unwrap();
    disk.cut();
    disk.restart();
    assert_eq!(fs::read(&one).unwrap(), content(3 * MIB + 1));
}

fn what_a_copy_has_skipped_outlives_a_power_cut() {
    let disk = Disk::new();
    let (source, target) = (disk.base.path().join("source"), disk.root().join("target"));
    tree(&source);
    // Another tool has written it, and flushed nothing.
    run(
        "cp",
        &["-a", source.to_str().unwrap(), target.to_str().unwrap()],
    );
    let outcome = Ends::run(&job("push", &[&source.join(".")], &target)).unwrap();
    assert_eq!(outcome["files_skipped"], 160);
    disk.cut();
    disk.restart();
    assert_eq!(listing(&target), listing(&source));
}

fn a_power_cut_in_a_copy_leaves_no_wrong_byte_and_the_same_command_finishes_it() {
    let disk = Disk::new();
    let source = disk.base.path().join("source");
    tree(&source);
    let expected = listing(&source);
    for (number, direction) in ["push", "pull", "push", "pull"].into_iter().enumerate() {
        let target = disk.root().join(format!("target {number}"));
        let job = job(direction, &[&source.join(".")], &target);
        let ends = Ends::start(&job, &json!({"pacing_bps": 25_000_000, "streams": 2}));
        ends.wait_for_bytes((2 + 4 * number as u64) * MIB as u64);
        // Two times a commit of the journal goes by, so that names that there are come to the disk.
        thread::sleep(Duration::from_millis(550 * (number as u64 / 2 * 2)));
        disk.cut();
        let error = ends.result().unwrap_err();
        assert!(error.contains("cannot "), "{error}");
        disk.restart();
        let there = if target.exists() {
            listing(&target)
        } else {
            Vec::new()
        };
        for (path, .., found) in there {
            let name = path.file_name().unwrap().to_str().unwrap();
            if let Some(whole) = name.strip_suffix(".howdah-part") {
                // What the same command goes on with, beside the file that it will be.
                let whole = path.with_file_name(&whole[1..]);
                assert!(
                    expected.iter().any(|(name, ..)| *name == whole),
                    "left: {name}"
                );
                continue;
            }
            let whole = expected.iter().find(|(name, ..)| *name == path);
            let (.., whole) = whole.unwrap_or_else(|| panic!("left: {}", path.display()));
            assert_eq!(found, *whole, "{} has wrong bytes", path.display());
        }
        Ends::run(&job).unwrap();
        assert_eq!(listing(&target), expected, "{direction}");
    }
}

fn a_power_cut_in_a_file_loses_what_was_not_on_the_disk_and_no_more() {
    let disk = Disk::new();
    let source = disk.base.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("big"), content(64 * MIB + 5)).unwrap();
    for direction in ["push", "pull"] {
        let target = disk.root().join(direction);
        let job = job(direction, &[&source.join(".")], &target);
        let ends = Ends::start(&job, &json!({"pacing_bps": 50_000_000, "streams": 2}));
        ends.wait_for_bytes(8 * MIB as u64);
        // The part's journal goes to the disk each second, and a commit of the file system's goes by.
        thread::sleep(Duration::from_millis(2500));
        disk.cut();
        ends.result().unwrap_err();
        disk.restart();
        let left = ends::listing(&target);
        let names: Vec<_> = left.iter().map(|(path, ..)| path).collect();
        assert_eq!(names, [Path::new(".big.howdah-part")]);
        let outcome = Ends::run(&job).unwrap();
        let (sent, resumed) = (&outcome["bytes"], &outcome["bytes_resumed"]);
        let (sent, resumed) = (sent.as_u64().unwrap(), resumed.as_u64().unwrap());
        assert_eq!(sent + resumed, 64 * MIB as u64 + 5);
        assert!(resumed >= 4 * MIB as u64, "{resumed} bytes were there");
        assert_eq!(listing(&target), listing(&source), "{direction}");
        disk.cut();
        disk.restart();
        assert_eq!(listing(&target), listing(&source), "{direction}");
    }
}

fn main() -> ExitCode {
    let needing = tests![
        what_a_copy_has_finished_outlives_a_power_cut,
        what_a_copy_has_skipped_outlives_a_power_cut,
        a_power_cut_in_a_copy_leaves_no_wrong_byte_and_the_same_command_finishes_it,
        no_cut_leaves_what_the_guarantees_exclude,
        a_copy_without_sync_flushes_nothing,
        a_power_cut_in_a_file_loses_what_was_not_on_the_disk_and_no_more,
        a_disk_that_fails_ends_a_copy_that_names_the_file_and_goes_on_when_it_is_well,
        a_disk_that_fails_is_named_where_a_link_or_an_attribute_is_left_out,
        a_part_that_was_lost_and_told_of_to_another_program_is_not_taken_for_written,
    ];
    privilege::run([(privilege::missing_root(), needing)])
}
