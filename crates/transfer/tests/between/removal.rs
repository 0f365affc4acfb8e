//! Copies between two far ends that remove what the source has not.

use std::fs;

use serde_json::{Value, json};

use super::{base, between, run};
use crate::ends::{content, listing, path, push};

/// A copy of the tree of [`base`] beside it, to which something was added, and the job that removes that.
fn grown() -> (tempfile::TempDir, Value) {
    let base = base();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let mut job = between(push(&[&src.join(".")], &dst), "sender");
    run(&job).unwrap();
    fs::create_dir_all(dst.join("sub/old/older")).unwrap();
    for name in ["x", "sub/y", "sub/old/z", "sub/old/older/z"] {
        fs::write(dst.join(name), "old").unwrap();
    }
    fs::write(src.join("new"), content(5000)).unwrap();
    job["delete"] = true.into();
    (base, job)
}

/// What [`grown`] has added.
const EXTRANEOUS: u64 = 6;

fn removal(removed: u64, held: Option<&str>) -> Value {
    json!({"extraneous": EXTRANEOUS, "removed": removed, "failed": 0, "held": held})
}

#[test]
fn what_the_source_has_not_is_removed_at_the_receiver() {
    let (base, job) = grown();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let before = listing(&dst);
    let with = |key: &str, value: Value| {
        let mut job = job.clone();
        job[key] = value;
        run(&job).unwrap()
    };
    let would = with("dry_run", true.into());
    assert_eq!(listing(&dst), before, "a dry run changes nothing");
    assert_eq!(would["removal"], removal(0, None));
    let listed = would["dry_run_plan"].as_array().unwrap();
    let mut gone: Vec<_> = listed
        .iter()
        .filter(|one| one["action"] == "remove")
        .map(|one| path(&one["path"]).display().to_string())
        .collect();
    gone.sort();
    let expected = [
        "sub/old/",
        "sub/old/older/",
        "sub/old/older/z",
        "sub/old/z",
        "sub/y",
        "x",
    ];
    assert_eq!(gone, expected);
    let bounded = with("max_delete", (EXTRANEOUS - 1).into());
    assert_eq!(bounded["removal"], removal(0, Some("too-many")));
    assert!(dst.join("new").exists() && dst.join("sub/old/older/z").exists());
    let outcome = with("max_delete", EXTRANEOUS.into());
    assert_eq!(outcome["removal"], removal(EXTRANEOUS, None));
    assert_eq!(listing(&dst), listing(&src));
}

#[test]
fn nothing_is_removed_where_the_sender_could_not_read_all() {
    let (base, _) = grown();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let above = base.path().join("above");
    fs::create_dir(&above).unwrap();
    fs::rename(&dst, above.join("src")).unwrap();
    let mut job = between(push(&[&src, &base.path().join("none")], &above), "sender");
    job["delete"] = true.into();
    let outcome = run(&job).unwrap();
    assert_eq!(outcome["removal"]["held"], "left-out");
    assert_eq!(outcome["left_out"].as_array().unwrap().len(), 1);
    assert!(above.join("src/x").exists() && above.join("src/new").exists());
    job["sources"].as_array_mut().unwrap().pop();
    assert_eq!(run(&job).unwrap()["removal"], removal(EXTRANEOUS, None));
}
