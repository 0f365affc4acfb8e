//! The control channel: frames, messages, and who may say what when.

use howdah_filter::Filters;
use std::sync::Arc;

use howdah_wire::limits::{
    MAX_ADDRESSES, MAX_CONTENT_FOLDERS, MAX_CONTENT_NAMES, MAX_DIGESTS, MAX_EXTRANEOUS, MAX_NAMES,
    MAX_NAMES_OPEN, MAX_OFFERED_FILES, MAX_OFFERS_OPEN, MAX_SOURCES, MAX_STEERINGS_OPEN,
    MAX_STREAMS, MIN_BLOCK_BYTES, MIN_LIMIT_BPS,
};
use howdah_wire::{
    Account, Answer, Checked, Compare, Compared, Content, Conversation, DataPort, Delete,
    Direction, Extraneous, FarHello, FileDigest, Finished, Found, FrameError, FrameReader, Held,
    Hello, Job, Keep, Limit, LimitedBy, Memory, Message, Named, Names, Offer, OfferedFile, Owner,
    Peer, Progress, ProtocolError, Removal, Same, Sample, Scanned, Side, Skip, Span, Steered,
    Steering, StreamPlan, StreamSummary, TreePath, Walk, Way, encode, preamble,
};

use crate::input::Input;
use crate::memory::within;

/// Memory that a byte of a message may cost: a source of a job takes 1 byte and becomes a vector, in
/// one that doubles as it grows. An offer of 513 files says a path of 4096 bytes once, and 9 bytes of each other file.
const MEMORY_PER_BYTE: usize = 24 * 4 + 513 * 4096 / (4096 + 512 * 9);
/// Memory that a message may cost beyond that: serde reserves so much for a sequence at once.
const MEMORY_AT_ONCE: usize = 2 << 20;

/// Kinds of messages.
const KINDS: u8 = 33;

/// Any message, drawn from an input.
pub fn message(input: &mut Input<'_>) -> Message {
    match input.below(KINDS.into()) {
        27 => Message::TryNear(input.u16()),
        28 => Message::ConnectNear {
            token: [input.byte(); 32],
        },
        31 => Message::Expand(vec![small(input); count(input)]),
        32 => Message::Expanded(match input.byte() & 1 {
            0 => Ok(vec![small(input); count(input)]),
            _ => Err(text(input)),
        }),
        20 => Message::TryPort(data_port(input)),
        21 => Message::PortTried(match input.byte() & 1 {
            0 => Ok(number(input)),
            _ => Err(text(input)),
        }),
        22 => Message::Digests(vec![
            FileDigest {
                source: input.u16(),
                path: path(input),
                blake3: [input.byte(); 32],
            };
            count(input)
        ]),
        23 => Message::Content(vec![
            Content {
                source: u16::from(input.byte()),
                folder: path(input),
                names: vec![[input.byte(); 8]; input.below(4)],
                complete: input.byte() & 1 != 0,
            };
            1 + input.below(2)
        ]),
        24 => Message::AllSent {
            whole: input.byte() & 1 != 0,
        },
        25 => Message::Extraneous(vec![
            Extraneous {
                source: input.u16(),
                path: path(input),
                folder: input.byte() & 1 != 0,
            };
            count(input)
        ]),
        26 => Message::Limit(limit(input)),
        29 => Message::Compare(Compare {
            first: number(input),
            files: (0..input.below(4)).map(|_| input.byte().into()).collect(),
        }),
        30 => Message::Compared(Compared {
            first: number(input),
            blake3: vec![option(input, |input| [input.byte(); 32]); input.below(4)],
        }),
        18 => Message::Names(Names {
            names: (0..input.below(4))
                .map(|_| Named {
                    path: path(input),
                    content: input.byte() & 1 != 0,
                })
                .collect(),
            complete: input.byte() & 1 != 0,
        }),
        19 => Message::NamesTaken,
        0 => Message::Hello(Hello {
            version: text(input),
            key: small(input),
        }),
        1 => Message::FarHello(Box::new(FarHello {
            version: text(input),
            key: small(input),
            token: [input.byte(); 32],
            limits_json: small(input),
            addresses: vec![text(input)],
            port: input.u16(),
            rtt_ns: option(input, |input| input.u64()),
        })),
        2 => Message::Job(Box::new(job(input))),
        3 => Message::Accept {
            fresh: input.byte() & 1 != 0,
            into_folder: input.byte() & 1 != 0,
        },
        4 => Message::Offer(Offer {
            first: number(input),
            files: vec![file(input); count(input)],
        }),
        5 => Message::Answer(Answer {
            first: number(input),
            needed: vec![input.byte() & 1 != 0; count(input)],
            found: (0..input.below(4)).map(|_| found(input)).collect(),
            other_xattrs: (0..input.below(4)).map(|_| input.u16()).collect(),
        }),
        6 => Message::Scanned(Scanned {
            files: number(input),
            bytes: number(input),
            digested: number(input),
            complete: input.byte() & 1 != 0,
        }),
        7 => Message::Progress(Progress {
            bytes: number(input),
            files: number(input),
            resumed: number(input),
            streams: input.u16(),
            taken: vec![number(input); input.below(MAX_STREAMS + 2)],
            current: option(input, path),
            looked_at: number(input),
            removed: number(input),
            digested: number(input),
        }),
        8 => Message::Samples(vec![sample(input); input.below(MAX_STREAMS + 2)]),
        9 => Message::Warning(text(input)),
        10 => Message::Alive,
        11 => Message::LeftOut(text(input)),
        12 => Message::Finished(Box::new(Finished {
            peak_memory_bytes: option(input, |input| input.u64()),
            streams: vec![StreamSummary::default(); input.below(4)],
            removal: option(input, |input| Removal {
                extraneous: number(input),
                removed: number(input),
                failed: number(input),
                held: option(input, |_| Held::LeftOut),
            }),
            ..Finished::default()
        })),
        13 => Message::Failed(text(input)),
        14 => Message::Cancel,
        15 => Message::Steer(Steering {
            congestion_control: option(input, text),
            streams: u16::from(input.byte()),
            pacing_bps: option(input, number),
        }),
        16 => Message::Checked(Checked {
            file: number(input),
            span: span(input),
            same: input.byte() & 1 != 0,
        }),
        _ => Message::Steered(Steered {
            at_ns: input.u64(),
            taken: match input.byte() & 1 {
                0 => Ok(text(input)),
                _ => Err(text(input)),
            },
        }),
    }
}

fn limit(input: &mut Input<'_>) -> Limit {
    Limit {
        most_bps: option(input, number),
        paused: input.byte() & 1 != 0,
    }
}

fn found(input: &mut Input<'_>) -> Found {
    Found {
        index: input.u16(),
        spans: (0..input.below(4)).map(|_| span(input)).collect(),
    }
}

fn span(input: &mut Input<'_>) -> Span {
    match input.byte() & 1 {
        0 => Span {
            offset: MIN_BLOCK_BYTES * u64::from(input.byte()),
            len: MIN_BLOCK_BYTES * u64::from(input.byte()),
        },
        _ => Span {
            offset: input.u64(),
            len: input.u64(),
        },
    }
}

fn job(input: &mut Input<'_>) -> Job {
    Job {
        direction: match input.byte() & 1 {
            0 => Direction::Push,
            _ => Direction::Pull,
        },
        sources: vec![small(input); input.below(4)],
        destination: small(input),
        destination_is_folder: input.byte() & 1 != 0,
        filters: filters(input),
        named: input.byte() & 1 != 0,
        walk: Walk::default(),
        skip: skip(input),
        delete: option(input, |input| Delete {
            excluded: input.byte() & 1 != 0,
            most: option(input, number),
        }),
        keep: Keep {
            hard_links: input.byte() & 1 != 0,
            sparse: input.byte() & 1 != 0,
            ..kept(input.byte())
        },
        pipe: input.byte() & 15 == 0,
        memory: option(input, |input| match input.byte() & 1 {
            0 => Memory::Bytes(number(input)),
            _ => Memory::Time(number(input)),
        }),
        dry_run: input.byte() & 1 != 0,
        encrypt: input.byte() & 1 != 0,
        sync: true,
        fresh: input.byte() & 1 != 0,
        sample_every_ns: match input.byte() {
            0..=200 => 100_000_000,
            _ => input.u64(),
        },
        patience_ns: 300_000_000_000,
        limit: limit(input),
        plan: StreamPlan {
            congestion_control: option(input, text),
            streams: u16::from(input.byte()),
            buffer_bytes: option(input, |input| input.u64()),
            pacing_bps: option(input, number),
            block_bytes: number(input),
        },
        peer: option(input, peer),
        tells_digests: input.byte() & 1 != 0,
    }
}

fn skip(input: &mut Input<'_>) -> Skip {
    let bits = input.byte();
    Skip {
        missing: bits & 1 != 0,
        same: match bits & 2 {
            0 => Same::SizeAndTime,
            _ => Same::Content,
        },
        ..Skip::default()
    }
}

fn peer(input: &mut Input<'_>) -> Peer {
    Peer {
        key: small(input),
        way: match input.byte() & 1 {
            0 => Way::Connect {
                to: data_port(input),
                token: [input.byte(); 32],
            },
            _ => Way::Accept {
                from: [input.byte(); 4].into(),
            },
        },
    }
}

fn data_port(input: &mut Input<'_>) -> DataPort {
    DataPort {
        addresses: vec![[input.byte(); 16].into(); input.below(MAX_ADDRESSES + 2)],
        port: input.u16(),
    }
}

/// What one byte says of what is kept; a zero is the usual.
fn kept(bits: u8) -> Keep {
    Keep {
        owner: bits & 1 != 0,
        perms: bits & 2 == 0,
        times: bits & 4 == 0,
        omit_dir_times: bits & 8 != 0,
        ..Keep::default()
    }
}

/// Of what an input says, the rules that are some.
fn filters(input: &mut Input<'_>) -> Filters {
    let rules: Vec<Vec<u8>> = (0..input.below(4)).map(|_| small(input)).collect();
    Filters::try_from(rules).unwrap_or_default()
}

fn file(input: &mut Input<'_>) -> OfferedFile {
    OfferedFile {
        source: input.u16(),
        path: path(input),
        size: number(input),
        mtime_ns: input.u64().cast_signed(),
        mode: number(input) as u32 & 0o17777,
        owner: option(input, |input| {
            let mut account = || Account {
                number: input.byte().into(),
                name: option(input, text),
            };
            Arc::new(Owner {
                user: account(),
                group: account(),
            })
        }),
        xattrs: option(input, number),
    }
}

fn sample(input: &mut Input<'_>) -> Sample {
    Sample {
        at_ns: number(input),
        stream: u16::from(input.byte()),
        ssthresh: option(input, |input| u32::from(input.u16())),
        limited: option(input, |input| {
            [
                LimitedBy::Cwnd,
                LimitedBy::App,
                LimitedBy::Rwnd,
                LimitedBy::Sndbuf,
            ][input.below(4)]
        }),
        ..Sample::default()
    }
}

/// A path that is one, of few letters.
fn path(input: &mut Input<'_>) -> TreePath {
    TreePath::try_from(small(input)).unwrap_or_default()
}

fn text(input: &mut Input<'_>) -> String {
    String::from_utf8_lossy(&small(input)).into_owned()
}

fn small(input: &mut Input<'_>) -> Vec<u8> {
    let count = input.below(24);
    input.bytes(count).to_vec()
}

/// Small numbers mostly, so that some of them fit what was said before.
fn number(input: &mut Input<'_>) -> u64 {
    match input.byte() {
        255 => input.u64(),
        254 => u64::from(input.u16()),
        small => u64::from(small),
    }
}

/// Small counts mostly, and those at the bound of an offer.
fn count(input: &mut Input<'_>) -> usize {
    match input.byte() {
        255 => MAX_OFFERED_FILES + 1,
        254 => MAX_OFFERED_FILES,
        small => usize::from(small) % 8,
    }
}

fn option<T>(input: &mut Input<'_>, some: impl FnOnce(&mut Input<'_>) -> T) -> Option<T> {
    (input.byte() & 1 != 0).then(|| some(input))
}

fn seed_messages() -> Vec<Message> {
    let drawn = |kind: u8| {
        let bytes: Vec<u8> = std::iter::once(kind)
            .chain((0..96).map(|at| at * 5 % 7))
            .collect();
        message(&mut Input::new(&bytes))
    };
    (0..KINDS).map(drawn).collect()
}

pub mod frames {
    //! Bytes of the control channel.

    use super::*;

    /// The first byte says how the bytes are cut as they arrive, the second whether a greeting precedes them.
    pub fn run(data: &[u8]) {
        let mut input = Input::new(data);
        let (cut, greeted) = (input.byte(), input.byte() & 1 != 0);
        let mut bytes = if greeted { preamble() } else { Vec::new() };
        let start = bytes.len();
        bytes.extend(input.rest());
        let most = MEMORY_AT_ONCE + MEMORY_PER_BYTE * bytes.len();
        let (whole, error) = within(most, || read(&bytes, bytes.len().max(1)));
        let (parts, part_error) = read(&bytes, 1 + usize::from(cut));
        assert_eq!(
            whole, parts,
            "what arrives in parts is read as what arrives at once"
        );
        assert_eq!(error.is_some(), part_error.is_some());
        if let (Some(FrameError::TooLong(one)), Some(FrameError::TooLong(other))) =
            (&error, &part_error)
        {
            assert_eq!(one, other);
        }
        let mut at = if greeted {
            start
        } else {
            start + preamble().len()
        };
        for message in &whole {
            let length = frame_length(&bytes[at..]);
            let frame = encode(message).expect("what was read can be said");
            assert!(
                frame.len() <= length,
                "no other frame of a message is shorter"
            );
            if frame.len() == length {
                assert_eq!(frame, bytes[at..at + length]);
            }
            let (again, error) = read(&[preamble(), frame].concat(), usize::MAX);
            assert_eq!((&again[..], error), (std::slice::from_ref(message), None));
            at += length;
        }
    }

    fn frame_length(bytes: &[u8]) -> usize {
        let length = bytes.first_chunk().expect("a frame has a length");
        4 + u32::from_le_bytes(*length) as usize
    }

    fn read(bytes: &[u8], cut: usize) -> (Vec<Message>, Option<FrameError>) {
        let mut reader = FrameReader::new();
        let mut messages = Vec::new();
        for part in bytes.chunks(cut) {
            reader.push(part);
            loop {
                match reader.next_message() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(error) => {
                        assert!(reader.foreign().len() <= 400);
                        return (messages, Some(error));
                    }
                }
            }
        }
        (messages, None)
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let frames = seed_messages()
            .into_iter()
            .map(|message| encode(&message).expect("it is short"));
        let mut seeds: Vec<Vec<u8>> = frames.map(|frame| [vec![3, 1], frame].concat()).collect();
        seeds.push(
            [
                vec![3, 0],
                preamble(),
                encode(&Message::Cancel).expect("it is short"),
            ]
            .concat(),
        );
        seeds.push(b"\x03\x00bash: howdah: command not found\n".to_vec());
        seeds
    }
}

pub mod conversation {
    //! Messages of both ends in any order, judged by one of them.

    use super::*;

    /// What may be outstanding, counted apart from [`Conversation`].
    #[derive(Default)]
    struct Ledger {
        greeted: bool,
        jobs: u32,
        streams: usize,
        accepts: u32,
        offered: u64,
        answered: u64,
        /// Whether files are told by their content, and comparisons that are open.
        by_content: bool,
        compares: u64,
        steerings: u64,
        names: usize,
        /// Ports to be tried of which nothing has come yet; at a far end, all of them.
        tries: u64,
        near_tries: u64,
        near_connects: u64,
        between: bool,
        /// The same of patterns.
        expansions: u64,
        tells_digests: bool,
        removes: bool,
        dry_run: bool,
        all_sent: u32,
        taken: Vec<u64>,
        over: bool,
    }

    pub fn run(data: &[u8]) {
        // What is wrong is refused, which is what the ledger looks at.
        let _ = judge(data);
    }

    /// Holds what an end takes for right against the ledger; the first message that it refuses, if there is one.
    fn judge(data: &[u8]) -> Result<(), (Message, ProtocolError)> {
        let mut input = Input::new(data);
        let side = match input.byte() & 1 {
            0 => Side::Near,
            _ => Side::Far,
        };
        let mut conversation = Conversation::new(side);
        let mut ledger = Ledger::default();
        while !input.is_empty() {
            let heard = input.byte() & 3 != 0;
            let message = message(&mut input);
            if heard {
                if let Err(error) = conversation.hear(&message) {
                    return Err((message, error));
                }
                ledger.hear(side, &message);
                assert_eq!(conversation.ended(), ledger.over);
            } else if ledger.may_say(side, &message) {
                conversation.say(&message);
                ledger.say(&message);
            }
        }
        Ok(())
    }

    impl Ledger {
        /// An honest end says a job first, and answers and settles no more than was asked.
        fn may_say(&self, side: Side, message: &Message) -> bool {
            match message {
                Message::Job(job) => {
                    side == Side::Near
                        && self.jobs == 0
                        && (1..=MAX_STREAMS).contains(&job.plan.streams.into())
                }
                Message::Answer(answer) => {
                    answer.needed.len() as u64 <= self.offered - self.answered
                }
                Message::Steered(_) => self.steerings > 0,
                Message::Names(_) => {
                    side == Side::Near && self.jobs > 0 && self.names < MAX_NAMES_OPEN
                }
                Message::NamesTaken => side == Side::Far && self.names > 0,
                Message::TryPort(_) | Message::Expand(_) => side == Side::Near && self.jobs == 0,
                Message::TryNear(_) => side == Side::Near,
                Message::Offer(_) | Message::Steer(_) => self.jobs > 0,
                _ => true,
            }
        }

        fn say(&mut self, message: &Message) {
            match message {
                Message::Job(job) => self.begin(job),
                Message::Offer(offer) => self.offered += offer.files.len() as u64,
                Message::Answer(answer) => self.answered += answer.needed.len() as u64,
                Message::Compare(_) if self.by_content => self.compares += 1,
                Message::Compared(_) => self.compares = self.compares.saturating_sub(1),
                Message::Steer(_) => self.steerings += 1,
                Message::Steered(_) => self.steerings -= 1,
                Message::Names(_) => self.names += 1,
                Message::NamesTaken => self.names -= 1,
                Message::TryPort(_) | Message::TryNear(_) => self.tries = 1,
                Message::Expand(_) => self.expansions = 1,
                _ => {}
            }
        }

        fn begin(&mut self, job: &Job) {
            self.jobs += 1;
            self.tells_digests = job.tells_digests && job.direction == Direction::Pull;
            self.streams = job.plan.streams.into();
            self.removes = job.delete.is_some();
            self.dry_run = job.dry_run;
            self.between = job.peer.is_some();
            self.by_content = job.skip.same == Same::Content;
        }

        /// What was taken for right.
        fn hear(&mut self, side: Side, message: &Message) {
            if matches!(message, Message::Alive) {
                assert!(self.greeted);
                return;
            }
            assert!(!self.over, "nothing is taken after the end");
            let greets = matches!(message, Message::Hello(_) | Message::FarHello(_));
            let fails = matches!(message, Message::Failed(_));
            assert!(self.greeted != greets || fails, "one greeting, and first");
            let before_the_job = matches!(
                message,
                Message::Job(_)
                    | Message::Cancel
                    | Message::Warning(_)
                    | Message::TryPort(_)
                    | Message::TryNear(_)
                    | Message::PortTried(_)
                    | Message::Expand(_)
                    | Message::Expanded(_)
            );
            assert!(self.jobs > 0 || before_the_job || greets || fails);
            match message {
                Message::Hello(_) => {
                    assert_eq!(side, Side::Far);
                    self.greeted = true;
                }
                Message::FarHello(_) => {
                    assert_eq!(side, Side::Near);
                    self.greeted = true;
                }
                Message::Job(job) => {
                    assert!(side == Side::Far && self.jobs == 0);
                    assert!((1..=MAX_STREAMS).contains(&job.plan.streams.into()));
                    assert_eq!(job.memory.is_some(), job.sources.is_empty());
                    if let Some(Peer {
                        way: Way::Connect { to, .. },
                        ..
                    }) = &job.peer
                    {
                        assert!(to.port > 0 && (1..=MAX_ADDRESSES).contains(&to.addresses.len()));
                    }
                    assert!(job.delete.is_none() || job.memory.is_none() && !job.named);
                    self.begin(job);
                }
                Message::Accept { .. } => {
                    self.accepts += 1;
                    assert!(side == Side::Near && self.accepts == 1);
                }
                Message::Offer(offer) => {
                    assert_eq!(offer.first, self.offered);
                    assert!((1..=MAX_OFFERED_FILES).contains(&offer.files.len()));
                    self.offered += offer.files.len() as u64;
                    let most = MAX_OFFERED_FILES * (MAX_OFFERS_OPEN + 2);
                    assert!(self.offered - self.answered <= most as u64);
                }
                Message::Answer(answer) => {
                    assert_eq!(answer.first, self.answered);
                    self.answered += answer.needed.len() as u64;
                    assert!(!answer.needed.is_empty() && self.answered <= self.offered);
                    for found in &answer.found {
                        assert!(answer.needed[usize::from(found.index)]);
                        let ends = found.spans.iter().map(|span| span.end().unwrap());
                        let starts = found.spans.iter().map(|span| span.offset).skip(1);
                        assert!(ends.zip(starts).all(|(end, next)| end < next));
                    }
                }
                Message::Compare(compare) => {
                    assert!(self.by_content && compare.first >= self.answered);
                    assert!(compare.files.is_sorted_by(|one, next| one < next));
                    let last = compare.files.last().expect("it is of something");
                    assert!(compare.first + u64::from(*last) < self.offered);
                    self.compares += 1;
                }
                Message::Compared(_) => {
                    assert!(self.by_content && self.compares > 0);
                    self.compares -= 1;
                }
                Message::Progress(progress) => {
                    assert!(progress.taken.len() <= self.streams);
                    self.taken
                        .resize(self.taken.len().max(progress.taken.len()), 0);
                    for (before, now) in self.taken.iter_mut().zip(&progress.taken) {
                        assert!(now >= before);
                        *before = *now;
                    }
                }
                Message::Checked(_) => assert_eq!(self.jobs, 1, "of a job's files"),
                Message::Samples(samples) => {
                    assert!(side == Side::Near);
                    assert!(
                        samples
                            .iter()
                            .all(|one| usize::from(one.stream) < self.streams)
                    );
                }
                Message::Steer(steering) => {
                    self.steerings += 1;
                    assert!(side == Side::Far && self.steerings <= MAX_STEERINGS_OPEN);
                    assert!((1..=self.streams).contains(&steering.streams.into()));
                }
                Message::Steered(steered) => {
                    assert!(side == Side::Near && self.steerings > 0);
                    assert!(
                        steered
                            .taken
                            .as_ref()
                            .is_ok_and(|name| name.bytes().all(|byte| byte.is_ascii_graphic()))
                            || steered.taken.is_err()
                    );
                    self.steerings -= 1;
                }
                Message::Limit(limit) => {
                    assert!(side == Side::Far && self.jobs > 0);
                    assert!(limit.most_bps.is_none_or(|most| most >= MIN_LIMIT_BPS));
                }
                Message::LeftOut(_) => assert_eq!(side, Side::Near),
                Message::Cancel => assert_eq!(side, Side::Far),
                Message::Names(names) => {
                    self.names += 1;
                    assert!(side == Side::Far && self.names <= MAX_NAMES_OPEN);
                    assert!(names.names.len() <= MAX_NAMES);
                }
                Message::NamesTaken => {
                    assert!(side == Side::Near && self.names > 0);
                    self.names -= 1;
                }
                Message::TryPort(port) => {
                    self.tries += 1;
                    assert!(side == Side::Far && self.jobs == 0 && self.tries == 1);
                    assert!(port.port > 0 && (1..=MAX_ADDRESSES).contains(&port.addresses.len()));
                }
                Message::PortTried(_) => {
                    assert!(side == Side::Near && self.tries > 0);
                    self.tries -= 1;
                }
                Message::TryNear(port) => {
                    self.near_tries += 1;
                    assert!(side == Side::Far && *port > 0);
                    assert!(self.near_tries == 1 && !self.between);
                }
                Message::ConnectNear { .. } => {
                    self.near_connects += 1;
                    assert!(self.jobs == 1 && self.near_tries == 1 && self.near_connects == 1);
                    assert!(!self.between);
                }
                Message::Expand(paths) => {
                    self.expansions += 1;
                    assert!(side == Side::Far && self.jobs == 0 && self.expansions == 1);
                    assert!((1..=MAX_SOURCES).contains(&paths.len()));
                }
                Message::Expanded(found) => {
                    assert!(side == Side::Near && self.expansions > 0);
                    self.expansions -= 1;
                    let count = found.as_ref().map_or(1, Vec::len);
                    assert!((1..=MAX_SOURCES).contains(&count));
                }
                Message::Digests(digests) => {
                    assert!(side == Side::Near && self.tells_digests);
                    assert!(digests.len() <= MAX_DIGESTS);
                }
                Message::Content(content) => {
                    assert!(self.removes && self.all_sent == 0);
                    assert!((1..=MAX_CONTENT_FOLDERS).contains(&content.len()));
                    let names: usize = content.iter().map(|one| one.names.len()).sum();
                    assert!(names <= MAX_CONTENT_NAMES);
                }
                Message::AllSent { .. } => {
                    self.all_sent += 1;
                    assert!(self.removes && self.all_sent == 1);
                }
                Message::Extraneous(found) => {
                    assert!(side == Side::Near && self.removes && self.dry_run);
                    assert!((1..=MAX_EXTRANEOUS).contains(&found.len()));
                }
                Message::Finished(finished) => {
                    let removal = finished.removal;
                    assert!(removal.is_none() || self.removes);
                    assert!(removal.is_none_or(|one| one.removed <= one.extraneous));
                    self.over = true;
                }
                Message::Failed(_) => self.over = true,
                Message::Warning(_) | Message::Scanned(_) | Message::Alive => {}
            }
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        // Side, then for each message: 1 to hear it or 0 to say it, its kind, its choices.
        let hello = |kind| vec![1, kind, 1, b'0', 0];
        let begin = |heard, direction| vec![heard, 2, direction, 1, b's', 1, 1, b'd', 0, 0, 0, 0];
        let end = |streams| vec![0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, streams, 0, 0, 9, 0, 1];
        let job =
            |heard, direction, streams| [begin(heard, direction), vec![0], end(streams)].concat();
        let deletes = |heard| [begin(heard, 0), vec![1, 0, 0], end(2)].concat();
        let far_hello = vec![1, 1, 1, b'0', 0, 7, 0, 1, b'a', 1, 1, 0];
        let offer = vec![
            1, 4, 0, 0, 0, 1, b'f', 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3,
        ];
        let answer = |heard| vec![heard, 5, 0, 1, 3];
        let finished = vec![1, 12, 0, 0, 0];
        vec![
            [
                vec![1],
                hello(0),
                job(1, 0, 2),
                offer.clone(),
                answer(0),
                finished.clone(),
            ]
            .concat(),
            [
                vec![0],
                far_hello.clone(),
                job(0, 1, 2),
                offer.clone(),
                answer(0),
                finished.clone(),
            ]
            .concat(),
            [
                vec![0],
                far_hello,
                job(0, 0, 2),
                vec![1, 3, 0, 1],
                vec![1, 7, 1, 1, 2, 0, 3, 2, 0, 0, 0, 0, 0],
                finished,
            ]
            .concat(),
            [
                vec![1],
                hello(0),
                [
                    vec![1, 2, 0, 1, b's', 1, 1, b'd', 0, 0, 0, 2],
                    vec![0],
                    end(2),
                ]
                .concat(),
                offer,
                vec![0, 29, 0, 1, 0],
                vec![1, 30, 0, 0, 1],
            ]
            .concat(),
            [
                vec![1],
                hello(0),
                deletes(1),
                vec![1, 23, 0, 1, b'f', 7, 2, 0, 0],
                vec![1, 23, 0, 1, b'f', 7, 2, 1, 0],
                vec![1, 24, 1],
            ]
            .concat(),
            [
                vec![0, 1, 1, 1, b'0', 0, 7, 0, 1, b'a', 1, 1, 0],
                deletes(0),
                vec![1, 3, 0, 1],
                vec![1, 12, 0, 0, 1, 3, 2, 0, 0],
            ]
            .concat(),
            [
                vec![1],
                hello(0),
                job(1, 1, 3),
                vec![1, 15, 0, 2, 0],
                vec![0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'c'],
            ]
            .concat(),
        ]
    }

    #[test]
    fn each_seed_is_taken_for_right_to_its_end() {
        let judged: Vec<_> = seeds().iter().map(|seed| judge(seed)).collect();
        assert!(judged.iter().all(Result::is_ok), "{judged:#?}");
    }
}
