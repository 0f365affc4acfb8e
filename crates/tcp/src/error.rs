use std::{io, net::SocketAddr};

/// What went wrong with a socket, in one line meant for the user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel has no such congestion control.
    #[error(
        "congestion control {name:?} is not in this kernel, which has {available}; use one of these"
    )]
    UnknownControl {
        /// The name asked for.
        name: String,
        /// What the kernel has, separated by spaces.
        available: String,
    },
    /// The kernel has it, but not for a process without CAP_NET_ADMIN.
    #[error(
        "congestion control {name:?} is reserved for root here, others may use {allowed}; \
         allow it with: sysctl -w net.ipv4.tcp_allowed_congestion_control={allow:?}"
    )]
    ForbiddenControl {
        /// The name asked for.
        name: String,
        /// What is allowed, separated by spaces.
        allowed: String,
        /// The value that would allow it too.
        allow: String,
    },
    /// The kernel refused a socket option.
    #[error("cannot set {option} to {value} on a TCP socket: {source}")]
    Set {
        /// The option, as Linux names it.
        option: &'static str,
        /// The value refused.
        value: u64,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A socket could not be asked about itself.
    #[error("cannot read {what} of a TCP socket: {source}")]
    Read {
        /// What was asked for, as Linux names it.
        what: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A connection was refused or failed.
    #[error("cannot connect to {to}: {source}; is TCP to this port let through?")]
    Connect {
        /// The far end.
        to: SocketAddr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Nothing answered.
    #[error("no answer from {to} within {seconds:.1} s; is TCP to this port let through?")]
    Unanswered {
        /// The far end, or several.
        to: String,
        /// How long we waited.
        seconds: f64,
    },
    /// There was no address to try.
    #[error("no address to connect to")]
    NoAddress,
    /// A listener could not be made.
    #[error("cannot listen on {at}: {source}")]
    Listen {
        /// The address asked for.
        at: SocketAddr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A connection could not be accepted.
    #[error("cannot accept a connection on {at}: {source}")]
    Accept {
        /// The listener's address.
        at: SocketAddr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Nobody came.
    #[error("nobody connected to {at} within {seconds:.1} s; is TCP to this port let through?")]
    Unvisited {
        /// The listener's address.
        at: SocketAddr,
        /// How long we waited.
        seconds: f64,
    },
    /// The caller asked to stop.
    #[error("stopped while waiting for a connection")]
    Stopped,
    /// A file of /proc is absent or has an unknown form.
    #[error("cannot read {path}: {source}")]
    Proc {
        /// The file.
        path: &'static str,
        /// Why.
        source: io::Error,
    },
}
