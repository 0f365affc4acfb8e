//! The congestion window and the two ways it grows.
//!
//! Source: Linux 6.18 `net/ipv4/tcp_cong.c`, `tcp_slow_start` and `tcp_cong_avoid_ai`; RFC 5681 §3.1.

/// The congestion window of one connection, segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// How much may be in flight.
    pub cwnd: u32,
    /// The window at which slow start ends; [`Window::NO_THRESHOLD`] while nothing has ended it.
    pub ssthresh: u32,
    /// Segments acknowledged towards the next growth of `cwnd`.
    pub count: u32,
    /// The largest window.
    pub clamp: u32,
}

impl Window {
    /// No cut goes below this.
    pub const FLOOR: u32 = 2;
    /// Linux's `TCP_INFINITE_SSTHRESH`.
    pub const NO_THRESHOLD: u32 = 0x7fff_ffff;

    /// A window of `cwnd` segments, in slow start up to `ssthresh`.
    #[must_use]
    pub fn new(cwnd: u32, ssthresh: Option<u32>) -> Self {
        Window {
            cwnd: cwnd.max(Self::FLOOR),
            ssthresh: ssthresh.unwrap_or(Self::NO_THRESHOLD),
            count: 0,
            clamp: u32::MAX / 128,
        }
    }

    /// Whether slow start goes on.
    #[must_use]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by slow start up to the threshold, and beyond it by `avoid` with the segments that are left over.
    pub fn grow(&mut self, acked: u32, avoid: impl FnOnce(&mut Self, u32)) {
        let left = match self.in_slow_start() {
            true => self.slow_start(acked),
            false => acked,
        };
        if left > 0 {
            avoid(self, left);
        }
    }

    /// Grows by what was acknowledged, up to the threshold. Returns what is left over.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (grown - self.cwnd);
        self.cwnd = grown.min(self.clamp);
        left
    }

    /// Grows by one segment for each `per` acknowledged.
    pub fn avoid(&mut self, per: u32, acked: u32) {
        if self.count >= per {
            self.count = 0;
            self.cwnd += 1;
        }
        self.count += acked;
        self.cwnd = (self.cwnd + self.count / per).min(self.clamp);
        self.count %= per;
    }

    /// A share of the window in 1/`of`, rounded down, but not below the floor.
    #[must_use]
    pub fn share(&self, part: u64, of: u64) -> u32 {
        ((u64::from(self.cwnd) * part / of) as u32).max(Self::FLOOR)
    }
}
