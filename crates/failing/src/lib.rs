//! A disk that fails with EIO when it is told to: a FUSE file system that passes all on to a folder. A file in it may
//! back a loop device. No real disk and no block device is made to fail.
//!
//! Tests mount one in their own process. `make bench-faults` runs the program `howdah-failing`.

mod answer;
mod disk;
mod fault;
mod nodes;

use std::io;
use std::path::Path;

use fuser::{BackgroundSession, Config, MountOption, Session};
use rustix::process::{Resource, getrlimit, setrlimit};

pub use disk::Disk;
pub use fault::{Fault, Told};
use nodes::Nodes;

/// Mounts one on `at` that keeps what it has in `folder`; it runs until the session is dropped.
///
/// # Errors
/// Those of the mount, which needs `/dev/fuse`.
pub fn mount(folder: &Path, at: &Path) -> io::Result<(BackgroundSession, Told)> {
    let (session, told) = session(folder, at)?;
    Ok((session.spawn()?, told))
}

/// The same, to be run by the caller.
///
/// # Errors
/// Those of the mount, which needs `/dev/fuse`.
pub fn session(folder: &Path, at: &Path) -> io::Result<(Session<Disk>, Told)> {
    // What the kernel knows is open here.
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files)?;
    let told = Told::default();
    let disk = Disk::new(Nodes::below(folder)?, told.clone());
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("howdah-failing".to_owned())];
    Ok((Session::new(disk, at, &config)?, told))
}
