//! Folders at the target that are closed to their owner, where the receiver is bound by modes as an ordinary user is.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::thread::CapabilitySet;
use serde_json::{Value, json};

use crate::ends::{Ends, content, job, listing};

/// Has modes bind this thread, and those it starts.
fn without_capabilities() {
    let mut sets = rustix::thread::capabilities(None).unwrap();
    for set in [&mut sets.effective, &mut sets.permitted] {
        set.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    }
    rustix::thread::set_capabilities(None, sets).unwrap();
}

fn set_mode(path: &Path, bits: u32) {
    fs::set_permissions(path, Permissions::from_mode(bits)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// The folders of the source that are closed, the innermost first.
const CLOSED: [&str; 2] = ["sub/closed/deep", "sub/closed"];

/// A folder of this test, which opens all that is in it to be removed.
struct Base(tempfile::TempDir);

impl Drop for Base {
    fn drop(&mut self) {
        let _ = Command::new("chmod")
            .args(["-R", "a+rwX"])
            .arg(self.0.path())
            .status();
    }
}

/// The source `src` with folders of mode 555, and a first copy of it in `dst`.
fn world() -> (Base, PathBuf, PathBuf) {
    let base = Base(tempfile::tempdir().unwrap());
    let [source, target] = ["src", "dst"].map(|name| base.0.path().join(name));
    fs::create_dir_all(source.join("sub/closed/deep")).unwrap();
    for name in ["same", "changed", "gone", "deep/same"] {
        fs::write(source.join("sub/closed").join(name), content(1000)).unwrap();
    }
    close(&source);
    Ends::run(&job("push", &[&source], &target)).unwrap();
    (base, source, target)
}

fn close(source: &Path) {
    for name in CLOSED {
        set_mode(&source.join(name), 0o555);
    }
}

/// Changes what is in the closed folders of a source.
fn change(source: &Path) {
    for name in CLOSED {
        set_mode(&source.join(name), 0o755);
    }
    let closed = source.join("sub/closed");
    fs::write(closed.join("changed"), content(3000)).unwrap();
    fs::write(closed.join("new"), content(3 << 20)).unwrap();
    fs::create_dir(closed.join("deep/new")).unwrap();
    fs::write(closed.join("deep/new/file"), "x").unwrap();
    fs::remove_file(closed.join("gone")).unwrap();
    std::os::unix::fs::symlink("same", closed.join("deep/link")).unwrap();
    close(source);
}

fn again(direction: &str, source: &Path, target: &Path) -> Value {
    let mut job = job(direction, &[&source.join(".")], target);
    job["delete"] = json!(true);
    job
}

pub fn what_is_new_in_a_closed_folder_is_copied_and_it_is_closed_again() {
    without_capabilities();
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        assert_eq!(listing(&target), listing(&source));
        change(&source);
        let outcome = Ends::run(&again(direction, &source, &target)).unwrap();
        assert_eq!(outcome["left_out"], json!([]), "{direction}");
        assert_eq!(outcome["removal"]["removed"], 1, "{direction}");
        assert_eq!(outcome["removal"]["failed"], 0, "{direction}");
        assert_eq!(listing(&target), listing(&source), "{direction}");
    }
}

pub fn a_folder_that_keeps_its_own_mode_has_it_again_at_the_end() {
    without_capabilities();
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        change(&source);
        set_mode(&target, 0o511);
        set_mode(&target.join("sub/closed/deep"), 0o100);
        set_mode(&target.join("sub/closed"), 0o2410);
        let mut job = again(direction, &source, &target);
        job["keep"] = json!({"perms": false});
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["left_out"], json!([]), "{direction}");
        assert_eq!(outcome["warnings"], json!([]), "{direction}");
        assert_eq!(mode(&target), 0o511);
        assert_eq!(mode(&target.join("sub/closed")), 0o2410);
        set_mode(&target.join("sub/closed"), 0o755);
        assert_eq!(mode(&target.join("sub/closed/deep")), 0o100);
        set_mode(&target.join("sub/closed/deep"), 0o755);
        let found = |root: &Path| -> Vec<_> {
            let found = listing(root).into_iter();
            found.map(|(path, .., content)| (path, content)).collect()
        };
        assert_eq!(found(&target), found(&source), "{direction}");
    }
}

pub fn a_copy_that_leaves_something_out_closes_its_folders_and_the_next_one_opens_them() {
    without_capabilities();
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        change(&source);
        let unread = source.join("sub/closed/new");
        set_mode(&unread, 0o000);
        let outcome = Ends::run(&again(direction, &source, &target)).unwrap();
        assert_eq!(outcome["left_out"].as_array().unwrap().len(), 1);
        for name in CLOSED {
            assert_eq!(mode(&target.join(name)), 0o555, "{direction} {name}");
        }
        set_mode(&unread, 0o644);
        let outcome = Ends::run(&again(direction, &source, &target)).unwrap();
        assert_eq!(outcome["left_out"], json!([]));
        assert_eq!(listing(&target), listing(&source), "{direction}");
    }
}

pub fn a_folder_of_another_user_and_one_that_is_not_of_the_copy_stay_closed() {
    without_capabilities();
    let (_base, source, target) = world();
    change(&source);
    let closed = target.join("sub/closed");
    chown(&closed, Some(12345), None).unwrap();
    let outcome = Ends::run(&again("push", &source, &target)).unwrap();
    let shown = closed.display();
    let refused =
        format!("far end: no permission to write into folder {shown}; check its owner and mode");
    assert_eq!(outcome["left_out"], json!([refused]));
    assert_eq!(mode(&closed), 0o555);

    set_mode(&target, 0o555);
    let error = Ends::run(&job("push", &[&source], &target)).unwrap_err();
    assert!(error.contains("no permission to make folder"), "{error}");
    assert_eq!(mode(&target), 0o555);
}

pub fn what_is_in_a_closed_folder_is_there_for_who_ignores_what_is_there() {
    without_capabilities();
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        change(&source);
        let there = fs::read(target.join("sub/closed/changed")).unwrap();
        set_mode(&target.join("sub/closed"), 0o600);
        let mut job = again(direction, &source, &target);
        job["skip"] =
            json!({"missing": false, "there": true, "newer": false, "same": "size-and-time"});
        Ends::run(&job).unwrap();
        let closed = target.join("sub/closed");
        assert_eq!(fs::read(closed.join("changed")).unwrap(), there);
        assert!(closed.join("new").exists() && mode(&closed) == 0o555);
    }
}
