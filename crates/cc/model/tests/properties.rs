//! Floor, cut and growth of each algorithm keep to what is specified, whatever happens.

use howdah_cc_model::{
    Ack, AfterLoss, Algorithm, Control, Path, Simulation, Values, Window, Written,
    controls::{
        highspeed::HighSpeed,
        hold::{Hold, LATE_US, Target},
        htcp::Htcp,
        resume::{Phase, Resume, Saved},
    },
};
use proptest::prelude::*;

fn control(algorithm: &Algorithm) -> Box<dyn Control> {
    let target = algorithm.is_held().then_some(Target::Window(300));
    algorithm.control(&[], target).unwrap()
}

fn named(name: &str) -> &'static Algorithm {
    Algorithm::named(name).unwrap()
}

fn any_algorithm() -> impl Strategy<Value = &'static Algorithm> {
    prop::sample::select(Algorithm::all().iter().collect::<Vec<_>>())
}

/// What happens to a connection next.
#[derive(Debug, Clone, Copy)]
enum Event {
    Ack {
        after_us: u64,
        rtt_us: u64,
        acked: u32,
    },
    Loss,
    Repaired,
}

fn any_ack() -> impl Strategy<Value = Event> {
    (1_u64..50_000, 1_000_u64..400_000, 1_u32..50).prop_map(|(after_us, rtt_us, acked)| {
        Event::Ack {
            after_us,
            rtt_us,
            acked,
        }
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![12 => any_ack(), 1 => Just(Event::Loss), 1 => Just(Event::Repaired)]
}

/// Calls a control as a kernel would and tells `see` the window before and after each event.
fn play(
    control: &mut dyn Control,
    window: &mut Window,
    events: &[Event],
    mut see: impl FnMut(Event, Window, Window, Option<u32>),
) {
    let (mut now_us, mut delivered, mut lost, mut recovering) = (1_000_000, 0, 0, false);
    control.begin(window, 20_000);
    for &event in events {
        let before = *window;
        let mut cut = None;
        match event {
            Event::Ack {
                after_us,
                rtt_us,
                acked,
            } => {
                now_us += after_us;
                let delivered_when_sent = delivered;
                delivered += u64::from(acked);
                let ack = Ack {
                    now_us,
                    rtt_us,
                    acked,
                    delivered,
                    delivered_when_sent,
                    in_flight: 0,
                    lost,
                    waiting: u64::MAX,
                    recovering,
                };
                control.acked(window, &ack);
            }
            Event::Loss if !recovering => {
                lost += 1;
                let to = control.cut(window, now_us);
                window.ssthresh = to;
                window.count = 0;
                cut = Some(to);
                recovering = true;
            }
            Event::Repaired if recovering => {
                if !control.owns_window() {
                    window.cwnd = window.ssthresh;
                }
                control.repaired(now_us);
                recovering = false;
            }
            Event::Loss | Event::Repaired => {}
        }
        see(event, before, *window, cut);
    }
}

/// The least and the most that a loss leaves of a window, by what the file of an algorithm says.
fn left_by_a_loss(algorithm: &Algorithm, cwnd: u32) -> (u32, u32) {
    let cwnd = u64::from(cwnd);
    let (least, most) = match algorithm.about.after_loss {
        AfterLoss::Leaves(part, whole) => (cwnd * part / whole, cwnd * part / whole),
        AfterLoss::Takes(part, whole) => {
            let left = cwnd - cwnd * part / whole;
            (left, left)
        }
        AfterLoss::Between(least, most) => {
            (cwnd * least.0 / least.1, (cwnd * most.0).div_ceil(most.1))
        }
    };
    let floored = |left: u64| (left as u32).max(Window::FLOOR);
    (floored(least), floored(most))
}

proptest! {
    #[test]
    fn the_window_is_never_below_the_floor(
        algorithm in any_algorithm(),
        cwnd in 2_u32..5_000,
        ssthresh in prop::option::of(2_u32..5_000),
        events in prop::collection::vec(any_event(), 1..400),
    ) {
        let mut window = Window::new(cwnd, ssthresh);
        let mut least = u32::MAX;
        play(&mut *control(algorithm), &mut window, &events, |_, _, after, cut| {
            least = least.min(after.cwnd).min(cut.unwrap_or(u32::MAX));
        });
        prop_assert!(least >= Window::FLOOR);
    }

    #[test]
    fn a_loss_leaves_exactly_what_is_specified(
        algorithm in any_algorithm(),
        cwnd in 2_u32..100_000,
        events in prop::collection::vec(any_event(), 1..400),
    ) {
        let mut window = Window::new(cwnd, Some(cwnd));
        let mut wrong = None;
        play(&mut *control(algorithm), &mut window, &events, |_, before, _, cut| {
            let (least, most) = left_by_a_loss(algorithm, before.cwnd);
            if cut.is_some_and(|cut| !(least..=most).contains(&cut)) {
                wrong = Some((before.cwnd, cut, least, most));
            }
        });
        prop_assert_eq!(wrong, None);
    }

    /// b(w) of RFC 3649, but for the steps of its table: the row above has the next larger a(w).
    #[test]
    fn highspeed_takes_what_the_rfc_says(cwnd in 38_u32..83_000) {
        let mut control = HighSpeed::default();
        let mut window = Window::new(cwnd, Some(2));
        let ack = Event::Ack { after_us: 1, rtt_us: 20_000, acked: 1 };
        let mut left = None;
        play(&mut control, &mut window, &[ack, Event::Loss], |_, _, _, cut| left = cut.or(left));
        let b = |w: f64| 0.5 - 0.4 * (w / 38.0).ln() / (83_000.0_f64 / 38.0).ln();
        let taken = 1.0 - f64::from(left.unwrap()) / f64::from(window.cwnd);
        prop_assert!(taken <= b(cwnd.into()) + 1.0 / f64::from(cwnd), "{taken}");
        // Rows are at most a factor 118/38 apart, and count in 1/256.
        prop_assert!(taken >= b(f64::from(cwnd) * 118.0 / 38.0) - 1.0 / 256.0 - 1.0 / f64::from(cwnd));
    }

    /// β is the ratio of the RTTs, kept to 0.5…0.8, from the second loss at an even throughput on.
    #[test]
    fn htcp_takes_what_the_queue_held(least_ms in 11_u64..200, queue_ms in 0_u64..20) {
        let given = [("bandwidth_switch", 0)];
        let mut control = Htcp::new(&Values::new(Htcp::PARAMETERS, &given).unwrap());
        let mut window = Window::new(10_000, Some(10_000));
        let ack = |rtt_ms| Event::Ack { after_us: 10, rtt_us: rtt_ms * 1_000, acked: 1 };
        let events = [
            ack(least_ms), Event::Loss, Event::Repaired, ack(least_ms + queue_ms), Event::Loss,
        ];
        let mut cuts = vec![];
        play(&mut control, &mut window, &events, |_, before, _, cut| {
            cuts.extend(cut.map(|cut| (before.cwnd, cut)));
        });
        prop_assert_eq!(cuts[0].1, cuts[0].0 / 2);
        let ratio = (least_ms * 128 / (least_ms + queue_ms)).clamp(64, 102) as u32;
        prop_assert_eq!(cuts[1].1, cuts[1].0 * ratio / 128);
    }

    #[test]
    fn without_loss_the_window_never_shrinks(
        algorithm in any_algorithm(),
        cwnd in 2_u32..5_000,
        ssthresh in prop::option::of(2_u32..5_000),
        events in prop::collection::vec(any_ack(), 1..400),
    ) {
        let mut window = Window::new(cwnd, ssthresh);
        let mut shrank = None;
        play(&mut *control(algorithm), &mut window, &events, |_, before, after, _| {
            if after.cwnd < before.cwnd {
                shrank = Some((before, after));
            }
        });
        prop_assert_eq!(shrank, None);
    }

    /// Over a path that overflows and loses, every run ends each recovery and delivers.
    #[test]
    fn a_connection_goes_on_whatever_it_loses(
        algorithm in any_algorithm(),
        rtt_ms in 1_u64..200,
        queue in 0_u64..200,
        ack_segments in 1.0..50.0_f64,
        one_of in prop::option::of(3_u64..1_000),
        losses in prop::collection::vec((0_u64..5_000, 1_u64..20), 0..10),
    ) {
        let mut path = Path::new(rtt_ms * 1_000_000, Some(20_000_000), 1538).unwrap();
        path.queue_segments = Some(queue);
        path.lose_one_of = one_of;
        path.ack_segments = ack_segments;
        let mut run = Simulation::new(control(algorithm), path, Window::new(10, None));
        let mut losses = losses;
        losses.sort_unstable();
        for (at_ms, segments) in losses {
            run.run_until(at_ms * 1_000_000);
            run.lose(segments);
        }
        run.run_until(5_000_000_000);
        let rounds = run.trace().rounds.len();
        run.path.lose_one_of = None;
        run.path.queue_segments = None;
        run.run_until(15_000_000_000);
        prop_assert!(run.trace().rounds.len() > rounds);
        prop_assert!(!run.recovering(), "a recovery that never ends");
        prop_assert!(run.trace().rounds.iter().all(|round| round.cwnd_segments >= 2));
    }

    #[test]
    fn a_held_rate_is_its_window_at_the_base_rtt(
        rate_bps in 1_000_000_u64..10_000_000_000,
        rtt_us in 100_u64..800_000,
    ) {
        let target = Target::Rate { rate_bps, packet_bytes: 1500 };
        let mut hold = Hold::new(target, &Values::new(Hold::PARAMETERS, &[]).unwrap());
        let mut window = Window::new(10, None);
        hold.begin(&mut window, rtt_us);
        let until_answer_us = rtt_us + LATE_US;
        let exact = rate_bps as f64 * until_answer_us as f64 / 8e6 / 1538.0;
        // One per cent of headroom and one segment.
        prop_assert!(f64::from(window.cwnd) >= exact.max(2.0).floor());
        prop_assert!(f64::from(window.cwnd) <= (exact * 1.01).max(1.0) + 1.0);
    }
}

/// What happens to a connection that has little to send: so long after what was before it, an answer to all that is in
/// flight, with an RTT, or so many segments are written.
fn any_step() -> impl Strategy<Value = (u64, Result<u64, u64>)> {
    let step = prop_oneof![
        (90_000_u64..123_000).prop_map(Ok),
        (1_u64..40).prop_map(Err)
    ];
    (0_u64..700_000, step)
}

proptest! {
    /// What is written makes a connection jump if, and only if, the first window was acknowledged, the newest RTT is of
    /// the last second, and more waits than the window permits.
    #[test]
    fn what_is_written_makes_only_a_confirmed_connection_jump(
        steps in prop::collection::vec(any_step(), 1..30),
    ) {
        let saved = Saved { segments: 10_000, rtt_us: 110_000 };
        let mut resume = Resume::new(Some(saved), &Values::new(Resume::PARAMETERS, &[]).unwrap());
        let mut window = Window::new(10, None);
        resume.begin(&mut window, 110_000);
        let (mut now_us, mut answered_us) = (0, None);
        let (mut delivered, mut in_flight, mut waiting) = (0, 0, 0);
        for (after_us, step) in steps {
            now_us += after_us;
            let before = window;
            match step {
                Ok(rtt_us) if in_flight > 0 => {
                    let delivered_when_sent = delivered;
                    delivered += in_flight;
                    let ack = Ack {
                        now_us,
                        rtt_us,
                        acked: in_flight as u32,
                        delivered,
                        delivered_when_sent,
                        in_flight: 0,
                        lost: 0,
                        waiting,
                        recovering: false,
                    };
                    answered_us = Some(now_us);
                    in_flight = 0;
                    resume.acked(&mut window, &ack);
                }
                Ok(_) => {}
                Err(segments) => {
                    waiting += segments;
                    let written = Written { now_us, delivered, in_flight, waiting, recovering: false };
                    resume.written(&mut window, &written);
                    let is_recent = answered_us.is_some_and(|then: u64| now_us - then <= 1_000_000);
                    let is_much = waiting > u64::from(before.cwnd).saturating_sub(in_flight);
                    let jumps = delivered >= 10 && is_recent && is_much;
                    prop_assert_eq!(resume.phase() == Phase::Unvalidated, jumps);
                    prop_assert_eq!(window.cwnd, if jumps { 5_000 } else { before.cwnd });
                }
            }
            if resume.phase() != Phase::Reconnaissance {
                break;
            }
            let sent = waiting.min(u64::from(window.cwnd).saturating_sub(in_flight));
            in_flight += sent;
            waiting -= sent;
        }
    }
}

fn answer(in_flight: u64) -> Ack {
    Ack {
        now_us: 20_000,
        rtt_us: 20_000,
        acked: 1,
        delivered: 1,
        delivered_when_sent: 0,
        in_flight,
        lost: 0,
        waiting: u64::MAX,
        recovering: false,
    }
}

#[test]
fn a_changed_target_counts_at_the_next_ack() {
    let values = Values::new(Hold::PARAMETERS, &[]).unwrap();
    let mut hold = Hold::new(Target::Window(100), &values);
    let mut window = Window::new(10, None);
    hold.begin(&mut window, 20_000);
    assert_eq!(window.cwnd, 100);
    hold.aim(Target::Window(40));
    hold.acked(&mut window, &answer(0));
    assert_eq!(window.cwnd, 40);
}

#[test]
fn a_lower_target_spaces_at_once_while_the_window_follows_the_flight() {
    let values = Values::new(Hold::PARAMETERS, &[]).unwrap();
    let mut hold = Hold::new(Target::Window(1_000), &values);
    let mut window = Window::new(10, None);
    hold.begin(&mut window, 20_000);
    hold.aim(Target::Window(400));
    for (in_flight, cwnd) in [(990, 1_000), (900, 964), (500, 564), (400, 400), (399, 400)] {
        hold.acked(&mut window, &answer(in_flight));
        assert_eq!(window.cwnd, cwnd);
        assert_eq!(hold.pacing_per_s(), Some(400.0 / 0.020));
    }
}

#[test]
fn what_is_out_of_range_is_refused_by_name() {
    let refused = |name: &str, given: &[(&str, u64)], target| {
        named(name)
            .control(given, target)
            .err()
            .unwrap()
            .to_string()
    };
    assert_eq!(
        refused("scalable", &[("ai_packets", 0)], None),
        "ai_packets is 0; it must be 2 to 10000"
    );
    assert_eq!(
        refused("htcp", &[("gain", 1)], None),
        "parameter gain is unknown; known are: rtt_scaling, bandwidth_switch"
    );
    assert_eq!(
        refused("reno", &[("gain", 1)], None),
        "parameter gain is unknown; known are: none"
    );
    assert_eq!(
        refused("hold", &[], None),
        "hold needs a target: a window or a rate"
    );
    assert_eq!(
        refused("cubic", &[], Some(Target::Window(9))),
        "cubic takes no target; only hold does"
    );
    assert!(Path::new(1_000_000, Some(0), 1538).is_err());
    assert!(Path::new(0, None, 1538).is_err());
}
