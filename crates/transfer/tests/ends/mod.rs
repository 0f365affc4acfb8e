//! Runs both ends of a transfer in this process.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use howdah_transfer::{FarEnd, Reach, Session, Site, TransferError};
use serde_json::{Value, json};

/// Far longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session and its far end.
pub struct Ends {
    pub session: Session,
    far: JoinHandle<Result<(), TransferError>>,
}

impl Ends {
    /// Starts a job by a plan of four streams, changed by what `plan` says.
    pub fn start(job: &Value, plan: &Value) -> Self {
        Self::start_with(job, plan, |_| ())
    }

    /// The same; `greeted` is told the far end's port before anything connects to it.
    pub fn start_with(job: &Value, plan: &Value, greeted: impl FnOnce(u16)) -> Self {
        Self::try_start(None, job, plan, Reach::default(), || (), greeted).unwrap()
    }

    /// Starts a job that goes on from a session that has ended because its far end was lost.
    #[allow(dead_code, reason = "most tests begin with their first session")]
    pub fn go_on(lost: &Session, job: &Value, plan: &Value) -> Self {
        Self::try_start(Some(lost), job, plan, Reach::default(), || (), |_| ()).unwrap()
    }

    /// The same with a far end whose thread does something first.
    #[allow(dead_code, reason = "most tests have a far end like the near one")]
    pub fn start_elsewhere(go: impl FnOnce() + Send + 'static, job: &Value, plan: &Value) -> Self {
        Self::try_start(None, job, plan, Reach::default(), go, |_| ()).unwrap()
    }

    /// The same with a far end at which a near end reaches not all.
    #[allow(dead_code, reason = "most tests have a far end that reaches all")]
    pub fn start_within(reach: Reach, job: &Value, plan: &Value) -> Self {
        Self::try_start(None, job, plan, reach, || (), |_| ()).unwrap()
    }

    /// Why a job is refused before the far end gets it.
    pub fn refused(job: &Value) -> String {
        let started = Self::try_start(None, job, &json!({}), Reach::default(), || (), |_| ());
        started.err().expect("it is refused").to_string()
    }

    fn try_start(
        lost: Option<&Session>,
        job: &Value,
        plan: &Value,
        reach: Reach,
        first: impl FnOnce() + Send + 'static,
        greeted: impl FnOnce(u16),
    ) -> Result<Self, TransferError> {
        let (near, far) = UnixStream::pair().unwrap();
        let read = OwnedFd::from(far.try_clone().unwrap());
        let far = thread::spawn(move || {
            first();
            FarEnd::prepare(Site::default())?.serve(read, far.into(), &reach)
        });
        let session = Session::new(near.try_clone().unwrap().into(), near.into()).unwrap();
        let hello = session.hello(PATIENCE).unwrap().unwrap();
        let hello: Value = serde_json::from_slice(&hello).unwrap();
        greeted(hello["port"].as_u64().unwrap().try_into().unwrap());
        let mut whole = json!({"streams": 4, "block_bytes": 1 << 20});
        for (key, value) in plan.as_object().unwrap() {
            whole[key] = value.clone();
        }
        session.start_after(
            lost,
            job.to_string().as_bytes(),
            whole.to_string().as_bytes(),
        )?;
        Ok(Self { session, far })
    }

    /// Waits for both ends; the outcome, or the error as its user sees it.
    pub fn result(self) -> Result<Value, String> {
        assert!(self.session.wait(PATIENCE), "the transfer hangs");
        let result = self.session.result();
        let far = self.far.join().unwrap();
        assert!(far.is_ok() || result.is_err(), "{far:?}");
        let outcome = result.map_err(|error| error.to_string())?;
        Ok(serde_json::from_slice(&outcome).unwrap())
    }

    /// Asks for a change and waits for what comes of it.
    pub fn steer(&self, steering: &Value) -> Value {
        let why = steering["why"].clone();
        self.session.steer(steering.to_string().as_bytes()).unwrap();
        self.wait_until(|progress| progress["latest"]["why"] == why);
        self.progress()["latest"].clone()
    }

    /// Payload verified so far.
    pub fn bytes(&self) -> u64 {
        self.progress()["bytes_done"].as_u64().unwrap()
    }

    fn progress(&self) -> Value {
        serde_json::from_slice(&self.session.progress()).unwrap()
    }

    /// Waits until that much payload has been verified.
    pub fn wait_for_bytes(&self, bytes: u64) {
        self.wait_until(|progress| progress["bytes_done"].as_u64().unwrap() >= bytes);
    }

    /// Waits until the progress is as it should be.
    pub fn wait_until(&self, reached: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let progress = self.progress();
            if reached(&progress) {
                return;
            }
            assert!(Instant::now() < deadline, "{progress}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn run_with(job: &Value, plan: &Value) -> Result<Value, String> {
        Self::start(job, plan).result()
    }

    pub fn run(job: &Value) -> Result<Value, String> {
        Self::run_with(job, &json!({}))
    }
}

pub fn job(direction: &str, sources: &[&Path], destination: &Path) -> Value {
    let encode = |path: &Path| STANDARD.encode(path.as_os_str().as_bytes());
    json!({
        "direction": direction,
        "sources": sources.iter().map(|path| encode(path)).collect::<Vec<_>>(),
        "destination": encode(destination),
        "destination_is_folder": false,
        "memory_bytes": null,
        "dry_run": false,
        "encrypt": true,
        "data_address": "127.0.0.1",
        "digests": null,
        "sample_every_s": 0.1,
    })
}

pub fn push(sources: &[&Path], destination: &Path) -> Value {
    job("push", sources, destination)
}

pub fn pull(sources: &[&Path], destination: &Path) -> Value {
    job("pull", sources, destination)
}

/// The lines of a file of digests, as name and digest.
pub fn digests(file: &Path) -> Vec<(PathBuf, String)> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| line.split_once("  ").unwrap());
    lines
        .map(|(hex, name)| (name.into(), hex.to_owned()))
        .collect()
}

/// Has the digests of a job kept in a file.
pub fn keep_digests(job: &mut Value, file: &Path) {
    job["digests"] = json!(STANDARD.encode(file.as_os_str().as_bytes()));
}

/// A path out of JSON.
pub fn path(value: &Value) -> PathBuf {
    OsString::from_vec(STANDARD.decode(value.as_str().unwrap()).unwrap()).into()
}

pub fn content(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new()
        .update(&len.to_le_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}

/// Everything below a folder: path, mode, modification time, content or target.
pub fn listing(root: &Path) -> Vec<(PathBuf, u32, i64, i64, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if meta.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_vec()
            } else {
                fs::read(&path).unwrap()
            };
            let path = path.strip_prefix(root).unwrap().to_owned();
            found.push((path, meta.mode(), meta.mtime(), meta.mtime_nsec(), content));
        }
    }
    found.sort();
    found
}
