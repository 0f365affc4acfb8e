//! How many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process open as many files as the host allows it; how many that are. The usual limit of 1024 is for programs
/// that use select(2). A sender keeps each source open, and a receiver each file that waits for its flush.
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
