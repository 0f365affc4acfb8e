//! HyStart: slow start ends when the path is full, before the queue is.
//!
//! Source: S. Ha, I. Rhee, "Taming the Elephants: New TCP Slow Start", Computer Networks 55(9), 2011;
//! Linux 6.18 `net/ipv4/tcp_cubic.c`, `hystart_update`.
//!
//! Deviations beside those of the crate:
//! - Linux allows a train of ACKs a cushion for offload, at most 1 ms; here it is 1 ms.
//! - The sender is not paced.

use crate::Ack;

const SMALLEST_WINDOW: u32 = 16;
/// ACKs closer than this belong to one train.
const TRAIN_GAP_US: u64 = 2_000;
const CUSHION_US: u64 = 1_000;
const SAMPLES: u32 = 8;
const LEAST_RISE_US: u64 = 4_000;
const LARGEST_RISE_US: u64 = 16_000;

/// The state of one connection in slow start.
#[derive(Debug, Clone, Default)]
pub(crate) struct HyStart {
    round_start_us: u64,
    /// The round ends with the first segment that was sent when this many had been delivered.
    round_ends: u64,
    train_us: u64,
    round_rtt_us: Option<u64>,
    samples: u32,
    found: bool,
}

impl HyStart {
    /// True once: when the train of ACKs is half a round trip long, or the RTT has risen.
    pub fn path_is_full(&mut self, cwnd: u32, ack: &Ack, min_rtt_us: u64) -> bool {
        if self.found {
            return false;
        }
        if ack.delivered_when_sent >= self.round_ends {
            *self = HyStart {
                round_start_us: ack.now_us,
                round_ends: ack.delivered,
                train_us: ack.now_us,
                ..HyStart::default()
            };
        }
        self.found = cwnd >= SMALLEST_WINDOW
            && (self.train_is_long(ack, min_rtt_us) | self.rtt_has_risen(ack, min_rtt_us));
        self.found
    }

    fn train_is_long(&mut self, ack: &Ack, min_rtt_us: u64) -> bool {
        if ack.now_us - self.train_us > TRAIN_GAP_US {
            return false;
        }
        self.train_us = ack.now_us;
        ack.now_us - self.round_start_us > (min_rtt_us + CUSHION_US) / 2
    }

    fn rtt_has_risen(&mut self, ack: &Ack, min_rtt_us: u64) -> bool {
        let least_us = self
            .round_rtt_us
            .map_or(ack.rtt_us, |rtt| rtt.min(ack.rtt_us));
        self.round_rtt_us = Some(least_us);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        let rise_us = (min_rtt_us / 8).clamp(LEAST_RISE_US, LARGEST_RISE_US);
        least_us > min_rtt_us + rise_us
    }
}
