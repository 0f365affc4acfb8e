//! What the two ends say on the control channel.

use std::net::IpAddr;
use std::sync::Arc;

use howdah_filter::Filters;
use serde::{Deserialize, Serialize};

use crate::keep::{Keep, Owner};
use crate::kind::Offered;
use crate::path::TreePath;
use crate::piece::Attributes;
use crate::removal::{Content, Delete, Extraneous, Removal};
use crate::span::{Checked, Found};
use crate::spent::Spent;
use crate::steer::{Limit, Steered, Steering};
use crate::tally::Totals;
use crate::walk::Walk;
use crate::xattrs::XattrsSum;

/// One message of the control channel; [`crate::Conversation`] says who may send which, when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// near → far, at once.
    Hello(Hello),
    /// far → near, at once.
    FarHello(Box<FarHello>),
    /// near → far: what to do. Starts the transfer.
    Job(Box<Job>),
    /// receiver (far) → sender: the destination can take the job. `fresh`: nothing is there that
    /// could be skipped, so nothing more is offered and offers already made count as wanted.
    Accept {
        /// Whether the destination is new or empty.
        fresh: bool,
        /// Whether it is a folder that sources land in by their names.
        into_folder: bool,
    },
    /// sender → receiver: files that might be there already.
    Offer(Offer),
    /// receiver → sender: which of them to send.
    Answer(Answer),
    /// receiver → sender: what came of comparing a [`crate::Piece::There`]; each gets one such word.
    Checked(Checked),
    /// sender → receiver: what the scan has found so far.
    Scanned(Scanned),
    /// receiver → sender: what has arrived and been verified so far.
    Progress(Progress),
    /// sender (far) → receiver: `TCP_INFO` of its sockets.
    Samples(Vec<Sample>),
    /// Something the user should know that stops nothing.
    Warning(String),
    /// Nothing to say, but still there.
    Alive,
    /// far → near: a file or folder that cannot be read is not sent, or one that came is not kept as was
    /// asked, and why.
    LeftOut(String),
    /// receiver → sender: everything has arrived, is verified and in place.
    /// sender (far) → receiver: its side of the account, in answer.
    Finished(Box<Finished>),
    /// The end that says this has given up, and why.
    Failed(String),
    /// near → far: stop and keep what is complete.
    Cancel,
    /// receiver (near) → sender: how its streams send from now on.
    Steer(Steering),
    /// sender (far) → receiver: what came of one [`Message::Steer`], in their order.
    Steered(Steered),
    /// receiver (near) → sender: what to move, of a job that says there is a list.
    Names(Names),
    /// sender (far) → receiver: one [`Message::Names`] is dealt with, so there is room for another.
    NamesTaken,
    /// near → far, before the job: whether the data port of another far end can be reached from there.
    TryPort(DataPort),
    /// far → near: the round trip to it in nanoseconds, or why it cannot be reached.
    PortTried(Result<u64, String>),
    /// near → far: whether this port can be reached from there, at the address from which ssh came.
    TryNear(u16),
    /// near → far, after the job: connect the data streams to that port, since the far end's cannot be reached.
    ConnectNear {
        /// What each data stream shows there.
        token: [u8; 32],
    },
    /// sender (far) → near: digests of files that are sent, of a job that asks for them.
    Digests(Vec<FileDigest>),
    /// sender → receiver, of a job that removes: what is in folders of its sources, one after the other.
    Content(Vec<Content>),
    /// sender → receiver, of such a job: it has sent all that it will.
    AllSent {
        /// Whether it could read all of its sources.
        whole: bool,
    },
    /// receiver (far) → sender, of a dry run of such a job: what it would remove.
    Extraneous(Vec<Extraneous>),
    /// near → far: what its user lets the streams send from now on. A receiver is told too, so that it waits for a
    /// sender that is to send nothing.
    Limit(Limit),
    /// receiver → sender, of a job that tells files by their content: of which offered files the digests are needed.
    Compare(Compare),
    /// sender → receiver: answers one [`Message::Compare`], in their order.
    Compared(Compared),
    /// near → far, once and before the job: sources, of which some are patterns.
    Expand(Vec<Vec<u8>>),
    /// far → near: what they lead to there, 1 to [`crate::limits::MAX_SOURCES`] paths, or why not.
    Expanded(Result<Vec<Vec<u8>>, String>),
    /// far → near: what the threads of its data streams have spent their time on so far, together.
    Spent(Box<Spent>),
}

/// What the near end says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Release of the near end.
    pub version: String,
    /// Public key of the near end, for the keys of encrypted data streams: X25519, 32 bytes.
    pub key: Vec<u8>,
}

/// What the far end says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarHello {
    /// Release of the far end.
    pub version: String,
    /// Public key of the far end, for the same.
    pub key: Vec<u8>,
    /// What a data stream must show to belong to this session.
    pub token: [u8; 32],
    /// `HostLimits` of the far end as JSON.
    pub limits_json: Vec<u8>,
    /// Addresses at which the far end listens for data streams, best first.
    pub addresses: Vec<String>,
    /// Port at which it listens.
    pub port: u16,
    /// Smallest round trip its own ssh connection has seen, in nanoseconds.
    pub rtt_ns: Option<u64>,
}

/// Which way the payload goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From near to far.
    Push,
    /// From far to near.
    Pull,
}

/// What to move and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Which way the payload goes.
    pub direction: Direction,
    /// Paths at the sender, as its user wrote them.
    pub sources: Vec<Vec<u8>>,
    /// Path at the receiver, as its user wrote it.
    pub destination: Vec<u8>,
    /// Whether the destination must be a folder, made if it is missing.
    pub destination_is_folder: bool,
    /// Which names below the sources are moved.
    pub filters: Filters,
    /// Whether only names of a list of the near end are moved, see [`Message::Names`].
    pub named: bool,
    /// How the sender goes through its sources.
    pub walk: Walk,
    /// Which of the files that might be at the receiver are sent.
    pub skip: Skip,
    /// What is removed at the receiver that is not at the sender; nothing without.
    pub delete: Option<Delete>,
    /// What is kept of files beside names and contents.
    pub keep: Keep,
    /// What to move from memory to memory instead of files.
    pub memory: Option<Memory>,
    /// Whether the near end has a pipe in place of its only source or of the destination.
    pub pipe: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Whether data streams are encrypted.
    pub encrypt: bool,
    /// Whether all is put on stable storage before the receiver is done.
    pub sync: bool,
    /// Pull: whether the destination is new or empty, see [`Message::Accept`].
    pub fresh: bool,
    /// Nanoseconds between two samples of a data stream.
    pub sample_every_ns: u64,
    /// Nanoseconds for which both ends wait for a path that is out.
    pub patience_ns: u64,
    /// What all data streams may send together, from the first byte on.
    pub limit: Limit,
    /// How the data streams are set up.
    pub plan: StreamPlan,
    /// Another far end that the data goes to or comes from in place of the near end.
    pub peer: Option<Peer>,
    /// Whether a far sender says the digest of each file, see [`Message::Digests`].
    pub tells_digests: bool,
}

/// Where a far end takes data streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPort {
    /// Its addresses, best first; 1 to [`crate::limits::MAX_ADDRESSES`].
    pub addresses: Vec<IpAddr>,
    /// The port.
    pub port: u16,
}

/// Another far end, which has the same job with the other direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Public key of it, for the keys of encrypted data streams.
    pub key: Vec<u8>,
    /// How the data streams come to be.
    pub way: Way,
}

/// Which of two far ends connects to the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// The one that reads this.
    Connect {
        /// Where to.
        to: DataPort,
        /// What each data stream shows there.
        token: [u8; 32],
    },
    /// The other one.
    Accept {
        /// The address of its host.
        from: IpAddr,
    },
}

/// The digest of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDigest {
    /// Index of the source it belongs to.
    pub source: u16,
    /// Its path below that source.
    pub path: TreePath,
    /// BLAKE3 of its content.
    pub blake3: [u8; 32],
}

/// What of the sources is not sent for what is at the receiver. By default that is a file that is there with the same
/// size and time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// What is not there: no name is made.
    pub missing: bool,
    /// What is there, whatever it is; folders are entered all the same.
    pub there: bool,
    /// A file that is newer there.
    pub newer: bool,
    /// A file that is the same by this.
    pub same: Same,
}

/// What two files have in common that are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Same {
    /// Size and modification time.
    #[default]
    SizeAndTime,
    /// The size.
    Size,
    /// Nothing says so, and each is sent.
    Nothing,
    /// The content, by its digest; see [`Message::Compare`].
    Content,
}

/// How much goes from memory to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// So many bytes.
    Bytes(u64),
    /// As much as can be sent in so many nanoseconds from the first byte; what was sent arrives.
    Time(u64),
}

/// The part of a plan that both ends carry out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPlan {
    /// Congestion control of each data stream; the host's default if absent.
    pub congestion_control: Option<String>,
    /// Number of data streams.
    pub streams: u16,
    /// Socket buffer of each stream in bytes; the kernel tunes it if absent.
    pub buffer_bytes: Option<u64>,
    /// Most each stream sends, in bits per second.
    pub pacing_bps: Option<u64>,
    /// Payload a stream takes at a time, in bytes.
    pub block_bytes: u64,
}

/// Files that might be at the receiver already, numbered from `first`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Number of the first file; each offer goes on where the last one ended.
    pub first: u64,
    /// The files, at most [`crate::limits::MAX_OFFERED_FILES`].
    #[serde(with = "crate::packed")]
    pub files: Vec<OfferedFile>,
}

/// One file that might be at the receiver already; in a dry run whatever is to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedFile {
    /// Index of the source it belongs to.
    pub source: u16,
    /// Its path below that source.
    pub path: TreePath,
    /// What it is.
    pub kind: Offered,
    /// Its size in bytes.
    pub size: u64,
    /// Its modification time, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Its mode; what is there gets it.
    pub mode: u32,
    /// To whom it belongs, if that is kept.
    pub owner: Option<Arc<Owner>>,
    /// What tells its extended attributes, if they are kept.
    pub xattrs: Option<XattrsSum>,
}

impl OfferedFile {
    /// The source and the path at which what is in it is found: of another name of a file its first.
    pub fn content(&self) -> (u16, &TreePath) {
        match &self.kind {
            Offered::HardLink {
                first_source,
                first,
            } => (*first_source, first),
            _ => (self.source, &self.path),
        }
    }

    /// What the file is to have beside its content.
    pub fn attributes(&self) -> Attributes {
        Attributes {
            mode: self.mode,
            mtime_ns: self.mtime_ns,
            owner: self.owner.clone(),
            xattrs: None,
        }
    }
}

/// Answers one offer, in the order of the offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// [`Offer::first`] of the offer answered.
    pub first: u64,
    /// For each of its files, whether the receiver needs it.
    pub needed: Vec<bool>,
    /// What the receiver may have of needed files, in their order.
    pub found: Vec<Found>,
    /// Which of the others have other extended attributes there, in their order.
    pub other_xattrs: Vec<u16>,
}

/// Asks for the digests of files that have the same size at the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compare {
    /// [`Offer::first`] of the offer that they are of.
    pub first: u64,
    /// Which of its files, in their order.
    pub files: Vec<u16>,
}

/// The digests that one [`Compare`] asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// [`Compare::first`] of it.
    pub first: u64,
    /// BLAKE3 of the content of each of its files; `None` where it cannot be read.
    pub blake3: Vec<Option<[u8; 32]>>,
}

/// Names of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// The names, at most [`crate::limits::MAX_NAMES`].
    pub names: Vec<Named>,
    /// Whether the list ends with them.
    pub complete: bool,
}

/// One name of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The path below the only source.
    pub path: TreePath,
    /// Whether what is in the folder of that name is meant too, without what is in folders there.
    pub content: bool,
}

/// What the scan at the sender has found so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scanned {
    /// Regular files.
    pub files: u64,
    /// Their sizes in bytes.
    pub bytes: u64,
    /// What was read of files whose digests the receiver needs, in bytes.
    pub digested: u64,
    /// Whether that is all.
    pub complete: bool,
}

/// What has arrived at the receiver so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Payload that has arrived, in bytes; verified piece by piece.
    pub bytes: u64,
    /// Holes that were made, in bytes.
    pub hole_bytes: u64,
    /// Files in place.
    pub files: u64,
    /// What the receiver had from a copy that was cut, compared and the same, in bytes.
    pub resumed: u64,
    /// Data streams open.
    pub streams: u16,
    /// Pieces that the receiver has taken of each data stream, on all its connections.
    pub taken: Vec<u64>,
    /// A file being moved now.
    pub current: Option<TreePath>,
    /// Names at the target that were looked at for whether they are to be removed.
    pub looked_at: u64,
    /// Of those, how many were removed.
    pub removed: u64,
    /// What was read of files whose content is compared, in bytes.
    pub digested: u64,
}

/// What limits a stream at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// The congestion window.
    Cwnd,
    /// The sending program.
    App,
    /// The receiver's window.
    Rwnd,
    /// The send buffer.
    Sndbuf,
}

/// `TCP_INFO` of one sending socket at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Nanoseconds since the sender's start of the job.
    pub at_ns: u64,
    /// Index of the stream.
    pub stream: u16,
    /// Payload and record bytes acknowledged.
    pub bytes_acked: u64,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Slow-start threshold, in segments, once there is one.
    pub ssthresh: Option<u32>,
    /// Smoothed round trip, in microseconds.
    pub rtt_us: u32,
    /// Smallest round trip seen, in microseconds.
    pub min_rtt_us: u32,
    /// Segments sent again so far.
    pub retransmissions: u64,
    /// Latest delivery rate, in bits per second.
    pub delivery_rate_bps: u64,
    /// Pacing rate, in bits per second, if paced.
    pub pacing_rate_bps: Option<u64>,
    /// Bytes written and not yet sent.
    pub notsent_bytes: u64,
    /// What limits it.
    pub limited: Option<LimitedBy>,
}

/// What the digests of files add up to, in any order: four sums of 64 bits that overflow.
pub type DigestSum = [u64; 4];

/// The account of one end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// What this end sent or received.
    pub totals: Totals,
    /// The sum of the digests of all its files, which is zero without any. Both ends must have the same.
    pub digests: DigestSum,
    /// Receiver, of a job that removes: what came of that.
    pub removal: Option<Removal>,
    /// Growth of the resident memory at its peak, in bytes; absent where it cannot be read.
    pub peak_memory_bytes: Option<u64>,
    /// Its sockets, by index of the stream.
    pub streams: Vec<StreamSummary>,
    /// Receiver: what the thread has spent its time on that flushes files.
    pub naming: Spent,
    /// Receiver: how long it flushed and named when all had come, in nanoseconds.
    pub finishing_ns: u64,
}

/// One socket at the end of a transfer, seen from one end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSummary {
    /// Payload that passed through it, in bytes.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Smallest round trip seen, in microseconds.
    pub min_rtt_us: Option<u32>,
    /// Congestion control really in use.
    pub congestion_control: Option<String>,
    /// `SO_SNDBUF` at the end, in bytes.
    pub send_buffer_bytes: Option<u64>,
    /// `SO_RCVBUF` at the end, in bytes.
    pub receive_buffer_bytes: Option<u64>,
    /// Largest congestion window sampled, in segments.
    pub max_cwnd: Option<u32>,
    /// What its thread has spent its time on.
    pub spent: Spent,
}
