//! The near end's side of a data stream: it is dialled, and dialled again when its connection breaks.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use howdah_tcp::{Patience, SocketPlan, connect_first};
use howdah_wire::Connection;
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::connect::pending::stream_hello;
use crate::connect::setup::{SETUP_TIMEOUT, TRY_AGAIN_AFTER, Work, duplicate, run};
use crate::end::abort::lock;
use crate::end::context::Context;
use crate::error::TransferError;
use crate::streams::plain::PlainStream;
use crate::streams::stream::{Stream, StreamError};
use crate::tls::Connector;

/// How long a far end's port may still be closed after its greeting.
const OPENS_WITHIN: Duration = Duration::from_secs(2);
/// A stream whose connections break is given up when none of them has brought anything for this long.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);
/// The pause before a broken connection is replaced. What ended the far end is known by then, mostly.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two tries; each is twice as long as the one before.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Where the streams of a job are dialled, and how.
pub struct Dialling {
    /// Addresses to try, best first.
    pub addresses: Vec<SocketAddr>,
    /// What each connection shows.
    pub token: [u8; 32],
    /// Encryption, unless they are plaintext.
    pub tls: Option<Connector>,
    /// How sockets are set up.
    pub plan: SocketPlan,
}

/// Does the work of one stream on as many connections as it takes.
///
/// # Errors
/// When the stream cannot be opened, breaks for good, or its work fails.
pub fn keep_up(
    context: &Arc<Context>,
    dialling: &Dialling,
    stream: u16,
    work: &Work,
) -> Result<(), TransferError> {
    let mut trouble = Trouble::new(Instant::now());
    for incarnation in 0..=u16::MAX {
        let connection = Connection {
            stream,
            incarnation,
        };
        let mut lasted = Duration::ZERO;
        let outcome = attempt(context, dialling, connection, work, &mut lasted);
        let Err(TransferError::Lost(why)) = outcome else {
            return outcome;
        };
        if context.abort.stopping() {
            return Err(TransferError::Cancelled);
        }
        let taken = context.connections.taken(stream);
        let Some(pause) = trouble.pause(taken, lasted, Instant::now()) else {
            return Err(TransferError::Stream(format!(
                "{why}; {} s of new connections brought nothing; check the network between the ends, \
                 then run the same command again to go on",
                GIVE_UP_AFTER.as_secs()
            )));
        };
        thread::sleep(pause);
        if context.abort.settled() {
            return Ok(());
        }
    }
    Err(TransferError::Stream(
        "data stream: it broke too often".to_owned(),
    ))
}

/// How long a stream has brought nothing.
struct Trouble {
    taken: u64,
    since: Instant,
    pause: Duration,
}

impl Trouble {
    fn new(now: Instant) -> Self {
        Self {
            taken: 0,
            since: now,
            pause: FIRST_PAUSE,
        }
    }

    /// The pause after a connection that `lasted` so long broke at `now`, when `taken` pieces have been taken
    /// in all; `None` if it is time to give up.
    fn pause(&mut self, taken: u64, lasted: Duration, now: Instant) -> Option<Duration> {
        if taken > self.taken || lasted > GIVE_UP_AFTER || self.pause == FIRST_PAUSE {
            *self = Self {
                taken,
                ..Self::new(now)
            };
        }
        let pause = self.pause;
        self.pause = (2 * pause).min(LONGEST_PAUSE);
        (now.duration_since(self.since) < GIVE_UP_AFTER).then_some(pause)
    }
}

fn attempt(
    context: &Arc<Context>,
    dialling: &Dialling,
    connection: Connection,
    work: &Work,
    lasted: &mut Duration,
) -> Result<(), TransferError> {
    let opened = connect(context, dialling, connection);
    let again = connection.incarnation > 0;
    let mut stream = match opened {
        // The first time it may be a firewall; later it is what broke the connection before.
        Err(TransferError::Stream(why)) if again => return Err(TransferError::Lost(why)),
        opened => opened?,
    };
    if again {
        lock(&context.board.notes).replaced += 1;
    }
    let since = Instant::now();
    let outcome = run(context, connection, &mut *stream, work);
    *lasted = since.elapsed();
    outcome
}

fn connect(
    context: &Context,
    dialling: &Dialling,
    connection: Connection,
) -> Result<Box<dyn Stream>, TransferError> {
    let socket = connect_to(context, dialling)?;
    context.connections.claim(connection);
    context.abort.register(connection, duplicate(&socket)?);
    let greeting = stream_hello(&dialling.token, connection).encode();
    match &dialling.tls {
        Some(tls) => {
            // It leaves with the first message of the handshake.
            send_with_more(&socket, &greeting)?;
            Ok(Box::new(tls.connect(socket, SETUP_TIMEOUT)?))
        }
        None => {
            let mut stream = PlainStream::new(socket);
            stream.put(&greeting)?;
            stream.flush()?;
            Ok(Box::new(stream))
        }
    }
}

/// Connects. The far end opens its port when it has this end's greeting, which may be on its way
/// still, so a port that is closed is tried again for a moment.
fn connect_to(context: &Context, dialling: &Dialling) -> Result<TcpStream, TransferError> {
    let patience = Patience {
        timeout: SETUP_TIMEOUT,
        stop: context.abort.flag(),
    };
    let until = Instant::now() + OPENS_WITHIN;
    loop {
        match connect_first(&dialling.addresses, &dialling.plan, patience) {
            Ok(socket) => return Ok(socket),
            Err(howdah_tcp::Error::Connect { source, .. })
                if source.kind() == ErrorKind::ConnectionRefused
                    && Instant::now() < until
                    && !context.abort.stopping()
                    && !context.abort.settled() =>
            {
                thread::sleep(TRY_AGAIN_AFTER);
            }
            Err(error) => return Err(TransferError::Stream(format!("data stream: {error}"))),
        }
    }
}

/// Sends a few bytes that wait for those behind them.
fn send_with_more(socket: &TcpStream, bytes: &[u8]) -> Result<(), StreamError> {
    let mut sent = 0;
    while sent < bytes.len() {
        match rustix::net::send(
            socket,
            &bytes[sent..],
            SendFlags::MORE | SendFlags::NOSIGNAL,
        ) {
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(StreamError::Io(error.into())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_brings_nothing_is_given_up_and_who_brings_something_is_not() {
        let start = Instant::now();
        let mut trouble = Trouble::new(start);
        let mut now = start + 10 * GIVE_UP_AFTER;
        let broke = now;
        let mut pauses = Vec::new();
        while let Some(pause) = trouble.pause(5, Duration::ZERO, now) {
            pauses.push(pause);
            now += pause;
        }
        assert!(now - broke >= GIVE_UP_AFTER && now - broke < GIVE_UP_AFTER + LONGEST_PAUSE);
        assert_eq!(pauses[..3], [1, 2, 4].map(|times| times * FIRST_PAUSE));
        assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE));
        let mut trouble = Trouble::new(start);
        for number in 0..1000 {
            let (taken, lasted) = match number {
                ..500 => (number, Duration::ZERO),
                _ => (499, 2 * GIVE_UP_AFTER),
            };
            let now = start + GIVE_UP_AFTER * u32::try_from(number).unwrap();
            assert_eq!(trouble.pause(taken, lasted, now), Some(FIRST_PAUSE));
        }
    }
}
