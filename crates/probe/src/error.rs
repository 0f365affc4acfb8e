use std::{io, net::SocketAddr};

/// What went wrong with probing, in one line meant for the user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This user may open neither a ping socket nor a raw one.
    #[error(
        "ICMP echo is not open to this user here (to allow it: \
         sysctl -w net.ipv4.ping_group_range=\"0 2147483647\")"
    )]
    IcmpForbidden,
    /// A socket could not be made or set up.
    #[error("cannot {what} a socket to probe with: {source}")]
    Socket {
        /// What was tried.
        what: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// There is no way to the target from here.
    #[error("cannot probe {}: {source}; check the network, or its address", to.ip())]
    Unreachable {
        /// The far end.
        to: SocketAddr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A responder has no such address.
    #[error("cannot answer probes at {at}: {source}")]
    Bind {
        /// The address asked for.
        at: SocketAddr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The probing asked for cannot be.
    #[error("{0}")]
    Wanted(String),
}
