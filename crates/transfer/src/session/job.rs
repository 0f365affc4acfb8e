//! The job of a session, as JSON from its user.

use std::ffi::OsStr;
use std::fs::File;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use howdah_filter::Filters;
use howdah_wire::limits::{
    MAX_MEMORY_NS, MAX_PATIENCE_NS, MAX_SAMPLE_NS, MAX_SOURCES, MAX_STREAMS, MIN_SAMPLE_NS,
};
use howdah_wire::{
    Delete, Direction, Job, Keep, Limit, Memory, Message, Skip, StreamPlan, Walk, encode,
};
use serde::Deserialize;

use crate::error::{TransferError, plain};
use crate::session::report::Base64;
use crate::tree::names::NamesFile;

#[derive(Deserialize)]
struct JobJson {
    direction: Direction,
    sources: Vec<Base64>,
    destination: Base64,
    destination_is_folder: bool,
    #[serde(default)]
    filters: Vec<Base64>,
    names: Option<Base64>,
    #[serde(default)]
    names_nul_separated: bool,
    #[serde(default)]
    walk: Walk,
    #[serde(default)]
    skip: Skip,
    #[serde(default)]
    keep: Keep,
    #[serde(default)]
    delete: bool,
    #[serde(default)]
    delete_excluded: bool,
    max_delete: Option<u64>,
    memory_bytes: Option<u64>,
    memory_s: Option<f64>,
    pipe: Option<RawFd>,
    dry_run: bool,
    encrypt: bool,
    #[serde(default = "yes")]
    sync: bool,
    data_address: Option<String>,
    detour_port: Option<u16>,
    near_ports: Option<(u16, u16)>,
    digests: Option<Base64>,
    sample_every_s: f64,
    #[serde(default = "usual_patience_s")]
    patience_s: f64,
    between: Option<Between>,
    #[serde(default)]
    limit: LimitJson,
}

/// The settings of a copy between two far ends.
#[derive(Debug, Clone, Deserialize)]
pub struct Between {
    /// The user's name of the sending host.
    pub sender: String,
    /// The user's name of the receiving host.
    pub receiver: String,
    /// Which far end connects to the other.
    pub connects: Connects,
    /// The addresses that it connects to.
    pub to: Vec<IpAddr>,
    /// The address that it connects from.
    pub from: IpAddr,
}

/// Which of two far ends connects to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connects {
    /// The one that sends.
    Sender,
    /// The one that receives.
    Receiver,
}

fn yes() -> bool {
    true
}

/// What is waited for a path that is out unless the user says otherwise: five minutes.
fn usual_patience_s() -> f64 {
    300.0
}

/// A job as Python gives it.
pub struct Asked {
    /// What both ends carry out.
    pub job: Job,
    /// The address to which data streams connect.
    pub data_address: Option<String>,
    /// The port on this host's loopback that forwards to the far end's port, for the detour.
    pub detour_port: Option<u16>,
    /// The ports from which this end opens one, if the far end has to connect. If absent, the kernel chooses a port.
    pub near_ports: Option<RangeInclusive<u16>>,
    /// The file for the digests.
    pub digests: Option<Vec<u8>>,
    /// The list of what is moved.
    pub names: Option<NamesPath>,
    /// The two far ends, if this host is a third one.
    pub between: Option<Between>,
    /// The pipe that the near end reads from or writes to in place of files.
    pub pipe: Option<OwnedFd>,
}

/// Where a list of names is.
pub struct NamesPath {
    path: Vec<u8>,
    nul_separated: bool,
}

impl NamesPath {
    /// Opens it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(&self) -> Result<NamesFile, TransferError> {
        let file = File::open(OsStr::from_bytes(&self.path));
        let file = file.map_err(|error| TransferError::path("read", &self.path, error))?;
        Ok(NamesFile::new(file, self.nul_separated))
    }
}

#[derive(Default, Deserialize)]
struct LimitJson {
    most_bps: Option<u64>,
    #[serde(default)]
    paused: bool,
}

impl LimitJson {
    fn checked(self) -> Result<Limit, TransferError> {
        let Self { most_bps, paused } = self;
        let limit = Limit { most_bps, paused };
        let wrong = |what| TransferError::Here(format!("cannot limit the transfer: {what}"));
        limit.check().map_err(wrong)?;
        Ok(limit)
    }
}

/// Reads a Limit.
///
/// # Errors
/// When it is not a limit, or allows nothing to be sent.
pub fn limit(json: &[u8]) -> Result<Limit, TransferError> {
    let wrong = |error| TransferError::Here(format!("limit: {error}"));
    let limit: LimitJson = serde_json::from_slice(json).map_err(wrong)?;
    limit.checked()
}

#[derive(Deserialize)]
struct PlanJson {
    congestion_control: Option<String>,
    streams: u16,
    buffer_bytes: Option<u64>,
    pacing_bps: Option<u64>,
    block_bytes: u64,
}

/// Reads a Job and a Plan.
///
/// # Errors
/// When one of them is not valid.
pub fn read(job: &[u8], plan: &[u8]) -> Result<Asked, TransferError> {
    let wrong =
        |what: &str, error: serde_json::Error| TransferError::Here(format!("{what}: {error}"));
    let job: JobJson = serde_json::from_slice(job).map_err(|error| wrong("job", error))?;
    let plan: PlanJson = serde_json::from_slice(plan).map_err(|error| wrong("plan", error))?;
    let plan = StreamPlan {
        congestion_control: plan.congestion_control,
        streams: plan.streams,
        buffer_bytes: plan.buffer_bytes,
        pacing_bps: plan.pacing_bps,
        block_bytes: plan.block_bytes,
    };
    let memory = match (job.memory_bytes, job.memory_s) {
        (Some(_), Some(_)) => {
            return Err(TransferError::Here(
                "memory to memory takes a size or a time, not both".to_owned(),
            ));
        }
        (Some(bytes), None) => Some(Memory::Bytes(bytes)),
        (None, Some(seconds)) => Some(Memory::Time(nanoseconds(seconds)?)),
        (None, None) => None,
    };
    let wire = Job {
        direction: job.direction,
        sources: job.sources.into_iter().map(|path| path.0).collect(),
        destination: job.destination.0,
        destination_is_folder: job.destination_is_folder,
        filters: filters(job.filters)?,
        named: job.names.is_some(),
        walk: job.walk,
        skip: job.skip,
        keep: job.keep,
        delete: job.delete.then_some(Delete {
            excluded: job.delete_excluded,
            most: job.max_delete,
        }),
        memory,
        pipe: job.pipe.is_some(),
        dry_run: job.dry_run,
        encrypt: job.encrypt,
        sync: job.sync,
        fresh: false,
        sample_every_ns: nanoseconds(job.sample_every_s)?,
        patience_ns: nanoseconds(job.patience_s)?,
        limit: job.limit.checked()?,
        plan,
        peer: None,
        tells_digests: false,
    };
    Ok(Asked {
        job: wire,
        data_address: job.data_address,
        detour_port: job.detour_port,
        near_ports: job.near_ports.map(|(first, last)| first..=last),
        digests: job.digests.map(|path| path.0),
        names: job.names.map(|path| NamesPath {
            path: path.0,
            nul_separated: job.names_nul_separated,
        }),
        between: job.between,
        pipe: job.pipe.map(pipe_of).transpose()?,
    })
}

/// A descriptor of this process, as one of our own: its owner may close it meanwhile.
fn pipe_of(descriptor: RawFd) -> Result<OwnedFd, TransferError> {
    let closed =
        |why: &str| TransferError::Here(format!("descriptor {descriptor} is no pipe: {why}"));
    if descriptor < 0 {
        return Err(closed("it is negative"));
    }
    // SAFETY: the descriptor is borrowed for one call alone, which fails with EBADF where it is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let own = rustix::io::fcntl_dupfd_cloexec(borrowed, 3);
    own.map_err(|error| closed(&plain(&error.into())))
}

fn filters(rules: Vec<Base64>) -> Result<Filters, TransferError> {
    let rules: Vec<_> = rules.into_iter().map(|rule| rule.0).collect();
    Filters::try_from(rules).map_err(|error| TransferError::Here(error.to_string()))
}

fn nanoseconds(seconds: f64) -> Result<u64, TransferError> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .and_then(|time| u64::try_from(time.as_nanos()).ok())
        .ok_or_else(|| TransferError::Here(format!("{seconds} s is no time")))
}

/// Refuses a job that every far end would refuse.
///
/// # Errors
/// Why.
pub fn check(job: &Job) -> Result<(), TransferError> {
    let streams = usize::from(job.plan.streams);
    if streams == 0 || streams > MAX_STREAMS {
        return Err(TransferError::Here(format!(
            "{streams} streams: use 1 to {MAX_STREAMS}"
        )));
    }
    let sources = job.sources.len();
    // A job that no frame holds would never arrive.
    if sources > MAX_SOURCES || encode(&Message::Job(Box::new(job.clone()))).is_err() {
        return Err(TransferError::Here(format!(
            "{sources} sources are too many for one copy; name up to {MAX_SOURCES}, or a folder \
             they are in"
        )));
    }
    if job.memory.is_none() && job.sources.is_empty() {
        return Err(TransferError::Here("no source to copy".to_owned()));
    }
    if job.memory.is_some() && (job.dry_run || !job.sources.is_empty()) {
        return Err(TransferError::Here(
            "memory to memory moves no files".to_owned(),
        ));
    }
    let alone = sources == 1 && !job.named && job.memory.is_none() && job.delete.is_none();
    if job.pipe && (!alone || job.dry_run) {
        return Err(TransferError::Here(
            "a pipe takes or gives one file, once, and beside it nothing is copied".to_owned(),
        ));
    }
    if let Some(Memory::Time(ns)) = job.memory
        && !(1..=MAX_MEMORY_NS).contains(&ns)
    {
        return Err(TransferError::Here(format!(
            "memory to memory for {} s: use more than 0 and at most {} s",
            seconds(ns),
            seconds(MAX_MEMORY_NS)
        )));
    }
    if !(MIN_SAMPLE_NS..=MAX_SAMPLE_NS).contains(&job.sample_every_ns) {
        return Err(TransferError::Here(format!(
            "a sample every {} s: use {} to {} s",
            seconds(job.sample_every_ns),
            seconds(MIN_SAMPLE_NS),
            seconds(MAX_SAMPLE_NS)
        )));
    }
    if job.patience_ns > MAX_PATIENCE_NS {
        return Err(TransferError::Here(format!(
            "patience for {} s: use 0 to {} s",
            seconds(job.patience_ns),
            seconds(MAX_PATIENCE_NS)
        )));
    }
    Ok(())
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}
