//! The mounts of this process's mount namespace, from the file that proc_pid_mountinfo(5) describes.

use std::{fs, path::PathBuf};

/// A mounted file system.
pub(crate) struct Mount {
    /// The part of the file system that is mounted there.
    pub root: String,
    /// The folder at which it is mounted.
    pub place: PathBuf,
    /// Its type.
    pub kind: String,
    /// The source that was given when it was mounted. For most types this is a device.
    pub source: String,
}

/// All mounts of this process's mount namespace; none if /proc is not mounted.
pub(crate) fn all() -> Vec<Mount> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(3);
    let mut of_type = after.split(' ');
    Some(Mount {
        root: fields.next()?.to_owned(),
        place: fields.next()?.into(),
        kind: of_type.next()?.to_owned(),
        source: of_type.next()?.to_owned(),
    })
}
