//! Background traffic over UDP: at a rate, or as reliable blasts.
//!
//! [`Source`] sends to one [`Sink`]. What they decide by has no I/O: [`Pace`] says when a datagram is due,
//! [`Account`] what came of a sequence, [`Blast`] and [`Gathering`] what is left of an object.

mod account;
mod blast;
mod content;
mod error;
mod header;
mod pace;
mod sink;
mod socket;
mod source;

pub use account::{Account, Arrival, WINDOW};
pub use blast::{Blast, Gathering, MAX_RANGES, Missing, Piece, Shape};
pub use content::{Digest, fill};
pub use error::Error;
pub use header::{Header, MAX_DATAGRAM_BYTES, MIN_DATAGRAM_BYTES, Token};
pub use pace::Pace;
pub use sink::{Sink, SinkCounts};
pub use source::{Source, SourceCounts};
