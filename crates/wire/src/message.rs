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
    /// receiver (far) → sender: the destination can take the job. `fresh` means that no file there could be skipped.
    /// The sender then makes no more offers, and sends all that it has offered.
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
    /// receiver → sender: the result of comparing a [`crate::Piece::There`]. There is one for each.
    Checked(Checked),
    /// sender → receiver: what the scan has found so far.
    Scanned(Scanned),
    /// receiver → sender: what has arrived and been verified so far.
    Progress(Progress),
    /// sender (far) → receiver: `TCP_INFO` of its sockets.
    Samples(Vec<Sample>),
    /// A warning for the user. The copy goes on.
    Warning(String),
    /// The end that says this is still running and has nothing else to say.
    Alive,
    /// far → near: why a file or folder was left out, or why one of its attributes could not be kept.
    LeftOut(String),
    /// receiver → sender: everything has arrived, is verified and in place.
    /// sender (far) → receiver: its side of the account, in answer.
    Finished(Box<Finished>),
    /// The end that says this has failed; with the reason.
    Failed(String),
    /// near → far: stop. Complete files are kept.
    Cancel,
    /// receiver (near) → sender: how its streams send from now on.
    Steer(Steering),
    /// sender (far) → receiver: the result of one [`Message::Steer`], in their order.
    Steered(Steered),
    /// receiver (near) → sender: names of what is moved, if the job has a list.
    Names(Names),
    /// sender (far) → receiver: one [`Message::Names`] is done, so there is room for another.
    NamesTaken,
    /// near → far, before the job: asks whether the far end reaches the data port of another far end.
    TryPort(DataPort),
    /// far → near: the round trip to it in nanoseconds, or why it cannot be reached.
    PortTried(Result<u64, String>),
    /// near → far: asks whether the far end reaches this port, at the address from which ssh came.
    TryNear(u16),
    /// near → far, after the job: connect the data streams to that port, because the far end's port cannot be
    /// reached.
    ConnectNear {
        /// The token that each data stream shows there.
        token: [u8; 32],
    },
    /// sender (far) → near: digests of files that were sent, if the job asks for them.
    Digests(Vec<FileDigest>),
    /// sender → receiver, if the job removes: the names in the folders of its sources, one folder after the other.
    Content(Vec<Content>),
    /// sender → receiver, if the job removes: the sender has sent everything.
    AllSent {
        /// Whether it could read all of its sources.
        whole: bool,
    },
    /// receiver (far) → sender, in a dry run of a job that removes: what it would remove.
    Extraneous(Vec<Extraneous>),
    /// near → far: the limit on what the streams send from now on. A receiver gets it too, so that it waits while a
    /// pause lasts.
    Limit(Limit),
    /// receiver → sender, if the job compares files by their content: the offered files whose digests the receiver
    /// needs.
    Compare(Compare),
    /// sender → receiver: answers one [`Message::Compare`], in their order.
    Compared(Compared),
    /// near → far, once, before the job: sources, some of them patterns.
    Expand(Vec<Vec<u8>>),
    /// far → near: the paths that match, 1 to [`crate::limits::MAX_SOURCES`] of them, or why there are none.
    Expanded(Result<Vec<Vec<u8>>, String>),
    /// far → near: how the threads of its data streams have spent their time so far, in sum.
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
    /// Public key of the far end: X25519, 32 bytes.
    pub key: Vec<u8>,
    /// The token that a data stream must show to belong to this session.
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
    /// Which files are skipped because of what the receiver has.
    pub skip: Skip,
    /// What is removed at the receiver because it is not at the sender; absent if the job removes nothing.
    pub delete: Option<Delete>,
    /// What is kept of files beside names and contents.
    pub keep: Keep,
    /// What to move from memory to memory instead of files.
    pub memory: Option<Memory>,
    /// Whether the near end has a pipe in place of its only source or of the destination.
    pub pipe: bool,
    /// Whether the copy only reports what it would do.
    pub dry_run: bool,
    /// Whether data streams are encrypted.
    pub encrypt: bool,
    /// Whether everything is on stable storage before the receiver is done.
    pub sync: bool,
    /// Pull: whether the destination is new or empty, see [`Message::Accept`].
    pub fresh: bool,
    /// Nanoseconds between two samples of a data stream.
    pub sample_every_ns: u64,
    /// Nanoseconds for which both ends wait while the path is down.
    pub patience_ns: u64,
    /// What all data streams may send together, from the first byte on.
    pub limit: Limit,
    /// How the data streams are set up.
    pub plan: StreamPlan,
    /// The other far end, if the data goes from one far end to another and not through the near end.
    pub peer: Option<Peer>,
    /// Whether a far sender sends the digest of each file, see [`Message::Digests`].
    pub tells_digests: bool,
}

/// Where a far end accepts data streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPort {
    /// Its addresses, best first; 1 to [`crate::limits::MAX_ADDRESSES`].
    pub addresses: Vec<IpAddr>,
    /// The port.
    pub port: u16,
}

/// Another far end. It has the same job in the other direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its public key, for the keys of encrypted data streams.
    pub key: Vec<u8>,
    /// How the data streams are connected.
    pub way: Way,
}

/// Which of two far ends connects to the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// The far end that reads this.
    Connect {
        /// Where to.
        to: DataPort,
        /// The token that each data stream shows there.
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

/// Which sources are skipped because of what is at the receiver. By default, a file is skipped if the receiver has it
/// with the same size and modification time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// Whether to skip what is missing at the receiver, so that no new name is made.
    pub missing: bool,
    /// Whether to skip what exists at the receiver, of any kind. Folders are entered all the same.
    pub there: bool,
    /// Whether to skip a file that is newer at the receiver.
    pub newer: bool,
    /// When two files count as the same, so that the file is skipped.
    pub same: Same,
}

/// When two files count as the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Same {
    /// Size and modification time.
    #[default]
    SizeAndTime,
    /// The size.
    Size,
    /// Never: each file is sent.
    Nothing,
    /// The content, by its digest; see [`Message::Compare`].
    Content,
}

/// How much goes from memory to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// So many bytes.
    Bytes(u64),
    /// As much as can be sent in so many nanoseconds from the first byte on. What was sent arrives.
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

/// Files that the receiver may already have, numbered from `first`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Number of the first file. Each offer continues the numbers of the one before it.
    pub first: u64,
    /// The files, at most [`crate::limits::MAX_OFFERED_FILES`].
    #[serde(with = "crate::packed")]
    pub files: Vec<OfferedFile>,
}

/// One file that the receiver may already have. In a dry run, an entry of any kind.
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
    /// Its mode. An existing file at the receiver gets it.
    pub mode: u32,
    /// Its user and group, if they are kept.
    pub owner: Option<Arc<Owner>>,
    /// A digest of its extended attributes, if they are kept.
    pub xattrs: Option<XattrsSum>,
}

impl OfferedFile {
    /// The source and the path of its content. For another name of a file (a hard link) that is the first name.
    pub fn content(&self) -> (u16, &TreePath) {
        match &self.kind {
            Offered::HardLink {
                first_source,
                first,
            } => (*first_source, first),
            _ => (self.source, &self.path),
        }
    }

    /// What the file gets beside its content.
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
    /// The parts of needed files that the receiver may already have, in the order of the files.
    pub found: Vec<Found>,
    /// Which of the other files have different extended attributes at the receiver, in their order.
    pub other_xattrs: Vec<u16>,
}

/// Asks for the digests of files that have the same size at the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compare {
    /// [`Offer::first`] of the offer with these files.
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
    /// Whether the entries of the folder with that name are meant too. What is in its subfolders is not.
    pub content: bool,
}

/// What the scan at the sender has found so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scanned {
    /// Regular files.
    pub files: u64,
    /// Their sizes in bytes.
    pub bytes: u64,
    /// Bytes read so far of files whose digests the receiver needs.
    pub digested: u64,
    /// Whether the scan is complete.
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
    /// Bytes that the receiver had from an interrupted copy, and that were compared and are the same.
    pub resumed: u64,
    /// Data streams open.
    pub streams: u16,
    /// Pieces that the receiver has taken of each data stream, on all its connections.
    pub taken: Vec<u64>,
    /// A file being moved now.
    pub current: Option<TreePath>,
    /// Names at the target that were checked for removal.
    pub looked_at: u64,
    /// Of those, how many were removed.
    pub removed: u64,
    /// Bytes read so far of files whose content is compared.
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
