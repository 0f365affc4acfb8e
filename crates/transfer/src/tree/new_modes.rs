//! Modes of new files and folders if the modes of their sources are not kept: the source's mode, less what the
//! receiver takes away.

use std::os::fd::AsFd;

use howdah_wire::access_list::{DEFAULT_LIST, entries};
use rustix::fs::{Mode, Stat};

/// The mode bits that a new file can get. Special bits are not passed on.
pub const NEW_MODE: u32 = 0o777;
/// What a process may not give where that cannot be read.
const USUAL_UMASK: u32 = 0o022;
/// Longest access list that is read; that of more entries takes none of its bits away.
const MAX_LIST_BYTES: usize = 64 << 10;

/// The mode of a folder that gets its final mode later: closed to all but its owner, and with the sticky bit, which
/// has no effect there. By this mode a copy recognizes a folder that it, or an interrupted copy, has made.
pub const UNFINISHED: Mode = Mode::RWXU.union(Mode::SVTX);

/// The first mode of a folder that gets its final mode at the end. `perms` says whether that is its source's mode.
pub fn new_folder_mode(perms: bool) -> Mode {
    if perms { Mode::RWXU } else { UNFINISHED }
}

/// An access list of the folder above takes bits of the owner away, and a folder may have its group from there.
const TOLD_BY: u32 = 0o1077;

/// Whether a folder has the mode [`UNFINISHED`].
pub fn is_unfinished(folder: &Stat) -> bool {
    folder.st_mode & TOLD_BY == UNFINISHED.as_raw_mode() & TOLD_BY
}

/// The umask of this process (umask(2)). The system call is not used to read it, because that would change it for a
/// moment, for all threads.
pub fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = umask.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok());
    umask.unwrap_or(USUAL_UMASK)
}

/// The part of a source's mode that a new entry in a folder gets. The folder's default access list decides or,
/// without one, `umask`.
pub fn left(mode: u32, folder: impl AsFd, umask: u32) -> u32 {
    let mut list = vec![0; MAX_LIST_BYTES];
    let listed = match rustix::fs::fgetxattr(folder, DEFAULT_LIST, &mut list) {
        Ok(len) => mode_of_list(&list[..len]),
        Err(_) => None,
    };
    mode & listed.unwrap_or(NEW_MODE & !umask)
}

/// What an access list allows owner, group and others; `None` if it is none.
fn mode_of_list(list: &[u8]) -> Option<u32> {
    const OWNER: u16 = 0x01;
    const GROUP: u16 = 0x04;
    const MASK: u16 = 0x10;
    const OTHERS: u16 = 0x20;
    let entries = entries(list)?;
    let may = |wanted: u16| {
        let mut each = entries.iter().map(|entry| entry.what());
        let (_, may) = each.find(|(tag, _)| *tag == wanted)?;
        Some(u32::from(may) & 0o7)
    };
    // The mask bounds the group where there is one (acl(5)).
    let group = may(MASK).or_else(|| may(GROUP))?;
    Some(may(OWNER)? << 6 | group << 3 | may(OTHERS)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, may) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(may.to_le_bytes());
            bytes.extend(u32::MAX.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn an_access_list_reads_as_a_mode() {
        let short = [(0x01, 7), (0x04, 5), (0x20, 0)];
        assert_eq!(mode_of_list(&list(&short)), Some(0o750));
        let masked = [(0x01, 6), (0x02, 7), (0x04, 7), (0x10, 1), (0x20, 4)];
        assert_eq!(mode_of_list(&list(&masked)), Some(0o614));
        for broken in [&[][..], &[2, 0, 0], &list(&short[..2]), &list(&short)[..27]] {
            assert_eq!(mode_of_list(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn the_list_of_a_folder_counts_before_the_umask() {
        let base = tempfile::tempdir().unwrap();
        let folder = File::open(base.path()).unwrap();
        assert_eq!(left(0o6777, &folder, 0o027), 0o750);
        let bytes = list(&[(0x01, 7), (0x04, 1), (0x20, 1)]);
        rustix::fs::fsetxattr(
            &folder,
            DEFAULT_LIST,
            &bytes,
            rustix::fs::XattrFlags::empty(),
        )
        .unwrap();
        assert_eq!(left(0o1777, &folder, 0o027), 0o711);
        assert_eq!(left(0o640, &folder, 0o027), 0o600);
    }

    #[test]
    fn an_unfinished_folder_is_told_from_others() {
        let base = tempfile::tempdir().unwrap();
        let folder = File::open(base.path()).unwrap();
        rustix::fs::mkdirat(&folder, "made", UNFINISHED).unwrap();
        let is = |name: &str| {
            let stat = rustix::fs::stat(base.path().join(name)).unwrap();
            is_unfinished(&stat)
        };
        assert!(is("made"));
        for mode in [0o700, 0o1777, 0o1710, 0o755] {
            fs::set_permissions(base.path().join("made"), Permissions::from_mode(mode)).unwrap();
            assert!(!is("made"), "{mode:o}");
        }
    }
}
