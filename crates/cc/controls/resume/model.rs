//! Careful Resume: a connection begins with what earlier ones carried, and then CUBIC takes over.
//!
//! Source: RFC 9959. Its section is named at each rule. All connections that use a memory are one sender: each has
//! its part of the saved capacity, and [`Resume::follow`] reports that another one had to retreat.
//!
//! Deviations beside those of the crate, all to the safe side:
//! - The window counts segments, so PipeSize does.
//! - It does not jump if the RTT shows a standing queue on the path.
//! - Without an ACK, it jumps only if the RTT that confirms the path was measured in the last round trips. An older
//!   one does not count.
//! - Validating begins with a probe: the window grows by so little that it leaves in a train twice as dense as the
//!   jump. The queue that this train has built shows the capacity of the path. The window grows to that capacity in
//!   the next round trip, paced at that rate. It grows to the saved capacity at most, and not while the RTT shows
//!   that a queue has grown. PipeSize does not count this growth. Slow start ends there, also under the next control.
//! - A retreat ends when all that was sent before it is acknowledged, not only what was sent unvalidated. What was
//!   lost or sent meanwhile does not count in PipeSize.
//! - Congestion takes effect with the next ACK.
//!
//! In the program any control takes over, in the model CUBIC.

use crate::{
    About, Ack, AfterLoss, Control, Model, Parameter, Unit, Values, Window, Written,
    controls::cubic::Cubic,
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

/// This connection's part of what earlier connections carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    /// Segments in flight.
    pub segments: u32,
    /// RTT of the path without a queue, µs.
    pub rtt_us: u64,
}

/// The phase of a connection (RFC 9959, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Slow start until the first window is acknowledged, on a path like the saved one.
    Reconnaissance,
    /// The jump is being sent.
    Unvalidated,
    /// What was sent unvalidated is being acknowledged.
    Validating,
    /// After congestion in the jump: half of what was acknowledged, until the recovery is over.
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
    /// The RTT shows a standing queue.
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

/// An RTT that is an eighth longer shows a standing queue, as in HyStart.
const STANDING_SHIFT: u32 = 3;
/// An RTT that is a thirty-second longer shows a queue from the jump.
const GROWN_SHIFT: u32 = 5;
const LEAST_RISE_US: u64 = 2_000;
const LARGEST_RISE_US: u64 = 16_000;
/// A confirmation is valid for this long, or for two round trips if those take longer. That is about as long as a
/// window stays valid after the last segment (an RTO, by RFC 5681, 4.1; a second at least, by RFC 6298).
const BELIEVED_US: u64 = 1_000_000;
/// The probe begins when this part of the jump is acknowledged, so that a queue from the jump is detected before it.
const BEFORE_PROBE_SHIFT: u32 = 3;
/// A delay of an eighth of the probe comes from the clock, and not from the path.
const CLOCK_SHIFT: u32 = 3;

fn rise_us(rtt_us: u64, shift: u32) -> u64 {
    (rtt_us >> shift).clamp(LEAST_RISE_US, LARGEST_RISE_US)
}

/// What is being acknowledged while a connection validates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coming {
    /// The part of the jump that was in flight. Within it, the probe is sent.
    Jump,
    /// The end of the probe.
    Probe,
    /// A flight that was sent after the capacity was known.
    Growth,
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
    /// When that was measured.
    measured_us: u64,
    smoothed_us: u64,
    jumped_us: u64,
    /// `delivered` at the jump. A segment that was sent later is part of the jump.
    jumped_at: u64,
    /// `delivered` when everything that was in flight at the jump is delivered.
    jumped_behind: u64,
    /// Segments sent when the phase began. The phase ends when all of them are acknowledged.
    mark: u64,
    coming: Coming,
    /// Segments of the jump that were in flight when validating began.
    flight: u32,
    /// `delivered` when the probe may begin.
    probe_from: u64,
    /// Growth of the window for the probe that is left, segments.
    probe: u32,
    /// `delivered` when all of the probe is acknowledged; 0: none of it was sent.
    probe_end: u64,
    /// What its end waited.
    waited_us: u64,
    /// The capacity of the path, up to which validating grows the window.
    limit: u32,
    /// The segments that will be delivered by the end of a retreat, if nothing more is lost.
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

    /// A new control with the memory `saved`, and values of [`Self::PARAMETERS`].
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
            measured_us: 0,
            smoothed_us: 0,
            jumped_us: 0,
            jumped_at: 0,
            jumped_behind: 0,
            mark: 0,
            coming: Coming::Jump,
            flight: 0,
            probe_from: 0,
            probe: 0,
            probe_end: 0,
            waited_us: u64::MAX,
            limit: 0,
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

    /// What the path has carried, segments (RFC 9959's PipeSize).
    #[must_use]
    pub fn pipe(&self) -> u32 {
        self.pipe
    }

    /// Notes that another stream of the same sender had to retreat.
    pub fn follow(&mut self) {
        self.another_retreats = true;
    }

    /// Whether the RTT says that this is the path of the memory (4.2.1).
    fn is_same_path(&self, saved: Saved) -> bool {
        self.least_rtt_us > saved.rtt_us / 2 && self.rtt_us <= 10 * saved.rtt_us
    }

    /// Whether the newest RTT is recent enough to describe the path.
    fn is_recent(&self, now_us: u64) -> bool {
        self.rtt_us > 0 && now_us - self.measured_us <= BELIEVED_US.max(2 * self.rtt_us)
    }

    /// Before the jump, an old RTT is discarded.
    fn measure(&mut self, ack: &Ack) {
        if self.phase == Phase::Reconnaissance && !self.is_recent(ack.now_us) {
            self.least_rtt_us = u64::MAX;
        }
        (self.rtt_us, self.measured_us) = (ack.rtt_us, ack.now_us);
        self.least_rtt_us = self.least_rtt_us.min(ack.rtt_us);
        self.smoothed_us = match self.smoothed_us {
            0 => ack.rtt_us,
            smoothed_us => (7 * smoothed_us + ack.rtt_us) / 8,
        };
    }

    /// Whether the first window is acknowledged, and the sender has more to send than the window permits (3.2).
    fn may_jump(&self, window: &Window, now: &Written) -> bool {
        let room = u64::from(window.cwnd).saturating_sub(now.in_flight);
        now.delivered >= self.first.into() && now.waiting > room
    }

    /// Slow start, and the jump as soon as there is something to be sent at once.
    fn reconnoitre(&mut self, window: &mut Window, ack: &Ack, saved: Saved) {
        if ack.recovering {
            self.phase = Phase::Normal(Why::Congested);
            return;
        }
        window.slow_start(ack.acked);
        let now = Written {
            now_us: ack.now_us,
            delivered: ack.delivered,
            in_flight: ack.in_flight,
            waiting: ack.waiting,
            recovering: ack.recovering,
        };
        if self.may_jump(window, &now) {
            self.jump(window, &now, saved);
            self.jumped_behind = ack.delivered;
        }
    }

    /// The jump (3.3).
    fn jump(&mut self, window: &mut Window, now: &Written, saved: Saved) {
        let part = u64::from(saved.segments) * self.jump_part / 1000;
        let to = (part as u32).min(window.clamp);
        if !self.is_same_path(saved) {
            self.phase = Phase::Normal(Why::OtherPath);
        } else if self.least_rtt_us > saved.rtt_us + rise_us(saved.rtt_us, STANDING_SHIFT) {
            self.phase = Phase::Normal(Why::Queue);
        } else if to <= window.cwnd {
            self.phase = Phase::Normal(Why::Small);
        } else {
            self.pipe = now.in_flight as u32;
            (self.jumped_us, self.jumped_at) = (now.now_us, now.delivered);
            self.jumped_behind = now.delivered + now.in_flight;
            self.phase = Phase::Unvalidated;
            window.cwnd = to;
        }
    }

    /// One round trip. The smoothed RTT begins with that of the handshake, which may be old. So it is limited by what
    /// was measured since.
    fn jump_lasts_us(&self) -> u64 {
        self.smoothed_us.clamp(self.least_rtt_us, self.rtt_us)
    }

    /// PipeSize is what is acknowledged of the jump, not of what is sent after it.
    fn count(&mut self, ack: &Ack) {
        if self.coming == Coming::Jump {
            self.pipe += ack.acked;
        }
    }

    /// What was acknowledged since the jump, and whether there was congestion.
    fn follow_the_jump(&mut self, window: &mut Window, ack: &Ack, saved: Saved) {
        self.count(ack);
        if ack.recovering || self.another_retreats || !self.is_same_path(saved) {
            self.retreat(window, ack);
        } else if self.phase == Phase::Unvalidated {
            let is_acked =
                ack.delivered_when_sent >= self.jumped_at && ack.delivered > self.jumped_behind;
            let is_over = ack.now_us - self.jumped_us > self.jump_lasts_us();
            if is_acked || is_over || ack.in_flight >= window.cwnd.into() {
                self.end_jump(window, ack, saved);
            }
        } else {
            self.validate(window, ack, saved);
        }
    }

    /// Growth as in slow start at most (3.4): by the probe, and up to the capacity that it has shown.
    fn validate(&mut self, window: &mut Window, ack: &Ack, saved: Saved) {
        let grown_us = self.least_rtt_us + rise_us(self.least_rtt_us, GROWN_SHIFT);
        let is_free = ack.rtt_us <= grown_us;
        let is_back = ack.delivered >= self.mark;
        match self.coming {
            Coming::Jump => {
                if self.probe > 0 && is_free && ack.delivered >= self.probe_from {
                    self.send_probe(window, ack);
                }
                if is_back && (self.probe > 0 || self.probe_end == 0) {
                    self.end_validating(window, window.cwnd);
                } else if is_back {
                    self.coming = Coming::Probe;
                }
            }
            Coming::Probe => {}
            Coming::Growth => {
                if is_free && window.cwnd < self.limit {
                    window.cwnd = (window.cwnd + ack.acked).min(self.limit);
                }
                if is_back {
                    self.end_validating(window, if is_free { self.limit } else { window.cwnd });
                }
            }
        }
        if self.coming == Coming::Probe {
            self.await_probe(window, ack, saved);
        }
    }

    fn send_probe(&mut self, window: &mut Window, ack: &Ack) {
        let more = ack.acked.min(self.probe);
        window.cwnd += more;
        self.probe -= more;
        self.probe_end = ack.delivered + u64::from(window.cwnd);
    }

    /// How long the probe is sent, twice as densely as the jump. On a path that carries only the jump, the end of the
    /// probe waits as long in the queue. That is twice the delay by which a queue is detected.
    fn probe_us(&self) -> u64 {
        2 * rise_us(self.least_rtt_us, GROWN_SHIFT)
    }

    /// The segments of the probe: as many as segments of the jump that are acknowledged while the probe is sent.
    fn probe_segments(&self) -> u32 {
        (u64::from(self.flight) * self.probe_us() / self.least_rtt_us).max(1) as u32
    }

    /// Measures the RTT while the second half of the probe is acknowledged, and for half as long again. The queue of
    /// the whole probe is estimated from that of a part. A late clock makes single values too large, so the least
    /// value counts.
    fn await_probe(&mut self, window: &mut Window, ack: &Ack, saved: Saved) {
        let all = u64::from(2 * self.probe_segments());
        if ack.delivered + all / 2 < self.probe_end {
            return;
        }
        let back = all - self.probe_end.saturating_sub(ack.delivered);
        let waited_us = (ack.rtt_us - self.least_rtt_us) * all / back.max(1);
        self.waited_us = self.waited_us.min(waited_us);
        if ack.delivered < self.probe_end + all / 4 {
            return;
        }
        let most = saved.segments.min(window.clamp);
        self.limit = self.carries().min(most).max(window.cwnd);
        self.mark = ack.delivered + ack.in_flight;
        self.coming = Coming::Growth;
    }

    /// The capacity that the probe has shown, segments: twice the jump, less by what the probe waited in the queue.
    fn carries(&self) -> u32 {
        let probe_us = self.probe_us();
        if self.waited_us <= probe_us >> CLOCK_SHIFT {
            return u32::MAX;
        }
        (2 * u64::from(self.flight) * probe_us / (probe_us + self.waited_us)) as u32
    }

    fn end_validating(&mut self, window: &mut Window, threshold: u32) {
        window.ssthresh = threshold;
        self.phase = Phase::Normal(Why::Validated);
    }

    /// Keeps the part of the jump that is in flight or, if the jump was not used, what the path has carried (3.3).
    fn end_jump(&mut self, window: &mut Window, ack: &Ack, saved: Saved) {
        if ack.in_flight < self.first.into() || ack.in_flight <= self.pipe.into() {
            window.cwnd = self.pipe.max(self.first);
            self.phase = Phase::Normal(Why::Unused);
            return;
        }
        window.cwnd = ack.in_flight as u32;
        self.flight = window.cwnd;
        self.mark = ack.delivered + ack.in_flight;
        self.probe_from = ack.delivered + (ack.in_flight >> BEFORE_PROBE_SHIFT);
        let most = saved.segments.min(window.clamp);
        self.probe = self.probe_segments().min(most.saturating_sub(self.flight));
        self.phase = Phase::Validating;
    }

    /// Half of what the path has carried (3.5). It cannot have carried more than was in flight at once.
    fn retreat(&mut self, window: &mut Window, ack: &Ack) {
        let most = match self.phase {
            Phase::Validating => self.flight,
            _ => window.cwnd,
        };
        self.pipe = self.pipe.min(most);
        window.cwnd = (self.pipe / 2).max(Window::FLOOR);
        window.ssthresh = window.cwnd;
        self.mark = ack.delivered + ack.lost + ack.in_flight;
        self.through = (u64::from(self.pipe) + ack.in_flight).min(most.into());
        self.lost = ack.lost;
        self.phase = Phase::Retreat;
    }

    /// Until the recovery is over. What was lost or sent since does not show what the path carries.
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

    /// The jump and the growth to the capacity are paced over a round trip (3.3), the rest as in Linux.
    fn pace(&mut self, window: &Window) {
        let over_us = match self.phase {
            Phase::Unvalidated => self.jump_lasts_us(),
            _ => self.smoothed_us,
        };
        let (segments, percent) = match self.phase {
            Phase::Unvalidated => (window.cwnd, 100),
            Phase::Validating if self.coming == Coming::Growth => (self.limit, 100),
            Phase::Validating => (window.cwnd, 200),
            Phase::Retreat => (window.cwnd, 120),
            Phase::Reconnaissance | Phase::Normal(_) => {
                self.pacing_per_s = None;
                return;
            }
        };
        let per_s = f64::from(segments) * 1e6 / over_us as f64;
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

    /// The jump without an ACK.
    fn written(&mut self, window: &mut Window, written: &Written) {
        let Some(saved) = self.saved else { return };
        let is_confirmed = self.is_recent(written.now_us) && !written.recovering;
        let is_waiting = self.phase == Phase::Reconnaissance && self.may_jump(window, written);
        if is_confirmed && is_waiting {
            self.jump(window, written, saved);
            self.pace(window);
        }
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
