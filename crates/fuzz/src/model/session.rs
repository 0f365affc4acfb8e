//! The control channels of both ends, and what each end does when it is told something.

use howdah_filter::Filters;
use howdah_wire::limits::{MIN_BLOCK_BYTES, MIN_SAMPLE_NS};
use howdah_wire::{
    Answer, Direction, FarHello, Finished, Hello, Job, Keep, Limit, Message, Offer, Offered,
    OfferedFile, Progress, Side, Steered, Steering, StreamPlan, TreePath,
};

use super::end::End;
use super::pipe::Pipe;
use super::sender::{self, Sender};
use super::streams::Streams;
use super::{Fault, TOKEN};
use crate::input::Input;

/// Files in one offer.
const OFFERED_AT_ONCE: usize = 3;

/// Both ends of one copy.
pub struct Session {
    push: bool,
    /// Files are offered before they are sent.
    offers: bool,
    near: End,
    far: End,
    to_far: Pipe,
    to_near: Pipe,
    /// How many streams the plan opens.
    opened: u16,
    /// What they carry.
    pub streams: Streams,
    /// Which files are there already, a bit each.
    there: u8,
    offered: usize,
    answered: usize,
    wanted: Vec<usize>,
    job_said: bool,
    job_heard: bool,
    started: bool,
    finished: [bool; 2],
    steered: [u32; 2],
}

impl Session {
    /// A session in which both ends have said hello. `kind` says which way it copies and how; the input, which files.
    pub fn new(kind: u8, input: &mut Input<'_>) -> Self {
        let opened = 1 + u16::from(kind >> 4 & 3);
        let block_bytes = MIN_BLOCK_BYTES << (kind >> 6 & 1);
        let there = input.byte();
        let sizes: Vec<u64> = (0..input.below(7)).map(|_| size(input)).collect();
        let (mut to_far, mut to_near) = (Pipe::default(), Pipe::default());
        let mut near = End::new(Side::Near, &mut to_far);
        let mut far = End::new(Side::Far, &mut to_near);
        let (version, key) = (String::new(), Vec::new());
        near.say(
            &mut to_far,
            &Message::Hello(Hello {
                version: version.clone(),
                key: key.clone(),
            }),
        );
        let hello = FarHello {
            version,
            key,
            token: TOKEN,
            limits_json: Vec::new(),
            addresses: Vec::new(),
            port: 1,
            rtt_ns: None,
        };
        far.say(&mut to_near, &Message::FarHello(Box::new(hello)));
        let push = kind & 1 == 0;
        let sender = Sender::new(&sizes, block_bytes, opened);
        Self {
            push,
            offers: kind & 2 != 0,
            near,
            far,
            to_far,
            to_near,
            opened,
            streams: Streams::new(sender, push, opened),
            there,
            offered: 0,
            answered: 0,
            wanted: Vec::new(),
            job_said: false,
            job_heard: false,
            started: false,
            finished: [false; 2],
            steered: [0; 2],
        }
    }

    fn sender_side(&self) -> Side {
        if self.push { Side::Near } else { Side::Far }
    }

    fn receiver_side(&self) -> Side {
        if self.push { Side::Far } else { Side::Near }
    }

    fn say(&mut self, side: Side, message: &Message) {
        match side {
            Side::Near => self.near.say(&mut self.to_far, message),
            Side::Far => self.far.say(&mut self.to_near, message),
        }
    }

    /// Delivers a part of the control channel to one end, which does what it says.
    pub fn deliver(&mut self, to: Side, bytes: usize) -> Result<(), Fault> {
        let (end, pipe) = match to {
            Side::Near => (&mut self.near, &mut self.to_near),
            Side::Far => (&mut self.far, &mut self.to_far),
        };
        pipe.deliver(bytes);
        end.push(&pipe.take_all());
        loop {
            let end = match to {
                Side::Near => &mut self.near,
                Side::Far => &mut self.far,
            };
            let Some(message) = end.hear()? else {
                return Ok(());
            };
            self.heard(to, message)?;
        }
    }

    fn heard(&mut self, side: Side, message: Message) -> Result<(), Fault> {
        let sends = side == self.sender_side();
        match message {
            Message::FarHello(_) => {
                let job = Message::Job(Box::new(self.job()));
                self.say(side, &job);
                self.job_said = true;
            }
            Message::Job(job) => {
                // A job of a hostile end is refused unless it is what this model can do.
                if *job != self.job() {
                    return Err("another job".into());
                }
                self.job_heard = true;
                if self.push {
                    let fresh = !self.offers;
                    self.say(
                        side,
                        &Message::Accept {
                            fresh,
                            into_folder: true,
                        },
                    );
                } else {
                    self.start(side);
                }
            }
            Message::Accept { .. } => self.start(side),
            Message::Offer(offer) => {
                let needed = |file: &OfferedFile| self.there >> (file.size % 8) & 1 == 0;
                let needed = offer.files.iter().map(needed).collect();
                self.say(
                    side,
                    &Message::Answer(Answer {
                        first: offer.first,
                        needed,
                        found: Vec::new(),
                        other_xattrs: Vec::new(),
                    }),
                );
            }
            Message::Answer(answer) if sends => {
                for needed in answer.needed {
                    if needed {
                        self.streams.sender.queue(self.answered);
                        self.wanted.push(self.answered);
                    }
                    self.answered += 1;
                }
                self.offer(side);
            }
            Message::Progress(progress) if sends => {
                for (stream, taken) in (0..).zip(progress.taken) {
                    self.streams.sender.let_go(stream, taken)?;
                }
            }
            Message::Steer(_) => {
                let taken = Ok("cubic".into());
                self.say(side, &Message::Steered(Steered { at_ns: 1, taken }));
            }
            Message::Steered(_) => self.steered[1] += 1,
            Message::Finished(_) if sends => {
                for stream in 0..self.opened {
                    let sent = self.streams.sender.kept[usize::from(stream)].sent();
                    self.streams.sender.let_go(stream, sent)?;
                }
                self.finished[0] = true;
                if side == Side::Far {
                    self.say(side, &Message::Finished(Box::default()));
                }
            }
            Message::Finished(_) => self.finished[0] = true,
            Message::Failed(why) => return Err(format!("the other end: {why}")),
            _ => {}
        }
        Ok(())
    }

    fn job(&self) -> Job {
        Job {
            direction: if self.push {
                Direction::Push
            } else {
                Direction::Pull
            },
            sources: vec![b"s".to_vec()],
            destination: b"d".to_vec(),
            destination_is_folder: false,
            filters: Filters::default(),
            named: false,
            walk: howdah_wire::Walk::default(),
            skip: howdah_wire::Skip::default(),
            delete: None,
            keep: Keep::default(),
            memory: None,
            pipe: false,
            dry_run: false,
            encrypt: true,
            sync: true,
            fresh: !self.offers,
            sample_every_ns: MIN_SAMPLE_NS,
            patience_ns: 0,
            limit: Limit::default(),
            plan: StreamPlan {
                congestion_control: None,
                streams: self.opened,
                buffer_bytes: None,
                pacing_bps: None,
                block_bytes: MIN_BLOCK_BYTES,
            },
            peer: None,
            tells_digests: false,
        }
    }

    fn start(&mut self, side: Side) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        if self.offers {
            self.offer(side);
        } else {
            for file in 0..self.streams.sender.files.len() {
                self.streams.sender.queue(file);
                self.wanted.push(file);
            }
            self.streams.sender.complete = true;
        }
    }

    /// Offers the next files, or begins to end when all are answered.
    fn offer(&mut self, side: Side) {
        let all = self.streams.sender.files.len();
        self.streams.sender.complete = self.answered >= all;
        if self.answered < self.offered || self.offered >= all {
            return;
        }
        let first = self.offered;
        self.offered = all.min(first + OFFERED_AT_ONCE);
        let file = |file: &sender::Source| OfferedFile {
            kind: Offered::File,
            source: 0,
            path: file.path.clone(),
            size: file.size,
            mtime_ns: 0,
            mode: 0o644,
            owner: None,
            xattrs: None,
        };
        let files = self.streams.sender.files[first..self.offered]
            .iter()
            .map(file)
            .collect();
        self.say(
            side,
            &Message::Offer(Offer {
                first: first as u64,
                files,
            }),
        );
    }

    /// An end says that it is there.
    pub fn alive(&mut self, side: Side) {
        if self.job_heard {
            self.say(side, &Message::Alive);
        }
    }

    /// The near end dials a stream that has no connection.
    pub fn dial(&mut self, stream: usize) {
        if self.job_said {
            self.streams.dial(stream);
        }
    }

    /// Delivers something on one connection, both ways.
    pub fn deliver_data(&mut self, link: usize, steps: usize) -> Result<(), Fault> {
        self.streams.deliver(link, steps, self.job_heard)
    }

    fn receiver_may_speak(&self) -> bool {
        self.job_heard && !self.finished[1]
    }

    /// The receiver says what it has taken.
    pub fn progress(&mut self) {
        if !self.receiver_may_speak() {
            return;
        }
        let taken = self.streams.receiver.connections.all_taken();
        self.say(
            self.receiver_side(),
            &Message::Progress(Progress {
                taken,
                ..Progress::default()
            }),
        );
    }

    /// A near receiver steers the far sender, and changes nothing.
    pub fn steer(&mut self) {
        if !self.push && self.receiver_may_speak() && self.steered[0] - self.steered[1] < 8 {
            self.steered[0] += 1;
            self.say(
                Side::Near,
                &Message::Steer(Steering {
                    congestion_control: None,
                    streams: self.opened,
                    pacing_bps: None,
                }),
            );
        }
    }

    /// The receiver says that it has everything, when it has.
    pub fn finish(&mut self) -> Result<(), Fault> {
        if self.receiver_may_speak() && self.streams.receiver.done()? {
            self.finished[1] = true;
            let totals = self.streams.receiver.totals();
            self.say(
                self.receiver_side(),
                &Message::Finished(Box::new(Finished {
                    totals,
                    ..Finished::default()
                })),
            );
        }
        Ok(())
    }

    /// What a hostile end has said.
    pub fn said_by(&mut self, hostile: Side) -> &mut Pipe {
        match hostile {
            Side::Near => &mut self.to_far,
            Side::Far => &mut self.to_near,
        }
    }

    /// Everybody does everything once, and nothing breaks.
    pub fn round(&mut self) -> Result<(), Fault> {
        self.deliver(Side::Far, usize::MAX)?;
        self.deliver(Side::Near, usize::MAX)?;
        for stream in 0..usize::from(self.opened) {
            self.dial(stream);
        }
        self.streams.round(self.job_heard)?;
        self.progress();
        self.finish()
    }

    /// Whether each end has received the last message of the other one.
    pub fn over(&self) -> bool {
        self.finished == [true; 2] && self.near.over()
    }

    /// What both ends hold at the end of an honest transfer.
    pub fn assert_whole(&self) {
        assert_eq!(self.streams.sender.totals(), self.streams.receiver.totals());
        assert!(self.streams.sender.kept.iter().all(|kept| kept.all_taken()));
        assert_eq!(self.streams.receiver.named, self.streams.sender.digests);
        let given_up: Vec<&TreePath> = self.streams.sender.given_up().collect();
        for file in &self.wanted {
            let path = &self.streams.sender.files[*file].path;
            let whole = self.streams.receiver.named.contains_key(path);
            assert_eq!(
                whole,
                !given_up.contains(&path),
                "a file is whole or was given up"
            );
        }
        assert_eq!(
            self.streams.receiver.named.len() + given_up.len(),
            self.wanted.len()
        );
        assert!(
            self.streams
                .receiver
                .taken
                .values()
                .all(|times| *times == 1)
        );
    }
}

fn size(input: &mut Input<'_>) -> u64 {
    match input.byte() {
        small @ 0..100 => u64::from(small),
        blocks => u64::from(blocks % 8) * MIN_BLOCK_BYTES + u64::from(blocks / 100),
    }
}
