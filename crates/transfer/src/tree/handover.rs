//! How a part passes from an end that nobody speaks to any more to the copy that goes on with it.
//!
//! A near end may go while the path is out. Its far end learns of that late, for ssh's connection tries again ever more
//! seldom, and until then it has its parts locked ([`part`]). The next copy asks for one by a second lock, a POSIX
//! one, of which flock knows nothing. An end that has not been spoken to for some seconds looks for such locks, and
//! ends where it finds one. A file system that has one kind of lock for both (NFS) takes no question.

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

/// The questions of one copy: one. Who has ended gives all its parts back, and who has not ended will not.
#[derive(Debug, Default)]
pub struct Handover {
    asked: AtomicBool,
}

impl Handover {
    /// As [`part::existing`]; the first part that another end is writing is asked for.
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

/// Whether another process asks for this part.
pub fn is_asked_for(part: impl AsFd) -> bool {
    let lock = Flock::from(FlockType::WriteLock);
    fcntl_getlk(part, &lock).is_ok_and(|other| other.is_some())
}
