//! How a part of a file passes from an abandoned end to the copy that continues with it.
//!
//! A near end may exit while the path is down. Its far end detects that late, because TCP under ssh retries at
//! growing intervals. Until then the far end has locked its parts ([`part`]). The next copy requests a part by a
//! second lock, a POSIX one, which is independent of flock. An end that has received nothing for some seconds looks
//! for such locks, and exits if it finds one. On a file system with one kind of lock for both (NFS) no part can be
//! requested.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::tree::part::{self, Unusable};
use crate::tree::reach::INSIDE;

/// Who is asked ends within this time, or never.
const WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The requests of one copy. There is only one: an end that exits releases all its parts, and an end that does not
/// exit will not.
#[derive(Debug, Default)]
pub struct Handover {
    asked: AtomicBool,
}

impl Handover {
    /// As [`part::existing`], and requests the first part that another end is writing.
    ///
    /// # Errors
    /// As [`part::existing`].
    pub fn existing(&self, folder: impl AsFd, name: &[u8]) -> Result<Option<OwnedFd>, Unusable> {
        match part::existing(&folder, name) {
            Err(Unusable::Busy) if !self.asked.swap(true, Ordering::Relaxed) => {
                let _ = ask(&folder, name);
                part::existing(folder, name)
            }
            other => other,
        }
    }
}

/// Asks for a part that is locked, and waits until it is free or [`WITHIN`] is over.
fn ask(folder: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(folder, name, flags, Mode::empty(), INSIDE)?;
    rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let until = Instant::now() + WITHIN;
    while rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() >= until {
            break;
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Whether another process requests this part.
pub fn is_asked_for(part: impl AsFd) -> bool {
    let lock = Flock::from(FlockType::WriteLock);
    fcntl_getlk(part, &lock).is_ok_and(|other| other.is_some())
}
