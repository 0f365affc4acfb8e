//! The reports of a session, as JSON. Paths are base64, because a name need not be UTF-8.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use howdah_wire::limits::MAX_CONTROL_BYTES;
use howdah_wire::{
    Direction, Doing, FarHello, Job, Kind, LimitedBy, Memory, Removal, Sample, Skip, Spent,
    StreamSummary, Totals, Way, Withheld, printable, printable_within,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::end::abort::lock;
use crate::end::context::Board;
use crate::end::naming::Naming;
use crate::error::TransferError;
use crate::session::listing::{Action, Beyond, Listing};
use crate::session::steer::Change;
use crate::streams::sample::Trace;

/// Bytes that are base64 in JSON.
#[derive(Debug, Clone)]
pub struct Base64(pub Vec<u8>);

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

/// Whether a job puts something under a name.
fn names_a_target(job: &Job) -> bool {
    job.memory.is_none() && !(job.pipe && job.direction == Direction::Pull)
}

/// The paths that patterns stand for, as JSON (Expanded).
pub fn expanded(paths: Vec<Vec<u8>>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Json {
        paths: Vec<Base64>,
    }
    to_json(&Json {
        paths: paths.into_iter().map(Base64).collect(),
    })
}

/// A job as JSON (FarJob), for the overseer that decides whether the far end carries it out.
pub fn far_job(job: &Job) -> Vec<u8> {
    #[derive(Serialize)]
    struct Json {
        direction: Direction,
        sources: Vec<Base64>,
        destination: Base64,
        from_memory: bool,
        memory_bytes: Option<u64>,
        delete: bool,
        dry_run: bool,
        encrypt: bool,
        other: Option<IpAddr>,
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
        delete: job.delete.is_some(),
        dry_run: job.dry_run,
        encrypt: job.encrypt,
        other: job.peer.as_ref().and_then(|peer| match &peer.way {
            Way::Connect { to, .. } => to.addresses.first().copied(),
            Way::Accept { from } => Some(*from),
        }),
    });
    made.expect("a job is JSON")
}

/// What a far end has moved, as JSON (FarAccount).
pub fn far_account(
    moved: Totals,
    removed: u64,
    digest_sum: Option<String>,
    failure: Option<&TransferError>,
) -> Vec<u8> {
    #[derive(Serialize)]
    struct Json {
        bytes: u64,
        files: u64,
        removed: u64,
        digest_sum: Option<String>,
        error: Option<String>,
        cancelled: bool,
    }
    let made = serde_json::to_vec(&Json {
        // To a host, zeros are zeros, however they came.
        bytes: moved.bytes.saturating_add(moved.hole_bytes),
        files: moved.files,
        removed,
        digest_sum,
        error: failure.map(ToString::to_string),
        cancelled: failure == Some(&TransferError::Cancelled),
    });
    made.expect("an account is JSON")
}

/// FarHello as JSON.
///
/// # Errors
/// When the far end's limits are not JSON.
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

/// The present stage of a transfer.
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

/// Progress as JSON. `ended` says whether the transfer has ended, and whether with success. `elapsed` counts from its
/// start.
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
        hole_bytes: u64,
        removed: u64,
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
        by_far_end: Option<&'a str>,
        other_address: Option<&'a str>,
        sender: SpentJson,
        receiver: SpentJson,
    }
    let notes = lock(&board.notes);
    let bytes_done = board.bytes.load(Ordering::Relaxed);
    let files_done = board.files.load(Ordering::Relaxed);
    let scanned = notes.scanned;
    let bytes_resumed = board.resumed_bytes.load(Ordering::Relaxed);
    let there = notes.skipped.bytes.saturating_add(board.unsent_bytes());
    let to_move = scanned.bytes.saturating_sub(there);
    let phase = match ended {
        Some(true) => Phase::Done,
        Some(false) => Phase::Failed,
        None if job.is_some_and(|job| job.dry_run) => Phase::Scanning,
        None if board.first_payload.get().is_none() => Phase::Connecting,
        None if scanned.complete && bytes_done >= to_move => Phase::Finishing,
        None => Phase::Moving,
    };
    // How much a pipe gives is known at its end.
    let open_ended = job.is_some_and(|job| job.pipe && job.direction == Direction::Push);
    let known = scanned.complete || !open_ended && (scanned.files > 0 || scanned.bytes > 0);
    // Between two far ends, "near" is the sender.
    let near_sends = job.is_none_or(|job| job.direction == Direction::Push);
    let (sender, receiver) = match near_sends {
        true => (&notes.near_spent, &notes.far_spent),
        false => (&notes.far_spent, &notes.near_spent),
    };
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
        hole_bytes: board.hole_bytes.load(Ordering::Relaxed),
        removed: board.removed.load(Ordering::Relaxed),
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
        by_far_end: notes.by_far.as_deref(),
        other_address: notes.other_address.as_deref(),
        sender: SpentJson::of(sender),
        receiver: SpentJson::of(receiver),
    })
}

/// In the order of the streams; 0 for one that was not sampled yet.
fn by_stream(acked: &HashMap<u16, u64>) -> Vec<u64> {
    let streams = acked.keys().max().map_or(0, |&last| last + 1);
    (0..streams)
        .map(|stream| acked.get(&stream).copied().unwrap_or(0))
        .collect()
}

/// The results of a session whose transfer has succeeded.
pub struct Account {
    /// What moved.
    pub totals: Totals,
    /// The sender's sockets.
    pub sender_streams: Vec<StreamSummary>,
    /// The receiver's sockets.
    pub receiver_streams: Vec<StreamSummary>,
    /// How the receiver's thread that flushes files and gives names has spent its time.
    pub naming: Spent,
    /// How long that thread flushed files and gave names after everything had arrived, in nanoseconds.
    pub finishing_ns: u64,
    /// When this end learned that the last payload was verified.
    pub verified: Instant,
    /// When the transfer ended.
    pub ended: Instant,
    /// Growth of memory at the near end.
    pub near_peak_memory_bytes: Option<u64>,
    /// Growth of memory at the far end.
    pub far_peak_memory_bytes: Option<u64>,
    /// Dry run: what it would do.
    pub listed: Listing,
    /// The result of the removal, if the job asks for one.
    pub removal: Option<Removal>,
}

#[derive(Serialize)]
struct SpentJson {
    wall_s: BTreeMap<&'static str, f64>,
    cpu_s: BTreeMap<&'static str, f64>,
    delayed_s: f64,
    busy_s: f64,
    rwnd_limited_s: f64,
    sndbuf_limited_s: f64,
}

impl SpentJson {
    fn of(spent: &Spent) -> Self {
        let named = |times: &[u64; Doing::COUNT]| {
            let all = Doing::ALL.into_iter().zip(times);
            all.filter(|(_, ns)| **ns > 0)
                .map(|(doing, &ns)| (doing.name(), ns as f64 / 1e9))
                .collect()
        };
        let seconds = |us: u64| us as f64 / 1e6;
        Self {
            wall_s: named(&spent.wall_ns),
            cpu_s: named(&spent.cpu_ns),
            delayed_s: spent.delayed_ns as f64 / 1e9,
            busy_s: seconds(spent.busy_us),
            rwnd_limited_s: seconds(spent.rwnd_limited_us),
            sndbuf_limited_s: seconds(spent.sndbuf_limited_us),
        }
    }
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
    sender: SpentJson,
    receiver: Option<SpentJson>,
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
    kind: Kind,
    size: u64,
    action: &'static str,
}

#[derive(Serialize)]
struct RemovalJson {
    extraneous: u64,
    removed: u64,
    failed: u64,
    #[serde(rename = "held")]
    withheld: Option<Withheld>,
}

#[derive(Serialize)]
struct OutcomeJson<'a> {
    direction: Direction,
    bytes: u64,
    files: u64,
    folders: u64,
    links: u64,
    special_files: u64,
    files_skipped: u64,
    bytes_skipped: u64,
    skips_as_asked: bool,
    bytes_resumed: u64,
    hole_bytes: u64,
    removal: Option<RemovalJson>,
    elapsed_s: f64,
    setup_s: Option<f64>,
    moving_s: Option<f64>,
    encrypted: bool,
    target: Option<String>,
    streams_ahead: u64,
    connections_replaced: u64,
    outages: u64,
    outage_s: f64,
    through_ssh: Option<&'a str>,
    by_far_end: Option<&'a str>,
    other_address: Option<&'a str>,
    digest_sum: Option<String>,
    congestion_control: Option<String>,
    streams: Vec<StreamJson>,
    naming: SpentJson,
    finishing_s: f64,
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
    let listed = || {
        let actions = account.listed.kept().iter().map(|one| ActionJson {
            path: Base64(match one.kind {
                Kind::Folder => naming.folder(one.source, &one.path),
                _ => naming.name(one.source, &one.path),
            }),
            kind: one.kind,
            size: one.size,
            action: match one.action {
                Action::Copy => "copy",
                Action::Skip => "skip",
                Action::Remove => "remove",
            },
        });
        let mut actions: Vec<_> = actions.collect();
        actions.sort_by(|one, other| in_order(&one.path.0).cmp(in_order(&other.path.0)));
        actions
    };
    let in_use = account.sender_streams.first();
    to_json(&OutcomeJson {
        direction: job.direction,
        bytes: account.totals.bytes,
        files: account.totals.files,
        folders: account.totals.folders,
        links: account.totals.links,
        special_files: account.totals.special_files,
        files_skipped: notes.skipped.files,
        bytes_skipped: notes.skipped.bytes,
        skips_as_asked: job.skip != Skip::default(),
        bytes_resumed: board.resumed_bytes.load(Ordering::Relaxed),
        hole_bytes: account.totals.hole_bytes,
        removal: account.removal.map(|came_to| RemovalJson {
            extraneous: came_to.extraneous,
            removed: came_to.removed,
            failed: came_to.failed,
            withheld: came_to.withheld,
        }),
        elapsed_s: since_start(account.ended),
        setup_s: first.map(|&first| since_start(first)),
        moving_s: first.map(|&first| account.verified.duration_since(first).as_secs_f64()),
        encrypted: job.encrypt,
        target: names_a_target(job).then(|| printable(&Naming::target(job, notes.into_folder))),
        streams_ahead: notes.ahead,
        connections_replaced: notes.replaced,
        outages: notes.ridden.outages,
        outage_s: notes.ridden.all.as_secs_f64(),
        through_ssh: notes.detour.as_deref(),
        by_far_end: notes.by_far.as_deref(),
        other_address: notes.other_address.as_deref(),
        digest_sum: board.digests.sum_in_hex(),
        congestion_control: in_use.and_then(control),
        streams,
        naming: SpentJson::of(&account.naming),
        finishing_s: account.finishing_ns as f64 / 1e9,
        samples: trace.samples().map(sample).collect(),
        changes: notes.changes.kept(),
        changes_more: notes.changes.more(),
        near_peak_memory_bytes: account.near_peak_memory_bytes,
        far_peak_memory_bytes: account.far_peak_memory_bytes,
        dry_run_plan: job.dry_run.then(listed),
        dry_run_beyond: job.dry_run.then(|| account.listed.beyond()),
        warnings: notes.warnings.kept(),
        warnings_more: notes.warnings.more(),
        left_out: notes.left_out.kept(),
        left_out_more: notes.left_out.more(),
    })
}

/// What paths are sorted by: folders come before what is in them, and that before all else.
fn in_order(path: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let below = path.strip_prefix(b"./").unwrap_or(path);
    below
        .iter()
        .map(|&byte| if byte == b'/' { 0 } else { byte })
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
        sender: SpentJson::of(&sent.spent),
        receiver: received.map(|received| SpentJson::of(&received.spent)),
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

/// A value as JSON.
pub fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
