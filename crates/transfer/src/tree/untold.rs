//! Files with size 0 that are not empty: the kernel makes their content when it is read, as in /proc.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::tree::stat::size;

/// The message on such a file.
pub(super) const UNTOLD: &str =
    "its size is not known before it is read; give what is in it through a pipe";

/// `f_type` of the file systems that have such files (linux/magic.h): proc, both kinds of cgroup, debugfs, tracefs and
/// securityfs.
const OF_KERNEL: [i64; 6] = [
    0x9fa0,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
];

/// Whether a file with size 0 has content. `on` is open on its file system, and `open` opens the file without
/// waiting. Files on a disk, whose file system has a device, are not checked.
///
/// # Errors
/// When it cannot be read.
pub(super) fn has_untold(
    stat: &Stat,
    on: impl AsFd,
    open: impl FnOnce() -> Result<OwnedFd, Errno>,
) -> Result<bool, Errno> {
    let is_empty_file =
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && size(stat) == 0;
    if !is_empty_file || rustix::fs::major(stat.st_dev) != 0 {
        return Ok(false);
    }
    if !rustix::fs::fstatfs(on).is_ok_and(|system| OF_KERNEL.contains(&system.f_type)) {
        return Ok(false);
    }
    match rustix::io::read(open()?, &mut [0; 1]) {
        Ok(count) => Ok(count > 0),
        // It will have something.
        Err(Errno::AGAIN) => Ok(true),
        Err(error) => Err(error),
    }
}
