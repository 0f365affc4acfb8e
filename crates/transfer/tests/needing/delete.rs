//! Copies that remove at the target what is not at the source.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use crate::ends::{self, Ends, content, job, listing};
use howdah_transfer::Reach;
use rustix::thread::CapabilitySet;
use serde_json::{Value, json};

/// The source `src` and a copy of it in `dst`, to which something was added.
fn world() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let base = tempfile::tempdir().unwrap();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir_all(source.join("sub/deep")).unwrap();
    for name in ["a", "b", "sub/c", "sub/deep/d"] {
        fs::write(source.join(name), content(1000)).unwrap();
    }
    Ends::run(&job("push", &[&source], &target)).unwrap();
    fs::create_dir_all(target.join("sub/old/older")).unwrap();
    for name in ["x", "sub/y", "sub/old/z", "sub/old/older/z", "sub/deep/y"] {
        fs::write(target.join(name), "old").unwrap();
    }
    symlink("a", target.join("sub/old/link")).unwrap();
    (base, source, target)
}

/// What is in `world` beyond the source.
const EXTRANEOUS: u64 = 8;

fn deleting(direction: &str, source: &Path, target: &Path) -> Value {
    let mut job = job(direction, &[&source.join(".")], target);
    job["delete"] = json!(true);
    job
}

fn removal(extraneous: u64, removed: u64) -> Value {
    json!({"extraneous": extraneous, "removed": removed, "failed": 0, "held": null})
}

pub fn the_target_becomes_what_the_source_is_either_way() {
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        fs::write(source.join("new"), content(5000)).unwrap();
        let mut dry = deleting(direction, &source, &target);
        dry["dry_run"] = json!(true);
        let before = listing(&target);
        let plan = Ends::run(&dry).unwrap();
        assert_eq!(listing(&target), before, "a dry run changes nothing");
        assert_eq!(plan["removal"], removal(EXTRANEOUS, 0), "{direction}");
        let mut gone: Vec<_> = plan["dry_run_plan"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["action"] == "remove")
            .map(|one| {
                ends::path(&one["path"])
                    .into_os_string()
                    .into_string()
                    .unwrap()
            })
            .collect();
        gone.sort();
        let expected = [
            "sub/deep/y",
            "sub/old/",
            "sub/old/link",
            "sub/old/older/",
            "sub/old/older/z",
            "sub/old/z",
            "sub/y",
            "x",
        ];
        assert_eq!(gone, expected);
        let outcome = Ends::run(&deleting(direction, &source, &target)).unwrap();
        assert_eq!(outcome["removal"], removal(EXTRANEOUS, EXTRANEOUS));
        assert_eq!(outcome["files"], 1);
        assert_eq!(listing(&target), listing(&source), "{direction}");
        let again = Ends::run(&deleting(direction, &source, &target)).unwrap();
        assert_eq!(again["removal"], removal(0, 0));
    }
}

pub fn without_the_wish_nothing_is_removed() {
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        let outcome = Ends::run(&job(direction, &[&source.join(".")], &target)).unwrap();
        assert!(outcome["removal"].is_null());
        assert!(target.join("x").exists() && target.join("sub/old/z").exists());
    }
}

pub fn where_more_would_go_than_may_nothing_goes() {
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        let mut job = deleting(direction, &source, &target);
        job["max_delete"] = json!(EXTRANEOUS - 1);
        let before = listing(&target);
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["removal"]["held"], "too-many");
        assert_eq!(outcome["removal"]["extraneous"], EXTRANEOUS);
        let names = |listing: Vec<(PathBuf, u32, i64, i64, Vec<u8>)>| {
            listing.into_iter().map(|one| one.0).collect::<Vec<_>>()
        };
        assert_eq!(names(listing(&target)), names(before));
        job["max_delete"] = json!(EXTRANEOUS);
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["removal"], removal(EXTRANEOUS, EXTRANEOUS));
    }
}

pub fn only_what_is_copied_as_a_whole_folder_is_cleaned() {
    let (base, source, _) = world();
    let target = base.path().join("folder");
    fs::create_dir_all(target.join("src/old")).unwrap();
    fs::write(target.join("beside"), "x").unwrap();
    let mut file = job("push", &[&source.join("a")], &target);
    file["delete"] = json!(true);
    assert_eq!(Ends::run(&file).unwrap()["removal"], removal(0, 0));
    let mut folder = job("push", &[&source], &target);
    folder["delete"] = json!(true);
    assert_eq!(Ends::run(&folder).unwrap()["removal"], removal(1, 1));
    assert!(target.join("beside").exists() && target.join("a").exists());
    assert_eq!(listing(&target.join("src")), listing(&source));
    let mut two = job("push", &[&source.join("."), &source.join("sub/.")], &target);
    two["delete"] = json!(true);
    let error = Ends::run(&two).unwrap_err();
    assert!(
        error.contains("of several sources none can be SRC/."),
        "{error}"
    );
    assert!(target.join("beside").exists());
}

pub fn a_new_target_has_nothing_to_remove() {
    let (base, source, _) = world();
    let outcome = Ends::run(&deleting("push", &source, &base.path().join("new/"))).unwrap();
    assert_eq!(outcome["removal"], removal(0, 0));
    let mut dry = deleting("push", &source, &base.path().join("newer/"));
    (dry["dry_run"], dry["destination_is_folder"]) = (json!(true), json!(true));
    assert_eq!(Ends::run(&dry).unwrap()["removal"], removal(0, 0));
}

pub fn what_cannot_be_read_switches_removal_off() {
    let mut sets = rustix::thread::capabilities(None).unwrap();
    for set in [&mut sets.effective, &mut sets.permitted] {
        set.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    }
    rustix::thread::set_capabilities(None, sets).unwrap();
    for direction in ["push", "pull"] {
        for closed in ["sub", "sub/c"] {
            let (_base, source, target) = world();
            // Another size, or it would be skipped unread.
            fs::write(source.join("sub/c"), "other").unwrap();
            let path = source.join(closed);
            let mode = fs::metadata(&path).unwrap().permissions();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
            let outcome = Ends::run(&deleting(direction, &source, &target)).unwrap();
            fs::set_permissions(&path, mode).unwrap();
            assert_eq!(
                outcome["removal"]["held"], "left-out",
                "{direction} {closed}"
            );
            assert_eq!(outcome["removal"]["removed"], 0);
            assert_eq!(outcome["left_out"].as_array().unwrap().len(), 1);
            // A folder that cannot be read has its mode at the target too.
            fs::set_permissions(target.join("sub"), fs::Permissions::from_mode(0o700)).unwrap();
            for name in ["x", "sub/c", "sub/y", "sub/old/z"] {
                assert!(target.join(name).exists(), "{direction} {closed} {name}");
            }
        }
    }
}

pub fn what_cannot_be_removed_is_named_and_the_rest_goes() {
    let mut sets = rustix::thread::capabilities(None).unwrap();
    for set in [&mut sets.effective, &mut sets.permitted] {
        set.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    }
    rustix::thread::set_capabilities(None, sets).unwrap();
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        // A folder of this user may be closed to it, and that of another one may not.
        let closed = |path: &str| {
            let mode = fs::Permissions::from_mode(0o555);
            fs::set_permissions(target.join(path), mode).unwrap();
        };
        closed("sub/old");
        closed("sub/deep");
        chown(target.join("sub/deep"), Some(12345), None).unwrap();
        let outcome = Ends::run(&deleting(direction, &source, &target)).unwrap();
        let came_to = &outcome["removal"];
        assert_eq!(
            (&came_to["removed"], &came_to["failed"]),
            (&json!(EXTRANEOUS - 1), &json!(1))
        );
        let said = outcome["warnings"].to_string();
        assert!(
            said.contains("cannot remove") && said.contains("deep/y: Permission denied"),
            "{said}"
        );
        assert!(target.join("sub/deep/y").exists() && !target.join("sub/old").exists());
    }
}

pub fn a_copy_that_is_stopped_in_the_middle_goes_on() {
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        for number in 0..30_000 {
            fs::write(target.join(format!("sub/{number}")), "").unwrap();
        }
        let job = deleting(direction, &source, &target);
        let ends = Ends::start(&job, &json!({}));
        ends.wait_until(|progress| progress["removed"].as_u64().unwrap() > 0);
        ends.session.cancel();
        let stopped = ends.result();
        let left = fs::read_dir(target.join("sub")).unwrap().count();
        assert!(stopped.is_err() || left < 10, "{stopped:?}");
        let outcome = Ends::run(&job).unwrap();
        assert!(outcome["removal"]["removed"].as_u64().unwrap() as usize >= left.saturating_sub(2));
        assert_eq!(listing(&target), listing(&source), "{direction}");
    }
}

pub fn a_far_end_that_is_confined_removes_in_its_folder_alone_and_one_that_is_read_alone_nothing() {
    let (base, source, target) = world();
    symlink("../src", target.join("way")).unwrap();
    let start = |read_only| {
        let root = File::open(&target).unwrap();
        let job = deleting("push", &source, Path::new("/."));
        Ends::start_within(Reach::beneath(root.into(), read_only), &job, &json!({})).result()
    };
    let error = start(true).unwrap_err();
    assert!(error.contains("may only read here"), "{error}");
    assert!(target.join("x").exists());
    let before = listing(&source);
    assert_eq!(
        start(false).unwrap()["removal"],
        removal(EXTRANEOUS + 1, EXTRANEOUS + 1)
    );
    assert_eq!(listing(&source), before);
    assert_eq!(listing(&target), before);
    assert!(base.path().join("src").exists());
}
