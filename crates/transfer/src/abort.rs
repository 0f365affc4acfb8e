//! Stops everything at one end at once, and knows the sockets that are open.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic of another thread: what is kept here is valid at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stop flag of one end and its data sockets.
#[derive(Debug, Default)]
pub struct Abort {
    stop: AtomicBool,
    sockets: Mutex<Vec<Socket>>,
}

#[derive(Debug)]
struct Socket {
    stream: u16,
    descriptor: OwnedFd,
    open: bool,
}

impl Abort {
    /// The flag itself, for waits that take one.
    pub fn flag(&self) -> &AtomicBool {
        &self.stop
    }

    /// Whether everything shall stop.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Makes every thread of this end stop soon: blocked socket calls return.
    pub fn trigger(&self) {
        self.stop.store(true, Ordering::Relaxed);
        for socket in &*lock(&self.sockets) {
            shut_down(&socket.descriptor);
        }
    }

    /// Has a socket shut down when everything stops. The descriptor is a duplicate.
    pub fn register(&self, stream: u16, descriptor: OwnedFd) {
        let mut sockets = lock(&self.sockets);
        if self.stopping() {
            shut_down(&descriptor);
        }
        sockets.push(Socket {
            stream,
            descriptor,
            open: true,
        });
    }

    /// Notes that a stream has done its work. Its socket can still be asked for its account.
    pub fn close(&self, stream: u16) {
        for socket in lock(&self.sockets)
            .iter_mut()
            .filter(|socket| socket.stream == stream)
        {
            socket.open = false;
        }
    }

    /// Data streams that are at work.
    pub fn open_streams(&self) -> u16 {
        let open = lock(&self.sockets)
            .iter()
            .filter(|socket| socket.open)
            .count();
        u16::try_from(open).unwrap_or(u16::MAX)
    }

    /// Whether `found` says so of one of the sockets of streams at work.
    pub fn any(&self, mut found: impl FnMut(BorrowedFd<'_>) -> bool) -> bool {
        let sockets = lock(&self.sockets);
        let mut open = sockets.iter().filter(|socket| socket.open);
        open.any(|socket| found(socket.descriptor.as_fd()))
    }

    /// Calls `visit` with each stream's index and socket.
    pub fn each(&self, mut visit: impl FnMut(u16, BorrowedFd<'_>)) {
        for socket in &*lock(&self.sockets) {
            visit(socket.stream, socket.descriptor.as_fd());
        }
    }
}

/// Ends a connection; calls that wait on it return.
pub(crate) fn shut_down(descriptor: &OwnedFd) {
    // A socket that is not connected any more needs no shutdown.
    let _ = rustix::net::shutdown(descriptor, rustix::net::Shutdown::Both);
}
