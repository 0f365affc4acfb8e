//! What the log of a host is given of a copy, and what it does where no log takes it.

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
    let name = "YQpNRVNTQUdFPWZvcmdlZApIT1dEQUhfVVNFUj1yb290IBtdNTI7YztBQUFBByD/IOKAriDigKggwoU=";
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
        before
            .ends_with(", audit) requires; nothing is copied; start journald or a syslog service")
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
