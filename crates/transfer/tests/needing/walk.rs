//! What of links and of other file systems is copied, by each option that says so, held against rsync.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::iter;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ends::{Ends, job};
use howdah_transfer::Reach;
use serde_json::{Value, json};

/// What is below a folder, no link followed: files with their content, links with their target.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            let content = if path.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if path.is_dir() {
                folders.push(path);
                "folder".to_owned()
            } else {
                fs::read_to_string(&path).unwrap()
            };
            found.insert(name, content);
        }
    }
    found
}

/// Links in `src` and what is beside it.
fn links(base: &Path) {
    let source = base.join("src");
    fs::create_dir_all(source.join("sub/deep")).unwrap();
    fs::create_dir_all(base.join("elsewhere/folder")).unwrap();
    for name in [
        "src/file",
        "src/sub/file",
        "elsewhere/file",
        "elsewhere/folder/inner",
    ] {
        fs::write(base.join(name), name).unwrap();
    }
    symlink("file", base.join("elsewhere/link")).unwrap();
    for (name, target) in [
        ("to_file", "file"),
        ("to_folder", "sub"),
        ("sub/up", "../file"),
        ("sub/deep/up", "../../../elsewhere/file"),
        ("outside", "../elsewhere/file"),
        ("outside_folder", "../elsewhere"),
        ("round", "sub/../file"),
        ("dangling", "nothing"),
    ] {
        symlink(target, source.join(name)).unwrap();
    }
    symlink(base.join("elsewhere/file"), source.join("absolute")).unwrap();
}

/// Runs rsync into `rsync` and both ends into `push` and `pull`, each of which `prepare` has made; their trees are the same.
fn as_rsync(
    base: &Path,
    words: &[&str],
    change: impl Fn(&mut Value),
) -> (BTreeMap<PathBuf, String>, Value) {
    let done = Command::new("rsync")
        .args(iter::once("-a").chain(words.iter().copied()))
        .args([base.join("src/"), base.join("rsync/")])
        .output()
        .unwrap();
    let expected = tree(&base.join("rsync"));
    let mut last = Value::Null;
    for direction in ["push", "pull"] {
        let target = base.join(direction);
        let mut job = job(direction, &[&base.join("src/.")], &target);
        job["destination_is_folder"] = json!(true);
        change(&mut job);
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(tree(&target), expected, "{direction} {words:?}");
        let left_out = outcome["left_out"].as_array().unwrap().len();
        assert_eq!(left_out == 0, done.status.success(), "{done:?} {outcome}");
        last = outcome;
    }
    (expected, last)
}

pub fn each_option_on_links_copies_what_it_copies_with_rsync() {
    let mut results = Vec::new();
    for (words, walk) in [
        (vec![], json!({})),
        (vec!["--copy-links"], json!({"links": "followed"})),
        (vec!["--copy-unsafe-links"], json!({"links": "unsafe"})),
        (vec!["--safe-links"], json!({"safe_links": true})),
        (
            vec!["--safe-links", "--copy-unsafe-links"],
            json!({"links": "unsafe", "safe_links": true}),
        ),
    ] {
        let base = tempfile::tempdir().unwrap();
        links(base.path());
        let (tree, outcome) = as_rsync(base.path(), &words, |job| job["walk"] = walk.clone());
        if words == ["--safe-links"] {
            let lines = outcome["warnings"].as_array().unwrap();
            assert!(
                lines.len() == 5
                    && lines.iter().all(|line| {
                        line.as_str()
                            .unwrap()
                            .ends_with("it points out of what is copied")
                    })
            );
        }
        results.push(tree);
    }
    let both = results.pop().unwrap();
    assert_eq!(both, results[2]);
    results.sort();
    results.dedup();
    assert_eq!(results.len(), 4, "each option shows");
}

pub fn links_that_lead_back_are_named_and_not_followed_for_ever() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let source = base.path().join("src");
        fs::create_dir_all(source.join("a")).unwrap();
        fs::create_dir(source.join("b")).unwrap();
        fs::write(source.join("a/file"), "file").unwrap();
        symlink("..", source.join("a/back")).unwrap();
        symlink("../a", source.join("b/a")).unwrap();
        symlink("itself", source.join("itself")).unwrap();
        let mut job = job(direction, &[&source], &base.path().join("dst"));
        job["walk"] = json!({"links": "followed"});
        let outcome = Ends::run(&job).unwrap();
        let lines: Vec<_> = outcome["left_out"].as_array().unwrap().iter().collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        let said = |end: &str| {
            lines
                .iter()
                .filter(|line| line.as_str().unwrap().ends_with(end))
                .count()
        };
        assert_eq!(
            said("it is a folder that the link itself is in"),
            2,
            "{lines:?}"
        );
        assert_eq!(said("links lead to one another"), 1, "{lines:?}");
        assert_eq!(fs::read(base.path().join("dst/b/a/file")).unwrap(), b"file");
    }
}

pub fn no_link_leads_out_of_a_folder_that_is_served() {
    let base = tempfile::tempdir().unwrap();
    let served = base.path().join("served");
    fs::create_dir_all(served.join("run")).unwrap();
    fs::write(base.path().join("secret"), "secret").unwrap();
    fs::write(served.join("shared"), "shared").unwrap();
    symlink("../../secret", served.join("run/out")).unwrap();
    symlink(base.path(), served.join("run/folder")).unwrap();
    symlink("../shared", served.join("run/in")).unwrap();
    let target = base.path().join("dst");
    let mut job = job("pull", &[Path::new("run")], &target);
    job["walk"] = json!({"links": "followed"});
    let reach = Reach::beneath(File::open(&served).unwrap().into(), true);
    let outcome = Ends::start_within(reach, &job, &json!({}))
        .result()
        .unwrap();
    let lines = outcome["left_out"].as_array().unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        let line = line.as_str().unwrap();
        assert!(
            line.ends_with("it is not in the folder that the far end serves"),
            "{line}"
        );
    }
    let names: Vec<_> = tree(&target).into_iter().collect();
    assert_eq!(names, [(PathBuf::from("in"), "shared".to_owned())]);
}

/// Folders on which something is mounted until this is dropped.
struct Mounted(Vec<PathBuf>);

impl Mounted {
    fn add(&mut self, folder: PathBuf) {
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "howdah"])
            .arg(&folder)
            .status();
        assert!(done.unwrap().success());
        self.0.push(folder);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        for folder in &self.0 {
            let _ = Command::new("umount").arg(folder).status();
        }
    }
}

pub fn what_is_mounted_in_the_source_stays_out_as_in_rsync() {
    let mut results = Vec::new();
    for (words, one, delete) in [
        (vec!["--one-file-system"], true, false),
        (vec!["--one-file-system", "--delete"], true, true),
        (vec![], false, false),
    ] {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        let mut mounted = Mounted(Vec::new());
        for folder in ["src/mounted", "src/plain/mounted", "src/there"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        mounted.add(base.join("src/mounted"));
        mounted.add(base.join("src/plain/mounted"));
        for name in [
            "src/mounted/file",
            "src/plain/mounted/file",
            "src/plain/file",
            "src/there/new",
        ] {
            fs::write(base.join(name), name).unwrap();
        }
        for target in ["rsync", "push", "pull"] {
            let target = base.join(target);
            fs::create_dir_all(target.join("mounted")).unwrap();
            fs::create_dir(target.join("there")).unwrap();
            mounted.add(target.join("there"));
            for name in ["mounted/kept", "there/kept", "gone"] {
                fs::write(target.join(name), name).unwrap();
            }
        }
        let (tree, _) = as_rsync(base, &words, |job| {
            job["walk"] = json!({"one_file_system": one});
            job["delete"] = json!(delete);
        });
        results.push(tree);
    }
    results.sort();
    results.dedup();
    assert_eq!(results.len(), 3, "each option shows");
}
