//! What comes when, and the messages that tests of the modules begin with.

use super::*;
use crate::keep::Keep;
use crate::kind::Offered;
use crate::limits::MIN_LIMIT_BPS;
use crate::message::{
    Answer, DataPort, FileDigest, Hello, Named, Names, Offer, OfferedFile, Progress, Scanned, Skip,
    StreamPlan,
};
use crate::path::TreePath;
use crate::span::{Checked, Span};
use crate::steer::{Limit, Steering};
use crate::walk::Walk;
use howdah_filter::Filters;
use proptest::prelude::*;

pub fn hello() -> Message {
    Message::Hello(Hello {
        version: "0".into(),
        key: vec![],
    })
}

/// A job of one source, and nothing out of the ordinary.
pub fn plain(direction: Direction) -> Job {
    Job {
        direction,
        sources: vec![b"a".to_vec()],
        destination: b"b".to_vec(),
        destination_is_folder: false,
        filters: Filters::default(),
        named: false,
        walk: Walk::default(),
        skip: Skip::default(),
        delete: None,
        keep: Keep::default(),
        memory: None,
        pipe: false,
        dry_run: false,
        encrypt: true,
        sync: true,
        fresh: false,
        sample_every_ns: 100_000_000,
        patience_ns: 300_000_000_000,
        limit: Limit::default(),
        plan: StreamPlan {
            congestion_control: None,
            streams: 1,
            buffer_bytes: None,
            pacing_bps: None,
            block_bytes: 1 << 22,
        },
        peer: None,
        tells_digests: false,
    }
}

pub fn job(direction: Direction) -> Message {
    Message::Job(Box::new(plain(direction)))
}

pub fn data_port(addresses: usize, port: u16) -> DataPort {
    DataPort {
        addresses: vec![[192, 0, 2, 7].into(); addresses],
        port,
    }
}

pub fn offer(first: u64, files: usize) -> Message {
    let file = OfferedFile {
        source: 0,
        path: TreePath::default(),
        kind: Offered::File,
        size: 1,
        mtime_ns: 0,
        mode: 0o644,
        owner: None,
        xattrs: None,
    };
    Message::Offer(Offer {
        first,
        files: vec![file; files],
    })
}

pub fn answer(first: u64, files: usize) -> Message {
    Message::Answer(Answer {
        first,
        needed: vec![true; files],
        found: Vec::new(),
        other_xattrs: Vec::new(),
    })
}

pub fn names(count: usize, complete: bool) -> Message {
    let name = Named {
        path: TreePath::default(),
        content: false,
    };
    Message::Names(Names {
        names: vec![name; count],
        complete,
    })
}

pub fn steer(streams: u16, control: Option<&str>) -> Message {
    Message::Steer(Steering {
        congestion_control: control.map(str::to_owned),
        streams,
        pacing_bps: None,
    })
}

pub fn steered(taken: Result<&str, &str>) -> Message {
    Message::Steered(Steered {
        at_ns: 1,
        taken: taken.map(str::to_owned).map_err(str::to_owned),
    })
}

/// One of two ends that have greeted each other.
pub fn greeted(side: Side) -> Conversation {
    let mut end = Conversation::new(side);
    end.greeted = true;
    end
}

pub fn near_with(job: Job) -> Conversation {
    let mut near = greeted(Side::Near);
    near.say(&Message::Job(Box::new(job)));
    near
}

pub fn far_with(job: Job) -> Conversation {
    let mut far = greeted(Side::Far);
    far.hear(&Message::Job(Box::new(job))).unwrap();
    far
}

/// Whether a far end takes a job.
pub fn takes(job: &Job) -> bool {
    let mut far = greeted(Side::Far);
    far.hear(&Message::Job(Box::new(job.clone()))).is_ok()
}

pub fn near(direction: Direction) -> Conversation {
    near_with(plain(direction))
}

pub fn far(direction: Direction) -> Conversation {
    far_with(plain(direction))
}

#[test]
fn nothing_precedes_the_greeting_and_the_job() {
    for message in [
        job(Direction::Push),
        Message::Cancel,
        Message::Alive,
        offer(0, 1),
    ] {
        assert!(Conversation::new(Side::Far).hear(&message).is_err());
    }
    let mut far = Conversation::new(Side::Far);
    far.hear(&hello()).unwrap();
    far.hear(&Message::Alive).unwrap();
    assert!(far.hear(&offer(0, 1)).is_err());
    assert!(Conversation::new(Side::Near).hear(&hello()).is_err());
}

#[test]
fn a_greeting_and_a_job_come_once() {
    assert!(far(Direction::Push).hear(&hello()).is_err());
    assert!(far(Direction::Push).hear(&job(Direction::Push)).is_err());
}

#[test]
fn only_a_near_end_limits_and_only_to_what_gets_through() {
    let limit = |most_bps| {
        Message::Limit(Limit {
            most_bps,
            paused: true,
        })
    };
    for direction in [Direction::Push, Direction::Pull] {
        far(direction).hear(&limit(Some(MIN_LIMIT_BPS))).unwrap();
        assert!(far(direction).hear(&limit(Some(1))).is_err());
        assert!(near(direction).hear(&limit(None)).is_err());
        let mut far = greeted(Side::Far);
        assert!(far.hear(&limit(None)).is_err(), "before the job");
        let mut job = plain(direction);
        job.limit.most_bps = Some(MIN_LIMIT_BPS - 1);
        assert!(!takes(&job));
    }
}

#[test]
fn a_far_sender_says_digests_where_it_was_asked_to() {
    let digest = FileDigest {
        source: 0,
        path: TreePath::default(),
        blake3: [0; 32],
    };
    let digests = |count| Message::Digests(vec![digest.clone(); count]);
    for (direction, asked) in [
        (Direction::Pull, false),
        (Direction::Push, true),
        (Direction::Pull, true),
    ] {
        let mut job = plain(direction);
        job.tells_digests = asked;
        let mut end = near_with(job);
        let right = direction == Direction::Pull && asked;
        assert_eq!(end.hear(&digests(MAX_DIGESTS)).is_ok(), right);
        assert!(end.hear(&digests(MAX_DIGESTS + 1)).is_err());
    }
    assert!(far(Direction::Push).hear(&digests(1)).is_err());
}

#[test]
fn only_the_sender_offers_and_only_the_receiver_answers() {
    far(Direction::Push).hear(&offer(0, 3)).unwrap();
    assert!(far(Direction::Pull).hear(&offer(0, 3)).is_err());
    assert!(far(Direction::Push).hear(&answer(0, 1)).is_err());
    assert!(
        far(Direction::Push)
            .hear(&Message::Progress(Progress::default()))
            .is_err()
    );
    assert!(
        far(Direction::Pull)
            .hear(&Message::Scanned(Scanned::default()))
            .is_err()
    );
}

#[test]
fn a_text_without_end_is_refused() {
    let text = "x".repeat(MAX_MESSAGE_TEXT_BYTES + 1);
    for message in [
        Message::Warning(text.clone()),
        Message::LeftOut(text.clone()),
        Message::Failed(text.clone()),
    ] {
        assert!(near(Direction::Pull).hear(&message).is_err());
    }
}

#[test]
fn nothing_follows_the_end() {
    let mut pull = far(Direction::Pull);
    pull.hear(&Message::Finished(Box::default())).unwrap();
    assert!(pull.ended());
    assert!(pull.hear(&Message::Warning(String::new())).is_err());
    pull.hear(&Message::Alive).unwrap();
}

fn any_message() -> impl Strategy<Value = Message> {
    (0usize..15, 0u64..4, 0usize..4).prop_map(|(choice, first, files)| match choice {
        0 => hello(),
        1 => job(Direction::Push),
        2 => job(Direction::Pull),
        3 => offer(first, files),
        4 => answer(first, files),
        5 => Message::Accept {
            fresh: files == 0,
            into_folder: true,
        },
        6 => Message::Cancel,
        7 => Message::Progress(Progress::default()),
        8 => Message::Alive,
        9 => steer(files as u16, Some("bbr")),
        10 => steered(Ok("bbr")),
        11 => Message::Checked(Checked {
            file: first,
            span: Span {
                offset: first,
                len: files as u64,
            },
            same: files == 0,
        }),
        12 => names(files, first == 0),
        13 => Message::NamesTaken,
        _ => Message::Finished(Box::default()),
    })
}

fn any_side() -> impl Strategy<Value = Side> {
    prop::sample::select(vec![Side::Near, Side::Far])
}

proptest! {
    #[test]
    fn any_order_is_judged_without_panic(
        side in any_side(),
        messages in prop::collection::vec(any_message(), 0..40),
    ) {
        let mut conversation = Conversation::new(side);
        for message in messages {
            if conversation.hear(&message).is_err() {
                break;
            }
        }
    }

    /// The bytes were messages; whatever can be read of them after some were changed is judged.
    #[test]
    fn changed_bytes_are_read_and_judged_without_panic(
        side in any_side(),
        messages in prop::collection::vec(any_message(), 1..40),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let encoded = messages.iter().map(|message| crate::encode(message).unwrap());
        let mut bytes = encoded.collect::<Vec<_>>().concat();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut reader = crate::FrameReader::new();
        reader.push(&crate::preamble());
        reader.push(&bytes);
        let mut conversation = Conversation::new(side);
        while let Ok(Some(message)) = reader.next_message() {
            if conversation.hear(&message).is_err() {
                break;
            }
        }
    }
}
