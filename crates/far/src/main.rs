//! The far end as a single program. `howdah cp` brings it to hosts without howdah, through the login that is open
//! anyway (`python/howdah/remote/bringing.py`).
//!
//! `howdah-far serve` is `howdah serve`; `howdah-far reread` reads files again after a copy.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use aws_lc_rs::digest::{SHA256, digest};
use howdah_far::{MISUSED, serve, standard_streams};

/// What is said where a person, or a script, starts this program.
const USE: &str = "this is the far end that a copy brings to a host without howdah, and it is started by one; \
                   use: howdah cp SRC… HOST:PATH";

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    let role = words.first().and_then(|word| word.to_str());
    let code = match (role, words.len()) {
        (Some("--version"), 1) => {
            let protocol = howdah_wire::PROTOCOL_VERSION;
            println!(
                "howdah-far {}, protocol {protocol}",
                env!("CARGO_PKG_VERSION")
            );
            0
        }
        (Some("sha256"), 1) => match own_digest() {
            Ok(digest) => {
                println!("{digest}");
                0
            }
            Err(error) => say(1, &error.to_string()),
        },
        (Some("reread"), 1) if !io::stdin().is_terminal() => {
            let (read, write) = standard_streams();
            u8::from(!howdah_digest::serve(read, write))
        }
        (Some("serve"), _) => serve(&words[1..]),
        _ => say(MISUSED, USE),
    };
    code.into()
}

fn say(code: u8, error: &str) -> u8 {
    eprintln!("howdah: {error}");
    code
}

/// The SHA-256 of this program, for hosts without `sha256sum`.
fn own_digest() -> io::Result<String> {
    let program = fs::read("/proc/self/exe")?;
    let digits = |byte: &u8| format!("{byte:02x}");
    Ok(digest(&SHA256, &program)
        .as_ref()
        .iter()
        .map(digits)
        .collect())
}
