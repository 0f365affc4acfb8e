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
mod tests {
    use super::*;
    use crate::{Path, Simulation};

    const MS: u64 = 1_000_000;
    /// Of the path below.
    const BDP: u32 = 8_127;
    const SAVED: Saved = Saved {
        segments: BDP,
        rtt_us: 100_000,
    };

    fn values(given: &[(&str, u64)]) -> Values {
        Values::new(Resume::PARAMETERS, given).unwrap()
    }

    /// 1 Gb/s × 100 ms.
    fn path() -> Path {
        Path::new(100 * MS, Some(1_000_000_000), 1538).unwrap()
    }

    fn over(path: Path, saved: Option<Saved>) -> Simulation<Resume> {
        let resume = Resume::new(saved, &values(&[]));
        Simulation::new(resume, path, Window::new(10, None))
    }

    /// A connection that is told what happens, one ACK after the other.
    struct Told {
        resume: Resume,
        window: Window,
        ack: Ack,
    }

    impl Told {
        fn new(given: &[(&str, u64)]) -> Self {
            let mut resume = Resume::new(Some(SAVED), &values(given));
            let mut window = Window::new(10, None);
            resume.begin(&mut window, 100_000);
            let ack = Ack {
                now_us: 0,
                rtt_us: 100_000,
                acked: 0,
                delivered: 0,
                delivered_when_sent: 0,
                in_flight: 0,
                lost: 0,
                recovering: false,
            };
            Told {
                resume,
                window,
                ack,
            }
        }

        /// So many are acknowledged of those sent when so many had been delivered; so many stay in flight.
        fn acked(&mut self, acked: u32, delivered_when_sent: u64, in_flight: u64) -> Phase {
            self.ack.now_us += 1;
            self.ack.acked = acked;
            self.ack.delivered += u64::from(acked);
            self.ack.delivered_when_sent = delivered_when_sent;
            self.ack.in_flight = in_flight;
            self.resume.acked(&mut self.window, &self.ack);
            self.resume.phase()
        }

        /// With an RTT of so much.
        fn with_rtt(mut self, rtt_us: u64) -> Self {
            self.ack.rtt_us = rtt_us;
            self
        }

        /// Jumped with 18 segments in flight.
        fn jumped(given: &[(&str, u64)]) -> Self {
            let mut told = Self::new(given);
            assert_eq!(told.acked(10, 0, 18), Phase::Unvalidated);
            told
        }

        /// With so much of the jump in flight.
        fn validating(in_flight: u64) -> Self {
            let mut told = Self::jumped(&[]);
            told.acked(18, 0, in_flight - 1);
            assert_eq!(told.acked(1, 10, in_flight), Phase::Validating);
            told
        }
    }

    #[test]
    fn it_is_at_the_rate_of_the_path_after_four_round_trips() {
        let mut run = over(path(), Some(SAVED));
        run.run_until(99 * MS);
        assert_eq!((run.control.phase(), run.window().cwnd), (Phase::Reconnaissance, 10));
        run.run_until(102 * MS);
        assert_eq!((run.control.phase(), run.window().cwnd), (Phase::Unvalidated, BDP / 2));
        run.run_until(210 * MS);
        assert_eq!(run.control.phase(), Phase::Validating);
        run.run_until(310 * MS);
        assert_eq!(run.control.phase(), Phase::Validating);
        assert!(run.window().cwnd >= BDP * 74 / 100, "{:?}", run.window());
        run.run_until(420 * MS);
        assert_eq!(run.control.phase(), Phase::Normal(Why::Validated));
        assert!(run.window().cwnd >= BDP * 98 / 100, "{:?}", run.window());
        let mut without = over(path(), None);
        without.run_until(640 * MS);
        assert!(without.window().cwnd < BDP, "{:?}", without.window());
    }

    #[test]
    fn a_jump_is_spaced_over_a_round_trip() {
        let mut run = over(path(), Some(SAVED));
        run.run_until(102 * MS);
        let per_s = run.control.pacing_per_s().unwrap();
        assert!((per_s / (f64::from(BDP / 2) / 0.1) - 1.0).abs() < 0.01, "{per_s}");
        run.run_until(400 * MS);
        assert_eq!(run.control.pacing_per_s(), None);
    }

    #[test]
    fn it_waits_until_the_first_window_is_acknowledged() {
        let mut told = Told::new(&[]);
        assert_eq!(told.acked(9, 0, 18), Phase::Reconnaissance);
        assert_eq!(told.window.cwnd, 19);
        assert_eq!(told.acked(1, 0, 18), Phase::Unvalidated);
        assert_eq!((told.window.cwnd, told.resume.pipe()), (BDP / 2, 18));
    }

    #[test]
    fn the_jump_is_the_part_that_is_set() {
        for (part, to) in [(500, BDP / 2), (1000, BDP), (10, 81)] {
            assert_eq!(Told::jumped(&[("jump_part", part)]).window.cwnd, to);
        }
        let mut told = Told::new(&[("jump_part", 2)]);
        assert_eq!(told.acked(10, 0, 18), Phase::Normal(Why::Small));
        assert_eq!(told.window.cwnd, 20);
    }

    /// RFC 9959: from more than half of the saved RTT to ten times as much. Long before that, it is a queue.
    #[test]
    fn an_rtt_unlike_the_saved_one_is_another_path_or_a_queue() {
        for (rtt_us, phase) in [
            (50_000, Phase::Normal(Why::OtherPath)),
            (50_001, Phase::Unvalidated),
            (112_500, Phase::Unvalidated),
            (112_501, Phase::Normal(Why::Queue)),
            (1_000_000, Phase::Normal(Why::Queue)),
            (1_000_001, Phase::Normal(Why::OtherPath)),
        ] {
            let mut told = Told::new(&[]).with_rtt(rtt_us);
            assert_eq!(told.acked(10, 0, 18), phase, "{rtt_us} µs");
        }
    }

    #[test]
    fn congestion_before_the_jump_leaves_it_out() {
        let mut told = Told::new(&[]);
        told.ack.recovering = true;
        assert_eq!(told.resume.cut(&told.window, 0), 7);
        assert_eq!(told.acked(10, 0, 9), Phase::Normal(Why::Congested));
        assert!(!told.resume.owns_window());
    }

    #[test]
    fn a_threshold_that_was_there_before_leaves_it_out_too() {
        let mut resume = Resume::new(Some(SAVED), &values(&[]));
        resume.begin(&mut Window::new(10, Some(50)), 100_000);
        assert_eq!(resume.phase(), Phase::Normal(Why::Congested));
    }

    #[test]
    fn what_of_the_jump_is_in_flight_is_validated() {
        let mut told = Told::jumped(&[]);
        assert_eq!(told.acked(18, 0, 3_000), Phase::Unvalidated);
        assert_eq!((told.window.cwnd, told.resume.pipe()), (BDP / 2, 36));
        // The first that was sent after the jump is acknowledged.
        assert_eq!(told.acked(2, 10, 3_900), Phase::Validating);
        assert_eq!((told.window.cwnd, told.resume.pipe()), (3_900, 38));
        // The second half of it grows the window.
        assert_eq!(told.acked(1_949, 10, 3_900), Phase::Validating);
        assert_eq!(told.window.cwnd, 3_900);
        assert_eq!(told.acked(1_950, 10, 3_900), Phase::Validating);
        assert_eq!(told.window.cwnd, 5_850);
        assert_eq!(told.acked(1, 10, 5_850), Phase::Validating);
        assert_eq!((told.window.cwnd, told.resume.pipe()), (5_851, 3_938));
        // So does the second half of what is in flight then, up to what was saved.
        assert_eq!(told.acked(2_924, 10, 5_850), Phase::Validating);
        assert_eq!(told.window.cwnd, 5_851);
        assert_eq!(told.acked(2_925, 10, 5_850), Phase::Validating);
        assert_eq!(told.window.cwnd, BDP);
        assert_eq!(told.acked(1, 10, BDP.into()), Phase::Normal(Why::Validated));
        assert_eq!((told.window.cwnd, told.window.ssthresh), (BDP, BDP));
    }

    #[test]
    fn validating_grows_no_further_than_what_was_saved() {
        let mut told = Told::jumped(&[("jump_part", 1000)]);
        assert_eq!(told.acked(1, 10, 8_000), Phase::Validating);
        told.acked(6_000, 10, 8_000);
        assert_eq!(told.window.cwnd, BDP);
        assert_eq!(told.acked(2_000, 10, 8_000), Phase::Normal(Why::Validated));
        assert_eq!(told.window.cwnd, BDP);
        assert_eq!(told.window.ssthresh, BDP);
    }

    #[test]
    fn validating_does_not_grow_while_there_is_a_queue() {
        let mut told = Told::validating(4_000);
        told.acked(3_100, 10, 4_000);
        let before = told.window.cwnd;
        let mut told = told.with_rtt(103_126);
        told.acked(100, 10, 4_000);
        assert_eq!(told.window.cwnd, before);
        told.ack.rtt_us = 103_125;
        told.acked(100, 10, 4_000);
        assert_eq!(told.window.cwnd, before + 100);
        // With a queue at the end, slow start is over.
        told.ack.rtt_us = 103_126;
        assert_eq!(told.acked(1_800, 10, 4_000), Phase::Normal(Why::Validated));
        assert_eq!(told.window.ssthresh, before + 100);
    }

    #[test]
    fn the_jump_is_over_after_a_round_trip() {
        let mut told = Told::jumped(&[]);
        told.ack.now_us += 100_000;
        assert_eq!(told.acked(1, 0, 400), Phase::Validating);
        assert_eq!(told.window.cwnd, 400);
    }

    #[test]
    fn the_jump_is_over_once_all_of_it_is_in_flight() {
        let mut told = Told::jumped(&[]);
        assert_eq!(told.acked(1, 0, u64::from(BDP / 2) - 1), Phase::Unvalidated);
        assert_eq!(told.acked(1, 0, (BDP / 2).into()), Phase::Validating);
    }

    #[test]
    fn a_jump_that_was_not_used_leaves_what_got_through() {
        let mut told = Told::jumped(&[]);
        assert_eq!(told.acked(18, 10, 5), Phase::Normal(Why::Unused));
        assert_eq!(told.window.cwnd, 36);
    }

    /// RFC 9959, 3.5: half of PipeSize; the threshold afterwards by all that got through meanwhile.
    #[test]
    fn congestion_in_the_unvalidated_phase_is_a_retreat() {
        let mut told = Told::jumped(&[]);
        told.acked(12, 0, 2_000);
        told.ack.recovering = true;
        told.ack.lost = 5;
        assert_eq!(told.resume.cut(&told.window, 0), 15);
        assert_eq!(told.acked(6, 0, 1_900), Phase::Retreat);
        assert_eq!((told.window.cwnd, told.window.ssthresh), (18, 18));
        assert!(told.resume.owns_window());
        assert_eq!(told.acked(1_900, 10, 17), Phase::Retreat);
        assert_eq!(told.window.cwnd, 18);
        told.ack.recovering = false;
        told.ack.lost = 105;
        assert_eq!(told.acked(17, 10, 18), Phase::Normal(Why::Retreated));
        // What was sent or lost since does not count.
        let through = 18 + 12 + 6 + 1_900 - 100;
        assert_eq!(told.resume.pipe(), through);
        assert_eq!((told.window.cwnd, told.window.ssthresh), (18, through * 717 / 1024));
    }

    #[test]
    fn congestion_while_validating_is_a_retreat() {
        let mut told = Told::validating(4_000);
        told.acked(1_000, 10, 4_000);
        told.ack.recovering = true;
        assert_eq!(told.acked(1, 10, 3_900), Phase::Retreat);
        assert_eq!((told.resume.pipe(), told.window.cwnd), (1_038, 519));
    }

    #[test]
    fn congestion_in_the_second_lap_is_a_retreat_by_what_came_back_in_the_first() {
        let mut told = Told::validating(4_000);
        told.acked(4_000, 10, 6_000);
        assert_eq!(told.resume.pipe(), 4_037);
        told.acked(1_000, 10, 6_000);
        told.ack.recovering = true;
        assert_eq!(told.acked(1, 10, 5_900), Phase::Retreat);
        assert_eq!(told.window.cwnd, 4_037 / 2);
        told.acked(5_900, 10, 100);
        told.ack.recovering = false;
        assert_eq!(told.acked(1, 10, 100), Phase::Normal(Why::Retreated));
        assert_eq!(told.window.ssthresh, 4_037 * 717 / 1024);
    }

    #[test]
    fn a_path_that_changes_under_the_jump_is_a_retreat() {
        let mut told = Told::jumped(&[]).with_rtt(1_000_001);
        assert_eq!(told.acked(1, 0, 2_000), Phase::Retreat);
    }

    #[test]
    fn the_streams_of_one_sender_retreat_together() {
        let mut told = Told::validating(4_000);
        told.resume.follow();
        assert_eq!(told.acked(1, 10, 3_999), Phase::Retreat);
        assert_eq!((told.resume.pipe(), told.window.cwnd), (38, 19));
        // It has lost nothing itself; what was on its way then is acknowledged.
        assert_eq!(told.acked(3_998, 10, 10), Phase::Retreat);
        assert_eq!(told.acked(1, 10, 10), Phase::Normal(Why::Retreated));
    }

    /// The jump fits exactly. What its second half let grow does not, and nothing more is sent.
    #[test]
    fn on_a_path_that_has_halved_it_sends_half_of_it_too_much() {
        for queue_segments in [BDP / 4, BDP / 16] {
            let mut half = Path::new(100 * MS, Some(500_000_000), 1538).unwrap();
            half.queue_segments = Some(queue_segments.into());
            let mut run = over(half, Some(SAVED));
            run.run_until(1_500 * MS);
            let too_much = u64::from((BDP / 4).saturating_sub(queue_segments));
            assert!(run.lost() <= too_much + 100, "{}", run.lost());
        }
    }

    /// Of the jump, only what does not fit is lost; within a round trip of that, the window has fallen.
    #[test]
    fn on_a_path_of_a_third_it_retreats_at_once() {
        let mut third = Path::new(100 * MS, Some(333_000_000), 1538).unwrap();
        third.queue_segments = Some(500);
        let mut run = over(third, Some(SAVED));
        run.run_until(1_500 * MS);
        assert_eq!(run.control.phase(), Phase::Normal(Why::Retreated));
        let fits = third.bdp_segments().unwrap() + 500;
        assert!(run.lost() <= u64::from(BDP / 2) - fits + 200, "{}", run.lost());
        let cut = run.trace().cuts[0];
        let after = |round: &&crate::Round| round.t_ns > cut.t_ns;
        let next = run.trace().rounds.iter().find(after).unwrap();
        assert!(next.t_ns - cut.t_ns < 120 * MS, "{cut:?} {next:?}");
        assert!(next.cwnd_segments <= BDP / 4, "{next:?}");
    }

    #[test]
    fn without_a_memory_it_is_cubic() {
        let mut small = path();
        small.queue_segments = Some(2_000);
        let mut run = over(small, None);
        let defaults = Values::new(Cubic::PARAMETERS, &[]).unwrap();
        let mut cubic = Simulation::new(Cubic::new(&defaults), small, Window::new(10, None));
        run.run_until(20_000 * MS);
        cubic.run_until(20_000 * MS);
        assert_eq!(run.trace(), cubic.trace());
    }
}
