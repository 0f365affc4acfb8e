//! The far end of a copy as one program without anything beside it: for hosts that have no howdah, to which
//! `howdah cp` brings it through the login that is open anyway (`python/howdah/remote/bringing.py`).
//!
//! `howdah-far serve` does what `howdah serve` does: it says hello, keeps to the policy of its host, gives up what it
//! does not need, copies, and leaves a line in the log. `howdah-far reread` reads files again after a copy.
//! What it leaves to an installed howdah it refuses in words: `--root`, and users that `/etc/passwd` does not name
//! where bytes are counted by the day.

use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use howdah_confine::{Reaches, harden};
use howdah_transfer::{FarEnd, Reach, Site};

use crate::overseer::Oversight;
use crate::policy::Places;

mod audit;
mod log;
mod overseer;
mod policy;
mod quota;
mod user;

/// What is said where a person, or a script, starts this program.
const MISUSED: &str = "this is the far end that a copy brings to a host without howdah, and it is started by one; \
                       use: howdah cp SRC… HOST:PATH";
/// The exit code of a wrong command line.
const WRONG: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<String> = env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["--version"] => {
            println!(
                "howdah-far {}, protocol {}",
                env!("CARGO_PKG_VERSION"),
                howdah_wire::PROTOCOL_VERSION
            );
            return ExitCode::SUCCESS;
        }
        ["sha256"] => own_digest().map_err(|error| (1, error)),
        ["policy"] => shown().map_err(|error| (1, error)),
        ["serve" | "reread"] if io::stdin().is_terminal() => Err((WRONG, MISUSED.to_owned())),
        ["serve"] => serve(None).map_err(|error| (1, error)),
        ["serve", "--ports", range] => match policy::ports(range) {
            Some(ports) => serve(Some(ports)).map_err(|error| (1, error)),
            None => Err((WRONG, policy::no_range(range))),
        },
        ["reread"] => {
            let (read, write) = standard_streams();
            return ExitCode::from(u8::from(!howdah_digest::serve(read, write)));
        }
        ["serve", ..] => Err((
            WRONG,
            "a far end that was brought serves all files of its user or none; for --root install howdah on this \
             host: pip install howdah"
                .to_owned(),
        )),
        _ => Err((WRONG, MISUSED.to_owned())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, error)) => {
            // A session that was refused has told the near end already.
            if !error.is_empty() {
                eprintln!("howdah: {error}");
            }
            ExitCode::from(code)
        }
    }
}

/// Serves one copy, with a data port of the range that the near end asks for, if it does.
fn serve(asked: Option<(u16, u16)>) -> Result<(), String> {
    let places = Places::of_this_host();
    let ports = policy::in_force(&places)?.ports_of(asked)?;
    let site = Site {
        ports: ports.map(|(least, most)| least..=most),
        overseer: Some(Arc::new(Oversight::new(places))),
    };
    let prepared = FarEnd::prepare(site).map_err(|error| error.to_string())?;
    harden(Reaches::AllFiles).map_err(|error| error.to_string())?;
    let (read, write) = standard_streams();
    prepared
        .serve(read, write, &Reach::default())
        .map_err(|_| String::new())
}

/// Prints what is in force as one line of JSON.
fn shown() -> Result<(), String> {
    let policy = policy::in_force(&Places::of_this_host())?;
    println!("{}", policy.to_json());
    Ok(())
}

/// Prints the SHA-256 of this program, for hosts without `sha256sum`.
fn own_digest() -> Result<(), String> {
    let program = fs::read("/proc/self/exe").map_err(|error| error.to_string())?;
    for byte in digest(&SHA256, &program).as_ref() {
        print!("{byte:02x}");
    }
    println!();
    Ok(())
}

fn standard_streams() -> (OwnedFd, OwnedFd) {
    // SAFETY: both are open since the program started, and nothing else of it uses them from here on.
    unsafe { (OwnedFd::from_raw_fd(0), OwnedFd::from_raw_fd(1)) }
}
