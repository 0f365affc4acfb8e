//! What is kept of files where it takes root to try: hosts with other users and groups.
//!
//! Without root the tests are ignored; in CI they fail.

#[path = "../ends/mod.rs"]
#[allow(dead_code, reason = "other tests need the rest of it")]
mod ends;

mod accounts;
#[path = "../../../cc/tests/privilege/mod.rs"]
mod privilege;

use std::path::Path;
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

use accounts::access_lists_tell_names_as_rsync_does;
use ends::job;
use privilege::tests;

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
        tests![access_lists_tell_names_as_rsync_does],
        vec![],
    )
}
