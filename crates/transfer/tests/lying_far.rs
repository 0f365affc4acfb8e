//! A far end that lies to the near one. Each lie is named, in bounded time and memory.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use howdah_transfer::Session;
use howdah_wire::{
    Answer, Checked, Compare, Compared, Content, Extraneous, FarHello, Finished, FrameReader, Kind,
    Message, Offer, Offered, OfferedFile, Progress, Removal, Sample, Scanned, Span, Steered,
    Totals, TreePath, encode, preamble,
};
use serde_json::{Value, json};

/// What the near end allows a far end that does nothing, here. On a busy machine, those who have something to say
/// need a part of it before they have said it.
const PATIENCE: Duration = Duration::from_millis(1200);
/// Far longer than anything here takes on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// What lies may cost the near end, of the memory of this process.
const MEMORY_BYTES: u64 = 256 << 20;

/// Says that it is there without end.
fn alive(_: u64) -> Option<Message> {
    None
}

fn accept(fresh: bool) -> Message {
    Message::Accept {
        fresh,
        into_folder: true,
    }
}

/// The first bytes of a far end that listens at `port`.
fn greeting(port: u16) -> Vec<u8> {
    let hello = Message::FarHello(Box::new(FarHello {
        version: "liar".into(),
        key: Vec::new(),
        token: [7; 32],
        limits_json: b"{}".to_vec(),
        addresses: vec!["127.0.0.1".into()],
        port,
        rtt_ns: None,
    }));
    [&preamble()[..], &encode(&hello).unwrap()].concat()
}

fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib << 10
}

/// Why the near end gives up on a far end that greets, takes connections without reading them, and
/// says `first`, then what `speech` gives, with words that it is there in between.
fn lied_to(
    job: &Value,
    first: Vec<Message>,
    speech: impl Fn(u64) -> Option<Message> + Send + Sync + 'static,
) -> String {
    let before = peak_bytes();
    let (near, mut far) = UnixStream::pair().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let session = Session::new(near.try_clone().unwrap().into(), near.into())
        .unwrap()
        .with_patience(PATIENCE);
    far.write_all(&greeting(port)).unwrap();
    assert!(session.hello(ENDS_WITHIN).unwrap().is_some());
    let over = Arc::new(AtomicBool::new(false));
    let open = Arc::new(Mutex::new(Vec::<TcpStream>::new()));
    let listening = thread::spawn({
        let (over, open) = (Arc::clone(&over), Arc::clone(&open));
        move || {
            while !over.load(Ordering::Relaxed) {
                if let Ok((stream, _)) = listener.accept() {
                    open.lock().unwrap().push(stream);
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let plan = json!({"streams": 2, "block_bytes": 1 << 20});
    session
        .start(job.to_string().as_bytes(), plan.to_string().as_bytes())
        .unwrap();
    let (job_is_there, heard_job) = mpsc::channel();
    let hearing = {
        let mut far = far.try_clone().unwrap();
        thread::spawn(move || {
            let mut frames = FrameReader::new();
            let mut buffer = [0; 65536];
            while let Ok(count @ 1..) = far.read(&mut buffer) {
                frames.push(&buffer[..count]);
                while let Some(message) = frames.next_message().unwrap() {
                    if matches!(message, Message::Job(_)) {
                        let _ = job_is_there.send(());
                    }
                }
            }
        })
    };
    let started = Instant::now();
    // From when on it has nothing more to say: a long listing takes the time that it takes.
    let silent = Arc::new(OnceLock::new());
    let speaking = {
        let (over, silent) = (Arc::clone(&over), Arc::clone(&silent));
        thread::spawn(move || {
            // The job must be there before an end may speak of it. The patience of the near end has begun by then.
            if heard_job.recv().is_err() {
                return;
            }
            let mut say = |message: &Message| far.write_all(&encode(message).unwrap()).is_ok();
            let mut there = first.iter().all(&mut say);
            let mut number = 0;
            while there && !over.load(Ordering::Relaxed) {
                let message = speech(number);
                if message.is_none() {
                    silent.get_or_init(Instant::now);
                    thread::sleep(Duration::from_millis(5));
                }
                there = say(&message.unwrap_or(Message::Alive));
                number += 1;
            }
        })
    };
    assert!(session.wait(ENDS_WITHIN), "the near end hangs");
    let waited = silent.get().unwrap_or(&started).elapsed();
    let error = session.result().unwrap_err().to_string();
    over.store(true, Ordering::Relaxed);
    drop(session);
    for thread in [listening, speaking, hearing] {
        thread.join().unwrap();
    }
    assert!(waited < 12 * PATIENCE, "{waited:?}: {error}");
    let grown = peak_bytes().saturating_sub(before);
    assert!(grown < MEMORY_BYTES, "{grown} bytes: {error}");
    error
}

fn job(direction: &str, sources: &[&Path], destination: &Path) -> Value {
    let encode = |path: &Path| STANDARD.encode(path.as_os_str().as_bytes());
    json!({
        "direction": direction,
        "sources": sources.iter().map(|path| encode(path)).collect::<Vec<_>>(),
        "destination": encode(destination),
        "destination_is_folder": false,
        "memory_bytes": null,
        "dry_run": false,
        "encrypt": false,
        "data_address": "127.0.0.1",
        "digests": null,
        "sample_every_s": 0.1,
    })
}

/// Pushes a small tree.
fn push(base: &Path) -> Value {
    let source = base.join("source");
    fs::create_dir(&source).unwrap();
    for number in 0..20 {
        fs::write(source.join(number.to_string()), vec![1; 10_000]).unwrap();
    }
    job("push", &[&source], Path::new("/far"))
}

fn pull(base: &Path) -> Value {
    job("pull", &[Path::new("/far")], &base.join("target"))
}

/// The error of a lie, in a folder of its own.
fn lie(
    make: fn(&Path) -> Value,
    first: Vec<Message>,
    speech: impl Fn(u64) -> Option<Message> + Send + Sync + 'static,
) -> String {
    let base = tempfile::tempdir().unwrap();
    lied_to(&make(base.path()), first, speech)
}

fn is_named(error: &str, what: &str) {
    let expected = format!("the far end is there but {what} for ");
    assert!(error.starts_with(&expected), "{error}");
}

/// A far end that was kept has said that it is there every few seconds until it is taken over.
#[test]
fn a_far_end_that_has_said_much_before_its_job_is_left_at_once() {
    for cancels in [true, false] {
        let (near, mut far) = UnixStream::pair().unwrap();
        let session = Session::new(near.try_clone().unwrap().into(), near.into()).unwrap();
        far.write_all(&greeting(1)).unwrap();
        assert!(session.hello(ENDS_WITHIN).unwrap().is_some());
        for _ in 0..100 {
            far.write_all(&encode(&Message::Alive).unwrap()).unwrap();
        }
        // Until no more of it is taken.
        thread::sleep(Duration::from_millis(100));
        let (left, heard) = mpsc::channel();
        thread::spawn(move || {
            if cancels {
                session.cancel();
            }
            drop(session);
            left.send(()).unwrap();
        });
        let heard = heard.recv_timeout(Duration::from_secs(20));
        assert!(heard.is_ok(), "cancelled {cancels}: it waits");
    }
}

#[test]
fn one_that_is_there_and_does_nothing_is_named_in_each_phase() {
    is_named(
        &lie(push, Vec::new(), alive),
        "has not said whether it takes the copy",
    );
    is_named(
        &lie(push, vec![accept(false)], alive),
        "has not said which files it needs",
    );
    is_named(&lie(pull, Vec::new(), alive), "has sent nothing");
}

#[test]
fn one_that_takes_no_data_is_named() {
    let memory = |_: &Path| {
        let mut job = job("push", &[], Path::new(""));
        job["memory_bytes"] = json!(1u64 << 34);
        job
    };
    is_named(&lie(memory, vec![accept(true)], alive), "has taken no data");
}

#[test]
fn one_that_confirms_nothing_is_not_believed_for_what_it_says_of_progress() {
    let memory = |_: &Path| {
        let mut job = job("push", &[], Path::new(""));
        job["memory_bytes"] = json!(1u64 << 34);
        job
    };
    let speech = |number| {
        thread::sleep(Duration::from_millis(1));
        Some(Message::Progress(Progress {
            bytes: number,
            files: u64::MAX - number,
            ..Progress::default()
        }))
    };
    is_named(
        &lie(memory, vec![accept(true)], speech),
        "has taken no data",
    );
}

#[test]
fn a_scan_that_finds_more_than_can_be_is_no_progress() {
    let speech = |number| {
        thread::sleep(Duration::from_millis(1));
        Some(Message::Scanned(Scanned {
            files: (1 << 40) + number,
            ..Scanned::default()
        }))
    };
    is_named(&lie(pull, Vec::new(), speech), "has sent nothing");
}

#[test]
fn floods_of_words_cost_little_memory_and_keep_nobody_waiting() {
    let text = "x".repeat(60_000);
    let most = 8_000;
    let words = text.clone();
    let warnings = move |number| (number < most).then(|| Message::Warning(words.clone()));
    is_named(&lie(pull, Vec::new(), warnings), "has sent nothing");
    let words = text.clone();
    let left_out = move |number| (number < most).then(|| Message::LeftOut(words.clone()));
    is_named(&lie(pull, Vec::new(), left_out), "has sent nothing");
    let samples = |number| {
        (number < 200_000).then(|| {
            let sample = |stream| Sample {
                at_ns: number,
                stream,
                bytes_acked: number,
                ..Sample::default()
            };
            Message::Samples(vec![sample(0), sample(1)])
        })
    };
    is_named(&lie(pull, Vec::new(), samples), "has sent nothing");
}

#[test]
fn a_dry_run_of_a_listing_without_end_costs_little_memory() {
    let dry = |base: &Path| {
        let mut job = pull(base);
        job["dry_run"] = json!(true);
        job
    };
    let speech = |number: u64| {
        (number < 3_000).then(|| {
            let file = |index: u64| OfferedFile {
                kind: match index % 2 {
                    0 => Offered::Folder,
                    _ => Offered::File,
                },
                source: 0,
                path: TreePath::try_from(format!("{}/{index}", "y".repeat(200)).into_bytes())
                    .unwrap(),
                size: 1,
                mtime_ns: 0,
                mode: 0o644,
                owner: None,
                xattrs: None,
            };
            Message::Offer(Offer {
                first: number * 512,
                files: (0..512).map(file).collect(),
            })
        })
    };
    // Faster than they are answered, offers are refused; else they end and nothing follows.
    let error = lie(dry, Vec::new(), speech);
    assert!(
        error.contains("too many offers at once") || error.contains("has sent nothing"),
        "{error}"
    );
}

#[test]
fn what_has_no_place_in_the_conversation_is_named() {
    let answer = |first, needed: usize| {
        Message::Answer(Answer {
            first,
            needed: vec![true; needed],
            found: Vec::new(),
            other_xattrs: Vec::new(),
        })
    };
    let file = OfferedFile {
        kind: Offered::File,
        source: 9,
        path: TreePath::default(),
        size: 1,
        mtime_ns: 0,
        mode: 0o644,
        owner: None,
        xattrs: None,
    };
    let offer = |first, files| Message::Offer(Offer { first, files });
    let sample = Sample {
        stream: 2,
        ..Sample::default()
    };
    let taken = |taken: &[u64]| {
        Message::Progress(Progress {
            taken: taken.to_vec(),
            ..Progress::default()
        })
    };
    let steered = Message::Steered(Steered {
        at_ns: 1,
        taken: Ok("cubic".into()),
    });
    let checked = Message::Checked(Checked {
        file: 1,
        span: Span { offset: 0, len: 1 },
        same: true,
    });
    let content = Message::Content(vec![Content {
        source: 0,
        folder: TreePath::default(),
        names: Vec::new(),
        complete: true,
    }]);
    let extraneous = Message::Extraneous(vec![Extraneous {
        source: 0,
        path: TreePath::default(),
        kind: Kind::Folder,
    }]);
    let removed = Message::Finished(Box::new(Finished {
        removal: Some(Removal::default()),
        ..Finished::default()
    }));
    let compare = Message::Compare(Compare {
        first: 0,
        files: vec![0],
    });
    let compared = Message::Compared(Compared {
        first: 0,
        blake3: vec![None],
    });
    let pushed: Vec<(Vec<Message>, &str)> = vec![
        (vec![accept(false), compare], "was not asked for"),
        (vec![accept(true), extraneous], "was not asked for"),
        (
            vec![accept(true), removed.clone()],
            "another job's removals",
        ),
        (vec![accept(true), content.clone()], "not its to send"),
        (vec![accept(false), checked.clone()], "was not asked for"),
        (vec![accept(true), checked.clone()], "not its to send"),
        (vec![accept(false), accept(false)], "not its to send"),
        (vec![accept(false), answer(1, 1)], "out of order"),
        (vec![accept(false), answer(0, 0)], "out of order"),
        (vec![accept(false), answer(0, 4000)], "not offered"),
        (vec![accept(true), answer(0, 1)], "out of order"),
        (
            vec![accept(true), offer(0, vec![file.clone()])],
            "not its to send",
        ),
        (
            vec![accept(true), Message::Samples(Vec::new())],
            "not its to send",
        ),
        (vec![accept(true), Message::Cancel], "not its to send"),
        (
            vec![accept(true), taken(&[1, 0, 0])],
            "streams that the plan has not",
        ),
        (vec![accept(true), taken(&[1 << 40])], "does not tally"),
        (vec![accept(true), taken(&[0, 1 << 40])], "does not tally"),
        (
            vec![
                Message::Finished(Box::default()),
                Message::Warning("x".into()),
            ],
            "after its end",
        ),
        (vec![Message::Failed("x".repeat(70_000))], "too long"),
    ];
    let pulled: Vec<(Vec<Message>, &str)> = vec![
        // What is at the near end goes by the near end's wish alone.
        (vec![content], "was not asked for"),
        (vec![compared], "were not asked for"),
        (vec![Message::AllSent { whole: true }], "out of place"),
        (vec![removed], "has removed something"),
        (vec![accept(true)], "not its to send"),
        (vec![answer(0, 1)], "not its to send"),
        (vec![checked], "not its to send"),
        (
            vec![Message::Progress(Progress::default())],
            "not its to send",
        ),
        (vec![offer(1, vec![file.clone()])], "out of order"),
        (vec![offer(0, Vec::new())], "no or too many files"),
        (
            vec![offer(0, vec![file.clone(); 513])],
            "no or too many files",
        ),
        (
            vec![Message::Samples(vec![sample.clone()])],
            "samples of streams",
        ),
        (
            vec![Message::Samples(vec![Sample::default(); 3])],
            "samples of streams",
        ),
        (vec![steered], "was not said"),
        (vec![Message::Warning("x".repeat(70_000))], "too long"),
    ];
    for (make, lies) in [(push as fn(&Path) -> Value, pushed), (pull, pulled)] {
        for (first, expected) in lies {
            let error = lie(make, first, alive);
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}

#[test]
fn one_that_tells_of_folders_without_end_keeps_nobody_waiting_and_removes_nothing() {
    let deleting = |base: &Path| {
        let target = base.join("target");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("precious"), "x").unwrap();
        let mut job = pull(base);
        job["sources"] = json!([STANDARD.encode("/far/.")]);
        job["delete"] = json!(true);
        job
    };
    let content = |number: u64, complete| {
        Message::Content(vec![Content {
            source: 0,
            folder: TreePath::default(),
            names: vec![number.to_le_bytes(); 2048],
            complete,
        }])
    };
    let base = tempfile::tempdir().unwrap();
    let speech = move |number| (number < 4_000).then(|| content(number, false));
    let error = lied_to(&deleting(base.path()), Vec::new(), speech);
    is_named(&error, "has sent nothing");
    assert!(base.path().join("target/precious").exists());
    let base = tempfile::tempdir().unwrap();
    let first = vec![content(0, true), Message::AllSent { whole: true }];
    let error = lied_to(&deleting(base.path()), first, alive);
    is_named(&error, "has sent nothing");
    assert!(base.path().join("target/precious").exists());
}

#[test]
fn one_that_reads_without_end_is_named() {
    let base = tempfile::tempdir().unwrap();
    let target = base.path().join("target");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("file"), "x").unwrap();
    let mut job = pull(base.path());
    job["sources"] = json!([STANDARD.encode("/far/.")]);
    job["skip"] = json!({"missing": false, "there": false, "newer": false, "same": "content"});
    let offer = Message::Offer(Offer {
        first: 0,
        files: vec![OfferedFile {
            kind: Offered::File,
            source: 0,
            path: TreePath::try_from(b"file".to_vec()).unwrap(),
            size: 1,
            mtime_ns: 0,
            mode: 0o644,
            owner: None,
            xattrs: None,
        }],
    });
    let speech = |number| {
        thread::sleep(Duration::from_millis(1));
        Some(Message::Scanned(Scanned {
            digested: 1 + number,
            ..Scanned::default()
        }))
    };
    let error = lied_to(&job, vec![offer], speech);
    is_named(&error, "has not compared its files");
}

#[test]
fn one_that_removes_without_end_is_named() {
    let deleting = |base: &Path| {
        let mut job = push(base);
        job["delete"] = json!(true);
        job
    };
    let speech = |number| {
        thread::sleep(Duration::from_millis(1));
        Some(Message::Progress(Progress {
            removed: number,
            looked_at: 1 << 40,
            ..Progress::default()
        }))
    };
    // It has taken nothing yet, so there is nothing that it could clean.
    let error = lie(deleting, Vec::new(), speech);
    is_named(&error, "has not said whether it takes the copy");
    let finished = Message::Finished(Box::default());
    let error = lie(deleting, vec![accept(true), finished], alive);
    assert!(error.contains("another job's removals"), "{error}");
}

#[test]
fn an_end_that_confirms_something_else_is_not_believed() {
    let confirmed = |files, digests| {
        let finished = Finished {
            totals: Totals {
                bytes: 200_000,
                files,
                folders: 1,
                ..Totals::default()
            },
            digests,
            ..Finished::default()
        };
        let first = vec![accept(true), Message::Finished(Box::new(finished))];
        lie(push, first, alive)
    };
    let error = confirmed(19, [0; 4]);
    assert!(
        error.contains("it took 200000 bytes and 19 files of 200000 and 20"),
        "{error}"
    );
    for digests in [[0; 4], [1, 2, 3, 4]] {
        let error = confirmed(20, digests);
        assert!(
            error.contains("the digests of the two ends differ"),
            "{error}"
        );
    }
}
