//! The far end of a copy, `serve`. The near end's ssh starts it, and it uses standard input and output. An installed
//! howdah and the program that a copy brings to other hosts have the same far end.
//!
//! The policy of its own host decides what it carries out. With `--root DIR` it serves a login for copies only, as
//! the forced command of a key or a user (docs/serve.md).

use std::ffi::OsString;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use howdah_confine::{Landlock, Reaches, Rights, Standing, harden, only_beneath};
use howdah_site::{Places, Policy};
use howdah_transfer::{FarEnd, Overseer, Reach, Site};
use howdah_wire::printable;

use crate::apart::Apart;
use crate::options::{Asked, Options};
use crate::oversight::Oversight;

#[doc(hidden)]
pub mod apart;
#[doc(hidden)]
pub mod options;
#[doc(hidden)]
pub mod oversight;

/// The exit code of a wrong command line.
pub const MISUSED: u8 = 2;

/// Serves one session on standard input and output with these words of the command line. Returns the exit code.
/// Errors go to standard error. No other thread may run.
pub fn serve(words: &[OsString]) -> u8 {
    let options = match Options::read(words) {
        Ok(options) => options,
        Err(error) => return say(MISUSED, &error),
    };
    let served = match &options.root {
        Some(root) => below(Path::new(root), options.read_only, options.asked),
        None => everywhere(options.asked),
    };
    match served {
        Ok(code) => code,
        Err(error) => say(1, &error),
    }
}

fn say(code: u8, error: &str) -> u8 {
    eprintln!("howdah: {error}");
    code
}

/// Serves all that this user reaches.
fn everywhere(asked: Asked) -> Result<u8, String> {
    let places = Places::of_this_host();
    let asked = allowed(&places, asked)?;
    let far = prepare(asked, Arc::new(Oversight::new(places, None)))?;
    harden(Reaches::AllFiles).map_err(|error| error.to_string())?;
    Ok(answer(far, &Reach::default()))
}

/// Serves one folder, and confines this process to it.
fn below(root: &Path, read_only: bool, asked: Asked) -> Result<u8, String> {
    let places = Places::of_this_host();
    let asked = allowed(&places, asked)?;
    let shown = || printable(root.as_os_str().as_bytes());
    let folder = open(root).map_err(|error| format!("cannot serve {}: {error}", shown()))?;
    // What is confined cannot read the policy, count the bytes of a day or reach the log.
    let oversight = Oversight::new(places, Some(root));
    let apart =
        Apart::start(&oversight).map_err(|error| format!("cannot serve {}: {error}", shown()))?;
    let far = prepare(asked, apart.overseer())?;
    let rights = match read_only {
        true => Rights::Read,
        false => Rights::ReadAndWrite,
    };
    let landlock = only_beneath(&folder, rights).map_err(|error| error.to_string())?;
    let seccomp = harden(Reaches::OneFolder).map_err(|error| error.to_string())?;
    eprintln!("{}", in_words(read_only, &landlock, seccomp));
    Ok(answer(far, &Reach::beneath(folder, read_only)))
}

/// What is asked for, with a range of ports that the policy allows.
fn allowed(places: &Places, asked: Asked) -> Result<Asked, String> {
    let ports = Policy::in_force(places.clone()).and_then(|policy| policy.ports_of(asked.ports));
    let ports = ports.map_err(|error| error.to_string())?;
    Ok(Asked { ports, ..asked })
}

fn prepare(asked: Asked, overseer: Arc<dyn Overseer>) -> Result<FarEnd, String> {
    let site = Site {
        ports: asked.ports.map(|(least, most)| least..=most),
        ahead: asked.ahead.unwrap_or_default(),
        overseer: Some(overseer),
    };
    FarEnd::prepare(site).map_err(|error| error.to_string())
}

fn open(root: &Path) -> Result<OwnedFd, String> {
    use rustix::fs::{Mode, OFlags};

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(root, flags, Mode::empty()).map_err(|error| {
        let text = std::io::Error::from(error).to_string();
        text.split(" (os error")
            .next()
            .unwrap_or_default()
            .to_owned()
    })
}

/// Serves one near end. A session that was refused has told it already.
fn answer(far: FarEnd, reach: &Reach) -> u8 {
    let (read, write) = standard_streams();
    u8::from(far.serve(read, write, reach).is_err())
}

/// Standard input and output, for one caller.
pub fn standard_streams() -> (OwnedFd, OwnedFd) {
    // SAFETY: both are open since the program started, and nothing else of it uses them from here on.
    unsafe { (OwnedFd::from_raw_fd(0), OwnedFd::from_raw_fd(1)) }
}

/// What a near end reaches, and what enforces that, in one line.
fn in_words(read_only: bool, landlock: &Landlock, seccomp: Standing) -> String {
    enforcement(
        read_only,
        landlock.abi,
        landlock.whole,
        seccomp == Standing::Enforced,
    )
}

fn enforcement(read_only: bool, abi: Option<u32>, whole: bool, seccomp: bool) -> String {
    let rights = if read_only {
        "to read alone"
    } else {
        "to read and write"
    };
    let mut enforced_by = vec!["openat2".to_owned()];
    let mut lacks = Vec::new();
    match abi {
        Some(abi) if whole => enforced_by.push(format!("landlock {abi}")),
        Some(abi) => enforced_by.push(format!("landlock {abi} in part")),
        None => lacks.push("landlock"),
    }
    if seccomp {
        enforced_by.push("seccomp".to_owned());
    } else {
        lacks.push("seccomp");
    }
    let missing = if lacks.is_empty() {
        String::new()
    } else {
        format!("; this kernel has no {}", lacks.join(" and no "))
    };
    let enforced_by = enforced_by.join(", ");
    format!("paths begin at the folder of this login, {rights}; held by {enforced_by}{missing}")
}

#[cfg(test)]
mod tests {
    use super::enforcement;

    #[test]
    fn a_far_end_says_what_binds_it_and_what_does_not() {
        for (said, ends) in [
            (
                enforcement(true, Some(7), true, true),
                "to read alone; held by openat2, landlock 7, seccomp",
            ),
            (
                enforcement(false, Some(3), false, true),
                "to read and write; held by openat2, landlock 3 in part, seccomp",
            ),
            (
                enforcement(false, None, false, true),
                "held by openat2, seccomp; this kernel has no landlock",
            ),
            (
                enforcement(false, None, false, false),
                "held by openat2; this kernel has no landlock and no seccomp",
            ),
        ] {
            assert!(said.starts_with("paths begin at the folder of this login, to read"));
            assert!(said.ends_with(ends), "{said}");
        }
    }
}
