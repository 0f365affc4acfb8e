//! The window of each round trip, kept in each control's `snapshot.csv`, and the table of docs/cc.md; its
//! figures are drawn from these files. A run that differs fails; `make snapshots` accepts what has changed.

use std::fmt::Write as _;
use std::path::{Path as FilePath, PathBuf};

use howdah_cc_model::{
    Algorithm, Model, Path, Simulation, Trace, Values, Window,
    controls::{
        hold::{Hold, Target},
        resume::{Phase, Resume, Saved, Why},
    },
};

const WIRE_BYTES: u32 = 1538;
const PACKET_BYTES: u32 = 1500;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const INITIAL_WINDOW: u32 = 10;

/// 100 Mb/s, 40 ms, a queue of half a BDP; what does not fit is lost.
fn overflow(algorithm: &Algorithm) -> Trace {
    let mut path = Path::new(40 * MS, Some(100_000_000), WIRE_BYTES).unwrap();
    path.queue_segments = path.bdp_segments().map(|segments| segments / 2);
    let control = algorithm.control(&[], None).unwrap();
    let mut run = Simulation::new(control, path, Window::new(INITIAL_WINDOW, None));
    run.run_until(40 * SECOND);
    run.trace().clone()
}

/// 1 Gb/s, 100 ms, a queue that holds all: two segments are lost, 10 s apart, at a large window.
fn recovery(algorithm: &Algorithm) -> Trace {
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

/// 1 Gb/s or a third of it, 100 ms, with room for an eighth of a BDP of 1 Gb/s, which is remembered, or is not.
fn resumed(rate_bps: u64, remembers: bool, ends: Why) -> Trace {
    let whole = Path::new(100 * MS, Some(1_000_000_000), WIRE_BYTES).unwrap();
    let segments = whole.bdp_segments().unwrap() as u32;
    let saved = Saved {
        segments,
        rtt_us: 100_000,
    };
    let mut path = Path::new(100 * MS, Some(rate_bps), WIRE_BYTES).unwrap();
    path.queue_segments = Some(u64::from(segments / 8));
    let values = Values::new(Resume::PARAMETERS, &[]).unwrap();
    let resume = Resume::new(remembers.then_some(saved), &values);
    let mut run = Simulation::new(resume, path, Window::new(INITIAL_WINDOW, None));
    run.run_until(10 * SECOND);
    assert_eq!(run.control.phase(), Phase::Normal(ends));
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

/// Where the table of docs/cc.md begins and ends.
const TABLE: (&str, &str) = (
    "<!-- controls, written by make snapshots -->\n",
    "<!-- end of controls -->\n",
);

fn table() -> String {
    let mut text = String::from(
        "| | Linux's name | growth | a loss leaves | fair beside Reno |\n| --- | --- | --- | --- | --- |\n",
    );
    for algorithm in Algorithm::all() {
        let about = algorithm.about;
        let name = match about.in_linux {
            true => format!("`{}`", algorithm.name),
            false => "ours alone".to_owned(),
        };
        writeln!(
            text,
            "| {} | {name} | {} | {} | {} |",
            about.title, about.growth, about.after_loss, about.fair_beside_reno,
        )
        .unwrap();
    }
    text
}

fn writes() -> bool {
    std::env::var_os("HOWDAH_SNAPSHOTS").is_some_and(|value| value == "write")
}

/// The first difference between what is kept in `file` and what is so `now`.
fn difference(file: &FilePath, kept: &str, now: &str) -> Option<String> {
    let shown = file.display();
    let mut lines = kept.lines().zip(now.lines()).enumerate();
    if let Some((index, (kept, now))) = lines.find(|(_, (kept, now))| kept != now) {
        let line = index + 1;
        return Some(format!("{shown}, line {line}: kept {kept}, now {now}"));
    }
    let (kept, now) = (kept.lines().count(), now.lines().count());
    (kept != now).then(|| format!("{shown}: kept {kept} lines, now {now}"))
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

#[test]
fn every_control_does_what_its_snapshot_says() {
    let mut differences = vec![];
    for algorithm in Algorithm::all() {
        let runs = match algorithm.about.model {
            Model::Held(_) => vec![("held", held())],
            Model::Resumed(_) => vec![
                ("resumed", resumed(1_000_000_000, true, Why::Validated)),
                ("unknown", resumed(1_000_000_000, false, Why::NoMemory)),
                ("third", resumed(333_000_000, true, Why::Retreated)),
                ("unknown_third", resumed(333_000_000, false, Why::NoMemory)),
            ],
            Model::Free(_) => vec![
                ("overflow", overflow(algorithm)),
                ("recovery", recovery(algorithm)),
            ],
        };
        let file = format!("crates/cc/controls/{}/snapshot.csv", algorithm.name);
        let (file, now) = (repository().join(file), written(&runs));
        if writes() {
            std::fs::write(&file, now).unwrap();
            continue;
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        differences.extend(difference(&file, &kept, &now));
    }
    assert!(
        differences.is_empty(),
        "{}; to accept it: make snapshots",
        differences.join("; ")
    );
}

#[test]
fn the_table_in_the_docs_is_what_the_controls_say_of_themselves() {
    let file = repository().join("docs/cc.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(TABLE.0).expect("the table's beginning");
    let (kept, after) = rest.split_once(TABLE.1).expect("the table's end");
    let now = table();
    if writes() {
        std::fs::write(&file, [before, TABLE.0, &now, TABLE.1, after].concat()).unwrap();
        return;
    }
    let differs = difference(&file, kept, &now);
    assert_eq!(differs, None, "to accept it: make snapshots");
}

#[test]
fn every_control_has_a_section_in_the_docs() {
    let text = std::fs::read_to_string(repository().join("docs/cc.md")).unwrap();
    for algorithm in Algorithm::all() {
        let heading = format!("\n## {}\n", algorithm.about.title);
        assert!(text.contains(&heading), "docs/cc.md lacks {heading:?}");
    }
}
