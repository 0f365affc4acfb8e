//! Who may say what, when: the state of one end's control channel.
//!
//! Both directions run at once, so only what a peer could know is held against it: near greets,
//! far greets, near sends the job; then the receiver accepts, files are offered and answered in
//! order, a near receiver steers and hears what came of it, and each end finishes or fails once.

use std::collections::VecDeque;

use crate::limits::{
    MAX_ADDRESSES, MAX_COMPARED_OFFERS_OPEN, MAX_DIGESTS, MAX_MEMORY_NS, MAX_MESSAGE_TEXT_BYTES,
    MAX_NAMES, MAX_NAMES_OPEN, MAX_OFFERED_FILES, MAX_OFFERS_OPEN, MAX_PATH_BYTES, MAX_PATIENCE_NS,
    MAX_SAMPLE_NS, MAX_SOURCES, MAX_STEERINGS_OPEN, MAX_STREAMS, MIN_SAMPLE_NS,
};
use crate::message::{
    Compare, Compared, DataPort, Direction, Job, Memory, Message, Names, Offer, OfferedFile, Peer,
    Same, Sample, Way,
};
use crate::path::TreePath;
use crate::removal::{check_content, check_extraneous};
use crate::span::check_found;
use crate::steer::{Steered, check_control};

/// Which end of the control channel this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end that was started by its user.
    Near,
    /// The end that was started over ssh.
    Far,
}

/// A message that may not come now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the other end broke the protocol: {0}")]
pub struct ProtocolError(pub &'static str);

/// The state of one control channel, seen from one end.
#[derive(Debug)]
pub struct Conversation {
    side: Side,
    greeted: bool,
    job: Option<Direction>,
    streams: u16,
    accepted: bool,
    fresh: bool,
    offered: u64,
    answered: u64,
    /// What is asked for and comes of a job that tells files by their content; `None` for others.
    comparing: Option<Comparing>,
    steers_open: u64,
    taken: Vec<u64>,
    /// Whether names of a list may come, or go.
    named: bool,
    names_open: usize,
    /// Whether a port of another far end was to be tried.
    tried: bool,
    /// Whether the result of a try is still to be told.
    try_open: bool,
    near_port: NearPort,
    /// Whether patterns were to be expanded, and
    expanded: bool,
    /// what came of them is still to be said.
    expand_open: bool,
    tells_digests: bool,
    /// What the job removes is told; `None` if it removes nothing.
    removing: Option<Removing>,
    ended: bool,
}

/// How far the ends have come to data streams that the far end connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NearPort {
    /// The near end may ask once whether its port can be reached,
    Untried,
    /// and then, of a job that is not between two far ends, once for the streams.
    Tried,
    /// No more can be asked for.
    Settled,
}

/// How far a job that tells files by their content has come.
#[derive(Debug, Default)]
struct Comparing {
    /// The first file and the count of each [`Message::Compare`] that waits for its answer.
    open: VecDeque<(u64, usize)>,
    /// Files before this one are not asked for any more.
    next: u64,
}

/// How far a job that removes has come.
#[derive(Debug, Default)]
struct Removing {
    sources: usize,
    dry_run: bool,
    /// The folder of which more names come.
    open: Option<(u16, TreePath)>,
    all_sent: bool,
}

impl Conversation {
    /// A channel on which nothing has been said.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            greeted: false,
            job: None,
            streams: 0,
            accepted: false,
            fresh: false,
            offered: 0,
            answered: 0,
            comparing: None,
            steers_open: 0,
            taken: Vec::new(),
            named: false,
            names_open: 0,
            tried: false,
            try_open: false,
            near_port: NearPort::Untried,
            expanded: false,
            expand_open: false,
            tells_digests: false,
            removing: None,
            ended: false,
        }
    }

    /// Whether the peer has said its last: finished or failed.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Notes what this end says, because answers are judged by it.
    pub fn say(&mut self, message: &Message) {
        match message {
            Message::Job(job) => self.take_job(job),
            Message::Offer(offer) => self.offered += offer.files.len() as u64,
            Message::Answer(answer) => self.answered += answer.needed.len() as u64,
            Message::Compare(Compare { first, files }) => {
                if let Some(comparing) = &mut self.comparing {
                    comparing.open.push_back((*first, files.len()));
                }
            }
            Message::Compared(_) => {
                if let Some(comparing) = &mut self.comparing {
                    comparing.open.pop_front();
                }
            }
            Message::Steer(_) => self.steers_open += 1,
            Message::Names(_) => self.names_open += 1,
            Message::NamesTaken => self.names_open = self.names_open.saturating_sub(1),
            Message::Steered(_) => self.steers_open = self.steers_open.saturating_sub(1),
            Message::TryPort(_) | Message::TryNear(_) => self.try_open = true,
            Message::Expand(_) => self.expand_open = true,
            _ => {}
        }
    }

    /// Judges what the peer says.
    ///
    /// # Errors
    /// When it may not say this, or not now. The channel is unusable from then on.
    pub fn hear(&mut self, message: &Message) -> Result<(), ProtocolError> {
        if text(message).is_some_and(|text| text.len() > MAX_MESSAGE_TEXT_BYTES) {
            return Err(ProtocolError("a text that is too long"));
        }
        match (self.greeted, message) {
            // Also after its end, while it waits for this one's.
            (true, Message::Alive) => return Ok(()),
            _ if self.ended => return Err(ProtocolError("it speaks after its end")),
            (false, Message::Hello(_)) if self.side == Side::Far => self.greeted = true,
            (false, Message::FarHello(_)) if self.side == Side::Near => self.greeted = true,
            (_, Message::Hello(_) | Message::FarHello(_)) => {
                return Err(ProtocolError("a greeting out of place"));
            }
            (_, Message::Failed(_)) => self.ended = true,
            (false, _) => return Err(ProtocolError("no greeting")),
            (true, message) => self.hear_after_greeting(message)?,
        }
        Ok(())
    }

    fn hear_after_greeting(&mut self, message: &Message) -> Result<(), ProtocolError> {
        if self.side == Side::Far {
            match message {
                Message::Job(job) if self.job.is_none() => {
                    check_job(job)?;
                    self.take_job(job);
                    return Ok(());
                }
                Message::Job(_) => return Err(ProtocolError("a second job")),
                Message::TryPort(port) if self.job.is_none() && !self.tried => {
                    self.tried = true;
                    return check_port(port);
                }
                Message::TryNear(port) if self.near_port == NearPort::Untried && *port != 0 => {
                    self.near_port = NearPort::Tried;
                    return Ok(());
                }
                Message::ConnectNear { .. }
                    if self.job.is_some() && self.near_port == NearPort::Tried =>
                {
                    self.near_port = NearPort::Settled;
                    return Ok(());
                }
                Message::Expand(patterns) if self.job.is_none() && !self.expanded => {
                    self.expanded = true;
                    return check_paths(patterns);
                }
                Message::Cancel => return Ok(()),
                Message::Limit(limit) if self.job.is_some() => {
                    return limit.check().map_err(ProtocolError);
                }
                _ => {}
            }
        }
        match message {
            Message::Warning(_) => return Ok(()),
            Message::PortTried(_) if std::mem::take(&mut self.try_open) => return Ok(()),
            Message::Expanded(found) if std::mem::take(&mut self.expand_open) => {
                return found.as_ref().map_or(Ok(()), |paths| check_paths(paths));
            }
            _ => {}
        }
        let Some(direction) = self.job else {
            return Err(ProtocolError("a message before the job"));
        };
        let peer_sends = (direction == Direction::Push) == (self.side == Side::Far);
        match (peer_sends, message) {
            (true, Message::Offer(offer)) => self.hear_offer(offer),
            (true, Message::Scanned(_)) => Ok(()),
            (true, Message::Samples(samples)) if self.side == Side::Near => {
                let opened = |sample: &Sample| sample.stream < self.streams;
                if samples.len() > usize::from(self.streams) || !samples.iter().all(opened) {
                    return Err(ProtocolError("samples of streams that the plan has not"));
                }
                Ok(())
            }
            (_, Message::LeftOut(_)) if self.side == Side::Near => Ok(()),
            (true, Message::Digests(digests)) if self.tells_digests && self.side == Side::Near => {
                match digests.len() <= MAX_DIGESTS {
                    true => Ok(()),
                    false => Err(ProtocolError("too many digests at once")),
                }
            }
            (true, Message::Steered(steered)) if self.side == Side::Near => {
                self.hear_steered(steered)
            }
            (true, Message::Content(content)) => match &mut self.removing {
                Some(removing) if !removing.all_sent => {
                    check_content(content, removing.sources, &mut removing.open)
                        .map_err(ProtocolError)
                }
                _ => Err(ProtocolError(
                    "what is in a folder, which it was not asked for",
                )),
            },
            (true, Message::AllSent { .. }) => match &mut self.removing {
                Some(removing) if removing.open.is_none() && !removing.all_sent => {
                    removing.all_sent = true;
                    Ok(())
                }
                _ => Err(ProtocolError("that all is sent, out of place")),
            },
            (true, Message::Finished(finished)) if self.side == Side::Near => {
                self.ended = true;
                match finished.removal {
                    None => Ok(()),
                    Some(_) => Err(ProtocolError("a sender that has removed something")),
                }
            }
            (false, Message::Accept { fresh, .. }) if self.side == Side::Near && !self.accepted => {
                self.accepted = true;
                self.fresh = *fresh;
                Ok(())
            }
            (false, Message::Answer(answer)) => {
                let answers = answer.needed.len() as u64;
                if self.fresh || answer.first != self.answered || answers == 0 {
                    return Err(ProtocolError("an answer out of order"));
                }
                if answers > self.offered - self.answered {
                    return Err(ProtocolError("an answer to what was not offered"));
                }
                check_found(&answer.needed, &answer.found).map_err(ProtocolError)?;
                let there = |&index: &u16| answer.needed.get(usize::from(index)) == Some(&false);
                let others = &answer.other_xattrs;
                if !others.iter().all(there) || !others.is_sorted_by(|one, next| one < next) {
                    return Err(ProtocolError("attributes of what was not offered"));
                }
                self.answered += answers;
                Ok(())
            }
            (false, Message::Compare(compare)) if !self.fresh => self.hear_compare(compare),
            (true, Message::Compared(Compared { first, blake3 })) => {
                let open = self.comparing.as_mut().map(|one| &mut one.open);
                match open.and_then(VecDeque::pop_front) {
                    Some(asked) if asked == (*first, blake3.len()) => Ok(()),
                    _ => Err(ProtocolError("digests that were not asked for")),
                }
            }
            (false, Message::Checked(_)) if !self.fresh => Ok(()),
            (false, Message::Progress(progress)) => self.hear_taken(&progress.taken),
            (false, Message::Steer(steering)) if self.side == Side::Far => {
                steering.check(self.streams).map_err(ProtocolError)?;
                if self.steers_open >= MAX_STEERINGS_OPEN {
                    return Err(ProtocolError("too many changes at once"));
                }
                self.steers_open += 1;
                Ok(())
            }
            (false, Message::Names(names)) if self.named && self.side == Side::Far => {
                self.hear_names(names)
            }
            (true, Message::NamesTaken) if self.named && self.side == Side::Near => {
                let left = self.names_open.checked_sub(1);
                self.names_open = left.ok_or(ProtocolError("names taken that were not sent"))?;
                Ok(())
            }
            (false, Message::Extraneous(found)) if self.side == Side::Near => {
                match &self.removing {
                    Some(Removing { dry_run: true, .. }) => {
                        check_extraneous(found).map_err(ProtocolError)
                    }
                    _ => Err(ProtocolError("names to remove, which it was not asked for")),
                }
            }
            (false, Message::Finished(finished)) => {
                self.ended = true;
                match (&finished.removal, &self.removing) {
                    (Some(removal), Some(_)) => removal.check().map_err(ProtocolError),
                    (None, None) => Ok(()),
                    _ => Err(ProtocolError("an account of another job's removals")),
                }
            }
            _ => Err(ProtocolError("a message that is not its to send")),
        }
    }

    fn hear_offer(&mut self, offer: &Offer) -> Result<(), ProtocolError> {
        if offer.first != self.offered {
            return Err(ProtocolError("an offer out of order"));
        }
        if offer.files.is_empty() || offer.files.len() > MAX_OFFERED_FILES {
            return Err(ProtocolError("an offer of no or too many files"));
        }
        let sound = |file: &OfferedFile| file.attributes().is_sound();
        if !offer.files.iter().all(sound) {
            return Err(ProtocolError("an offer of a file that cannot be"));
        }
        let open = self.offered - self.answered;
        let most = match self.comparing {
            Some(_) => MAX_COMPARED_OFFERS_OPEN,
            None => MAX_OFFERS_OPEN,
        };
        if open > (MAX_OFFERED_FILES * most) as u64 {
            return Err(ProtocolError("too many offers at once"));
        }
        self.offered += offer.files.len() as u64;
        Ok(())
    }

    fn hear_compare(&mut self, compare: &Compare) -> Result<(), ProtocolError> {
        let comparing = self.comparing.as_mut();
        let comparing = comparing.ok_or(ProtocolError("a comparison that was not asked for"))?;
        let Compare { first, files } = compare;
        let (Some(&least), Some(&last)) = (files.first(), files.last()) else {
            return Err(ProtocolError("a comparison of nothing"));
        };
        if !files.is_sorted_by(|one, next| one < next) {
            return Err(ProtocolError("a comparison out of order"));
        }
        let at = |index: u16| first.checked_add(index.into());
        let begun = at(least).is_some_and(|least| least >= comparing.next.max(self.answered));
        match at(last) {
            Some(last) if begun && *first >= self.answered && last < self.offered => {
                comparing.open.push_back((*first, files.len()));
                comparing.next = last + 1;
                Ok(())
            }
            _ => Err(ProtocolError("a comparison of what was not offered")),
        }
    }

    fn hear_names(&mut self, names: &Names) -> Result<(), ProtocolError> {
        if names.names.len() > MAX_NAMES || self.names_open >= MAX_NAMES_OPEN {
            return Err(ProtocolError("too many names at once"));
        }
        self.names_open += 1;
        self.named = !names.complete;
        Ok(())
    }

    fn hear_taken(&mut self, taken: &[u64]) -> Result<(), ProtocolError> {
        if taken.len() > usize::from(self.streams) {
            return Err(ProtocolError("pieces of streams that the plan has not"));
        }
        self.taken.resize(taken.len().max(self.taken.len()), 0);
        for (before, now) in self.taken.iter_mut().zip(taken) {
            if now < before {
                return Err(ProtocolError("fewer pieces taken than before"));
            }
            *before = *now;
        }
        Ok(())
    }

    fn hear_steered(&mut self, steered: &Steered) -> Result<(), ProtocolError> {
        if let Ok(control) = &steered.taken {
            check_control(control).map_err(ProtocolError)?;
        }
        let left = self.steers_open.checked_sub(1);
        self.steers_open =
            left.ok_or(ProtocolError("an answer to a steering that was not said"))?;
        Ok(())
    }

    fn take_job(&mut self, job: &Job) {
        self.job = Some(job.direction);
        self.streams = job.plan.streams;
        self.named = job.named && job.direction == Direction::Pull;
        self.tells_digests = job.tells_digests;
        if job.peer.is_some() {
            self.near_port = NearPort::Settled;
        }
        self.comparing = (job.skip.same == Same::Content).then(Comparing::default);
        self.removing = job.delete.map(|_| Removing {
            sources: job.sources.len(),
            dry_run: job.dry_run,
            ..Removing::default()
        });
    }
}

/// The text of a message that is one.
fn text(message: &Message) -> Option<&str> {
    match message {
        Message::Warning(text) | Message::LeftOut(text) | Message::Failed(text) => Some(text),
        Message::Steered(Steered { taken, .. }) => taken.as_ref().err().map(String::as_str),
        Message::Expanded(found) => found.as_ref().err().map(String::as_str),
        Message::PortTried(tried) => tried.as_ref().err().map(String::as_str),
        _ => None,
    }
}

fn check_job(job: &Job) -> Result<(), ProtocolError> {
    if job.plan.streams == 0 || usize::from(job.plan.streams) > MAX_STREAMS {
        return Err(ProtocolError("a plan of no or too many streams"));
    }
    let files = job.memory.is_none();
    if job.sources.len() > MAX_SOURCES || files == job.sources.is_empty() {
        return Err(ProtocolError("a job without sources or with too many"));
    }
    if job.named && job.sources.len() != 1 {
        return Err(ProtocolError("a list of names below no or many sources"));
    }
    if job.memory.is_some() && job.dry_run {
        return Err(ProtocolError("a dry run that moves no files"));
    }
    if job.delete.is_some() && (job.memory.is_some() || job.named) {
        return Err(ProtocolError("removals beside what is no whole folder"));
    }
    if job.pipe && !is_for_a_pipe(job) {
        return Err(ProtocolError("a pipe beside what moves more than one file"));
    }
    if let Some(Memory::Time(ns)) = job.memory
        && !(1..=MAX_MEMORY_NS).contains(&ns)
    {
        return Err(ProtocolError("a job for no time, or for more than a day"));
    }
    if !(MIN_SAMPLE_NS..=MAX_SAMPLE_NS).contains(&job.sample_every_ns) {
        return Err(ProtocolError("samples too often or too seldom"));
    }
    if job.patience_ns > MAX_PATIENCE_NS {
        return Err(ProtocolError("patience for more than a day"));
    }
    job.limit.check().map_err(ProtocolError)?;
    match &job.peer {
        Some(Peer {
            way: Way::Connect { to, .. },
            ..
        }) => check_port(to),
        _ => Ok(()),
    }
}

/// Whether a job moves one file alone, once and for all.
fn is_for_a_pipe(job: &Job) -> bool {
    let Job {
        named,
        memory,
        delete,
        dry_run,
        peer,
        ..
    } = job;
    let one = job.sources.len() == 1 && !named;
    one && memory.is_none() && delete.is_none() && !dry_run && peer.is_none()
}

fn check_paths(paths: &[Vec<u8>]) -> Result<(), ProtocolError> {
    let sound = |path: &Vec<u8>| (1..=MAX_PATH_BYTES).contains(&path.len()) && !path.contains(&0);
    if !(1..=MAX_SOURCES).contains(&paths.len()) || !paths.iter().all(sound) {
        return Err(ProtocolError(
            "no or too many sources, or some that cannot be",
        ));
    }
    Ok(())
}

fn check_port(port: &DataPort) -> Result<(), ProtocolError> {
    if port.port == 0 || !(1..=MAX_ADDRESSES).contains(&port.addresses.len()) {
        return Err(ProtocolError("a data port that cannot be"));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::keep::Keep;
    use crate::limits::MIN_LIMIT_BPS;
    use crate::message::{Answer, FileDigest, Hello, Named, Progress, Scanned, Skip, StreamPlan};
    use crate::span::{Checked, Found, Span};
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

    pub fn job(direction: Direction) -> Message {
        Message::Job(Box::new(Job {
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
        }))
    }

    fn data_port(addresses: usize, port: u16) -> DataPort {
        DataPort {
            addresses: vec![[192, 0, 2, 7].into(); addresses],
            port,
        }
    }

    fn offer(first: u64, files: usize) -> Message {
        let file = OfferedFile {
            source: 0,
            path: TreePath::default(),
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

    fn answer(first: u64, files: usize) -> Message {
        Message::Answer(Answer {
            first,
            needed: vec![true; files],
            found: Vec::new(),
            other_xattrs: Vec::new(),
        })
    }

    fn steer(streams: u16, control: Option<&str>) -> Message {
        Message::Steer(Steering {
            congestion_control: control.map(str::to_owned),
            streams,
            pacing_bps: None,
        })
    }

    fn steered(taken: Result<&str, &str>) -> Message {
        Message::Steered(Steered {
            at_ns: 1,
            taken: taken.map(str::to_owned).map_err(str::to_owned),
        })
    }

    pub fn near_with(job: Job) -> Conversation {
        let mut near = Conversation::new(Side::Near);
        near.greeted = true;
        near.say(&Message::Job(Box::new(job)));
        near
    }

    pub fn far_with(job: Job) -> Conversation {
        let mut far = Conversation::new(Side::Far);
        far.hear(&hello()).unwrap();
        far.hear(&Message::Job(Box::new(job))).unwrap();
        far
    }

    fn near(direction: Direction) -> Conversation {
        let mut near = Conversation::new(Side::Near);
        near.greeted = true;
        near.say(&job(direction));
        near
    }

    fn far(direction: Direction) -> Conversation {
        let mut far = Conversation::new(Side::Far);
        far.hear(&hello()).unwrap();
        far.hear(&job(direction)).unwrap();
        far
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
    fn a_port_is_tried_once_before_the_job_and_answered_once() {
        let ask = |addresses, port| Message::TryPort(data_port(addresses, port));
        let mut end = Conversation::new(Side::Far);
        assert!(end.hear(&ask(1, 50_000)).is_err(), "before the greeting");
        let mut end = Conversation::new(Side::Far);
        end.hear(&hello()).unwrap();
        end.hear(&ask(MAX_ADDRESSES, 50_000)).unwrap();
        assert!(end.hear(&ask(1, 50_000)).is_err(), "twice");
        for wrong in [ask(0, 1), ask(MAX_ADDRESSES + 1, 1), ask(1, 0)] {
            let mut end = Conversation::new(Side::Far);
            end.hear(&hello()).unwrap();
            assert!(end.hear(&wrong).is_err());
        }
        assert!(
            far(Direction::Pull).hear(&ask(1, 1)).is_err(),
            "after the job"
        );
        let tried = Message::PortTried(Ok(1));
        assert!(near(Direction::Push).hear(&tried).is_err(), "not asked");
        let mut end = Conversation::new(Side::Near);
        end.greeted = true;
        end.say(&ask(1, 1));
        assert!(end.hear(&ask(1, 1)).is_err(), "only a near end asks");
        end.hear(&tried).unwrap();
        assert!(end.hear(&tried).is_err(), "twice");
        end.say(&ask(1, 1));
        let long = Message::PortTried(Err("x".repeat(MAX_MESSAGE_TEXT_BYTES + 1)));
        assert!(end.hear(&long).is_err());
    }

    #[test]
    fn streams_are_connected_to_the_near_end_once_its_port_was_tried() {
        let connect = Message::ConnectNear { token: [0; 32] };
        let mut end = Conversation::new(Side::Far);
        end.hear(&hello()).unwrap();
        end.hear(&Message::TryNear(1)).unwrap();
        assert!(end.hear(&connect).is_err(), "before the job");
        end.hear(&job(Direction::Push)).unwrap();
        end.hear(&connect).unwrap();
        let mut end = far(Direction::Push);
        assert!(end.hear(&connect).is_err(), "before the try");
        assert!(end.hear(&Message::TryNear(0)).is_err());
        end.hear(&Message::TryNear(1)).unwrap();
        assert!(end.hear(&Message::TryNear(1)).is_err(), "twice");
        end.hear(&connect).unwrap();
        assert!(end.hear(&connect).is_err(), "twice");
        let Message::Job(mut between) = job(Direction::Pull) else {
            unreachable!()
        };
        between.peer = Some(Peer {
            key: Vec::new(),
            way: Way::Accept {
                from: [192, 0, 2, 7].into(),
            },
        });
        let mut end = Conversation::new(Side::Far);
        end.hear(&hello()).unwrap();
        end.hear(&Message::Job(between)).unwrap();
        assert!(end.hear(&Message::TryNear(1)).is_err(), "between far ends");
        let mut end = near(Direction::Push);
        assert!(end.hear(&connect).is_err() && end.hear(&Message::TryNear(1)).is_err());
        end.say(&Message::TryNear(1));
        end.hear(&Message::PortTried(Ok(1))).unwrap();
        assert!(end.hear(&Message::PortTried(Ok(1))).is_err(), "twice");
    }

    #[test]
    fn a_job_between_two_far_ends_says_where_to_connect() {
        let Message::Job(mut job) = job(Direction::Pull) else {
            unreachable!()
        };
        let mut hears = |way| {
            let key = Vec::new();
            job.peer = Some(Peer { key, way });
            let mut far = Conversation::new(Side::Far);
            far.hear(&hello()).unwrap();
            far.hear(&Message::Job(job.clone()))
        };
        let connect = |addresses, port| Way::Connect {
            to: data_port(addresses, port),
            token: [0; 32],
        };
        hears(Way::Accept {
            from: [192, 0, 2, 7].into(),
        })
        .unwrap();
        hears(connect(1, 1)).unwrap();
        assert!(hears(connect(0, 1)).is_err() && hears(connect(1, 0)).is_err());
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
            let Message::Job(mut job) = job(direction) else {
                unreachable!()
            };
            job.limit.most_bps = Some(MIN_LIMIT_BPS - 1);
            let mut far = Conversation::new(Side::Far);
            far.hear(&hello()).unwrap();
            assert!(far.hear(&limit(None)).is_err(), "before the job");
            let mut far = Conversation::new(Side::Far);
            far.hear(&hello()).unwrap();
            assert!(far.hear(&Message::Job(job)).is_err());
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
            let Message::Job(mut job) = job(direction) else {
                unreachable!()
            };
            job.tells_digests = asked;
            let mut end = near(direction);
            end.say(&Message::Job(job));
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
    fn offers_and_answers_keep_their_order() {
        let mut pull = far(Direction::Pull);
        pull.say(&offer(0, 5));
        pull.hear(&answer(0, 3)).unwrap();
        assert!(pull.hear(&answer(0, 2)).is_err());
        pull.hear(&answer(3, 2)).unwrap();
        assert!(pull.hear(&answer(5, 1)).is_err());
        let mut push = far(Direction::Push);
        push.hear(&offer(0, 5)).unwrap();
        assert!(push.hear(&offer(4, 5)).is_err());
        assert!(push.hear(&offer(5, MAX_OFFERED_FILES + 1)).is_err());
    }

    #[test]
    fn digests_are_asked_for_once_of_files_that_were_offered_and_come_in_order() {
        let by_content = |direction| {
            let Message::Job(mut job) = job(direction) else {
                panic!("it is one");
            };
            job.skip.same = Same::Content;
            *job
        };
        let compare = |first, files: &[u16]| {
            Message::Compare(Compare {
                first,
                files: files.to_vec(),
            })
        };
        let sender = || {
            let mut push = near_with(by_content(Direction::Push));
            push.say(&offer(0, 5));
            push
        };
        let mut push = sender();
        push.hear(&compare(0, &[0, 3])).unwrap();
        push.hear(&compare(0, &[4])).unwrap();
        assert!(push.hear(&compare(0, &[4])).is_err());
        for wrong in [
            compare(0, &[]),
            compare(0, &[5]),
            compare(0, &[1, 1]),
            compare(u64::MAX, &[1]),
        ] {
            assert!(sender().hear(&wrong).is_err(), "{wrong:?}");
        }
        let mut push = sender();
        push.hear(&answer(0, 2)).unwrap();
        assert!(push.hear(&compare(0, &[1])).is_err());
        let mut other = near(Direction::Push);
        other.say(&offer(0, 5));
        assert!(other.hear(&compare(0, &[0])).is_err(), "another job");

        let compared = |first, files| {
            Message::Compared(Compared {
                first,
                blake3: vec![None; files],
            })
        };
        let receiver = || {
            let mut push = far_with(by_content(Direction::Push));
            push.hear(&offer(0, 5)).unwrap();
            push.say(&compare(0, &[0, 3]));
            push.say(&compare(3, &[1]));
            push
        };
        let mut push = receiver();
        push.hear(&compared(0, 2)).unwrap();
        push.hear(&compared(3, 1)).unwrap();
        assert!(push.hear(&compared(3, 1)).is_err());
        assert!(receiver().hear(&compared(3, 1)).is_err());
        assert!(receiver().hear(&compared(0, 1)).is_err());
        let mut push = far_with(by_content(Direction::Push));
        let most = (MAX_COMPARED_OFFERS_OPEN + 1) as u64;
        for number in 0..most {
            let files = MAX_OFFERED_FILES as u64;
            push.hear(&offer(number * files, MAX_OFFERED_FILES))
                .unwrap();
        }
        let next = offer(most * MAX_OFFERED_FILES as u64, MAX_OFFERED_FILES);
        assert!(push.hear(&next).is_err());
    }

    #[test]
    fn only_a_receiver_with_something_there_says_what_it_found() {
        let found = |spans: Vec<Span>| {
            Message::Answer(Answer {
                first: 0,
                needed: vec![true],
                found: vec![Found { index: 0, spans }],
                other_xattrs: Vec::new(),
            })
        };
        let span = |len| Span { offset: 0, len };
        let heard = |message: &Message| {
            let mut push = near(Direction::Push);
            push.say(&offer(0, 1));
            push.hear(message)
        };
        heard(&found(vec![span(1)])).unwrap();
        assert!(heard(&found(vec![])).is_err());
        assert!(heard(&found(vec![span(0)])).is_err());
        let checked = Message::Checked(Checked {
            file: 1,
            span: span(1),
            same: false,
        });
        heard(&checked).unwrap();
        assert!(near(Direction::Pull).hear(&checked).is_err());
        let mut push = near(Direction::Push);
        push.hear(&Message::Accept {
            fresh: true,
            into_folder: false,
        })
        .unwrap();
        assert!(push.hear(&checked).is_err());
    }

    #[test]
    fn attributes_are_asked_for_of_files_that_are_there_and_offered_as_they_can_be() {
        let heard = |other_xattrs: Vec<u16>| {
            let mut push = near(Direction::Push);
            push.say(&offer(0, 3));
            push.hear(&Message::Answer(Answer {
                first: 0,
                needed: vec![false, true, false],
                found: Vec::new(),
                other_xattrs,
            }))
        };
        heard(vec![0, 2]).unwrap();
        for wrong in [vec![1], vec![3], vec![2, 0], vec![0, 0]] {
            assert!(heard(wrong).is_err());
        }
        let Message::Offer(mut offer) = offer(0, 1) else {
            panic!("it is one");
        };
        offer.files[0].mode = 0o10_000;
        assert!(far(Direction::Push).hear(&Message::Offer(offer)).is_err());
    }

    #[test]
    fn pieces_that_were_taken_are_of_streams_that_the_plan_has_and_stay_taken() {
        let mut push = near(Direction::Push);
        let taken = |taken: &[u64]| {
            Message::Progress(Progress {
                taken: taken.to_vec(),
                ..Progress::default()
            })
        };
        push.hear(&taken(&[3])).unwrap();
        push.hear(&taken(&[3])).unwrap();
        assert!(push.hear(&taken(&[2])).is_err());
        assert!(near(Direction::Push).hear(&taken(&[0, 0])).is_err());
    }

    #[test]
    fn samples_are_of_streams_that_the_plan_has() {
        for (streams, refused) in [(&[0][..], false), (&[0, 0], true), (&[1], true)] {
            let mut near = near(Direction::Pull);
            let sample = |&stream: &u16| Sample {
                stream,
                ..Sample::default()
            };
            let samples = Message::Samples(streams.iter().map(sample).collect());
            assert_eq!(near.hear(&samples).is_err(), refused, "{streams:?}");
        }
    }

    #[test]
    fn what_waits_for_an_answer_has_a_bound() {
        let mut push = far(Direction::Push);
        let first = (0..).step_by(MAX_OFFERED_FILES);
        let refused = first
            .map(|first| push.hear(&offer(first, MAX_OFFERED_FILES)))
            .position(|heard| heard.is_err());
        assert_eq!(refused, Some(MAX_OFFERS_OPEN + 1));
        let mut push = far(Direction::Push);
        for number in 0..3 * MAX_OFFERS_OPEN as u64 {
            push.hear(&offer(number, 1)).unwrap();
            push.say(&answer(number, 1));
        }
        let mut pull = far(Direction::Pull);
        let refused = (0..).position(|_: u64| pull.hear(&steer(1, None)).is_err());
        assert_eq!(refused, Some(MAX_STEERINGS_OPEN as usize));
        let mut pull = far(Direction::Pull);
        for _ in 0..3 * MAX_STEERINGS_OPEN {
            pull.hear(&steer(1, None)).unwrap();
            pull.say(&steered(Ok("cubic")));
        }
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
    fn only_a_near_receiver_steers_and_only_what_the_plan_opened() {
        far(Direction::Pull).hear(&steer(1, Some("bbr"))).unwrap();
        far(Direction::Pull).hear(&steer(1, None)).unwrap();
        assert!(far(Direction::Push).hear(&steer(1, None)).is_err());
        assert!(near(Direction::Push).hear(&steer(1, None)).is_err());
        for wrong in [steer(0, None), steer(2, None), steer(1, Some("b\nr"))] {
            assert!(far(Direction::Pull).hear(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_steering_is_answered_once() {
        for taken in [Ok("cubic"), Err("no such thing")] {
            let mut pull = near(Direction::Pull);
            assert!(pull.hear(&steered(taken)).is_err());
            let mut pull = near(Direction::Pull);
            pull.say(&steer(1, None));
            pull.hear(&steered(taken)).unwrap();
            assert!(pull.hear(&steered(taken)).is_err());
            let mut push = near(Direction::Push);
            push.say(&steer(1, None));
            assert!(push.hear(&steered(taken)).is_err());
        }
        let mut pull = near(Direction::Pull);
        pull.say(&steer(1, None));
        assert!(pull.hear(&steered(Ok("\u{1b}[2J"))).is_err());
    }

    #[test]
    fn nothing_follows_the_end() {
        let mut pull = far(Direction::Pull);
        pull.hear(&Message::Finished(Box::default())).unwrap();
        assert!(pull.ended());
        assert!(pull.hear(&Message::Warning(String::new())).is_err());
        pull.hear(&Message::Alive).unwrap();
    }

    #[test]
    fn times_that_a_job_cannot_take_are_refused() {
        let heard_with = |memory, sample_every_ns, patience_ns| {
            let Message::Job(mut wanted) = job(Direction::Pull) else {
                unreachable!()
            };
            wanted.sources.clear();
            wanted.memory = Some(memory);
            wanted.sample_every_ns = sample_every_ns;
            wanted.patience_ns = patience_ns;
            let mut far = Conversation::new(Side::Far);
            far.hear(&hello()).unwrap();
            far.hear(&Message::Job(wanted)).is_ok()
        };
        let heard = |memory, sample_every_ns| heard_with(memory, sample_every_ns, 0);
        for (ns, taken) in [
            (0, true),
            (MAX_PATIENCE_NS, true),
            (MAX_PATIENCE_NS + 1, false),
        ] {
            let memory = Memory::Bytes(1);
            assert_eq!(heard_with(memory, MIN_SAMPLE_NS, ns), taken, "{ns}");
        }
        for (ns, taken) in [
            (0, false),
            (1, true),
            (MAX_MEMORY_NS, true),
            (MAX_MEMORY_NS + 1, false),
            (u64::MAX, false),
        ] {
            assert_eq!(heard(Memory::Time(ns), MIN_SAMPLE_NS), taken, "{ns}");
        }
        for (ns, taken) in [
            (0, false),
            (MIN_SAMPLE_NS - 1, false),
            (MAX_SAMPLE_NS, true),
            (MAX_SAMPLE_NS + 1, false),
        ] {
            assert_eq!(heard(Memory::Bytes(1), ns), taken, "{ns}");
        }
    }

    #[test]
    fn a_job_of_which_one_rule_is_none_is_no_message() {
        let Message::Job(mut wanted) = job(Direction::Pull) else {
            unreachable!()
        };
        wanted.filters = Filters::try_from(vec![b"- secret".to_vec()]).unwrap();
        let mut bytes = crate::encode(&Message::Job(wanted)).unwrap();
        let heard = |bytes: &[u8]| {
            let mut reader = crate::FrameReader::new();
            reader.push(&crate::preamble());
            reader.push(bytes);
            reader.next_message()
        };
        assert!(matches!(heard(&bytes), Ok(Some(Message::Job(_)))));
        let rule = bytes
            .windows(8)
            .position(|some| some == b"- secret")
            .unwrap();
        for sign in [b'.', b'!', b'x', 0] {
            bytes[rule] = sign;
            assert!(heard(&bytes).is_err());
        }
    }

    #[test]
    fn a_job_without_streams_or_sources_is_refused() {
        let Message::Job(mut bad) = job(Direction::Push) else {
            unreachable!()
        };
        bad.plan.streams = 0;
        let mut far = Conversation::new(Side::Far);
        far.hear(&hello()).unwrap();
        assert!(far.hear(&Message::Job(bad.clone())).is_err());
        bad.plan.streams = 1;
        bad.sources.clear();
        let mut far = Conversation::new(Side::Far);
        far.hear(&hello()).unwrap();
        assert!(far.hear(&Message::Job(bad)).is_err());
    }

    #[test]
    fn patterns_are_expanded_once_before_the_job_and_within_bounds() {
        let paths = |count: usize| vec![b"run*".to_vec(); count];
        let far = || {
            let mut far = Conversation::new(Side::Far);
            far.hear(&hello()).unwrap();
            far
        };
        let mut once = far();
        once.hear(&Message::Expand(paths(MAX_SOURCES))).unwrap();
        assert!(once.hear(&Message::Expand(paths(1))).is_err());
        let nul = vec![b"a\0b".to_vec()];
        let long = vec![vec![b'x'; MAX_PATH_BYTES + 1]];
        for wrong in [
            paths(0),
            paths(MAX_SOURCES + 1),
            nul,
            long,
            vec![Vec::new()],
        ] {
            assert!(far().hear(&Message::Expand(wrong.clone())).is_err());
            let mut near = near_before_the_job();
            near.say(&Message::Expand(paths(1)));
            assert!(near.hear(&Message::Expanded(Ok(wrong))).is_err());
        }
        let mut late = self::far(Direction::Pull);
        assert!(late.hear(&Message::Expand(paths(1))).is_err());
        let mut near = near_before_the_job();
        assert!(near.hear(&Message::Expanded(Ok(paths(1)))).is_err());
        let mut near = near_before_the_job();
        near.say(&Message::Expand(paths(1)));
        near.hear(&Message::Expanded(Err("nothing".into())))
            .unwrap();
        assert!(near.hear(&Message::Expanded(Ok(paths(1)))).is_err());
    }

    fn near_before_the_job() -> Conversation {
        let mut near = Conversation::new(Side::Near);
        near.greeted = true;
        near
    }

    fn names(count: usize, complete: bool) -> Message {
        let name = Named {
            path: TreePath::default(),
            content: false,
        };
        Message::Names(Names {
            names: vec![name; count],
            complete,
        })
    }

    #[test]
    fn names_come_of_a_job_that_has_a_list_and_no_faster_than_they_are_taken() {
        let Message::Job(mut listed) = job(Direction::Pull) else {
            unreachable!()
        };
        listed.named = true;
        let far = || {
            let mut far = Conversation::new(Side::Far);
            far.hear(&hello()).unwrap();
            far.hear(&Message::Job(listed.clone())).unwrap();
            far
        };
        assert!(self::far(Direction::Pull).hear(&names(1, true)).is_err());
        assert!(far().hear(&names(MAX_NAMES + 1, true)).is_err());
        let mut all = far();
        all.hear(&names(1, true)).unwrap();
        assert!(all.hear(&names(1, true)).is_err());
        let mut many = far();
        for _ in 0..MAX_NAMES_OPEN {
            many.hear(&names(MAX_NAMES, false)).unwrap();
        }
        assert!(many.hear(&names(1, false)).is_err());
        let mut taken = far();
        for _ in 0..3 * MAX_NAMES_OPEN {
            taken.hear(&names(1, false)).unwrap();
            taken.say(&Message::NamesTaken);
        }
        let mut near = Conversation::new(Side::Near);
        near.greeted = true;
        near.say(&Message::Job(listed.clone()));
        assert!(near.hear(&Message::NamesTaken).is_err());
        near.say(&names(1, false));
        near.hear(&Message::NamesTaken).unwrap();
        listed.sources.push(b"b".to_vec());
        let mut two = Conversation::new(Side::Far);
        two.hear(&hello()).unwrap();
        assert!(two.hear(&Message::Job(listed)).is_err());
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
}
