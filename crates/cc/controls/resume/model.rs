//! Careful Resume: a connection begins with what earlier ones carried; then CUBIC goes on.
//!
//! Source: RFC 9959, whose sections are named where each rule is. All connections that use a memory are one sender:
//! each has its part of the saved capacity, and [`Resume::follow`] says that another one had to retreat.
//!
//! Deviations beside those of the crate, all to the safe side:
//! - The window counts segments, so PipeSize does.
//! - It does not jump where the RTT says that somebody's queue stands on the path already.
//! - Validating takes two round trips. In the second half of each, the window grows, but no further than to the saved
//!   capacity, and not while the RTT says that a queue has grown. So what comes back in the second has shown whether
//!   there was room for the first growth; PipeSize does not count it. Slow start ends there, also under the next control.
//! - A retreat ends when all that was sent before it is acknowledged, not only what was sent unvalidated. What was lost
//!   meanwhile, or sent, does not count in PipeSize.
//! - Congestion takes effect with the next ACK.
//!
//! The program goes on with any control; the model with CUBIC.

use crate::{
    About, Ack, AfterLoss, Control, Model, Parameter, Unit, Values, Window, controls::cubic::Cubic,
};

/// What is known of Careful Resume.
pub const ABOUT: About = About {
    title: "Resume",
    summary: "Careful Resume (RFC 9959): begins with what earlier connections carried, then another control goes on",
    in_linux: false,
    growth: "one jump to half of what the path carried, then CUBIC's",
    after_loss: AfterLoss::Leaves(717, 1024),
    fair_beside_reno: "as CUBIC after the jump",
    parameters: Resume::PARAMETERS,
    model: Model::Resumed(|saved, values| Box::new(Resume::new(saved, values))),
};

const JUMP_PART: Parameter = Parameter::count(
    "jump_part",
    (500, 1, 1000),
    "how much of the saved capacity all streams together jump to",
)
.in_unit(Unit::PerMille);
const RETREAT_BETA: Parameter = Parameter::count(
    "retreat_beta",
    (717, 1, 1023),
    "after a retreat, slow start ends at so many 1/1024 of what got through",
);
const AGAIN: Parameter = Parameter::count(
    "again",
    (10_000_000, 1_000, 3_600_000_000),
    "how long after a jump its parts are free for other connections",
)
.in_unit(Unit::Microseconds);

/// What earlier connections carried: this connection's part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    /// Segments in flight.
    pub segments: u32,
    /// RTT of the path without a queue, µs.
    pub rtt_us: u64,
}

/// Where a connection is (RFC 9959, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Slow start until the first window is acknowledged, on a path like the saved one.
    Reconnaissance,
    /// The jump is being sent.
    Unvalidated,
    /// What was sent unvalidated is being acknowledged.
    Validating,
    /// The jump met congestion: half of what got through, until the rest is mended.
    Retreat,
    /// CUBIC goes on, for the reason.
    Normal(Why),
}

/// Why CUBIC goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nothing is known of the path.
    NoMemory,
    /// The RTT is unlike the saved one.
    OtherPath,
    /// The RTT says that a queue stands on the path.
    Queue,
    /// The window was as large without a jump.
    Small,
    /// There was congestion before the jump.
    Congested,
    /// The sender had too little data to use the jump.
    Unused,
    /// All of the jump was acknowledged.
    Validated,
    /// The retreat is over.
    Retreated,
}

/// An RTT that is an eighth longer tells of a queue that stands on the path, as HyStart has it.
const STANDING_SHIFT: u32 = 3;
/// A thirty-second tells of one that the jump has built.
const GROWN_SHIFT: u32 = 5;
const LEAST_RISE_US: u64 = 2_000;
const LAPS: u32 = 2;
const LARGEST_RISE_US: u64 = 16_000;

fn with_queue_us(rtt_us: u64, shift: u32) -> u64 {
    rtt_us + (rtt_us >> shift).clamp(LEAST_RISE_US, LARGEST_RISE_US)
}

/// A connection that resumes.
#[derive(Debug, Clone)]
pub struct Resume {
    saved: Option<Saved>,
    jump_part: u64,
    retreat_beta: u64,
    phase: Phase,
    first: u32,
    /// RFC 9959's PipeSize, segments.
    pipe: u32,
    least_rtt_us: u64,
    rtt_us: u64,
    smoothed_us: u64,
    jumped_us: u64,
    /// `delivered` at the jump. A segment that was sent later is a part of it.
    jumped_at: u64,
    /// Segments sent when the phase began. It ends when all of them are answered.
    mark: u64,
    /// `delivered` when the second half of a lap begins.
    late: u64,
    /// Of validating.
    lap: u32,
    /// What will have got through when a retreat ends, if nothing more is lost.
    through: u64,
    /// Segments lost when it began.
    lost: u64,
    another_retreats: bool,
    pacing_per_s: Option<f64>,
    then: Cubic,
}

impl Resume {
    /// The parameters that can be set.
    pub const PARAMETERS: &[Parameter] = &[JUMP_PART, RETREAT_BETA, AGAIN];

    /// A fresh control that knows what is `saved`, with values of [`Self::PARAMETERS`].
    #[must_use]
    pub fn new(saved: Option<Saved>, values: &Values) -> Self {
        let defaults = Values::new(Cubic::PARAMETERS, &[]).expect("the defaults are in range");
        Resume {
            saved,
            jump_part: values.get(&JUMP_PART),
            retreat_beta: values.get(&RETREAT_BETA),
            phase: match saved {
                Some(_) => Phase::Reconnaissance,
                None => Phase::Normal(Why::NoMemory),
            },
            first: 0,
            pipe: 0,
            least_rtt_us: u64::MAX,
            rtt_us: 0,
            smoothed_us: 0,
            jumped_us: 0,
            jumped_at: 0,
            mark: 0,
            late: 0,
            lap: 0,
            through: 0,
            lost: 0,
            another_retreats: false,
            pacing_per_s: None,
            then: Cubic::new(&defaults),
        }
    }

    /// Where the connection is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// What was seen to get through, segments (RFC 9959's PipeSize).
    #[must_use]
    pub fn pipe(&self) -> u32 {
        self.pipe
    }

    /// Another stream of the same sender had to retreat.
    pub fn follow(&mut self) {
        self.another_retreats = true;
    }

    /// Whether the RTT says that this is the path of the memory (4.2.1).
    fn is_same_path(&self, saved: Saved) -> bool {
        self.least_rtt_us > saved.rtt_us / 2 && self.rtt_us <= 10 * saved.rtt_us
    }

    fn measure(&mut self, ack: &Ack) {
        self.rtt_us = ack.rtt_us;
        self.least_rtt_us = self.least_rtt_us.min(ack.rtt_us);
        self.smoothed_us = match self.smoothed_us {
            0 => ack.rtt_us,
            smoothed_us => (7 * smoothed_us + ack.rtt_us) / 8,
        };
    }

    /// Slow start, and the jump as soon as the first window is acknowledged (3.2).
    fn reconnoitre(&mut self, window: &mut Window, ack: &Ack, saved: Saved) {
        if ack.recovering {
            self.phase = Phase::Normal(Why::Congested);
            return;
        }
        window.slow_start(ack.acked);
        if ack.delivered >= self.first.into() {
            self.jump(window, ack, saved);
        }
    }

    /// The jump (3.3).
    fn jump(&mut self, window: &mut Window, ack: &Ack, saved: Saved) {
        let part = u64::from(saved.segments) * self.jump_part / 1000;
        let to = (part as u32).min(window.clamp);
        if !self.is_same_path(saved) {
            self.phase = Phase::Normal(Why::OtherPath);
        } else if self.least_rtt_us > with_queue_us(saved.rtt_us, STANDING_SHIFT) {
            self.phase = Phase::Normal(Why::Queue);
        } else if to <= window.cwnd {
            self.phase = Phase::Normal(Why::Small);
        } else {
            self.pipe = ack.in_flight as u32;
            (self.jumped_us, self.jumped_at) = (ack.now_us, ack.delivered);
            self.phase = Phase::Unvalidated;
            window.cwnd = to;
        }
    }

    /// PipeSize is what gets through of the jump, not of what is sent after that.
    fn count(&mut self, ack: &Ack) {
        if self.lap < LAPS {
            self.pipe += ack.acked;
        }
    }

    /// What was acknowledged since the jump, and whether there was congestion.
    fn follow_the_jump(&mut self, window: &mut Window, ack: &Ack, saved: Saved) {
        self.count(ack);
        if ack.recovering || self.another_retreats || !self.is_same_path(saved) {
            self.retreat(window, ack);
        } else if self.phase == Phase::Unvalidated {
            let is_acked = ack.delivered_when_sent >= self.jumped_at;
            let is_over = ack.now_us - self.jumped_us > self.smoothed_us;
            if is_acked || is_over || ack.in_flight >= window.cwnd.into() {
                self.end_jump(window, ack);
            }
        } else {
            self.validate(window, ack, saved);
        }
    }

    /// Slow start (3.4), in the second half of each lap. The first is the jump, the second shows what it let grow.
    fn validate(&mut self, window: &mut Window, ack: &Ack, saved: Saved) {
        let most = saved.segments.min(window.clamp).max(window.cwnd);
        let is_free = ack.rtt_us <= with_queue_us(self.least_rtt_us, GROWN_SHIFT);
        if is_free && ack.delivered >= self.late {
            window.cwnd = (window.cwnd + ack.acked).min(most);
        }
        if ack.delivered < self.mark {
            return;
        }
        if is_free && window.cwnd < most && self.lap < LAPS {
            self.begin_lap(ack);
            return;
        }
        window.ssthresh = if is_free { most } else { window.cwnd };
        self.phase = Phase::Normal(Why::Validated);
    }

    /// From now on, what is in flight is to come back. What let the window grow before lies at its end, twice as dense.
    fn begin_lap(&mut self, ack: &Ack) {
        self.mark = ack.delivered + ack.in_flight;
        self.late = self.mark - ack.in_flight / 2;
        self.lap += 1;
    }

    /// Keeps what of the jump is in flight, or, where it was not used, what was seen to get through (3.3).
    fn end_jump(&mut self, window: &mut Window, ack: &Ack) {
        if ack.in_flight < self.first.into() || ack.in_flight <= self.pipe.into() {
            window.cwnd = self.pipe.max(self.first);
            self.phase = Phase::Normal(Why::Unused);
            return;
        }
        window.cwnd = ack.in_flight as u32;
        self.begin_lap(ack);
        self.phase = Phase::Validating;
    }

    /// Half of what got through (3.5).
    fn retreat(&mut self, window: &mut Window, ack: &Ack) {
        window.cwnd = (self.pipe / 2).max(Window::FLOOR);
        window.ssthresh = window.cwnd;
        self.mark = ack.delivered + ack.lost + ack.in_flight;
        self.through = u64::from(self.pipe) + ack.in_flight;
        self.lost = ack.lost;
        self.phase = Phase::Retreat;
    }

    /// Until all is mended. What was lost, or sent since, has not shown that the path carries it.
    fn mend(&mut self, window: &mut Window, ack: &Ack) {
        self.count(ack);
        if ack.recovering || ack.delivered + ack.lost < self.mark {
            return;
        }
        let through = self.through.saturating_sub(ack.lost - self.lost);
        self.pipe = self.pipe.min(through as u32);
        let threshold = u64::from(self.pipe) * self.retreat_beta / 1024;
        window.ssthresh = (threshold as u32).max(Window::FLOOR);
        self.phase = Phase::Normal(Why::Retreated);
    }

    /// The jump over a round trip (3.3); what follows as Linux paces.
    fn pace(&mut self, window: &Window) {
        let percent = match self.phase {
            Phase::Unvalidated => 100,
            Phase::Validating => 200,
            Phase::Retreat => 120,
            Phase::Reconnaissance | Phase::Normal(_) => {
                self.pacing_per_s = None;
                return;
            }
        };
        let per_s = f64::from(window.cwnd) * 1e6 / self.smoothed_us as f64;
        self.pacing_per_s = Some(per_s * f64::from(percent) / 100.0);
    }
}

impl Control for Resume {
    fn begin(&mut self, window: &mut Window, rtt_us: u64) {
        self.first = window.cwnd;
        self.smoothed_us = rtt_us;
        if self.saved.is_some() && window.ssthresh != Window::NO_THRESHOLD {
            self.phase = Phase::Normal(Why::Congested);
        }
    }

    fn acked(&mut self, window: &mut Window, ack: &Ack) {
        self.measure(ack);
        match (self.phase, self.saved) {
            (Phase::Normal(_), _) | (_, None) => self.then.acked(window, ack),
            (Phase::Reconnaissance, Some(saved)) => self.reconnoitre(window, ack, saved),
            (Phase::Retreat, _) => self.mend(window, ack),
            (_, Some(saved)) => self.follow_the_jump(window, ack, saved),
        }
        self.pace(window);
    }

    fn cut(&mut self, window: &Window, now_us: u64) -> u32 {
        match self.phase {
            Phase::Normal(_) => self.then.cut(window, now_us),
            Phase::Reconnaissance => window.share(717, 1024),
            _ => (self.pipe / 2).max(Window::FLOOR),
        }
    }

    fn repaired(&mut self, now_us: u64) {
        if let Phase::Normal(_) = self.phase {
            self.then.repaired(now_us);
        }
    }

    fn owns_window(&self) -> bool {
        !matches!(self.phase, Phase::Normal(_))
    }

    fn pacing_per_s(&self) -> Option<f64> {
        self.pacing_per_s
    }
}

#[cfg(test)]
mod tests;
