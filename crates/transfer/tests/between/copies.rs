//! Copies between two far ends that keep to what they say.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use howdah_transfer::{Reach, TransferError};
use serde_json::{Value, json};

use super::{Far, PATIENCE, base, between, run, run_with, start};
use crate::ends::{content, digests, keep_digests, listing, path, push};
use crate::holes::holed_tree;

#[test]
fn files_are_told_by_their_content_between_far_ends_too() {
    let base = base();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    run(&between(push(&[&src], &dst), "sender")).unwrap();
    let other = fs::metadata(src.join("sub/7")).unwrap().modified().unwrap();
    fs::write(dst.join("sub/7"), vec![7; 7000]).unwrap();
    let file = fs::File::options().write(true).open(dst.join("sub/7"));
    file.unwrap().set_modified(other).unwrap();
    fs::write(dst.join("big"), content(9_000_000)).unwrap();
    let mut job = between(push(&[&src.join(".")], &dst), "sender");
    job["destination_is_folder"] = json!(true);
    job["skip"] = json!({"missing": false, "there": false, "newer": false, "same": "content"});
    let outcome = run(&job).unwrap();
    assert_eq!(
        (&outcome["files"], &outcome["bytes"]),
        (&json!(1), &json!(7000))
    );
    assert_eq!(outcome["files_skipped"], 51);
    assert_eq!(listing(&src), listing(&dst));
}

#[test]
fn a_tree_goes_straight_from_one_far_end_to_the_other_whichever_connects() {
    for connects in ["sender", "receiver"] {
        for encrypt in [true, false] {
            let base = base();
            let (src, dst) = (base.path().join("src"), base.path().join("dst"));
            let list = base.path().join("digests");
            let mut job = between(push(&[&src], &dst), connects);
            job["encrypt"] = encrypt.into();
            keep_digests(&mut job, &list);
            let outcome = run(&job).unwrap();
            assert_eq!(listing(&src), listing(&dst));
            let bytes = 9_000_001 + 50 * 49 * 500;
            for (key, expected) in [
                ("direction", json!("push")),
                ("bytes", json!(bytes)),
                ("files", json!(52)),
                ("folders", json!(3)),
                ("links", json!(1)),
                ("files_skipped", json!(0)),
                ("encrypted", json!(encrypt)),
                ("warnings", json!([])),
                ("left_out", json!([])),
            ] {
                assert_eq!(outcome[key], expected, "{key}");
            }
            assert_eq!(outcome["target"], dst.to_str().unwrap());
            assert_eq!(outcome["digest_sum"].as_str().unwrap().len(), 64);
            let streams = outcome["streams"].as_array().unwrap();
            assert_eq!(streams.len(), 3);
            assert!(streams[0]["receive_buffer_bytes"].is_u64());
            let told = digests(&list);
            assert_eq!(told.len(), 52);
            let big = blake3::hash(&content(9_000_000)).to_hex().to_string();
            assert!(told.contains(&("big".into(), big)), "{told:?}");
        }
    }
}

#[test]
fn holes_are_told_from_one_far_end_to_the_other() {
    for sparse in [true, false] {
        let base = base();
        let (src, dst) = (base.path().join("src"), base.path().join("dst"));
        holed_tree(&src.join("holed"));
        let mut job = between(push(&[&src], &dst), "sender");
        job["keep"] = json!({"sparse": sparse});
        let outcome = run(&job).unwrap();
        assert!(listing(&src) == listing(&dst));
        let count = |key: &str| outcome[key].as_u64().unwrap();
        let files = listing(&src).into_iter().filter(|one| one.0 != *"link");
        let all = files.map(|one| one.4.len() as u64).sum::<u64>();
        assert_eq!(count("bytes") + count("hole_bytes"), all);
        assert!(count("hole_bytes") > 48 << 20, "{outcome}");
    }
}

#[test]
fn what_is_there_is_skipped_and_a_dry_run_says_so() {
    let base = base();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let job = between(push(&[&src.join(".")], &dst), "sender");
    let mut dry = job.clone();
    dry["dry_run"] = true.into();
    let would = run(&dry).unwrap();
    assert!(!dst.exists());
    let listed = would["dry_run_plan"].as_array().unwrap();
    // And the target, two folders in it, and a link.
    assert_eq!(listed.len(), 52 + 4);
    let files = listed.iter().filter(|one| one["kind"] == "file");
    assert_eq!(files.count(), 52);
    assert!(listed.iter().all(|one| one["action"] == "copy"));
    assert_eq!(would["links"], 1);
    run(&job).unwrap();
    fs::write(src.join("new"), content(3000)).unwrap();
    let would = run(&dry).unwrap();
    let listed = would["dry_run_plan"].as_array().unwrap();
    let copied: Vec<_> = listed
        .iter()
        .filter(|one| one["action"] == "copy")
        .map(|one| path(&one["path"]))
        .collect();
    assert_eq!(copied, [Path::new("new")]);
    let again = run(&job).unwrap();
    assert_eq!(
        (&again["files"], &again["bytes"]),
        (&json!(1), &json!(3000))
    );
    assert_eq!(again["files_skipped"], 52);
    assert_eq!(listing(&src), listing(&dst));
}

#[test]
fn special_files_are_counted_apart_from_links() {
    let base = base();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    UnixListener::bind(src.join("socket")).unwrap();
    let mut job = between(push(&[&src], &dst), "sender");
    job["keep"] = json!({"specials": true});
    for dry_run in [true, false] {
        job["dry_run"] = dry_run.into();
        let outcome = run(&job).unwrap();
        let counted = (&outcome["links"], &outcome["special_files"]);
        assert_eq!(counted, (&json!(1), &json!(1)), "{dry_run}");
    }
}

#[test]
fn a_list_and_rules_say_what_goes() {
    let base = base();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let list = base.path().join("names");
    fs::write(&list, "sub/1\nsub/2\nbig\n").unwrap();
    let mut job = between(push(&[&src.join(".")], &dst), "sender");
    keep_digests(&mut job, &list);
    job["names"] = std::mem::take(&mut job["digests"]);
    let outcome = run(&job).unwrap();
    assert_eq!(outcome["files"], 3);
    assert!(dst.join("sub/2").exists() && !dst.join("sub/3").exists());
}

#[test]
fn each_end_is_named_where_it_fails() {
    let base = base();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    fs::write(base.path().join("file"), "").unwrap();
    let nothing = between(push(&[&base.path().join("none")], &dst), "sender");
    let error = run(&nothing).unwrap_err();
    assert!(error.starts_with("one: cannot read "), "{error}");
    let inside = base.path().join("file/dst");
    let error = run(&between(push(&[&src], &inside), "sender")).unwrap_err();
    assert!(error.starts_with("two: "), "{error}");
    // What cannot be read is left out, and the sending host is named.
    let secret = src.join("secret");
    fs::write(&secret, "x").unwrap();
    fs::remove_file(&secret).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &secret,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let outcome = run(&between(push(&[&src], &dst), "receiver")).unwrap();
    let warnings = outcome["warnings"].as_array().unwrap();
    assert!(
        warnings.len() == 1 && warnings[0].as_str().unwrap().starts_with("one: "),
        "{warnings:?}"
    );
}

#[test]
fn a_port_is_tried_and_a_login_for_copies_connects_nowhere() {
    let rooted = tempfile::tempdir().unwrap();
    let beneath = |read_only| {
        let folder = fs::File::open(rooted.path()).unwrap();
        Reach::beneath(folder.into(), read_only)
    };
    let (free, bound) = (Far::new(Reach::default()), Far::new(beneath(true)));
    let there = free.tries(bound.port);
    assert!(there["rtt_s"].as_f64().unwrap() < 1.0 && there["why_not"].is_null());
    let back = bound.tries(free.port);
    assert!(back["rtt_s"].is_null());
    let words = "this login is for copies alone and connects to no other host";
    assert_eq!(back["why_not"], words);
    // So the other end connects, and one that is told to all the same says why not.
    let base = base();
    fs::rename(base.path().join("src"), rooted.path().join("src")).unwrap();
    let dst = base.path().join("dst");
    let job = push(&[Path::new("/src")], &dst);
    let reaches = || [beneath(true), Reach::default()];
    let refused = run_with(&between(job.clone(), "sender"), reaches()).unwrap_err();
    assert_eq!(refused, format!("one: {words}"));
    run_with(&between(job, "receiver"), reaches()).unwrap();
    assert_eq!(listing(&rooted.path().join("src")), listing(&dst));
}

#[test]
fn a_copy_that_is_stopped_ends_both_and_goes_on_with_the_same_command() {
    let base = tempfile::tempdir().unwrap();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    fs::write(&src, content(64 << 20)).unwrap();
    let job = between(push(&[&src], &dst), "sender");
    let [sender, receiver] = [(); 2].map(|()| Far::new(Reach::default()));
    // It has its effect although it comes before the sender has its job.
    start(&sender.session, &receiver.session, &job).unwrap();
    let progress = || serde_json::from_slice::<Value>(&sender.session.progress()).unwrap();
    let steering = json!({"streams": 1, "pacing_bps": 80_000_000, "why": "slowly"});
    sender
        .session
        .steer(steering.to_string().as_bytes())
        .unwrap();
    let until = Instant::now() + PATIENCE;
    while progress()["latest"].is_null() || progress()["bytes_done"].as_u64().unwrap() < 1 << 20 {
        assert!(Instant::now() < until, "{}", progress());
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(progress()["latest"]["refused"], Value::Null);
    sender.session.cancel();
    receiver.session.cancel();
    assert!(sender.session.wait(PATIENCE));
    assert_eq!(sender.session.result(), Err(TransferError::Cancelled));
    for far in [sender.ends, receiver.ends] {
        assert_eq!(far.join().unwrap(), Err(TransferError::Cancelled));
    }
    assert!(!dst.exists());
    let outcome = run(&job).unwrap();
    let resumed = outcome["bytes_resumed"].as_u64().unwrap();
    assert!(resumed > 0, "{outcome}");
    assert_eq!(outcome["bytes"].as_u64().unwrap() + resumed, 64 << 20);
    assert_eq!(fs::read(&dst).unwrap(), fs::read(&src).unwrap());
}
