//! The line that each copy leaves in the log of this host, at either end: who, where, what, and the outcome.
//!
//! A line is JSON without control characters and fits a message of rsyslog (8 KiB by default), however many and
//! long the names are. Where no log takes it, a copy goes on unless the policy requires one. Then a first line
//! before the copy shows that the log takes it, and is what remains of a process that is killed.

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

/// The end of a copy that this host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// Where the copy was started.
    Near,
    /// The other one.
    Far,
}

/// What a line says of a copy.
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

/// What is said of one copy, from its begin to its outcome.
pub struct Copy {
    line: Line,
    log: Log,
}

impl Copy {
    /// A copy whose other end is `peer`: the host as ssh was told, or at the far end the address of the ssh client.
    /// A near end keeps a record of it, which has an id.
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

    /// Shows that the log takes lines, where the policy requires it.
    ///
    /// # Errors
    /// When none does.
    pub fn begin(&self, policy: &Policy) -> Result<(), Error> {
        if !policy.audit_required {
            return Ok(());
        }
        let written = write(&self.log, &self.line);
        written.map_err(|error| unlogged(policy, &error, "nothing is copied"))
    }

    /// Logs the outcome, with why it is not a better one. There is no policy where it could not be read; `digests` is
    /// the file of digests that the record names.
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

    /// The text of the line that a far end's log would be given.
    ///
    /// # Errors
    /// As of what makes the JSON; there is none.
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
mod tests {
    use super::*;
    use crate::Places;
    use serde_json::{Value, json};
    use std::fs;
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    /// A host with a log of its own, which takes nothing yet.
    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn listens(&self, name: &str) -> UnixDatagram {
            let log = UnixDatagram::bind(self.0.path().join(name)).unwrap();
            log.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            log
        }

        fn copy(&self, end: End, job: Value, peer: &[u8]) -> Copy {
            let job = serde_json::from_value(job).unwrap();
            let record = (end == End::Near).then(|| "20260501T000000-abcd".to_owned());
            Copy {
                log: Log {
                    journal: self.0.path().join("journal"),
                    syslog: self.0.path().join("log"),
                },
                ..Copy::new(end, &job, Some(peer), record)
            }
        }

        fn policy(&self, required: bool) -> Policy {
            let mut policy = Policy::in_force(Places::below(self.0.path())).unwrap();
            policy.audit_required = required;
            policy
        }
    }

    fn next(log: &UnixDatagram) -> String {
        let mut datagram = vec![0; 1 << 16];
        let length = log.recv(&mut datagram).unwrap();
        datagram.truncate(length);
        String::from_utf8(datagram).unwrap()
    }

    fn of(line: &str) -> Value {
        serde_json::from_str(line.strip_prefix("copy ").unwrap()).unwrap()
    }

    fn fields(datagram: &str) -> serde_json::Map<String, Value> {
        let field = |line: &str| {
            let (key, value) = line.split_once('=').unwrap();
            assert!(
                key.bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte == b'_'),
                "{line}"
            );
            (key.to_owned(), value.into())
        };
        datagram.lines().map(field).collect()
    }

    /// `/data/run42` to `/archive`.
    fn job() -> Value {
        json!({"direction": "push", "sources": ["L2RhdGEvcnVuNDI="], "destination": "L2FyY2hpdmU=",
            "from_memory": false, "dry_run": false, "encrypt": true})
    }

    fn moved(bytes: u64) -> Account {
        Account {
            bytes,
            files: 1,
            removed: 2,
            digest_sum: Some("ab".to_owned()),
            ..Account::default()
        }
    }

    #[test]
    fn the_journal_gets_fields_and_one_line() {
        let host = Host::new();
        let (journal, _syslog) = (host.listens("journal"), host.listens("log"));
        let digests = host.0.path().join("digests");
        fs::write(&digests, "abc").unwrap();
        let policy = host.policy(false);
        let copy = host.copy(End::Near, job(), b"me@dtn2");
        copy.end(
            Some(&policy),
            Outcome::Complete,
            None,
            &moved(5),
            1.23456,
            Some(&digests),
        )
        .unwrap();
        let mut taken = fields(&next(&journal));
        let line = of(taken.remove("MESSAGE").unwrap().as_str().unwrap());
        let number = rustix::process::getuid().as_raw();
        assert_eq!(
            Value::Object(taken),
            json!({"PRIORITY": "6", "SYSLOG_FACILITY": "10", "SYSLOG_IDENTIFIER": "howdah",
                "SYSLOG_PID": std::process::id().to_string(), "HOWDAH_OUTCOME": "complete",
                "HOWDAH_USER": line["user"], "HOWDAH_PEER": "me@dtn2", "HOWDAH_BYTES": "5",
                "HOWDAH_RECORD": "20260501T000000-abcd"})
        );
        assert_eq!(
            line,
            json!({"schema": 1, "end": "near", "outcome": "complete", "error": null, "uid": number,
                "user": howdah_accounts::user(number).unwrap().name, "peer": "me@dtn2", "sends": true, "sources": ["/data/run42"],
                "sources_more": 0, "destination": "/archive", "encrypted": true, "dry_run": false, "bytes": 5,
                "files": 1, "removed": 2, "other": null, "elapsed_s": 1.235, "digest_sum": "ab",
                // FIPS 180-4, the example of "abc".
                "digests_sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                "record": "20260501T000000-abcd"})
        );
    }

    #[test]
    fn of_a_copy_between_two_far_hosts_each_line_names_the_other_one() {
        let host = Host::new();
        let journal = host.listens("journal");
        for (end, direction, other, sends) in [
            (End::Near, "push", "dtn1", false),
            (End::Far, "push", "10.9.0.1", false),
            (End::Far, "pull", "10.9.0.2", true),
        ] {
            let mut job = job();
            job["direction"] = direction.into();
            job["other"] = other.into();
            host.copy(end, job, b"dtn2")
                .begin(&host.policy(true))
                .unwrap();
            let line = of(fields(&next(&journal))["MESSAGE"].as_str().unwrap());
            assert_eq!(
                (&line["other"], &line["sends"]),
                (&other.into(), &sends.into())
            );
        }
    }

    #[test]
    fn without_a_journal_syslog_gets_the_line() {
        let host = Host::new();
        let syslog = host.listens("log");
        let copy = host.copy(End::Far, job(), b"10.9.0.1");
        let account = Account::default();
        copy.end(
            None,
            Outcome::Failed,
            Some("no space left"),
            &account,
            0.0,
            None,
        )
        .unwrap();
        let text = next(&syslog);
        let (head, line) = text.split_once(": ").unwrap();
        let (stamp, process) = head.split_once("howdah[").unwrap();
        assert!(
            stamp.starts_with("<85>") && stamp.len() == "<85>Dec 22 00:00:00 ".len(),
            "{head}"
        );
        assert_eq!(process, format!("{}]", std::process::id()));
        let line = of(line);
        assert_eq!(
            (&line["outcome"], &line["error"]),
            (&json!("failed"), &json!("no space left"))
        );
        assert_eq!(
            (&line["end"], &line["sends"], &line["record"]),
            (&json!("far"), &json!(false), &Value::Null)
        );
    }

    #[test]
    fn names_cannot_forge_a_line_or_a_field() {
        let host = Host::new();
        let journal = host.listens("journal");
        let mut evil = job();
        // "a\nMESSAGE=forged\nHOWDAH_USER=root \x1b]52;c;AAAA\x07 \xff \u{202e} \u{2028} \u{85}"
        let name =
            "YQpNRVNTQUdFPWZvcmdlZApIT1dEQUhfVVNFUj1yb290IBtdNTI7YztBQUFBByD/IOKAriDigKggwoU=";
        (evil["sources"], evil["destination"]) = (json!([name]), json!(name));
        let copy = host.copy(End::Far, evil, b"e\nvil");
        let said = Some("it said \n\x1b[2J");
        copy.end(None, Outcome::Failed, said, &Account::default(), 0.0, None)
            .unwrap();
        let datagram = next(&journal);
        assert!(!datagram.replace('\n', "").contains(char::is_control));
        let taken = fields(&datagram);
        assert_eq!(taken["HOWDAH_PEER"], "e\\nvil");
        let line = of(taken["MESSAGE"].as_str().unwrap());
        assert!(
            line["sources"][0]
                .as_str()
                .unwrap()
                .starts_with("a\\nMESSAGE=forged")
        );
        assert_eq!(line["error"], "it said \\n\\u{1b}[2J");
    }

    #[test]
    fn a_line_fits_whatever_the_names() {
        let host = Host::new();
        let syslog = host.listens("log");
        for name in [
            "/".repeat(4000),
            "XFxc".repeat(1000),
            "4oCu".repeat(2000),
            "w6nDqcOp".repeat(1000),
        ] {
            let mut long = job();
            (long["sources"], long["destination"]) = (json!(vec![&name; 5000]), json!(name));
            let copy = host.copy(End::Far, long, &[b'h'; 4000]);
            let said = "\u{202e}".repeat(2000);
            copy.end(
                None,
                Outcome::Failed,
                Some(&said),
                &Account::default(),
                0.0,
                None,
            )
            .unwrap();
            let datagram = next(&syslog);
            assert!(datagram.len() <= 8192, "{}", datagram.len());
            let line = of(datagram.split_once(": ").unwrap().1);
            assert_eq!(
                (
                    line["sources"].as_array().unwrap().len(),
                    &line["sources_more"]
                ),
                (6, &json!(4994))
            );
        }
    }

    #[test]
    fn an_account_of_a_far_end_that_was_taken_over_fits_and_turns_nothing_around() {
        let host = Host::new();
        let syslog = host.listens("log");
        let account = Account {
            digest_sum: Some("ab\u{7f}\u{202e}".repeat(100_000)),
            ..Account::default()
        };
        host.copy(End::Far, job(), b"10.9.0.1")
            .end(None, Outcome::Complete, None, &account, 0.0, None)
            .unwrap();
        let datagram = next(&syslog);
        assert!(datagram.len() <= 8192, "{}", datagram.len());
        let line = of(datagram.split_once(": ").unwrap().1);
        let sum = line["digest_sum"].as_str().unwrap();
        assert!(sum.starts_with("ab\\u{7f}\\u{202e}ab"), "{sum}");
    }

    #[test]
    fn a_log_is_asked_before_the_copy_only_where_it_is_required() {
        let host = Host::new();
        let copy = host.copy(End::Far, job(), b"10.9.0.1");
        copy.begin(&host.policy(false)).unwrap();
        copy.end(
            Some(&host.policy(false)),
            Outcome::Complete,
            None,
            &moved(7),
            0.0,
            None,
        )
        .unwrap();
        copy.end(
            None,
            Outcome::Refused,
            Some("a broken policy"),
            &moved(0),
            0.0,
            None,
        )
        .unwrap();
        let required = host.policy(true);
        let before = copy.begin(&required).unwrap_err().to_string();
        assert!(before.starts_with(
            "no log of this host takes a line (No such file or directory), which the policy of"
        ));
        assert!(
            before.ends_with(
                ", audit) requires; nothing is copied; start journald or a syslog service"
            )
        );
        let after = copy
            .end(
                Some(&required),
                Outcome::Complete,
                None,
                &moved(7),
                0.0,
                None,
            )
            .unwrap_err();
        assert!(
            after
                .to_string()
                .contains(" requires; what was copied is there; start ")
        );
        let journal = host.listens("journal");
        copy.begin(&host.policy(false)).unwrap();
        copy.begin(&required).unwrap();
        copy.end(
            Some(&required),
            Outcome::Complete,
            None,
            &moved(7),
            0.0,
            None,
        )
        .unwrap();
        for outcome in ["begun", "complete"] {
            assert_eq!(fields(&next(&journal))["HOWDAH_OUTCOME"], outcome);
        }
    }
}
