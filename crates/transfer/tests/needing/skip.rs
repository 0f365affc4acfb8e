//! What is sent of files that are at the target, by each option that says so, held against rsync.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::iter;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::ends::{self, Ends, job};
use serde_json::{Value, json};

const USUAL_S: u64 = 1_000_000_000;

/// A file of that content and modification time, in seconds since 1970.
fn file(path: &Path, text: &str, at_s: u64) {
    fs::write(path, text).unwrap();
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at_s);
    let file = File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(at)).unwrap();
}

/// The source `src`, and at each of the targets what differs from it in one way.
fn world(base: &Path, targets: &[&str]) {
    let source = base.join("src");
    fs::create_dir_all(source.join("new folder")).unwrap();
    fs::create_dir(source.join("folder")).unwrap();
    let names = [
        "missing", "same", "size", "older", "newer", "bytes", "touched", "kind",
    ];
    let inside = ["new folder/file", "folder/missing", "folder/newer"];
    for name in names.iter().chain(&inside) {
        file(&source.join(name), "from source", USUAL_S);
    }
    for name in ["new link", "link", "new folder/link"] {
        symlink("from source", source.join(name)).unwrap();
    }
    for target in targets {
        let target = base.join(target);
        fs::create_dir_all(target.join("folder")).unwrap();
        file(&target.join("same"), "from source", USUAL_S);
        file(&target.join("touched"), "from source", USUAL_S + 10);
        file(&target.join("size"), "of another size", USUAL_S);
        file(&target.join("older"), "at  target!", USUAL_S - 10);
        file(&target.join("newer"), "at  target!", USUAL_S + 10);
        file(&target.join("bytes"), "at  target!", USUAL_S);
        file(
            &target.join("folder/newer"),
            "larger at target",
            USUAL_S + 10,
        );
        symlink("at target", target.join("link")).unwrap();
        symlink("at target", target.join("kind")).unwrap();
    }
}

/// What is below a folder: files with their content and time, links with their target.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let content = if path.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if path.is_dir() {
                folders.push(path);
                String::new()
            } else {
                let at_s = fs::metadata(&path).unwrap().mtime();
                format!("{} at {at_s}", fs::read_to_string(&path).unwrap())
            };
            found.insert(name, content);
        }
    }
    found
}

/// The options of rsync, and the same as a job has it.
fn options() -> Vec<(Vec<&'static str>, Value)> {
    let skip = |missing, there, newer, same| json!({"missing": missing, "there": there, "newer": newer, "same": same});
    let usual = "size-and-time";
    vec![
        (vec![], skip(false, false, false, usual)),
        (vec!["--existing"], skip(true, false, false, usual)),
        (vec!["--ignore-existing"], skip(false, true, false, usual)),
        (
            vec!["--existing", "--ignore-existing"],
            skip(true, true, false, usual),
        ),
        (vec!["--update"], skip(false, false, true, usual)),
        (vec!["--size-only"], skip(false, false, false, "size")),
        (vec!["--ignore-times"], skip(false, false, false, "nothing")),
        (
            vec!["--update", "--ignore-times"],
            skip(false, false, true, "nothing"),
        ),
        (vec!["--checksum"], skip(false, false, false, "content")),
        (
            vec!["--checksum", "--update"],
            skip(false, false, true, "content"),
        ),
        (
            vec!["--checksum", "--existing"],
            skip(true, false, false, "content"),
        ),
        (
            vec!["--existing", "--update", "--size-only"],
            skip(true, false, true, "size"),
        ),
    ]
}

pub fn each_option_sends_what_it_sends_with_rsync() {
    let mut results = Vec::new();
    for (words, skip) in options() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        world(base, &["rsync", "push", "pull"]);
        let done = Command::new("rsync")
            .args(iter::once("-a").chain(words.iter().copied()))
            .args([base.join("src/"), base.join("rsync/")])
            .output()
            .unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
        let expected = tree(&base.join("rsync"));
        for direction in ["push", "pull"] {
            let target = base.join(direction);
            let mut job = job(direction, &[&base.join("src/.")], &target);
            job["skip"] = skip.clone();
            let mut dry = job.clone();
            dry["dry_run"] = json!(true);
            let before = tree(&target);
            let plan = Ends::run(&dry).unwrap();
            assert_eq!(tree(&target), before, "a dry run changes nothing");
            let outcome = Ends::run(&job).unwrap();
            assert_eq!(tree(&target), expected, "{direction} {words:?}");
            assert_eq!(outcome["skips_as_asked"], json!(!words.is_empty()));
            assert_eq!(plan["files_skipped"], outcome["files_skipped"], "{words:?}");
        }
        results.push(expected);
    }
    let usual = results.remove(0);
    assert!(
        results.iter().all(|other| *other != usual),
        "each option shows"
    );
}

pub fn thousands_of_files_are_compared_and_sent_in_few_offers() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        for (root, word) in [(&source, "source"), (&target, "target")] {
            for folder in 0..10 {
                let folder = root.join(format!("{folder}"));
                fs::create_dir_all(&folder).unwrap();
                for number in 0..600 {
                    let other = number % 100 == 0;
                    let text = if other { word } else { "always" };
                    fs::write(folder.join(format!("{number}")), text).unwrap();
                }
            }
            fs::write(root.join("big"), ends::content(9 << 20)).unwrap();
        }
        let mut job = job(direction, &[&source.join(".")], &target);
        job["skip"] = json!({"missing": false, "there": false, "newer": false, "same": "content"});
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["files"], 60, "{direction}");
        assert_eq!(outcome["files_skipped"], 5941);
        assert_eq!(ends::listing(&target), ends::listing(&source));
    }
}

pub fn where_nothing_new_is_made_a_new_target_stays_away() {
    let base = tempfile::tempdir().unwrap();
    world(base.path(), &[]);
    for direction in ["push", "pull"] {
        let target = base.path().join(direction);
        let mut job = job(direction, &[&base.path().join("src")], &target);
        job["skip"] =
            json!({"missing": true, "there": false, "newer": false, "same": "size-and-time"});
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["files"], 0, "{direction}");
        assert!(!target.exists());
    }
}

/// In the year 2300: 64 bits of nanoseconds end in 2262.
const LATE_S: u64 = 10_413_792_000;

/// Why late times cannot be tried here.
pub fn missing_times() -> Option<String> {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("file");
    file(&path, "", LATE_S);
    let there = fs::metadata(path).unwrap().mtime() == LATE_S as i64;
    (!there).then(|| "the file system keeps no times after 2262".to_owned())
}

pub fn times_that_cannot_be_told_from_others_skip_nothing() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir(&source).unwrap();
        file(&source.join("file"), "one", LATE_S);
        fs::hard_link(source.join("file"), source.join("other name")).unwrap();
        let mut job = job(direction, &[&source.join(".")], &target);
        job["keep"] = json!({"hard_links": true});
        Ends::run(&job).unwrap();
        file(&source.join("file"), "two", LATE_S + 1);
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["files"], 1, "{direction}");
        assert_eq!(outcome["left_out"], json!([]));
        for name in ["file", "other name"] {
            assert_eq!(fs::read(target.join(name)).unwrap(), b"two");
        }
        job["skip"] = json!({"missing": false, "there": false, "newer": false, "same": "content"});
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["files_skipped"], 1, "{direction}");
    }
}

pub fn names_of_one_file_that_are_all_newer_stay_without_a_complaint() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        for (top, text, at_s) in [(&source, "old", USUAL_S), (&target, "newer", USUAL_S + 10)] {
            fs::create_dir(top).unwrap();
            file(&top.join("a"), text, at_s);
            fs::hard_link(top.join("a"), top.join("b")).unwrap();
        }
        let mut job = job(direction, &[&source.join(".")], &target);
        job["keep"] = json!({"hard_links": true});
        job["skip"] =
            json!({"missing": false, "there": false, "newer": true, "same": "size-and-time"});
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["left_out"], json!([]), "{direction}");
        for name in ["a", "b"] {
            assert_eq!(fs::read(target.join(name)).unwrap(), b"newer");
        }
    }
}
