//! H-TCP: the longer the time since the last loss, the faster the window grows. A loss takes as much as the queue
//! had.
//!
//! Source: R. N. Shorten, D. J. Leith, "H-TCP: TCP for high-speed and long-distance networks", Proc.
//! PFLDnet, 2004; Linux 6.18 `net/ipv4/tcp_htcp.c`, whose constants and roundings these are.
//!
//! - Growth a round trip: α = 2 (1 − β) f, with f = 1 in the first second Δ after a loss was repaired and
//!   1 + 10 (Δ − 1) + ((Δ − 1)/2)² later; f is divided by RTT/100 ms turned round, kept to 0.5…10.
//! - Back-off: β = least RTT / largest RTT, kept to 0.5…0.8; 0.5 where the throughput before the loss
//!   differs from that before the loss before by more than a fifth.
//!
//! Deviations beside those of the crate: none from Linux. Of the paper, Linux grows by at most one segment
//! for each two ACKs, so that with receive offload, where an ACK stands for many segments, it is slower.

use crate::{About, Ack, AfterLoss, Control, Model, Parameter, Values, Window};

/// What is known of H-TCP.
pub const ABOUT: About = About {
    title: "H-TCP",
    summary: "H-TCP (Leith and Shorten 2004): grows faster the longer no loss came",
    in_linux: true,
    growth: "faster, the longer no loss came",
    after_loss: AfterLoss::Between((BETA_MIN, ONE), (BETA_MAX, ONE)),
    fair_beside_reno: "below 1 s between losses",
    parameters: Htcp::PARAMETERS,
    model: Model::Free(|values| Box::new(Htcp::new(values))),
};

const RTT_SCALING: Parameter = Parameter::switch(
    "rtt_scaling",
    "growth by time, not by round trips, as far as it goes",
);
const BANDWIDTH_SWITCH: Parameter = Parameter::switch(
    "bandwidth_switch",
    "halve when the throughput between losses changed by a fifth",
);
/// α and β count in 1/128; β is kept to these.
const ONE: u64 = 128;
const BETA_MIN: u64 = 64;
const BETA_MAX: u64 = 102;
const SECOND_US: u64 = 1_000_000;
/// What the largest RTT may rise at once.
const LARGEST_RISE_US: u64 = 20_000;
/// Below this RTT the back-off is not adapted.
const ADAPTED_FROM_US: u64 = 10_000;

/// H-TCP for one connection.
#[derive(Debug, Clone)]
pub struct Htcp {
    rtt_scaling: bool,
    bandwidth_switch: bool,
    alpha: u64,
    beta: u64,
    /// The second loss at an even throughput is the first whose back-off is adapted.
    adapting: bool,
    min_rtt_us: u64,
    max_rtt_us: u64,
    last_loss_us: u64,
    throughput: Throughput,
}

/// Segments per second, as measured over each window.
#[derive(Debug, Clone, Default)]
struct Throughput {
    since_us: u64,
    segments: u64,
    mean: u64,
    largest: u64,
    largest_before: u64,
}

impl Htcp {
    /// The parameters that can be set.
    pub const PARAMETERS: &[Parameter] = &[RTT_SCALING, BANDWIDTH_SWITCH];

    /// A fresh control, with values of [`Self::PARAMETERS`].
    #[must_use]
    pub fn new(values: &Values) -> Self {
        Htcp {
            rtt_scaling: values.on(&RTT_SCALING),
            bandwidth_switch: values.on(&BANDWIDTH_SWITCH),
            alpha: ONE,
            beta: BETA_MIN,
            adapting: false,
            min_rtt_us: 0,
            max_rtt_us: 0,
            last_loss_us: 0,
            throughput: Throughput::default(),
        }
    }

    fn measure(&mut self, cwnd: u32, ack: &Ack) {
        if self.min_rtt_us == 0 || ack.rtt_us < self.min_rtt_us {
            self.min_rtt_us = ack.rtt_us;
        }
        if !ack.recovering {
            self.max_rtt_us = self.max_rtt_us.max(self.min_rtt_us);
            if ack.rtt_us <= self.max_rtt_us + LARGEST_RISE_US {
                self.max_rtt_us = self.max_rtt_us.max(ack.rtt_us);
            }
        }
        if self.bandwidth_switch {
            self.measure_throughput(cwnd, ack);
        }
    }

    fn measure_throughput(&mut self, cwnd: u32, ack: &Ack) {
        let now = &mut self.throughput;
        if ack.recovering {
            (now.segments, now.since_us) = (0, ack.now_us);
            return;
        }
        now.segments += u64::from(ack.acked);
        let span_us = ack.now_us - now.since_us;
        let window = u64::from(cwnd).saturating_sub((self.alpha / ONE).max(1));
        if now.segments < window || span_us < self.min_rtt_us {
            return;
        }
        let measured = now.segments * SECOND_US / span_us;
        if (ack.now_us - self.last_loss_us) / self.min_rtt_us <= 3 {
            (now.mean, now.largest) = (measured, measured);
        } else {
            now.mean = (3 * now.mean + measured) / 4;
            now.largest = now.largest.max(now.mean);
        }
        (now.segments, now.since_us) = (0, ack.now_us);
    }

    fn update_beta(&mut self) {
        let now = &mut self.throughput;
        let before = std::mem::replace(&mut now.largest_before, now.largest);
        let even = (4 * before..=6 * before).contains(&(5 * now.largest));
        if self.bandwidth_switch && !even {
            self.beta = BETA_MIN;
            self.adapting = false;
        } else if self.adapting && self.min_rtt_us > ADAPTED_FROM_US && self.max_rtt_us > 0 {
            let ratio = self.min_rtt_us * ONE / self.max_rtt_us;
            self.beta = ratio.clamp(BETA_MIN, BETA_MAX);
        } else {
            self.beta = BETA_MIN;
            self.adapting = true;
        }
    }

    fn update_alpha(&mut self, now_us: u64) {
        let mut factor = 1;
        if let Some(late_us) = (now_us - self.last_loss_us).checked_sub(SECOND_US) {
            factor += (10 * late_us + (late_us / 2).pow(2) / SECOND_US) / SECOND_US;
        }
        if self.rtt_scaling && self.min_rtt_us > 0 {
            let eighths = (8 * SECOND_US / (10 * self.min_rtt_us)).clamp(4, 80);
            factor = (8 * factor / eighths).max(1);
        }
        self.alpha = 2 * factor * (ONE - self.beta);
    }
}

impl Control for Htcp {
    fn acked(&mut self, window: &mut Window, ack: &Ack) {
        self.measure(window.cwnd, ack);
        if ack.recovering {
            return;
        }
        if window.in_slow_start() {
            window.slow_start(ack.acked);
            return;
        }
        if u64::from(window.count) * self.alpha / ONE < u64::from(window.cwnd) {
            window.count += ack.acked;
            return;
        }
        window.count = 0;
        window.cwnd = (window.cwnd + 1).min(window.clamp);
        self.update_alpha(ack.now_us);
    }

    fn cut(&mut self, window: &Window, now_us: u64) -> u32 {
        self.update_beta();
        self.update_alpha(now_us);
        let queue_us = self.max_rtt_us.saturating_sub(self.min_rtt_us);
        self.max_rtt_us -= queue_us - queue_us * 95 / 100;
        self.last_loss_us = now_us;
        window.share(self.beta, ONE)
    }

    fn repaired(&mut self, now_us: u64) {
        self.last_loss_us = now_us;
    }
}
