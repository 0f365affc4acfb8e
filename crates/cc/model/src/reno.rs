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
        if !ack.recovering {
            window.grow(ack.acked, |window, left| window.avoid(window.cwnd, left));
        }
    }

    fn cut(&mut self, window: &Window, _now_us: u64) -> u32 {
        window.share(1, 2)
    }
}
