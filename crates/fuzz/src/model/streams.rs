//! The data streams of both ends: their connections, which are dialled, greeted, delivered, broken and replaced.

use howdah_wire::{Connection, Side, StreamHello};

use super::pipe::Pipe;
use super::receiver::{self, Receiver};
use super::sender::{self, Sender};
use super::{Fault, TOKEN};

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

/// Both ends of all streams.
pub struct Streams {
    /// What the sending end reads and keeps.
    pub sender: Sender,
    /// What the receiving end has taken.
    pub receiver: Receiver,
    /// Whether the near end sends.
    push: bool,
    links: Vec<Link>,
    /// How often each stream was dialled.
    dialled: Vec<u16>,
}

impl Streams {
    /// So many streams, none of which has a connection.
    pub fn new(sender: Sender, push: bool, streams: u16) -> Self {
        Self {
            sender,
            receiver: Receiver::new(streams),
            push,
            links: Vec::new(),
            dialled: vec![0; streams.into()],
        }
    }

    /// The near end dials a stream that has no connection.
    pub fn dial(&mut self, stream: usize) {
        let stream = stream % self.dialled.len();
        let has_one = |link: &Link| link.near && usize::from(link.connection.stream) == stream;
        let needs_none = match self.push {
            true => self.sender.kept[stream].all_taken(),
            false => self.receiver.tallies[stream].ended(),
        };
        if needs_none || self.links.iter().any(has_one) {
            return;
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

    /// Delivers something on one connection, both ways. The far end reads who it is from once it has its job.
    pub fn deliver(&mut self, link: usize, steps: usize, far_listens: bool) -> Result<(), Fault> {
        if self.links.is_empty() {
            return Ok(());
        }
        let at = link % self.links.len();
        let mut link = self.links.remove(at);
        link.to_far.deliver(steps);
        link.to_near.deliver(steps);
        let outcome = self.work(&mut link, far_listens);
        if link.near || link.far != Far::Gone {
            self.links.insert(at, link);
        }
        outcome
    }

    fn work(&mut self, link: &mut Link, far_listens: bool) -> Result<(), Fault> {
        let stream = link.connection.stream;
        if link.far == Far::Greeting && far_listens {
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

    /// Sends the next piece on one connection; whether there was one. `fails`: it cannot be read.
    pub fn send(&mut self, link: usize, fails: bool) -> Result<bool, Fault> {
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
    pub fn break_off(&mut self, link: usize, who: u8) {
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

    /// What a hostile end has said on one connection, and which place in it `at` is.
    pub fn said_by(&mut self, hostile: Side, at: usize) -> Option<(&mut Pipe, usize)> {
        let links = self.links.len().max(1);
        let link = self.links.get_mut(at % links)?;
        let said = match hostile {
            Side::Near => &mut link.to_far,
            Side::Far => &mut link.to_near,
        };
        Some((said, at / links))
    }

    /// Sends and delivers all that there is on all connections.
    pub fn round(&mut self, far_listens: bool) -> Result<(), Fault> {
        for link in 0..self.links.len() {
            while self.send(link, false)? {}
        }
        for link in (0..self.links.len()).rev() {
            self.deliver(link, usize::MAX, far_listens)?;
        }
        Ok(())
    }
}
