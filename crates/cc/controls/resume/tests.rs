//! Each phase of RFC 9959, and each retreat.

mod unasked;

use super::*;
use crate::{Path, Simulation, Written};

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
            waiting: u64::MAX,
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

    /// The sender writes, after so long a silence, so that so much waits beside what is in flight.
    fn written(&mut self, after_us: u64, waiting: u64, in_flight: u64) -> Phase {
        self.ack.now_us += after_us;
        let written = Written {
            now_us: self.ack.now_us,
            delivered: self.ack.delivered,
            in_flight,
            waiting,
            recovering: self.ack.recovering,
        };
        self.resume.written(&mut self.window, &written);
        self.resume.phase()
    }

    /// The first window is acknowledged, and the sender has nothing to send.
    fn confirmed(rtt_us: u64) -> Self {
        let mut told = Self::new(&[]).with_rtt(rtt_us);
        told.ack.waiting = 0;
        assert_eq!(told.acked(10, 0, 0), Phase::Reconnaissance);
        assert_eq!(told.window.cwnd, 20);
        told
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
    assert_eq!(
        (run.control.phase(), run.window().cwnd),
        (Phase::Reconnaissance, 10)
    );
    run.run_until(102 * MS);
    assert_eq!(
        (run.control.phase(), run.window().cwnd),
        (Phase::Unvalidated, BDP / 2)
    );
    run.run_until(210 * MS);
    assert_eq!(run.control.phase(), Phase::Validating);
    run.run_until(310 * MS);
    assert_eq!(run.control.phase(), Phase::Validating);
    // Until then, it sends the jump and the probe. From then on, what is remembered is spaced over a round trip.
    run.run_until(330 * MS);
    let per_s = run.control.pacing_per_s().unwrap();
    assert!(
        (per_s / (f64::from(BDP) / 0.1) - 1.0).abs() < 0.04,
        "{per_s}"
    );
    run.run_until(430 * MS);
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
    assert!(
        (per_s / (f64::from(BDP / 2) / 0.1) - 1.0).abs() < 0.01,
        "{per_s}"
    );
    run.run_until(450 * MS);
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
fn without_more_than_a_window_to_send_it_does_not_jump_at_an_ack() {
    let mut told = Told::new(&[]);
    told.ack.waiting = 2;
    assert_eq!(told.acked(10, 0, 18), Phase::Reconnaissance);
    assert_eq!(told.window.cwnd, 20);
    told.ack.waiting = 4;
    assert_eq!(told.acked(1, 10, 18), Phase::Unvalidated);
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
    // When an eighth of it is back, the window grows by a sixteenth: for so long as two queues that would be seen last.
    assert_eq!(told.acked(486, 10, 3_900), Phase::Validating);
    assert_eq!(told.window.cwnd, 3_900);
    assert_eq!(told.acked(200, 10, 3_900), Phase::Validating);
    assert_eq!(told.acked(200, 10, 4_100), Phase::Validating);
    assert_eq!(told.window.cwnd, 3_900 + PROBE);
    // The rest of the jump lets nothing grow.
    assert_eq!(told.acked(3_013, 10, 3_900 + 243), Phase::Validating);
    assert_eq!(
        (told.window.cwnd, told.resume.pipe()),
        (3_900 + PROBE, 3_937)
    );
    assert_eq!(told.acked(1, 10, 3_900 + 243), Phase::Validating);
    assert_eq!(told.resume.pipe(), 3_938);
    // The probe is back without a queue. From then on, the window grows to what is remembered.
    told.acked(930, 10, 3_900 + 243);
    assert_eq!(
        (told.window.cwnd, told.resume.pipe()),
        (3_900 + PROBE, 3_938)
    );
    told.acked(330, 10, 3_900 + 243);
    assert_eq!(told.window.cwnd, 3_900 + PROBE);
    told.acked(3_000, 10, 7_143);
    assert_eq!(told.window.cwnd, 7_143);
    told.acked(1_142, 10, BDP.into());
    assert_eq!(told.window.cwnd, BDP);
    assert_eq!(told.acked(1, 10, BDP.into()), Phase::Normal(Why::Validated));
    assert_eq!((told.window.cwnd, told.window.ssthresh), (BDP, BDP));
}

/// Of 3,900 segments at 100 ms: 6.25 ms.
const PROBE: u32 = 243;

/// What the jump lets go is back, and the RTT around the end of the probe is so much.
fn probed(rtt_us: u64) -> Told {
    let mut told = Told::validating(3_900);
    told.acked(488, 10, 3_900);
    told.acked(400, 10, 4_143);
    told.acked(3_012, 10, 4_143);
    assert_eq!(told.window.cwnd, 3_900 + PROBE);
    let mut told = told.with_rtt(rtt_us);
    told.acked(1_300, 10, 4_143);
    told
}

/// The end of the probe waits t (1/part - 1), where t is how long the probe takes, and the path carries this part of twice
/// the jump.
#[test]
fn the_queue_of_the_probe_says_what_the_path_carries() {
    for (rtt_us, carries) in [
        (100_781, BDP),
        (100_783, 2 * 3_900 * 6_250 / (6_250 + 783)),
        (102_083, 2 * 3_900 * 6_250 / (6_250 + 2_083)),
        (103_125, 2 * 3_900 * 6_250 / (6_250 + 3_125)),
        (106_250, 3_900 + PROBE),
        (200_000, 3_900 + PROBE),
    ] {
        let mut told = probed(rtt_us).with_rtt(100_000);
        told.acked(4_142, 10, 4_143);
        assert_eq!(told.window.cwnd, carries, "{rtt_us} µs");
        assert_eq!(told.acked(1, 10, 4_143), Phase::Normal(Why::Validated));
        assert_eq!((told.window.cwnd, told.window.ssthresh), (carries, carries));
    }
}

#[test]
fn what_the_path_carries_is_spaced_over_a_round_trip() {
    let told = probed(102_083);
    let per_s = told.resume.pacing_per_s().unwrap();
    let wanted = 5_850.0 / (told.resume.smoothed_us as f64 / 1e6);
    assert!((per_s / wanted - 1.0).abs() < 0.01, "{per_s} {wanted}");
}

/// A queue that the jump has built is seen before the probe.
#[test]
fn without_a_probe_the_jump_is_all() {
    let mut told = Told::validating(3_900).with_rtt(103_126);
    told.acked(3_899, 10, 3_900);
    assert_eq!(told.window.cwnd, 3_900);
    assert_eq!(told.acked(1, 10, 3_900), Phase::Normal(Why::Validated));
    assert_eq!((told.window.cwnd, told.window.ssthresh), (3_900, 3_900));
}

#[test]
fn validating_grows_no_further_than_what_was_saved() {
    let mut told = Told::jumped(&[("jump_part", 1000)]);
    assert_eq!(told.acked(1, 10, 8_000), Phase::Validating);
    told.acked(6_000, 10, 8_000);
    assert_eq!(told.window.cwnd, BDP);
    told.acked(2_000, 10, 8_000);
    assert_eq!(told.window.cwnd, BDP);
    // All of the jump was what was saved.
    let mut told = Told::jumped(&[("jump_part", 1000)]);
    assert_eq!(told.acked(1, 10, BDP.into()), Phase::Validating);
    told.acked(6_000, 10, BDP.into());
    assert_eq!(
        told.acked(2_127, 10, BDP.into()),
        Phase::Normal(Why::Validated)
    );
    assert_eq!((told.window.cwnd, told.window.ssthresh), (BDP, BDP));
}

#[test]
fn validating_does_not_grow_while_there_is_a_queue() {
    let mut told = probed(100_000);
    let before = told.window.cwnd;
    told.ack.rtt_us = 103_126;
    told.acked(100, 10, 4_143);
    assert_eq!(told.window.cwnd, before);
    told.ack.rtt_us = 103_125;
    told.acked(100, 10, 4_143);
    assert_eq!(told.window.cwnd, before + 100);
    // With a queue at the end, slow start is over.
    told.ack.rtt_us = 103_126;
    assert_eq!(told.acked(4_000, 10, 4_243), Phase::Normal(Why::Validated));
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
    assert_eq!(
        (told.window.cwnd, told.window.ssthresh),
        (18, through * 717 / 1024)
    );
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
fn congestion_after_the_jump_is_a_retreat_by_what_came_back_of_it() {
    let mut told = probed(100_000);
    told.acked(1_000, 10, 5_000);
    told.ack.recovering = true;
    assert_eq!(told.acked(1, 10, 4_900), Phase::Retreat);
    // No more than was in flight at once, although more was acknowledged since the jump.
    assert_eq!((told.resume.pipe(), told.window.cwnd), (3_900, 3_900 / 2));
    told.acked(4_900, 10, 100);
    told.ack.recovering = false;
    assert_eq!(told.acked(1, 10, 100), Phase::Normal(Why::Retreated));
    assert_eq!(told.window.ssthresh, 3_900 * 717 / 1024);
}

/// What was sent while the jump came back has not been in flight beside all of it.
#[test]
fn a_retreat_counts_no_more_than_was_in_flight_at_once() {
    let mut told = Told::validating(4_000);
    told.acked(3_900, 10, 4_250);
    told.ack.recovering = true;
    told.ack.lost = 50;
    assert_eq!(told.acked(1, 10, 4_200), Phase::Retreat);
    told.ack.recovering = false;
    told.ack.lost = 150;
    assert_eq!(told.acked(4_200, 10, 100), Phase::Normal(Why::Retreated));
    assert_eq!(told.resume.pipe(), 4_000 - 100);
    assert_eq!(told.window.ssthresh, 3_900 * 717 / 1024);
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

/// The jump fits exactly, and a queue holds the probe: nothing is lost before CUBIC has filled the queue. Where it does not
/// fit, only what is left of the probe is lost.
#[test]
fn on_a_path_that_has_halved_only_the_probe_is_too_much() {
    for (queue_segments, until_ms) in [(BDP / 4, 900), (BDP / 20, 500), (BDP / 100, 500)] {
        let mut half = Path::new(100 * MS, Some(500_000_000), 1538).unwrap();
        half.queue_segments = Some(queue_segments.into());
        let mut run = over(half, Some(SAVED));
        run.run_until(until_ms * MS);
        let too_much = u64::from((BDP / 32).saturating_sub(queue_segments));
        assert!(run.lost() <= too_much, "{}", run.lost());
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
    assert!(
        run.lost() <= u64::from(BDP / 2) - fits + 200,
        "{}",
        run.lost()
    );
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
