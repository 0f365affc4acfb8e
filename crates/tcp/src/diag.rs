//! TCP_INFO of a connection that another process owns, by its addresses.
//!
//! Source: sock_diag(7); `struct inet_diag_req_v2` and `struct inet_diag_msg` of Linux
//! `include/uapi/linux/inet_diag.h`. Asking about one socket needs no privilege.

use std::{
    io,
    net::{IpAddr, SocketAddr, SocketAddrV6},
    os::fd::OwnedFd,
    time::Duration,
};

use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, netlink, sockopt,
};

use crate::{Error, Info};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const INET_DIAG_INFO: u8 = 2;
const ANY_COOKIE: u32 = u32::MAX;
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
const SOCKET_ID_AT: usize = HEADER_BYTES + 8;
const DIAG_MESSAGE_BYTES: usize = 72;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// The kernel answers at once; this only bounds a fault.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Round trip times of a connection, as the kernel of this end measured them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt {
    /// Least of the last minutes.
    pub min: Duration,
    /// Smoothed.
    pub smoothed: Duration,
}

/// The RTT of the connection that sshd serves this process over, from the value of the
/// environment variable `SSH_CONNECTION`. `None` when it cannot be known: no ssh, no such
/// connection in this network namespace, or no RTT sample yet.
///
/// Through a jump host this is the last hop alone.
#[must_use]
pub fn ssh_rtt(ssh_connection: &str) -> Option<Rtt> {
    let (local, remote) = ssh_ends(ssh_connection)?;
    let info = connection_info(local, remote).ok()??;
    Some(Rtt {
        min: info.min_rtt?,
        smoothed: info.rtt?,
    })
}

/// TCP_INFO of the established connection between two addresses, whoever owns it; `None` if this
/// network namespace has none.
pub fn connection_info(local: SocketAddr, remote: SocketAddr) -> Result<Option<Info>, Error> {
    let answer = ask(&request(local, remote)).map_err(|source| Error::Read {
        what: "sock_diag",
        source,
    })?;
    Ok(parse_answer(&answer))
}

/// Where ssh came in and from where, from the value of the environment variable `SSH_CONNECTION`
/// (client address and port, server address and port). `None` when it is not of that form.
#[must_use]
pub fn ssh_ends(ssh_connection: &str) -> Option<(SocketAddr, SocketAddr)> {
    let words: Vec<&str> = ssh_connection.split_whitespace().collect();
    let [client, client_port, server, server_port] = words[..] else {
        return None;
    };
    let remote = parse_address(client, client_port)?;
    let local = parse_address(server, server_port)?;
    (local.is_ipv4() == remote.is_ipv4()).then_some((local, remote))
}

fn parse_address(host: &str, port: &str) -> Option<SocketAddr> {
    let port = port.parse().ok()?;
    let (host, device) = match host.split_once('%') {
        Some((host, device)) => (host, Some(device)),
        None => (host, None),
    };
    Some(
        match (host.parse::<IpAddr>().ok()?.to_canonical(), device) {
            (IpAddr::V6(ip), Some(device)) => {
                SocketAddrV6::new(ip, port, 0, device_index(device)?).into()
            }
            (ip, _) => SocketAddr::new(ip, port),
        },
    )
}

fn device_index(device: &str) -> Option<u32> {
    if let Ok(index) = device.parse() {
        return Some(index);
    }
    let socket = net::socket(AddressFamily::INET6, SocketType::DGRAM, None).ok()?;
    netdevice::name_to_index(&socket, device).ok()
}

/// Asks for sockets of `family` in `states`, each with the attribute `wanted`. Sequence number and port
/// id stay 0: it is the one request on a socket of its own.
fn request_for(flags: u16, family: i32, wanted: u8, states: u32) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    bytes[..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
    let extensions = 1 << (wanted - 1);
    bytes[16..20].copy_from_slice(&[family as u8, libc::IPPROTO_TCP as u8, extensions, 0]);
    bytes[20..SOCKET_ID_AT].copy_from_slice(&states.to_ne_bytes());
    bytes
}

fn request(local: SocketAddr, remote: SocketAddr) -> [u8; REQUEST_BYTES] {
    let family = if local.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let any_state = u32::MAX;
    let mut bytes = request_for(0, family, INET_DIAG_INFO, any_state);
    let mut at = SOCKET_ID_AT;
    let mut put = |field: &[u8]| {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    };
    put(&local.port().to_be_bytes());
    put(&remote.port().to_be_bytes());
    for address in [local, remote] {
        let mut ip = [0; 16];
        match address.ip() {
            IpAddr::V4(v4) => ip[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => ip = v6.octets(),
        }
        put(&ip);
    }
    let device = match (local, remote) {
        (SocketAddr::V6(a), SocketAddr::V6(b)) => a.scope_id().max(b.scope_id()),
        _ => 0,
    };
    put(&device.to_ne_bytes());
    put(&ANY_COOKIE.to_ne_bytes());
    put(&ANY_COOKIE.to_ne_bytes());
    bytes
}

fn ask(request: &[u8]) -> io::Result<Vec<u8>> {
    let socket = open(request)?;
    let mut answer = vec![0; 8192];
    let (length, _) = net::recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
    answer.truncate(length);
    Ok(answer)
}

/// A socket that the kernel answers `request` on.
fn open(request: &[u8]) -> io::Result<OwnedFd> {
    let socket = net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER_WITHIN))?;
    net::connect(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
    net::send(&socket, request, SendFlags::empty())?;
    Ok(socket)
}

/// The attribute INET_DIAG_INFO of a netlink answer; an error message has none.
#[must_use]
pub fn parse_answer(answer: &[u8]) -> Option<Info> {
    match next_message(answer)? {
        (SOCK_DIAG_BY_FAMILY, message, _) => {
            attribute(message, INET_DIAG_INFO).and_then(Info::parse)
        }
        _ => None,
    }
}

/// The kind of the first message, the message, and what follows it.
fn next_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let message = bytes
        .get(..length)
        .filter(|message| message.len() >= HEADER_BYTES)?;
    let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, message, rest))
}

/// An attribute of one message.
fn attribute(message: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut attributes = message.get(HEADER_BYTES + DIAG_MESSAGE_BYTES..)?;
    loop {
        let header = attributes.get(..ATTRIBUTE_HEADER_BYTES)?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]);
        let value = attributes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        if kind == wanted.into() {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

pub(crate) mod controls;

#[cfg(test)]
mod tests;
