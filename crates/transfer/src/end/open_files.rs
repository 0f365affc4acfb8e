//! How many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's limit of open files to the most that the host allows. Returns that limit. The usual limit of
/// 1024 is for programs that use select(2). A sender keeps each source open, and a receiver each file that waits for
/// its flush.
pub fn allow_open_files() -> usize {
    let before = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: before.maximum,
        ..before
    };
    let allowed = match setrlimit(Resource::Nofile, all) {
        Ok(()) => all.current,
        // Where it is refused, too many open files say so themselves.
        Err(_) => before.current,
    };
    usize::try_from(allowed.unwrap_or(u64::MAX)).unwrap_or(usize::MAX)
}
