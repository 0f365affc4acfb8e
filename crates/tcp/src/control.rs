//! Which congestion control a socket uses, and which it could.

use std::{fs, io, os::fd::AsFd};

use rustix::{
    io::Errno,
    net::{self, AddressFamily, SocketFlags, SocketType, sockopt},
};

use crate::Error;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// The congestion controls the kernel has loaded, as Linux names them.
pub fn available_controls() -> Result<Vec<String>, Error> {
    names(AVAILABLE)
}

/// Those that a process without CAP_NET_ADMIN may choose.
pub fn allowed_controls() -> Result<Vec<String>, Error> {
    names(ALLOWED)
}

/// The congestion control of a socket.
pub fn congestion_control(socket: impl AsFd) -> Result<String, Error> {
    sockopt::tcp_congestion(socket).map_err(|errno| Error::Read {
        what: "TCP_CONGESTION",
        source: errno.into(),
    })
}

/// Gives a socket another congestion control; a connected one goes on with the window it has.
///
/// # Errors
/// Names what there is when the kernel has no such control, and what is allowed when it is
/// reserved for CAP_NET_ADMIN.
pub fn set_congestion_control(socket: impl AsFd, name: &str) -> Result<(), Error> {
    sockopt::set_tcp_congestion(socket, name).map_err(|errno| match errno {
        Errno::NOENT | Errno::INVAL => Error::UnknownControl {
            name: name.to_owned(),
            available: joined(available_controls()),
        },
        Errno::PERM => {
            let allowed = joined(allowed_controls());
            Error::ForbiddenControl {
                name: name.to_owned(),
                allow: format!("{allowed} {name}").trim_start().to_owned(),
                allowed,
            }
        }
        _ => Error::Set {
            option: "TCP_CONGESTION",
            value: 0,
            source: errno.into(),
        },
    })
}

/// The congestion control that a new socket has, or takes when it is given that name. Tells whether open
/// ones would take it, too, without touching them.
///
/// # Errors
/// As [`set_congestion_control`], and when the system has no descriptor left.
pub fn try_control(name: Option<&str>) -> Result<String, Error> {
    let socket = net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        Some(net::ipproto::TCP),
    )
    .map_err(|errno| Error::Read {
        what: "TCP_CONGESTION",
        source: errno.into(),
    })?;
    if let Some(name) = name {
        set_congestion_control(&socket, name)?;
    }
    congestion_control(&socket)
}

fn names(path: &'static str) -> Result<Vec<String>, Error> {
    let text =
        fs::read_to_string(path).map_err(|source: io::Error| Error::Proc { path, source })?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

fn joined(names: Result<Vec<String>, Error>) -> String {
    names.unwrap_or_default().join(" ")
}
