//! The rules that an administrator sets for all users of a host, and the records of copies there: the policy, the
//! counted bytes, and the line in the log. Both ends of a copy use this crate, each for its own host.
//!
//! docs/policy.md lists the keys of a policy and those of a line.

mod audit;
mod hosts;
mod job;
mod log;
mod policy;
mod quota;

use std::io;

use howdah_wire::printable_within;

pub use audit::{Copy, End, Outcome};
pub use hosts::{check_pattern, fits};
pub use job::{Account, Job};
pub use policy::{Places, Policy, Ports, ports};
pub use quota::Quota;

/// An error or a refusal, as one line for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A policy does not allow it.
    #[error("{0}")]
    Refused(String),
    /// The policy cannot be applied, because its file, or something of this host that it needs, is broken.
    #[error("{0}")]
    Broken(String),
}

/// Most of a text that a message shows, in bytes.
const SHOWN_BYTES: usize = 80;

/// Text of a file or of another host, as a message shows it.
fn shown(text: &str) -> String {
    printable_within(text.as_bytes(), SHOWN_BYTES)
}

/// An error without the number that Rust appends.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}
