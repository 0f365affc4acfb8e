//! What is kept of files where it takes root to try: hosts with other users and groups, and
//! file systems with flags; and what of a target refuses its user, or root.
//!
//! Without root the tests are ignored; in CI they fail.

#[path = "../ends/mod.rs"]
#[allow(dead_code, reason = "other tests need the rest of it")]
mod ends;

mod accounts;
mod flags;
mod full;
#[path = "../../../cc/tests/privilege/mod.rs"]
mod privilege;
mod refused;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

use accounts::access_lists_tell_names_as_rsync_does;
use ends::job;
use flags::{
    a_file_system_gives_the_flags_that_it_has, a_file_system_without_flags_takes_none,
    flags_are_kept_with_attributes,
};
use full::what_the_source_has_not_goes_from_a_disk_that_is_full;
use privilege::tests;
use refused::{
    a_root_that_cannot_be_written_ends_the_copy,
    a_user_copies_all_but_what_others_keep_for_themselves,
    attributes_that_a_user_may_not_give_end_nothing,
    nothing_is_removed_where_it_could_not_be_looked_into,
    what_a_file_system_cannot_hold_is_left_out_before_it_is_sent,
    what_is_fixed_or_mounted_is_left_out_before_it_is_sent,
    what_is_mounted_at_the_target_is_not_emptied_with_what_the_source_has_not,
};

/// Gives this thread, and those it starts, mounts of their own.
fn own_mounts() {
    // SAFETY: no memory is shared in a new way; only this thread's view of mounts changes.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
    run("mount", &["--make-rprivate", "/"]);
}

fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// A file system, mounted in a mount namespace of this thread and those it starts.
struct Disk {
    base: tempfile::TempDir,
}

impl Disk {
    fn ext4() -> Self {
        let disk = Self::new();
        let image = disk.base.path().join("image");
        File::create_new(&image).unwrap().set_len(64 << 20).unwrap();
        let image = image.to_str().unwrap();
        run("mkfs.ext4", &["-q", "-F", image]);
        disk.mount(&["-o", "loop", image]);
        disk
    }

    fn of_memory(kind: &str) -> Self {
        let disk = Self::new();
        disk.mount(&["-t", kind, kind]);
        disk
    }

    fn new() -> Self {
        own_mounts();
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("disk")).unwrap();
        Self { base }
    }

    fn mount(&self, what: &[&str]) {
        run("mount", &[what, &[self.root().to_str().unwrap()]].concat());
    }

    fn root(&self) -> PathBuf {
        self.base.path().join("disk")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.root()).output();
    }
}

fn keeping(direction: &str, source: &Path, target: &Path, keep: Value) -> Value {
    let mut job = job(direction, &[&source.join(".")], target);
    job["destination_is_folder"] = json!(true);
    job["keep"] = keep;
    job
}

fn main() -> ExitCode {
    let missing = match rustix::process::geteuid().is_root() {
        true => None,
        false => Some("mounting needs root".to_owned()),
    };
    privilege::run(
        missing,
        tests![
            access_lists_tell_names_as_rsync_does,
            flags_are_kept_with_attributes,
            a_file_system_gives_the_flags_that_it_has,
            a_file_system_without_flags_takes_none,
            a_user_copies_all_but_what_others_keep_for_themselves,
            nothing_is_removed_where_it_could_not_be_looked_into,
            attributes_that_a_user_may_not_give_end_nothing,
            a_root_that_cannot_be_written_ends_the_copy,
            what_is_fixed_or_mounted_is_left_out_before_it_is_sent,
            what_is_mounted_at_the_target_is_not_emptied_with_what_the_source_has_not,
            what_a_file_system_cannot_hold_is_left_out_before_it_is_sent,
            what_the_source_has_not_goes_from_a_disk_that_is_full,
        ],
        vec![],
    )
}
