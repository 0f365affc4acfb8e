//! A far end that lies to the other one, does not listen to it, or goes.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use howdah_transfer::{Reach, Session, TransferError};
use howdah_wire::{
    Content, Conversation, DataPort, FarHello, FileDigest, FrameReader, Hello, Message, Offer,
    Offered, OfferedFile, Scanned, Side, TreePath, encode, preamble,
};
use serde_json::json;

use super::{Far, HERE, PATIENCE, base, between, greeted, start};
use crate::ends::push;

/// Says hello as a far end of this version.
fn greet(far: &mut UnixStream, version: &str) {
    let hello = Message::FarHello(Box::new(FarHello {
        version: version.into(),
        key: vec![9; 32],
        token: [7; 32],
        limits_json: b"{}".to_vec(),
        addresses: vec![HERE.into()],
        port: 9,
        rtt_ns: None,
    }));
    far.write_all(&preamble()).unwrap();
    far.write_all(&encode(&hello).unwrap()).unwrap();
}

/// The session with a far end that greets, says `words` when it has its job, and then reads no more. `then` has its
/// writing half.
fn deaf(
    words: &'static [Message],
    then: impl FnOnce(&mut UnixStream) + Send + 'static,
) -> (Session, JoinHandle<UnixStream>) {
    let (near, mut far) = UnixStream::pair().unwrap();
    let ends = thread::spawn(move || {
        greet(&mut far, "deaf");
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
    assert!(sender.wait(PATIENCE), "it hangs");
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
        greet(&mut far, "liar");
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
    assert!(sender.wait(PATIENCE), "it hangs");
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
        kind: Offered::File,
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
