//! Stops all threads of one end at once, and keeps the list of open sockets.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use howdah_wire::Connection;
use rustix::net::SocketAddrAny;

/// Locks, also after another thread has panicked. The values in these locks are valid at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stop flag and the data sockets of one end.
#[derive(Debug, Default)]
pub struct Abort {
    stop: AtomicBool,
    settled: AtomicBool,
    sockets: Mutex<Vec<Socket>>,
    listeners: Mutex<Vec<OwnedFd>>,
}

/// The socket that a stream has, or had last.
#[derive(Debug)]
pub struct Socket {
    /// Which connection it is.
    pub connection: Connection,
    /// Whether its work goes on.
    pub open: bool,
    descriptor: OwnedFd,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Abort {
    /// The flag itself, for functions that wait for a flag.
    pub fn flag(&self) -> &AtomicBool {
        &self.stop
    }

    /// Whether everything shall stop.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Makes every thread of this end stop soon. Blocked socket calls return.
    pub fn trigger(&self) {
        self.stop.store(true, Ordering::Relaxed);
        for socket in &*lock(&self.sockets) {
            shut_down(&socket.descriptor);
        }
        self.stop_listening();
    }

    /// Notes that everything was taken, so that no stream needs a connection any more.
    pub fn settle(&self) {
        self.settled.store(true, Ordering::Release);
        self.stop_listening();
    }

    /// Registers a listening socket to be shut down when no connection is needed any more. The descriptor is a
    /// duplicate.
    pub fn listens(&self, descriptor: OwnedFd) {
        lock(&self.listeners).push(descriptor);
        if self.stopping() || self.settled() {
            self.stop_listening();
        }
    }

    fn stop_listening(&self) {
        for listener in &*lock(&self.listeners) {
            shut_down(listener);
        }
    }

    /// Whether no stream needs a connection any more.
    pub fn settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// Registers a socket to be shut down when everything stops. The descriptor is a duplicate. The connection that
    /// the stream had before ends now.
    pub fn register(&self, connection: Connection, descriptor: OwnedFd) {
        let mut sockets = lock(&self.sockets);
        if self.stopping() {
            shut_down(&descriptor);
        }
        sockets.retain(|socket| {
            let other = socket.connection.stream != connection.stream;
            if !other {
                shut_down(&socket.descriptor);
            }
            other
        });
        sockets.push(Socket {
            connection,
            open: true,
            descriptor,
        });
    }

    /// Notes that the work on a connection has ended. The statistics of its socket can still be read.
    pub fn close(&self, connection: Connection) {
        for socket in lock(&self.sockets)
            .iter_mut()
            .filter(|socket| socket.connection == connection)
        {
            socket.open = false;
        }
    }

    /// Ends a connection. The threads that work on it, at both ends, get an error.
    pub fn hang_up(&self, connection: Connection) {
        for socket in lock(&self.sockets)
            .iter()
            .filter(|socket| socket.connection == connection)
        {
            shut_down(&socket.descriptor);
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

    /// Whether `found` is true for a socket of a stream that is at work.
    pub fn any(&self, mut found: impl FnMut(BorrowedFd<'_>) -> bool) -> bool {
        let sockets = lock(&self.sockets);
        let mut open = sockets.iter().filter(|socket| socket.open);
        open.any(|socket| found(socket.descriptor.as_fd()))
    }

    /// Calls `visit` with each stream's socket.
    pub fn each(&self, mut visit: impl FnMut(&Socket)) {
        lock(&self.sockets).iter().for_each(&mut visit);
    }
}

/// Whether both ends of a connection have the same address, as they have if ssh forwards it.
pub(crate) fn stays_here(socket: impl AsFd) -> bool {
    let address = |found: SocketAddrAny| SocketAddr::try_from(found).ok();
    let here = rustix::net::getsockname(&socket).ok().and_then(address);
    let there = rustix::net::getpeername(&socket)
        .ok()
        .flatten()
        .and_then(address);
    here.zip(there)
        .is_some_and(|(here, there)| here.ip() == there.ip())
}

/// Ends a connection. Calls that wait on it return.
pub(crate) fn shut_down(descriptor: &OwnedFd) {
    // A socket that is not connected any more needs no shutdown.
    let _ = rustix::net::shutdown(descriptor, rustix::net::Shutdown::Both);
}
