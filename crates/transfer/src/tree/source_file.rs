//! A source file while it is read, with a check whether it has changed meanwhile.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::fs::Stat;

use crate::tree::stat::{mtime_ns, size};

/// Why a file that has lost bytes is not sent.
pub(crate) const BECAME_SHORTER: &str = "it became shorter while it was read";
/// Two writes within one tick of the kernel's clock may leave the same time of change. Where time
/// stamps are coarse a tick has at most 10 ms (`CONFIG_HZ=100`).
const TICK: Duration = Duration::from_millis(20);

/// A file that is open for reading, and its state when it was opened.
#[derive(Debug)]
pub struct SourceFile {
    pub(super) descriptor: OwnedFd,
    pub(super) opened: Stat,
}

impl SourceFile {
    /// The file itself.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// Whether it takes less space than it has bytes. It may then have holes, or be compressed.
    pub fn may_have_holes(&self) -> bool {
        let stored = u64::try_from(self.opened.st_blocks).unwrap_or(0);
        stored.saturating_mul(512) < size(&self.opened)
    }

    /// How the file has changed since it was opened, if it has. The bytes that were read may then not be of one
    /// moment. A write through a mapping is visible only when the kernel writes its pages back.
    pub fn changed(&self) -> Option<&'static str> {
        match rustix::fs::fstat(&self.descriptor) {
            Ok(now) if stamp(&now) == stamp(&self.opened) => None,
            Ok(now) if size(&now) < size(&self.opened) => Some(BECAME_SHORTER),
            _ => Some("it changed while it was read; run the same command again"),
        }
    }

    /// Waits until a later write is certain to change the time of change that the file had at opening.
    pub(super) fn let_the_clock_tick(&self) {
        let changed = Duration::new(
            u64::try_from(self.opened.st_ctime).unwrap_or(0),
            u32::try_from(self.opened.st_ctime_nsec).unwrap_or(0),
        );
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        if let Some(age) = now.checked_sub(changed) {
            thread::sleep(TICK.saturating_sub(age));
        }
    }
}

/// What tells two states of a file apart: size, time of modification and time of change.
fn stamp(stat: &Stat) -> (u64, i64, i64, i64) {
    let changed_ns = i64::try_from(stat.st_ctime_nsec).unwrap_or(0);
    (size(stat), mtime_ns(stat), stat.st_ctime, changed_ns)
}
