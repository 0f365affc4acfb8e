//! Gives a socket's buffers back to the kernel's own tuning.

use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketType, socket, sockopt};

use crate::{Error, Settings, option::BUF_LOCK, plan::refused};

/// Undoes what a socket inherited from a listener with large buffers: they get the size a new
/// socket has, and the kernel tunes them again. Before Linux 5.14 it cannot; they stay large then.
///
/// # Errors
/// When the socket refuses what every socket takes.
pub fn tune_again(inherited: impl AsFd) -> Result<(), Error> {
    let inherited = inherited.as_fd();
    let new =
        socket(AddressFamily::INET, SocketType::STREAM, None).map_err(|errno| Error::Read {
            what: "buffers",
            source: errno.into(),
        })?;
    let settings = Settings::read(&new)?;
    if BUF_LOCK.set(inherited, 0_u32).is_err() {
        return Ok(());
    }
    let (send, receive) = (settings.send_buffer_bytes, settings.receive_buffer_bytes);
    sockopt::set_socket_send_buffer_size(inherited, send as usize)
        .map_err(refused("SO_SNDBUF", send))?;
    sockopt::set_socket_recv_buffer_size(inherited, receive as usize)
        .map_err(refused("SO_RCVBUF", receive))?;
    // Setting them has locked them again.
    BUF_LOCK.set(inherited, 0_u32)
}
