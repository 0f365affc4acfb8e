//! Entries of the target that cannot be written: they are named and left out, and all others are copied.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::process::{Gid, Uid};
use serde_json::{Value, json};

use crate::ends::{Ends, content, job, listing};
use crate::{Disk, run};

/// A user made up for the purpose, so that no rule of the system for a known one is met.
const USER: u32 = 54321;
const MIB: usize = 1 << 20;

/// Has this thread, and those that it starts, act as that user.
fn become_user() {
    let (user, group) = (Uid::from_raw(USER), Gid::from_raw(USER));
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_res_gid(group, group, group).unwrap();
    rustix::thread::set_thread_res_uid(user, user, user).unwrap();
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, Permissions::from_mode(bits)).unwrap();
}

/// What was left out, sorted, with the target called `dst`.
fn left_out(outcome: &Value, target: &Path) -> Vec<String> {
    said(outcome, "left_out", target)
}

/// Lines of one kind, sorted in the same way.
fn said(outcome: &Value, kind: &str, target: &Path) -> Vec<String> {
    let lines = outcome[kind].as_array().unwrap().iter();
    let lines = lines.map(|line| {
        let line = line.as_str().unwrap();
        let line = line.strip_prefix("far end: ").unwrap_or(line);
        line.replace(target.to_str().unwrap(), "dst")
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

/// All names below a folder.
fn names(root: &Path) -> Vec<PathBuf> {
    listing(root).into_iter().map(|(path, ..)| path).collect()
}

/// The parts that are left below a folder.
fn parts(root: &Path) -> Vec<PathBuf> {
    let is_part = |path: &PathBuf| path.to_str().unwrap().contains(".howdah-");
    names(root).into_iter().filter(is_part).collect()
}

/// A source, and a target of a user in which some is of root.
fn world(disk: &Disk) -> (PathBuf, PathBuf) {
    let (source, target) = (disk.root().join("src"), disk.root().join("dst"));
    for folder in 0..5 {
        for file in 0..20 {
            write(&source.join(format!("d{folder}/f{file}")), b"new");
        }
    }
    write(&source.join("d3/big"), &content(3 * MIB));
    write(&source.join("d3/sub/deep/file"), b"new");
    symlink("f0", source.join("d3/link")).unwrap();
    write(&source.join("locked/one"), b"new");
    write(&source.join("locked/deep/two"), b"new");
    write(&source.join("shared/theirs"), &content(3 * MIB));
    write(&source.join("shared/small"), b"new");
    write(&source.join("shared/mine"), b"new");
    mode(&source.join("locked"), 0o700);
    write(&target.join("d3/f0"), b"an old one");
    write(&target.join("locked/secret"), b"stays");
    write(&target.join("shared/theirs"), b"an old one");
    write(&target.join("shared/small"), b"an old one");
    mode(&target.join("locked"), 0o700);
    mode(&target.join("shared"), 0o1777);
    chown(&target, Some(USER), Some(USER)).unwrap();
    (source, target)
}

const REFUSED: [&str; 4] = [
    "no permission to enter folder dst/locked; check its owner and mode",
    "no permission to write dst/shared/small; check its owner, mode and flags (lsattr)",
    "no permission to write dst/shared/theirs; check its owner, mode and flags (lsattr)",
    "no permission to write into folder dst/d3; check its owner and mode",
];

pub fn a_user_copies_all_but_what_others_keep_for_themselves() {
    let disk = Disk::ext4();
    let (source, target) = world(&disk);
    let mut job = job("push", &[&source.join(".")], &target);
    let copy = |job: &Value| {
        Ends::start_elsewhere(become_user, job, &json!({}))
            .result()
            .unwrap()
    };
    job["keep"] = json!({"omit_dir_times": true, "perms": false});
    job["dry_run"] = json!(true);
    let before = names(&target);
    assert_eq!(left_out(&copy(&job), &target), [REFUSED[0], REFUSED[3]]);
    assert_eq!(names(&target), before);
    job["dry_run"] = json!(false);
    // Those of others in a shared folder are refused when they have come.
    for files in [83, 2] {
        let outcome = copy(&job);
        assert_eq!(left_out(&outcome, &target), REFUSED);
        assert_eq!(outcome["files"], files);
        assert_eq!(outcome["warnings"], json!([]));
        assert_eq!(parts(&target), Vec::<PathBuf>::new());
        for folder in [0, 1, 2, 4] {
            let folder = format!("d{folder}");
            assert_eq!(names(&target.join(&folder)), names(&source.join(&folder)));
        }
        assert_eq!(fs::read(target.join("shared/mine")).unwrap(), b"new");
        for theirs in ["d3/f0", "shared/theirs", "shared/small"] {
            assert_eq!(fs::read(target.join(theirs)).unwrap(), b"an old one");
        }
        assert!(!target.join("d3/sub").exists());
    }
}

pub fn nothing_is_removed_where_it_could_not_be_looked_into() {
    let disk = Disk::ext4();
    let (source, target) = world(&disk);
    write(&target.join("d4/old"), b"goes");
    for path in ["d4", "d4/old"] {
        chown(target.join(path), Some(USER), Some(USER)).unwrap();
    }
    let mut job = job("push", &[&source.join(".")], &target);
    job["keep"] = json!({"omit_dir_times": true, "perms": false});
    job["delete"] = json!(true);
    let outcome = Ends::start_elsewhere(become_user, &job, &json!({}))
        .result()
        .unwrap();
    assert_eq!(left_out(&outcome, &target), REFUSED);
    assert_eq!(outcome["warnings"], json!([]));
    let removal = json!({"extraneous": 1, "removed": 1, "failed": 0, "held": null});
    assert_eq!(outcome["removal"], removal);
    assert_eq!(fs::read(target.join("locked/secret")).unwrap(), b"stays");
    assert!(!target.join("d4/old").exists());
}

pub fn attributes_that_a_user_may_not_give_end_nothing() {
    let disk = Disk::ext4();
    let (source, target) = (disk.root().join("src"), disk.root().join("dst"));
    write(&source.join("open/file"), b"new");
    write(&source.join("other/file"), b"new");
    for folder in ["", "open"] {
        fs::create_dir_all(target.join(folder)).unwrap();
        mode(&target.join(folder), 0o777);
    }
    let mut job = job("push", &[&source.join(".")], &target);
    job["keep"] = json!({"top": true});
    for files in [2, 0] {
        let outcome = Ends::start_elsewhere(become_user, &job, &json!({}))
            .result()
            .unwrap();
        let said = left_out(&outcome, &target);
        let refused = |path: &str| {
            format!(
                "no permission to set mode and time of dst/{path}; check its owner, mode and flags (lsattr)"
            )
        };
        assert_eq!(said, [refused(""), refused("open")]);
        assert_eq!(outcome["files"], files);
        assert_eq!(fs::read(target.join("open/file")).unwrap(), b"new");
    }
}

pub fn a_root_that_cannot_be_written_ends_the_copy() {
    let disk = Disk::ext4();
    let (source, target) = (disk.root().join("src"), disk.root().join("dst"));
    write(&source.join("file"), b"new");
    write(&target.join("old"), b"there");
    let pushed = job("push", &[&source.join(".")], &target);
    let refused = Ends::start_elsewhere(become_user, &pushed, &json!({}))
        .result()
        .unwrap_err();
    assert!(refused.contains("no permission to write"), "{refused}");
    run("mount", &["-t", "tmpfs", "tmpfs", target.to_str().unwrap()]);
    write(&target.join("sub/old"), b"there");
    run("mount", &["-o", "remount,ro", target.to_str().unwrap()]);
    write(&source.join("sub/file"), b"new");
    fs::remove_file(source.join("file")).unwrap();
    for direction in ["push", "pull"] {
        let job = job(direction, &[&source.join(".")], &target);
        let refused = Ends::run(&job).unwrap_err();
        assert!(
            refused.contains("its file system is read-only"),
            "{refused}"
        );
    }
}

pub fn what_is_fixed_or_mounted_is_left_out_before_it_is_sent() {
    let disk = Disk::ext4();
    let (source, target) = (disk.root().join("src"), disk.root().join("dst"));
    for name in ["fixed", "log", "mounted", "sub/fixed"] {
        write(&source.join(name), &content(3 * MIB));
        write(&target.join(name), b"an old one");
    }
    write(&source.join("plain"), b"new");
    write(&source.join("frozen/new"), b"new");
    write(&source.join("disk/new"), b"new");
    for folder in ["frozen", "disk"] {
        fs::create_dir(target.join(folder)).unwrap();
    }
    let at = |name: &str| target.join(name).to_str().unwrap().to_owned();
    for (flag, name) in [
        ("+i", "fixed"),
        ("+a", "log"),
        ("+i", "sub/fixed"),
        ("+i", "frozen"),
    ] {
        run("chattr", &[flag, &at(name)]);
    }
    write(&disk.root().join("other"), b"an old one");
    let other = disk.root().join("other");
    run(
        "mount",
        &["--bind", other.to_str().unwrap(), &at("mounted")],
    );
    run("mount", &["-t", "tmpfs", "-o", "ro", "tmpfs", &at("disk")]);
    let flags = "check its owner, mode and flags (lsattr)";
    let refused = [
        "cannot write dst/mounted: something is mounted there; unmount it first".to_owned(),
        "cannot write into folder dst/disk: its file system is read-only".to_owned(),
        format!("no permission to write dst/fixed; {flags}"),
        format!("no permission to write dst/log; {flags}"),
        format!("no permission to write dst/sub/fixed; {flags}"),
        format!("no permission to write into folder dst/frozen; {flags}"),
    ];
    for direction in ["push", "pull"] {
        let mut job = job(direction, &[&source.join(".")], &target);
        for same in ["size-and-time", "content"] {
            job["skip"] = json!({"missing": false, "there": false, "newer": false, "same": same});
            let _ = fs::remove_file(target.join("plain"));
            let outcome = Ends::run(&job).unwrap();
            assert_eq!(left_out(&outcome, &target), refused, "{direction} {same}");
            assert_eq!(outcome["warnings"], json!([]), "{direction} {same}");
            assert_eq!(
                (&outcome["files"], &outcome["bytes"]),
                (&json!(1), &json!(3))
            );
            assert_eq!(parts(&target), Vec::<PathBuf>::new());
            assert_eq!(fs::read(target.join("fixed")).unwrap(), b"an old one");
        }
    }
}

/// Rsync empties a folder that is bound there, where that is of the target's own file system.
pub fn what_is_mounted_at_the_target_is_not_emptied_with_what_the_source_has_not() {
    let disk = Disk::ext4();
    let (source, target) = (disk.root().join("src"), disk.root().join("dst"));
    write(&source.join("file"), b"new");
    for direction in ["push", "pull"] {
        write(&disk.root().join("home/precious"), b"of others");
        write(&target.join("old/goes"), b"an old one");
        for name in ["bound", "old/deep/bound", "memory"] {
            let at = target.join(name);
            fs::create_dir_all(&at).unwrap();
            let at = at.to_str().unwrap();
            match name {
                "memory" => run("mount", &["-t", "tmpfs", "tmpfs", at]),
                _ => {
                    let home = disk.root().join("home");
                    run("mount", &["--bind", home.to_str().unwrap(), at])
                }
            };
        }
        let mut job = job(direction, &[&source.join(".")], &target);
        job["delete"] = json!(true);
        let outcome = Ends::run(&job).unwrap();
        let line = |name: &str, why: &str| {
            format!("dst/{name} stays, though it is not at the source: {why}; unmount it first")
        };
        let expected = [
            line("bound", "something is mounted there"),
            line("memory", "it is of another file system"),
            line("old/deep/bound", "something is mounted there"),
        ];
        assert_eq!(said(&outcome, "warnings", &target), expected, "{direction}");
        assert!(!target.join("old/goes").exists());
        let precious = fs::read(disk.root().join("home/precious")).unwrap();
        assert_eq!(precious, b"of others", "{direction}");
        for name in ["bound", "old/deep/bound", "memory"] {
            run("umount", &[target.join(name).to_str().unwrap()]);
        }
    }
}

pub fn what_a_file_system_cannot_hold_is_left_out_before_it_is_sent() {
    let disk = Disk::ext4();
    let target = disk.root().join("dst");
    write(&target.join("old"), b"there");
    let memory = Disk::of_memory("tmpfs");
    let source = memory.root().join("src");
    write(&source.join("plain"), b"new");
    for (name, size) in [
        ("above 16 TiB", 17 << 40),
        ("largest", i64::MAX as u64),
        ("sub/largest", i64::MAX as u64),
        ("sub/another", i64::MAX as u64),
    ] {
        write(&source.join(name), b"");
        let file = File::options().write(true).open(source.join(name)).unwrap();
        file.set_len(size).unwrap();
    }
    let refused = |name: &str| format!("cannot write dst/{name}: File too large");
    let refused = ["above 16 TiB", "largest", "sub/another", "sub/largest"].map(refused);
    for direction in ["push", "pull"] {
        let outcome = Ends::run(&job(direction, &[&source.join(".")], &target)).unwrap();
        assert_eq!(left_out(&outcome, &target), refused, "{direction}");
        assert_eq!(outcome["files"], json!(1), "{direction}");
        assert_eq!(outcome["bytes"], json!(3), "{direction}");
        assert_eq!(parts(&target), Vec::<PathBuf>::new());
        fs::remove_file(target.join("plain")).unwrap();
    }
}
