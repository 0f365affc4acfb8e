//! Connections that are made ahead of a copy, to a far end that is kept ready for it. While the job goes to the far
//! end and back, the copy sends padding on them. So its data finds larger windows and a round trip that was just
//! measured.
//!
//! They are bare connections. Nothing is sent on them before a copy greets with the keys and the token of its own
//! session. The far end then admits them like every other connection.

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use howdah_tcp::{Bound, Info, Patience, SocketPlan, congestion_control, connect_first};
use howdah_wire::{Connection, FarHello, FrameReader, Message};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketType, recv, socket};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};

use crate::connect::other_family::Addresses;
use crate::connect::pending::stream_hello;
use crate::connect::setup::{SETUP_TIMEOUT, TRY_AGAIN_AFTER, ask_after, set_up, unplanned};
use crate::error::TransferError;
use crate::streams::stream::Stream;
use crate::tls::{SessionKeys, TlsStream};

/// Most bytes of a pipe that are looked at for a hello: as many as a pipe has by default.
const HELLO_BYTES_MAX: usize = 64 * 1024;
/// A far end that is kept ready takes connections for so long. They are made as soon as it has said hello.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A connection that waits is asked after this time whether the other end is there. Firewalls and translators of addresses
/// forget connections that are silent for longer, some after 30 s.
const ASKED_AFTER: Duration = Duration::from_secs(15);
/// and then as often as this.
const ASKED_EVERY: Duration = Duration::from_secs(5);

/// The data port of a far end before there is a near end.
pub struct OwnPort {
    port: Port,
    /// The same port at this host's address of the other family. Nothing is taken ahead there.
    other: Option<Bound>,
}

enum Port {
    /// Nobody can connect yet.
    Closed(Bound),
    /// So many connections of the near host are taken ahead.
    Taking(Taking),
}

/// The thread that takes connections ahead.
struct Taking {
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<Result<Taken, TransferError>>>,
}

type Taken = (TcpListener, Vec<(TcpStream, SocketAddr)>);

/// A data port that is open, and the connections that were made to it ahead.
pub struct Opened {
    /// Where the others arrive: at the address that ssh came to, and maybe at one of the other family.
    pub listeners: Vec<TcpListener>,
    /// These, with where they are from.
    pub ahead: Vec<(TcpStream, SocketAddr)>,
}

impl OwnPort {
    /// Opens the port for `most` connections of `client`. If `most` is 0, it stays closed.
    ///
    /// # Errors
    /// When the system has no descriptor or thread left.
    pub fn new(
        bound: Bound,
        other: Option<Bound>,
        most: usize,
        client: IpAddr,
    ) -> Result<Self, TransferError> {
        let port = match most {
            0 => Port::Closed(bound),
            most => Port::Taking(Taking::begin(bound, most, client)?),
        };
        Ok(Self { port, other })
    }

    /// Opens it for the streams of a copy. Once somebody can connect by the other family, anybody can by the first.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open(self) -> Result<Opened, TransferError> {
        let (listener, ahead) = match self.port {
            Port::Closed(bound) => (listen(bound)?, Vec::new()),
            Port::Taking(mut taking) => taking.end().unwrap_or_else(|| {
                let ended = "the thread of the data port has ended";
                Err(TransferError::Here(ended.to_owned()))
            })?,
        };
        let other = self.other.and_then(|bound| bound.listen().ok());
        let listeners = std::iter::once(listener).chain(other).collect();
        Ok(Opened { listeners, ahead })
    }
}

fn listen(bound: Bound) -> Result<TcpListener, TransferError> {
    let opened = bound.listen();
    opened.map_err(|error| TransferError::Here(error.to_string()))
}

impl Taking {
    fn begin(bound: Bound, most: usize, client: IpAddr) -> Result<Self, TransferError> {
        let here = |error: std::io::Error| TransferError::Here(error.to_string());
        let listener = listen(bound)?;
        listener.set_nonblocking(true).map_err(here)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| here(errno.into()))?;
        let wake = Arc::new(wake);
        let woken = Arc::clone(&wake);
        let thread = thread::Builder::new()
            .name("howdah-ahead".into())
            .spawn(move || take(listener, &woken, most, client))
            .map_err(here)?;
        Ok(Self {
            wake,
            thread: Some(thread),
        })
    }

    fn end(&mut self) -> Option<Result<Taken, TransferError>> {
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        self.thread.take()?.join().ok()
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.end();
    }
}

/// Takes connections of the client, at most so many and so long, and closes those of other hosts. Then nobody can connect
/// until it is woken.
fn take(
    listener: TcpListener,
    wake: &OwnedFd,
    most: usize,
    client: IpAddr,
) -> Result<Taken, TransferError> {
    let mut ahead = Vec::new();
    let until = Instant::now() + TAKEN_WITHIN;
    while ahead.len() < most && Instant::now() < until {
        if woken(wake, Some(&listener), until) {
            return Ok((listener, ahead));
        }
        match listener.accept() {
            Ok((socket, from)) if from.ip().to_canonical() == client => {
                ask_after(socket.as_fd(), ASKED_AFTER, ASKED_EVERY);
                ahead.push((socket, from));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => thread::sleep(TRY_AGAIN_AFTER),
        }
    }
    let closed = Bound::close(listener);
    let bound = closed.map_err(|error| TransferError::Here(error.to_string()))?;
    while !woken(wake, None, Instant::now() + TAKEN_WITHIN) {}
    let listener = listen(bound)?;
    Ok((listener, ahead))
}

/// Waits until it is woken, until somebody connects, or until then; whether it is woken.
fn woken(wake: &OwnedFd, listener: Option<&TcpListener>, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).unwrap_or_default();
    let mut polled = vec![PollFd::new(wake, PollFlags::IN)];
    polled.extend(listener.map(|listener| PollFd::new(listener, PollFlags::IN)));
    match poll(&mut polled, Some(&left)) {
        Ok(_) | Err(Errno::INTR) => !polled[0].revents().is_empty(),
        Err(_) => true,
    }
}

/// Makes `count` connections to the far end whose hello is in `pipe`, or comes within the time. The hello stays in
/// the pipe for the copy. `data_address` is the address to which ssh connects, if it connects directly. Connections
/// that fail are left out.
pub fn connect_ahead(
    pipe: BorrowedFd<'_>,
    data_address: Option<&str>,
    count: u16,
    within: Duration,
) -> Vec<TcpStream> {
    let Some(hello) = hello_in(pipe, Instant::now() + within) else {
        return Vec::new();
    };
    let addresses = &Addresses::of(data_address, &hello, false).first;
    let stop = &AtomicBool::new(false);
    let patience = Patience {
        timeout: SETUP_TIMEOUT,
        stop,
    };
    thread::scope(|scope| {
        let begun: Vec<_> = (0..count)
            .map(|_| scope.spawn(move || connect_first(addresses, &until_taken(), patience)))
            .collect();
        let ended = begun.into_iter().filter_map(|thread| thread.join().ok());
        let made: Vec<_> = ended.flatten().collect();
        for socket in &made {
            ask_after(socket.as_fd(), ASKED_AFTER, ASKED_EVERY);
        }
        made
    })
}

fn hello_in(pipe: BorrowedFd<'_>, until: Instant) -> Option<FarHello> {
    loop {
        let mut reader = FrameReader::new();
        reader.push(&unread(pipe).ok()?);
        match reader.next_message() {
            Ok(Some(Message::FarHello(hello))) => return Some(*hello),
            Ok(None) if Instant::now() < until => thread::sleep(LOOK_EVERY),
            _ => return None,
        }
    }
}

/// What a pipe holds; it stays there.
fn unread(pipe: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    match tee(pipe, &write, HELLO_BYTES_MAX, SpliceFlags::NONBLOCK) {
        Ok(_) | Err(Errno::AGAIN) => {}
        Err(errno) => return Err(errno),
    }
    drop(write);
    let mut bytes = Vec::new();
    let read = std::fs::File::from(read).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|_| Errno::IO)
}

/// The connections that were made ahead for one session. Each is greeted as the stream with its number.
#[derive(Default)]
pub struct Ahead(Vec<Option<TlsStream>>);

impl Ahead {
    /// Greets on the connections that are still open. With `fill`, a first window of padding follows on each. Once it
    /// is acknowledged, the kernel knows the present round trip, and the data that follows need not begin by
    /// measuring it (RFC 9959, the reconnaissance).
    pub fn greet(
        sockets: Vec<TcpStream>,
        keys: &SessionKeys,
        token: &[u8; 32],
        fill: bool,
    ) -> Self {
        let there = sockets.into_iter().filter(is_there);
        let greeted = (0..).zip(there).map(|(stream, socket)| {
            let connection = Connection {
                stream,
                incarnation: 0,
            };
            let window = window_bytes(&socket).filter(|_| fill);
            let mut greeted = keys
                .dial(socket, &stream_hello(token, connection).encode())
                .ok()?;
            greeted.pad(window.unwrap_or_default()).ok()?;
            Some(greeted)
        });
        Self(greeted.collect())
    }

    /// The connection of a stream, set up by the plan; `None` if there is none.
    pub fn take(&mut self, stream: u16, plan: &SocketPlan) -> Option<TlsStream> {
        let made = self.0.get_mut(usize::from(stream))?.take()?;
        let control = plan.congestion_control.clone().or_else(default_control);
        let plan = SocketPlan {
            congestion_control: control,
            ..plan.clone()
        };
        set_up(made.socket(), &plan).ok().map(|()| made)
    }
}

/// How sockets are until a copy takes them. One that is made under bbr stays paced (docs/design/transfer.md), so none is.
/// Every kernel has this control, and every user may choose it.
fn until_taken() -> SocketPlan {
    SocketPlan {
        congestion_control: Some("reno".to_owned()),
        ..unplanned()
    }
}

/// The congestion control that this host gives to new sockets.
fn default_control() -> Option<String> {
    let new = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    congestion_control(new).ok()
}

/// What a connection may send at once.
fn window_bytes(socket: &TcpStream) -> Option<usize> {
    let info = Info::read(socket.as_fd()).ok()?;
    usize::try_from(u64::from(info.cwnd_segments) * u64::from(info.mss_bytes)).ok()
}

/// Whether a connection stands, on which nothing has come yet.
fn is_there(socket: &TcpStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(recv(socket, &mut [0_u8], flags), Err(Errno::AGAIN))
}
