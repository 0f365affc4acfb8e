//! What a process gives up for good before it listens to anybody: core dumps, the eyes of debuggers, system
//! calls that it never makes ([`harden`]), and all files outside one folder ([`only_beneath`]).
//!
//! None of it can be taken back by the process, whatever code runs in it later. It is a second wall: the
//! code behind it does without all of this by itself, and what the kernel does not offer is left out.

mod calls;
mod error;
mod files;
mod memory;

pub use error::Error;
pub use files::{Landlock, Rights, only_beneath};

/// Whether a part of the wall stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The kernel enforces it.
    Enforced,
    /// The kernel does not offer it.
    NotOffered,
}

/// Which files a process reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaches {
    /// All that its user does.
    AllFiles,
    /// Those of one folder: landlock holds it there, as far as it can.
    OneFolder,
}

/// Keeps this process out of core dumps and away from debuggers, gives up privileges by `execve`, and denies
/// all its threads the system calls that a data mover never makes. Says whether these are denied.
///
/// # Errors
/// When the kernel refuses what it offers.
pub fn harden(reaches: Reaches) -> Result<Standing, Error> {
    memory::keep_out_of_dumps()?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| Error::refused("no_new_privs", error))?;
    calls::deny(reaches)
}
