//! Why a process could not be confined.

use std::io;

/// The kernel offers a part of the confinement, and has refused to apply it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot confine this process, {what}: {source}; report this with the kernel's release")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Landlock failed.
    #[error("cannot confine this process, landlock: {0}; report this with the kernel's release")]
    Landlock(#[from] landlock::RulesetError),
    /// The filter of system calls failed.
    #[error("cannot confine this process, seccomp: {0}; report this with the kernel's release")]
    Seccomp(#[from] seccompiler::Error),
    /// Landlock confines the calling thread and those that it starts, so no other thread may run.
    #[error(
        "cannot confine this process: {0} threads run already, and landlock would hold one alone"
    )]
    Threads(usize),
}

impl Error {
    pub(crate) fn refused(what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Refused {
            what,
            source: source.into(),
        }
    }
}
