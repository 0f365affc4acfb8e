//! The line that a copy leaves in the log of this host; docs/policy.md describes it. The twin of
//! `python/howdah/site/audit.py`.

use std::io;

use howdah_wire::printable_within;
use serde::Serialize;

use crate::log;
use crate::overseer::{Account, Job};
use crate::policy::Policy;
use crate::user;

const SCHEMA: u8 = 1;
/// How many sources a line names.
const NAMED: usize = 6;
const NAME_BYTES_MAX: usize = 300;
const NOTICE: u8 = 5;
const INFO: u8 = 6;

/// What a line says of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It may begin.
    Begun,
    /// All has arrived.
    Complete,
    /// The policy of this host did not allow it, or not to go on.
    Refused,
    /// It ended early.
    Failed,
    /// The near end stopped it.
    Interrupted,
}

#[derive(Debug, Clone, Serialize)]
struct Line {
    schema: u8,
    end: &'static str,
    outcome: Outcome,
    error: Option<String>,
    uid: u32,
    user: Option<String>,
    peer: Option<String>,
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

/// What is said of one copy, from its begin to its outcome.
pub struct Copy {
    line: Line,
}

impl Copy {
    /// A copy that a near end asks for, whose ssh came from `peer`.
    pub fn new(job: &Job, peer: Option<&str>) -> Self {
        let number = rustix::process::getuid().as_raw();
        let short = |name: &[u8]| printable_within(name, NAME_BYTES_MAX);
        Self {
            line: Line {
                schema: SCHEMA,
                end: "far",
                outcome: Outcome::Begun,
                error: None,
                uid: number,
                user: user::of(number).map(|user| short(user.name.as_bytes())),
                peer: peer.map(|peer| short(peer.as_bytes())),
                sends: job.sends(),
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
                record: None,
            },
        }
    }

    /// Shows that the log takes lines, where the policy requires it.
    ///
    /// # Errors
    /// When none does.
    pub fn begin(&self, policy: &Policy) -> Result<(), String> {
        if !policy.audit_required {
            return Ok(());
        }
        write(&self.line).map_err(|error| unlogged(policy, &error, "nothing is copied"))
    }

    /// Logs the outcome. There is no policy where it could not be read.
    ///
    /// # Errors
    /// When the policy requires a log and none takes the line.
    pub fn end(
        &self,
        policy: Option<&Policy>,
        outcome: Outcome,
        error: Option<&str>,
        account: &Account,
        elapsed_s: f64,
    ) -> Result<(), String> {
        let line = Line {
            outcome,
            error: error.map(|error| printable_within(error.as_bytes(), NAME_BYTES_MAX)),
            bytes: account.bytes,
            files: account.files,
            removed: account.removed,
            elapsed_s: Some((elapsed_s * 1e3).round() / 1e3),
            digest_sum: account.digest_sum.clone(),
            ..self.line.clone()
        };
        match (write(&line), policy) {
            (Err(problem), Some(policy)) if policy.audit_required => {
                Err(unlogged(policy, &problem, "what was copied is there"))
            }
            _ => Ok(()),
        }
    }
}

fn unlogged(policy: &Policy, error: &io::Error, then: &str) -> String {
    format!(
        "no log of this host takes a line ({}), which {} requires; {then}; start journald or a syslog service",
        crate::policy::plain(error),
        policy.by("audit")
    )
}

fn write(line: &Line) -> io::Result<()> {
    let severity = match line.outcome {
        Outcome::Begun | Outcome::Complete => INFO,
        _ => NOTICE,
    };
    let json = serde_json::to_string(line).map_err(io::Error::other)?;
    let outcome = serde_json::to_value(line.outcome).map_err(io::Error::other)?;
    let user = line.user.clone().unwrap_or_else(|| line.uid.to_string());
    let mut fields = vec![
        (
            "HOWDAH_OUTCOME",
            outcome.as_str().unwrap_or_default().to_owned(),
        ),
        ("HOWDAH_USER", user),
        ("HOWDAH_BYTES", line.bytes.to_string()),
    ];
    fields.extend(line.peer.clone().map(|peer| ("HOWDAH_PEER", peer)));
    log::write(&format!("copy {json}"), severity, &fields)
}
