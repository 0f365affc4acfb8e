//! Confines a process to the files of one folder, by landlock (Documentation/userspace-api/landlock.rst).

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};
use rustix::fs::{CWD, Mode, OFlags};

use crate::Error;

/// The newest ABI whose rights are asked for: that of Linux 6.15. Older kernels enforce what they know.
const KNOWN: ABI = ABI::V7;

/// Files of the kernel that a far end reads after it is confined, and nothing is written there: its own memory,
/// and the names of congestion controls for messages.
const READ_OUTSIDE: [&str; 2] = ["/proc/self/status", "/proc/sys/net/ipv4"];

/// What the process may do in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Files and folders are read.
    Read,
    /// Files, folders and symbolic links are also made, written, renamed and removed; nothing is executed and
    /// no device, FIFO or socket is made.
    ReadAndWrite,
}

/// What landlock holds a process to.
#[derive(Debug)]
pub struct Landlock {
    /// Its ABI; `None` if the kernel has no landlock, or it is switched off.
    pub abi: Option<u32>,
    /// Whether the kernel enforces everything that was requested. Before Linux 6.12 it enforces a part.
    pub whole: bool,
    /// Open as long as the rules hold: `/proc` makes files anew that nobody holds, and rules are of files.
    _open: Vec<OwnedFd>,
}

/// Confines this thread, and those that it will start, to what is beneath `folder`. They can open nothing else,
/// connect to no port, open no other port, and send no signal to other processes. What is open already stays open.
///
/// # Errors
/// When other threads run already, or when the kernel offers a restriction and refuses it.
pub fn only_beneath(folder: impl AsFd, rights: Rights) -> Result<Landlock, Error> {
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(Error::Threads(threads));
    }
    let all = AccessFs::from_all(KNOWN);
    let mut rules = Ruleset::default()
        .handle_access(all)?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rule(PathBeneath::new(folder.as_fd(), granted(rights)))?;
    let mut open = Vec::new();
    for path in READ_OUTSIDE {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        // Where there is no such file, nothing can be read there.
        let Ok(file) = rustix::fs::openat(CWD, path, flags, Mode::empty()) else {
            continue;
        };
        rules = rules.add_rule(PathBeneath::new(file.as_fd(), AccessFs::ReadFile))?;
        open.push(file);
    }
    let status = rules.restrict_self()?;
    let abi = match status.landlock {
        LandlockStatus::Available {
            effective_abi,
            kernel_abi,
        } => Some(kernel_abi.unwrap_or(effective_abi as i32).cast_unsigned()),
        _ => None,
    };
    Ok(Landlock {
        abi,
        whole: status.ruleset == RulesetStatus::FullyEnforced,
        _open: open,
    })
}

fn granted(rights: Rights) -> BitFlags<AccessFs> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let write = make_bitflags!(AccessFs::{
        WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir | Refer
    });
    match rights {
        Rights::Read => read,
        Rights::ReadAndWrite => read | write,
    }
}
