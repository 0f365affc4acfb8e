//! The record of a simulation.

use serde::Serialize;

/// The window at the end of a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Round {
    /// The end of the round trip, ns since the start.
    pub t_ns: u64,
    /// Congestion window, segments.
    pub cwnd_segments: u32,
    /// Where slow start ends, segments; absent while nothing has ended it.
    pub ssthresh_segments: Option<u32>,
    /// RTT of the segment that ended the round, ns.
    pub rtt_ns: u64,
}

/// The algorithm's answer to a loss, or to several losses of one round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cut {
    /// The time at which the loss was found, ns since the start.
    pub t_ns: u64,
    /// The window before the loss, segments.
    pub before_segments: u32,
    /// The window when the loss is repaired, segments.
    pub after_segments: u32,
}

/// A whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// The round trips in order of time. The first is the start.
    pub rounds: Vec<Round>,
    /// The cuts in order of time.
    pub cuts: Vec<Cut>,
}
