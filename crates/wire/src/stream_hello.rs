//! The greeting of a data stream's connection.

use crate::limits::MAX_STREAMS;
use crate::piece::PieceError;

/// Length of the receiver's first message on a connection that replaces another one, in bytes.
pub const TAKEN_BYTES: usize = 8;

const MAGIC: [u8; 8] = *b"\x89HOWDAS\n";

/// One connection of a data stream. A connection that breaks is replaced by one of the next
/// incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Which stream of the plan this is.
    pub stream: u16,
    /// How many connections of this stream the near end has dialled before.
    pub incarnation: u16,
}

impl Connection {
    /// Stream and incarnation, little-endian.
    pub fn to_le_bytes(self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.stream.to_le_bytes(), self.incarnation.to_le_bytes());
        [a, b, c, d]
    }
}

/// The first bytes that the near end sends on each connection of a data stream. They are not encrypted, so the far
/// end reads nothing more than these bytes from a stranger.
///
/// On the first incarnation the sender's pieces follow. On each later one the receiver sends first how many pieces of
/// this stream it has received on all its connections so far, in [`TAKEN_BYTES`] bytes, little-endian. The sender
/// continues with the next piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHello {
    /// Keyed BLAKE3 of [`Connection::to_le_bytes`] under [`crate::FarHello::token`]. Compare it in
    /// constant time.
    pub proof: [u8; 32],
    /// Which connection this is.
    pub connection: Connection,
}

impl StreamHello {
    /// Length on the wire, in bytes.
    pub const BYTES: usize = MAGIC.len() + 32 + 4;

    /// The greeting as bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..40].copy_from_slice(&self.proof);
        bytes[40..].copy_from_slice(&self.connection.to_le_bytes());
        bytes
    }

    /// Reads a greeting from `bytes`.
    ///
    /// # Errors
    /// [`PieceError::Greeting`] when they are not a greeting.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, PieceError> {
        let (magic, rest) = bytes.split_first_chunk::<8>().ok_or(PieceError::Greeting)?;
        let (proof, rest) = rest.split_first_chunk::<32>().ok_or(PieceError::Greeting)?;
        let &[a, b, c, d] = rest else {
            return Err(PieceError::Greeting);
        };
        let connection = Connection {
            stream: u16::from_le_bytes([a, b]),
            incarnation: u16::from_le_bytes([c, d]),
        };
        if *magic != MAGIC || usize::from(connection.stream) >= MAX_STREAMS {
            return Err(PieceError::Greeting);
        }
        Ok(Self {
            proof: *proof,
            connection,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_greeting_survives_and_a_strange_one_does_not() {
        let hello = StreamHello {
            proof: [7; 32],
            connection: Connection {
                stream: 3,
                incarnation: 515,
            },
        };
        let bytes = hello.encode();
        assert_eq!(StreamHello::decode(&bytes), Ok(hello));
        let mut strange = bytes;
        strange[0] ^= 1;
        assert_eq!(StreamHello::decode(&strange), Err(PieceError::Greeting));
        let high = StreamHello {
            proof: [7; 32],
            connection: Connection {
                stream: MAX_STREAMS as u16,
                incarnation: 0,
            },
        };
        assert_eq!(
            StreamHello::decode(&high.encode()),
            Err(PieceError::Greeting)
        );
    }

    proptest! {
        #[test]
        fn arbitrary_greetings_never_panic(bytes in prop::collection::vec(any::<u8>(), StreamHello::BYTES)) {
            let _ = StreamHello::decode(bytes.as_slice().try_into().unwrap());
        }
    }
}
