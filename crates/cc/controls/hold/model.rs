//! Hold: a given window, for paths with a guaranteed rate. No slow start, no cut, paced.
//!
//! Source: the fixed share of a guaranteed path of LSST (a window in packets, set from outside). Added to it: a
//! window from the measured RTT, and a fallback for a path that does not keep its guarantee.
//!
//! - The window is that of the [`Target`] from the first segment on. A change takes effect at the next ACK.
//! - While the window shrinks to a smaller target, there is room for [`AHEAD`] segments beyond what is in flight. So
//!   the new pacing begins at once. With a window below what is in flight the sender would stop first.
//! - A rate becomes a window by the base RTT and [`LATE_US`]. The base RTT is the least of the last `base_rtt_window`
//!   (at least four round trips), kept in two halves. A longer path takes effect after half of it to all of it, a
//!   shorter one at once.
//! - Segments are paced by the rate. Those of a window are paced evenly over the base RTT. Timers are never late
//!   here; [`Schedule`] handles late ones.
//! - Guard: see [`Guard`]. In the fallback the flow is Reno from half its window on, below the target.
//!
//! Deviations beside those of the crate: in the fallback a loss takes effect at once, and not over a round trip.

mod schedule;

pub use schedule::{CATCH_UP_MAX, LATE_US, Look, Schedule};

use crate::{
    About, Ack, AfterLoss, Control, Model, Parameter, Unit, Values, Window, controls::reno::Reno,
};

/// The description of hold.
pub const ABOUT: About = About {
    title: "Hold",
    summary: "A held window or rate for a guaranteed path: no slow start, no cut on loss",
    in_linux: false,
    growth: "none: the window is given",
    after_loss: AfterLoss::Takes(0, 1),
    fair_beside_reno: "no: guaranteed paths only",
    parameters: Hold::PARAMETERS,
    model: Model::Held(|target, values| Box::new(Hold::new(target, values))),
};

const HEADROOM: Parameter = Parameter::count(
    "headroom",
    (10, 0, 1000),
    "window beyond rate × (base RTT + 10 ms)",
)
.in_unit(Unit::PerMille);
const FRAME_OVERHEAD: Parameter = Parameter::count(
    "frame_overhead",
    (38, 0, 1000),
    "bytes on the wire beside each IP packet",
)
.in_unit(Unit::Bytes);
const BASE_RTT_WINDOW: Parameter = Parameter::count(
    "base_rtt_window",
    (2_000_000, 10_000, 600_000_000),
    "how long the least RTT counts as the path's",
)
.in_unit(Unit::Microseconds);
const GUARD_LOSS: Parameter = Parameter::count(
    "guard_loss",
    (100_000, 1_000, 1_000_000),
    "share of loss that a round trip may have",
)
.in_unit(Unit::PerMillion);
const GUARD_ROUNDS: Parameter = Parameter::count(
    "guard_rounds",
    (8, 1, 1_000),
    "round trips in a row above it until the flow falls back",
);
const RETURN_ROUNDS: Parameter = Parameter::count(
    "return_rounds",
    (32, 1, 1_000),
    "round trips in a row below half of it until it is held again",
);

/// The room in segments beyond what is in flight while a window shrinks. A packet of segmentation offload has fewer.
pub const AHEAD: u64 = 64;

/// What is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A window, segments.
    Window(u32),
    /// A rate on the wire.
    Rate {
        /// Bits per second.
        rate_bps: u64,
        /// A full segment as an IP packet; `frame_overhead` comes on top.
        packet_bytes: u32,
    },
}

/// A held window or rate for one connection.
#[derive(Debug, Clone)]
pub struct Hold {
    target: Target,
    headroom: u64,
    frame_overhead: u64,
    base_rtt: BaseRtt,
    guard: Guard,
    pacing_per_s: Option<f64>,
}

impl Hold {
    /// The parameters that can be set beside the target.
    pub const PARAMETERS: &[Parameter] = &[
        HEADROOM,
        FRAME_OVERHEAD,
        BASE_RTT_WINDOW,
        GUARD_LOSS,
        GUARD_ROUNDS,
        RETURN_ROUNDS,
    ];

    /// Holds `target`, with values of [`Self::PARAMETERS`].
    #[must_use]
    pub fn new(target: Target, values: &Values) -> Self {
        Hold {
            target,
            headroom: values.get(&HEADROOM),
            frame_overhead: values.get(&FRAME_OVERHEAD),
            base_rtt: BaseRtt {
                window_us: values.get(&BASE_RTT_WINDOW),
                ..BaseRtt::default()
            },
            guard: Guard {
                loss_ppm: values.get(&GUARD_LOSS),
                rounds: values.get(&GUARD_ROUNDS),
                return_rounds: values.get(&RETURN_ROUNDS),
                ..Guard::default()
            },
            pacing_per_s: None,
        }
    }

    /// Sets another target, which also ends a fallback.
    pub fn aim(&mut self, target: Target) {
        self.target = target;
        self.guard.forgive();
    }

    /// Whether the flow is in the fallback to Reno, because of too much loss.
    #[must_use]
    pub fn fallen_back(&self) -> bool {
        self.guard.fallen
    }

    /// What the target comes to at the base RTT: window in segments, pacing in segments per second.
    fn reckon(&self) -> (u32, f64) {
        let rtt_us = self.base_rtt.us();
        let (window, per_s) = match self.target {
            Target::Window(window) => (u64::from(window), f64::from(window) * 1e6 / rtt_us as f64),
            Target::Rate {
                rate_bps,
                packet_bytes,
            } => {
                let wire_bytes = u64::from(packet_bytes) + self.frame_overhead;
                let per_s = rate_bps as f64 / 8.0 / wire_bytes as f64;
                let fits = (per_s * (rtt_us + LATE_US) as f64 / 1e6) as u64;
                (fits + fits * self.headroom / 1000 + 1, per_s)
            }
        };
        (
            window.clamp(Window::FLOOR.into(), u32::MAX.into()) as u32,
            per_s,
        )
    }

    fn hold(&mut self, window: &mut Window, in_flight: u64) {
        let (segments, per_s) = self.reckon();
        let room = u32::try_from(in_flight + AHEAD).unwrap_or(u32::MAX);
        let draining = match in_flight > u64::from(segments) {
            true => window.cwnd.min(room),
            false => 0,
        };
        window.cwnd = segments.max(draining).min(window.clamp);
        self.pacing_per_s = Some(per_s);
    }

    fn fall(&mut self, window: &mut Window) {
        window.ssthresh = window.share(1, 2);
        window.cwnd = window.ssthresh;
        window.count = 0;
    }

    fn ordinary(&mut self, window: &mut Window, ack: &Ack) {
        match ack.recovering {
            true => window.cwnd = window.cwnd.min(window.ssthresh),
            false => Reno.acked(window, ack),
        }
        window.cwnd = window.cwnd.min(self.reckon().0);
        self.pacing_per_s = None;
    }
}

impl Control for Hold {
    fn begin(&mut self, window: &mut Window, rtt_us: u64) {
        self.base_rtt.take(0, rtt_us);
        self.hold(window, 0);
    }

    fn acked(&mut self, window: &mut Window, ack: &Ack) {
        self.base_rtt.take(ack.now_us, ack.rtt_us);
        let fallen = self.guard.fallen;
        self.guard.take(ack, self.base_rtt.smoothed_us);
        match (fallen, self.guard.fallen) {
            (_, false) => self.hold(window, ack.in_flight),
            (false, true) => self.fall(window),
            (true, true) => self.ordinary(window, ack),
        }
    }

    fn cut(&mut self, window: &Window, now_us: u64) -> u32 {
        match self.guard.fallen {
            true => Reno.cut(window, now_us),
            false => window.cwnd,
        }
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn pacing_per_s(&self) -> Option<f64> {
        self.pacing_per_s
    }
}

/// The least RTT of this half of the memory and the half before.
#[derive(Debug, Clone, Default)]
struct BaseRtt {
    window_us: u64,
    smoothed_us: u64,
    since_us: u64,
    newer_us: Option<u64>,
    older_us: Option<u64>,
}

impl BaseRtt {
    fn take(&mut self, now_us: u64, rtt_us: u64) {
        self.smoothed_us = match self.smoothed_us {
            0 => rtt_us,
            smoothed_us => (7 * smoothed_us + rtt_us) / 8,
        };
        if now_us - self.since_us > (self.window_us / 2).max(2 * self.smoothed_us) {
            self.since_us = now_us;
            self.older_us = self.newer_us.take();
        }
        self.newer_us = Some(
            self.newer_us
                .map_or(rtt_us, |least_us| least_us.min(rtt_us)),
        );
    }

    fn us(&self) -> u64 {
        let least_us = self.newer_us.into_iter().chain(self.older_us).min();
        least_us.unwrap_or(self.smoothed_us).max(1)
    }
}

/// Falls back when `rounds` round trips in a row each lost more than `loss_ppm`. Returns after `return_rounds` in a
/// row that lost at most half of that. Each further fall that follows soon doubles this wait, because a smaller
/// window may not show the loss that the held one causes. In a round trip of few segments the loss is not measured.
#[derive(Debug, Clone, Default)]
struct Guard {
    loss_ppm: u64,
    rounds: u64,
    return_rounds: u64,
    fallen: bool,
    doublings: u32,
    round_us: u64,
    delivered: u64,
    lost: u64,
    bad: u64,
    good: u64,
}

impl Guard {
    const LEAST_SEGMENTS: u64 = 8;
    /// After this many calm round trips the last fall does not count as recent any more.
    const CALM_ROUNDS: u64 = 100;
    const MOST_DOUBLINGS: u32 = 6;

    fn take(&mut self, ack: &Ack, round_us: u64) {
        if ack.now_us - self.round_us < round_us {
            return;
        }
        let lost = ack.lost - self.lost;
        let segments = ack.delivered - self.delivered + lost;
        (self.round_us, self.delivered, self.lost) = (ack.now_us, ack.delivered, ack.lost);
        if segments >= Self::LEAST_SEGMENTS {
            self.judge(lost * 1_000_000 / segments);
        }
    }

    fn judge(&mut self, loss_ppm: u64) {
        let limit_ppm = self.loss_ppm >> u32::from(self.fallen);
        (self.bad, self.good) = match loss_ppm > limit_ppm {
            true => (self.bad + 1, 0),
            false => (0, self.good + 1),
        };
        if !self.fallen && self.bad >= self.rounds {
            (self.fallen, self.bad) = (true, 0);
        } else if !self.fallen && self.good >= Self::CALM_ROUNDS {
            self.doublings = 0;
        } else if self.fallen && self.good >= self.return_rounds << self.doublings {
            (self.fallen, self.good) = (false, 0);
            self.doublings = (self.doublings + 1).min(Self::MOST_DOUBLINGS);
        }
    }

    fn forgive(&mut self) {
        (self.fallen, self.doublings) = (false, 0);
        (self.bad, self.good) = (0, 0);
    }
}
