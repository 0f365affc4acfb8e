//! Compares what is due, by rate and time, with what was sent. This is the reference model of `schedule.h`.
//!
//! Linux spaces packets by a timer each. If the timer is late, Linux shortens the next wait by half a packet's time
//! at most (6.18 `net/ipv4/tcp_output.c`, `tcp_update_skb_after_send`). The rest of the delay would be lost for good.
//! The schedule catches up with it: n packets behind, it sends n times as fast, up to [`CATCH_UP_MAX`]. A delay
//! beyond the depth, [`LATE_US`] or two packets if these take longer, is given up. So in any time t it sends rate ×
//! t, the depth and two packets at most. n packets ahead, it sends at an n-th of the rate, so that it is on time with
//! the next packet.

/// The delay of timers and ACKs that is caught up with, µs.
pub const LATE_US: u64 = 10_000;

/// The largest factor by which the rate is raised.
pub const CATCH_UP_MAX: u64 = 4;

/// The largest packet of segmentation offload, bytes.
const OFFLOAD_MAX: u64 = 1 << 16;

/// The schedule of one connection.
#[derive(Debug, Clone)]
pub struct Schedule {
    rate_bytes_per_s: u64,
    began: bool,
    now_ns: u64,
    behind_ns: i64,
    sent_bytes: u64,
    packet_ns: i64,
    written: u64,
}

/// The state of a connection just before a packet may leave.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// When the next packet may leave: now, or when pacing allows it.
    pub now_ns: u64,
    /// Bytes sent on the wire since the connection began.
    pub sent_bytes: u64,
    /// Bytes of payload that have been sent at least once, since the connection began.
    pub sent_first: u64,
    /// Bytes of payload that the application has written since the connection began.
    pub written: u64,
}

impl Schedule {
    /// A schedule that begins with the first update.
    #[must_use]
    pub fn new(rate_bytes_per_s: u64) -> Self {
        Schedule {
            rate_bytes_per_s: rate_bytes_per_s.max(1),
            began: false,
            now_ns: 0,
            behind_ns: 0,
            sent_bytes: 0,
            packet_ns: 0,
            written: 0,
        }
    }

    /// The longest delay that is caught up with, for packets like the last one, ns.
    #[must_use]
    pub fn depth_ns(&self) -> i64 {
        (2 * self.packet_ns()).max(LATE_US as i64 * 1_000)
    }

    /// The rate for the packet that leaves next, bytes per second on the wire.
    pub fn follow(&mut self, look: &Look) -> u64 {
        let rate = self.rate_bytes_per_s;
        let bytes = look.sent_bytes - self.sent_bytes;
        let mut behind_ns = 0;
        if self.began {
            behind_ns = self.behind_ns + (look.now_ns - self.now_ns) as i64
                - (bytes * 1_000_000_000 / rate) as i64;
        }
        if bytes > 0 {
            self.packet_ns = (bytes.min(OFFLOAD_MAX) * 1_000_000 / rate * 1_000) as i64;
        }
        let all_sent = look.sent_first >= self.written;
        let (packet_ns, depth_ns) = (self.packet_ns(), self.depth_ns());
        let most_ns = if all_sent { 0 } else { depth_ns };
        self.behind_ns = behind_ns.max(-depth_ns).min(most_ns);
        self.began = true;
        self.now_ns = look.now_ns;
        self.sent_bytes = look.sent_bytes;
        self.written = look.written;
        match self.behind_ns {
            ahead_ns if ahead_ns < -packet_ns => rate * packet_ns as u64 / -ahead_ns as u64,
            behind_ns if behind_ns <= packet_ns => rate,
            behind_ns => (behind_ns as u64 * rate / packet_ns as u64).min(CATCH_UP_MAX * rate),
        }
    }

    fn packet_ns(&self) -> i64 {
        self.packet_ns.max(1_000)
    }
}
