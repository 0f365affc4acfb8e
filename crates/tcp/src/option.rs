//! The socket options that rustix has no call for.

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd},
};

use crate::Error;

/// A socket option: level, number, and the name Linux gives it.
#[derive(Clone, Copy)]
pub(crate) struct SocketOption {
    level: libc::c_int,
    number: libc::c_int,
    name: &'static str,
}

/// `SO_MAX_PACING_RATE`, bytes per second; 64 bits wide since Linux 4.20.
pub(crate) const MAX_PACING_RATE: SocketOption = SocketOption {
    level: libc::SOL_SOCKET,
    number: libc::SO_MAX_PACING_RATE,
    name: "SO_MAX_PACING_RATE",
};

/// `TCP_NOTSENT_LOWAT`, bytes.
pub(crate) const NOTSENT_LOWAT: SocketOption = SocketOption {
    level: libc::IPPROTO_TCP,
    number: libc::TCP_NOTSENT_LOWAT,
    name: "TCP_NOTSENT_LOWAT",
};

/// `TCP_WINDOW_CLAMP`, bytes: the window offered is at most this.
pub(crate) const WINDOW_CLAMP: SocketOption = SocketOption {
    level: libc::IPPROTO_TCP,
    number: libc::TCP_WINDOW_CLAMP,
    name: "TCP_WINDOW_CLAMP",
};

/// `SO_BUF_LOCK`: which buffers the kernel no longer tunes (linux/socket.h, since 5.14).
pub(crate) const BUF_LOCK: SocketOption = SocketOption {
    level: libc::SOL_SOCKET,
    number: 72,
    name: "SO_BUF_LOCK",
};

impl SocketOption {
    /// setsockopt(2) with an integer of the width the option wants.
    pub(crate) fn set<T: Copy + Into<u64>>(self, socket: impl AsFd, value: T) -> Result<(), Error> {
        // SAFETY: the pointer and the length describe `value`, an integer that outlives the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                self.level,
                self.number,
                (&raw const value).cast(),
                mem::size_of::<T>() as libc::socklen_t,
            )
        };
        if result == 0 {
            return Ok(());
        }
        Err(Error::Set {
            option: self.name,
            value: value.into(),
            source: io::Error::last_os_error(),
        })
    }

    /// getsockopt(2) of eight bytes; a shorter answer is widened.
    pub(crate) fn get_u64(self, socket: impl AsFd) -> Result<u64, Error> {
        let mut bytes = [0_u8; 8];
        let length =
            get(socket, self.level, self.number, &mut bytes).map_err(|source| Error::Read {
                what: self.name,
                source,
            })?;
        Ok(match length {
            4 => u64::from(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
            _ => u64::from_ne_bytes(bytes),
        })
    }
}

/// getsockopt(2) into `bytes`; how many of them the kernel filled.
pub(crate) fn get(
    socket: impl AsFd,
    level: libc::c_int,
    number: libc::c_int,
    bytes: &mut [u8],
) -> io::Result<usize> {
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the length of `bytes`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            number,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(length as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}
