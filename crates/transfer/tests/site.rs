//! A far end whose site has a say: it refuses a job, ends a copy on its way, and is told what has moved.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use howdah_transfer::{FarEnd, Overseer, Reach, Session, Site};
use serde_json::{Value, json};

/// Far longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Admits jobs of at most so many bytes, and notes what it is told.
#[derive(Default)]
struct Limit {
    refuses: bool,
    most: Option<u64>,
    asked: Mutex<Vec<(u64, u64)>>,
    jobs: Mutex<Vec<Value>>,
    accounts: Mutex<Vec<Value>>,
}

impl Overseer for Limit {
    fn accept(&self, job: &[u8]) -> Result<(), String> {
        self.jobs
            .lock()
            .unwrap()
            .push(serde_json::from_slice(job).unwrap());
        if self.refuses {
            return Err("not on this host; ask its administrator".to_owned());
        }
        Ok(())
    }

    fn moved(&self, moved: u64, known: u64) -> Result<(), String> {
        assert!(moved <= known);
        self.asked.lock().unwrap().push((moved, known));
        match self.most {
            Some(most) if known > most => Err(format!("more than {most} bytes")),
            _ => Ok(()),
        }
    }

    fn ended(&self, account: &[u8]) -> Result<(), String> {
        self.accounts
            .lock()
            .unwrap()
            .push(serde_json::from_slice(account).unwrap());
        Ok(())
    }
}

/// Runs a job at both ends; what its user sees, and what the site was told.
fn run(job: &Value, limit: Limit) -> (Result<Value, String>, Arc<Limit>) {
    let limit = Arc::new(limit);
    let site = Site {
        ports: Some(46_230..=46_269),
        ahead: 0,
        overseer: Some(limit.clone()),
    };
    let (near, far) = UnixStream::pair().unwrap();
    let read = far.try_clone().unwrap();
    let far = thread::spawn(move || {
        FarEnd::prepare(site)?.serve(read.into(), far.into(), &Reach::default())
    });
    let session = Session::new(near.try_clone().unwrap().into(), near.into()).unwrap();
    let hello = session.hello(PATIENCE).unwrap().unwrap();
    let hello: Value = serde_json::from_slice(&hello).unwrap();
    let port = hello["port"].as_u64().unwrap();
    assert!((46_230..=46_269).contains(&port), "{port}");
    let plan = json!({"streams": 2, "block_bytes": 1 << 20, "pacing_bps": 200_000_000});
    session
        .start(job.to_string().as_bytes(), plan.to_string().as_bytes())
        .unwrap();
    assert!(session.wait(PATIENCE), "the transfer hangs");
    let result = session
        .result()
        .map(|outcome| serde_json::from_slice(&outcome).unwrap())
        .map_err(|error| error.to_string());
    let far = far.join().unwrap();
    assert_eq!(far.is_ok(), result.is_ok(), "{far:?}");
    (result, limit)
}

fn job(direction: &str, source: &Path, destination: &Path) -> Value {
    let encode = |path: &Path| STANDARD.encode(path.to_str().unwrap());
    json!({
        "direction": direction,
        "sources": [encode(source)],
        "destination": encode(destination),
        "destination_is_folder": false,
        "dry_run": false,
        "encrypt": true,
        "data_address": "127.0.0.1",
        "sample_every_s": 0.1,
    })
}

/// A folder with a source of `bytes` in it.
fn folder(bytes: usize) -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir(base.path().join("src")).unwrap();
    fs::write(base.path().join("src/file"), vec![7; bytes]).unwrap();
    base
}

#[test]
fn a_job_that_is_refused_opens_and_makes_nothing() {
    for direction in ["push", "pull"] {
        let base = folder(1000);
        let (src, dst) = (base.path().join("src/file"), base.path().join("dst"));
        let refuses = Limit {
            refuses: true,
            ..Limit::default()
        };
        let (result, limit) = run(&job(direction, &src, &dst), refuses);
        let said = result.unwrap_err();
        assert_eq!(said, "far end: not on this host; ask its administrator");
        assert!(!dst.exists());
        let jobs = limit.jobs.lock().unwrap();
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0]["encrypt"], true);
        assert_eq!(jobs[0]["direction"], direction);
        assert!(limit.accounts.lock().unwrap().is_empty(), "it never began");
    }
}

#[test]
fn what_has_moved_is_told_at_the_end() {
    for direction in ["push", "pull"] {
        let base = folder(3_000_000);
        let (src, dst) = (base.path().join("src"), base.path().join("dst"));
        let (result, limit) = run(&job(direction, &src, &dst), Limit::default());
        let sum = result.unwrap()["digest_sum"].clone();
        assert_eq!(sum.as_str().map(str::len), Some(64), "as many digits");
        let accounts = limit.accounts.lock().unwrap();
        let expected = json!([{
            "bytes": 3_000_000, "files": 1, "removed": 0, "digest_sum": sum, "error": null, "cancelled": false,
        }]);
        assert_eq!(Value::from(accounts.clone()), expected);
    }
}

#[test]
fn a_copy_that_is_too_big_is_ended_on_its_way() {
    for direction in ["push", "pull"] {
        let base = folder(64_000_000);
        let (src, dst) = (base.path().join("src"), base.path().join("dst"));
        let limit = Limit {
            most: Some(10_000_000),
            ..Limit::default()
        };
        let (result, limit) = run(&job(direction, &src, &dst), limit);
        assert_eq!(
            result.unwrap_err(),
            "far end: more than 10000000 bytes",
            "{direction}"
        );
        assert!(!dst.join("file").exists());
        let account = &limit.accounts.lock().unwrap()[0];
        assert_eq!(account["error"], "more than 10000000 bytes");
        // A receiver knows all sizes before half of it is there, a sender counts what has arrived.
        let (moved, known) = *limit.asked.lock().unwrap().last().unwrap();
        if direction == "push" {
            assert!(known == 64_000_000 && moved < 32_000_000, "{moved} {known}");
        } else {
            assert!(moved == known && moved < 32_000_000, "{moved} {known}");
        }
    }
}

#[test]
fn what_is_there_already_counts_for_nothing() {
    let base = folder(20_000_000);
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let push = job("push", &src, &dst);
    run(&push, Limit::default()).0.unwrap();
    fs::write(base.path().join("src/new"), vec![8; 4_000_000]).unwrap();
    let again = Limit {
        most: Some(10_000_000),
        ..Limit::default()
    };
    // Into the folder that is there, by its name.
    fs::rename(&dst, base.path().join("into")).unwrap();
    let into = base.path().join("into");
    let contents = job("push", &src.join("."), &into);
    let (result, limit) = run(&contents, again);
    result.unwrap();
    assert_eq!(limit.accounts.lock().unwrap()[0]["bytes"], 4_000_000);
}
