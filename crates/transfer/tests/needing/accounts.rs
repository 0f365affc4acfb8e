//! Two hosts that have other users and groups at the same numbers, beside rsync: each is a mount namespace with an
//! `/etc/passwd` and an `/etc/group` of its own.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::ends::Ends;
use crate::{keeping, own_mounts, run};

/// Users of each host, and groups at the same numbers and a hundred. Numbers of one are other names, or none, at the other.
const NEAR: [(&str, u32); 5] = [
    ("alice", 7001),
    ("bob", 7002),
    ("carol", 7003),
    ("near", 7004),
    ("erin", 7005),
];
const FAR: [(&str, u32); 5] = [
    ("alice", 7003),
    ("bob", 7001),
    ("carol", 6001),
    ("far", 7006),
    ("erin", 7005),
];
/// Those whom both hosts know by number, by name or not at all, in lists that are the same again in the second run.
const AGREED: [&str; 2] = ["agreed", "nameless"];

/// The tables of a host in files.
struct Host {
    users: PathBuf,
    groups: PathBuf,
}

impl Host {
    fn new(folder: &Path, name: &str, known: &[(&str, u32)]) -> Self {
        let users = folder.join(format!("{name}.passwd"));
        let groups = folder.join(format!("{name}.group"));
        let mut lines = "root:x:0:0:root:/root:/bin/sh\n".to_owned();
        let mut group_lines = "root:x:0:\n".to_owned();
        for (name, number) in known {
            lines += &format!("{name}:x:{number}:0::/:/bin/sh\n");
            group_lines += &format!("{name}s:x:{}:\n", number + 100);
        }
        fs::write(&users, lines).unwrap();
        fs::write(&groups, group_lines).unwrap();
        Self { users, groups }
    }

    fn mounts(&self) -> [[String; 3]; 2] {
        [(&self.users, "/etc/passwd"), (&self.groups, "/etc/group")]
            .map(|(file, at)| ["--bind", file.to_str().unwrap(), at].map(str::to_owned))
    }

    /// Has this thread, and those it starts, be on this host.
    fn enter(&self) {
        own_mounts();
        for mount in self.mounts() {
            run("mount", &mount.each_ref().map(String::as_str));
        }
    }

    /// A program that runs another one on this host, as ssh does.
    fn shell(&self, folder: &Path) -> PathBuf {
        let path = folder.join("shell");
        let mounts = self
            .mounts()
            .map(|mount| format!("mount {}", mount.join(" ")));
        let inside = format!("{} && exec \"$@\"", mounts.join(" && "));
        let text = format!("#!/bin/sh\nshift\nexec unshare -m sh -c '{inside}' sh \"$@\"\n");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

/// An access list of users, and of groups at those numbers and a hundred (linux/posix_acl_xattr.h).
fn access_list(numbers: &[u32]) -> Vec<u8> {
    let none = u32::MAX;
    let mut each = vec![(0x01_u16, 7_u16, none)];
    // Each may do something else, so that it shows who is who.
    each.extend((1..).zip(numbers).map(|(may, &number)| (0x02, may, number)));
    each.push((0x04, 5, none));
    each.extend(
        (1..)
            .zip(numbers)
            .map(|(may, &number)| (0x08, may, number + 100)),
    );
    each.extend([(0x10, 7, none), (0x20, 0, none)]);
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, may, number) in each {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(may.to_le_bytes());
        bytes.extend(number.to_le_bytes());
    }
    bytes
}

fn give_list(path: &Path, which: &str, numbers: &[u32]) {
    let file = File::open(path).unwrap();
    let (name, value) = (format!("system.posix_acl_{which}"), access_list(numbers));
    rustix::fs::fsetxattr(
        &file,
        name.as_str(),
        &value,
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
}

/// Each access list below a folder: of which file, which one, and its entries as tag, number and what they allow.
type Lists = Vec<(&'static str, &'static str, Vec<(u16, u32, u16)>)>;

fn lists(root: &Path) -> Lists {
    let mut found = Vec::new();
    for name in ["agreed", "nameless", "all", "folder"] {
        let file = File::open(root.join(name)).unwrap();
        for which in ["access", "default"] {
            let mut value = [0; 4096];
            let attribute = format!("system.posix_acl_{which}");
            if let Ok(len) = rustix::fs::fgetxattr(&file, attribute.as_str(), &mut value) {
                let entry = |entry: &[u8]| {
                    let half = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
                    let number = u32::from(half(6)) << 16 | u32::from(half(4));
                    (half(0), number, half(2))
                };
                found.push((name, which, value[4..len].chunks(8).map(entry).collect()));
            }
        }
    }
    found
}

/// The same with one entry for each, which allows what all of its entries do: rsync leaves two where two users of one
/// host become one of the other.
fn joined(mut lists: Lists) -> Lists {
    for (.., entries) in &mut lists {
        entries.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 &= next.2;
            }
            same
        });
    }
    lists
}

fn tree(source: &Path) {
    fs::create_dir_all(source.join("folder")).unwrap();
    for (name, numbers) in [
        ("agreed", &[7001, 7003, 7005][..]),
        ("nameless", &[7777]),
        ("all", &[6001, 7001, 7002, 7003, 7004, 7006, 7777]),
    ] {
        fs::write(source.join(name), name).unwrap();
        give_list(&source.join(name), "access", numbers);
    }
    give_list(&source.join("folder"), "access", &[7001, 7002]);
    give_list(&source.join("folder"), "default", &[7002, 7003]);
}

fn kept(numeric_ids: bool) -> Value {
    json!({"owner": true, "group": true, "top": true, "acls": true, "numeric_ids": numeric_ids})
}

fn changed(path: &Path) -> (i64, i64) {
    let meta = fs::metadata(path).unwrap();
    (meta.ctime(), meta.ctime_nsec())
}

pub fn access_lists_tell_names_as_rsync_does() {
    let base = tempfile::tempdir().unwrap();
    let near = Host::new(base.path(), "near", &NEAR);
    let far = Host::new(base.path(), "far", &FAR);
    let shell = far.shell(base.path());
    near.enter();
    let source = base.path().join("src");
    tree(&source);
    for direction in ["push", "pull"] {
        let copy = |target: &Path, numeric_ids: bool| {
            let job = keeping(direction, &source, target, kept(numeric_ids));
            let [users, groups] = [&far.users, &far.groups].map(Clone::clone);
            let far = Host { users, groups };
            let ends = Ends::start_elsewhere(move || far.enter(), &job, &json!({}));
            let outcome = ends.result().unwrap();
            assert_eq!(outcome["left_out"], json!([]), "{direction}");
            outcome
        };
        // Where numbers change, rsync finds its own lists different in the next run, so lists are compared as they are.
        let by_rsync = |target: &Path, options: &str| {
            let target = target.display();
            let names = match direction {
                "push" => [format!("{}/", source.display()), format!("far:{target}/")],
                _ => [format!("far:{}/", source.display()), format!("{target}/")],
            };
            let what = ["-aA", options, "-e", shell.to_str().unwrap()];
            run("rsync", &[&what[..], &[&names[0], &names[1]]].concat());
        };
        let target = |name: &str| base.path().join(format!("{direction}-{name}"));
        let (names, numbers) = (target("names"), target("numbers"));
        by_rsync(&target("rsync-names"), "-a");
        by_rsync(&target("rsync-numbers"), "--numeric-ids");
        let (by_name, by_number) = (
            joined(lists(&target("rsync-names"))),
            lists(&target("rsync-numbers")),
        );
        assert_eq!(by_number, lists(&source));
        let differ = by_name
            .iter()
            .zip(&by_number)
            .filter(|(one, other)| one != other);
        assert_eq!(differ.count(), 4);

        copy(&numbers, true);
        assert_eq!(lists(&numbers), by_number, "{direction}");
        copy(&names, false);
        assert_eq!(lists(&names), by_name, "{direction}");

        // What is there already is compared by name, too: it is let be, or gets the list that it lacks.
        let before = AGREED.map(|name| changed(&names.join(name)));
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(copy(&names, false)["bytes"], 0);
        assert_eq!(AGREED.map(|name| changed(&names.join(name))), before);
        give_list(&names.join("agreed"), "access", &[7001, 7003, 7005]);
        assert_ne!(lists(&names), by_name);
        assert_eq!(copy(&names, false)["bytes"], 0);
        assert_eq!(lists(&names), by_name, "{direction}");
        // Where they agree by number, names tell them apart.
        assert_eq!(copy(&numbers, false)["bytes"], 0);
        assert_eq!(lists(&numbers), by_name, "{direction}");
    }
}
