//! A copy between two far ends, which this process has both, and the session that starts it.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use howdah_transfer::{FarEnd, Reach, Session, Site, TransferError};
use howdah_wire::{
    Content, Conversation, DataPort, FarHello, FileDigest, FrameReader, Hello, Message, Offer,
    OfferedFile, Scanned, Side, TreePath, encode, preamble,
};
use serde_json::{Value, json};

use crate::ends::{content, digests, keep_digests, listing, path, push};

/// Far longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const HERE: &str = "127.0.0.1";

/// A far end and the session with it.
struct Far {
    session: Session,
    port: u16,
    ends: JoinHandle<Result<(), TransferError>>,
}

impl Far {
    fn new(reach: Reach) -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        let read = OwnedFd::from(far.try_clone().unwrap());
        let ends = thread::spawn(move || {
            FarEnd::prepare(Site::default())?.serve(read, far.into(), &reach)
        });
        let (session, port) = greeted(near);
        Self {
            session,
            port,
            ends,
        }
    }

    /// What comes of trying a port from there.
    fn tries(&self, port: u16) -> Value {
        self.session
            .try_port(vec![HERE.parse().unwrap()], port)
            .unwrap();
        let tried = self.session.port_tried(PATIENCE).unwrap().unwrap();
        serde_json::from_slice(&tried).unwrap()
    }
}

fn greeted(near: UnixStream) -> (Session, u16) {
    let session = Session::new(near.try_clone().unwrap().into(), near.into()).unwrap();
    let hello = session.hello(PATIENCE).unwrap().unwrap();
    let hello: Value = serde_json::from_slice(&hello).unwrap();
    (session, hello["port"].as_u64().unwrap().try_into().unwrap())
}

fn between(mut job: Value, connects: &str) -> Value {
    job["between"] = json!({
        "sender": "one", "receiver": "two", "connects": connects, "to": [HERE], "from": HERE,
    });
    job
}

fn start(sender: &Session, receiver: &Session, job: &Value) -> Result<(), TransferError> {
    let plan = json!({"streams": 3, "block_bytes": 1 << 20});
    let plan = plan.to_string();
    sender.start_between(receiver, job.to_string().as_bytes(), plan.as_bytes())
}

/// Carries a job out; the outcome, or the error as its user sees it.
fn run_with(job: &Value, reaches: [Reach; 2]) -> Result<Value, String> {
    let [sender, receiver] = reaches.map(Far::new);
    start(&sender.session, &receiver.session, job).unwrap();
    assert!(sender.session.wait(PATIENCE), "the transfer hangs");
    let result = sender.session.result();
    for far in [sender.ends, receiver.ends] {
        let ended = far.join().unwrap();
        assert!(ended.is_ok() || result.is_err(), "{ended:?}");
    }
    let outcome = result.map_err(|error| error.to_string())?;
    Ok(serde_json::from_slice(&outcome).unwrap())
}

fn run(job: &Value) -> Result<Value, String> {
    run_with(job, Default::default())
}

/// A folder with a tree `src` in it: 52 files, one of them big, 2 folders and a link.
fn base() -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    let src = base.path().join("src");
    fs::create_dir_all(src.join("sub/empty")).unwrap();
    for number in 0..50 {
        fs::write(src.join(format!("sub/{number}")), content(number * 1000)).unwrap();
    }
    fs::write(src.join("big"), content(9_000_000)).unwrap();
    fs::write(src.join("a\nb"), "x").unwrap();
    std::os::unix::fs::symlink("big", src.join("link")).unwrap();
    base
}

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
fn what_is_there_is_skipped_and_a_dry_run_says_so() {
    let base = base();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let job = between(push(&[&src.join(".")], &dst), "sender");
    let mut dry = job.clone();
    dry["dry_run"] = true.into();
    let would = run(&dry).unwrap();
    assert!(!dst.exists());
    let listed = would["dry_run_plan"].as_array().unwrap();
    assert_eq!(listed.len(), 52);
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

/// A copy of the tree of [`base`] beside it, to which something was added, and the job that removes that.
fn grown() -> (tempfile::TempDir, Value) {
    let base = base();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let mut job = between(push(&[&src.join(".")], &dst), "sender");
    run(&job).unwrap();
    fs::create_dir_all(dst.join("sub/old/older")).unwrap();
    for name in ["x", "sub/y", "sub/old/z", "sub/old/older/z"] {
        fs::write(dst.join(name), "old").unwrap();
    }
    fs::write(src.join("new"), content(5000)).unwrap();
    job["delete"] = true.into();
    (base, job)
}

/// What [`grown`] has added.
const EXTRANEOUS: u64 = 6;

fn removal(removed: u64, held: Option<&str>) -> Value {
    json!({"extraneous": EXTRANEOUS, "removed": removed, "failed": 0, "held": held})
}

#[test]
fn what_the_source_has_not_is_removed_at_the_receiver() {
    let (base, job) = grown();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let before = listing(&dst);
    let with = |key: &str, value: Value| {
        let mut job = job.clone();
        job[key] = value;
        run(&job).unwrap()
    };
    let would = with("dry_run", true.into());
    assert_eq!(listing(&dst), before, "a dry run changes nothing");
    assert_eq!(would["removal"], removal(0, None));
    let listed = would["dry_run_plan"].as_array().unwrap();
    let mut gone: Vec<_> = listed
        .iter()
        .filter(|one| one["action"] == "remove")
        .map(|one| path(&one["path"]).display().to_string())
        .collect();
    gone.sort();
    let expected = [
        "sub/old/",
        "sub/old/older/",
        "sub/old/older/z",
        "sub/old/z",
        "sub/y",
        "x",
    ];
    assert_eq!(gone, expected);
    let bounded = with("max_delete", (EXTRANEOUS - 1).into());
    assert_eq!(bounded["removal"], removal(0, Some("too-many")));
    assert!(dst.join("new").exists() && dst.join("sub/old/older/z").exists());
    let outcome = with("max_delete", EXTRANEOUS.into());
    assert_eq!(outcome["removal"], removal(EXTRANEOUS, None));
    assert_eq!(listing(&dst), listing(&src));
}

#[test]
fn nothing_is_removed_where_the_sender_could_not_read_all() {
    let (base, _) = grown();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let above = base.path().join("above");
    fs::create_dir(&above).unwrap();
    fs::rename(&dst, above.join("src")).unwrap();
    let mut job = between(push(&[&src, &base.path().join("none")], &above), "sender");
    job["delete"] = true.into();
    let outcome = run(&job).unwrap();
    assert_eq!(outcome["removal"]["held"], "left-out");
    assert_eq!(outcome["left_out"].as_array().unwrap().len(), 1);
    assert!(above.join("src/x").exists() && above.join("src/new").exists());
    job["sources"].as_array_mut().unwrap().pop();
    assert_eq!(run(&job).unwrap()["removal"], removal(EXTRANEOUS, None));
}

/// The session with a far end that greets, says `words` when it has its job, and then reads no more. `then` has its
/// writing half.
fn deaf(
    words: &'static [Message],
    then: impl FnOnce(&mut UnixStream) + Send + 'static,
) -> (Session, JoinHandle<UnixStream>) {
    let (near, mut far) = UnixStream::pair().unwrap();
    let ends = thread::spawn(move || {
        let hello = Message::FarHello(Box::new(FarHello {
            version: "deaf".into(),
            key: vec![9; 32],
            token: [7; 32],
            limits_json: b"{}".to_vec(),
            addresses: vec![HERE.into()],
            port: 9,
            rtt_ns: None,
        }));
        far.write_all(&preamble()).unwrap();
        far.write_all(&encode(&hello).unwrap()).unwrap();
        let (mut frames, mut buffer) = (FrameReader::new(), [0; 65536]);
        loop {
            let count = far.read(&mut buffer).unwrap();
            frames.push(&buffer[..count]);
            while let Some(message) = frames.next_message().unwrap() {
                if matches!(message, Message::Job(_)) {
                    for word in words {
                        far.write_all(&encode(word).unwrap()).unwrap();
                    }
                    then(&mut far);
                    return far;
                }
            }
        }
    });
    (greeted(near).0, ends)
}

#[test]
fn names_wait_for_a_receiver_that_does_not_read_and_nobody_else_does() {
    let accept = Message::Accept {
        fresh: false,
        into_folder: true,
    };
    let (receiver, received) = deaf(vec![accept].leak(), |_| {});
    let (said, heard) = std::sync::mpsc::channel();
    let (sender, sent) = deaf(&[], move |far| {
        let names = Content {
            source: 0,
            folder: TreePath::default(),
            names: vec![[7; 8]; 2048],
            complete: true,
        };
        let frame = encode(&Message::Content(vec![names])).unwrap();
        far.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let most = (256 << 20) / frame.len();
        let written = (0..most).find(|_| far.write_all(&frame).is_err());
        said.send(written.map(|count| count * frame.len())).unwrap();
    });
    let base = base();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let mut job = between(push(&[&src.join(".")], &dst), "sender");
    job["delete"] = true.into();
    start(&sender, &receiver, &job).unwrap();
    let written = heard.recv_timeout(PATIENCE).unwrap();
    assert!(written.is_some_and(|bytes| bytes < 8 << 20), "{written:?}");
    // What its user says is not held up by that.
    let limit = json!({"most_bps": 1_000_000_000, "paused": false});
    sender.limit(limit.to_string().as_bytes()).unwrap();
    sender.cancel();
    assert!(sender.wait(PATIENCE), "it is held");
    assert_eq!(sender.result(), Err(TransferError::Cancelled));
    drop((sent.join().unwrap(), received.join().unwrap()));
}

/// What comes of a far end, of the sender or not, that greets and then says `words` in place of its part.
fn lied_to(sends: bool, words: Vec<Message>) -> (String, Vec<Message>) {
    let base = base();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let honest = Far::new(Reach::default());
    let (near, mut far) = UnixStream::pair().unwrap();
    let lies = thread::spawn(move || {
        let hello = Message::FarHello(Box::new(FarHello {
            version: "liar".into(),
            key: vec![9; 32],
            token: [7; 32],
            limits_json: b"{}".to_vec(),
            addresses: vec![HERE.into()],
            port: 9,
            rtt_ns: None,
        }));
        far.write_all(&preamble()).unwrap();
        far.write_all(&encode(&hello).unwrap()).unwrap();
        let (mut frames, mut heard, mut buffer) = (FrameReader::new(), Vec::new(), [0; 65536]);
        let mut judge = Conversation::new(Side::Far);
        let mut said = false;
        while let Ok(count @ 1..) = far.read(&mut buffer) {
            frames.push(&buffer[..count]);
            while let Some(message) = frames.next_message().unwrap() {
                judge.hear(&message).unwrap();
                let job = matches!(message, Message::Job(_));
                heard.push(message);
                if job && !std::mem::replace(&mut said, true) {
                    for word in &words {
                        // It is shut out soon.
                        let _ = far.write_all(&encode(word).unwrap());
                    }
                }
            }
        }
        heard
    });
    let (liar, _) = greeted(near);
    let job = between(push(&[&src], &dst), "receiver");
    let (sender, receiver) = match sends {
        true => (&liar, &honest.session),
        false => (&honest.session, &liar),
    };
    start(sender, receiver, &job).unwrap();
    assert!(sender.wait(PATIENCE), "it is held");
    let error = sender.result().unwrap_err().to_string();
    drop(liar);
    drop(honest.session);
    let _ = honest.ends.join().unwrap();
    let left = fs::read_dir(&dst).map_or(0, Iterator::count);
    assert_eq!(left, 0, "{error}");
    (error, lies.join().unwrap())
}

#[test]
fn an_end_asks_the_other_for_nothing() {
    let hello = Message::Hello(Hello {
        version: "liar".into(),
        key: vec![9; 32],
    });
    let port = DataPort {
        addresses: vec![HERE.parse().unwrap()],
        port: 22,
    };
    let words = |sends| {
        let mut words = vec![
            Message::Cancel,
            hello.clone(),
            Message::TryPort(port.clone()),
            Message::PortTried(Ok(1)),
        ];
        words.push(match sends {
            true => Message::Accept {
                fresh: true,
                into_folder: true,
            },
            false => Message::Scanned(Scanned::default()),
        });
        words
    };
    for sends in [true, false] {
        let name = if sends { "one: " } else { "two: " };
        for word in words(sends) {
            let (error, _) = lied_to(sends, vec![word.clone()]);
            assert!(
                error.starts_with(name) && error.contains("broke the protocol"),
                "{word:?}: {error}"
            );
        }
        // A job is of two far ends that got it from here; nobody can pass one on.
        let (_, heard) = lied_to(sends, vec![Message::Cancel]);
        let Some(Message::Job(job)) = heard
            .into_iter()
            .find(|message| matches!(message, Message::Job(_)))
        else {
            panic!("it heard no job");
        };
        let (error, _) = lied_to(sends, vec![Message::Job(job)]);
        assert!(
            error.starts_with(name) && error.contains("broke the protocol"),
            "{error}"
        );
    }
}

#[test]
fn a_sender_that_lies_of_what_it_has_is_told_so() {
    let file = OfferedFile {
        source: 9,
        path: TreePath::try_from(b"x".to_vec()).unwrap(),
        size: 1,
        mtime_ns: 0,
        mode: 0o644,
        owner: None,
        xattrs: None,
    };
    let offer = |first| {
        Message::Offer(Offer {
            first,
            files: vec![file.clone()],
        })
    };
    let digest = FileDigest {
        source: 0,
        path: TreePath::default(),
        blake3: [0; 32],
    };
    // Nobody who copies without --delete removes anything.
    let content = Content {
        source: 0,
        folder: TreePath::default(),
        names: Vec::new(),
        complete: true,
    };
    for (words, why) in [
        (vec![offer(5)], "an offer out of order"),
        (
            vec![Message::Digests(vec![digest])],
            "a message that is not its to send",
        ),
        (
            vec![Message::Content(vec![content])],
            "what is in a folder, which it was not asked for",
        ),
        (
            vec![Message::AllSent { whole: true }],
            "that all is sent, out of place",
        ),
    ] {
        let (error, _) = lied_to(true, words);
        assert_eq!(
            error,
            format!("one: the other end broke the protocol: {why}")
        );
    }
}

#[test]
fn an_end_that_goes_is_a_connection_that_was_lost() {
    let base = base();
    let (src, dst) = (base.path().join("src"), base.path().join("dst"));
    let honest = Far::new(Reach::default());
    let (short, goes) = deaf(&[], |far| far.shutdown(Shutdown::Both).unwrap());
    let job = between(push(&[&src], &dst), "receiver");
    start(&honest.session, &short, &job).unwrap();
    assert!(honest.session.wait(PATIENCE));
    let error = honest.session.result().unwrap_err().to_string();
    assert!(
        error.starts_with("two has gone before the transfer ended"),
        "{error}"
    );
    assert!(honest.session.lost_connection());
    goes.join().unwrap();
    assert_eq!(honest.ends.join().unwrap(), Ok(()), "it was given no job");
}
