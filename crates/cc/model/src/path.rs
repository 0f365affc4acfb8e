//! The path of a simulated connection.

use thiserror::Error;

/// The direction of the data: its rate, RTT and queue. They may change while a simulation runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// RTT of the idle path without serialisation, ns.
    pub rtt_ns: u64,
    /// Time of a segment on the bottleneck, ns; 0 if nothing limits the rate.
    pub segment_ns: u64,
    /// The most segments that wait at the bottleneck; absent: no limit.
    pub queue_segments: Option<u64>,
    /// Segments that an ACK acknowledges in the mean if nothing is lost, at least 1. With receive offload there are
    /// many.
    pub ack_segments: f64,
    /// One out of this many segments is lost. The lost ones are random, and the same in each run; absent: none.
    pub lose_one_of: Option<u64>,
}

/// A path that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("path: {0}")]
pub struct PathError(&'static str);

impl Path {
    /// A path of `rate_bps` (absent: unlimited) for segments of `wire_bytes`.
    pub fn new(rtt_ns: u64, rate_bps: Option<u64>, wire_bytes: u32) -> Result<Self, PathError> {
        if !(1_000..=100_000_000_000).contains(&rtt_ns) {
            return Err(PathError("the RTT must be 1 µs to 100 s"));
        }
        if rate_bps == Some(0) {
            return Err(PathError("the rate is 0; leave it out for no limit"));
        }
        let bits_ns = u64::from(wire_bytes) * 8_000_000_000;
        Ok(Path {
            rtt_ns,
            segment_ns: rate_bps.map_or(0, |rate_bps| bits_ns.div_ceil(rate_bps)),
            queue_segments: None,
            ack_segments: 1.0,
            lose_one_of: None,
        })
    }

    /// Whether the segment of this number is lost at random: its number, mixed as in SplitMix64.
    pub(crate) fn loses(&self, number: u64) -> bool {
        let Some(one_of) = self.lose_one_of else {
            return false;
        };
        let mut mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).is_multiple_of(one_of)
    }

    /// Segments in one RTT at the full rate; absent if nothing limits the rate.
    #[must_use]
    pub fn bdp_segments(&self) -> Option<u64> {
        self.rtt_ns.checked_div(self.segment_ns)
    }
}
