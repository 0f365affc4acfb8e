//! Names of the source that the target's file system takes for one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::ends::{self, Ends, content};
use super::system::Lacks;
use super::{MIB, World, wait_until_let_go};

/// What each line must say about a name that is left out.
const WHY: &str = "which this copy or another program has put there since the copy began";
/// `é` as one character, and as two.
const COMPOSED: &str = "caf\u{e9}";
const DECOMPOSED: &str = "cafe\u{301}";
const KINDS: [Lacks; 2] = [Lacks::OwnNames, Lacks::LowerCase];

/// A world with an empty source.
fn empty(lacks: Lacks) -> World {
    let world = World::new(lacks);
    fs::remove_dir_all(world.source()).unwrap();
    fs::create_dir(world.source()).unwrap();
    world
}

/// Writes a file that was changed so many seconds after 1970.
fn write(path: &Path, bytes: &[u8], seconds: u64) {
    fs::write(path, bytes).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

fn target(world: &World, direction: &str) -> PathBuf {
    world.base.path().join("mount").join(direction)
}

fn usual(world: &World, direction: &str) -> Value {
    world.job(direction, &json!({"perms": false, "hard_links": true}))
}

/// Copies, and looks that so many entries are left out because of their names.
fn run(job: &Value, left_out: usize) -> Value {
    let outcome = Ends::run(job).unwrap();
    let lines = outcome["left_out"].as_array().unwrap();
    assert_eq!(lines.len(), left_out, "{lines:?}");
    for line in lines {
        assert!(line.as_str().unwrap().contains(WHY), "{line}");
    }
    outcome
}

/// All files of a folder, by their paths in lower case.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = ends::listing(root).into_iter();
    let told = entries.map(|(path, _, _, _, content)| {
        let path = path.to_str().unwrap().to_lowercase();
        (path.replace('\u{e9}', "e\u{301}"), content)
    });
    told.collect()
}

/// Names of the source that became one, of which the target has the content of one and a line names the other.
fn check_one_of(outcome: &Value, target: &Path, source: &Path, names: [&str; 2]) {
    let there = fs::read(target.join(names[0])).unwrap();
    assert_eq!(there, fs::read(target.join(names[1])).unwrap());
    let lost = names.into_iter().find(|name| {
        let file = fs::read(source.join(name)).unwrap();
        file != there
    });
    let lost = lost.expect("one of them is not there");
    let kept = names.into_iter().find(|name| *name != lost).unwrap();
    assert_eq!(there, fs::read(source.join(kept)).unwrap());
    let lines = outcome["left_out"].as_array().unwrap();
    let names_it = |line: &&Value| {
        let line = line.as_str().unwrap();
        line.contains(&format!("/{lost}: "))
    };
    assert_eq!(
        lines.iter().filter(names_it).count(),
        1,
        "{lost}: {lines:?}"
    );
}

pub fn a_file_that_would_replace_one_of_this_copy_is_left_out_and_named() {
    for (lacks, direction) in KINDS.into_iter().zip(["push", "pull"]) {
        let world = empty(lacks);
        let source = world.source();
        let pairs = [["Readme", "README"], [COMPOSED, DECOMPOSED], ["Big", "bIG"]];
        for (number, name) in pairs.as_flattened().iter().enumerate() {
            let len = if name.len() == 3 { 3 * MIB } else { 100 } + number;
            write(&source.join(name), &content(len), 1000 + number as u64);
        }
        for number in 0..40 {
            write(&source.join(format!("file {number}")), &content(number), 7);
        }
        let job = usual(&world, direction);
        let outcome = run(&job, 3);
        let target = target(&world, direction);
        for names in pairs {
            check_one_of(&outcome, &target, &source, names);
        }
        assert_eq!(fs::read_dir(&target).unwrap().count(), 43);
        let before = files(&target);
        // The second run finds what the first one has placed, and leaves out what that has left out.
        let again = run(&job, 3);
        assert_eq!(files(&target), before);
        for names in pairs {
            check_one_of(&again, &target, &source, names);
        }
        assert_eq!(fs::read_dir(&target).unwrap().count(), 43);
    }
}

pub fn other_kinds_with_such_names_are_left_out_too() {
    for (lacks, direction) in KINDS.into_iter().zip(["pull", "push"]) {
        let world = empty(lacks);
        let source = world.source();
        write(&source.join("file"), &content(9), 1);
        fs::hard_link(source.join("file"), source.join("Other")).unwrap();
        fs::hard_link(source.join("file"), source.join("other")).unwrap();
        symlink("one", source.join("Link")).unwrap();
        symlink("two", source.join("link")).unwrap();
        write(&source.join("mixed"), b"a file", 2);
        symlink("three", source.join("Mixed")).unwrap();
        fs::create_dir(source.join("Folder")).unwrap();
        write(&source.join("folder"), b"not a folder", 3);
        fs::create_dir(source.join("full")).unwrap();
        write(&source.join("full/it is"), b"full", 3);
        write(&source.join("Full"), b"not a folder", 3);
        let job = usual(&world, direction);
        run(&job, 5);
        let before = files(&target(&world, direction));
        let names: Vec<&str> = before.keys().map(String::as_str).collect();
        let all = if before.contains_key("full/it is") {
            7
        } else {
            6
        };
        assert_eq!(names.len(), all, "{names:?}");
        // What is said of the folder that is full depends on what comes first.
        for delete in [false, true] {
            let mut job = job.clone();
            job["delete"] = json!(delete);
            let outcome = Ends::run(&job).unwrap();
            assert_eq!(outcome["left_out"].as_array().unwrap().len(), 5);
            let after = files(&target(&world, direction));
            let alike = |name: &&String| *name != "full/it is";
            let (after, before) = (after.keys(), before.keys());
            assert!(after.filter(alike).eq(before.filter(alike)), "{delete}");
        }
    }
}

pub fn a_folder_that_would_become_one_with_another_is_left_out() {
    for (lacks, direction) in KINDS.into_iter().zip(["push", "pull"]) {
        let world = empty(lacks);
        let source = world.source();
        for (folder, name) in [
            ("Data", "a"),
            ("Data", "b"),
            ("data", "a"),
            ("data", "sub/c"),
        ] {
            let path = source.join(folder).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            // The same size and time as in the other folder.
            write(&path, format!("{folder}/{name}").as_bytes(), 5);
        }
        // More folders than are kept open.
        for number in 0..300 {
            let folder = source.join(format!("Data/deep/x{number}"));
            fs::create_dir_all(&folder).unwrap();
            write(&folder.join("File"), &content(number), 5);
        }
        let job = usual(&world, direction);
        let (target, mut deleting) = (target(&world, direction), job.clone());
        deleting["delete"] = json!(true);
        // What an earlier copy has placed stays where the other folder is first now, unless a copy removes it, and a file
        // of the same size and time is taken for it.
        for (job, is_first) in [(&job, true), (&job, false), (&deleting, false)] {
            run(job, 1);
            let names = files(&target);
            let of = match names.contains_key("data/b") {
                true => "Data/a",
                false => "data/a",
            };
            if is_first {
                assert_eq!(names["data/a"], of.as_bytes());
            }
            if is_first || job == &deleting {
                let is_one = names.contains_key("data/b") != names.contains_key("data/sub/c");
                assert!(is_one, "both are mixed");
                assert_eq!(names.len(), if of == "Data/a" { 604 } else { 4 });
            }
        }
    }
}

pub fn a_file_is_not_skipped_because_of_another_one() {
    for (direction, there, same) in [
        ("push", false, "size-and-time"),
        ("pull", true, "size-and-time"),
        ("push", false, "size"),
        ("pull", false, "content"),
    ] {
        let world = empty(Lacks::OwnNames);
        let source = world.source();
        write(&source.join("Same"), b"12345678", 1);
        let mut job = usual(&world, direction);
        run(&job, 0);
        write(&source.join("SAME"), b"87654321", 1);
        job["skip"] = json!({"missing": false, "there": there, "newer": false, "same": same});
        run(&job, 1);
        let target = target(&world, direction);
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
    }
}

pub fn what_was_there_before_under_another_name_is_replaced() {
    for (lacks, direction) in KINDS.into_iter().zip(["pull", "push"]) {
        let world = empty(lacks);
        let (source, target) = (world.source(), target(&world, direction));
        fs::create_dir_all(target.join("Folder")).unwrap();
        for name in ["PHOTO.JPG", "Folder/Notes", COMPOSED, "same name"] {
            write(&target.join(name), b"old", 1);
        }
        symlink("old", target.join("Link")).unwrap();
        fs::create_dir(source.join("folder")).unwrap();
        for name in ["photo.jpg", "folder/notes", DECOMPOSED, "same name"] {
            write(&source.join(name), format!("new {name}").as_bytes(), 2);
        }
        symlink("new", source.join("link")).unwrap();
        let job = usual(&world, direction);
        for sent in [4, 0] {
            assert_eq!(run(&job, 0)["files"], sent, "{direction}");
            assert_eq!(files(&target), files(&source));
        }
    }
}

pub fn a_removal_takes_nothing_that_was_placed() {
    for (lacks, direction) in KINDS.into_iter().zip(["push", "pull"]) {
        let world = empty(lacks);
        let (source, target) = (world.source(), target(&world, direction));
        fs::create_dir_all(target.join("Folder")).unwrap();
        for name in [
            "PHOTO.JPG",
            "Folder/Notes",
            "extra",
            "Folder/Extra",
            COMPOSED,
        ] {
            write(&target.join(name), b"old", 1);
        }
        fs::create_dir(source.join("folder")).unwrap();
        for name in ["photo.jpg", "folder/notes", "new", "folder/new", DECOMPOSED] {
            write(&source.join(name), format!("new {name}").as_bytes(), 2);
        }
        let mut job = usual(&world, direction);
        job["delete"] = json!(true);
        for removed in [2, 0] {
            assert_eq!(run(&job, 0)["removal"]["removed"], removed);
            assert_eq!(files(&target), files(&source));
        }
        write(&source.join("PHOTO.jpg"), b"another", 3);
        run(&job, 1);
        assert_eq!(files(&target).len(), files(&source).len());
    }
}

pub fn a_copy_that_was_cut_goes_on_and_leaves_out_the_same() {
    let world = empty(Lacks::OwnNames);
    let source = world.source();
    write(&source.join("Big"), &content(24 * MIB), 1);
    write(&source.join("BIG"), &content(24 * MIB + 1), 2);
    let job = usual(&world, "push");
    let ends = Ends::start(&job, &json!({"pacing_bps": 50_000_000, "streams": 2}));
    ends.wait_for_bytes(8 * MIB as u64);
    ends.session.cancel();
    ends.result().unwrap_err();
    let target = target(&world, "push");
    for entry in fs::read_dir(&target).unwrap() {
        wait_until_let_go(&entry.unwrap().path());
    }
    let outcome = run(&job, 1);
    check_one_of(&outcome, &target, &source, ["Big", "BIG"]);
    assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
}
