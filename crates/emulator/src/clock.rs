//! Nanoseconds since a link began, on the monotonic clock.

use rustix::time::{ClockId, clock_gettime};

/// The clock of one link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start_ns: u64,
}

impl Clock {
    pub fn start() -> Self {
        Clock {
            start_ns: monotonic_ns(),
        }
    }

    pub fn now_ns(self) -> u64 {
        self.at_ns(monotonic_ns())
    }

    /// The instant that CLOCK_MONOTONIC calls `monotonic_ns`; the beginning, if it was before.
    pub fn at_ns(self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_sub(self.start_ns)
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
