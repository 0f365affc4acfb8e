//! Pieces of the receiver, one at a time, where it takes root to try them.

use std::fs::{self, File};
use std::io::IoSlice;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use howdah_transfer::needed::Need;
use howdah_transfer::part::{self, Unusable};
use howdah_transfer::place::Placement;
use howdah_transfer::special_files::Made;
use howdah_transfer::spool::Spool;
use howdah_transfer::target::Target;
use howdah_wire::{
    Account, Attributes, Keep, LinkTarget, Offered, OfferedFile, Owner, Special, TreePath, Xattr,
    Xattrs,
};

use crate::{own_mounts, run};

const ATTRIBUTES: Attributes = Attributes {
    mode: 0o640,
    mtime_ns: 1_234_567_890_123_456_789,
    owner: None,
    xattrs: None,
};

fn placement(folder: &Path, keep: Keep, confined: bool) -> Placement {
    let descriptor = File::open(folder).unwrap().into();
    Placement::new(vec![Target {
        folder: Some(Arc::new(descriptor)),
        folder_path: b"dst".to_vec(),
        name: None,
        renamed: None,
    }])
    .keeping(keep, confined)
}

fn path(text: &str) -> TreePath {
    TreePath::try_from(text.as_bytes().to_vec()).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
}

fn xattrs(each: &[(&str, &[u8])]) -> Option<Arc<Xattrs>> {
    let each = each.iter().map(|(name, value)| Xattr {
        name: name.as_bytes().to_vec(),
        value: value.to_vec(),
    });
    Xattrs::new(each.collect()).map(Arc::new)
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

pub fn a_sender_plants_nothing_on_links_and_special_files_either() {
    let specials = Keep {
        specials: true,
        ..Keep::default()
    };
    let xattrs_too = Keep {
        xattrs: true,
        ..specials
    };
    let all = Keep {
        owner: true,
        group: true,
        acls: true,
        ..xattrs_too
    };
    let both = ["security.note", "trusted.b"];
    let wanted = xattrs(&[(both[0], b"1"), (both[1], b"2")]);
    let target = LinkTarget::try_from(b"file".to_vec()).unwrap();
    for (keep, confined, names) in [
        (specials, false, &both[..0]),
        (xattrs_too, false, &both[1..]),
        (all, true, &both[..0]),
        (all, false, &both[..]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), b"file").unwrap();
        let placement = placement(folder.path(), keep, confined);
        let attributes = Attributes {
            xattrs: wanted.clone(),
            ..ATTRIBUTES
        };
        let special =
            || placement.make_special(0, &path("fifo"), &attributes, Special::Fifo, (0, 0));
        let kept = (None, wanted.as_deref());
        let not_kept = placement.link(0, &path("link"), &target, 5, kept);
        assert_eq!(not_kept, Ok(None));
        match confined {
            true => assert!(matches!(special(), Ok(Made::LeftOut(_)))),
            // One that is there, too.
            false => (0..2).for_each(|_| {
                assert_eq!(special(), Ok(Made::Yes));
                assert_eq!(names_of_xattrs(&folder.path().join("fifo")), names);
            }),
        }
        assert_eq!(names_of_xattrs(&folder.path().join("link")), names);
        let untouched = names_of_xattrs(&folder.path().join("file"));
        assert!(untouched.is_empty(), "{untouched:?}");
    }
}

/// The mode of a program that was there, of this user and group, after a copy that gives it others. What was there is
/// another file, or the same one.
fn after_a_copy(keep: Keep, source_mode: u32, same: bool) -> u32 {
    let base = tempfile::tempdir().unwrap();
    let program = base.path().join("program");
    fs::write(&program, "abc").unwrap();
    set_mode(&program, 0o6755);
    let account = |number| Account { number, name: None };
    let attributes = Attributes {
        mode: source_mode,
        owner: Some(Arc::new(Owner {
            user: account(1000),
            group: account(1001),
        })),
        ..ATTRIBUTES
    };
    let placement = placement(base.path(), keep, false);
    if same {
        let at = File::options().write(true).open(&program).unwrap();
        let seconds = Duration::from_nanos(ATTRIBUTES.mtime_ns as u64);
        at.set_modified(SystemTime::UNIX_EPOCH + seconds).unwrap();
        let offered = OfferedFile {
            source: 0,
            path: path("program"),
            size: 3,
            mtime_ns: ATTRIBUTES.mtime_ns,
            mode: attributes.mode,
            owner: attributes.owner.clone(),
            xattrs: None,
            kind: Offered::File,
        };
        let not_kept = |why| panic!("{why}");
        let need = placement.needs(&offered, false, not_kept).unwrap();
        assert_eq!(need, Need::Nothing);
    } else {
        let draft = placement
            .draft(0, &path("program"), 3, &attributes)
            .unwrap();
        draft.write_at(&mut [IoSlice::new(b"new")], 0).unwrap();
        let not_kept = draft.complete(&attributes, placement.metadata()).unwrap();
        assert_eq!(not_kept, None);
        draft.give_name().unwrap();
    }
    let meta = fs::metadata(&program).unwrap();
    let expected = (
        if keep.owner { 1000 } else { 0 },
        if keep.group { 1001 } else { 0 },
    );
    assert_eq!((meta.uid(), meta.gid()), expected);
    mode(&program)
}

pub fn a_program_that_gets_another_user_or_group_acts_as_it_only_where_owners_and_modes_are_kept() {
    let keep = |perms, owner, group| Keep {
        perms,
        owner,
        group,
        ..Keep::default()
    };
    for (what, keep, source_mode, expected) in [
        ("-a", keep(true, true, true), 0o6755, 0o6755),
        ("-a of none", keep(true, true, true), 0o755, 0o755),
        ("-a --no-perms", keep(false, true, true), 0o6755, 0o755),
        ("-g", keep(true, false, true), 0o755, 0o755),
        ("-g --no-perms", keep(false, false, true), 0o6755, 0o755),
        ("-o", keep(true, true, false), 0o6755, 0o4755),
        ("-o of none", keep(true, true, false), 0o755, 0o755),
        ("-o --no-perms", keep(false, true, false), 0o6755, 0o755),
    ] {
        for same in [false, true] {
            let left = after_a_copy(keep, source_mode, same);
            assert_eq!(left, expected, "{what}, same {same}: {left:o}");
        }
    }
}

pub fn root_removes_what_a_cut_copy_has_given_to_another_user_unless_one_writes_it() {
    let base = tempfile::tempdir().unwrap();
    let folder = File::open(base.path()).unwrap();
    let path = base.path().join("part");
    fs::write(&path, b"x").unwrap();
    chown(&path, Some(12345), None).unwrap();
    let error = part::open(&folder, b"part").unwrap_err();
    assert_eq!(error, Unusable::Foreign("it belongs to another user"));
    let writes = File::open(&path).unwrap();
    part::lock(&writes).unwrap();
    assert!(!part::remove(&folder, b"part") && path.exists());
    drop(writes);
    fs::hard_link(&path, base.path().join("other")).unwrap();
    assert!(!part::remove(&folder, b"part") && path.exists());
    fs::remove_file(base.path().join("other")).unwrap();
    assert!(part::remove(&folder, b"part") && !path.exists());
}

pub fn what_a_full_disk_does_not_take_stays_in_memory() {
    own_mounts();
    let base = tempfile::tempdir().unwrap();
    let at = base.path().to_str().unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=2500k", "tmpfs", at]);
    let destination = File::open(base.path()).unwrap();
    let mut spool = Spool::default();
    for number in 0..500_000_u32 {
        spool.add(&number, &destination).unwrap();
    }
    // Each record has 4 bytes of length and up to 3 of the number. More than a full buffer of them is not on the disk.
    let all: u64 = 500_000 * 7 - 16_384 - 128;
    let room = rustix::fs::statvfs(base.path()).unwrap();
    let taken = (room.f_blocks - room.f_bfree) * room.f_frsize;
    assert!(taken > 0 && all - taken > 1 << 20, "{taken}");
    for _ in 0..2 {
        let mut expected = 0;
        let read = spool.each(&mut |got| {
            assert_eq!(got, expected);
            expected += 1;
            Ok(())
        });
        read.unwrap();
        assert_eq!(expected, 500_000);
    }
}
