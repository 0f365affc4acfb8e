//! Gives a socket's buffers back to the kernel's own tuning.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::stream::StreamError;

/// linux/socket.h, since 5.14.
const SO_BUF_LOCK: libc::c_int = 72;

/// Undoes what a socket inherited from a listener with large buffers: they get the size a new
/// socket has, and the kernel tunes them again. Before Linux 5.14 it cannot; they stay large then.
///
/// # Errors
/// When the socket refuses what every socket takes.
pub fn tune_again(socket: BorrowedFd<'_>) -> Result<(), StreamError> {
    let unlocked: libc::c_int = 0;
    let new = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)
        .map_err(io::Error::from)?;
    let halve = |bytes: usize| bytes / 2;
    let send = sockopt::socket_send_buffer_size(&new)
        .map(halve)
        .map_err(io::Error::from)?;
    let receive = sockopt::socket_recv_buffer_size(&new)
        .map(halve)
        .map_err(io::Error::from)?;
    // SAFETY: setsockopt(2) reads one int that outlives the call from a valid descriptor.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_BUF_LOCK,
            (&raw const unlocked).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if outcome != 0 {
        return Ok(());
    }
    sockopt::set_socket_send_buffer_size(socket.as_fd(), send).map_err(io::Error::from)?;
    sockopt::set_socket_recv_buffer_size(socket.as_fd(), receive).map_err(io::Error::from)?;
    // Setting them locked them again.
    // SAFETY: as above.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_BUF_LOCK,
            (&raw const unlocked).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
    Ok(())
}
