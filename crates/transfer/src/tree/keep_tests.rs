//! What is kept of files, at the receiver, one placement at a time.

use std::cell::RefCell;
use std::fs;
use std::io::IoSlice;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use howdah_wire::{
    Account, Attributes, FileFlags, Keep, Owner, Span, Special, TreePath, Xattr, Xattrs,
};

use rustix::fs::IFlags;

use crate::error::TransferError;
use crate::tree::other_names::OtherName;
use crate::tree::place::Placement;
use crate::tree::special_files::Made;
use crate::tree::target::Target;

const ATTRIBUTES: Attributes = Attributes {
    mode: 0o640,
    mtime_ns: 1_234_567_890_123_456_789,
    owner: None,
    xattrs: None,
};

pub(super) fn placement(folder: &Path, keep: Keep) -> Placement {
    let descriptor = fs::File::open(folder).unwrap().into();
    Placement::new(vec![Target {
        folder: Some(Arc::new(descriptor)),
        folder_path: b"dst".to_vec(),
        name: None,
        renamed: None,
    }])
    .keeping(keep, false)
}

pub(super) fn path(text: &str) -> TreePath {
    TreePath::try_from(text.as_bytes().to_vec()).unwrap()
}

fn other_name(name: &str, first: &str, size: u64) -> OtherName {
    OtherName {
        source: 0,
        path: path(name),
        first_source: 0,
        first: path(first),
        size,
        mtime_ns: ATTRIBUTES.mtime_ns,
    }
}

#[test]
fn a_name_whose_file_is_not_there_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let keep = Keep {
        hard_links: true,
        ..Keep::default()
    };
    let placement = placement(folder.path(), keep);
    let draft = placement.draft(0, &path("first"), 3, &ATTRIBUTES).unwrap();
    draft.write_at(&mut [IoSlice::new(b"abc")], 0).unwrap();
    draft.complete(&ATTRIBUTES, placement.metadata()).unwrap();
    draft.give_name().unwrap();
    fs::write(folder.path().join("taken"), b"old").unwrap();
    fs::create_dir_all(folder.path().join("folder/in it")).unwrap();
    std::os::unix::fs::symlink("first", folder.path().join("link")).unwrap();
    for name in [
        other_name("absent", "no such", 3),
        other_name("another", "first", 4),
        other_name("through", "link", 3),
        other_name("folder", "first", 3),
        other_name("taken", "first", 3),
        other_name("deep/below", "first", 3),
    ] {
        placement.note_other_name(&name).unwrap();
    }
    let said = RefCell::new(Vec::new());
    placement
        .give_other_names(|| false, |why| said.borrow_mut().push(why))
        .unwrap();
    let said = said.into_inner();
    let expected = [
        "cannot link dst/absent to dst/no such: No such file or directory",
        "cannot link dst/another to dst/first: that is not the file that was sent",
        "cannot link dst/through to dst/link: that is not the file that was sent",
        "cannot write dst/folder: a folder has that name, and something is in it; remove it, or copy with --delete",
    ];
    assert_eq!(said, expected);
    let inode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().ino();
    assert_eq!(inode("taken"), inode("first"));
    assert_eq!(inode("deep/below"), inode("first"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
}

#[test]
fn no_name_is_given_to_a_file_that_nobody_asked_to_have_others() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), Keep::default());
    let refused = placement.note_other_name(&other_name("b", "a", 1));
    let words = "the other end broke the protocol: a hard link that was not asked for";
    assert_eq!(refused, Err(TransferError::Here(words.to_owned())));
}

#[test]
fn zeros_take_the_place_of_what_was_there_before_them() {
    let folder = tempfile::tempdir().unwrap();
    let keep = Keep {
        sparse: true,
        ..Keep::default()
    };
    let placement = placement(folder.path(), keep);
    let size = 100_000;
    let draft = placement
        .draft(0, &path("file"), size, &ATTRIBUTES)
        .unwrap();
    let write = |bytes: &[u8], offset| {
        draft.write_at(&mut [IoSlice::new(bytes)], offset).unwrap();
    };
    write(&[7; 60_000], 10_000);
    write(&[0; 40_001], 20_001);
    draft.complete(&ATTRIBUTES, placement.metadata()).unwrap();
    draft.give_name().unwrap();
    let mut expected = vec![0; 100_000];
    expected[10_000..20_001].fill(7);
    expected[60_002..70_000].fill(7);
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), expected);
    let kept = fs::metadata(folder.path().join("file")).unwrap().blocks() * 512;
    assert!(kept < 40_000, "{kept}");
}

#[test]
fn a_hole_is_zeros_whatever_was_there_before() {
    for sparse in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let keep = Keep {
            sparse,
            ..Keep::default()
        };
        let placement = placement(folder.path(), keep);
        // Longer than what gets its space before its content, and shorter.
        for size in [2_000_000, 100_001] {
            let draft = placement
                .draft(0, &path("file"), size, &ATTRIBUTES)
                .unwrap();
            let write = |len: usize, offset| {
                let bytes = vec![7; len];
                draft.write_at(&mut [IoSlice::new(&bytes)], offset).unwrap();
            };
            write(90_000, 5_000);
            let clear = |offset, len| draft.clear(Span { offset, len }).unwrap();
            clear(0, 20_001);
            // Also where nothing was written yet, to the end of the file.
            clear(80_000, size - 80_000);
            draft.complete(&ATTRIBUTES, placement.metadata()).unwrap();
            draft.give_name().unwrap();
            let mut expected = vec![0; size as usize];
            expected[20_001..80_000].fill(7);
            let written = fs::read(folder.path().join("file")).unwrap();
            assert!(written == expected, "{sparse}, {size}");
            let kept = fs::metadata(folder.path().join("file")).unwrap().blocks() * 512;
            assert_eq!(kept < size, sparse, "{kept} of {size}");
        }
    }
}

fn xattrs(each: &[(&str, &[u8])]) -> Option<Arc<Xattrs>> {
    let each = each.iter().map(|(name, value)| Xattr {
        name: name.as_bytes().to_vec(),
        value: value.to_vec(),
    });
    Xattrs::new(each.collect()).map(Arc::new)
}

fn with_nodump(xattrs: Option<Arc<Xattrs>>) -> Option<Arc<Xattrs>> {
    let mut all = Arc::unwrap_or_clone(xattrs?);
    all.flags = Some(FileFlags::of(IFlags::NODUMP.bits()));
    Some(Arc::new(all))
}

/// Whether it has the flag; `None` where its file system has none.
fn has_nodump(path: &Path) -> Option<bool> {
    let flags = rustix::fs::ioctl_getflags(fs::File::open(path).unwrap());
    Some(flags.ok()?.contains(IFlags::NODUMP))
}

fn names_of_xattrs(path: &Path) -> Vec<String> {
    let mut buffer = vec![0; 4096];
    let count = rustix::fs::llistxattr(path, &mut buffer).unwrap();
    let names = buffer[..count].split(|&byte| byte == 0);
    let mut names: Vec<_> = names
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    names.sort();
    names
}

/// All that a sender can say of a file that its receiver should not believe unasked.
fn dangerous() -> Attributes {
    let account = || Account {
        number: 4711,
        name: None,
    };
    // May do all (linux/capability.h, revision 2).
    let capability = [
        1, 0, 0, 2, 255, 255, 255, 255, 0, 0, 0, 0, 255, 1, 0, 0, 0, 0, 0, 0,
    ];
    Attributes {
        mode: 0o6755,
        owner: Some(Arc::new(Owner {
            user: account(),
            group: account(),
        })),
        xattrs: with_nodump(xattrs(&[
            ("user.a", b"1"),
            ("trusted.b", b"2"),
            ("security.capability", &capability),
        ])),
        ..ATTRIBUTES
    }
}

fn place(placement: &Placement, attributes: &Attributes) -> Option<String> {
    let draft = placement.draft(0, &path("file"), 3, attributes).unwrap();
    draft.write_at(&mut [IoSlice::new(b"abc")], 0).unwrap();
    let not_kept = draft.complete(attributes, placement.metadata()).unwrap();
    draft.give_name().unwrap();
    not_kept
}

#[test]
fn a_sender_plants_nothing_that_was_not_asked_for() {
    let only_xattrs = Keep {
        xattrs: true,
        ..Keep::default()
    };
    let all = Keep {
        owner: true,
        group: true,
        ..only_xattrs
    };
    let only_lists = Keep {
        acls: true,
        ..Keep::default()
    };
    let root = rustix::process::geteuid().is_root();
    for (keep, confined, as_asked, names) in [
        (Keep::default(), false, false, vec![]),
        (only_lists, false, false, vec![]),
        (only_xattrs, false, false, vec!["trusted.b", "user.a"]),
        // Whoever has the login of one folder is not this host's root.
        (all, true, false, vec!["user.a"]),
        (
            all,
            false,
            true,
            vec!["security.capability", "trusted.b", "user.a"],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let placement = placement(folder.path(), keep).keeping(keep, confined);
        assert_eq!(place(&placement, &dangerous()), None);
        let file = folder.path().join("file");
        let meta = fs::metadata(&file).unwrap();
        let found = names_of_xattrs(&file);
        assert_eq!(has_nodump(&file).unwrap_or(keep.xattrs), keep.xattrs);
        if root {
            let (mode, owner) = if as_asked { (0o6755, 4711) } else { (0o755, 0) };
            assert_eq!((meta.mode() & 0o7777, meta.uid()), (mode, owner));
            assert_eq!(found, names, "{keep:?}");
        } else {
            assert_eq!(meta.mode() & 0o7777, 0o755);
            assert!(found.iter().all(|name| name == "user.a"));
        }
    }
}

#[test]
fn what_nobody_asked_for_breaks_the_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), Keep::default());
    let refused = |what: &str| {
        let words = format!("the other end broke the protocol: {what} that was not asked for");
        TransferError::Here(words)
    };
    for kind in [Special::Fifo, Special::BlockDevice] {
        let made = placement.make_special(0, &path("x"), &ATTRIBUTES, kind, (8, 0));
        assert_eq!(made, Err(refused("a special file")));
    }
    let given = placement.give_attributes(0, &path("x"), 3, &ATTRIBUTES);
    assert_eq!(given, Err(refused("attributes")));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_special_file_takes_the_place_of_a_file_and_of_another_special_file() {
    let folder = tempfile::tempdir().unwrap();
    let keep = Keep {
        specials: true,
        ..Keep::default()
    };
    let placement = placement(folder.path(), keep);
    let make = |kind| {
        placement
            .make_special(0, &path("x"), &ATTRIBUTES, kind, (0, 0))
            .unwrap()
    };
    fs::write(folder.path().join("x"), b"file").unwrap();
    assert_eq!(make(Special::Fifo), Made::Yes);
    assert_eq!(make(Special::Fifo), Made::Yes);
    let there = || fs::symlink_metadata(folder.path().join("x")).unwrap();
    assert!(there().file_type().is_fifo() && there().mode() & 0o7777 == 0o640);
    assert_eq!(make(Special::Socket), Made::Yes);
    assert!(there().file_type().is_socket());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn attributes_are_given_to_the_file_that_was_meant_alone() {
    let folder = tempfile::tempdir().unwrap();
    let keep = Keep {
        xattrs: true,
        ..Keep::default()
    };
    let placement = placement(folder.path(), keep);
    assert_eq!(place(&placement, &ATTRIBUTES), None);
    let wanted = Attributes {
        xattrs: xattrs(&[("user.a", b"1")]),
        ..ATTRIBUTES
    };
    let give = |name: &str, size| {
        placement
            .give_attributes(0, &path(name), size, &wanted)
            .unwrap()
    };
    std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
    for (name, size) in [("file", 4), ("link", 3), ("absent", 3)] {
        let why = give(name, size).expect("it is another file");
        assert!(why.starts_with(&format!("cannot set the attributes of dst/{name}: ")));
    }
    let file = folder.path().join("file");
    assert!(names_of_xattrs(&file).is_empty());
    assert_eq!(give("file", 3), None);
    assert_eq!(names_of_xattrs(&file), ["user.a"]);
}
