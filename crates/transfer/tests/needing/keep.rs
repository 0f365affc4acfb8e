//! What is kept of files beside names, contents, times and modes, both ways.

use std::env;
use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::ends::{self, Ends, content};
use crate::keeping;
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

pub fn names_of_one_file_stay_names_of_one_file() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir_all(source.join("sub")).unwrap();
        fs::write(source.join("one"), content(3 * MIB)).unwrap();
        for name in ["two", "sub/three"] {
            fs::hard_link(source.join("one"), source.join(name)).unwrap();
        }
        fs::write(source.join("small"), b"small").unwrap();
        fs::hard_link(source.join("small"), source.join("sub/small")).unwrap();
        fs::hard_link(source.join("small"), base.path().join("elsewhere")).unwrap();
        fs::write(source.join("alone"), b"small").unwrap();

        let job = keeping(direction, &source, &target, json!({"hard_links": true}));
        let outcome = Ends::run(&job).unwrap();
        let counts = (&outcome["files"], &outcome["links"], &outcome["bytes"]);
        assert_eq!(counts, (&json!(3), &json!(3), &json!(3 * MIB + 10)));
        let linked = || {
            let at = |name: &str| inode(&target.join(name));
            assert_eq!((at("one"), at("one")), (at("two"), at("sub/three")));
            assert_eq!(at("small"), at("sub/small"));
            assert_eq!(ends::listing(&target), ends::listing(&source));
            assert_eq!(fs::metadata(target.join("one")).unwrap().nlink(), 3);
        };
        linked();

        let before = inode(&target.join("one"));
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["files_skipped"], 3);
        assert_eq!(inode(&target.join("one")), before);
        // A name that is a file of its own becomes a name of the other again.
        fs::remove_file(target.join("two")).unwrap();
        fs::copy(source.join("two"), target.join("two")).unwrap();
        fs::remove_file(target.join("sub/small")).unwrap();
        Ends::run(&job).unwrap();
        linked();

        let apart = base.path().join("apart");
        Ends::run(&keeping(direction, &source, &apart, json!({}))).unwrap();
        assert_ne!(inode(&apart.join("one")), inode(&apart.join("two")));
    }
}

pub fn runs_of_zeros_become_holes() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir(&source).unwrap();
        let holed = File::create(source.join("holed")).unwrap();
        holed.write_all_at(b"begin", 0).unwrap();
        holed.write_all_at(&content(MIB), 9 * MIB as u64).unwrap();
        holed.set_len(33 * MIB as u64 + 17).unwrap();
        fs::write(source.join("zeros"), vec![0; 200_000]).unwrap();
        fs::write(source.join("data"), content(300_000)).unwrap();

        Ends::run(&keeping(
            direction,
            &source,
            &target,
            json!({"sparse": true}),
        ))
        .unwrap();
        assert_eq!(ends::listing(&target), ends::listing(&source));
        let kept_bytes = |name: &str| fs::metadata(target.join(name)).unwrap().blocks() * 512;
        assert!(
            kept_bytes("holed") < 2 * MIB as u64,
            "{}",
            kept_bytes("holed")
        );
        assert_eq!(kept_bytes("zeros"), 0);
        assert!(kept_bytes("data") >= 300_000);
    }
}

/// What rsync would do with these options, a line each.
fn rsync_would_do(options: &str, source: &Path, target: &Path) -> String {
    let with_slash = |path: &Path| format!("{}/", path.display());
    let done = Command::new("rsync")
        .args([options, "--checksum"])
        .args([with_slash(source), with_slash(target)])
        .output()
        .expect("rsync is there");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, Permissions::from_mode(bits)).unwrap();
}

fn attribute(path: &Path, name: &str, value: &[u8]) {
    let file = File::open(path).unwrap();
    rustix::fs::fsetxattr(&file, name, value, rustix::fs::XattrFlags::empty()).unwrap();
}

/// The same of a link or a special file, which cannot be opened.
fn unopened_attribute(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
}

fn fifo(path: &Path, bits: u32) {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends with a null byte and outlives the call.
    let made = unsafe { libc::mkfifo(name.as_ptr(), bits) };
    assert_eq!(made, 0);
    mode(path, bits);
}

/// An access list that gives a user more than others, as `setfacl -m u:NUMBER:rwx` makes it (linux/posix_acl_xattr.h).
fn access_list(user: u32) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    let none = u32::MAX;
    for (tag, may, id) in [
        (0x01_u16, 7_u16, none),
        (0x02, 7, user),
        (0x04, 5, none),
        (0x10, 7, none),
        (0x20, 0, none),
    ] {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(may.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Modes, times, attributes, access lists, hard links, holes, FIFOs, as any user can make them.
fn ordinary_tree(source: &Path) {
    fs::create_dir_all(source.join("closed/in")).unwrap();
    fs::create_dir(source.join("empty")).unwrap();
    for (name, bits) in [("plain", 0o644), ("program", 0o755), ("secret", 0o400)] {
        fs::write(source.join(name), name).unwrap();
        mode(&source.join(name), bits);
    }
    attribute(&source.join("plain"), "user.plain", b"value");
    attribute(&source.join("plain"), "user.empty", b"");
    attribute(
        &source.join("program"),
        "system.posix_acl_access",
        &access_list(4711),
    );
    attribute(
        &source.join("empty"),
        "system.posix_acl_default",
        &access_list(4711),
    );
    attribute(&source.join("closed"), "user.folder", &[7; 2000]);
    fs::write(source.join("closed/in/big"), content(3 * MIB)).unwrap();
    attribute(&source.join("closed/in/big"), "user.big", &[0, 255]);
    fs::hard_link(source.join("closed/in/big"), source.join("again")).unwrap();
    let holed = File::create(source.join("holed")).unwrap();
    holed.set_len(5 * MIB as u64).unwrap();
    holed.write_all_at(b"data", 4 * MIB as u64).unwrap();
    symlink("plain", source.join("link")).unwrap();
    UnixListener::bind(source.join("socket")).unwrap();
    fifo(&source.join("fifo"), 0o622);
    for name in ["fifo", "socket"] {
        let list = access_list(4711);
        unopened_attribute(&source.join(name), "system.posix_acl_access", &list);
    }
    // What is made in this folder at the target begins with an access list.
    fs::create_dir(source.join("lists")).unwrap();
    fifo(&source.join("lists/without"), 0o640);
    attribute(
        &source.join("lists"),
        "system.posix_acl_default",
        &access_list(4711),
    );
    mode(&source.join("empty"), 0o1777);
    mode(&source.join("closed/in"), 0o500);
    mode(&source.join("closed"), 0o555);
}

/// Owners, set-user-ID, set-group-ID and devices on top.
fn tree_of_root(source: &Path) {
    ordinary_tree(source);
    for (name, user, group, bits) in [
        ("setuid", 1, 7, 0o4755),
        ("setgid", 4711, 1, 0o2711),
        ("shared", 1, 4712, 0o2770),
    ] {
        let path = source.join(name);
        match name {
            "shared" => fs::create_dir(&path).unwrap(),
            _ => fs::write(&path, name).unwrap(),
        }
        chown(&path, Some(user), Some(group)).unwrap();
        mode(&path, bits);
    }
    attribute(&source.join("plain"), "trusted.told", b"root");
    // May bind to low ports (linux/capability.h, revision 2).
    let capability = [0, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    attribute(&source.join("setgid"), "security.capability", &capability);
    lchown(source.join("link"), Some(4713), Some(2)).unwrap();
    lchown(source.join("socket"), Some(1), Some(1)).unwrap();
    for (name, kind, number) in [
        ("null", libc::S_IFCHR, libc::makedev(1, 3)),
        ("disk", libc::S_IFBLK, libc::makedev(7, 99)),
    ] {
        let path = CString::new(source.join(name).as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends with a null byte and outlives the call.
        let made = unsafe { libc::mknod(path.as_ptr(), kind | 0o640, number) };
        assert_eq!(made, 0);
        lchown(source.join(name), Some(0), Some(6)).unwrap();
    }
    for name in ["link", "fifo", "socket", "null", "disk"] {
        unopened_attribute(&source.join(name), "trusted.told", name.as_bytes());
    }
    for name in ["link", "fifo"] {
        unopened_attribute(&source.join(name), "security.note", b"1");
    }
    let list = access_list(4711);
    unopened_attribute(&source.join("disk"), "system.posix_acl_access", &list);
}

fn all() -> Value {
    json!({
        "hard_links": true, "sparse": true, "owner": true, "group": true, "devices": true, "specials": true,
        "top": true, "xattrs": true, "acls": true,
    })
}

pub fn special_files_are_counted_apart_from_links() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir(&source).unwrap();
        ordinary_tree(&source);
        let mut job = keeping(direction, &source, &target, all());
        for dry_run in [true, false] {
            job["dry_run"] = dry_run.into();
            let outcome = Ends::run(&job).unwrap();
            let counted = (&outcome["links"], &outcome["special_files"]);
            assert_eq!(counted, (&json!(2), &json!(3)), "{direction} {dry_run}");
        }
    }
}

/// Copies a tree both ways with all that is kept, and again when its target has other owners and modes: each time
/// rsync finds nothing to do.
fn rsync_finds_nothing_to_do(make: fn(&Path), spoil: fn(&Path)) {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir(&source).unwrap();
        fs::create_dir(&target).unwrap();
        make(&source);
        assert!(rsync_would_do("-aHAXSni", &source, &target).lines().count() > 10);
        let job = keeping(direction, &source, &target, all());
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["left_out"], json!([]), "{direction}");
        assert_eq!(
            rsync_would_do("-aHAXSni", &source, &target),
            "",
            "{direction}"
        );
        spoil(&target);
        let spoilt = rsync_would_do("-aHAXSni", &source, &target);
        assert!(spoilt.lines().count() >= 2, "{spoilt}");
        let outcome = Ends::run(&job).unwrap();
        assert_eq!(outcome["bytes"], 0, "nothing is sent again");
        assert_eq!(
            rsync_would_do("-aHAXSni", &source, &target),
            "",
            "{direction}"
        );
    }
}

fn spoil_modes(target: &Path) {
    mode(&target.join("plain"), 0o600);
    mode(&target.join("program"), 0o700);
    mode(&target.join("empty"), 0o700);
    attribute(&target.join("plain"), "user.plain", b"another");
    attribute(&target.join("plain"), "user.surplus", b"1");
    rustix::fs::lremovexattr(target.join("fifo"), "system.posix_acl_access").unwrap();
    let list = access_list(4712);
    unopened_attribute(&target.join("socket"), "system.posix_acl_access", &list);
    let program = File::open(target.join("program")).unwrap();
    rustix::fs::fremovexattr(&program, "system.posix_acl_access").unwrap();
}

fn spoil_all(target: &Path) {
    spoil_modes(target);
    chown(target.join("plain"), Some(9), Some(9)).unwrap();
    chown(target.join("setuid"), Some(0), Some(0)).unwrap();
    chown(target.join("shared"), Some(9), Some(9)).unwrap();
    chown(target.join("disk"), Some(9), Some(9)).unwrap();
    for name in ["link", "fifo", "socket", "null", "disk"] {
        unopened_attribute(&target.join(name), "trusted.told", b"another");
        unopened_attribute(&target.join(name), "trusted.surplus", b"1");
    }
}

/// Says to a process of this program that it is to try as the user that it is.
const ORDINARY: &str = "HOWDAH_KEEP_ORDINARY";

pub fn rsync_finds_nothing_to_do_after_root() {
    rsync_finds_nothing_to_do(tree_of_root, spoil_all);
}

pub fn rsync_finds_nothing_to_do_after_an_ordinary_user() {
    let ordinary = || rsync_finds_nothing_to_do(ordinary_tree, spoil_modes);
    if env::var_os(ORDINARY).is_some() || !rustix::process::geteuid().is_root() {
        return ordinary();
    }
    let base = tempfile::tempdir().unwrap();
    mode(base.path(), 0o777);
    let program = base.path().join("program");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    mode(&program, 0o755);
    let mut again = Command::new(&program);
    again
        .args([
            "--exact",
            "keep::rsync_finds_nothing_to_do_after_an_ordinary_user",
        ])
        .env(ORDINARY, "1")
        .env("TMPDIR", base.path())
        .current_dir(base.path());
    let done = again.uid(65_534).gid(65_534).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

pub fn what_was_not_asked_for_is_not_kept() {
    let base = tempfile::tempdir().unwrap();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir(&source).unwrap();
    tree_of_root(&source);
    let outcome = Ends::run(&keeping("push", &source, &target, json!({}))).unwrap();
    assert_eq!(outcome["warnings"].as_array().unwrap().len(), 5);
    for (name, bits) in [("setuid", 0o755), ("setgid", 0o711), ("shared", 0o770)] {
        let meta = fs::metadata(target.join(name)).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.uid(), meta.gid()), (bits, 0, 0));
    }
    let group = base.path().join("group");
    Ends::run(&keeping("push", &source, &group, json!({"group": true}))).unwrap();
    let meta = fs::metadata(group.join("setuid")).unwrap();
    assert_eq!(
        (meta.mode() & 0o7777, meta.uid(), meta.gid()),
        (0o755, 0, 7)
    );
}
