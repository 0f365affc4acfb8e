//! Modes and times that are not kept, at the receiver, one placement at a time.

use std::fs::{self, File};
use std::io::IoSlice;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::thread::CapabilitySet;

use howdah_wire::{Account, Attributes, Keep, Offered, OfferedFile, Owner, Span};

use crate::tree::keep_tests::{path, placement};
use crate::tree::needed::Need;
use crate::tree::new_modes::umask;
use crate::tree::place::Placement;

const ATTRIBUTES: Attributes = Attributes {
    mode: 0o6777,
    mtime_ns: 1_234_567_890_123_456_789,
    owner: None,
    xattrs: None,
};
const SIZE: usize = 3 << 20;

fn without_modes() -> Keep {
    Keep {
        perms: false,
        ..Keep::default()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
}

fn place(placement: &Placement, name: &str) {
    let draft = placement.draft(0, &path(name), 3, &ATTRIBUTES).unwrap();
    draft.write_at(&mut [IoSlice::new(b"abc")], 0).unwrap();
    let not_kept = draft.complete(&ATTRIBUTES, placement.metadata()).unwrap();
    assert_eq!(not_kept, None);
    draft.give_name().unwrap();
}

#[test]
fn what_a_peer_sends_never_runs_as_the_user_of_the_file_that_it_replaces() {
    let base = tempfile::tempdir().unwrap();
    let program = base.path().join("program");
    let owners = Keep {
        owner: true,
        ..without_modes()
    };
    let root = rustix::process::geteuid().is_root();
    for (keep, expected) in [
        (without_modes(), 0o755),
        (owners, if root { 0o6755 } else { 0o755 }),
    ] {
        fs::write(&program, "before").unwrap();
        set_mode(&program, 0o6755);
        place(&placement(base.path(), keep), "program");
        assert_eq!(fs::read(&program).unwrap(), b"abc");
        assert_eq!(mode(&program), expected);
    }
    place(&placement(base.path(), owners), "new");
    assert_eq!(mode(&base.path().join("new")), 0o777 & !umask());
}

#[test]
fn a_file_that_is_skipped_does_not_run_as_the_user_who_gets_it() {
    let base = tempfile::tempdir().unwrap();
    let program = base.path().join("program");
    fs::write(&program, "before").unwrap();
    set_mode(&program, 0o6755);
    let owners = Keep {
        owner: true,
        ..without_modes()
    };
    let account = Account {
        number: 1000,
        name: None,
    };
    let attributes = Attributes {
        owner: Some(Arc::new(Owner {
            user: account.clone(),
            group: account,
        })),
        ..ATTRIBUTES
    };
    let given = placement(base.path(), owners);
    let gets = given.metadata().of_same_file(&attributes);
    let file = File::open(&program).unwrap();
    let not_kept = given.metadata().give(&file, &attributes, gets, b"program");
    assert_eq!(not_kept.unwrap(), None);
    // Who is not root changes no owner.
    let root = rustix::process::geteuid().is_root();
    assert_eq!(mode(&program), if root { 0o755 } else { 0o6755 });
}

#[test]
fn a_folder_that_a_cut_copy_has_made_gets_its_mode_from_the_next_and_others_keep_theirs() {
    let base = tempfile::tempdir().unwrap();
    let at = |name: &str| base.path().join(name);
    for (name, bits) in [("own", 0o711), ("own closed", 0o500), ("private", 0o700)] {
        fs::create_dir(at(name)).unwrap();
        set_mode(&at(name), bits);
    }
    let names = [
        "own",
        "own closed",
        "private",
        "made",
        "made/closed",
        "closed",
    ];
    let folders = |placement: &Placement| {
        for name in names {
            let attributes = Attributes {
                mode: if name.ends_with("closed") {
                    0o555
                } else {
                    0o775
                },
                ..ATTRIBUTES
            };
            placement.make_folder(0, &path(name), attributes).unwrap();
        }
    };
    let cut = placement(base.path(), without_modes());
    place(&cut, "made/closed/file");
    place(&cut, "closed/file");
    folders(&cut);
    drop(cut);
    for name in ["made", "made/closed", "closed"] {
        assert_eq!(mode(&at(name)), 0o1700, "nobody else may enter yet");
    }
    let modes = || names.map(|name| mode(&at(name)));
    let made = |bits: u32| bits & !umask();
    let expected = [0o711, 0o500, 0o700, made(0o775), made(0o555), made(0o555)];
    for _ in 0..2 {
        let next = placement(base.path(), without_modes());
        folders(&next);
        next.finish(true, || false, drop).unwrap();
        assert_eq!(modes(), expected);
    }
}

#[test]
fn a_folder_that_was_opened_is_closed_again_where_the_copy_ends_early() {
    let mut sets = rustix::thread::capabilities(None).unwrap();
    sets.effective
        .remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    rustix::thread::set_capabilities(None, sets).unwrap();
    let base = tempfile::tempdir().unwrap();
    let at = |name: &str| base.path().join(name);
    fs::create_dir_all(at("own/deep")).unwrap();
    set_mode(&at("own/deep"), 0o100);
    set_mode(&at("own"), 0o600);
    let cut = placement(base.path(), without_modes());
    place(&cut, "own/deep/file");
    assert_eq!(mode(&at("own")), 0o700);
    assert_eq!(mode(&at("own/deep")), 0o700);
    cut.close_all_to_owner();
    assert_eq!(mode(&at("own")), 0o600);
    set_mode(&at("own"), 0o700);
    assert_eq!(mode(&at("own/deep")), 0o100);
    set_mode(&at("own/deep"), 0o700);
}

#[test]
fn what_had_come_whole_is_known_by_its_time_until_it_has_its_name() {
    let base = tempfile::tempdir().unwrap();
    let keep = Keep {
        times: false,
        ..Keep::default()
    };
    let placement = placement(base.path(), keep);
    let size = SIZE as u64;
    let whole = Span {
        offset: 0,
        len: size,
    };
    let began = SystemTime::now();
    let draft = || {
        let (draft, why) = placement
            .draft_in_parts(0, &path("big"), size, ATTRIBUTES.mtime_ns)
            .unwrap();
        assert_eq!(why, None);
        draft
    };
    let cut = draft();
    cut.write_at(&mut [IoSlice::new(&vec![7; SIZE])], 0)
        .unwrap();
    cut.note(whole);
    cut.complete(&ATTRIBUTES, placement.metadata()).unwrap();
    drop(cut);
    let offered = OfferedFile {
        kind: Offered::File,
        source: 0,
        path: path("big"),
        size,
        mtime_ns: ATTRIBUTES.mtime_ns,
        mode: ATTRIBUTES.mode,
        owner: None,
        xattrs: None,
    };
    let need = placement.needs(&offered, false, drop).unwrap();
    assert_eq!(need, Need::AllBut(vec![whole]));
    let again = draft();
    again.complete(&ATTRIBUTES, placement.metadata()).unwrap();
    again.give_name().unwrap();
    let meta = fs::metadata(base.path().join("big")).unwrap();
    assert_eq!(meta.len(), size);
    // The kernel's clock for files ticks every few milliseconds.
    let tick = Duration::from_millis(20);
    assert!(meta.modified().unwrap() + tick >= began);
}
