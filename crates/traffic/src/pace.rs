//! When each datagram of a rate is due, by the clock alone: what was late is made up for, so that the rate
//! is held over any time, and no rounding adds up.

use std::time::Duration;

/// What may leave together: datagrams of so much time, where the rate has several in it.
const TOGETHER: Duration = Duration::from_millis(1);

/// Datagrams of one length at one rate.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Of payload, per second.
    rate_bps: u128,
    /// From one datagram to the next, in units of 1/rate ns.
    step: u128,
}

impl Pace {
    /// `rate_bps` of payload in datagrams of `datagram_bytes`; neither is 0.
    pub fn new(rate_bps: u64, datagram_bytes: usize) -> Self {
        Self {
            rate_bps: rate_bps.max(1).into(),
            step: datagram_bytes.max(1) as u128 * 8 * 1_000_000_000,
        }
    }

    /// When datagram `number`, counted from 0, is due after the start.
    pub fn at(&self, number: u64) -> Duration {
        let ns = u128::from(number) * self.step / self.rate_bps;
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// How many are due `elapsed` after the start, that of this instant included.
    pub fn due(&self, elapsed: Duration) -> u64 {
        self.before(elapsed.as_nanos() + 1)
    }

    /// How many are due in a time, that of its last instant not included.
    pub fn within(&self, time: Duration) -> u64 {
        self.before(time.as_nanos())
    }

    /// How many may leave together, at least one.
    pub fn together(&self) -> u64 {
        self.within(TOGETHER).max(1)
    }

    fn before(&self, ns: u128) -> u64 {
        let count = (ns * self.rate_bps).div_ceil(self.step);
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}
