//! Flags of files (chattr(1)), on file systems that have them and on one that has none.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::ends::{Ends, listing};
use crate::{Disk, keeping, run};

/// The flags of a file as lsattr(1) shows them, without what the file system says of how it stores it.
fn flags(path: &Path) -> String {
    let said = run("lsattr", &["-d", path.to_str().unwrap()]);
    let (flags, _) = said.split_once(' ').unwrap();
    flags
        .chars()
        .filter(|flag| "SdADia".contains(*flag))
        .collect()
}

fn set(path: &Path, change: &str) {
    run("chattr", &[change, path.to_str().unwrap()]);
}

fn tree(source: &Path) {
    fs::create_dir_all(source.join("folder")).unwrap();
    for name in ["none", "some", "fixed"] {
        fs::write(source.join(name), name).unwrap();
    }
    fs::write(source.join("folder/big"), vec![7; 3 << 20]).unwrap();
    set(&source.join("some"), "+SdA");
    set(&source.join("folder/big"), "+d");
    set(&source.join("folder"), "+AD");
    set(&source.join("fixed"), "+dia");
}

const EXPECTED: [(&str, &str); 5] = [
    ("none", ""),
    ("some", "SdA"),
    ("fixed", "d"),
    ("folder", "DA"),
    ("folder/big", "d"),
];

fn found(target: &Path) -> Vec<(&'static str, String)> {
    let each = EXPECTED.iter();
    each.map(|(name, _)| (*name, flags(&target.join(name))))
        .collect()
}

fn expected() -> Vec<(&'static str, String)> {
    EXPECTED
        .map(|(name, flags)| (name, flags.to_owned()))
        .to_vec()
}

fn none() -> Vec<(&'static str, String)> {
    EXPECTED.map(|(name, _)| (name, String::new())).to_vec()
}

/// What a copy warned of, whichever end it was.
fn warnings(outcome: &Value) -> Vec<&str> {
    assert_eq!(outcome["left_out"], json!([]));
    let lines = outcome["warnings"].as_array().unwrap();
    let lines = lines.iter().map(|line| line.as_str().unwrap());
    lines
        .map(|line| line.strip_prefix("far end: ").unwrap_or(line))
        .collect()
}

pub fn flags_are_kept_with_attributes() {
    let disk = Disk::ext4();
    let (source, target) = (disk.root().join("src"), disk.root().join("dst"));
    tree(&source);
    for direction in ["push", "pull"] {
        let copy = |keep: Value| Ends::run(&keeping(direction, &source, &target, keep)).unwrap();
        copy(json!({"acls": true, "top": true}));
        assert_eq!(found(&target), none(), "{direction}: it was not asked for");
        // What is there gets them, and is not sent again.
        let outcome = copy(json!({"xattrs": true}));
        assert_eq!(
            (&outcome["bytes"], &outcome["files_skipped"]),
            (&json!(0), &json!(4))
        );
        assert_eq!(found(&target), expected(), "{direction}");
        fs::remove_dir_all(&target).unwrap();
        // What comes anew has them from the start, but for those with which nothing could replace it.
        let outcome = copy(json!({"xattrs": true}));
        assert_eq!(found(&target), expected(), "{direction}");
        assert_eq!(listing(&target), listing(&source));
        let lines = warnings(&outcome);
        let start = "flags i and a are not kept: nothing could replace such a file later; first ";
        let named = lines[0].starts_with(start) && lines[0].ends_with("/fixed");
        assert!(lines.len() == 1 && named, "{lines:?}");
        // One that is not at the source is taken, and one that is is given.
        set(&target.join("none"), "+d");
        set(&target.join("some"), "-A");
        set(&target.join("folder"), "-D");
        let outcome = copy(json!({"xattrs": true}));
        assert_eq!(outcome["bytes"], 0);
        assert_eq!(found(&target), expected(), "{direction}");
        fs::remove_dir_all(&target).unwrap();
    }
    set(&source.join("fixed"), "-ia");
}

pub fn a_file_system_gives_the_flags_that_it_has() {
    let disk = Disk::ext4();
    // It has d and A.
    let some = Disk::of_memory("tmpfs");
    let source = disk.root().join("src");
    tree(&source);
    set(&source.join("fixed"), "-ia");
    for direction in ["push", "pull"] {
        let target = some.root().join(direction);
        let job = keeping(direction, &source, &target, json!({"xattrs": true}));
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(listing(&target), listing(&source));
        let start = "flags are not kept: the file system has not all of them, first for ";
        let lines = warnings(&outcome);
        assert!(lines.len() == 1 && lines[0].starts_with(start), "{lines:?}");
        assert_eq!(flags(&target.join("some")), "dA");
        assert_eq!(flags(&target.join("folder")), "A");
    }
}

pub fn a_file_system_without_flags_takes_none() {
    let disk = Disk::ext4();
    let bare = Disk::of_memory("ramfs");
    let source = bare.root().join("src");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "file").unwrap();
    for direction in ["push", "pull"] {
        let target = disk.root().join(direction);
        let job = keeping(direction, &source, &target, json!({"xattrs": true}));
        Ends::run(&job).unwrap();
        set(&target.join("file"), "+d");
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["bytes"], 0);
        assert_eq!(warnings(&outcome), Vec::<&str>::new());
        assert_eq!(flags(&target.join("file")), "d");
    }
}
