//! How a TCP socket shall be, and how the kernel let it be.

use std::{io, os::fd::AsFd};

use howdah_units::Bytes;
use rustix::net::sockopt;

use crate::{
    Error,
    control::{congestion_control, set_congestion_control},
    option::{MAX_PACING_RATE, NOTSENT_LOWAT, WINDOW_CLAMP},
};

/// The kernel doubles what is asked of `SO_SNDBUF` and `SO_RCVBUF`, and counts in an `int`
/// (`sock_setsockopt`, net/core/sock.c).
const MAX_BUFFER_BYTES: u64 = (i32::MAX / 2) as u64;

/// The sender's buffer bounds what is in flight, and all of it may arrive at once and wait to be read. There, a
/// byte of payload costs little more than a byte of memory; here it may cost two, and what finds no
/// room is dropped (`tcp_try_rmem_schedule`, net/ipv4/tcp_input.c).
const RECEIVE_ROOM: usize = 2;

/// How a socket shall be; `None` leaves the kernel's own choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketPlan {
    /// As Linux names it.
    pub congestion_control: Option<String>,
    /// Payload in flight the buffers of both directions must hold, bytes; the one that receives gets
    /// room for twice that. Fixes them: the kernel no longer tunes a buffer that was set.
    pub buffer_bytes: Option<u64>,
    /// Most window to offer, bytes (`TCP_WINDOW_CLAMP`). Before connect and listen it also bounds the
    /// window scale (RFC 7323 §2.3), and the scale is how far a closing window still opens with
    /// each acknowledgement, because it is rounded up (`tcp_select_window`).
    pub window_bytes: Option<u64>,
    /// Upper bound of the sending rate, bits per second of IP packets.
    pub pacing_bps: Option<u64>,
    /// Unsent bytes beyond which the socket is no longer writable (`TCP_NOTSENT_LOWAT`).
    pub notsent_lowat_bytes: Option<u32>,
}

impl SocketPlan {
    /// Applies the plan to a socket. Buffers count fully only before connect and listen, where
    /// the window scale is chosen (RFC 7323 §2.3); everything else may change at any time.
    /// Sockets that a listener accepts inherit all of it.
    ///
    /// A buffer beyond the host's limit is not an error: see [`Self::shortfall`].
    pub fn apply(&self, socket: impl AsFd) -> Result<(), Error> {
        let socket = socket.as_fd();
        if let Some(wanted) = self.buffer_bytes {
            set_buffers(socket, wanted.min(MAX_BUFFER_BYTES) as usize)?;
        }
        if let Some(wanted) = self.window_bytes {
            WINDOW_CLAMP.set(socket, wanted.min(MAX_BUFFER_BYTES) as u32)?;
        }
        if let Some(name) = &self.congestion_control {
            set_congestion_control(socket, name)?;
        }
        if let Some(rate_bps) = self.pacing_bps {
            bound_rate(socket, Some(rate_bps))?;
        }
        if let Some(bytes) = self.notsent_lowat_bytes {
            NOTSENT_LOWAT.set(socket, bytes)?;
        }
        sockopt::set_tcp_nodelay(socket, true).map_err(refused("TCP_NODELAY", 1))
    }

    /// What the user should know when the host granted a smaller buffer than planned to a socket
    /// that `sends`, or receives.
    #[must_use]
    pub fn shortfall(&self, granted: &Settings, sends: bool) -> Option<String> {
        let wanted = self.buffer_bytes?.min(MAX_BUFFER_BYTES);
        let (what, got, limit) = if sends {
            ("send", granted.send_buffer_bytes, "wmem_max")
        } else {
            ("receive", granted.receive_buffer_bytes, "rmem_max")
        };
        (got < wanted).then(|| {
            format!(
                "socket buffers: {} to {what} were planned, this host grants {}; raise its limit with: \
                 sysctl -w net.core.{limit}={wanted}",
                Bytes(wanted),
                Bytes(got),
            )
        })
    }
}

/// Bounds the sending rate of a socket, in bits per second of IP packets; `None` lifts the bound. The socket
/// stays paced then, by its window and RTT: nothing sets `sk_pacing_status` back (`sk_setsockopt`, net/core/sock.c).
pub fn bound_rate(socket: impl AsFd, most_bps: Option<u64>) -> Result<(), Error> {
    let most = most_bps.map_or(u64::MAX, |bps| bps.div_ceil(8).max(1));
    MAX_PACING_RATE.set(socket, most)
}

/// How a socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// As Linux names it.
    pub congestion_control: String,
    /// Payload the send buffer holds by the kernel's own estimate: half of its memory, the rest
    /// being packet overhead. Comparable to [`SocketPlan::buffer_bytes`].
    pub send_buffer_bytes: u64,
    /// The same for the receive buffer, which a plan makes twice as large where the host lets it.
    pub receive_buffer_bytes: u64,
    /// Upper bound of the sending rate, bits per second; `None` when there is no bound.
    pub pacing_bps: Option<u64>,
}

impl Settings {
    /// Asks the kernel.
    pub fn read(socket: impl AsFd) -> Result<Self, Error> {
        let socket = socket.as_fd();
        let halved = |what, size: rustix::io::Result<usize>| {
            size.map(|bytes| bytes as u64 / 2)
                .map_err(|errno| Error::Read {
                    what,
                    source: errno.into(),
                })
        };
        let pacing = MAX_PACING_RATE.get_u64(socket)?;
        Ok(Self {
            congestion_control: congestion_control(socket)?,
            send_buffer_bytes: halved("SO_SNDBUF", sockopt::socket_send_buffer_size(socket))?,
            receive_buffer_bytes: halved("SO_RCVBUF", sockopt::socket_recv_buffer_size(socket))?,
            pacing_bps: (pacing != u64::MAX).then(|| pacing.saturating_mul(8)),
        })
    }
}

/// Sets both buffers beyond the host's limits where we may (CAP_NET_ADMIN in the first user
/// namespace), else up to them.
fn set_buffers(socket: impl AsFd, bytes: usize) -> Result<(), Error> {
    let socket = socket.as_fd();
    if sockopt::set_socket_send_buffer_size_force(socket, bytes).is_err() {
        sockopt::set_socket_send_buffer_size(socket, bytes)
            .map_err(refused("SO_SNDBUF", bytes as u64))?;
    }
    let room = (RECEIVE_ROOM * bytes).min(MAX_BUFFER_BYTES as usize);
    if sockopt::set_socket_recv_buffer_size_force(socket, room).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, room)
            .map_err(refused("SO_RCVBUF", room as u64))?;
    }
    Ok(())
}

pub(crate) fn refused(option: &'static str, value: u64) -> impl FnOnce(rustix::io::Errno) -> Error {
    move |errno| Error::Set {
        option,
        value,
        source: io::Error::from(errno),
    }
}
