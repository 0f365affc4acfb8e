//! Reno: one segment a round trip, half of the window at a loss.
//!
//! Source: RFC 5681 §3; Linux 6.18 `net/ipv4/tcp_cong.c`, `tcp_reno_cong_avoid`, `tcp_reno_ssthresh`.
//! Deviations: those of the crate.

use crate::{About, Ack, AfterLoss, Control, Model, Window};

/// What is known of Reno.
pub const ABOUT: About = About {
    title: "Reno",
    summary: "Reno (RFC 5681): grows by one segment a round trip, falls by half",
    in_linux: true,
    growth: "1 segment a round trip",
    after_loss: AfterLoss::Leaves(1, 2),
    fair_beside_reno: "yes",
    parameters: &[],
    model: Model::Free(|_| Box::new(Reno)),
};

/// Reno, which keeps no state beside the window.
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
