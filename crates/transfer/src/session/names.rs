//! The names of a list on their way from the near end to the sender.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use howdah_wire::limits::MAX_NAMES_OPEN;
use howdah_wire::{Message, Named, Names};

use crate::end::context::Context;
use crate::error::TransferError;
use crate::tree::names::NamesFile;

/// Between two looks at whether this end stops.
const GLANCE: Duration = Duration::from_millis(100);

/// Where a sender gets the names from.
pub enum Origin {
    /// Its own list.
    File(NamesFile),
    /// The near end's messages.
    Near(Receiver<Names>),
}

/// The names that the sender has not read yet.
pub struct Coming {
    origin: Origin,
    complete: bool,
}

impl Coming {
    /// All names of a list.
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            complete: false,
        }
    }

    /// The next names; `None` after the last ones.
    ///
    /// # Errors
    /// When the list cannot be read, or this end stops.
    pub fn next(&mut self, context: &Context) -> Result<Option<Vec<Named>>, TransferError> {
        if self.complete {
            return Ok(None);
        }
        let Names { names, complete } = match &mut self.origin {
            Origin::File(file) => file.next_names()?,
            Origin::Near(coming) => loop {
                match coming.recv_timeout(GLANCE) {
                    Ok(names) => {
                        context.control.say(Message::NamesTaken);
                        break names;
                    }
                    Err(RecvTimeoutError::Timeout) if !context.abort.stopping() => {}
                    Err(_) => return Err(TransferError::Cancelled),
                }
            },
        };
        self.complete = complete;
        Ok(Some(names))
    }
}

/// Sends a list to a far sender, no faster than it takes the names. `taken` receives a confirmation of each message.
///
/// # Errors
/// When the list cannot be read.
pub fn say(
    context: &Context,
    mut list: NamesFile,
    taken: &Receiver<()>,
) -> Result<(), TransferError> {
    let mut open = 0;
    loop {
        let names = list.next_names()?;
        let complete = names.complete;
        context.control.say(Message::Names(names));
        if complete {
            return Ok(());
        }
        open += 1;
        while open >= MAX_NAMES_OPEN {
            match taken.recv_timeout(GLANCE) {
                Ok(()) => open -= 1,
                Err(RecvTimeoutError::Timeout) if !context.abort.stopping() => {}
                Err(_) => return Ok(()),
            }
        }
        open -= taken.try_iter().count().min(open);
    }
}
