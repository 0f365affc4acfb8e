//! Folders of the target that are renamed or replaced while a copy goes into them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::ends::{Ends, content, job};

const MIB: usize = 1 << 20;

/// A base with a source: a folder with a file that takes a while.
fn world() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let base = tempfile::tempdir().unwrap();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("big"), content(8 * MIB)).unwrap();
    (base, source, target)
}

/// Copies, and changes something when a part of it has come.
fn run(job: &Value, change: impl FnOnce()) -> Result<Value, String> {
    let ends = Ends::start(job, &json!({"pacing_bps": 40_000_000, "streams": 2}));
    ends.wait_for_bytes(2 * MIB as u64);
    change();
    ends.result()
}

fn check(error: &str, changed: &Path, now: &Path) {
    let begins = format!("{} was changed during the copy: ", changed.display());
    let error = error.strip_prefix("far end: ").unwrap_or(error);
    assert!(error.starts_with(&begins), "{error}");
    let place = format!(" is now {}; move it back, or run", now.display());
    assert!(error.contains(&place), "{error}");
}

#[test]
fn a_folder_that_was_renamed_ends_the_copy_with_an_error_that_says_where_it_is() {
    for direction in ["push", "pull"] {
        for is_single in [false, true] {
            let (base, source, target) = world();
            fs::create_dir(&target).unwrap();
            let elsewhere = base.path().join("elsewhere");
            let job = match is_single {
                true => job(direction, &[&source.join("big")], &target.join("new name")),
                false => job(direction, &[&source.join(".")], &target),
            };
            let error = run(&job, || fs::rename(&target, &elsewhere).unwrap()).unwrap_err();
            check(&error, &target, &elsewhere);
            let name = if is_single { "new name" } else { "big" };
            assert_eq!(fs::read(elsewhere.join(name)).unwrap(), content(8 * MIB));
            // What the line says to do.
            fs::rename(&elsewhere, &target).unwrap();
            assert_eq!(Ends::run(&job).unwrap()["files"], 0, "{direction}");
        }
    }
}

#[test]
fn a_folder_that_was_replaced_ends_it_too_also_that_of_the_source_itself() {
    for direction in ["push", "pull"] {
        let (base, source, target) = world();
        let elsewhere = base.path().join("elsewhere");
        let replace = |folder: &Path| {
            fs::rename(folder, &elsewhere).unwrap();
            fs::create_dir(folder).unwrap();
        };
        let new = job(direction, &[&source], &target);
        let error = run(&new, || replace(&target)).unwrap_err();
        check(&error, &target, &elsewhere);
        fs::remove_dir_all(&elsewhere).unwrap();
        fs::remove_dir(&target).unwrap();
        fs::create_dir(&target).unwrap();
        let within = job(direction, &[&source], &target);
        let error = run(&within, || replace(&target.join("src"))).unwrap_err();
        check(&error, &target.join("src"), &elsewhere);
        fs::remove_dir_all(&elsewhere).unwrap();
        let outcome = Ends::run(&within).unwrap();
        assert_eq!(outcome["files"], 1);
        let copied = fs::read(target.join("src/big")).unwrap();
        assert_eq!(copied, content(8 * MIB));
    }
}
