//! Copies to a disk that fails with EIO in the middle, and to one that loses what the page cache still has.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fuser::BackgroundSession;
use howdah_failing::{Fault, Told};
use rustix::fs::FlockOperation;
use serde_json::json;

use super::ends::{Ends, content, job};
use super::machine::DISK_BYTES;
use super::{MIB, listing, make_ext4, own_mounts, run, tree};

/// A folder on a disk that fails when it is told to, and what is beside it.
struct Failing {
    /// Before the folder that holds it, so that it is gone when the folder is removed.
    _mounted: BackgroundSession,
    told: Told,
    base: tempfile::TempDir,
}

impl Failing {
    fn new() -> Self {
        own_mounts();
        let base = tempfile::tempdir().unwrap();
        for name in ["kept", "disk", "source"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let (kept, disk) = (base.path().join("kept"), base.path().join("disk"));
        let (mounted, told) = howdah_failing::mount(&kept, &disk).unwrap();
        Self {
            _mounted: mounted,
            told,
            base,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }
}

/// Everything but parts is as it must be.
fn assert_no_wrong_byte(target: &Path, source: &Path) {
    let expected = listing(source);
    for (path, .., found) in listing(target) {
        let hidden = path.file_name().unwrap().to_str().unwrap().starts_with('.');
        let known = expected.iter().find(|(name, ..)| *name == path);
        match known {
            Some((.., whole)) => assert_eq!(found, *whole, "{} has wrong bytes", path.display()),
            None => assert!(hidden, "{} is left", path.display()),
        }
    }
}

/// The error names a file of the target and says that its disk failed.
fn assert_clear(error: &str, target: &Path) {
    let named = error.contains(target.to_str().unwrap());
    assert!(named, "it names no file: {error}");
    assert!(error.contains("its disk has failed"), "{error}");
    assert!(error.contains("run the same command again"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

pub fn a_disk_that_fails_ends_a_copy_that_names_the_file_and_goes_on_when_it_is_well() {
    let failing = Failing::new();
    let source = failing.at("source");
    tree(&source);
    let expected = listing(&source);
    let faults = [Fault::Writes, Fault::Flushes, Fault::Closes];
    for (number, fault) in faults.into_iter().enumerate() {
        for direction in ["push", "pull"] {
            let target = failing.at(&format!("disk/{number} {direction}"));
            let job = job(direction, &[&source.join(".")], &target);
            let ends = Ends::start(&job, &json!({"pacing_bps": 50_000_000, "streams": 2}));
            ends.wait_for_bytes(4 * MIB as u64);
            let before = failing.told.failed();
            failing.told.fail(fault.clone());
            let error = ends.result().unwrap_err();
            failing.told.be_well();
            assert!(failing.told.failed() > before, "nothing has failed");
            assert_clear(&error, &target);
            assert_no_wrong_byte(&target, &source);
            Ends::run(&job).unwrap();
            assert_eq!(listing(&target), expected, "{number} {direction}");
        }
    }
}

/// What is left out where everything else is copied: the error says the same of the disk.
pub fn a_disk_that_fails_is_named_where_a_link_or_an_attribute_is_left_out() {
    let failing = Failing::new();
    let source = failing.at("source");
    for direction in ["push", "pull"] {
        let target = failing.at("disk").join(direction);
        let mut job = job(direction, &[&source.join(".")], &target);
        job["destination_is_folder"] = json!(true);
        job["keep"] = json!({"hard_links": true});
        let one = source.join("one");
        fs::write(&one, content(4000)).unwrap();
        Ends::run(&job).unwrap();
        let link = || fs::hard_link(&one, source.join("other")).unwrap();
        let mode = || fs::set_permissions(&one, Permissions::from_mode(0o640)).unwrap();
        let changes: [(&dyn Fn(), Fault, &str, &str); 2] = [
            (&link, Fault::Names, "link", "other"),
            (&mode, Fault::Attributes, "set the mode of", "one"),
        ];
        for (change, fault, action, name) in changes {
            change();
            let before = failing.told.failed();
            failing.told.fail(fault);
            let outcome = Ends::run(&job).unwrap();
            failing.told.be_well();
            let failed = failing.told.failed();
            assert!(failed > before, "nothing has failed: {action}");
            let said = outcome["left_out"].to_string();
            let named = format!("cannot {action} {}", target.join(name).display());
            assert!(said.contains(&named), "{direction}: {said}");
            assert_clear(&said, &target);
            assert_eq!(Ends::run(&job).unwrap()["left_out"], json!([]));
        }
        let there = fs::metadata(target.join("other")).unwrap();
        assert_eq!((there.nlink(), there.mode() & 0o7777), (2, 0o640));
        fs::remove_dir_all(&source).unwrap();
        fs::create_dir(&source).unwrap();
    }
}

/// An ext4 on a disk that loses the bytes of a file.
struct Losing(Failing);

impl Losing {
    fn new() -> Self {
        let losing = Self(Failing::new());
        make_ext4(&losing.0.at("kept/image"), 2 * DISK_BYTES);
        fs::create_dir(losing.root()).unwrap();
        losing.mount();
        losing
    }

    fn root(&self) -> PathBuf {
        self.0.at("ext4")
    }

    fn mount(&self) {
        let (image, root) = (self.0.at("disk/image"), self.root());
        let paths = [image.to_str().unwrap(), root.to_str().unwrap()];
        run("mount", &["-o", "loop,commit=1", paths[0], paths[1]]);
    }

    /// Forgets what is in memory alone: only what the disk has is there afterwards.
    fn restart(&self) {
        run("umount", &[self.root().to_str().unwrap()]);
        self.mount();
    }
}

impl Drop for Losing {
    fn drop(&mut self) {
        let root = self.root();
        let _ = std::process::Command::new("umount").arg(root).output();
    }
}

/// Waits until the last thread of a copy that was cut has closed a file, which it had locked.
fn wait_until_let_go(path: &Path) -> File {
    let file = File::options().write(true).open(path).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        assert!(Instant::now() < deadline, "{} stays locked", path.display());
        thread::sleep(Duration::from_millis(5));
    }
    rustix::fs::flock(&file, FlockOperation::Unlock).unwrap();
    file
}

/// Linux tells of a loss once. Whoever opens the file after that is told nothing, and memory has the bytes.
pub fn a_part_that_was_lost_and_told_of_to_another_program_is_not_taken_for_written() {
    let losing = Losing::new();
    let source = losing.0.at("source");
    fs::write(source.join("big"), content(32 * MIB + 5)).unwrap();
    let bytes = fs::read(source.join("big")).unwrap();
    // What is lost of it: the rest is on the disk.
    let first = losing.0.at("first");
    for direction in ["push", "pull"] {
        let target = losing.root().join(direction);
        let job = job(direction, &[&source.join(".")], &target);
        fs::write(&first, &bytes[..2 * MIB]).unwrap();
        losing.0.told.fail(Fault::of(&first).unwrap());
        let before = losing.0.told.failed();
        let ends = Ends::start(&job, &json!({"pacing_bps": 50_000_000, "streams": 1}));
        ends.wait_for_bytes(8 * MIB as u64);
        ends.session.cancel();
        ends.result().unwrap_err();
        let part = wait_until_let_go(&target.join(".big.howdah-part"));
        let told = part.sync_data().unwrap_err();
        assert_eq!(told.raw_os_error(), Some(libc::EIO));
        assert!(losing.0.told.failed() > before);
        part.sync_data().expect("it is told once");
        drop(part);
        losing.0.told.be_well();
        let outcome = Ends::run(&job).unwrap();
        let resumed = outcome["bytes_resumed"].as_u64().unwrap();
        assert!(resumed >= 4 * MIB as u64, "{resumed} bytes were there");
        losing.restart();
        let there = fs::read(target.join("big")).unwrap();
        assert!(there == bytes, "{direction}: the disk has other bytes");
    }
}
