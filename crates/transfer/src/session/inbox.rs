//! The events at one end, one after the other. Every reason to stop becomes an error.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use howdah_wire::limits::MAX_TEXT_BYTES;
use howdah_wire::{Limit, Message, Side, Steered, printable_within};

use crate::error::TransferError;
use crate::session::control::Event;
use crate::session::reachability::Reachability;
use crate::session::steer::Wish;

/// A broken data stream is often the first sign of an end that has failed. Its own words, on the
/// control channel, get this long to arrive.
const GRACE: Duration = Duration::from_millis(400);

/// The events that are left to handle.
#[derive(Debug)]
pub enum Input {
    /// The peer says something.
    Message(Message),
    /// A stream has done its work.
    StreamDone,
    /// What all streams brought is in place.
    InPlace,
    /// The user has the streams send otherwise.
    Steer(Wish),
    /// The user limits what the streams send together.
    Limit(Limit),
}

/// The events of one end.
pub struct Inbox<'a> {
    events: &'a Receiver<Event>,
    side: Side,
    path: &'a Reachability,
    broken: Option<(TransferError, Instant)>,
    finished: bool,
}

impl<'a> Inbox<'a> {
    /// An inbox for the events of the end `side`. `path` is informed of each message.
    pub fn new(events: &'a Receiver<Event>, side: Side, path: &'a Reachability) -> Self {
        Self {
            events,
            side,
            path,
            broken: None,
            finished: false,
        }
    }

    /// The next input; `None` if there is none within `timeout`.
    ///
    /// # Errors
    /// Whatever ends the transfer: an error of the peer, an error of this end, or a stop by the user.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Input>, TransferError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some((error, since)) = &self.broken
                && since.elapsed() > GRACE
            {
                return Err(error.clone());
            }
            let mut wait = deadline.saturating_duration_since(Instant::now());
            if self.broken.is_some() {
                wait = wait.min(GRACE / 8);
            }
            match self.events.recv_timeout(wait) {
                Ok(event) => {
                    let input = self.take(event)?;
                    // Also where the other end says nothing but that it is there, without a pause.
                    if input.is_some() || Instant::now() >= deadline {
                        return Ok(input);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(TransferError::Cancelled),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Notes that a data stream is broken; see [`GRACE`].
    pub fn broken(&mut self, error: TransferError) {
        self.broken.get_or_insert((error, Instant::now()));
    }

    fn take(&mut self, event: Event) -> Result<Option<Input>, TransferError> {
        match event {
            Event::Message(Message::Failed(text)) => Err(self.peer_error(&text)),
            Event::Message(Message::Cancel) => Err(TransferError::Cancelled),
            Event::Message(mut message) => {
                if let Message::Warning(text) | Message::LeftOut(text) = &mut message {
                    *text = self.peer_error(text).to_string();
                }
                if let Message::Steered(Steered {
                    taken: Err(reason), ..
                }) = &mut message
                {
                    *reason = self.peer_error(reason).to_string();
                }
                self.path.word(Instant::now());
                self.finished |= matches!(message, Message::Finished(_));
                Ok(match message {
                    Message::Alive => None,
                    message => Some(Input::Message(message)),
                })
            }
            Event::StreamDone => Ok(Some(Input::StreamDone)),
            Event::InPlace => Ok(Some(Input::InPlace)),
            Event::Steer(wish) => Ok(Some(Input::Steer(wish))),
            Event::Limit(limit) => Ok(Some(Input::Limit(limit))),
            Event::Failed(error @ (TransferError::Stream(_) | TransferError::Lost(_))) => {
                self.broken(error);
                Ok(None)
            }
            Event::Failed(error) | Event::Stop(error) | Event::Closed(Some(error)) => Err(error),
            // It has said all; what is left to do is done at this end.
            Event::Closed(None) if self.finished => Ok(None),
            Event::Closed(None) => Err(TransferError::Gone(match self.side {
                Side::Near => "the far end has gone before the transfer ended; its ssh connection \
                               closed or it was killed; run the same command again to go on"
                    .to_owned(),
                Side::Far => "the near end has gone".to_owned(),
            })),
        }
    }

    /// The peer's words as one line, of which a terminal obeys nothing.
    fn peer_error(&self, text: &str) -> TransferError {
        let text = printable_within(text.as_bytes(), MAX_TEXT_BYTES);
        match self.side {
            Side::Near => TransferError::There(text),
            Side::Far => TransferError::Here(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn path() -> Reachability {
        Reachability::new(Side::Near, Duration::ZERO, Instant::now())
    }

    #[test]
    fn a_broken_stream_waits_for_a_better_reason() {
        let (send, events) = channel();
        let path = path();
        let mut inbox = Inbox::new(&events, Side::Near, &path);
        send.send(Event::Failed(TransferError::Stream("reset".into())))
            .unwrap();
        send.send(Event::Message(Message::Failed("disk full".into())))
            .unwrap();
        let error = inbox.next(Duration::from_secs(5)).unwrap_err();
        assert_eq!(error.to_string(), "far end: disk full");
    }

    #[test]
    fn a_broken_stream_is_the_reason_if_no_other_comes() {
        let (send, events) = channel();
        let path = path();
        let mut inbox = Inbox::new(&events, Side::Near, &path);
        send.send(Event::Failed(TransferError::Stream("reset".into())))
            .unwrap();
        let error = inbox.next(Duration::from_secs(5)).unwrap_err();
        assert_eq!(error, TransferError::Stream("reset".into()));
    }

    #[test]
    fn words_of_the_peer_are_one_line_of_bounded_length() {
        let (send, events) = channel();
        let path = path();
        let mut inbox = Inbox::new(&events, Side::Near, &path);
        let mut said = |text: String| {
            send.send(Event::Message(Message::Warning(text))).unwrap();
            match inbox.next(Duration::from_secs(5)).unwrap() {
                Some(Input::Message(Message::Warning(text))) => text,
                other => panic!("{other:?}"),
            }
        };
        let line = "far end: left out\\n\\u{1b}[2J\\u{202e}";
        assert_eq!(said("left out\n\x1b[2J\u{202e}".into()), line);
        let most = "far end: ".len() + MAX_TEXT_BYTES;
        assert_eq!(said("x".repeat(1 << 20)).len(), most);
    }

    #[test]
    fn each_word_shows_that_the_other_end_is_there() {
        let (send, events) = channel();
        let (path, start) = (path(), Instant::now());
        let mut inbox = Inbox::new(&events, Side::Near, &path);
        for second in 1..14 {
            path.look(Duration::ZERO, start + Duration::from_secs(second))
                .unwrap();
        }
        assert!(!path.in_touch());
        send.send(Event::Message(Message::Alive)).unwrap();
        assert!(inbox.next(Duration::ZERO).unwrap().is_none());
        path.look(Duration::ZERO, start + Duration::from_secs(14))
            .unwrap();
        assert!(path.in_touch());
    }

    #[test]
    fn an_end_that_has_gone_may_be_dialled_again_and_one_that_failed_may_not() {
        let (send, events) = channel();
        let path = path();
        let mut inbox = Inbox::new(&events, Side::Near, &path);
        let mut ended = |event| {
            send.send(event).unwrap();
            inbox.next(Duration::from_secs(5)).unwrap_err()
        };
        assert!(ended(Event::Closed(None)).lost_connection(true));
        let failed = Event::Message(Message::Failed("disk full".into()));
        assert!(!ended(failed).lost_connection(true));
        assert!(!ended(Event::Message(Message::Cancel)).lost_connection(true));
    }

    #[test]
    fn quiet_is_no_failure() {
        let (_send, events) = channel();
        let path = path();
        let mut inbox = Inbox::new(&events, Side::Near, &path);
        assert!(inbox.next(Duration::from_millis(5)).unwrap().is_none());
    }
}
