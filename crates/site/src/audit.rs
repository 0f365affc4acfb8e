//! The line that each copy writes into the log of this host, at either end: who, where, what, and the outcome.
//!
//! A line is JSON without control characters. It fits into a message of rsyslog (8 KiB by default), however many and
//! long the names are. If no log takes the line, the copy continues unless the policy requires a log. If it does, a
//! first line is written before the copy. It shows that the log works, and it remains if the process is killed.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use howdah_wire::printable_within;
use serde::{Deserialize, Serialize};

use crate::log::Log;
use crate::{Account, Error, Job, Policy, plain};

const SCHEMA: u8 = 1;
/// How many sources a line names.
const NAMED: usize = 6;
const NAME_BYTES_MAX: usize = 300;
const NOTICE: u8 = 5;
const INFO: u8 = 6;

/// The end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// Where the copy was started.
    Near,
    /// The other one.
    Far,
}

/// The outcome of a copy in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It may begin.
    Begun,
    /// All has arrived.
    Complete,
    /// Some files could not be read and were left out.
    Incomplete,
    /// The policy of this host did not allow it, or not to go on.
    Refused,
    /// It ended early.
    Failed,
    /// It was stopped.
    Interrupted,
}

/// One copy in the log; docs/policy.md describes each key. Missing is null.
#[derive(Debug, Clone, Serialize)]
struct Line {
    schema: u8,
    end: End,
    outcome: Outcome,
    error: Option<String>,
    uid: u32,
    user: Option<String>,
    peer: Option<String>,
    other: Option<String>,
    sends: bool,
    sources: Vec<String>,
    sources_more: usize,
    destination: Option<String>,
    encrypted: bool,
    dry_run: bool,
    bytes: u64,
    files: u64,
    removed: u64,
    elapsed_s: Option<f64>,
    digest_sum: Option<String>,
    digests_sha256: Option<String>,
    record: Option<String>,
}

/// The lines on one copy, from its beginning to its outcome.
pub struct Copy {
    line: Line,
    log: Log,
}

impl Copy {
    /// A copy with the other end `peer`: the host as given to ssh or, at the far end, the address of the ssh client.
    /// `record` is the id of the record that a near end keeps.
    pub fn new(end: End, job: &Job, peer: Option<&[u8]>, record: Option<String>) -> Self {
        let number = rustix::process::getuid().as_raw();
        let line = Line {
            schema: SCHEMA,
            end,
            outcome: Outcome::Begun,
            error: None,
            uid: number,
            user: howdah_accounts::user(number).map(|user| short(user.name.as_bytes())),
            peer: peer.map(short),
            other: job.other.as_ref().map(|other| short(other.as_bytes())),
            // A near end between two far ones sends nothing.
            sends: job.is_pull() == (end == End::Far) && (end == End::Far || job.other.is_none()),
            sources: job
                .sources
                .iter()
                .take(NAMED)
                .map(|name| short(name))
                .collect(),
            sources_more: job.sources.len().saturating_sub(NAMED),
            destination: (!job.destination.is_empty()).then(|| short(&job.destination)),
            encrypted: job.encrypt,
            dry_run: job.dry_run,
            bytes: 0,
            files: 0,
            removed: 0,
            elapsed_s: None,
            digest_sum: None,
            digests_sha256: None,
            record,
        };
        let log = Log::of_this_host();
        Self { line, log }
    }

    /// Writes the first line, if the policy requires a log.
    ///
    /// # Errors
    /// When no log takes it.
    pub fn begin(&self, policy: &Policy) -> Result<(), Error> {
        if !policy.audit_required {
            return Ok(());
        }
        let written = write(&self.log, &self.line);
        written.map_err(|error| unlogged(policy, &error, "nothing is copied"))
    }

    /// Logs the outcome, with the reason if it is not complete. `policy` is absent if it could not be read. `digests`
    /// is the file of digests that the record names.
    ///
    /// # Errors
    /// When the policy requires a log, and no log takes the line.
    pub fn end(
        &self,
        policy: Option<&Policy>,
        outcome: Outcome,
        error: Option<&str>,
        account: &Account,
        elapsed_s: f64,
        digests: Option<&Path>,
    ) -> Result<(), Error> {
        let line = self.ended(outcome, error, account, elapsed_s, digests);
        match (write(&self.log, &line), policy) {
            (Err(problem), Some(policy)) if policy.audit_required => {
                Err(unlogged(policy, &problem, "what was copied is there"))
            }
            _ => Ok(()),
        }
    }

    /// The text of the line that a far end writes into the log.
    ///
    /// # Errors
    /// Errors of the JSON library, which do not happen.
    #[doc(hidden)]
    pub fn said(
        &self,
        outcome: Outcome,
        error: Option<&str>,
        account: &Account,
    ) -> io::Result<String> {
        text(&self.ended(outcome, error, account, 0.0, None))
    }

    fn ended(
        &self,
        outcome: Outcome,
        error: Option<&str>,
        account: &Account,
        elapsed_s: f64,
        digests: Option<&Path>,
    ) -> Line {
        Line {
            outcome,
            error: error.map(|error| short(error.as_bytes())),
            bytes: account.bytes,
            files: account.files,
            removed: account.removed,
            elapsed_s: Some((elapsed_s * 1e3).round() / 1e3),
            digest_sum: account.digest_sum.as_ref().map(|sum| short(sum.as_bytes())),
            digests_sha256: digests.and_then(|file| sha256(file).ok()),
            ..self.line.clone()
        }
    }
}

fn unlogged(policy: &Policy, error: &io::Error, then: &str) -> Error {
    Error::Refused(format!(
        "no log of this host takes a line ({}), which {} requires; {then}; start journald or a syslog service",
        plain(error),
        policy.by("audit")
    ))
}

fn write(log: &Log, line: &Line) -> io::Result<()> {
    let severity = match line.outcome {
        Outcome::Begun | Outcome::Complete => INFO,
        _ => NOTICE,
    };
    let outcome = serde_json::to_string(&line.outcome)?;
    let (user, bytes) = (line.uid.to_string(), line.bytes.to_string());
    let mut fields = vec![
        ("HOWDAH_OUTCOME", outcome.trim_matches('"')),
        ("HOWDAH_USER", line.user.as_ref().unwrap_or(&user)),
        ("HOWDAH_BYTES", &bytes),
    ];
    fields.extend(line.peer.as_deref().map(|peer| ("HOWDAH_PEER", peer)));
    fields.extend(line.record.as_deref().map(|id| ("HOWDAH_RECORD", id)));
    log.write(&text(line)?, severity, &fields)
}

fn text(line: &Line) -> io::Result<String> {
    Ok(format!("copy {}", serde_json::to_string(line)?))
}

fn short(name: &[u8]) -> String {
    printable_within(name, NAME_BYTES_MAX)
}

/// The digest of a file, as sha256sum prints it.
fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut context, mut buffer) = (Context::new(&SHA256), vec![0; 1 << 18]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            length => context.update(&buffer[..length]),
        }
    }
    let digits = |byte: &u8| format!("{byte:02x}");
    Ok(context.finish().as_ref().iter().map(digits).collect())
}

#[cfg(test)]
mod tests;
