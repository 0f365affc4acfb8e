//! A far end whose data port cannot be reached, and which connects to the near end instead.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::ends::{Ends, job, listing};
use crate::session::tree;

/// A far end without ssh listens at 127.0.0.1 alone, and the proxies of `broken` at 127.0.0.2, so at this address nobody
/// does, whichever port it is.
const CLOSED: &str = "127.0.0.3";

/// The same job where the far end's port is closed, and a way through ssh on which nothing comes.
fn closed(job: &Value) -> (Value, TcpListener) {
    let detour = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut job = job.clone();
    job["data_address"] = json!(CLOSED);
    job["detour_port"] = json!(detour.local_addr().unwrap().port());
    (job, detour)
}

#[test]
fn streams_come_from_the_far_end_where_only_that_is_open() {
    for (direction, encrypt) in [
        ("push", true),
        ("pull", true),
        ("push", false),
        ("pull", false),
    ] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        tree(&source);
        let mut asked = job(direction, &[&source], &target);
        asked["encrypt"] = json!(encrypt);
        let (asked, _detour) = closed(&asked);
        let outcome = Ends::run(&asked).unwrap();
        assert_eq!(listing(&target), listing(&source), "{direction}");
        assert!(outcome["through_ssh"].is_null(), "{outcome}");
        let why = outcome["by_far_end"].as_str().unwrap();
        assert!(
            why.starts_with(CLOSED) && why.ends_with("Connection refused"),
            "{why}"
        );
        assert_eq!(outcome["streams"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn the_port_is_one_of_the_range_and_closed_where_the_far_end_is_reached() {
    let reserved = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = reserved.local_addr().unwrap().port();
    drop(reserved);
    let mut asked = job("push", &[], Path::new(""));
    asked["memory_bytes"] = json!(3_000_000_000_u64);
    asked["near_ports"] = json!([port, port]);
    let (asked, _detour) = closed(&asked);
    let ends = Ends::start(&asked, &json!({}));
    ends.wait_for_bytes(1_000_000);
    assert!(
        TcpListener::bind(("127.0.0.1", port)).is_err(),
        "it is this one"
    );
    let outcome = ends.result().unwrap();
    assert!(outcome["by_far_end"].is_string(), "{outcome}");
    let mut straight = asked;
    straight["data_address"] = json!("127.0.0.1");
    straight["memory_bytes"] = json!(300_000_000_u64);
    let ends = Ends::start(&straight, &json!({}));
    ends.wait_for_bytes(1_000_000);
    std::thread::sleep(Duration::from_millis(50));
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(ends.result().unwrap()["by_far_end"].is_null());
}
