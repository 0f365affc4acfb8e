//! Both ends in one process, over a socket pair and loopback.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::ends::{self, Ends, content, job, listing, pull, push};
use rustix::thread::CapabilitySet;
use serde_json::{Value, json};

pub const MIB: usize = 1 << 20;

pub fn tree(root: &Path) {
    fs::create_dir_all(root.join("sub/empty")).unwrap();
    fs::write(root.join("big"), content(9 * MIB + 12_345)).unwrap();
    fs::write(root.join("block"), content(4 * MIB)).unwrap();
    fs::write(root.join("middle"), content(300_000)).unwrap();
    fs::write(root.join("none"), b"").unwrap();
    for number in 0..300 {
        fs::write(root.join(format!("sub/{number}")), content(number * 37)).unwrap();
    }
    fs::set_permissions(root.join("middle"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::set_permissions(root.join("sub"), fs::Permissions::from_mode(0o700)).unwrap();
    symlink("../nowhere", root.join("link")).unwrap();
}

#[test]
fn trees_arrive_as_they_are_with_the_digests_of_their_files() {
    for direction in ["push", "pull"] {
        for encrypt in [true, false] {
            let base = tempfile::tempdir().unwrap();
            let (source, target) = (base.path().join("src"), base.path().join("dst"));
            tree(&source);
            let mut job = job(direction, &[&source], &target);
            job["encrypt"] = json!(encrypt);
            let kept = base.path().join("digests");
            ends::keep_digests(&mut job, &kept);
            let outcome = Ends::run(&job).unwrap();
            assert_eq!(listing(&target), listing(&source), "{direction} {encrypt}");
            assert_eq!(outcome["files"], 304);
            let digests = ends::digests(&kept);
            assert_eq!(digests.len(), 304);
            for (name, hex) in digests {
                let expected = blake3::hash(&fs::read(source.join(&name)).unwrap()).to_hex();
                assert_eq!(hex, expected.as_str(), "{}", name.display());
            }
            let sent: u64 = outcome["streams"]
                .as_array()
                .unwrap()
                .iter()
                .map(|s| s["bytes"].as_u64().unwrap())
                .sum();
            assert_eq!(outcome["bytes"], sent);
        }
    }
}

#[test]
fn what_is_there_is_skipped_and_what_changed_is_sent() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        tree(&source);
        let job = job(direction, &[&source.join(".")], &target);
        Ends::run(&job).unwrap();
        let inode = fs::metadata(target.join("big")).unwrap().ino();
        fs::write(source.join("sub/7"), b"changed").unwrap();

        let mut dry = job.clone();
        dry["dry_run"] = json!(true);
        let before = listing(&target);
        let plan = Ends::run(&dry).unwrap();
        assert_eq!(listing(&target), before, "a dry run changes nothing");
        let actions = plan["dry_run_plan"].as_array().unwrap();
        let copied: Vec<_> = actions
            .iter()
            .filter(|one| one["action"] == "copy")
            .map(|one| ends::path(&one["path"]))
            .collect();
        assert_eq!((actions.len(), copied), (304, vec!["sub/7".into()]));
        assert_eq!(plan["files_skipped"], 303);
        assert_eq!((&plan["folders"], &plan["links"]), (&json!(3), &json!(1)));

        let outcome = Ends::run(&job).unwrap();
        assert_eq!(
            (&outcome["files"], &outcome["files_skipped"]),
            (&json!(1), &json!(303))
        );
        assert_eq!(listing(&target), listing(&source));
        assert_eq!(fs::metadata(target.join("big")).unwrap().ino(), inode);
    }
}

#[test]
fn sources_go_where_cp_puts_them() {
    let base = tempfile::tempdir().unwrap();
    let (one, two) = (base.path().join("one"), base.path().join("two"));
    fs::create_dir(&one).unwrap();
    fs::write(one.join("in"), b"1").unwrap();
    fs::write(&two, b"2").unwrap();
    let (target, kept) = (base.path().join("target"), base.path().join("digests"));
    let named = |mut job: Value| {
        ends::keep_digests(&mut job, &kept);
        Ends::run(&job).unwrap();
        let mut names: Vec<_> = ends::digests(&kept)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        names.sort();
        names
    };
    let names = named(push(&[&one, &two], &target));
    assert_eq!(names, [Path::new("one/in"), Path::new("two")]);
    assert_eq!(fs::read(target.join("one/in")).unwrap(), b"1");
    assert_eq!(fs::read(target.join("two")).unwrap(), b"2");
    let renamed = base.path().join("renamed");
    assert_eq!(named(pull(&[&two], &renamed)), [Path::new("renamed")]);
    assert_eq!(fs::read(&renamed).unwrap(), b"2");
}

#[test]
fn the_outcome_says_where_the_source_landed() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (one, two) = (base.path().join("one"), base.path().join("two"));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&two).unwrap();
        let target = base.path().join("target");
        let lands = |sources: &[&Path], target: &Path| {
            let outcome = Ends::run(&job(direction, sources, target)).unwrap();
            Path::new(outcome["target"].as_str().unwrap()).to_owned()
        };
        assert_eq!(lands(&[&one], &target), target, "a new name");
        assert_eq!(lands(&[&one], &target), target.join("one"), "a folder");
        assert_eq!(
            lands(&[&one.join("")], &target.join("")),
            target.join("one")
        );
        assert_eq!(lands(&[&one.join(".")], &target), target, "what is in it");
        assert_eq!(lands(&[&one, &two], &target), target, "several");
    }
    let mut memory = push(&[], Path::new(""));
    memory["memory_bytes"] = json!(1000);
    assert_eq!(Ends::run(&memory).unwrap()["target"], Value::Null);
}

#[test]
fn memory_moves_to_memory() {
    for direction in ["push", "pull"] {
        for encrypt in [true, false] {
            let mut job = job(direction, &[], Path::new(""));
            job["memory_bytes"] = json!(50_000_001);
            job["encrypt"] = json!(encrypt);
            assert_eq!(Ends::run(&job).unwrap()["bytes"], 50_000_001);
        }
    }
}

#[test]
fn memory_moves_for_a_time_and_all_that_was_sent_arrives() {
    for direction in ["push", "pull"] {
        for encrypt in [true, false] {
            let mut job = job(direction, &[], Path::new(""));
            job["memory_s"] = json!(0.3);
            job["sample_every_s"] = json!(0.02);
            job["encrypt"] = json!(encrypt);
            let outcome = Ends::run(&job).unwrap();
            let moving_s = outcome["moving_s"].as_f64().unwrap();
            // The time for sending begins a moment before the first block, with which moving begins.
            assert!((0.28..1.0).contains(&moving_s), "{moving_s}");
            let streams = outcome["streams"].as_array().unwrap();
            let sent: u64 = streams.iter().filter_map(|one| one["bytes"].as_u64()).sum();
            assert!(sent > 0 && outcome["bytes"] == sent, "{outcome}");
            let samples = outcome["samples"].as_array().unwrap();
            assert!(samples.len() >= 4 * 5, "{}", samples.len());
        }
    }
}

#[test]
fn samples_are_as_seldom_as_asked_and_the_last_is_kept() {
    let mut job = push(&[], Path::new(""));
    job["memory_s"] = json!(0.5);
    job["sample_every_s"] = json!(10.0);
    let outcome = Ends::run(&job).unwrap();
    let samples = outcome["samples"].as_array().unwrap();
    let times: Vec<_> = samples
        .iter()
        .filter_map(|one| one["t_s"].as_f64())
        .collect();
    assert!(times.len() <= 2 * 4, "{times:?}");
    assert!(times.last().unwrap() >= &0.5, "{times:?}");
}

#[test]
fn times_that_cannot_be_are_refused() {
    for (memory_s, sample_s, said) in [
        (0.0, 0.1, "memory to memory for 0 s"),
        (90_000.0, 0.1, "at most 86400 s"),
        (-1.0, 0.1, "-1 s is no time"),
        (1.0, 0.001, "a sample every 0.001 s: use 0.01 to 10 s"),
        (1.0, 11.0, "a sample every 11 s"),
    ] {
        let mut job = push(&[], Path::new(""));
        job["memory_s"] = json!(memory_s);
        job["sample_every_s"] = json!(sample_s);
        let error = Ends::refused(&job);
        assert!(error.contains(said), "{error}");
    }
    let mut job = push(&[], Path::new(""));
    job["memory_s"] = json!(1.0);
    job["memory_bytes"] = json!(1);
    assert!(Ends::refused(&job).contains("not both"));
}

#[test]
fn refusals_name_the_end_the_path_and_the_reason() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("file");
    fs::write(&file, b"x").unwrap();
    let missing = base.path().join("missing");
    let cases = [
        (
            push(&[&missing], &file),
            "cannot read ",
            "missing: no such file or folder",
        ),
        (
            pull(&[&missing], &file),
            "far end: cannot read ",
            "missing: no such file or folder",
        ),
        (
            push(&[&file], &missing.join("deep")),
            "far end: cannot write to folder ",
            "missing: no such file or folder",
        ),
        (
            push(&[base.path()], &file),
            "far end: cannot make folder ",
            "file: a file is where a folder must be",
        ),
        (
            push(&[&file, base.path()], &file),
            "far end: destination ",
            "is a file, not a folder; name a folder or remove it",
        ),
    ];
    for (job, start, end) in cases {
        let error = Ends::run(&job).unwrap_err();
        assert!(error.starts_with(start) && error.ends_with(end), "{error}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"x");
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1);
}

#[test]
fn a_congestion_control_that_is_not_there_is_named_by_either_sender() {
    for direction in ["push", "pull"] {
        let mut job = job(direction, &[], Path::new(""));
        job["memory_bytes"] = json!(1);
        let error = Ends::run_with(&job, &json!({"congestion_control": "nosuch"})).unwrap_err();
        assert!(error.contains("\"nosuch\""), "{error}");
    }
}

#[test]
fn buffers_that_an_end_does_not_grant_are_a_warning() {
    let mut sets = rustix::thread::capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::NET_ADMIN);
    rustix::thread::set_capabilities(None, sets).unwrap();
    let limit_bytes = |limit: &str| -> u64 {
        let text = fs::read_to_string(format!("/proc/sys/net/core/{limit}")).unwrap();
        text.trim().parse().unwrap()
    };
    for asked_bytes in [1 << 16, 1 << 29] {
        let mut job = push(&[], Path::new(""));
        job["memory_bytes"] = json!(1);
        let outcome = Ends::run_with(&job, &json!({"buffer_bytes": asked_bytes})).unwrap();
        let said = outcome["warnings"].as_array().unwrap();
        for (limit, start) in [
            ("wmem_max", "socket buffers: "),
            ("rmem_max", "far end: socket buffers: "),
        ] {
            let found = said.iter().filter_map(|line| line.as_str());
            let found = found.filter(|line| line.starts_with(start) && line.contains(limit));
            let expected = usize::from(limit_bytes(limit) < asked_bytes);
            assert_eq!(found.count(), expected, "{asked_bytes} {said:?}");
        }
    }
}

#[test]
fn a_file_that_shrinks_on_the_way_is_left_out_and_named_and_the_rest_arrives() {
    for (direction, encrypt) in [("push", true), ("push", false), ("pull", true)] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir(&source).unwrap();
        fs::write(source.join("big"), content(64 * MIB)).unwrap();
        let late = base.path().join("late");
        fs::write(&late, content(3 * MIB)).unwrap();
        let kept = base.path().join("digests");
        let mut job = job(direction, &[&source, &late], &target);
        job["encrypt"] = json!(encrypt);
        ends::keep_digests(&mut job, &kept);
        let ends = Ends::start(&job, &json!({"pacing_bps": 100_000_000, "streams": 3}));
        ends.wait_for_bytes(1);
        let big = fs::File::options().write(true).open(source.join("big"));
        big.unwrap().set_len(10 * MIB as u64).unwrap();
        let outcome = ends.result().unwrap();
        let said = left_out(&outcome);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].ends_with("src/big: it became shorter while it was read"),
            "{said:?}"
        );
        assert_eq!(outcome["files"], 1);
        assert_eq!(outcome["bytes"], 3 * MIB);
        assert_eq!(ends::digests(&kept).len(), 1);
        assert_eq!(fs::read(target.join("late")).unwrap(), content(3 * MIB));
        assert_eq!(listing(&target.join("src")), []);
    }
}

#[test]
fn a_file_overwritten_while_it_is_read_is_left_out_and_named_and_the_rest_arrives() {
    let len = 32 * MIB;
    for (direction, encrypt, time_put_back) in [
        ("push", true, false),
        ("pull", false, false),
        ("push", true, true),
    ] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir(&source).unwrap();
        let (torn, late) = (source.join("a"), base.path().join("late"));
        fs::write(&torn, content(len)).unwrap();
        fs::write(&late, content(3 * MIB)).unwrap();
        let mut job = job(direction, &[&source, &late], &target);
        job["encrypt"] = json!(encrypt);
        let ends = Ends::start(&job, &json!({"pacing_bps": 100_000_000, "streams": 2}));
        ends.wait_for_bytes(MIB as u64);
        let before = fs::metadata(&torn).unwrap().modified().unwrap();
        let mut file = fs::File::options().write(true).open(&torn).unwrap();
        file.write_all(&vec![7; len]).unwrap();
        if time_put_back {
            file.set_modified(before).unwrap();
        }
        let outcome = ends.result().unwrap();
        let said = left_out(&outcome);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("src/a: it "), "{said:?}");
        assert!(said[0].ends_with("run the same command again"), "{said:?}");
        assert_eq!(outcome["files"], 1);
        assert!(!target.join("src/a").exists());
        assert_eq!(fs::read(target.join("late")).unwrap(), content(3 * MIB));
    }
}

#[test]
fn a_file_that_fails_to_be_read_is_left_out_and_named_and_the_rest_arrives() {
    // Read, the first fails and the second ends before the size that it claims.
    let odd = ["/sys/class/net/lo/speed", "/sys/class/net/lo/mtu"];
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (good, target) = (base.path().join("good"), base.path().join("dst"));
        fs::write(&good, content(300_000)).unwrap();
        let sources = [Path::new(odd[0]), &good, Path::new(odd[1])];
        let outcome = Ends::run(&job(direction, &sources, &target)).unwrap();
        let said = left_out(&outcome);
        assert_eq!(
            said,
            [
                "cannot read /sys/class/net/lo/mtu: it became shorter while it was read",
                "cannot read /sys/class/net/lo/speed: Invalid argument",
            ]
        );
        assert_eq!(outcome["bytes"], 300_000);
        let there: Vec<_> = fs::read_dir(&target).unwrap().collect();
        assert_eq!(there.len(), 1);
        assert_eq!(fs::read(target.join("good")).unwrap(), content(300_000));
    }
}

/// Root to whom permissions apply, in this thread and those it starts.
fn drop_override() {
    let mut sets = rustix::thread::capabilities(None).unwrap();
    for set in [&mut sets.effective, &mut sets.permitted] {
        set.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    }
    rustix::thread::set_capabilities(None, sets).unwrap();
}

#[test]
fn what_cannot_be_read_is_left_out_and_named_and_the_rest_arrives() {
    drop_override();
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir_all(source.join("closed")).unwrap();
        for (name, len) in [
            ("secret", 10),
            ("big secret", 3 * MIB),
            ("open", 20),
            ("big", 3 * MIB),
        ] {
            fs::write(source.join(name), content(len)).unwrap();
        }
        for name in ["secret", "big secret", "closed"] {
            fs::set_permissions(source.join(name), fs::Permissions::from_mode(0o0)).unwrap();
        }
        let kept = base.path().join("digests");
        let mut job = job(direction, &[&source], &target);
        ends::keep_digests(&mut job, &kept);
        let outcome = Ends::run(&job).unwrap();
        for folder in [&source, &target] {
            let opened = fs::Permissions::from_mode(0o700);
            fs::set_permissions(folder.join("closed"), opened).unwrap();
        }
        let said = left_out(&outcome);
        assert_eq!(said.len(), 3, "{said:?}");
        for (said, name) in said.iter().zip(["big secret;", "closed;", "secret;"]) {
            assert!(said.starts_with("no permission to read"), "{said}");
            assert!(said.contains(name), "{said}");
        }
        assert_eq!(outcome["files"], 2);
        assert_eq!(ends::digests(&kept).len(), 2);
        for name in ["open", "big"] {
            assert_eq!(
                fs::read(target.join(name)).unwrap(),
                fs::read(source.join(name)).unwrap()
            );
        }
        assert!(!target.join("secret").exists() && !target.join("big secret").exists());
    }
}

/// Why what was left out was, in order of the names; a far end is named.
fn left_out(outcome: &Value) -> Vec<String> {
    let prefix = match outcome["direction"].as_str() {
        Some("pull") => "far end: ",
        _ => "",
    };
    let said = outcome["left_out"].as_array().unwrap().iter();
    let mut said: Vec<_> = said
        .map(|one| {
            one.as_str()
                .unwrap()
                .strip_prefix(prefix)
                .unwrap()
                .to_owned()
        })
        .collect();
    said.sort_by_key(|said| said.rsplit('/').next().map(str::to_owned));
    said
}

#[test]
fn what_changes_between_scan_and_read_is_left_out_and_named() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (slow, folder) = (base.path().join("slow"), base.path().join("folder"));
        let target = base.path().join("dst");
        fs::write(&slow, content(16 * MIB)).unwrap();
        fs::create_dir(&folder).unwrap();
        for name in ["gone", "kept", "odd", "short"] {
            fs::write(folder.join(name), content(300_000)).unwrap();
        }
        let plan = json!({"pacing_bps": 200_000_000, "streams": 1});
        let ends = Ends::start(&job(direction, &[&slow, &folder], &target), &plan);
        ends.wait_until(|progress| {
            progress["scan_complete"] == true && progress["bytes_done"].as_u64().unwrap() > 0
        });
        for name in ["gone", "odd"] {
            fs::remove_file(folder.join(name)).unwrap();
        }
        let owner = rustix::fs::Mode::RUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, folder.join("odd"), fifo, owner, 0).unwrap();
        fs::write(folder.join("short"), b"x").unwrap();
        let outcome = ends.result().unwrap();
        let said = left_out(&outcome);
        let endings = [
            "folder/gone: no such file or folder",
            "folder/odd: it is a FIFO",
            "folder/short: it has become shorter since it was found",
        ];
        assert_eq!(said.len(), endings.len(), "{said:?}");
        for (said, ending) in said.iter().zip(endings) {
            assert!(
                said.starts_with("cannot read ") && said.ends_with(ending),
                "{said}"
            );
        }
        assert_eq!(outcome["files"], 2);
        assert_eq!(listing(&target.join("folder")).len(), 1);
        assert_eq!(
            fs::read(target.join("folder/kept")).unwrap(),
            content(300_000)
        );
    }
}

#[test]
fn cancelling_stops_both_ends_and_keeps_what_is_complete() {
    for direction in ["push", "pull"] {
        let base = tempfile::tempdir().unwrap();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir(&source).unwrap();
        for name in 0..20 {
            fs::write(source.join(name.to_string()), content(8 * MIB)).unwrap();
        }
        let plan = json!({"pacing_bps": 400_000_000, "streams": 2});
        let ends = Ends::start(&job(direction, &[&source], &target), &plan);
        ends.wait_for_bytes(20 * MIB as u64);
        let cancelled = std::time::Instant::now();
        ends.session.cancel();
        let error = ends.result().unwrap_err();
        assert!(cancelled.elapsed().as_secs_f64() < 2.0);
        assert!(error.starts_with("cancelled"), "{error}");
        let kept: Vec<_> = fs::read_dir(&target)
            .unwrap()
            .map(|entry| entry.unwrap())
            .collect();
        assert!((1..20).contains(&kept.len()), "{}", kept.len());
        // Beside what is complete there are parts and a mark that the same command goes on with, and nothing else.
        let is_left = |name: &str| {
            name == ".howdah-part" || (0..20).any(|file| name == format!(".{file}.howdah-part"))
        };
        for entry in kept {
            if !is_left(entry.file_name().to_str().unwrap()) {
                assert!(
                    fs::read(entry.path()).unwrap() == content(8 * MIB),
                    "{entry:?}"
                );
            }
        }
        Ends::run(&job(direction, &[&source.join(".")], &target)).unwrap();
        assert_eq!(listing(&target), listing(&source));
    }
}
