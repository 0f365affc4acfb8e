//! UDP sockets that move many datagrams by one system call: `UDP_SEGMENT` and `UDP_GRO` (udp(7), Linux 4.18 and 5.0).

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::Error;

/// Most datagrams that one call takes (`UDP_MAX_SEGMENTS`, 64 before Linux 6.9).
pub const MAX_SEGMENTS: usize = 64;
/// Largest payload that one call moves.
pub const MAX_BATCH_BYTES: usize = 65_507;
/// Room for what arrives while the receiver does not run: at 10 Gb/s some 10 ms.
const RECEIVE_BUFFER_BYTES: usize = 16 << 20;
/// Room for ancillary data: two short messages.
const CONTROL_WORDS: usize = 16;
const IPV4_UDP_BYTES: usize = 20 + 8;
const IPV6_UDP_BYTES: usize = 40 + 8;
const USUAL_MTU_BYTES: usize = 1500;

fn failed(what: &'static str) -> impl Fn(rustix::io::Errno) -> Error {
    move |errno| Error::Socket {
        what,
        source: errno.into(),
    }
}

/// A socket that sends to `to` and is told when nobody is there.
pub fn connected(to: SocketAddr) -> Result<OwnedFd, Error> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(failed("socket"))?;
    net::connect(&socket, &to).map_err(failed("connect"))?;
    Ok(socket)
}

/// Longest payload that the way takes whole, as far as this host knows.
pub fn longest(socket: &OwnedFd, to: SocketAddr) -> usize {
    let (level, option, headers) = match to {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU, IPV4_UDP_BYTES),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU, IPV6_UDP_BYTES),
    };
    let mut mtu: libc::c_int = 0;
    let mut length = mem::size_of_val(&mtu) as libc::socklen_t;
    // SAFETY: the pointers describe `mtu` and its length, which outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut mtu).cast(),
            &raw mut length,
        )
    };
    let mtu = if result == 0 {
        mtu as usize
    } else {
        USUAL_MTU_BYTES
    };
    mtu.saturating_sub(headers).min(MAX_BATCH_BYTES)
}

/// A socket that receives on a port the kernel chooses, over IPv4 and IPv6; and the port.
pub fn receiving(glance: Duration) -> Result<(OwnedFd, u16), Error> {
    let socket = any_family()?;
    // What is above the host's limit needs a privilege, and less of it does as well.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(glance))
        .map_err(failed("SO_RCVTIMEO"))?;
    set_flag(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, "SO_RXQ_OVFL")?;
    // Without it, each call gives one datagram.
    let _ = set_flag(&socket, libc::SOL_UDP, libc::UDP_GRO, "UDP_GRO");
    let address = net::getsockname(&socket).map_err(failed("getsockname"))?;
    let address = SocketAddr::try_from(address).map_err(failed("getsockname"))?;
    Ok((socket, address.port()))
}

fn any_family() -> Result<OwnedFd, Error> {
    let open = |family, ip: IpAddr| {
        let socket = net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        if ip.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, false)?;
        }
        net::bind(&socket, &SocketAddr::new(ip, 0))?;
        Ok(socket)
    };
    // A host without IPv6 has no such address.
    open(AddressFamily::INET6, Ipv6Addr::UNSPECIFIED.into())
        .or_else(|_| open(AddressFamily::INET, Ipv4Addr::UNSPECIFIED.into()))
        .map_err(failed("bind"))
}

fn set_flag(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    what: &'static str,
) -> Result<(), Error> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer and the length describe `on`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            mem::size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    Err(Error::Socket { what, source })
}

/// Sends `batch` as datagrams of `segment_bytes`, the last one maybe shorter, by one call.
pub fn send(socket: &OwnedFd, batch: &mut [u8], segment_bytes: usize) -> io::Result<()> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec {
        iov_base: batch.as_mut_ptr().cast(),
        iov_len: batch.len(),
    };
    // SAFETY: an all-zero msghdr is valid: no name, no data, no control.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if batch.len() > segment_bytes {
        let size = segment_bytes as u16;
        let value_bytes = mem::size_of_val(&size) as u32;
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: `control` is aligned and larger than the space of one message of two bytes, so
        // the first header exists and its data lies inside.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(value_bytes) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_UDP;
            (*header).cmsg_type = libc::UDP_SEGMENT;
            (*header).cmsg_len = libc::CMSG_LEN(value_bytes) as usize;
            libc::CMSG_DATA(header).cast::<u16>().write_unaligned(size);
        }
    }
    loop {
        // SAFETY: the message points to `batch` and `control`, which outlive the call.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, 0) };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// What one call has received.
pub struct Received {
    /// All its bytes.
    pub bytes: usize,
    /// Length of each datagram in them; the last may be shorter.
    pub segment_bytes: usize,
    /// Datagrams that the socket has had no room for since it was made, when the kernel tells.
    pub overflowed: Option<u32>,
}

/// Receives datagrams of one sender; `None` when nothing came for a glance.
pub fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<Received>> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: an all-zero msghdr is valid: no name, no data, no control.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control);
    // SAFETY: the message points to `buffer` and `control`, which outlive the call.
    let came = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    if came < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        };
    }
    let bytes = came as usize;
    let mut received = Received {
        bytes,
        segment_bytes: bytes.max(1),
        overflowed: None,
    };
    // SAFETY: the kernel has written whole messages to `control` and their length to the header; the
    // walk ends with them, and both values it reads are integers of the width read.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(found) = header.as_ref() {
            let data = libc::CMSG_DATA(header);
            match (found.cmsg_level, found.cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size = data.cast::<libc::c_int>().read_unaligned();
                    received.segment_bytes = usize::try_from(size).unwrap_or(0).max(1);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    received.overflowed = Some(data.cast::<u32>().read_unaligned());
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(Some(received))
}
