//! Who may say what, when: the state of one end's control channel.
//!
//! Both directions run at once, so only what a peer could know is held against it: near greets,
//! far greets, near sends the job; then the receiver accepts, files are offered and answered in
//! order, and each end finishes or fails once.

use crate::limits::{MAX_OFFERED_FILES, MAX_SOURCES, MAX_STREAMS};
use crate::message::{Direction, Job, Message, Offer};

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
    accepted: bool,
    fresh: bool,
    offered: u64,
    answered: u64,
    ended: bool,
}

impl Conversation {
    /// A channel on which nothing has been said.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            greeted: false,
            job: None,
            accepted: false,
            fresh: false,
            offered: 0,
            answered: 0,
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
            _ => {}
        }
    }

    /// Judges what the peer says.
    ///
    /// # Errors
    /// When it may not say this, or not now. The channel is unusable from then on.
    pub fn hear(&mut self, message: &Message) -> Result<(), ProtocolError> {
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
                Message::Cancel => return Ok(()),
                _ => {}
            }
        }
        if let Message::Warning(_) = message {
            return Ok(());
        }
        let Some(direction) = self.job else {
            return Err(ProtocolError("a message before the job"));
        };
        let peer_sends = (direction == Direction::Push) == (self.side == Side::Far);
        match (peer_sends, message) {
            (true, Message::Offer(offer)) => self.hear_offer(offer),
            (true, Message::Scanned(_)) => Ok(()),
            (true, Message::Samples(samples)) if self.side == Side::Near => {
                if samples.len() > MAX_STREAMS {
                    return Err(ProtocolError("samples of too many streams"));
                }
                Ok(())
            }
            (true, Message::LeftOut(_)) if self.side == Side::Near => Ok(()),
            (true, Message::Finished(_)) if self.side == Side::Near => {
                self.ended = true;
                Ok(())
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
                self.answered += answers;
                Ok(())
            }
            (false, Message::Progress(_) | Message::Digests(_)) => Ok(()),
            (false, Message::Finished(_)) => {
                self.ended = true;
                Ok(())
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
        self.offered += offer.files.len() as u64;
        Ok(())
    }

    fn take_job(&mut self, job: &Job) {
        self.job = Some(job.direction);
    }
}

fn check_job(job: &Job) -> Result<(), ProtocolError> {
    if job.plan.streams == 0 || usize::from(job.plan.streams) > MAX_STREAMS {
        return Err(ProtocolError("a plan of no or too many streams"));
    }
    let files = job.memory_bytes.is_none();
    if job.sources.len() > MAX_SOURCES || files == job.sources.is_empty() {
        return Err(ProtocolError("a job without sources or with too many"));
    }
    if job.memory_bytes.is_some() && job.dry_run {
        return Err(ProtocolError("a dry run that moves no files"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Answer, Hello, OfferedFile, Progress, Sample, Scanned, StreamPlan};
    use crate::path::TreePath;
    use proptest::prelude::*;

    fn hello() -> Message {
        Message::Hello(Hello {
            version: "0".into(),
            key: vec![],
        })
    }

    fn job(direction: Direction) -> Message {
        Message::Job(Box::new(Job {
            direction,
            sources: vec![b"a".to_vec()],
            destination: b"b".to_vec(),
            destination_is_folder: false,
            memory_bytes: None,
            dry_run: false,
            encrypt: true,
            fresh: false,
            plan: StreamPlan {
                congestion_control: None,
                streams: 1,
                buffer_bytes: None,
                pacing_bps: None,
                block_bytes: 1 << 22,
            },
        }))
    }

    fn offer(first: u64, files: usize) -> Message {
        let file = OfferedFile {
            source: 0,
            path: TreePath::default(),
            size: 1,
            mtime_ns: 0,
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
        })
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
    fn samples_are_of_no_more_streams_than_there_can_be() {
        for (streams, refused) in [(MAX_STREAMS, false), (MAX_STREAMS + 1, true)] {
            let mut near = Conversation::new(Side::Near);
            near.greeted = true;
            near.say(&job(Direction::Pull));
            let samples = Message::Samples(vec![Sample::default(); streams]);
            assert_eq!(near.hear(&samples).is_err(), refused, "{streams}");
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

    proptest! {
        #[test]
        fn any_order_is_judged_without_panic(
            side in prop::sample::select(vec![Side::Near, Side::Far]),
            choices in prop::collection::vec((0usize..10, 0u64..4, 0usize..4), 0..40),
        ) {
            let mut conversation = Conversation::new(side);
            for (choice, first, files) in choices {
                let message = match choice {
                    0 => hello(),
                    1 => job(Direction::Push),
                    2 => job(Direction::Pull),
                    3 => offer(first, files),
                    4 => answer(first, files),
                    5 => Message::Accept { fresh: files == 0, into_folder: true },
                    6 => Message::Cancel,
                    7 => Message::Progress(Progress::default()),
                    8 => Message::Alive,
                    _ => Message::Finished(Box::default()),
                };
                if conversation.hear(&message).is_err() {
                    break;
                }
            }
        }
    }
}
