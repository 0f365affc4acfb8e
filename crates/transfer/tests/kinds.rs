//! Names that the target has of another kind than the source: files where it has folders, and the other way round.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};

use crate::ends::{self, Ends, content, job, listing};

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A source, and a target in which some of its names are of another kind.
fn world() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let base = tempfile::tempdir().unwrap();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    write(&source.join("plain"), "copied in any case");
    write(&source.join("sub/small"), "a file");
    fs::write(source.join("sub/big"), content(3 << 20)).unwrap();
    write(&source.join("empty"), "a file");
    write(&source.join("folder/below/file"), "in a folder");
    write(&source.join("through/file"), "in a folder");
    write(&source.join("fifo"), "a file");
    write(&target.join("sub/small/one"), "in a folder");
    write(&target.join("sub/small/deep/two"), "in a folder");
    write(&target.join("sub/big/three"), "in a folder");
    fs::create_dir(target.join("empty")).unwrap();
    write(&target.join("folder"), "a file");
    symlink("sub", target.join("through")).unwrap();
    let private = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, target.join("fifo"), FileType::Fifo, private, 0).unwrap();
    (base, source, target)
}

/// What goes in `world` where what the source has not is removed.
const GOES: [&str; 9] = [
    "empty/",
    "folder",
    "sub/big/",
    "sub/big/three",
    "sub/small/",
    "sub/small/deep/",
    "sub/small/deep/two",
    "sub/small/one",
    "through",
];

fn deleting(direction: &str, source: &Path, target: &Path) -> Value {
    let mut job = job(direction, &[&source.join(".")], target);
    job["delete"] = json!(true);
    job
}

/// The names of a list of lines, sorted.
fn said(lines: &Value, start: &str, end: &str) -> Vec<String> {
    let lines = lines.as_array().unwrap().iter();
    let names = lines.map(|line| {
        let line = line.as_str().unwrap();
        let line = line.strip_prefix("far end: ").unwrap_or(line);
        let rest = line.strip_prefix(start).unwrap_or_else(|| panic!("{line}"));
        let path = rest.strip_suffix(end).unwrap_or_else(|| panic!("{line}"));
        path.split_once("/dst/").unwrap().1.to_owned()
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn what_is_of_another_kind_goes_where_what_the_source_has_not_is_removed() {
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        let job = deleting(direction, &source, &target);
        let mut dry = job.clone();
        dry["dry_run"] = json!(true);
        let plan = Ends::run(&dry).unwrap();
        assert!(target.join("sub/small/deep/two").exists(), "{direction}");
        let listed = plan["dry_run_plan"].as_array().unwrap().iter();
        let gone = listed.filter(|one| one["action"] == "remove");
        let mut gone: Vec<_> = gone
            .map(|one| ends::path(&one["path"]).into_os_string())
            .collect();
        gone.sort();
        assert_eq!(gone, GOES, "{direction}");
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["left_out"], json!([]), "{direction}");
        assert_eq!(outcome["warnings"], json!([]), "{direction}");
        assert_eq!(outcome["files"], 7);
        let removal = json!({"extraneous": 9, "removed": 9, "failed": 0, "held": null});
        assert_eq!(outcome["removal"], removal, "{direction}");
        assert_eq!(listing(&target), listing(&source), "{direction}");
    }
}

#[test]
fn a_folder_with_something_in_it_stays_otherwise_and_all_else_is_copied() {
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        let job = job(direction, &[&source.join(".")], &target);
        let mut dry = job.clone();
        dry["dry_run"] = json!(true);
        let (start, end) = (
            "cannot write ",
            ": a folder has that name, and something is in it; remove it, or copy with --delete",
        );
        let plan = Ends::run(&dry).unwrap();
        let stay = ["sub/big", "sub/small"];
        assert_eq!(said(&plan["left_out"], start, end), stay, "{direction}");
        let warnings = plan["warnings"].as_array().unwrap();
        let (folders, others): (Vec<_>, Vec<_>) = warnings
            .iter()
            .cloned()
            .partition(|line| line.as_str().unwrap().contains("empty folder"));
        let end_of_folder = ": the source has a file of that name";
        let folders = said(
            &json!(folders),
            "would remove the empty folder ",
            end_of_folder,
        );
        assert_eq!(folders, ["empty"]);
        let end_of_file = ": the source has a folder of that name";
        let others = said(&json!(others), "would remove ", end_of_file);
        assert_eq!(others, ["folder", "through"]);
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(said(&outcome["left_out"], start, end), stay, "{direction}");
        assert_eq!(outcome["files"], 5);
        for name in [
            "plain",
            "empty",
            "folder/below/file",
            "through/file",
            "fifo",
        ] {
            let [there, here] = [&target, &source].map(|root| fs::read(root.join(name)).unwrap());
            assert_eq!(there, here, "{direction} {name}");
        }
        let kept = fs::read(target.join("sub/small/deep/two")).unwrap();
        assert_eq!(kept, b"in a folder");
        assert!(target.join("sub/big/three").exists());
    }
}

#[test]
fn links_and_other_names_take_the_place_of_folders_too() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        write(&source.join("file"), "a file");
        fs::hard_link(source.join("file"), source.join("other")).unwrap();
        symlink("file", source.join("link")).unwrap();
        for name in ["file", "link", "other"] {
            write(&target.join(name).join("below"), "in a folder");
        }
        let mut job = job(direction, &[&source.join(".")], &target);
        job["keep"] = json!({"hard_links": true});
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["left_out"].as_array().unwrap().len(), 3);
        job["delete"] = json!(true);
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["left_out"], json!([]), "{direction}");
        assert_eq!(outcome["removal"]["removed"], 6, "{direction}");
        assert_eq!(listing(&target), listing(&source), "{direction}");
    }
}

#[test]
fn a_folder_in_which_something_stays_keeps_its_name_and_the_file_is_left_out() {
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        write(&target.join("sub/small/deep/kept.o"), "excluded");
        let mut job = deleting(direction, &source, &target);
        job["filters"] = json!([STANDARD.encode("- *.o")]);
        let outcome = Ends::run(&job).unwrap();
        let (start, end) = (
            "cannot write ",
            ": a folder has that name, and something is in it; remove it",
        );
        assert_eq!(said(&outcome["left_out"], start, end), ["sub/small"]);
        assert_eq!(outcome["files"], if direction == "push" { 7 } else { 6 });
        assert!(target.join("sub/small/deep/kept.o").exists());
        assert!(!target.join("sub/small/one").exists());
        assert_eq!(fs::read(target.join("sub/big")).unwrap(), content(3 << 20));
    }
}

#[test]
fn what_is_in_the_way_counts_among_what_may_be_removed() {
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        let mut job = deleting(direction, &source, &target);
        job["max_delete"] = json!(8);
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["removal"]["held"], "too-many", "{direction}");
        assert_eq!(outcome["left_out"].as_array().unwrap().len(), 2);
        assert!(target.join("sub/small/one").exists() && target.join("sub/big/three").exists());
        job["max_delete"] = json!(6);
        assert_eq!(Ends::run(&job).unwrap()["removal"]["removed"], 6);
        assert_eq!(listing(&target), listing(&source), "{direction}");
    }
}

#[test]
fn who_ignores_what_is_there_has_nothing_replaced() {
    for direction in ["push", "pull"] {
        let (_base, source, target) = world();
        let mut job = job(direction, &[&source.join(".")], &target);
        job["skip"] =
            json!({"missing": false, "there": true, "newer": false, "same": "size-and-time"});
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["left_out"], json!([]), "{direction}");
        assert_eq!(outcome["files"], 1, "{direction}");
        assert_eq!(fs::read(target.join("folder")).unwrap(), b"a file");
        assert!(target.join("empty").is_dir() && target.join("through").is_symlink());
    }
}
