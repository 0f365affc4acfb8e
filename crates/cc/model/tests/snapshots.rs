//! The window of each round trip, kept in `tests/snapshots/`; the figures of docs/cc.md are drawn from
//! these files. A run that differs fails; `make snapshots` accepts what has changed.

use std::fmt::Write as _;
use std::path::PathBuf;

use howdah_cc_model::{Algorithm, Hold, Path, Simulation, Target, Trace, Values, Window};

const WIRE_BYTES: u32 = 1538;
const PACKET_BYTES: u32 = 1500;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const INITIAL_WINDOW: u32 = 10;

/// 100 Mb/s, 40 ms, a queue of half a BDP; what does not fit is lost.
fn overflow(algorithm: Algorithm) -> Trace {
    let mut path = Path::new(40 * MS, Some(100_000_000), WIRE_BYTES).unwrap();
    path.queue_segments = path.bdp_segments().map(|segments| segments / 2);
    let control = algorithm.control(&[], None).unwrap();
    let mut run = Simulation::new(control, path, Window::new(INITIAL_WINDOW, None));
    run.run_until(40 * SECOND);
    run.trace().clone()
}

/// 1 Gb/s, 100 ms, a queue that holds all: two segments are lost, 10 s apart, at a large window.
fn recovery(algorithm: Algorithm) -> Trace {
    let path = Path::new(100 * MS, Some(1_000_000_000), WIRE_BYTES).unwrap();
    let control = algorithm.control(&[], None).unwrap();
    let mut run = Simulation::new(control, path, Window::new(5_000, Some(5_000)));
    for at_s in [1, 11] {
        run.run_until(at_s * SECOND);
        run.lose(1);
    }
    run.run_until(30 * SECOND);
    run.trace().clone()
}

/// 1 Gb/s, 180 ms, one segment of a thousand lost: 400 Mb/s are held, from 10 s on 800 Mb/s; from 20 s on
/// the path is 120 ms long; from 40 to 46 s every fifth segment is lost.
fn held() -> Trace {
    let rate = |rate_bps| Target::Rate {
        rate_bps,
        packet_bytes: PACKET_BYTES,
    };
    let values = Values::new(Hold::PARAMETERS, &[]).unwrap();
    let hold = Hold::new(rate(400_000_000), &values);
    let mut path = Path::new(180 * MS, Some(1_000_000_000), WIRE_BYTES).unwrap();
    path.lose_one_of = Some(1_000);
    let mut run = Simulation::new(hold, path, Window::new(INITIAL_WINDOW, None));
    run.run_until(10 * SECOND);
    run.control.aim(rate(800_000_000));
    run.run_until(20 * SECOND);
    run.path.rtt_ns = 120 * MS;
    run.run_until(40 * SECOND);
    assert!(!run.control.fallen_back());
    run.path.lose_one_of = Some(5);
    run.run_until(46 * SECOND);
    assert!(run.control.fallen_back());
    run.path.lose_one_of = Some(1_000);
    run.run_until(60 * SECOND);
    assert!(!run.control.fallen_back());
    run.trace().clone()
}

fn written(runs: &[(&str, Trace)]) -> String {
    let mut text = String::from("run,t_s,cwnd_segments,ssthresh_segments,rtt_ms\n");
    for (name, trace) in runs {
        for round in &trace.rounds {
            let ssthresh = round
                .ssthresh_segments
                .map_or(String::new(), |n| n.to_string());
            writeln!(
                text,
                "{name},{:.4},{},{ssthresh},{:.2}",
                round.t_ns as f64 / 1e9,
                round.cwnd_segments,
                round.rtt_ns as f64 / 1e6,
            )
            .unwrap();
        }
    }
    text
}

fn check(algorithm: Algorithm, runs: &[(&str, Trace)]) {
    let file = format!("tests/snapshots/{}.csv", algorithm.name());
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(&file);
    let now = written(runs);
    if std::env::var_os("HOWDAH_SNAPSHOTS").is_some_and(|value| value == "write") {
        std::fs::write(&path, now).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let lines = kept.lines().zip(now.lines()).enumerate();
    let differs = lines.clone().find(|(_, (kept, now))| kept != now);
    if let Some((index, (kept, now))) = differs {
        panic!(
            "{file}, line {}: kept {kept}, now {now}; to accept it: make snapshots",
            index + 1
        );
    }
    assert_eq!(kept.lines().count(), now.lines().count(), "lines of {file}");
}

fn check_both(algorithm: Algorithm) {
    let runs = [
        ("overflow", overflow(algorithm)),
        ("recovery", recovery(algorithm)),
    ];
    check(algorithm, &runs);
}

#[test]
fn reno() {
    check_both(Algorithm::Reno);
}

#[test]
fn cubic() {
    check_both(Algorithm::Cubic);
}

#[test]
fn scalable() {
    check_both(Algorithm::Scalable);
}

#[test]
fn htcp() {
    check_both(Algorithm::Htcp);
}

#[test]
fn highspeed() {
    check_both(Algorithm::HighSpeed);
}

#[test]
fn hold() {
    check(Algorithm::Hold, &[("held", held())]);
}
