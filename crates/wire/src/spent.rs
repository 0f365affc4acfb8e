//! How the threads of a copy have spent their time.

use serde::{Deserialize, Serialize};

use crate::conversation::ProtocolError;
use crate::limits::MAX_SPENT_NS;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It waits for its first block or piece.
    Start,
    /// A sender waits for its next block: for the scan, for answers to offers, for a pipe. The thread that gives
    /// files their names waits for a file.
    Waiting,
    /// It opens files, reads or sets their attributes, makes folders and links, gives names.
    Opening,
    /// It reads from the sources, or writes to the targets.
    Disk,
    /// It computes digests.
    Digest,
    /// It encrypts or decrypts records, or computes anything else.
    Rest,
    /// A sender waits for its turn under the limit of the copy.
    Turn,
    /// A sender waits until its socket takes data, or until the receiver has confirmed it. A receiver waits until
    /// data comes.
    Socket,
    /// A receiver waits for the disk: it flushes, or too much data is not on the disk yet.
    Flush,
    /// A receiver waits for the thread that flushes complete files and gives them their names.
    Naming,
}

impl Doing {
    /// How many there are.
    pub const COUNT: usize = 10;
    /// All, in their order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Start,
        Self::Waiting,
        Self::Opening,
        Self::Disk,
        Self::Digest,
        Self::Rest,
        Self::Turn,
        Self::Socket,
        Self::Flush,
        Self::Naming,
    ];

    /// Its word in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Waiting => "waiting",
            Self::Opening => "opening",
            Self::Disk => "disk",
            Self::Digest => "digest",
            Self::Rest => "rest",
            Self::Turn => "turn",
            Self::Socket => "socket",
            Self::Flush => "flush",
            Self::Naming => "naming",
        }
    }
}

/// How one thread, or several in sum, have spent their time, with the statistics of their sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Nanoseconds of each [`Doing`], in their order.
    pub wall_ns: [u64; Doing::COUNT],
    /// The part of it in which the threads ran on a processor, estimated from samples.
    pub cpu_ns: [u64; Doing::COUNT],
    /// Nanoseconds in which they were ready to run and waited for a processor; 0 if the kernel does not say.
    pub delayed_ns: u64,
    /// Microseconds in which a sender's sockets had data waiting or in flight.
    pub busy_us: u64,
    /// The part of it in which the receiver's window was the limit.
    pub rwnd_limited_us: u64,
    /// The part of it in which the send buffer was the limit.
    pub sndbuf_limited_us: u64,
}

impl Spent {
    /// Adds the times of others.
    pub fn add(&mut self, more: &Self) {
        for (all, one) in self.wall_ns.iter_mut().zip(more.wall_ns) {
            *all = all.saturating_add(one);
        }
        for (all, one) in self.cpu_ns.iter_mut().zip(more.cpu_ns) {
            *all = all.saturating_add(one);
        }
        self.delayed_ns = self.delayed_ns.saturating_add(more.delayed_ns);
        self.busy_us = self.busy_us.saturating_add(more.busy_us);
        self.rwnd_limited_us = self.rwnd_limited_us.saturating_add(more.rwnd_limited_us);
        self.sndbuf_limited_us = self
            .sndbuf_limited_us
            .saturating_add(more.sndbuf_limited_us);
    }

    pub(crate) fn check(&self) -> Result<(), ProtocolError> {
        let others = [
            self.delayed_ns,
            self.busy_us,
            self.rwnd_limited_us,
            self.sndbuf_limited_us,
        ];
        let all = self.wall_ns.iter().chain(&self.cpu_ns);
        let within = all.chain(&others).all(|&time| time <= MAX_SPENT_NS);
        match within {
            true => Ok(()),
            false => Err(ProtocolError("a time that no copy takes")),
        }
    }
}
