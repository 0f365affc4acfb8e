//! A jump without an ACK: the first window is acknowledged before there is anything to send.

use super::*;

/// The first window is acknowledged, and then the sender has nothing to send for half a round trip.
fn written_late(segments: u64) -> Simulation<Resume> {
    let resume = Resume::new(Some(SAVED), &values(&[]));
    let mut run = Simulation::silent(resume, path(), Window::new(10, None));
    run.write(10);
    run.run_until(150 * MS);
    let phase = run.control.phase();
    assert_eq!((phase, run.window().cwnd), (Phase::Reconnaissance, 20));
    run.write(segments);
    run
}

#[test]
fn a_confirmed_connection_jumps_with_the_first_data() {
    let mut run = written_late(100_000);
    assert_eq!(
        (run.control.phase(), run.window().cwnd),
        (Phase::Unvalidated, BDP / 2)
    );
    let per_s = run.control.pacing_per_s().unwrap();
    assert!(
        (per_s / (f64::from(BDP / 2) / 0.1) - 1.0).abs() < 0.01,
        "{per_s}"
    );
    run.run_until(249 * MS);
    assert_eq!(run.control.phase(), Phase::Unvalidated);
    run.run_until(253 * MS);
    assert_eq!(run.control.phase(), Phase::Validating);
    assert!(run.window().cwnd > BDP / 2 - 200, "{:?}", run.window());
    run.run_until(270 * MS);
    assert!(run.delivered() > 700, "{}", run.delivered());
    run.run_until(600 * MS);
    assert_eq!(run.control.phase(), Phase::Normal(Why::Validated));
    assert_eq!(run.lost(), 0);
}

#[test]
fn what_the_window_permits_does_not_make_it_jump() {
    let mut told = Told::confirmed(100_000);
    assert_eq!(told.written(50_000, 20, 0), Phase::Reconnaissance);
    assert_eq!(told.window.cwnd, 20);
    // Some of it has left, and more comes.
    assert_eq!(told.written(0, 5, 15), Phase::Reconnaissance);
    assert_eq!(told.written(0, 6, 15), Phase::Unvalidated);
    assert_eq!((told.window.cwnd, told.resume.pipe()), (BDP / 2, 15));
}

/// What was in flight when it jumped is no part of the jump.
#[test]
fn a_jump_without_an_ack_is_over_when_its_own_first_segment_is_acknowledged() {
    let mut told = Told::confirmed(100_000);
    assert_eq!(told.written(50_000, 6_000, 15), Phase::Unvalidated);
    assert_eq!(told.acked(15, 10, 2_000), Phase::Unvalidated);
    assert_eq!(told.acked(1, 10, 3_000), Phase::Validating);
    assert_eq!(told.window.cwnd, 3_000);
}

#[test]
fn data_before_the_first_window_is_acknowledged_do_not_make_it_jump() {
    let mut told = Told::new(&[]);
    assert_eq!(told.written(1_000, 6_000, 0), Phase::Reconnaissance);
    told.ack.waiting = 0;
    assert_eq!(told.acked(9, 0, 1), Phase::Reconnaissance);
    assert_eq!(told.written(1_000, 6_000, 1), Phase::Reconnaissance);
    let mut told = Told::confirmed(100_000);
    told.ack.recovering = true;
    assert_eq!(told.written(1_000, 6_000, 0), Phase::Reconnaissance);
    let mut unknown = Resume::new(None, &values(&[]));
    unknown.begin(&mut told.window, 100_000);
    unknown.written(
        &mut told.window,
        &Written {
            now_us: 0,
            delivered: 100,
            in_flight: 0,
            waiting: 6_000,
            recovering: false,
        },
    );
    assert_eq!(unknown.phase(), Phase::Normal(Why::NoMemory));
}

/// After the larger of a second and two round trips, what the first window said is old: it is said anew by an ACK.
#[test]
fn an_old_confirmation_does_not_make_it_jump() {
    for (saved_us, after_us) in [(100_000, 1_000_000), (600_000, 1_200_000)] {
        let saved = Saved {
            rtt_us: saved_us,
            ..SAVED
        };
        let confirmed = || {
            let mut told = Told::confirmed(saved_us);
            told.resume.saved = Some(saved);
            told
        };
        assert_eq!(
            confirmed().written(after_us, 6_000, 0),
            Phase::Unvalidated,
            "{after_us} µs"
        );
        let mut late = confirmed();
        assert_eq!(late.written(after_us + 1, 6_000, 0), Phase::Reconnaissance);
        assert_eq!(late.window.cwnd, 20);
        late.ack.waiting = 6_000;
        assert_eq!(late.acked(1, 10, 19), Phase::Unvalidated);
    }
}

/// The RTT of a path without a queue, seconds ago, hides no queue of now.
#[test]
fn an_old_rtt_does_not_count() {
    let mut told = Told::confirmed(100_000).with_rtt(130_000);
    assert_eq!(told.written(1_000_001, 6_000, 0), Phase::Reconnaissance);
    told.ack.waiting = 6_000;
    assert_eq!(told.acked(1, 10, 19), Phase::Normal(Why::Queue));
}

#[test]
fn a_jump_without_an_ack_keeps_to_the_same_rules() {
    for (rtt_us, phase) in [
        (50_000, Phase::Normal(Why::OtherPath)),
        (50_001, Phase::Unvalidated),
        (112_500, Phase::Unvalidated),
        (112_501, Phase::Normal(Why::Queue)),
        (1_000_001, Phase::Normal(Why::OtherPath)),
    ] {
        let mut told = Told::confirmed(rtt_us);
        assert_eq!(told.written(1_000, 6_000, 0), phase, "{rtt_us} µs");
        let to = if phase == Phase::Unvalidated {
            BDP / 2
        } else {
            20
        };
        assert_eq!(told.window.cwnd, to);
    }
    let mut small = Told::confirmed(100_000);
    small.resume.saved = Some(Saved {
        segments: 40,
        ..SAVED
    });
    assert_eq!(small.written(1_000, 6_000, 0), Phase::Normal(Why::Small));
}

/// The sender had a little more than a window, and then nothing.
#[test]
fn a_jump_without_an_ack_that_was_not_used_is_taken_back() {
    let mut run = written_late(21);
    assert_eq!(run.control.phase(), Phase::Unvalidated);
    run.run_until(400 * MS);
    assert!(
        run.window().cwnd <= 42,
        "{:?} {:?}",
        run.window(),
        run.control.phase()
    );
    let mut told = Told::confirmed(100_000);
    assert_eq!(told.written(1_000, 21, 0), Phase::Unvalidated);
    told.ack.waiting = 0;
    assert_eq!(told.acked(13, 10, 8), Phase::Normal(Why::Unused));
    assert_eq!(told.window.cwnd, 13);
}

#[test]
fn a_jump_without_an_ack_that_meets_congestion_retreats() {
    let mut told = Told::confirmed(100_000);
    assert_eq!(told.written(1_000, 6_000, 0), Phase::Unvalidated);
    told.ack.recovering = true;
    assert_eq!(told.acked(30, 10, 4_000), Phase::Retreat);
    assert_eq!((told.resume.pipe(), told.window.cwnd), (30, 15));
}

/// The handshake may be minutes old.
#[test]
fn the_handshake_does_not_space_the_jump() {
    let mut told = Told::new(&[]);
    told.resume.begin(&mut told.window, 20_000);
    assert_eq!(told.written(1_000, 6_000, 0), Phase::Reconnaissance);
    told.ack.waiting = 0;
    told.acked(10, 0, 0);
    assert_eq!(told.written(1_000, 6_000, 0), Phase::Unvalidated);
    let per_s = told.resume.pacing_per_s().unwrap();
    assert!(
        (per_s / (f64::from(BDP / 2) / 0.1) - 1.0).abs() < 0.01,
        "{per_s}"
    );
}
