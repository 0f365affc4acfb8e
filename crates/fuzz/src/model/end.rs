//! One end's control channel: its frames, and what it may send and receive.

use howdah_wire::{Conversation, FrameReader, Message, Side, encode, preamble};

use super::Fault;
use super::pipe::Pipe;

/// One end's control channel.
pub struct End {
    conversation: Conversation,
    frames: FrameReader,
}

impl End {
    /// Nothing said; the greeting of frames is on its way.
    pub fn new(side: Side, out: &mut Pipe) -> Self {
        out.put(&preamble());
        Self {
            conversation: Conversation::new(side),
            frames: FrameReader::new(),
        }
    }

    /// Says something.
    pub fn say(&mut self, out: &mut Pipe, message: &Message) {
        let frame = encode(message).expect("what an end says has a bound");
        self.conversation.say(message);
        out.put(&frame);
    }

    /// Takes what has arrived in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.frames.push(bytes);
    }

    /// The next message, if it may come now.
    pub fn hear(&mut self) -> Result<Option<Message>, Fault> {
        let Some(message) = self
            .frames
            .next_message()
            .map_err(|error| error.to_string())?
        else {
            return Ok(None);
        };
        self.conversation
            .hear(&message)
            .map_err(|error| error.to_string())?;
        Ok(Some(message))
    }

    /// Whether the other end has said its last.
    pub fn over(&self) -> bool {
        self.conversation.ended()
    }
}
