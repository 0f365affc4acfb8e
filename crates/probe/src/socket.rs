//! Sockets that probes go through: ICMP echo, by a ping socket or a raw one, and UDP.
//!
//! A ping socket (icmp(7), SOCK_DGRAM) needs no privilege, only a group in `net.ipv4.ping_group_range`. All are
//! connected, so that the kernel keeps what comes from others away.

use std::{
    io, mem,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{self, AddressFamily, Protocol, SocketFlags, SocketType, ipproto},
};
use serde::Deserialize;

use crate::Error;

/// The packets that probe a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeKind {
    /// ICMP echo; the far kernel answers.
    Icmp,
    /// UDP; a [`crate::Responder`] answers.
    Udp,
}

/// A socket whose datagrams the kernel stamps when they come.
pub(crate) struct Socket {
    fd: OwnedFd,
    /// What is received may be other programs', and begins with the header of IPv4 where it is that.
    pub raw: bool,
}

/// A datagram that came.
pub(crate) struct Received {
    pub length: usize,
    /// CLOCK_REALTIME, ns.
    pub stamp_ns: Option<i64>,
    /// Whom it is from, where the socket is not connected.
    pub from: Option<SocketAddr>,
}

/// Room for the stamp and an extended error.
const CONTROL_WORDS: usize = 32;

impl Socket {
    /// Connected to `to`.
    pub fn connected(kind: ProbeKind, to: SocketAddr) -> Result<Self, Error> {
        let family = if to.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let (fd, raw) = match (kind, to.is_ipv4()) {
            (ProbeKind::Udp, _) => (made(family, SocketType::DGRAM, ipproto::UDP)?, false),
            (ProbeKind::Icmp, true) => icmp(family, ipproto::ICMP)?,
            (ProbeKind::Icmp, false) => icmp(family, ipproto::ICMPV6)?,
        };
        let socket = Self { fd, raw };
        socket.stamped()?;
        // Errors of routers on the way are then told, not only those of the far host.
        let (level, option) = if to.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_RECVERR)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        };
        socket.set(level, option)?;
        net::connect(&socket.fd, &to).map_err(|errno| Error::Unreachable {
            to,
            source: errno.into(),
        })?;
        Ok(socket)
    }

    /// For whoever sends to `at`; `[::]` takes IPv4 as well.
    pub fn bound(at: SocketAddr) -> Result<Self, Error> {
        let family = if at.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let fd = made(family, SocketType::DGRAM, ipproto::UDP)?;
        net::bind(&fd, &at).map_err(|errno| Error::Bind {
            at,
            source: errno.into(),
        })?;
        let socket = Self { fd, raw: false };
        socket.stamped()?;
        Ok(socket)
    }

    fn stamped(&self) -> Result<(), Error> {
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
    }

    fn set(&self, level: libc::c_int, option: libc::c_int) -> Result<(), Error> {
        let on: libc::c_int = 1;
        // SAFETY: the pointer and the length describe `on`, which outlives the call.
        let result = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                option,
                (&raw const on).cast(),
                mem::size_of_val(&on) as libc::socklen_t,
            )
        };
        if result == 0 {
            return Ok(());
        }
        Err(Error::Socket {
            what: "set up",
            source: io::Error::last_os_error(),
        })
    }

    /// To whom the socket is connected.
    pub fn send(&self, bytes: &[u8]) -> rustix::io::Result<()> {
        net::send(&self.fd, bytes, net::SendFlags::DONTWAIT).map(drop)
    }

    /// To somebody.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> rustix::io::Result<()> {
        net::sendto(&self.fd, bytes, net::SendFlags::DONTWAIT, &to).map(drop)
    }

    /// The port it has here.
    pub fn port(&self) -> io::Result<u16> {
        let at = net::getsockname(&self.fd)?;
        SocketAddr::try_from(at)
            .map(|at| at.port())
            .map_err(io::Error::from)
    }

    /// What came next; none when nothing is there. An error is one that a router or the far host has told.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Option<Received>> {
        match self.receive_with(into, 0) {
            Ok(received) => Ok(Some(received)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => {
                // The same error waits in a queue of its own, and keeps the socket readable.
                let mut unread = [0; 1];
                while self.receive_with(&mut unread, libc::MSG_ERRQUEUE).is_ok() {}
                Err(error)
            }
        }
    }

    fn receive_with(&self, into: &mut [u8], flags: libc::c_int) -> io::Result<Received> {
        let mut control = [0_usize; CONTROL_WORDS];
        // SAFETY: all-zero is a valid value of both.
        let (mut from, mut message) = unsafe {
            (
                mem::zeroed::<libc::sockaddr_storage>(),
                mem::zeroed::<libc::msghdr>(),
            )
        };
        let mut piece = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = mem::size_of_val(&from) as libc::socklen_t;
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control);
        // SAFETY: every pointer in `message` is to memory of the length beside it that outlives the call.
        let got = unsafe {
            libc::recvmsg(
                self.fd.as_raw_fd(),
                &raw mut message,
                flags | libc::MSG_DONTWAIT,
            )
        };
        let length = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        Ok(Received {
            length,
            stamp_ns: stamp_ns(&message),
            from: address(&from),
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn icmp(family: AddressFamily, protocol: Protocol) -> Result<(OwnedFd, bool), Error> {
    let opened = [(SocketType::DGRAM, false), (SocketType::RAW, true)]
        .into_iter()
        .map(|(kind, raw)| open(family, kind, protocol).map(|fd| (fd, raw)))
        .find(|opened| !matches!(opened, Err(Errno::ACCESS | Errno::PERM)));
    match opened {
        Some(Ok(opened)) => Ok(opened),
        Some(Err(errno)) => Err(Error::Socket {
            what: "open",
            source: errno.into(),
        }),
        None => Err(Error::IcmpForbidden),
    }
}

fn made(family: AddressFamily, kind: SocketType, protocol: Protocol) -> Result<OwnedFd, Error> {
    open(family, kind, protocol).map_err(|errno| Error::Socket {
        what: "open",
        source: errno.into(),
    })
}

fn open(
    family: AddressFamily,
    kind: SocketType,
    protocol: Protocol,
) -> rustix::io::Result<OwnedFd> {
    net::socket_with(family, kind, SocketFlags::CLOEXEC, Some(protocol))
}

/// SCM_TIMESTAMPNS among the control messages.
fn stamp_ns(message: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel filled the control messages of `message` in, which the macros walk.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = header.as_ref() {
            if found.cmsg_level == libc::SOL_SOCKET && found.cmsg_type == libc::SCM_TIMESTAMPNS {
                let stamp = libc::CMSG_DATA(header)
                    .cast::<libc::timespec>()
                    .read_unaligned();
                return stamp
                    .tv_sec
                    .checked_mul(1_000_000_000)?
                    .checked_add(stamp.tv_nsec);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

fn address(from: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(from.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which it is, and the storage has room and alignment for each.
            let v4 = unsafe { &*(&raw const *from).cast::<libc::sockaddr_in>() };
            let ip = u32::from_be(v4.sin_addr.s_addr);
            Some(SocketAddr::from((
                std::net::Ipv4Addr::from_bits(ip),
                u16::from_be(v4.sin_port),
            )))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*(&raw const *from).cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::V6(std::net::SocketAddrV6::new(
                v6.sin6_addr.s6_addr.into(),
                u16::from_be(v6.sin6_port),
                v6.sin6_flowinfo,
                v6.sin6_scope_id,
            )))
        }
        _ => None,
    }
}
