//! Patterns among the sources of a copy. The far end, which has the files, expands them before it gets the job.

use std::time::{Duration, Instant};

use howdah_wire::limits::MAX_TEXT_BYTES;
use howdah_wire::{Message, encode, printable_within};

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::session::near::Session;
use crate::session::report;

impl Session {
    /// Asks the far end, once and before the job, which paths the sources stand for. Some of the sources are
    /// patterns. The answer is in [`Self::expanded`].
    ///
    /// # Errors
    /// When there are too many for one message, or the session is over.
    pub fn expand(&self, patterns: Vec<Vec<u8>>) -> Result<(), TransferError> {
        let setup = lock(&self.setup);
        let channel = setup.channel.as_ref().ok_or(TransferError::Cancelled)?;
        let message = Message::Expand(patterns);
        if encode(&message).is_err() {
            let words = "the sources are too many for one copy; name a folder they are in";
            return Err(TransferError::Here(words.to_owned()));
        }
        channel.control().say(message);
        Ok(())
    }

    /// The answer as JSON (Expanded), or `None` if it has not come after `timeout`.
    ///
    /// # Errors
    /// Why the far end has found nothing, or that the far end has gone.
    pub fn expanded(&self, timeout: Duration) -> Result<Option<Vec<u8>>, TransferError> {
        let found = lock(&self.setup).heard(Instant::now() + timeout, |message| match message {
            Message::Expanded(found) => Some(found),
            _ => None,
        })?;
        match found {
            None => Ok(None),
            Some(Ok(paths)) => Ok(Some(report::expanded(paths))),
            Some(Err(why)) => Err(TransferError::There(printable_within(
                why.as_bytes(),
                MAX_TEXT_BYTES,
            ))),
        }
    }
}
