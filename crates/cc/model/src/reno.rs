//! Reno: one segment a round trip, half of the window at a loss.
//!
//! Source: RFC 5681 §3; Linux 6.18 `net/ipv4/tcp_cong.c`, `tcp_reno_cong_avoid`, `tcp_reno_ssthresh`.
//! Deviations: those of the crate.

use crate::{Ack, Control, Window};

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Reno;

impl Control for Reno {
    fn acked(&mut self, window: &mut Window, ack: &Ack) {
        if ack.recovering {
            return;
        }
        let mut acked = ack.acked;
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked > 0 {
            window.avoid(window.cwnd, acked);
        }
    }

    fn cut(&mut self, window: &Window, _now_us: u64) -> u32 {
        window.share(1, 2)
    }
}
