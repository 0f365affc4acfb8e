//! Two far ends in this process, and the session that starts a copy between them.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use howdah_transfer::{FarEnd, Reach, Session, Site, TransferError};
use serde_json::{Value, json};

use crate::ends::content;

/// Far longer than anything here takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
pub(super) const HERE: &str = "127.0.0.1";

/// A far end and the session with it.
pub(super) struct Far {
    pub(super) session: Session,
    pub(super) port: u16,
    pub(super) ends: JoinHandle<Result<(), TransferError>>,
}

impl Far {
    pub(super) fn new(reach: Reach) -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        let read = OwnedFd::from(far.try_clone().unwrap());
        let ends = thread::spawn(move || {
            FarEnd::prepare(Site::default())?.serve(read, far.into(), &reach)
        });
        let (session, port) = greeted(near);
        Self {
            session,
            port,
            ends,
        }
    }

    /// What comes of trying a port from there.
    pub(super) fn tries(&self, port: u16) -> Value {
        self.session
            .try_port(vec![HERE.parse().unwrap()], port)
            .unwrap();
        let tried = self.session.port_tried(PATIENCE).unwrap().unwrap();
        serde_json::from_slice(&tried).unwrap()
    }
}

pub(super) fn greeted(near: UnixStream) -> (Session, u16) {
    let session = Session::new(near.try_clone().unwrap().into(), near.into()).unwrap();
    let hello = session.hello(PATIENCE).unwrap().unwrap();
    let hello: Value = serde_json::from_slice(&hello).unwrap();
    (session, hello["port"].as_u64().unwrap().try_into().unwrap())
}

pub fn between(mut job: Value, connects: &str) -> Value {
    job["between"] = json!({
        "sender": "one", "receiver": "two", "connects": connects, "to": [HERE], "from": HERE,
    });
    job
}

pub(super) fn start(
    sender: &Session,
    receiver: &Session,
    job: &Value,
) -> Result<(), TransferError> {
    let plan = json!({"streams": 3, "block_bytes": 1 << 20});
    let plan = plan.to_string();
    sender.start_between(receiver, job.to_string().as_bytes(), plan.as_bytes())
}

/// Carries a job out; the outcome, or the error as its user sees it.
pub(super) fn run_with(job: &Value, reaches: [Reach; 2]) -> Result<Value, String> {
    let [sender, receiver] = reaches.map(Far::new);
    start(&sender.session, &receiver.session, job).unwrap();
    assert!(sender.session.wait(PATIENCE), "the transfer hangs");
    let result = sender.session.result();
    for far in [sender.ends, receiver.ends] {
        let ended = far.join().unwrap();
        assert!(ended.is_ok() || result.is_err(), "{ended:?}");
    }
    let outcome = result.map_err(|error| error.to_string())?;
    Ok(serde_json::from_slice(&outcome).unwrap())
}

pub fn run(job: &Value) -> Result<Value, String> {
    run_with(job, Default::default())
}

/// A folder with a tree `src` in it: 52 files, one of them big, 2 folders and a link.
pub(super) fn base() -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    let src = base.path().join("src");
    fs::create_dir_all(src.join("sub/empty")).unwrap();
    for number in 0..50 {
        fs::write(src.join(format!("sub/{number}")), content(number * 1000)).unwrap();
    }
    fs::write(src.join("big"), content(9_000_000)).unwrap();
    fs::write(src.join("a\nb"), "x").unwrap();
    std::os::unix::fs::symlink("big", src.join("link")).unwrap();
    base
}
