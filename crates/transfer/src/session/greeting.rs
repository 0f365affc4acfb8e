//! A near end before its job: the greeting, and the messages of the far end until then.

use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use howdah_wire::limits::MAX_TEXT_BYTES;
use howdah_wire::{FarHello, Message, printable_within};

use crate::connect::ahead::Ahead;
use crate::connect::near_port::NearPort;
use crate::end::abort::lock;
use crate::error::TransferError;
use crate::session::control::{Channel, Event};
use crate::session::near::Session;
use crate::session::report;
use crate::tls::SessionKeys;

/// The state before the transfer runs.
pub(super) struct Setup {
    pub(super) channel: Option<Channel>,
    pub(super) inbox: Option<Receiver<Event>>,
    pub(super) hello: Option<FarHello>,
    /// Connections that were made ahead, until the far end's hello has come.
    pub(super) made: Option<Made>,
    /// Why no hello will come, until the caller asks.
    pub(super) failed: Option<TransferError>,
    /// The same connections, greeted on.
    pub(super) ahead: Ahead,
    /// The port of this host that the far end was asked to try.
    pub(super) near_port: Option<NearPort>,
    pub(super) thread: Option<JoinHandle<()>>,
}

/// Connections that were made ahead.
pub(super) struct Made {
    pub(super) sockets: Vec<TcpStream>,
    /// Whether padding follows the greeting.
    pub(super) fill: bool,
}

/// A far end that has said hello and has no job yet.
pub(super) struct Greeted {
    pub(super) ahead: Ahead,
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
            ahead,
            ..
        } = self;
        match (hello.take(), channel.take(), inbox.take()) {
            (Some(hello), Some(channel), Some(inbox)) => Ok(Greeted {
                hello,
                channel,
                inbox,
                ahead: std::mem::take(ahead),
            }),
            _ => Err(TransferError::Here(
                "the session is not ready for a job".to_owned(),
            )),
        }
    }

    /// Waits for a message that `take` accepts; `None` if none has come by the deadline.
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
    /// Greets on the connections that were made ahead, if the far end's hello comes within this time. Errors are
    /// returned by [`Self::hello`].
    pub fn begin(&self, within: Duration) {
        let mut setup = lock(&self.setup);
        setup.failed = self.greet(&mut setup, within).err();
    }

    /// FarHello as JSON, or `None` if it has not come after `timeout`.
    ///
    /// # Errors
    /// When the far end is not howdah, has another version, or has gone.
    pub fn hello(&self, timeout: Duration) -> Result<Option<Vec<u8>>, TransferError> {
        let mut setup = lock(&self.setup);
        if let Some(error) = setup.failed.take() {
            return Err(error);
        }
        self.greet(&mut setup, timeout)?;
        setup.hello.as_ref().map(report::far_hello).transpose()
    }

    /// Takes the far end's hello, if it is not there yet, and greets on the connections that were made ahead.
    fn greet(&self, setup: &mut Setup, timeout: Duration) -> Result<(), TransferError> {
        if setup.hello.is_some() {
            return Ok(());
        }
        setup.hello = setup.heard(Instant::now() + timeout, |message| match message {
            Message::FarHello(hello) => Some(*hello),
            _ => None,
        })?;
        let Setup { hello, made, .. } = setup;
        if let Some(hello) = hello
            && let Some(Made { sockets, fill }) = made.take()
        {
            let keys = SessionKeys::agree(&self.identity, &hello.key)?;
            setup.ahead = Ahead::greet(sockets, &keys, &hello.token, fill);
        }
        Ok(())
    }
}
