//! CUBIC: after a loss the window follows a cubic of time, flat where the last loss was.
//!
//! Source: RFC 9438; S. Ha, I. Rhee, L. Xu, "CUBIC: A New TCP-Friendly High-Speed TCP Variant", ACM SIGOPS OSR 42(5),
//! 2008; Linux 6.18 `net/ipv4/tcp_cubic.c`. Constants and roundings are those of Linux.
//!
//! Deviations beside those of the crate:
//! - The cube root is exact; Linux's is within 0.2 %.
//! - Linux takes a new value of the cubic at most once a jiffy.
//! - Nothing shifts the epoch, as the sender is never idle.

mod hystart;

use crate::{About, Ack, AfterLoss, Control, Model, Parameter, Values, Window};
use hystart::HyStart;

/// What is known of CUBIC.
pub const ABOUT: About = About {
    title: "CUBIC",
    summary: "CUBIC (RFC 9438): grows by a cubic of the time since the loss, falls by three tenths",
    in_linux: true,
    growth: "a cubic of the time since the loss",
    after_loss: AfterLoss::Leaves(717, 1024),
    fair_beside_reno: "yes",
    parameters: Cubic::PARAMETERS,
    model: Model::Free(|values| Box::new(Cubic::new(values))),
};

const BETA: Parameter = Parameter::count(
    "beta",
    (717, 1, 1023),
    "a loss leaves so many 1/1024 of the window",
);
const SCALE: Parameter = Parameter::count(
    "scale",
    (41, 1, 1000),
    "C of the cubic, 1/102.4 segments/s³; 41 is 0.4",
);
const FAST_CONVERGENCE: Parameter = Parameter::switch(
    "fast_convergence",
    "a loss below the window of the loss before lowers the flat part further",
);
const FRIENDLINESS: Parameter =
    Parameter::switch("friendliness", "never slower than Reno would be");
const HYSTART: Parameter = Parameter::switch(
    "hystart",
    "slow start ends when a train of ACKs or the RTT says that the path is full",
);

const SECOND_US: u64 = 1_000_000;
/// The window is looked at again after so long, though it has not grown.
const STALE_US: u64 = SECOND_US / 32;
/// Without a loss to aim at, at least 5 % a round trip.
const BLIND_EVERY: u32 = 20;
/// At most half of the window a round trip.
const FASTEST_EVERY: u32 = 2;

/// CUBIC for one connection.
#[derive(Debug, Clone)]
pub struct Cubic {
    beta: u64,
    scale: u64,
    fast_convergence: bool,
    friendliness: bool,
    hystart: Option<HyStart>,
    min_rtt_us: Option<u64>,
    /// Where the cubic is flat: window of the last loss; 0 before the first.
    last_max: u32,
    epoch: Option<Epoch>,
    last_cwnd: u32,
    last_us: u64,
    /// One segment of growth for each so many acknowledged.
    every: u32,
}

/// The time since a loss was repaired.
#[derive(Debug, Clone)]
struct Epoch {
    start_us: u64,
    /// From the start to the flat part, 1/1024 s.
    flat_after: u64,
    flat_at: u32,
    acked: u32,
    /// What Reno's window would be.
    reno: u32,
}

impl Cubic {
    /// The parameters that can be set.
    pub const PARAMETERS: &[Parameter] = &[BETA, SCALE, FAST_CONVERGENCE, FRIENDLINESS, HYSTART];

    /// A fresh control, with values of [`Self::PARAMETERS`].
    #[must_use]
    pub fn new(values: &Values) -> Self {
        Cubic {
            beta: values.get(&BETA),
            scale: values.get(&SCALE),
            fast_convergence: values.on(&FAST_CONVERGENCE),
            friendliness: values.on(&FRIENDLINESS),
            hystart: values.on(&HYSTART).then(HyStart::default),
            min_rtt_us: None,
            last_max: 0,
            epoch: None,
            last_cwnd: 0,
            last_us: 0,
            every: 1,
        }
    }

    fn measure(&mut self, window: &mut Window, ack: &Ack) {
        let fresh = |epoch: &Epoch| ack.now_us - epoch.start_us < SECOND_US;
        if self.epoch.as_ref().is_some_and(fresh) {
            return;
        }
        let least_us = self
            .min_rtt_us
            .map_or(ack.rtt_us, |rtt| rtt.min(ack.rtt_us));
        self.min_rtt_us = Some(least_us);
        if window.in_slow_start()
            && let Some(hystart) = &mut self.hystart
            && hystart.path_is_full(window.cwnd, ack, least_us)
        {
            window.ssthresh = window.cwnd;
        }
    }

    fn update(&mut self, cwnd: u32, now_us: u64, acked: u32) {
        if let Some(epoch) = &mut self.epoch {
            epoch.acked += acked;
        }
        if self.last_cwnd == cwnd && now_us - self.last_us <= STALE_US {
            return;
        }
        (self.last_cwnd, self.last_us) = (cwnd, now_us);
        let mut epoch = match self.epoch.take() {
            Some(epoch) => epoch,
            None => Epoch {
                start_us: now_us,
                flat_after: self.time_to_grow(self.last_max.saturating_sub(cwnd)),
                flat_at: self.last_max.max(cwnd),
                acked,
                reno: cwnd,
            },
        };
        let since_us = now_us - epoch.start_us + self.min_rtt_us.unwrap_or(0);
        self.every = match self.cubic(&epoch, since_us).checked_sub(cwnd) {
            None | Some(0) => cwnd.saturating_mul(100),
            Some(missing) => cwnd / missing,
        };
        if self.last_max == 0 {
            self.every = self.every.min(BLIND_EVERY);
        }
        if self.friendliness {
            let per = self.reno_every(cwnd);
            let grown = epoch.acked.saturating_sub(1) / per;
            epoch.reno += grown;
            epoch.acked -= grown * per;
            if epoch.reno > cwnd {
                self.every = self.every.min(cwnd / (epoch.reno - cwnd));
            }
        }
        self.every = self.every.max(FASTEST_EVERY);
        self.epoch = Some(epoch);
    }

    /// The cubic `since_us` after the start of `epoch`, segments.
    fn cubic(&self, epoch: &Epoch, since_us: u64) -> u32 {
        let t = since_us * 1024 / SECOND_US;
        let away = u128::from(t.abs_diff(epoch.flat_after));
        let delta = (u128::from(self.scale * 10) * away.pow(3)) >> 40;
        let delta = u32::try_from(delta).unwrap_or(u32::MAX);
        match t < epoch.flat_after {
            true => epoch.flat_at.saturating_sub(delta),
            false => epoch.flat_at.saturating_add(delta),
        }
    }

    /// K: how long the cubic takes for its last `segments` up to the flat part, 1/1024 s.
    fn time_to_grow(&self, segments: u32) -> u64 {
        let factor = (1_u64 << 40) / (self.scale * 10);
        (factor as f64 * f64::from(segments)).cbrt() as u64
    }

    /// Reno with CUBIC's β grows by one for each so many acknowledged: W (1+β) / 3 (1−β).
    fn reno_every(&self, cwnd: u32) -> u32 {
        let eighths = 8 * (1024 + self.beta) / 3 / (1024 - self.beta);
        (u64::from(cwnd) * eighths / 8).max(1) as u32
    }
}

impl Control for Cubic {
    fn acked(&mut self, window: &mut Window, ack: &Ack) {
        self.measure(window, ack);
        if !ack.recovering {
            window.grow(ack.acked, |window, left| {
                self.update(window.cwnd, ack.now_us, left);
                window.avoid(self.every, left);
            });
        }
    }

    fn cut(&mut self, window: &Window, _now_us: u64) -> u32 {
        self.epoch = None;
        self.last_max = match window.cwnd < self.last_max && self.fast_convergence {
            true => window.share(1024 + self.beta, 2048),
            false => window.cwnd,
        };
        window.share(self.beta, 1024)
    }
}
