//! What is kept of files, at the receiver, one placement at a time.

use std::cell::RefCell;
use std::fs;
use std::io::IoSlice;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use howdah_wire::{Attributes, Keep, TreePath};

use crate::error::TransferError;
use crate::tree::other_names::OtherName;
use crate::tree::place::Placement;
use crate::tree::target::Target;

const ATTRIBUTES: Attributes = Attributes {
    mode: 0o640,
    mtime_ns: 1_234_567_890_123_456_789,
    owner: None,
};

fn placement(folder: &Path, keep: Keep) -> Placement {
    let descriptor = fs::File::open(folder).unwrap().into();
    Placement::new(vec![Target {
        folder: Some(Arc::new(descriptor)),
        folder_path: b"dst".to_vec(),
        name: None,
        renamed: None,
    }])
    .keeping(keep, false)
}

fn path(text: &str) -> TreePath {
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
    let draft = placement.draft(0, &path("first"), 3).unwrap();
    draft.write_at(&mut [IoSlice::new(b"abc")], 0).unwrap();
    draft.complete(&ATTRIBUTES, placement.metadata()).unwrap();
    draft.give_name().unwrap();
    fs::write(folder.path().join("taken"), b"old").unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
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
        "cannot write dst/folder: a folder has that name",
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
    let draft = placement.draft(0, &path("file"), size).unwrap();
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
