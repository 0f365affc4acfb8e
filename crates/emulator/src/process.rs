//! What the lab's own processes need of namespaces, beyond those of the link.

use std::path::Path;
use std::{fs, io};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::process::{Signal, getgid, getppid, getuid, set_parent_process_death_signal};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs, unshare_unsafe,
};

use crate::EmulatorError;

const PRIVATE: MountPropagationFlags =
    MountPropagationFlags::REC.union(MountPropagationFlags::PRIVATE);
const FLAGS: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC);

/// Leaves the namespaces named for new ones; `user` maps the caller to root in its own. With `pid` the
/// next child is the first process of its namespace. `user` needs a process of one thread.
pub fn unshare(user: bool, pid: bool, mount: bool) -> Result<(), EmulatorError> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let mut flags = UnshareFlags::empty();
    flags.set(UnshareFlags::NEWUSER, user);
    flags.set(UnshareFlags::NEWPID, pid);
    flags.set(UnshareFlags::NEWNS, mount);
    // SAFETY: UnshareFlags::FILES is not among them, so every thread keeps its descriptors.
    unsafe { unshare_unsafe(flags) }.map_err(EmulatorError::refused("unshare"))?;
    if user {
        let write = |path, text: String| {
            fs::write(path, text).map_err(EmulatorError::refused("mapping the user namespace"))
        };
        write("/proc/self/setgroups", "deny".into())?;
        write("/proc/self/uid_map", format!("0 {uid} 1"))?;
        write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    }
    Ok(())
}

/// Asks the kernel to kill this process when the thread that started it ends.
pub fn die_with_parent() -> Result<(), EmulatorError> {
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(EmulatorError::refused("setting the parent death signal"))?;
    match getppid() == parent {
        true => Ok(()),
        false => Err(EmulatorError::Misuse("the parent process has gone already")),
    }
}

/// Takes all capabilities from this thread and from what it starts later, which can gain none again (capset(2),
/// `PR_SET_NO_NEW_PRIVS`).
pub fn drop_capabilities() -> Result<(), EmulatorError> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    set_no_new_privs(true)
        .and_then(|()| clear_ambient_capability_set())
        .and_then(|()| set_capabilities(None, sets))
        .map_err(EmulatorError::refused("dropping capabilities"))
}

/// Gives this thread a view of the file system of its own, in which /sys shows its network namespace.
pub(crate) fn own_sysfs() -> io::Result<()> {
    // SAFETY: the descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change("/", PRIVATE)?;
    Ok(mount("sysfs", "/sys", "sysfs", FLAGS, None)?)
}

/// Keeps mounts from spreading and mounts a /proc of the PID namespace just entered.
pub fn mount_proc() -> Result<(), EmulatorError> {
    mount_change("/", PRIVATE).map_err(EmulatorError::refused("making mounts private"))?;
    mount("proc", "/proc", "proc", FLAGS, None).map_err(EmulatorError::refused("mounting /proc"))
}

/// Shows `source` with all that is mounted below it at `target`, which must exist.
pub fn bind_mount(source: &Path, target: &Path) -> Result<(), EmulatorError> {
    mount_bind_recursive(source, target).map_err(EmulatorError::refused("bind mount"))
}
