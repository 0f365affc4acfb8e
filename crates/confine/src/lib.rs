//! What a process gives up for good before it receives anything: core dumps, access by debuggers, system calls that
//! it never makes ([`harden`]), and all files outside one folder ([`only_beneath`]).
//!
//! The process cannot undo any of it, whatever code runs in it later. It is a second line of defence: the code itself
//! does none of these things. What the kernel does not offer is left out.

mod calls;
mod error;
mod files;
mod memory;

pub use error::Error;
pub use files::{Landlock, Rights, only_beneath};

/// Whether a part of the confinement is in force.
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

/// Excludes this process from core dumps and debuggers, from gaining privileges by `execve`, and denies all its
/// threads the system calls that a data mover never makes. Returns whether these are denied.
///
/// # Errors
/// When the kernel offers a restriction and refuses it.
pub fn harden(reaches: Reaches) -> Result<Standing, Error> {
    memory::keep_out_of_dumps()?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| Error::refused("no_new_privs", error))?;
    calls::deny(reaches)
}
