//! Protects the keys of a session, and data, from core dumps and debuggers.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use crate::Error;

/// Prevents core dumps. No other process of the same user can attach to this one or read its memory (PR_SET_DUMPABLE
/// in prctl(2)). The files of `/proc/self` then belong to root. Those that everybody may read stay readable, and a
/// process can still use its own `/proc/self/fd` (proc_fd_permission in fs/proc/fd.c).
pub fn keep_out_of_dumps() -> Result<(), Error> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).map_err(|error| Error::refused("RLIMIT_CORE", error))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| Error::refused("PR_SET_DUMPABLE", error))
}
