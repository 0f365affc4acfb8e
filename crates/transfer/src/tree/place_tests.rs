use super::*;
use crate::tree::needed::Need;
use blake3::hazmat::HasherExt;
use howdah_wire::{Delete, Offered, OfferedFile, Span};
use std::fs;
use std::io::IoSlice;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

#[path = "../../tests/listing/mod.rs"]
mod listing;
use listing::names;

const ATTRIBUTES: Attributes = Attributes {
    mode: 0o640,
    mtime_ns: 1_234_567_890_123_456_789,
    owner: None,
    xattrs: None,
};

fn placement(folder: &Path, name: Option<&str>) -> Placement {
    let descriptor = fs::File::open(folder).unwrap().into();
    Placement::new(vec![Target {
        folder: Some(Arc::new(descriptor)),
        folder_path: b"dst".to_vec(),
        name: name.map(|name| name.as_bytes().to_vec()),
        renamed: None,
    }])
}

/// What is said of a folder with something in it.
fn in_the_way(name: &str) -> TransferError {
    TransferError::InTheWay(format!(
        "cannot write dst/{name}: a folder has that name, and something is in it; remove it, or copy with --delete"
    ))
}

fn path(text: &str) -> TreePath {
    TreePath::try_from(text.as_bytes().to_vec()).unwrap()
}

fn write(placement: &Placement, name: &str, content: &[u8]) -> Result<(), TransferError> {
    let draft = placement.draft(0, &path(name), content.len() as u64, &ATTRIBUTES)?;
    draft.write_at(&mut [IoSlice::new(content)], 0)?;
    draft.complete(&ATTRIBUTES, placement.metadata())?;
    draft.give_name()
}

#[test]
fn a_folder_that_is_removed_on_the_way_is_said_to_be_gone() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), Some("root"));
    write(&placement, "a/first", b"first").unwrap();
    fs::remove_dir_all(folder.path().join("root")).unwrap();
    let error = write(&placement, "a/second", b"second").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot write dst/root/a/second: no such file or folder"
    );
}

#[test]
fn a_file_appears_complete_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), Some("root"));
    let draft = placement
        .draft(0, &path("a/b/file"), 5, &ATTRIBUTES)
        .unwrap();
    draft.write_at(&mut [IoSlice::new(b"hello")], 0).unwrap();
    let inside = folder.path().join("root/a/b");
    assert!(names(&inside).is_empty());
    drop(draft);
    assert!(names(&inside).is_empty());
    write(&placement, "a/b/file", b"first").unwrap();
    write(&placement, "a/b/file", b"second").unwrap();
    assert_eq!(names(&inside), ["file"]);
    let file = inside.join("file");
    assert_eq!(fs::read(&file).unwrap(), b"second");
    let meta = fs::metadata(&file).unwrap();
    assert_eq!(meta.permissions().mode() & 0o7777, 0o640);
    assert_eq!(
        (meta.mtime(), meta.mtime_nsec()),
        (1_234_567_890, 123_456_789)
    );
}

#[test]
fn where_no_file_can_be_unnamed_it_lies_beside_until_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), None);
    let begin = |content: &[u8]| {
        let destination = placement.destination(0, &path("file")).unwrap();
        let draft = Draft::create_beside(destination, content.len() as u64, false).unwrap();
        draft.write_at(&mut [IoSlice::new(content)], 0).unwrap();
        draft
    };
    let dropped = begin(b"dropped");
    let beside = names(folder.path());
    assert!(
        beside.len() == 1 && beside[0].starts_with(".file.howdah-"),
        "{beside:?}"
    );
    assert_eq!(
        fs::metadata(folder.path().join(&beside[0])).unwrap().mode() & 0o777,
        0o600
    );
    drop(dropped);
    assert!(names(folder.path()).is_empty());
    for content in [b"first".as_slice(), b"second"] {
        let (draft, other) = (begin(content), begin(b"other"));
        draft.complete(&ATTRIBUTES, placement.metadata()).unwrap();
        draft.give_name().unwrap();
        assert_eq!(fs::read(folder.path().join("file")).unwrap(), content);
        drop((draft, other));
        assert_eq!(names(folder.path()), ["file"]);
    }
    fs::remove_file(folder.path().join("file")).unwrap();
    fs::create_dir_all(folder.path().join("file/in it")).unwrap();
    let error = begin(b"x").give_name().unwrap_err();
    assert_eq!(error, in_the_way("file"));
    assert_eq!(names(folder.path()), ["file"]);
}

/// 300,000 bytes of which one part was verified, and a draft of them.
fn begun(placement: &Placement) -> (Draft, Vec<u8>, Span) {
    let content: Vec<u8> = (0..300_000u32).map(|at| (at / 3) as u8).collect();
    let (draft, why) = placement
        .draft_in_parts(0, &path("file"), 300_000, ATTRIBUTES.mtime_ns)
        .unwrap();
    assert_eq!(why, None);
    let span = Span {
        offset: 0,
        len: 1 << 18,
    };
    (draft, content, span)
}

fn offered(name: &str, size: u64, mtime_ns: i64) -> OfferedFile {
    OfferedFile {
        kind: Offered::File,
        source: 0,
        path: path(name),
        size,
        mtime_ns,
        mode: ATTRIBUTES.mode,
        owner: None,
        xattrs: None,
    }
}

#[test]
fn what_was_verified_outlives_its_draft_until_the_file_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), None);
    let file = offered("file", 300_000, ATTRIBUTES.mtime_ns);
    let found = |file: &OfferedFile, only_look| placement.needs(file, only_look, drop).unwrap();
    let none = Need::AllBut(Vec::new());
    let (draft, content, span) = begun(&placement);
    assert_eq!(names(folder.path()), [".file.howdah-part"]);
    drop(draft);
    assert!(names(folder.path()).is_empty(), "nothing was verified");

    let (draft, ..) = begun(&placement);
    let (part, _) = content.split_at(1 << 18);
    draft.write_at(&mut [IoSlice::new(part)], 0).unwrap();
    draft.note(span);
    assert_eq!(found(&file, false), none, "it is being written");
    drop(draft);
    assert_eq!(found(&file, false), Need::AllBut(vec![span]));
    assert_eq!(found(&offered("file", 300_000, 5), true), none);
    assert_eq!(names(folder.path()), [".file.howdah-part"]);

    let (draft, ..) = begun(&placement);
    let value = blake3::Hasher::new().update(part).finalize_non_root();
    assert_eq!(draft.value_of(span), Some(value));
    draft.write_at(&mut [IoSlice::new(&content)], 0).unwrap();
    draft.complete(&ATTRIBUTES, placement.metadata()).unwrap();
    drop(draft);
    let whole = Span {
        offset: 0,
        len: 300_000,
    };
    assert_eq!(found(&file, false), Need::AllBut(vec![whole]));
    let (draft, ..) = begun(&placement);
    draft.complete(&ATTRIBUTES, placement.metadata()).unwrap();
    draft.give_name().unwrap();
    drop(draft);
    assert_eq!(names(folder.path()), ["file"]);
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), content);
    assert_eq!(found(&file, false), Need::Nothing);
}

#[test]
fn a_part_of_another_state_of_the_file_is_begun_anew_or_removed() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), None);
    for (size, mtime_ns) in [
        (300_001, ATTRIBUTES.mtime_ns),
        (300_000, 5),
        (10, ATTRIBUTES.mtime_ns),
    ] {
        let (draft, _, span) = begun(&placement);
        draft.note(span);
        drop(draft);
        let need = placement.needs(&offered("file", size, mtime_ns), false, drop);
        assert_eq!(need.unwrap(), Need::AllBut(Vec::new()));
        assert!(names(folder.path()).is_empty(), "{size} {mtime_ns}");
    }
    let (draft, _, span) = begun(&placement);
    draft.note(span);
    drop(draft);
    let (draft, _) = placement
        .draft_in_parts(0, &path("file"), 300_000, 5)
        .unwrap();
    draft.note(Span { offset: 0, len: 1 });
    drop(draft);
    let there = fs::metadata(folder.path().join(".file.howdah-part")).unwrap();
    assert_eq!(there.len(), 300_000 + 24 + 16);
    let (draft, ..) = begun(&placement);
    draft.note(span);
    draft.discard();
    drop(draft);
    assert!(names(folder.path()).is_empty(), "its source has changed");
}

#[test]
fn a_file_whose_part_cannot_be_used_is_written_without_one_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("victim"), b"precious").unwrap();
    let part = folder.path().join(".file.howdah-part");
    symlink("victim", &part).unwrap();
    let placement = placement(folder.path(), None);
    let in_parts = || {
        placement
            .draft_in_parts(0, &path("file"), 5, ATTRIBUTES.mtime_ns)
            .unwrap()
    };
    let (draft, why) = in_parts();
    assert_eq!(
        why.unwrap(),
        "dst/file begins anew if this copy is cut: .file.howdah-part beside it cannot be used, it is a \
         symbolic link"
    );
    draft.write_at(&mut [IoSlice::new(b"hello")], 0).unwrap();
    assert_eq!(draft.value_of(Span { offset: 0, len: 5 }), None);
    draft.complete(&ATTRIBUTES, placement.metadata()).unwrap();
    draft.give_name().unwrap();
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"hello");
    assert_eq!(fs::read(folder.path().join("victim")).unwrap(), b"precious");
    fs::remove_file(part).unwrap();
    let (first, why) = in_parts();
    assert_eq!(why, None);
    let (_second, why) = in_parts();
    assert!(why.unwrap().ends_with("another copy is writing it"));
    drop(first);
}

#[test]
fn what_has_taken_the_name_of_a_part_does_not_become_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), None);
    let (draft, _, span) = begun(&placement);
    draft.note(span);
    fs::write(folder.path().join("other"), b"other").unwrap();
    fs::rename(
        folder.path().join("other"),
        folder.path().join(".file.howdah-part"),
    )
    .unwrap();
    draft.complete(&ATTRIBUTES, placement.metadata()).unwrap();
    let error = draft.give_name().unwrap_err().to_string();
    assert_eq!(error, "cannot write dst/file: no such file or folder");
    drop(draft);
    assert_eq!(names(folder.path()), [".file.howdah-part"]);
}

#[test]
fn what_a_copy_that_was_cut_has_left_is_taken_over_by_files_and_links() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), None);
    let part = folder.path().join(".file.howdah-part");
    write(&placement, "file", b"first").unwrap();
    fs::write(&part, b"left").unwrap();
    write(&placement, "file", b"second").unwrap();
    assert_eq!(names(folder.path()), ["file"]);
    let leave_link: fn(&Path) = |part| symlink("left", part).unwrap();
    let leave_file: fn(&Path) = |part| fs::write(part, b"left").unwrap();
    for leave in [leave_link, leave_file] {
        leave(&part);
        let target = LinkTarget::try_from(b"there".to_vec()).unwrap();
        placement
            .link(0, &path("file"), &target, 5, (None, None))
            .unwrap();
        assert_eq!(names(folder.path()), ["file"]);
    }
    // One that is being written is not touched.
    let (draft, _, span) = begun(&placement);
    draft.note(span);
    write(&placement, "file", b"third").unwrap();
    assert_eq!(names(folder.path()), [".file.howdah-part", "file"]);
    drop(draft);
}

#[test]
fn folders_get_their_attributes_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), Some("root"));
    placement
        .make_folder(
            0,
            &path(""),
            Attributes {
                mode: 0o555,
                ..ATTRIBUTES
            },
        )
        .unwrap();
    for mode in [0o700, ATTRIBUTES.mode] {
        let attributes = Attributes { mode, ..ATTRIBUTES };
        placement
            .make_folder(0, &path("sub"), attributes.clone())
            .unwrap();
    }
    write(&placement, "sub/file", b"x").unwrap();
    placement.finish(true, || false, drop).unwrap();
    let root = fs::metadata(folder.path().join("root")).unwrap();
    let sub = fs::metadata(folder.path().join("root/sub")).unwrap();
    assert_eq!(root.permissions().mode() & 0o7777, 0o555);
    assert_eq!(sub.permissions().mode() & 0o7777, 0o640);
    assert_eq!((root.mtime(), sub.mtime()), (1_234_567_890, 1_234_567_890));
}

#[test]
fn a_folder_that_has_its_attributes_is_let_be() {
    let base = tempfile::tempdir().unwrap();
    let attributes = Attributes {
        mode: 0o750,
        ..ATTRIBUTES
    };
    let again = || {
        let placement = placement(base.path(), None);
        let made = placement.make_folder(0, &path("a/b"), attributes.clone());
        made.unwrap();
        placement.finish(true, || false, drop).unwrap();
        let meta = fs::metadata(base.path().join("a/b")).unwrap();
        (meta.ctime(), meta.ctime_nsec())
    };
    let changed = again();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(again(), changed);
    let folder = base.path().join("a/b");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    again();
    let mode = folder.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o750);
}

#[test]
fn files_are_looked_for_in_their_own_folders_whatever_was_looked_into_before() {
    let base = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    for folder in ["a", "b", "a/b"] {
        fs::create_dir(base.path().join(folder)).unwrap();
    }
    symlink(outside.path(), base.path().join("link")).unwrap();
    let placement = placement(base.path(), None);
    for name in ["a/file", "a/b/file", "file"] {
        write(&placement, name, b"12345").unwrap();
    }
    fs::copy(base.path().join("file"), outside.path().join("file")).unwrap();
    let needs = |name: &str| {
        let file = offered(name, 5, ATTRIBUTES.mtime_ns);
        placement.needs(&file, false, drop).unwrap() != Need::Nothing
    };
    for (name, needed) in [
        ("a/file", false),
        ("b/file", true),
        ("a/b/file", false),
        ("link/file", true),
        ("missing/file", true),
        ("a/other", true),
        ("a/file", false),
        ("file", false),
    ] {
        assert_eq!(needs(name), needed, "{name}");
    }
}

#[test]
fn who_stops_does_not_wait_for_the_folders() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), Some("root"));
    placement
        .make_folder(0, &path("sub"), ATTRIBUTES.clone())
        .unwrap();
    let stopped = placement.finish(true, || true, drop);
    assert_eq!(stopped.unwrap_err(), TransferError::Cancelled);
    let sub = fs::metadata(folder.path().join("root/sub")).unwrap();
    assert_eq!(sub.permissions().mode() & 0o7777, 0o700);
}

#[test]
fn nothing_is_written_through_a_symbolic_link() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("victim"), b"precious").unwrap();
    let folder = tempfile::tempdir().unwrap();
    symlink(outside.path(), folder.path().join("way")).unwrap();
    symlink(outside.path().join("victim"), folder.path().join("file")).unwrap();
    symlink(outside.path().join("new"), folder.path().join("dangling")).unwrap();
    let placement = placement(folder.path(), None);

    // A folder takes the place of a link.
    let folder_at = |name: &str| {
        let meta = folder.path().join(name).symlink_metadata();
        meta.unwrap().is_dir()
    };
    write(&placement, "way/file", b"mine").unwrap();
    assert!(folder_at("way"));
    let link = LinkTarget::try_from(b"/etc".to_vec()).unwrap();
    placement
        .link(0, &path("way/link"), &link, 0, (None, None))
        .unwrap();
    placement
        .make_folder(0, &path("way/link/x"), ATTRIBUTES.clone())
        .unwrap();
    assert!(folder_at("way/link/x"));
    assert_eq!(names(outside.path()), ["victim"]);

    write(&placement, "file", b"mine").unwrap();
    write(&placement, "dangling", b"mine").unwrap();
    assert!(
        folder
            .path()
            .join("file")
            .symlink_metadata()
            .unwrap()
            .is_file()
    );
    assert_eq!(names(outside.path()), ["victim"]);
    assert_eq!(
        fs::read(outside.path().join("victim")).unwrap(),
        b"precious"
    );
}

#[test]
fn a_link_sent_first_does_not_lead_the_next_file_outside() {
    let outside = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), Some("root"));
    use std::os::unix::ffi::OsStrExt;
    let link = LinkTarget::try_from(outside.path().as_os_str().as_bytes().to_vec()).unwrap();
    placement
        .link(0, &path("a"), &link, 0, (None, None))
        .unwrap();
    write(&placement, "a/file", b"evil").unwrap();
    assert!(names(outside.path()).is_empty());
}

#[test]
fn an_empty_folder_is_replaced_and_one_with_something_in_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("name/in it")).unwrap();
    let placement = placement(folder.path(), None);
    let link = LinkTarget::try_from(b"x".to_vec()).unwrap();
    let linked = |name: &str| placement.link(0, &path(name), &link, 0, (None, None));
    let refused = write(&placement, "name", b"x").unwrap_err();
    assert_eq!(refused, in_the_way("name"));
    assert_eq!(linked("name").unwrap_err(), refused);
    assert_eq!(names(folder.path()), ["name"]);
    assert_eq!(placement.room().removed(), 0);
    fs::remove_dir(at("name/in it")).unwrap();
    write(&placement, "name", b"x").unwrap();
    assert_eq!(fs::read(at("name")).unwrap(), b"x");
    fs::create_dir(at("link")).unwrap();
    linked("link").unwrap();
    assert_eq!(names(folder.path()), ["link", "name"]);
    assert_eq!(placement.room().removed(), 2);
}

#[test]
fn no_more_goes_for_what_is_placed_than_may() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["one", "two"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("file"), "x").unwrap();
    let most = |most| {
        let most = Some(most);
        placement(folder.path(), None).deleting(Some(Delete {
            excluded: false,
            most,
        }))
    };
    let placement = most(1);
    write(&placement, "one", b"x").unwrap();
    let said = |result: Result<(), TransferError>| match result.unwrap_err() {
        TransferError::InTheWay(text) => text,
        error => panic!("{error}"),
    };
    assert_eq!(
        said(write(&placement, "two", b"x")),
        "cannot write dst/two: a folder has that name, and no more may be removed than --max-delete says; remove it"
    );
    assert_eq!(
        said(write(&placement, "file/below", b"x")),
        "cannot make folder dst/file: something else has that name, and no more may be removed than --max-delete \
         says; remove it"
    );
    assert!(at("two").is_dir() && at("file").is_file());
    write(&most(1), "file/below", b"x").unwrap();
    assert_eq!(names(&at("file")), ["below"]);
}

#[test]
fn a_fifo_is_replaced_and_a_device_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("name");
    let make = |kind, device| {
        let owner = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &name, kind, owner, device)
    };
    make(FileType::Fifo, 0).unwrap();
    let placement = placement(folder.path(), None);
    write(&placement, "name", b"x").unwrap();
    assert_eq!(fs::read(&name).unwrap(), b"x");
    fs::remove_file(&name).unwrap();
    // The device is that of /dev/null; root alone makes one.
    if make(FileType::CharacterDevice, rustix::fs::makedev(1, 3)).is_ok() {
        let error = write(&placement, "name", b"x").unwrap_err().to_string();
        assert_eq!(error, "cannot write dst/name: it is a device; remove it");
        let link = LinkTarget::try_from(b"x".to_vec()).unwrap();
        assert!(
            placement
                .link(0, &path("name"), &link, 0, (None, None))
                .is_err()
        );
        assert_eq!(names(folder.path()), ["name"]);
        assert!(fs::metadata(&name).unwrap().file_type().is_char_device());
    }
}

#[test]
fn a_source_the_job_has_not_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), None);
    assert!(placement.draft(1, &path("x"), 1, &ATTRIBUTES).is_err());
}

#[test]
fn what_is_there_with_the_same_size_and_time_is_not_needed() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), Some("root"));
    write(&placement, "file", b"12345").unwrap();
    let needs = |file: &OfferedFile| placement.needs(file, false, drop).unwrap() != Need::Nothing;
    assert!(!needs(&offered("file", 5, ATTRIBUTES.mtime_ns)));
    assert!(needs(&offered("file", 6, ATTRIBUTES.mtime_ns)));
    assert!(needs(&offered("file", 5, ATTRIBUTES.mtime_ns + 1)));
    assert!(needs(&offered("other", 5, ATTRIBUTES.mtime_ns)));
    assert!(needs(&offered("", 5, ATTRIBUTES.mtime_ns)));
}

#[test]
fn times_that_a_file_system_cuts_to_seconds_are_the_same() {
    assert!(same_time(1_999_999_999, 1_000_000_000));
    assert!(!same_time(2_000_000_000, 1_000_000_000));
    assert!(!same_time(1_000_000_000, 1_500_000_000));
    assert!(same_time(-1, -1_000_000_000));
}

#[test]
fn a_peer_cannot_plant_a_program_that_runs_as_the_receiver() {
    let folder = tempfile::tempdir().unwrap();
    let placement = placement(folder.path(), Some("root"));
    let attributes = Attributes {
        mode: 0o7755,
        ..ATTRIBUTES
    };
    placement
        .make_folder(0, &path("sub"), attributes.clone())
        .unwrap();
    let draft = placement
        .draft(0, &path("sub/file"), 1, &ATTRIBUTES)
        .unwrap();
    draft.write_at(&mut [IoSlice::new(b"x")], 0).unwrap();
    draft.complete(&attributes, placement.metadata()).unwrap();
    draft.give_name().unwrap();
    placement.finish(true, || false, drop).unwrap();
    for name in ["root/sub", "root/sub/file"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o1755, "{name}");
    }
}
