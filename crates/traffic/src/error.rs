//! What can go wrong, in one line meant for the user.

use std::io;
use std::net::SocketAddr;

use crate::header::{MAX_DATAGRAM_BYTES, MIN_DATAGRAM_BYTES};

/// What went wrong with traffic over UDP.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No datagram can have this length.
    #[error(
        "a datagram of {0} bytes cannot be; give {MIN_DATAGRAM_BYTES} to {MAX_DATAGRAM_BYTES}, \
         or none for what the way takes whole"
    )]
    DatagramLength(u64),
    /// The way takes no datagram of this length whole.
    #[error(
        "datagrams of {bytes} bytes are too long for the way to {to}, which takes {most}; give shorter ones"
    )]
    TooLong {
        /// Payload of one.
        bytes: usize,
        /// The sink.
        to: SocketAddr,
        /// Longest payload by the way's MTU.
        most: usize,
    },
    /// A socket could not be made or set up.
    #[error("cannot set up a UDP socket ({what}): {source}")]
    Socket {
        /// What was tried.
        what: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The far host has nobody at this port any more.
    #[error("the far end at {0} takes nothing any more; did it end?")]
    Refused(SocketAddr),
    /// Sending failed.
    #[error("cannot send to {to}: {source}")]
    Send {
        /// The sink.
        to: SocketAddr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A list of missing pieces that names others.
    #[error("the far end asks for pieces that the object has not")]
    StrangePieces,
    /// An object without bytes, or too large.
    #[error("an object of {0} bytes cannot be sent; give 1 byte to 64 GiB")]
    ObjectSize(u64),
    /// A round without an object.
    #[error("no object has been begun")]
    NoObject,
}
