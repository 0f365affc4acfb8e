//! Modes and times that are not kept, held against rsync's.

#[allow(dead_code, reason = "other tests need the rest of it")]
mod ends;
#[path = "../../cc/tests/privilege/mod.rs"]
mod privilege;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Once;

use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps, XattrFlags};
use serde_json::{Value, json};

use ends::{Ends, content, job};
use privilege::{missing_root, missing_rsync, tests};

const MIB: usize = 1 << 20;
/// When all of the source, and all of a target, was changed last, in seconds since 1970.
const SOURCE_S: i64 = 1_000_000_000;
const TARGET_S: i64 = 1_100_000_000;
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// Gives this process, and the programs that it starts, a umask that shows.
fn umask() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        rustix::process::umask(Mode::from_raw_mode(0o027));
    });
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, Permissions::from_mode(bits)).unwrap();
}

fn file(path: &Path, text: &str, bits: u32) {
    fs::write(path, text).unwrap();
    mode(path, bits);
}

fn folder(path: &Path, bits: u32) {
    fs::create_dir(path).unwrap();
    mode(path, bits);
}

/// An access list that gives a user all, a group but reading, and others nothing (linux/posix_acl_xattr.h).
fn access_list() -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    let none = u32::MAX;
    for (tag, may, id) in [
        (0x01_u16, 7_u16, none),
        (0x02, 7, 4711),
        (0x04, 4, none),
        (0x10, 6, none),
        (0x20, 0, none),
    ] {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(may.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn list(path: &Path, name: &str) {
    let file = File::open(path).unwrap();
    rustix::fs::fsetxattr(&file, name, &access_list(), XattrFlags::empty()).unwrap();
}

/// Has all below a folder, and the folder, changed at one time.
fn change_all_at(root: &Path, at_s: i64) {
    let at = Timespec {
        tv_sec: at_s,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: at,
        last_modification: at,
    };
    for path in paths(root) {
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

/// A folder and all that is below it.
fn paths(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut at = 0;
    while at < found.len() {
        if fs::symlink_metadata(&found[at]).unwrap().is_dir() {
            let entries = fs::read_dir(&found[at]).unwrap();
            found.extend(entries.map(|entry| entry.unwrap().path()));
        }
        at += 1;
    }
    found
}

fn fifo(path: &Path, bits: u32) {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends with a null byte and outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    mode(path, bits);
}

fn make_source(source: &Path) {
    folder(source, 0o757);
    for (name, bits) in [
        ("all", 0o777),
        ("private", 0o600),
        ("read", 0o444),
        ("older", 0o666),
        ("changed program", 0o755),
        ("same", 0o640),
        ("same program", 0o755),
        ("link there", 0o666),
    ] {
        file(&source.join(name), "from the source", bits);
    }
    file(&source.join("special"), "from the source", 0o1777);
    fs::write(source.join("big"), content(3 * MIB)).unwrap();
    mode(&source.join("big"), 0o666);
    fs::hard_link(source.join("all"), source.join("other name")).unwrap();
    symlink("all", source.join("link")).unwrap();
    fifo(&source.join("fifo"), 0o666);
    fifo(&source.join("fifo there"), 0o666);
    for (name, bits) in [
        ("open", 0o777),
        ("open/closed", 0o555),
        ("open/sticky", 0o1777),
        ("hidden", 0o700),
        ("there", 0o777),
        ("there/new", 0o770),
        ("shared", 0o755),
        ("shared/new", 0o755),
        ("listed", 0o777),
        ("listed/new", 0o777),
        ("let be", 0o777),
    ] {
        folder(&source.join(name), bits);
        file(&source.join(name).join("file"), "from the source", 0o666);
    }
    file(&source.join("listed/program"), "from the source", 0o755);
    file(&source.join("listed/older"), "from the source", 0o755);
    for name in [
        "changed program",
        "same program",
        "older",
        "there",
        "shared/new",
    ] {
        chown(source.join(name), Some(4711), Some(4712)).unwrap();
    }
    change_all_at(source, SOURCE_S);
}

/// What is at the target before the copy.
fn make_target(target: &Path, set_user: bool) {
    folder(target, 0o711);
    for (name, bits) in [
        ("older", 0o604),
        ("changed program", 0o700),
        ("special", 0o1606),
    ] {
        file(&target.join(name), "from the target before", bits);
    }
    file(&target.join("same"), "from the target", 0o604);
    file(&target.join("same program"), "from the target", 0o750);
    symlink("older", target.join("link there")).unwrap();
    fifo(&target.join("fifo there"), 0o600);
    for (name, bits) in [
        ("there", 0o750),
        ("shared", 0o2775),
        ("listed", 0o755),
        ("let be", 0o1755),
    ] {
        folder(&target.join(name), bits);
    }
    if set_user {
        // Without owners no mode of a file that is sent lets it act as a user, and with rsync that of the old file does.
        mode(&target.join("changed program"), 0o4711);
        mode(&target.join("same program"), 0o4755);
    }
    list(&target.join("listed"), DEFAULT);
    file(
        &target.join("listed/older"),
        "from the target before",
        0o640,
    );
    file(&target.join("let be/file"), "from the target", 0o604);
    change_all_at(target, TARGET_S);
    for name in ["same", "same program", "let be/file"] {
        change_all_at(&target.join(name), SOURCE_S);
    }
}

/// What is there, but for the times of a copy, which are of no copy twice.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for path in paths(root) {
        let meta = fs::symlink_metadata(&path).unwrap();
        let kind = meta.mode() & libc::S_IFMT;
        let content = match kind {
            libc::S_IFREG => blake3::hash(&fs::read(&path).unwrap()).to_hex()[..8].to_owned(),
            libc::S_IFLNK => format!("-> {}", fs::read_link(&path).unwrap().display()),
            _ => String::new(),
        };
        let when = match meta.mtime() {
            SOURCE_S => "source",
            TARGET_S => "target",
            _ => "copy",
        };
        let lists = [ACCESS, DEFAULT].map(|name| {
            let mut value = vec![0; 4096];
            let len = rustix::fs::lgetxattr(&path, name, &mut value).unwrap_or(0);
            blake3::hash(&value[..len]).to_hex()[..4].to_owned()
        });
        let (user, names) = (meta.uid(), meta.nlink());
        let name = path.strip_prefix(root).unwrap().display().to_string();
        found.insert(
            name,
            format!(
                "{:o} {user} {names} {when} {lists:?} {content}",
                meta.mode()
            ),
        );
    }
    found
}

fn rsync(words: &[&str], source: &Path, target: &Path) -> String {
    let done = Command::new("rsync")
        .args(words)
        .args([source.join(""), target.join("")])
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// What rsync has left, but for set-user-ID of programs that have got another user: rsync lets them act as that one also
/// where modes are not kept, so that nobody has asked for it.
fn without_passed_rights(
    mut tree: BTreeMap<String, String>,
    keep: &Value,
) -> BTreeMap<String, String> {
    if keep["perms"] == json!(false) {
        for name in ["changed program", "same program"] {
            let told = tree.get_mut(name).unwrap();
            if let Some(rest) = told.strip_prefix("104") {
                assert!(told.contains(" 4711 "), "{name}: {told}");
                *told = format!("100{rest}");
            }
        }
    }
    tree
}

/// The options of rsync, and what a job keeps with them.
fn options() -> Vec<(Vec<&'static str>, Value)> {
    let archive =
        json!({"owner": true, "group": true, "devices": true, "specials": true, "top": true});
    let with = |more: Value| {
        let mut keep = archive.clone();
        for (word, value) in more.as_object().unwrap() {
            keep[word] = value.clone();
        }
        keep
    };
    vec![
        (vec!["-a"], with(json!({}))),
        (vec!["-a", "--no-perms"], with(json!({"perms": false}))),
        (vec!["-a", "--no-times"], with(json!({"times": false}))),
        (vec!["-aO"], with(json!({"omit_dir_times": true}))),
        (
            vec!["-aO", "--no-p", "--no-t"],
            with(json!({"perms": false, "times": false, "omit_dir_times": true})),
        ),
        (
            vec!["-aH", "--no-p", "--no-t"],
            with(json!({"perms": false, "times": false, "hard_links": true})),
        ),
        (
            vec!["-aX", "--no-p", "-O"],
            with(json!({"perms": false, "xattrs": true, "omit_dir_times": true})),
        ),
        (
            vec!["-rlt", "--specials"],
            json!({"perms": false, "specials": true, "top": true}),
        ),
        (
            vec!["-a", "--no-p", "--no-t", "--size-only"],
            with(json!({"perms": false, "times": false})),
        ),
        (
            vec!["-a", "--no-p", "--no-t", "--checksum"],
            with(json!({"perms": false, "times": false})),
        ),
    ]
}

fn each_option_gives_what_it_gives_with_rsync() {
    umask();
    let mut results = Vec::new();
    for (words, keep) in options() {
        let base = tempfile::tempdir().unwrap();
        let source = base.path().join("src");
        make_source(&source);
        for there in [true, false] {
            let [by_rsync, push, pull] =
                ["rsync", "push", "pull"].map(|name| base.path().join(format!("{name} {there}")));
            if there {
                for target in [&by_rsync, &push, &pull] {
                    make_target(target, keep.get("owner").is_some());
                }
            }
            // A second copy goes on from what the first one has left.
            let times: &[_] = if there {
                &["first", "second"]
            } else {
                &["first"]
            };
            for time in times {
                let listed = [&["-ni"], &words[..]].concat();
                let sends = rsync(&listed, &source, &by_rsync);
                let sends = sends.lines().filter(|line| line.starts_with(">f")).count();
                rsync(&words, &source, &by_rsync);
                let expected = without_passed_rights(tree(&by_rsync), &keep);
                for (direction, target) in [("push", &push), ("pull", &pull)] {
                    let mut job = job(direction, &[&source.join(".")], target);
                    job["destination_is_folder"] = json!(true);
                    job["sync"] = json!(false);
                    job["keep"] = keep.clone();
                    let same = match words.last() {
                        Some(&"--size-only") => "size",
                        Some(&"--checksum") => "content",
                        _ => "size-and-time",
                    };
                    job["skip"] =
                        json!({"missing": false, "there": false, "newer": false, "same": same});
                    let outcome = Ends::run(&job).unwrap();
                    let what = format!("{direction} {words:?} there {there} {time}");
                    assert_eq!(outcome["warnings"], json!([]), "{what}");
                    assert_eq!(outcome["left_out"], json!([]), "{what}");
                    assert_eq!(outcome["files"], json!(sends), "{what}");
                    assert_eq!(tree(target), expected, "{what}");
                }
                results.push(expected);
            }
        }
    }
    let (usual, others) = results.split_at(3);
    assert!(
        others.iter().all(|other| !usual.contains(other)),
        "each option shows"
    );
}

fn main() -> ExitCode {
    // Only root writes into folders that are closed to their owner, and gives files to others.
    let tests = tests![each_option_gives_what_it_gives_with_rsync];
    let missing = missing_root().or_else(missing_rsync);
    privilege::run([(missing, tests)])
}
