//! Who may say what, when: the state of one end's control channel.
//!
//! Both directions run at once, so a message is judged only by what the peer could know when it sent it. The near end
//! greets, the far end greets, and the near end sends the job. Then the receiver accepts, files are offered and
//! answered in order, and a near receiver steers and is told the result. Each end finishes or fails once.
//!
//! Each exchange that has a state of its own is a module: `ports` and `patterns` before the job, then `names`,
//! `files`, `streams` and `removing`. `job` says what a job may ask.

mod files;
mod job;
mod names;
mod patterns;
mod ports;
mod removing;
mod streams;
#[cfg(test)]
mod tests;

use crate::limits::{MAX_DIGESTS, MAX_MESSAGE_TEXT_BYTES};
use crate::message::{Direction, Job, Message};
use crate::steer::Steered;

use files::Files;
use names::NameList;
use patterns::Patterns;
use ports::Ports;
use removing::Removing;
use streams::Streams;

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
    ports: Ports,
    patterns: Patterns,
    /// Which way files move, once there is a job.
    job: Option<Direction>,
    tells_digests: bool,
    accepted: bool,
    names: NameList,
    files: Files,
    streams: Streams,
    removing: Removing,
    ended: bool,
}

impl Conversation {
    /// A channel on which nothing has been said.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            greeted: false,
            ports: Ports::default(),
            patterns: Patterns::default(),
            job: None,
            tells_digests: false,
            accepted: false,
            names: NameList::default(),
            files: Files::default(),
            streams: Streams::default(),
            removing: Removing::default(),
            ended: false,
        }
    }

    /// Whether the peer has sent its last message, that it has finished or failed.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Notes what this end says. The peer's answers are judged by it.
    pub fn say(&mut self, message: &Message) {
        if let Message::Job(job) = message {
            self.begin(job);
        }
        self.ports.say(message);
        self.patterns.say(message);
        self.names.say(message);
        self.files.say(message);
        self.streams.say(message);
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
        if self.side == Side::Far
            && let Some(heard) = self.hear_near_end(message)
        {
            return heard;
        }
        match message {
            Message::Warning(_) => return Ok(()),
            Message::PortTried(_) if self.ports.take_answer() => return Ok(()),
            Message::Expanded(found) if self.patterns.take_answer() => {
                return patterns::check_expanded(found);
            }
            _ => {}
        }
        let Some(direction) = self.job else {
            return Err(ProtocolError("a message before the job"));
        };
        let peer_sends = (direction == Direction::Push) == (self.side == Side::Far);
        match peer_sends {
            true => self.hear_sender(message),
            false => self.hear_receiver(message),
        }
    }

    /// Judges the messages that only a near end sends, in either direction of the files. `None` if this is no such
    /// message, or comes at the wrong time.
    fn hear_near_end(&mut self, message: &Message) -> Option<Result<(), ProtocolError>> {
        let has_job = self.job.is_some();
        match message {
            Message::Job(_) if has_job => Some(Err(ProtocolError("a second job"))),
            Message::Job(job) => Some(job::check(job).map(|()| self.begin(job))),
            Message::Expand(patterns) if !has_job => self.patterns.hear(patterns),
            Message::Cancel => Some(Ok(())),
            Message::Limit(limit) if has_job => Some(limit.check().map_err(ProtocolError)),
            _ => self.ports.hear(message, has_job),
        }
    }

    fn hear_sender(&mut self, message: &Message) -> Result<(), ProtocolError> {
        let at_near = self.side == Side::Near;
        match message {
            Message::Offer(offer) => self.files.hear_offer(offer),
            Message::Compared(compared) => self.files.hear_compared(compared),
            Message::Scanned(_) => Ok(()),
            Message::Samples(samples) if at_near => self.streams.hear_samples(samples),
            Message::Steered(steered) if at_near => self.streams.hear_steered(steered),
            Message::NamesTaken if at_near && self.names.may_come() => self.names.hear_taken(),
            Message::LeftOut(_) if at_near => Ok(()),
            Message::Digests(digests) if at_near && self.tells_digests => {
                match digests.len() <= MAX_DIGESTS {
                    true => Ok(()),
                    false => Err(ProtocolError("too many digests at once")),
                }
            }
            Message::Content(content) => self.removing.hear_content(content),
            Message::AllSent { .. } => self.removing.hear_all_sent(),
            Message::Spent(spent) if at_near => spent.check(),
            Message::Finished(finished) if at_near => {
                self.ended = true;
                self.streams.hear_account(finished)?;
                match finished.removal {
                    None => Ok(()),
                    Some(_) => Err(ProtocolError("a sender that has removed something")),
                }
            }
            _ => Err(NOT_ITS_TO_SEND),
        }
    }

    fn hear_receiver(&mut self, message: &Message) -> Result<(), ProtocolError> {
        let at_near = self.side == Side::Near;
        match message {
            Message::Accept { fresh, .. } if at_near && !self.accepted => {
                self.accepted = true;
                self.files.accept(*fresh);
                Ok(())
            }
            Message::Answer(answer) => self.files.hear_answer(answer),
            Message::Compare(compare) if !self.files.fresh() => self.files.hear_compare(compare),
            Message::Checked(_) if !self.files.fresh() => Ok(()),
            Message::Progress(progress) => self.streams.hear_taken(&progress.taken),
            Message::Steer(steering) if !at_near => self.streams.hear_steering(steering),
            Message::Names(names) if !at_near && self.names.may_come() => self.names.hear(names),
            Message::LeftOut(_) if at_near => Ok(()),
            Message::Extraneous(found) if at_near => self.removing.hear_extraneous(found),
            Message::Spent(spent) if at_near => spent.check(),
            Message::Finished(finished) => {
                self.ended = true;
                self.streams.hear_account(finished)?;
                self.removing.hear_account(finished.removal.as_ref())
            }
            _ => Err(NOT_ITS_TO_SEND),
        }
    }

    fn begin(&mut self, job: &Job) {
        self.job = Some(job.direction);
        self.tells_digests = job.tells_digests;
        self.ports.begin(job);
        self.names.begin(job);
        self.files.begin(job);
        self.streams.begin(job);
        self.removing = Removing::of(job);
    }
}

const NOT_ITS_TO_SEND: ProtocolError = ProtocolError("a message that is not its to send");

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
