//! Ports that the far end is asked to try, and data streams that it connects to the near end.

use super::ProtocolError;
use crate::limits::MAX_ADDRESSES;
use crate::message::{DataPort, Job, Message};

/// What was asked of ports.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// Whether a port of another far end was to be tried.
    tried: bool,
    near_port: NearPort,
    /// Whether the result of a try is still to be told.
    open: bool,
}

/// Which question about data streams that the far end connects the near end may ask next.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum NearPort {
    /// The near end may ask once whether its port can be reached.
    #[default]
    Untried,
    /// The near end may then ask once for the streams, unless the job is between two far ends.
    Tried,
    /// The near end may ask for nothing more.
    Settled,
}

impl Ports {
    pub(super) fn begin(&mut self, job: &Job) {
        if job.peer.is_some() {
            self.near_port = NearPort::Settled;
        }
    }

    pub(super) fn say(&mut self, message: &Message) {
        if let Message::TryPort(_) | Message::TryNear(_) = message {
            self.open = true;
        }
    }

    /// Judges what a near end asks about ports; `None` if this is no such message, or comes at the wrong time.
    pub(super) fn hear(
        &mut self,
        message: &Message,
        has_job: bool,
    ) -> Option<Result<(), ProtocolError>> {
        match message {
            Message::TryPort(port) if !has_job && !self.tried => {
                self.tried = true;
                Some(check(port))
            }
            Message::TryNear(port) if self.near_port == NearPort::Untried && *port != 0 => {
                self.near_port = NearPort::Tried;
                Some(Ok(()))
            }
            Message::ConnectNear { .. } if has_job && self.near_port == NearPort::Tried => {
                self.near_port = NearPort::Settled;
                Some(Ok(()))
            }
            _ => None,
        }
    }

    /// Whether an answer was still to come. If so, this is that answer.
    pub(super) fn take_answer(&mut self) -> bool {
        std::mem::take(&mut self.open)
    }
}

/// Checks a port that is to be connected to.
pub(super) fn check(port: &DataPort) -> Result<(), ProtocolError> {
    if port.port == 0 || !(1..=MAX_ADDRESSES).contains(&port.addresses.len()) {
        return Err(ProtocolError("a data port that cannot be"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::tests::{data_port, far, far_with, greeted, job, near, plain};
    use crate::conversation::{Conversation, Side};
    use crate::limits::MAX_MESSAGE_TEXT_BYTES;
    use crate::message::{Direction, Peer, Way};

    #[test]
    fn a_port_is_tried_once_before_the_job_and_answered_once() {
        let ask = |addresses, port| Message::TryPort(data_port(addresses, port));
        let mut end = Conversation::new(Side::Far);
        assert!(end.hear(&ask(1, 50_000)).is_err(), "before the greeting");
        let mut end = greeted(Side::Far);
        end.hear(&ask(MAX_ADDRESSES, 50_000)).unwrap();
        assert!(end.hear(&ask(1, 50_000)).is_err(), "twice");
        for wrong in [ask(0, 1), ask(MAX_ADDRESSES + 1, 1), ask(1, 0)] {
            assert!(greeted(Side::Far).hear(&wrong).is_err());
        }
        assert!(
            far(Direction::Pull).hear(&ask(1, 1)).is_err(),
            "after the job"
        );
        let tried = Message::PortTried(Ok(1));
        assert!(near(Direction::Push).hear(&tried).is_err(), "not asked");
        let mut end = greeted(Side::Near);
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
        let mut end = greeted(Side::Far);
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
        let mut between = plain(Direction::Pull);
        between.peer = Some(Peer {
            key: Vec::new(),
            way: Way::Accept {
                from: [192, 0, 2, 7].into(),
            },
        });
        let mut end = far_with(between);
        assert!(end.hear(&Message::TryNear(1)).is_err(), "between far ends");
        let mut end = near(Direction::Push);
        assert!(end.hear(&connect).is_err() && end.hear(&Message::TryNear(1)).is_err());
        end.say(&Message::TryNear(1));
        end.hear(&Message::PortTried(Ok(1))).unwrap();
        assert!(end.hear(&Message::PortTried(Ok(1))).is_err(), "twice");
    }
}
