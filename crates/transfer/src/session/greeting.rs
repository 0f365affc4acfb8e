//! A near end before its job: the greeting, and what its far end says until then.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use howdah_wire::limits::MAX_TEXT_BYTES;
use howdah_wire::{FarHello, Message, printable_within};

use crate::connect::near_port::NearPort;
use crate::end::abort::lock;
use crate::error::TransferError;
use crate::session::control::{Channel, Event};
use crate::session::near::Session;
use crate::session::report;

/// What there is before the transfer runs.
pub(super) struct Setup {
    pub(super) channel: Option<Channel>,
    pub(super) inbox: Option<Receiver<Event>>,
    pub(super) hello: Option<FarHello>,
    /// A port of this host that the far end was asked to try.
    pub(super) near_port: Option<NearPort>,
    pub(super) thread: Option<JoinHandle<()>>,
}

/// A far end that has said hello and has no job yet.
pub(super) struct Greeted {
    pub(super) hello: FarHello,
    pub(super) channel: Channel,
    pub(super) inbox: Receiver<Event>,
}

impl Setup {
    /// Takes out what a job needs.
    pub(super) fn greeted(&mut self) -> Result<Greeted, TransferError> {
        let Self {
            hello,
            channel,
            inbox,
            ..
        } = self;
        match (hello.take(), channel.take(), inbox.take()) {
            (Some(hello), Some(channel), Some(inbox)) => Ok(Greeted {
                hello,
                channel,
                inbox,
            }),
            _ => Err(TransferError::Here(
                "the session is not ready for a job".to_owned(),
            )),
        }
    }

    /// Waits for a message that `take` takes; `None` when none has come by the deadline.
    pub(super) fn heard<T>(
        &self,
        deadline: Instant,
        take: impl Fn(Message) -> Option<T>,
    ) -> Result<Option<T>, TransferError> {
        let Some(inbox) = &self.inbox else {
            return Err(TransferError::Cancelled);
        };
        loop {
            match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Message(Message::Failed(text))) => {
                    return Err(TransferError::There(printable_within(
                        text.as_bytes(),
                        MAX_TEXT_BYTES,
                    )));
                }
                Ok(Event::Message(message)) => {
                    if let Some(taken) = take(message) {
                        return Ok(Some(taken));
                    }
                }
                Ok(Event::Stop(error) | Event::Failed(error) | Event::Closed(Some(error))) => {
                    return Err(error);
                }
                Ok(Event::Closed(None)) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(TransferError::Here(
                        "the far end has gone before it said anything".to_owned(),
                    ));
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(None),
            }
        }
    }
}

impl Session {
    /// FarHello as JSON, or `None` when it is not there after `timeout`.
    ///
    /// # Errors
    /// When the far end is no howdah, another version, or has gone.
    pub fn hello(&self, timeout: Duration) -> Result<Option<Vec<u8>>, TransferError> {
        let mut setup = lock(&self.setup);
        if setup.hello.is_none() {
            setup.hello = setup.heard(Instant::now() + timeout, |message| match message {
                Message::FarHello(hello) => Some(*hello),
                _ => None,
            })?;
        }
        setup.hello.as_ref().map(report::far_hello).transpose()
    }
}
