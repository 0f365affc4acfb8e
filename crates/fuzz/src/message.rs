//! Any message of the control channel, drawn from an input: what ends may say, right or wrong.

use std::sync::Arc;

use howdah_filter::Filters;
use howdah_wire::limits::{MAX_ADDRESSES, MAX_OFFERED_FILES, MAX_STREAMS, MIN_BLOCK_BYTES};
use howdah_wire::{
    Account, Answer, Checked, Compare, Compared, Content, DataPort, Delete, Direction, Doing,
    Extraneous, FarHello, FileDigest, FileFlags, Finished, Found, Hello, Job, Keep, Limit,
    LimitedBy, Memory, Message, Named, Names, Offer, Offered, OfferedFile, Owner, Peer, Progress,
    Removal, Same, Sample, Scanned, Skip, Span, Special, Spent, Steered, Steering, StreamPlan,
    StreamSummary, TreePath, Walk, Way, Withheld, XattrsSum,
};

use crate::input::Input;

/// Kinds of messages.
pub const KINDS: u8 = 34;

/// Any message, drawn from an input.
pub fn any_message(input: &mut Input<'_>) -> Message {
    match input.below(KINDS.into()) {
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
            hole_bytes: number(input),
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
        12 => {
            let peak_memory_bytes = option(input, |input| input.u64());
            let streams = input.below(4);
            let removal = option(input, |input| Removal {
                extraneous: number(input),
                removed: number(input),
                failed: number(input),
                withheld: option(input, |_| Withheld::LeftOut),
            });
            let spent = spent(input);
            let stream = StreamSummary {
                spent,
                ..StreamSummary::default()
            };
            Message::Finished(Box::new(Finished {
                peak_memory_bytes,
                streams: vec![stream; streams],
                removal,
                naming: spent,
                finishing_ns: number(input),
                ..Finished::default()
            }))
        }
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
        17 => Message::Steered(Steered {
            at_ns: input.u64(),
            taken: match input.byte() & 1 {
                0 => Ok(text(input)),
                _ => Err(text(input)),
            },
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
                kind: offered(input).kind(),
            };
            count(input)
        ]),
        26 => Message::Limit(limit(input)),
        27 => Message::TryNear(input.u16()),
        28 => Message::ConnectNear {
            token: [input.byte(); 32],
        },
        29 => Message::Compare(Compare {
            first: number(input),
            files: (0..input.below(4)).map(|_| input.byte().into()).collect(),
        }),
        30 => Message::Compared(Compared {
            first: number(input),
            blake3: vec![option(input, |input| [input.byte(); 32]); input.below(4)],
        }),
        31 => Message::Expand(vec![small(input); count(input)]),
        32 => Message::Spent(Box::new(spent(input))),
        _ => Message::Expanded(match input.byte() & 1 {
            0 => Ok(vec![small(input); count(input)]),
            _ => Err(text(input)),
        }),
    }
}

fn spent(input: &mut Input<'_>) -> Spent {
    Spent {
        wall_ns: [number(input); Doing::COUNT],
        cpu_ns: [number(input); Doing::COUNT],
        delayed_ns: number(input),
        busy_us: number(input),
        ..Spent::default()
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

fn offered(input: &mut Input<'_>) -> Offered {
    match input.below(8) {
        1 => Offered::Folder,
        2 => Offered::Link([input.byte(); 8]),
        3 => Offered::HardLink {
            first_source: input.u16(),
            first: path(input),
        },
        4 => Offered::Special {
            kind: Special::BlockDevice,
            device: (input.byte().into(), input.byte().into()),
        },
        _ => Offered::File,
    }
}

fn file(input: &mut Input<'_>) -> OfferedFile {
    OfferedFile {
        source: input.u16(),
        path: path(input),
        kind: offered(input),
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
        xattrs: option(input, |input| XattrsSum {
            digest: number(input),
            flags: option(input, |input| FileFlags::of(number(input) as u32)),
        }),
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
