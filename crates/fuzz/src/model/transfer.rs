//! A transfer under a schedule: who does what next, what is delivered, which connection breaks, and what
//! a hostile end says or does to the bytes.

use howdah_filter::Filters;
use howdah_wire::limits::{MIN_BLOCK_BYTES, MIN_SAMPLE_NS};
use howdah_wire::{
    Answer, Connection, Direction, FarHello, Finished, Hello, Job, Keep, Limit, Message, Offer,
    OfferedFile, Progress, Side, Steered, Steering, StreamHello, StreamPlan, TreePath,
};

use super::Fault;
use super::end::End;
use super::pipe::Pipe;
use super::receiver::{self, Receiver};
use super::sender::{self, Sender};
use crate::input::Input;
use crate::targets::message;

/// Most steps that an honest transfer takes to its end, once nothing disturbs it.
const MOST_STEPS: usize = 4000;
/// Files in one offer.
const OFFERED_AT_ONCE: usize = 3;
const TOKEN: [u8; 32] = [7; 32];

/// One connection of a data stream.
struct Link {
    connection: Connection,
    to_far: Pipe,
    to_near: Pipe,
    near: bool,
    far: Far,
    sending: sender::Line,
    receiving: receiver::Line,
    told: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Far {
    Greeting,
    AtWork,
    Gone,
}

struct Transfer {
    push: bool,
    /// Files are offered before they are sent.
    offers: bool,
    streams: u16,
    hostile: Option<Side>,
    near: End,
    far: End,
    to_far: Pipe,
    to_near: Pipe,
    links: Vec<Link>,
    dialled: Vec<u16>,
    sender: Sender,
    receiver: Receiver,
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

/// The first bytes say what is moved and who is hostile; each of the rest is a step.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut transfer = Transfer::new(&mut input);
    let mut fault = None;
    while !input.is_empty() && fault.is_none() {
        fault = transfer.step(&mut input).err();
        transfer.receiver.check();
    }
    if transfer.hostile.is_some() {
        // A hostile end may keep the other one waiting. What it may not do is asserted where it would.
        for _ in 0..8 {
            fault = fault.or_else(|| transfer.round().err());
        }
        transfer.receiver.check();
        assert!(fault.is_none_or(|fault| !fault.is_empty()));
        return;
    }
    assert_eq!(fault, None, "honest ends have nothing to refuse");
    for _ in 0..MOST_STEPS {
        if transfer.over() {
            break;
        }
        let round = transfer.round();
        assert_eq!(round, Ok(()), "honest ends have nothing to refuse");
    }
    assert!(transfer.over(), "a transfer that nothing disturbs ends");
    transfer.assert_whole();
}

impl Transfer {
    fn new(input: &mut Input<'_>) -> Self {
        let kind = input.byte();
        let hostile = match kind >> 2 & 3 {
            0 | 1 => None,
            2 => Some(Side::Near),
            _ => Some(Side::Far),
        };
        let streams = 1 + u16::from(kind >> 4 & 3);
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
        Self {
            push: kind & 1 == 0,
            offers: kind & 2 != 0,
            streams,
            hostile,
            near,
            far,
            to_far,
            to_near,
            links: Vec::new(),
            dialled: vec![0; streams.into()],
            sender: Sender::new(&sizes, block_bytes, streams),
            receiver: Receiver::new(streams),
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

    fn say(&mut self, side: Side, message: &Message) {
        match side {
            Side::Near => self.near.say(&mut self.to_far, message),
            Side::Far => self.far.say(&mut self.to_near, message),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) -> Result<(), Fault> {
        let operation = input.byte();
        let choice = usize::from(operation >> 4);
        match operation & 15 {
            0 => self.deliver_control(Side::Far, 1 + 4 * usize::from(input.byte())),
            1 => self.deliver_control(Side::Near, 1 + 4 * usize::from(input.byte())),
            2 => self.dial(choice),
            3..=5 => self.deliver(choice, 1 + usize::from(input.byte())),
            6 | 7 => self.send(choice, false).map(drop),
            8 => {
                let fails = self.hostile.is_none() || input.byte() & 1 != 0;
                self.send(choice, fails).map(drop)
            }
            9 => {
                self.break_off(choice, input.byte());
                Ok(())
            }
            10 => {
                self.progress();
                Ok(())
            }
            11 => self.steer(),
            12 => {
                let side = if choice & 1 == 0 {
                    Side::Near
                } else {
                    Side::Far
                };
                if self.job_heard {
                    self.say(side, &Message::Alive);
                }
                Ok(())
            }
            13 => self.finish(),
            _ => {
                self.harm(choice, input);
                Ok(())
            }
        }
    }

    /// Delivers a part of the control channel to one end, which does what it says.
    fn deliver_control(&mut self, to: Side, bytes: usize) -> Result<(), Fault> {
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
                        self.sender.queue(self.answered);
                        self.wanted.push(self.answered);
                    }
                    self.answered += 1;
                }
                self.offer(side);
            }
            Message::Progress(progress) if sends => {
                for (stream, taken) in (0..).zip(progress.taken) {
                    self.sender.let_go(stream, taken)?;
                }
            }
            Message::Steer(_) => {
                let taken = Ok("cubic".into());
                self.say(side, &Message::Steered(Steered { at_ns: 1, taken }));
            }
            Message::Steered(_) => self.steered[1] += 1,
            Message::Finished(_) if sends => {
                for stream in 0..self.streams {
                    let sent = self.sender.kept[usize::from(stream)].sent();
                    self.sender.let_go(stream, sent)?;
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
                streams: self.streams,
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
            for file in 0..self.sender.files.len() {
                self.sender.queue(file);
                self.wanted.push(file);
            }
            self.sender.complete = true;
        }
    }

    /// Offers the next files, or begins to end when all are answered.
    fn offer(&mut self, side: Side) {
        let all = self.sender.files.len();
        self.sender.complete = self.answered >= all;
        if self.answered < self.offered || self.offered >= all {
            return;
        }
        let first = self.offered;
        self.offered = all.min(first + OFFERED_AT_ONCE);
        let file = |file: &sender::Source| OfferedFile {
            source: 0,
            path: file.path.clone(),
            size: file.size,
            mtime_ns: 0,
            mode: 0o644,
            owner: None,
            xattrs: None,
        };
        let files = self.sender.files[first..self.offered]
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

    /// The near end dials a stream that has no connection.
    fn dial(&mut self, stream: usize) -> Result<(), Fault> {
        let stream = stream % usize::from(self.streams);
        let has_one = |link: &Link| link.near && usize::from(link.connection.stream) == stream;
        let needs_none = match self.push {
            true => self.sender.kept[stream].all_taken(),
            false => self.receiver.tallies[stream].ended(),
        };
        if !self.job_said || needs_none || self.links.iter().any(has_one) {
            return Ok(());
        }
        let connection = Connection {
            stream: stream as u16,
            incarnation: self.dialled[stream],
        };
        self.dialled[stream] += 1;
        let mut link = Link {
            connection,
            to_far: Pipe::default(),
            to_near: Pipe::default(),
            near: true,
            far: Far::Greeting,
            sending: sender::Line::new(connection.incarnation),
            receiving: receiver::Line::default(),
            told: false,
        };
        let proof = *blake3::keyed_hash(&TOKEN, &connection.to_le_bytes()).as_bytes();
        link.to_far.put(&StreamHello { proof, connection }.encode());
        if !self.push {
            self.receiver.connections.claim(connection);
            self.tell(&mut link);
        }
        self.links.push(link);
        Ok(())
    }

    /// The receiver says first on a connection that replaces another one what it has taken.
    fn tell(&self, link: &mut Link) {
        if link.connection.incarnation > 0 && !std::mem::replace(&mut link.told, true) {
            let taken = self
                .receiver
                .connections
                .taken(link.connection.stream)
                .to_le_bytes();
            match self.push {
                true => link.to_near.put(&taken),
                false => link.to_far.put(&taken),
            }
        }
    }

    /// Delivers something on one connection, both ways.
    fn deliver(&mut self, link: usize, steps: usize) -> Result<(), Fault> {
        if self.links.is_empty() {
            return Ok(());
        }
        let at = link % self.links.len();
        let mut link = self.links.remove(at);
        link.to_far.deliver(steps);
        link.to_near.deliver(steps);
        let outcome = self.work(&mut link);
        if link.near || link.far != Far::Gone {
            self.links.insert(at, link);
        }
        outcome
    }

    fn work(&mut self, link: &mut Link) -> Result<(), Fault> {
        let stream = link.connection.stream;
        if link.far == Far::Greeting && self.job_heard {
            self.greet(link);
        }
        let (sends, receives) = match self.push {
            true => (link.near, link.far == Far::AtWork),
            false => (link.far == Far::AtWork, link.near),
        };
        let (data, words) = match self.push {
            true => (&mut link.to_far, &mut link.to_near),
            false => (&mut link.to_near, &mut link.to_far),
        };
        if sends {
            self.sender.read(stream, &mut link.sending, words)?;
        }
        if receives && self.receiver.read(stream, &mut link.receiving, data)? {
            // The receiver has all of the stream and closes.
            (link.near, link.far) = (false, Far::Gone);
        }
        Ok(())
    }

    /// The far end reads who a connection says that it is.
    fn greet(&mut self, link: &mut Link) {
        let Some(bytes) = link.to_far.take(StreamHello::BYTES) else {
            return;
        };
        let hello = StreamHello::decode(bytes.as_slice().try_into().expect("so many were taken"));
        let belongs = hello.is_ok_and(|hello| {
            let proof = blake3::keyed_hash(&TOKEN, &hello.connection.to_le_bytes());
            // A near end that knows the token may say any connection, but this model dials no other.
            proof == hello.proof && hello.connection == link.connection
        });
        if !belongs || !self.push && !self.far_claims(link.connection) {
            link.far = Far::Gone;
            return;
        }
        if self.push && !self.receiver.connections.claim(link.connection) {
            link.far = Far::Gone;
            return;
        }
        for other in &mut self.links {
            // One that has not greeted yet may be newer than this one.
            if other.connection.stream == link.connection.stream && other.far == Far::AtWork {
                other.far = Far::Gone;
            }
        }
        link.far = Far::AtWork;
        if self.push {
            self.tell(link);
        }
    }

    /// Whether no newer connection of the stream is at work at a far sender.
    fn far_claims(&self, connection: Connection) -> bool {
        !self.links.iter().any(|other| {
            other.connection.stream == connection.stream
                && other.connection.incarnation > connection.incarnation
                && other.far == Far::AtWork
        })
    }

    fn send(&mut self, link: usize, fails: bool) -> Result<bool, Fault> {
        if self.links.is_empty() {
            return Ok(false);
        }
        let at = link % self.links.len();
        let link = &mut self.links[at];
        let (at_work, pipe) = match self.push {
            true => (link.near, &mut link.to_far),
            false => (link.far == Far::AtWork, &mut link.to_near),
        };
        let stream = link.connection.stream;
        if !at_work {
            return Ok(false);
        }
        self.sender.send(stream, &mut link.sending, pipe, fails)
    }

    /// A connection breaks: what is on its way is lost, and one end or both notice now.
    fn break_off(&mut self, link: usize, who: u8) {
        if self.links.is_empty() {
            return;
        }
        let at = link % self.links.len();
        let link = &mut self.links[at];
        link.to_far.cut();
        link.to_near.cut();
        if who & 1 == 0 {
            link.near = false;
        }
        // An end that sends on what is cut finds out sooner or later; here it is the near one, at once.
        if who & 2 == 0 || link.near {
            link.far = Far::Gone;
            link.near = false;
        }
        if !link.near && link.far == Far::Gone {
            self.links.swap_remove(at);
        }
    }

    fn receiver_may_speak(&self) -> bool {
        self.job_heard && !self.finished[1]
    }

    fn progress(&mut self) {
        if !self.receiver_may_speak() {
            return;
        }
        let taken = self.receiver.connections.all_taken();
        let side = if self.push { Side::Far } else { Side::Near };
        self.say(
            side,
            &Message::Progress(Progress {
                taken,
                ..Progress::default()
            }),
        );
    }

    fn steer(&mut self) -> Result<(), Fault> {
        if !self.push && self.receiver_may_speak() && self.steered[0] - self.steered[1] < 8 {
            self.steered[0] += 1;
            let streams = self.streams;
            self.say(
                Side::Near,
                &Message::Steer(Steering {
                    congestion_control: None,
                    streams,
                    pacing_bps: None,
                }),
            );
        }
        Ok(())
    }

    /// The receiver says that it has everything, when it has.
    fn finish(&mut self) -> Result<(), Fault> {
        if self.receiver_may_speak() && self.receiver.done()? {
            self.finished[1] = true;
            let totals = self.receiver.totals();
            let side = if self.push { Side::Far } else { Side::Near };
            self.say(
                side,
                &Message::Finished(Box::new(Finished {
                    totals,
                    ..Finished::default()
                })),
            );
        }
        Ok(())
    }

    /// Something that only a hostile end, or whoever sits before it, does.
    fn harm(&mut self, choice: usize, input: &mut Input<'_>) {
        let Some(hostile) = self.hostile else {
            return;
        };
        let (kind, at, with) = (choice & 3, usize::from(input.u16()), input.byte());
        let said = match hostile {
            Side::Near => &mut self.to_far,
            Side::Far => &mut self.to_near,
        };
        match kind {
            0 => said.damage(at, with),
            1 => {
                let message = message(input);
                if let Ok(frame) = howdah_wire::encode(&message) {
                    said.put(&frame);
                }
            }
            _ => {
                let links = self.links.len().max(1);
                let Some(link) = self.links.get_mut(at % links) else {
                    return;
                };
                let said = match hostile {
                    Side::Near => &mut link.to_far,
                    Side::Far => &mut link.to_near,
                };
                match kind {
                    2 => said.damage(at / links, with),
                    _ => said.put(input.bytes(usize::from(with) & 63)),
                }
            }
        }
    }

    /// Everybody does everything once, and nothing breaks.
    fn round(&mut self) -> Result<(), Fault> {
        self.deliver_control(Side::Far, usize::MAX)?;
        self.deliver_control(Side::Near, usize::MAX)?;
        for stream in 0..usize::from(self.streams) {
            self.dial(stream)?;
        }
        for link in 0..self.links.len() {
            while self.send(link, false)? {}
        }
        for link in (0..self.links.len()).rev() {
            self.deliver(link, usize::MAX)?;
        }
        self.progress();
        self.finish()
    }

    fn over(&self) -> bool {
        self.finished == [true; 2] && self.near.over()
    }

    /// What both ends hold at the end of an honest transfer.
    fn assert_whole(&self) {
        assert_eq!(self.sender.totals(), self.receiver.totals());
        assert!(self.sender.kept.iter().all(|kept| kept.all_taken()));
        assert_eq!(self.receiver.named, self.sender.digests);
        let given_up: Vec<&TreePath> = self.sender.given_up().collect();
        for file in &self.wanted {
            let path = &self.sender.files[*file].path;
            let whole = self.receiver.named.contains_key(path);
            assert_eq!(
                whole,
                !given_up.contains(&path),
                "a file is whole or was given up"
            );
        }
        assert_eq!(
            self.receiver.named.len() + given_up.len(),
            self.wanted.len()
        );
        assert!(self.receiver.taken.values().all(|times| *times == 1));
    }
}

fn size(input: &mut Input<'_>) -> u64 {
    match input.byte() {
        small @ 0..100 => u64::from(small),
        blocks => u64::from(blocks % 8) * MIN_BLOCK_BYTES + u64::from(blocks / 100),
    }
}

/// Schedules: quiet ones, ones that break, and hostile ones.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = [5, 0, 7, 103, 205, 108];
    let begin = [0, 255, 1, 255, 0, 255, 1, 255, 0, 255];
    let work = |stream: u8| {
        let choice = stream << 4;
        vec![
            2 | choice,
            3 | choice,
            255,
            6 | choice,
            6 | choice,
            3 | choice,
            200,
            7 | choice,
            3 | choice,
            9,
        ]
    };
    let broken = |stream: u8| vec![9 | stream << 4, stream & 3, 10, 0, 99, 1, 99];
    let mut seeds = Vec::new();
    for kind in [0, 1, 2, 3, 0x30, 0x31, 0x72, 0x73, 8, 9, 12, 13, 0x3a, 0x3f] {
        let head = [kind, 0b0010_0000];
        let steps = [
            work(0),
            work(1),
            broken(0),
            work(0),
            work(2),
            broken(1),
            work(1),
            vec![8, 1],
        ]
        .concat();
        let harm = [
            14, 3, 0, 5, 0x1e, 0, 0, 0, 9, 1, 0x2e, 2, 0, 7, 0x3e, 0, 0, 4, 1, 2, 3, 4,
        ];
        seeds.push(
            [
                &head[..],
                &files[..],
                &begin,
                &steps,
                &harm,
                &work(3),
                &[10, 13],
            ]
            .concat(),
        );
    }
    seeds
}
