//! Transfers changed on their way, over loopback.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::ends::{Ends, content, job, listing, push};

const LONG_S: f64 = 60.0;
const SOON_S: f64 = 0.3;
const PACED_BPS: u64 = 400_000_000;

fn steering(why: &str, control: Option<&str>, streams: u16, pacing_bps: Option<u64>) -> Value {
    json!({"congestion_control": control, "streams": streams, "pacing_bps": pacing_bps, "why": why})
}

/// From memory, until it is cancelled or `seconds` have passed.
fn endless(direction: &str, seconds: f64) -> Value {
    let mut job = job(direction, &[], Path::new(""));
    job["memory_s"] = json!(seconds);
    job["sample_every_s"] = json!(0.01);
    job
}

#[test]
fn streams_change_on_their_way_whichever_end_sends() {
    for direction in ["push", "pull"] {
        let ends = Ends::start(&endless(direction, 1.5), &json!({}));
        ends.wait_for_bytes(1);
        let first = ends.steer(&steering("first", Some("reno"), 1, Some(PACED_BPS)));
        assert_eq!(first["refused"], Value::Null, "{first}");
        assert_eq!(first["congestion_control"], "reno");
        // More than all sockets together had taken and not sent.
        let bytes = ends.bytes();
        ends.wait_for_bytes(bytes + 30_000_000);
        let second = ends.steer(&steering("second", None, 4, None));
        assert_eq!(second["congestion_control"], "reno", "{second}");
        let outcome = ends.result().unwrap();
        assert_eq!(outcome["changes"], json!([first, second]));
        let streams = outcome["streams"].as_array().unwrap();
        let sent: u64 = streams.iter().filter_map(|one| one["bytes"].as_u64()).sum();
        assert_eq!(outcome["bytes"], sent);
        assert!(
            streams
                .iter()
                .all(|one| one["congestion_control"] == "reno"),
            "{streams:?}"
        );
        slowed(&outcome, (&first, &second));
    }
}

/// Between the changes stream 0 was paced, and the others came to rest.
fn slowed(outcome: &Value, (first, second): (&Value, &Value)) {
    let samples = outcome["samples"].as_array().unwrap();
    let of = |stream: u64, from: &Value, to: f64| -> Vec<&Value> {
        let within = from["t_s"].as_f64().unwrap()..to;
        let of_stream = samples.iter().filter(move |one| one["stream"] == stream);
        of_stream
            .filter(|one| within.contains(&one["t_s"].as_f64().unwrap()))
            .collect()
    };
    let pacing = |sample: &Value| sample["pacing_rate_bps"].as_u64().unwrap_or(u64::MAX);
    let until = second["t_s"].as_f64().unwrap();
    let paced = of(0, first, until);
    assert!(paced.len() > 2, "{}", paced.len());
    assert!(paced.iter().all(|one| pacing(one) <= PACED_BPS));
    let after = of(0, second, f64::MAX);
    assert!(after.iter().any(|one| pacing(one) > PACED_BPS));
    for stream in 1..4 {
        let idle = of(stream, first, until);
        let late = &idle[idle.len() - 2..];
        assert_eq!(late[0]["bytes_acked"], late[1]["bytes_acked"], "{late:?}");
        let after = of(stream, second, f64::MAX);
        let acked = |sample: &Value| sample["bytes_acked"].as_u64().unwrap();
        assert!(acked(after.last().unwrap()) > acked(late[1]), "{after:?}");
    }
}

#[test]
fn a_control_that_the_sender_has_not_is_refused_and_all_goes_on() {
    for (direction, whose) in [("push", ""), ("pull", "far end: ")] {
        let ends = Ends::start(&endless(direction, SOON_S), &json!({}));
        ends.wait_for_bytes(1);
        let change = ends.steer(&steering("no use", Some("nosuch"), 1, Some(1)));
        let refused = change["refused"].as_str().unwrap();
        let said = format!("{whose}congestion control \"nosuch\" is not in this kernel, which has");
        assert!(refused.starts_with(&said), "{refused}");
        let outcome = ends.result().unwrap();
        assert_eq!(outcome["changes"], json!([change]));
        for stream in outcome["streams"].as_array().unwrap() {
            assert_ne!(stream["congestion_control"], "nosuch");
            assert!(stream["bytes"].as_u64().unwrap() > 0, "{outcome}");
        }
    }
}

#[test]
fn streams_that_open_late_send_like_the_others() {
    for direction in ["push", "pull"] {
        let ends = Ends::start(&endless(direction, SOON_S), &json!({"streams": 16}));
        let change = ends.steer(&steering("at once", Some("reno"), 16, None));
        assert_eq!(change["refused"], Value::Null, "{change}");
        let outcome = ends.result().unwrap();
        let streams = outcome["streams"].as_array().unwrap();
        let obeys = |one: &Value| one["congestion_control"] == "reno";
        assert!(
            streams.len() == 16 && streams.iter().all(obeys),
            "{streams:?}"
        );
    }
}

#[test]
fn files_arrive_whole_however_often_their_streams_change() {
    for (direction, encrypt) in [("push", true), ("pull", true), ("push", false)] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir(&source).unwrap();
        for number in 0..12 {
            let file = source.join(number.to_string());
            fs::write(file, content(number * 1_000_003)).unwrap();
        }
        let mut job = job(direction, &[&source], &target);
        job["encrypt"] = json!(encrypt);
        // Slow enough that it is not over before the changes.
        let ends = Ends::start(&job, &json!({"pacing_bps": 40_000_000}));
        for (why, control, streams, pacing) in [
            ("a", Some("reno"), 1, Some(200_000_000)),
            ("b", Some("cubic"), 4, Some(PACED_BPS)),
            ("c", Some("reno"), 2, None),
        ] {
            let change = ends.steer(&steering(why, control, streams, pacing));
            assert_eq!(change["refused"], Value::Null, "{change}");
        }
        let outcome = ends.result().unwrap();
        assert_eq!(outcome["files"], 12);
        assert_eq!(listing(&target), listing(&source));
    }
}

#[test]
fn what_cannot_be_steered_is_refused_at_once() {
    let ends = Ends::start(&endless("push", LONG_S), &json!({}));
    let refused = |steering: &Value| {
        let error = ends.session.steer(steering.to_string().as_bytes());
        error.expect_err("it is refused").to_string()
    };
    for (wrong, said) in [
        (steering("", None, 5, None), "more than were opened"),
        (steering("", None, 0, None), "no streams"),
        (steering("", None, 1, Some(0)), "a rate of nothing"),
        (steering("", Some("no name"), 1, None), "a name that no"),
        (json!({"streams": 1}), "missing field `why`"),
    ] {
        let error = refused(&wrong);
        assert!(error.starts_with("cannot steer the transfer: "), "{error}");
        assert!(error.contains(said), "{error}");
    }
    ends.session.cancel();
    ends.wait_until(|progress| progress["phase"] == "failed");
    let late = steering("late", None, 1, None).to_string();
    ends.session.steer(late.as_bytes()).unwrap();
    assert!(ends.result().is_err());

    let base = tempfile::tempdir().unwrap();
    let mut dry = push(&[base.path()], &base.path().join("dst"));
    dry["dry_run"] = json!(true);
    let ends = Ends::start(&dry, &json!({}));
    let steering = steering("", None, 1, None).to_string();
    let error = ends.session.steer(steering.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("a dry run has no streams"));
    ends.result().unwrap();
}
