//! Copies of several sources: those that land in the same place, held against rsync, and those that cannot be copied.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use howdah_transfer::Reach;
use rustix::fs::{CWD, FileType, Mode};
use rustix::thread::CapabilitySet;
use serde_json::{Value, json};

use crate::ends::{self, Ends, content, job, listing};

/// Files enough for streams to overtake one another.
const FILES: usize = 40;

/// Two folders with the same names in them, and some that only one has.
fn world() -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    for (number, (name, mode)) in [("a", 0o750), ("b", 0o700), ("c", 0o711)]
        .into_iter()
        .enumerate()
    {
        let source = base.path().join(name);
        for folder in ["both/deep", &format!("of {name}")] {
            fs::create_dir_all(source.join(folder)).unwrap();
        }
        for file in 0..FILES {
            let len = 500 * number + file;
            fs::write(source.join(format!("both/{file}")), content(len)).unwrap();
        }
        for file in [
            "f",
            "both/deep/f",
            &format!("of {name}/f"),
            &format!("{name} alone"),
        ] {
            fs::write(source.join(file), format!("{name}'s {file}")).unwrap();
        }
        symlink(name, source.join("link")).unwrap();
        for folder in ["both", "both/deep"] {
            fs::set_permissions(source.join(folder), Permissions::from_mode(mode)).unwrap();
        }
    }
    base
}

fn of_several(direction: &str, base: &Path, sources: &[&str], target: &Path) -> Value {
    let mut job = job(direction, &[], target);
    // A path of the standard library has no dot at its end.
    let words = sources.iter().map(|source| {
        let path = format!("{}/{source}", base.display());
        STANDARD.encode(path)
    });
    job["sources"] = words.collect();
    job["destination_is_folder"] = json!(true);
    job
}

pub fn of_what_several_sources_have_the_first_ones_arrives_as_with_rsync() {
    let base = world();
    let base = base.path();
    for (number, sources) in [
        vec!["a/.", "b/."],
        vec!["b/.", "a/.", "c/."],
        vec!["a/.", "b/f"],
        vec!["b/f", "a/."],
        vec!["b/both", "a/.", "c/."],
        vec!["c/.", "a/f", "b/both", "a/."],
        vec!["a/.", "a/."],
    ]
    .into_iter()
    .enumerate()
    {
        let expected = base.join(format!("rsync {number}"));
        let words = sources.iter().map(|source| match source.strip_suffix('.') {
            Some(folder) => folder.to_owned(),
            None => (*source).to_owned(),
        });
        let done = Command::new("rsync")
            .arg("-a")
            .args(words)
            .arg(expected.join(""))
            .current_dir(base)
            .status();
        assert!(done.expect("rsync is installed").success());
        // Not each rsync gives the first one's time to what is no file.
        let without_times = |folder: &Path| {
            let mut all = listing(folder);
            for one in &mut all {
                if one.1 & 0o170_000 != 0o100_000 {
                    (one.2, one.3) = (0, 0);
                }
            }
            all
        };
        let expected = without_times(&expected);
        let has_both = |source: &&&str| source.ends_with('.') || source.ends_with("both");
        let first = sources.iter().find(has_both).unwrap();
        let first = base.join(&first[..1]);
        let is_file = |one: &&(PathBuf, u32, i64, i64, Vec<u8>)| one.1 & 0o170_000 == 0o100_000;
        let files = expected.iter().filter(is_file).count();
        for direction in ["push", "pull"] {
            let target = base.join(format!("{direction} {number}"));
            let mut job = of_several(direction, base, &sources, &target);
            job["dry_run"] = json!(true);
            let plan = Ends::run(&job).unwrap();
            let listed = plan["dry_run_plan"].as_array().unwrap();
            let of_kind = |kind: &str| listed.iter().filter(|one| one["kind"] == kind).count();
            assert_eq!(of_kind("file"), files);
            // And the target itself.
            assert_eq!(listed.len(), expected.len() + 1, "{direction} {sources:?}");
            job["dry_run"] = json!(false);
            for again in [false, true] {
                let outcome = Ends::run(&job).unwrap();
                let found = without_times(&target);
                let other = found
                    .iter()
                    .zip(&expected)
                    .find(|(one, other)| one != other);
                assert_eq!(other, None, "{direction} {sources:?}");
                assert_eq!(found.len(), expected.len(), "{direction} {sources:?}");
                for name in ["both", "both/deep"] {
                    let time = |root: &Path| fs::metadata(root.join(name)).unwrap().modified();
                    assert_eq!(time(&target).unwrap(), time(&first).unwrap());
                }
                let done = if again { "files_skipped" } else { "files" };
                assert_eq!(outcome[done], files, "{direction} {sources:?}");
                assert_eq!(outcome["warnings"], json!([]));
            }
        }
    }
}

pub fn what_the_first_source_does_not_send_keeps_nothing_out() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    for name in [
        "a/out/f",
        "a/in/deep/f",
        "b/out/f",
        "b/in/deep/f",
        "b/link",
        "b/fifo",
        "b/gone",
    ] {
        let path = base.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &name[..1]).unwrap();
    }
    fs::write(base.join("a/.rules"), "- /out\n").unwrap();
    fs::write(base.join("a/in/.rules"), "- f\n").unwrap();
    symlink("/nowhere", base.join("a/link")).unwrap();
    symlink("nothing", base.join("a/gone")).unwrap();
    rustix::fs::mknodat(CWD, base.join("a/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let rules = ["- .rules", ": .rules"];
    for (walk, theirs) in [
        (json!({}), vec!["out/f", "in/deep/f", "fifo"]),
        (
            json!({"safe_links": true}),
            vec!["out/f", "in/deep/f", "fifo", "link"],
        ),
        (
            json!({"links": "followed"}),
            vec!["out/f", "in/deep/f", "fifo", "link", "gone"],
        ),
    ] {
        for direction in ["push", "pull"] {
            let target = tempfile::tempdir_in(base).unwrap();
            let mut job = of_several(direction, base, &["a/.", "b/."], target.path());
            job["filters"] = rules.iter().map(|rule| STANDARD.encode(rule)).collect();
            job["walk"] = walk.clone();
            Ends::run(&job).unwrap();
            for name in theirs.iter().chain(&["out/f"]) {
                let there = fs::read(target.path().join(name)).unwrap();
                assert_eq!(there, b"b", "{direction} {walk} {name}");
            }
        }
    }
}

pub fn a_folder_and_a_file_of_the_same_name_do_not_mix_and_a_line_says_so() {
    let base = tempfile::tempdir().unwrap();
    let served = base.path();
    for name in [
        "a/file",
        "a/folder/f",
        "b/file/f",
        "b/folder",
        "b/link/secret",
        "out/secret",
    ] {
        let path = served.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    // What it leads to is no part of the source.
    symlink("../out", served.join("a/link")).unwrap();
    for confined in [false, true] {
        let target = tempfile::tempdir_in(served).unwrap();
        let job = of_several(
            "pull",
            Path::new(if confined {
                ""
            } else {
                served.to_str().unwrap()
            }),
            &["a/.", "b/."],
            target.path(),
        );
        let reach = match confined {
            true => Reach::beneath(File::open(served).unwrap().into(), true),
            false => Reach::default(),
        };
        let outcome = Ends::start_within(reach, &job, &json!({}))
            .result()
            .unwrap();
        assert_eq!(listing(target.path()), listing(&served.join("a")));
        let mut lines: Vec<_> = outcome["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line.as_str().unwrap())
            .collect();
        lines.sort_unstable();
        assert_eq!(lines.len(), 3, "{lines:?}");
        for (line, name) in lines.iter().zip(["file", "folder", "link"]) {
            assert!(
                line.contains(&format!("/b/./{name}: "))
                    && line.contains(&format!("/a/./{name} lands there")),
                "{line}"
            );
        }
        assert_eq!(outcome["left_out"], json!([]));
    }
}

pub fn names_of_one_file_in_several_sources_stay_together() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        for name in ["a", "b"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        fs::write(base.join("a/f"), content(3 << 20)).unwrap();
        fs::hard_link(base.join("a/f"), base.join("b/f")).unwrap();
        fs::hard_link(base.join("a/f"), base.join("b/other")).unwrap();
        let target = base.join("target");
        let mut job = of_several(direction, base, &["a/.", "b/."], &target);
        job["keep"] = json!({"hard_links": true});
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(
            (&outcome["files"], &outcome["links"]),
            (&json!(1), &json!(1))
        );
        let inode = |name: &str| fs::metadata(target.join(name)).unwrap().ino();
        assert_eq!(inode("f"), inode("other"));
        assert_eq!(fs::read(target.join("f")).unwrap(), content(3 << 20));
    }
}

/// Sources of which only `good` and `folder` can be copied.
fn bad_world() -> tempfile::TempDir {
    let mut sets = rustix::thread::capabilities(None).unwrap();
    for set in [&mut sets.effective, &mut sets.permitted] {
        set.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    }
    rustix::thread::set_capabilities(None, sets).unwrap();
    let base = tempfile::tempdir().unwrap();
    let path = |name| base.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    for name in ["folder/in", "good", "closed"] {
        fs::write(path(name), name).unwrap();
    }
    fs::set_permissions(path("closed"), Permissions::from_mode(0o0)).unwrap();
    symlink("nowhere", path("dangling")).unwrap();
    symlink("good", path("link")).unwrap();
    rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    base
}

/// The last part of a path, and what is said of it.
const BAD: [(&str, &str); 5] = [
    (
        "closed",
        "no permission to read closed; check its owner and mode",
    ),
    (
        "dangling",
        "cannot copy what dangling leads to: there is nothing",
    ),
    ("fifo", "cannot copy fifo: it is a FIFO"),
    (
        "good/.",
        "cannot read good/.: a file is where a folder must be",
    ),
    ("missing", "cannot read missing: no such file or folder"),
];

pub fn a_source_that_cannot_be_copied_is_left_out_and_named_and_the_others_arrive() {
    for direction in ["push", "pull"] {
        let base = bad_world();
        let base = base.path();
        let target = base.join("target");
        let mut sources: Vec<_> = BAD.iter().map(|(name, _)| *name).collect();
        sources.insert(2, "good");
        sources.push("folder");
        sources.push("link");
        let job = of_several(direction, base, &sources, &target);
        let outcome = Ends::run(&job).unwrap();
        let lines = outcome["left_out"].as_array().unwrap().iter();
        let shown = format!("{}/", base.display());
        let mut lines: Vec<_> = lines
            .map(|line| line.as_str().unwrap().replace(&shown, ""))
            .collect();
        lines.sort();
        let far = if direction == "pull" { "far end: " } else { "" };
        let mut expected = BAD.map(|(_, why)| format!("{far}{why}"));
        expected.sort();
        assert_eq!(lines, expected, "{direction}");
        assert_eq!(outcome["files"], 3);
        for (name, text) in [
            ("good", "good"),
            ("link", "good"),
            ("folder/in", "folder/in"),
        ] {
            assert_eq!(fs::read_to_string(target.join(name)).unwrap(), text);
        }
        // Nothing is removed for what is not known to be gone.
        fs::write(target.join("folder/old"), "old").unwrap();
        let mut job = of_several(direction, base, &["folder", "missing"], &target);
        job["delete"] = json!(true);
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["removal"]["held"], "left-out", "{direction}");
        assert!(target.join("folder/old").exists());
    }
}

pub fn what_is_said_to_be_empty_and_is_not_is_left_out_and_named() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("empty"), "").unwrap();
        symlink("/proc/uptime", base.path().join("link")).unwrap();
        let target = base.path().join("target");
        let sources = ["empty", "link", "/proc/version", "/proc/self/net"];
        let sources = sources.map(|source| base.path().join(source));
        let sources: Vec<_> = sources.iter().map(PathBuf::as_path).collect();
        let outcome = Ends::run(&job(direction, &sources, &target)).unwrap();
        let lines = outcome["left_out"].as_array().unwrap();
        let unknown =
            ": its size is not known before it is read; give what is in it through a pipe";
        for name in ["link", "/proc/version", "/proc/self/net/dev"] {
            let is_of = |line: &Value| {
                line.as_str()
                    .unwrap()
                    .ends_with(&format!("{name}{unknown}"))
            };
            assert!(lines.iter().any(is_of), "{direction} {name}: {lines:?}");
        }
        assert_eq!(fs::read(target.join("empty")).unwrap(), b"");
        for name in ["link", "version", "net/dev"] {
            assert!(!target.join(name).exists(), "{direction} {name}");
        }
    }
}

pub fn where_no_source_can_be_copied_the_copy_fails() {
    for direction in ["push", "pull"] {
        let base = bad_world();
        let target = base.path().join("target");
        for (name, why) in BAD {
            let job = of_several(direction, base.path(), &[name, "missing too"], &target);
            let error = Ends::run(&job).unwrap_err();
            let shown = format!("{}/", base.path().display());
            let far = if direction == "pull" { "far end: " } else { "" };
            assert_eq!(error.replace(&shown, ""), format!("{far}{why}"));
        }
    }
}

pub fn a_fifo_that_is_named_is_kept_where_those_in_a_tree_are() {
    for direction in ["push", "pull"] {
        let base = bad_world();
        let target = base.path().join("target");
        let mut job = of_several(direction, base.path(), &["fifo", "good"], &target);
        job["keep"] = json!({"specials": true});
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["left_out"], json!([]));
        let kind = fs::symlink_metadata(target.join("fifo"))
            .unwrap()
            .file_type();
        assert!(kind.is_fifo() && target.join("good").exists());
        let mut renamed = ends::job(direction, &[&base.path().join("fifo")], &target.join("new"));
        renamed["keep"] = json!({"specials": true});
        Ends::run(&renamed).unwrap();
        let kind = fs::symlink_metadata(target.join("new"))
            .unwrap()
            .file_type();
        assert!(kind.is_fifo());
    }
}

/// Mode and time of the folder that takes what a list names, and the names in it.
fn taken(folder: &Path) -> (u32, Option<i64>, Vec<PathBuf>) {
    let stat = fs::metadata(folder).unwrap();
    let names = listing(folder).into_iter().map(|one| one.0).collect();
    // That of a folder in which something was made is now.
    let time = Some(stat.mtime()).filter(|&time| time < 1_500_000_000);
    (stat.mode(), time, names)
}

pub fn a_list_leaves_the_folder_that_takes_it_alone_unless_it_names_the_source_as_with_rsync() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let source = base.join("src");
    fs::create_dir_all(source.join("a/b")).unwrap();
    fs::create_dir(source.join("c")).unwrap();
    for name in ["h", "a/g", "a/b/f", "c/k"] {
        fs::write(source.join(name), name).unwrap();
    }
    let dated = |folder: &Path, mode, at_s| {
        fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(at_s);
        File::open(folder).unwrap().set_modified(at).unwrap();
    };
    dated(&source.join("a"), 0o715, 1_000_000_000);
    dated(&source, 0o711, 1_000_000_000);
    let list = base.join("list");
    for text in [
        "", "h\n", "a/g\n", "a\n", "a/\n", ".\n", "./\n", "/\n", "./h\n", "a/..\n", "..\n",
        "h\n.\n", "a/../h\n",
    ] {
        fs::write(&list, text).unwrap();
        for (options, perms) in [(&["-a"][..], true), (&["-a", "--no-perms"], false)] {
            for is_there in [true, false] {
                let target = |name: &str| {
                    let target = base.join(name);
                    let _ = fs::remove_dir_all(&target);
                    if is_there {
                        fs::create_dir(&target).unwrap();
                        dated(&target, 0o755, 900_000_000);
                    }
                    target
                };
                let by_rsync = target("rsync");
                let done = Command::new("rsync")
                    .args(options)
                    .arg(format!("--files-from={}", list.display()))
                    .args([
                        format!("{}/", source.display()),
                        format!("{}/", by_rsync.display()),
                    ])
                    .status();
                assert!(done.expect("rsync is installed").success());
                for direction in ["push", "pull"] {
                    let target = target("ours");
                    let mut job = job(direction, &[&source.join(".")], &target);
                    job["names"] = json!(STANDARD.encode(list.to_str().unwrap()));
                    job["keep"] =
                        json!({"top": true, "perms": perms, "owner": true, "group": true});
                    job["destination_is_folder"] = json!(true);
                    Ends::run(&job).unwrap();
                    let case = format!("{direction} {text:?} {options:?} {is_there}");
                    assert_eq!(taken(&target), taken(&by_rsync), "{case}");
                }
            }
        }
    }
}
