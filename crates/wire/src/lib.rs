//! The transfer protocol, sans-I/O.
//!
//! One control channel (ssh's standard streams) carries [`Message`]s in [`frame`]s; data streams
//! carry a [`StreamHello`] and then [`Piece`]s, each self-contained, in any order on any stream.
//! Nothing here reads a socket, a file or a clock; no input makes it panic.

pub mod access_list;
mod conversation;
mod flags;
mod frame;
mod keep;
mod kind;
pub mod limits;
mod message;
mod packed;
mod path;
mod piece;
mod printable;
mod removal;
mod span;
mod spent;
mod steer;
mod stream_hello;
mod tally;
mod verdict;
mod walk;
mod xattrs;

pub use conversation::{Conversation, ProtocolError, Side};
pub use flags::FileFlags;
pub use frame::{FrameError, FrameReader, encode, preamble};
pub use keep::{Account, Keep, Owner, Special};
pub use kind::{Kind, Offered};
pub use message::{
    Answer, Compare, Compared, DataPort, DigestSum, Direction, FarHello, FileDigest, Finished,
    Hello, Job, LimitedBy, Memory, Message, Named, Names, Offer, OfferedFile, Peer, Progress, Same,
    Sample, Scanned, Skip, StreamPlan, StreamSummary, Way,
};
pub use path::{LinkTarget, PathError, TreePath};
pub use piece::{
    Attributes, Checksum, FilePiece, HEADER_LENGTH_BYTES, Piece, PieceError, PipedPiece,
};
pub use printable::{printable, printable_within};
pub use removal::{Content, Delete, Extraneous, NameHash, Removal, Withheld};
pub use span::{Checked, Found, Span};
pub use spent::{Doing, Spent};
pub use steer::{Limit, Steered, Steering};
pub use stream_hello::{Connection, StreamHello, TAKEN_BYTES};
pub use tally::{StreamTally, Totals};
pub use verdict::{Arrivals, Verdict};
pub use walk::{Links, Walk};
pub use xattrs::{AccountNames, Xattr, Xattrs, XattrsSum};

/// Both ends must speak the same version; it changes with every change of a message or a piece.
pub const PROTOCOL_VERSION: u32 = 13;
