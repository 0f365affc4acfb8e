//! Messages about data streams: what has arrived on each, samples, and steering.

use super::ProtocolError;
use crate::limits::{MAX_SPENT_NS, MAX_STEERINGS_OPEN};
use crate::message::{Finished, Job, Message, Sample};
use crate::steer::{Steered, Steering, check_control};

/// The streams of the plan, with what the peer has said about them.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// How many the plan opens.
    opened: u16,
    /// Pieces of each that the receiver has taken.
    taken: Vec<u64>,
    /// Steerings that are not answered yet.
    steers_open: u64,
}

impl Streams {
    pub(super) fn begin(&mut self, job: &Job) {
        self.opened = job.plan.streams;
    }

    pub(super) fn say(&mut self, message: &Message) {
        match message {
            Message::Steer(_) => self.steers_open += 1,
            Message::Steered(_) => self.steers_open = self.steers_open.saturating_sub(1),
            _ => {}
        }
    }

    pub(super) fn hear_samples(&self, samples: &[Sample]) -> Result<(), ProtocolError> {
        let opened = |sample: &Sample| sample.stream < self.opened;
        if samples.len() > usize::from(self.opened) || !samples.iter().all(opened) {
            return Err(ProtocolError("samples of streams that the plan has not"));
        }
        Ok(())
    }

    pub(super) fn hear_account(&self, finished: &Finished) -> Result<(), ProtocolError> {
        if finished.streams.len() > usize::from(self.opened) {
            return Err(ProtocolError("an account of streams that the plan has not"));
        }
        if finished.finishing_ns > MAX_SPENT_NS {
            return Err(ProtocolError("a time that no copy takes"));
        }
        finished.naming.check()?;
        let mut streams = finished.streams.iter();
        streams.try_for_each(|stream| stream.spent.check())
    }

    pub(super) fn hear_taken(&mut self, taken: &[u64]) -> Result<(), ProtocolError> {
        if taken.len() > usize::from(self.opened) {
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

    pub(super) fn hear_steering(&mut self, steering: &Steering) -> Result<(), ProtocolError> {
        steering.check(self.opened).map_err(ProtocolError)?;
        if self.steers_open >= MAX_STEERINGS_OPEN {
            return Err(ProtocolError("too many changes at once"));
        }
        self.steers_open += 1;
        Ok(())
    }

    pub(super) fn hear_steered(&mut self, steered: &Steered) -> Result<(), ProtocolError> {
        if let Ok(control) = &steered.taken {
            check_control(control).map_err(ProtocolError)?;
        }
        let left = self.steers_open.checked_sub(1);
        self.steers_open =
            left.ok_or(ProtocolError("an answer to a steering that was not said"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::tests::{far, near, steer, steered};
    use crate::message::{Direction, Progress, StreamSummary};
    use crate::spent::{Doing, Spent};

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
    fn an_account_has_times_that_a_copy_can_take_and_only_streams_of_the_plan() {
        let spent = |ns| Spent {
            wall_ns: [ns; Doing::COUNT],
            ..Spent::default()
        };
        let (most, beyond) = (spent(MAX_SPENT_NS), spent(MAX_SPENT_NS + 1));
        for direction in [Direction::Push, Direction::Pull] {
            let refuses = |message: Message| near(direction).hear(&message).is_err();
            let account = |streams, of_each, naming, finishing_ns| {
                let stream = StreamSummary {
                    spent: of_each,
                    ..StreamSummary::default()
                };
                Message::Finished(Box::new(Finished {
                    streams: vec![stream; streams],
                    naming,
                    finishing_ns,
                    ..Finished::default()
                }))
            };
            assert!(!refuses(account(1, most, most, MAX_SPENT_NS)));
            assert!(refuses(account(2, most, most, 0)));
            assert!(refuses(account(1, beyond, most, 0)));
            assert!(refuses(account(1, most, beyond, 0)));
            assert!(refuses(account(1, most, most, MAX_SPENT_NS + 1)));
            assert!(!refuses(Message::Spent(Box::new(most))));
            assert!(refuses(Message::Spent(Box::new(beyond))));
            let mut far = far(direction);
            assert!(far.hear(&Message::Spent(Box::new(most))).is_err());
        }
    }

    #[test]
    fn steerings_that_wait_for_an_answer_have_a_bound() {
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
}
