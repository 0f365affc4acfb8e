//! What a session tells the outside, as JSON. Paths are base64 because a name need not be UTF-8.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use howdah_filter::Filters;
use howdah_wire::limits::MAX_CONTROL_BYTES;
use howdah_wire::{
    Direction, FarHello, Job, Keep, LimitedBy, Memory, Sample, StreamPlan, StreamSummary, Totals,
    printable, printable_within,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::end::abort::lock;
use crate::end::context::Board;
use crate::end::naming::Naming;
use crate::error::TransferError;
use crate::session::listing::{Beyond, Listing};
use crate::session::steer::Change;
use crate::streams::sample::Trace;
use crate::tree::names::NamesFile;

/// Bytes that are base64 in JSON.
#[derive(Debug, Clone)]
struct Base64(Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD
            .decode(text)
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

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
    keep: Keep,
    memory_bytes: Option<u64>,
    memory_s: Option<f64>,
    dry_run: bool,
    encrypt: bool,
    #[serde(default = "yes")]
    sync: bool,
    data_address: Option<String>,
    detour_port: Option<u16>,
    digests: Option<Base64>,
    sample_every_s: f64,
    #[serde(default = "usual_patience_s")]
    patience_s: f64,
}

fn yes() -> bool {
    true
}

/// What is waited for a path that is out unless the user says otherwise: five minutes.
fn usual_patience_s() -> f64 {
    300.0
}

/// A job as Python asks for it.
pub struct Asked {
    /// What both ends carry out.
    pub job: Job,
    /// The address that data streams shall go to.
    pub data_address: Option<String>,
    /// The port of this host's loopback from which a detour leads to the far end's.
    pub detour_port: Option<u16>,
    /// The file that the digests shall go to.
    pub digests: Option<Vec<u8>>,
    /// The list of what is moved.
    pub names: Option<NamesPath>,
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
/// When one of them is not what it should be.
pub fn read_job(job: &[u8], plan: &[u8]) -> Result<Asked, TransferError> {
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
        keep: job.keep,
        memory,
        dry_run: job.dry_run,
        encrypt: job.encrypt,
        sync: job.sync,
        fresh: false,
        sample_every_ns: nanoseconds(job.sample_every_s)?,
        patience_ns: nanoseconds(job.patience_s)?,
        plan,
    };
    Ok(Asked {
        job: wire,
        data_address: job.data_address,
        detour_port: job.detour_port,
        digests: job.digests.map(|path| path.0),
        names: job.names.map(|path| NamesPath {
            path: path.0,
            nul_separated: job.names_nul_separated,
        }),
    })
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

/// A job as FarJob, JSON, for those who decide whether the far end carries it out.
pub fn far_job(job: &Job) -> Vec<u8> {
    #[derive(Serialize)]
    struct Json {
        direction: Direction,
        sources: Vec<Base64>,
        destination: Base64,
        from_memory: bool,
        memory_bytes: Option<u64>,
        dry_run: bool,
        encrypt: bool,
    }
    let made = serde_json::to_vec(&Json {
        direction: job.direction,
        sources: job.sources.iter().cloned().map(Base64).collect(),
        destination: Base64(job.destination.clone()),
        from_memory: job.memory.is_some(),
        memory_bytes: match job.memory {
            Some(Memory::Bytes(bytes)) => Some(bytes),
            _ => None,
        },
        dry_run: job.dry_run,
        encrypt: job.encrypt,
    });
    made.expect("a job is JSON")
}

/// What a far end has moved as FarAccount, JSON.
pub fn far_account(
    moved: Totals,
    digest_sum: Option<String>,
    failure: Option<&TransferError>,
) -> Vec<u8> {
    #[derive(Serialize)]
    struct Json {
        bytes: u64,
        files: u64,
        digest_sum: Option<String>,
        error: Option<String>,
        cancelled: bool,
    }
    let made = serde_json::to_vec(&Json {
        bytes: moved.bytes,
        files: moved.files,
        digest_sum,
        error: failure.map(ToString::to_string),
        cancelled: failure == Some(&TransferError::Cancelled),
    });
    made.expect("an account is JSON")
}

/// FarHello as JSON.
///
/// # Errors
/// When the far end's limits are no JSON.
pub fn far_hello(hello: &FarHello) -> Result<Vec<u8>, TransferError> {
    #[derive(Serialize)]
    struct Json<'a> {
        version: &'a str,
        limits: serde_json::Value,
        addresses: &'a [String],
        port: u16,
        rtt_s: Option<f64>,
    }
    let limits = serde_json::from_slice(&hello.limits_json)
        .map_err(|error| TransferError::There(format!("its limits cannot be read: {error}")))?;
    let rtt_s = hello.rtt_ns.map(|rtt_ns| rtt_ns as f64 / 1e9);
    let json = Json {
        version: &hello.version,
        limits,
        addresses: &hello.addresses,
        port: hello.port,
        rtt_s,
    };
    Ok(to_json(&json))
}

/// What a transfer does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// No payload has moved.
    Connecting,
    /// A dry run compares.
    Scanning,
    /// Payload moves.
    Moving,
    /// All payload has arrived.
    Finishing,
    /// All is in place.
    Done,
    /// It ended early.
    Failed,
}

/// Progress as JSON. `ended` says whether the transfer has ended, and well; `elapsed` counts from
/// its start.
pub fn progress(
    board: &Board,
    job: Option<&Job>,
    ended: Option<bool>,
    elapsed: Duration,
) -> Vec<u8> {
    #[derive(Serialize)]
    struct Json<'a> {
        phase: Phase,
        elapsed_s: f64,
        bytes_done: u64,
        bytes_total: Option<u64>,
        scan_complete: bool,
        files_done: u64,
        files_total: Option<u64>,
        files_skipped: u64,
        bytes_skipped: u64,
        bytes_resumed: u64,
        streams: u16,
        connections_replaced: u64,
        unanswered_s: Option<f64>,
        outages: u64,
        outage_s: f64,
        retransmissions: u64,
        rtt_s: Option<f64>,
        acked_bytes: Vec<u64>,
        acked_s: f64,
        current: Option<String>,
        latest: Option<&'a Change>,
        through_ssh: Option<&'a str>,
    }
    let notes = lock(&board.notes);
    let bytes_done = board.bytes.load(Ordering::Relaxed);
    let files_done = board.files.load(Ordering::Relaxed);
    let scanned = notes.scanned;
    let bytes_resumed = board.resumed_bytes.load(Ordering::Relaxed);
    let there = notes.skipped.bytes.saturating_add(bytes_resumed);
    let to_move = scanned.bytes.saturating_sub(there);
    let phase = match ended {
        Some(true) => Phase::Done,
        Some(false) => Phase::Failed,
        None if job.is_some_and(|job| job.dry_run) => Phase::Scanning,
        None if board.first_payload.get().is_none() => Phase::Connecting,
        None if scanned.complete && bytes_done >= to_move => Phase::Finishing,
        None => Phase::Moving,
    };
    let known = scanned.complete || scanned.files > 0 || scanned.bytes > 0;
    to_json(&Json {
        phase,
        elapsed_s: elapsed.as_secs_f64(),
        bytes_done,
        bytes_total: known.then_some(to_move),
        scan_complete: scanned.complete,
        files_done,
        files_total: known.then(|| scanned.files.saturating_sub(notes.skipped.files)),
        files_skipped: notes.skipped.files,
        bytes_skipped: notes.skipped.bytes,
        bytes_resumed,
        streams: notes.streams,
        connections_replaced: notes.replaced,
        unanswered_s: notes.ridden.out_for.map(|time| time.as_secs_f64()),
        outages: notes.ridden.outages,
        outage_s: notes.ridden.all.as_secs_f64(),
        retransmissions: notes.retransmissions,
        rtt_s: notes.rtt.map(|rtt| rtt.as_secs_f64()),
        acked_bytes: by_stream(&notes.acked),
        acked_s: Duration::from_nanos(notes.acked_at_ns).as_secs_f64(),
        current: notes
            .current
            .as_ref()
            .map(|(_, path)| printable(path.as_bytes())),
        latest: notes.changes.latest(),
        through_ssh: notes.detour.as_deref(),
    })
}

/// In the order of the streams; 0 for one that was not sampled yet.
fn by_stream(acked: &HashMap<u16, u64>) -> Vec<u64> {
    let streams = acked.keys().max().map_or(0, |&last| last + 1);
    (0..streams)
        .map(|stream| acked.get(&stream).copied().unwrap_or(0))
        .collect()
}

/// What a session knows when its transfer has ended well.
pub struct Account {
    /// What moved.
    pub totals: Totals,
    /// The sender's sockets.
    pub sender_streams: Vec<StreamSummary>,
    /// The receiver's sockets.
    pub receiver_streams: Vec<StreamSummary>,
    /// When the last payload was known to be verified.
    pub verified: Instant,
    /// When the transfer ended.
    pub ended: Instant,
    /// Growth of memory at the near end.
    pub near_peak_memory_bytes: Option<u64>,
    /// Growth of memory at the far end.
    pub far_peak_memory_bytes: Option<u64>,
    /// Dry run: what it would do.
    pub listed: Listing,
}

#[derive(Serialize)]
struct StreamJson {
    bytes: u64,
    retransmissions: u64,
    rtt_min_s: Option<f64>,
    congestion_control: String,
    send_buffer_bytes: Option<u64>,
    receive_buffer_bytes: Option<u64>,
    max_cwnd: Option<u32>,
}

#[derive(Serialize)]
struct SampleJson {
    t_s: f64,
    stream: u16,
    bytes_acked: u64,
    cwnd: u32,
    ssthresh: Option<u32>,
    rtt_s: f64,
    min_rtt_s: f64,
    retransmissions: u64,
    delivery_rate_bps: u64,
    pacing_rate_bps: Option<u64>,
    notsent_bytes: u64,
    limited: Option<LimitedBy>,
}

#[derive(Serialize)]
struct ActionJson {
    path: Base64,
    size: u64,
    action: &'static str,
}

#[derive(Serialize)]
struct OutcomeJson<'a> {
    direction: Direction,
    bytes: u64,
    files: u64,
    folders: u64,
    links: u64,
    files_skipped: u64,
    bytes_skipped: u64,
    bytes_resumed: u64,
    elapsed_s: f64,
    setup_s: Option<f64>,
    moving_s: Option<f64>,
    encrypted: bool,
    target: Option<String>,
    connections_replaced: u64,
    outages: u64,
    outage_s: f64,
    through_ssh: Option<&'a str>,
    digest_sum: Option<String>,
    congestion_control: Option<String>,
    streams: Vec<StreamJson>,
    samples: Vec<SampleJson>,
    changes: &'a [Change],
    changes_more: u64,
    near_peak_memory_bytes: Option<u64>,
    far_peak_memory_bytes: Option<u64>,
    dry_run_plan: Option<Vec<ActionJson>>,
    dry_run_beyond: Option<Beyond>,
    warnings: &'a [String],
    warnings_more: u64,
    left_out: &'a [String],
    left_out_more: u64,
}

/// Outcome as JSON.
pub fn outcome(job: &Job, board: &Board, trace: &Trace, account: &Account) -> Vec<u8> {
    let notes = lock(&board.notes);
    let naming = Naming::new(job, notes.into_folder);
    let since_start = |at: Instant| at.duration_since(board.started).as_secs_f64();
    let first = board.first_payload.get();
    let streams: Vec<StreamJson> = account
        .sender_streams
        .iter()
        .enumerate()
        .map(|(index, sent)| stream(sent, account.receiver_streams.get(index)))
        .collect();
    let listed = account.listed.kept().iter().map(|file| ActionJson {
        path: Base64(naming.name(file.source, &file.path)),
        size: file.size,
        action: if file.needed { "copy" } else { "skip" },
    });
    let in_use = account.sender_streams.first();
    to_json(&OutcomeJson {
        direction: job.direction,
        bytes: account.totals.bytes,
        files: account.totals.files,
        folders: account.totals.folders,
        links: account.totals.links,
        files_skipped: notes.skipped.files,
        bytes_skipped: notes.skipped.bytes,
        bytes_resumed: board.resumed_bytes.load(Ordering::Relaxed),
        elapsed_s: since_start(account.ended),
        setup_s: first.map(|&first| since_start(first)),
        moving_s: first.map(|&first| account.verified.duration_since(first).as_secs_f64()),
        encrypted: job.encrypt,
        target: job
            .memory
            .is_none()
            .then(|| printable(&Naming::target(job, notes.into_folder))),
        connections_replaced: notes.replaced,
        outages: notes.ridden.outages,
        outage_s: notes.ridden.all.as_secs_f64(),
        through_ssh: notes.detour.as_deref(),
        digest_sum: board.digests.sum_in_hex(),
        congestion_control: in_use.and_then(control),
        streams,
        samples: trace.samples().map(sample).collect(),
        changes: notes.changes.kept(),
        changes_more: notes.changes.more(),
        near_peak_memory_bytes: account.near_peak_memory_bytes,
        far_peak_memory_bytes: account.far_peak_memory_bytes,
        dry_run_plan: job.dry_run.then(|| listed.collect()),
        dry_run_beyond: job.dry_run.then(|| account.listed.beyond()),
        warnings: notes.warnings.kept(),
        warnings_more: notes.warnings.more(),
        left_out: notes.left_out.kept(),
        left_out_more: notes.left_out.more(),
    })
}

fn stream(sent: &StreamSummary, received: Option<&StreamSummary>) -> StreamJson {
    StreamJson {
        bytes: sent.bytes,
        retransmissions: sent.retransmissions,
        rtt_min_s: sent.min_rtt_us.map(|rtt_us| f64::from(rtt_us) / 1e6),
        congestion_control: control(sent).unwrap_or_default(),
        send_buffer_bytes: sent.send_buffer_bytes,
        receive_buffer_bytes: received.and_then(|received| received.receive_buffer_bytes),
        max_cwnd: sent.max_cwnd,
    }
}

/// By name; the far end told it, where that was the sender.
fn control(summary: &StreamSummary) -> Option<String> {
    let name = summary.congestion_control.as_ref()?;
    Some(printable_within(name.as_bytes(), MAX_CONTROL_BYTES))
}

fn sample(sample: &Sample) -> SampleJson {
    SampleJson {
        t_s: sample.at_ns as f64 / 1e9,
        stream: sample.stream,
        bytes_acked: sample.bytes_acked,
        cwnd: sample.cwnd,
        ssthresh: sample.ssthresh,
        rtt_s: f64::from(sample.rtt_us) / 1e6,
        min_rtt_s: f64::from(sample.min_rtt_us) / 1e6,
        retransmissions: sample.retransmissions,
        delivery_rate_bps: sample.delivery_rate_bps,
        pacing_rate_bps: sample.pacing_rate_bps,
        notsent_bytes: sample.notsent_bytes,
        limited: sample.limited,
    }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
