//! The near end of a data stream. It connects, and connects again when the connection breaks.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use howdah_tcp::{Patience, SocketPlan, connect_again, connect_first};
use howdah_wire::Connection;

use crate::connect::ahead::Ahead;
use crate::connect::detour::{Detour, Found};
use crate::connect::pending::stream_hello;
use crate::connect::setup::{SETUP_TIMEOUT, TRY_AGAIN_AFTER, Work, accept, duplicate, run};
use crate::end::abort::lock;
use crate::end::context::Context;
use crate::error::TransferError;
use crate::streams::plain::PlainStream;
use crate::streams::stream::Stream;
use crate::tls::SessionKeys;

/// How long a far end's port may still be closed after its greeting.
const OPENS_WITHIN: Duration = Duration::from_secs(2);
/// A stream whose connections break is given up when none of them has brought anything for this long, although
/// the far end is there and answers; while the path is out, it is given up with the patience of the job.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);
/// The pause before a broken connection is replaced. What ended the far end is known by then, mostly.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two tries; each is twice as long as the one before.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The time between two SYNs to a host that does not answer.
const ANOTHER_AFTER: Duration = Duration::from_secs(1);

/// Where and how the streams of a job connect.
pub struct Dialling {
    /// Addresses to try, best first.
    pub addresses: Vec<SocketAddr>,
    /// Another way, in case a firewall is in between.
    pub detour: Option<Detour>,
    /// What each connection shows.
    pub token: [u8; 32],
    /// Encryption, unless they are plaintext.
    pub keys: Option<SessionKeys>,
    /// The connections that were made ahead, until a stream takes them.
    pub ahead: Mutex<Ahead>,
    /// How sockets are set up.
    pub plan: SocketPlan,
}

/// Dials each stream of the plan, on a thread of its own.
///
/// # Errors
/// When the system has no thread left.
pub fn dial_all(
    context: &Arc<Context>,
    dialling: &Arc<Dialling>,
    work: &Arc<Work>,
) -> Result<(), TransferError> {
    for stream in 0..context.job.plan.streams {
        let (dialling, work) = (Arc::clone(dialling), Arc::clone(work));
        context.spawn("howdah-stream", move |context| {
            keep_up(context, &dialling, stream, &work)
        })?;
    }
    Ok(())
}

/// Does the work of one stream on as many connections as it takes.
///
/// # Errors
/// When the stream cannot be opened, breaks for good, or its work fails.
fn keep_up(
    context: &Arc<Context>,
    dialling: &Dialling,
    stream: u16,
    work: &Arc<Work>,
) -> Result<(), TransferError> {
    let patience = Duration::from_nanos(context.job.patience_ns);
    let mut trouble = Trouble::new(patience, Instant::now());
    let mut incarnation = 0_u16;
    loop {
        let connection = Connection {
            stream,
            incarnation,
        };
        let mut reached = Reached::Nobody;
        let outcome = attempt(context, dialling, connection, work, &mut reached);
        let Err(TransferError::Lost(why)) = outcome else {
            return outcome;
        };
        if context.abort.stopping() {
            return Err(TransferError::Cancelled);
        }
        if let Reached::Far(_) = reached {
            let next = incarnation.checked_add(1);
            incarnation = next.ok_or_else(|| {
                TransferError::Stream("data stream: it broke too often".to_owned())
            })?;
        }
        let taken = context.connections.taken(stream);
        let there = context.path.in_touch();
        let pause = trouble.pause(taken, reached, there, Instant::now());
        let pause = pause.map_err(|after| gave_up(&why, after))?;
        thread::sleep(pause);
        if context.abort.settled() {
            return Ok(());
        }
    }
}

fn gave_up(why: &str, after: Duration) -> TransferError {
    let tried = match after.as_secs() {
        0 => "and there is no patience for another connection".to_owned(),
        seconds => format!("{seconds} s of new connections brought nothing"),
    };
    TransferError::Stream(format!(
        "{why}; {tried}; check the network between the ends, then run the same command again to go on"
    ))
}

/// Whom an attempt has reached.
#[derive(Debug, Clone, Copy)]
enum Reached {
    /// Nobody answered.
    Nobody,
    /// The far host, which refused.
    Closed,
    /// The far end; the connection lasted so long.
    Far(Duration),
}

/// How long a stream has brought nothing.
struct Trouble {
    patience: Duration,
    taken: u64,
    since: Instant,
    before: Instant,
    /// The part of it in which the far end was there and answered.
    fruitless: Duration,
    pause: Duration,
}

impl Trouble {
    fn new(patience: Duration, now: Instant) -> Self {
        Self {
            patience,
            taken: 0,
            since: now,
            before: now,
            fruitless: Duration::ZERO,
            pause: FIRST_PAUSE,
        }
    }

    /// The pause after an attempt that has `reached` somebody and ended at `now`, when `taken` pieces have been
    /// taken in all and the far end itself is `there`. When it is time to give up, after how long.
    fn pause(
        &mut self,
        taken: u64,
        reached: Reached,
        there: bool,
        now: Instant,
    ) -> Result<Duration, Duration> {
        let lasted = matches!(reached, Reached::Far(lasted) if lasted > GIVE_UP_AFTER);
        if taken > self.taken || lasted || self.pause == FIRST_PAUSE {
            *self = Self {
                taken,
                ..Self::new(self.patience, now)
            };
        }
        if there && !matches!(reached, Reached::Nobody) {
            self.fruitless += now.duration_since(self.before);
        }
        self.before = now;
        let pause = self.pause;
        self.pause = (2 * pause).min(LONGEST_PAUSE);
        if now.duration_since(self.since) >= self.patience {
            return Err(self.patience);
        }
        match self.fruitless < GIVE_UP_AFTER {
            true => Ok(pause),
            false => Err(GIVE_UP_AFTER),
        }
    }
}

fn attempt(
    context: &Arc<Context>,
    dialling: &Dialling,
    connection: Connection,
    work: &Arc<Work>,
    reached: &mut Reached,
) -> Result<(), TransferError> {
    let opened = connect(context, dialling, connection, reached);
    let again = connection.incarnation > 0;
    let detour = dialling.detour.as_ref().and_then(Detour::taken).is_some();
    let opened = match opened {
        // The first time it may be a firewall; later it is what broke the connection before.
        Err(TransferError::Stream(why)) if again || detour => {
            return Err(TransferError::Lost(why));
        }
        opened => opened?,
    };
    let Some(mut stream) = opened else {
        return by_far(context, dialling, work);
    };
    if again {
        lock(&context.board.notes).replaced += 1;
    }
    let since = Instant::now();
    let outcome = run(context, connection, &mut *stream, &**work);
    *reached = Reached::Far(since.elapsed());
    outcome
}

fn connect(
    context: &Context,
    dialling: &Dialling,
    connection: Connection,
    reached: &mut Reached,
) -> Result<Option<Box<dyn Stream>>, TransferError> {
    let again = connection.incarnation > 0;
    if !again && let Some(made) = lock(&dialling.ahead).take(connection.stream, &dialling.plan) {
        *reached = Reached::Far(Duration::ZERO);
        context.connections.claim(connection);
        context
            .abort
            .register(connection, duplicate(made.socket())?);
        lock(&context.board.notes).ahead += 1;
        return Ok(Some(Box::new(made)));
    }
    let greeting = stream_hello(&dialling.token, connection).encode();
    loop {
        let Some((socket, goes)) = connect_to(context, dialling, again, reached)? else {
            return Ok(None);
        };
        context.connections.claim(connection);
        context.abort.register(connection, duplicate(&socket)?);
        let detour = dialling.detour.as_ref();
        let detour = detour.filter(|_| goes == Goes::ToOther);
        let Some(keys) = &dialling.keys else {
            note_other(context, detour);
            let mut stream = PlainStream::new(socket);
            stream.put(&greeting)?;
            stream.flush()?;
            return Ok(Some(Box::new(stream)));
        };
        let stream = keys.dial(socket, &greeting);
        let answered = |detour: &Detour| {
            stream
                .as_ref()
                .is_ok_and(|stream| detour.is_answered(stream))
        };
        if detour.is_some_and(|detour| !answered(detour)) {
            // Somebody else has that address where this host is.
            continue;
        }
        note_other(context, detour);
        return Ok(Some(Box::new(stream?)));
    }
}

/// Notes that the streams go to the far end's address of the other family, and why.
fn note_other(context: &Context, detour: Option<&Detour>) {
    if let Some(detour) = detour
        && let Some((at, why)) = detour.other()
    {
        if let Some(port) = detour.near_port() {
            port.close();
        }
        let said = || format!("{at} ({why})");
        lock(&context.board.notes)
            .other_address
            .get_or_insert_with(said);
    }
}

/// Has the far end connect the streams, all of them; the first stream that comes here asks for it.
fn by_far(
    context: &Arc<Context>,
    dialling: &Dialling,
    work: &Arc<Work>,
) -> Result<(), TransferError> {
    let listening = context.near_port.get().and_then(|port| port.listening());
    match listening {
        Some(listening) => accept(context, listening, dialling.plan.clone(), Arc::clone(work)),
        None => Ok(()),
    }
}

/// Where a connection leads. The way of all streams may be another one by the time that it is made.
#[derive(PartialEq)]
enum Goes {
    /// To the far end's address of the family that ssh has used, or through ssh.
    Elsewhere,
    /// To its address of the other family.
    ToOther,
}

/// Connects; `None` where the far end is to connect instead. The far end opens its port when it has this end's
/// greeting, which may be on its way still, so a port that is closed is tried again for a moment.
fn connect_to(
    context: &Context,
    dialling: &Dialling,
    again: bool,
    reached: &mut Reached,
) -> Result<Option<(TcpStream, Goes)>, TransferError> {
    let Dialling {
        addresses, plan, ..
    } = dialling;
    let mut others = Vec::new();
    let patience = Patience {
        timeout: SETUP_TIMEOUT,
        stop: context.abort.flag(),
    };
    if let Some(detour) = &dialling.detour
        && (!again || detour.taken().is_some())
    {
        let connected = detour.connect(addresses, plan, context.abort.flag());
        let connected =
            connected.map_err(|error| TransferError::Stream(format!("data stream: {error}")))?;
        match connected {
            Found::Straight(None) => context.path.heard(Instant::now()),
            Found::Straight(Some(socket)) => {
                context.path.heard(Instant::now());
                *reached = Reached::Far(Duration::ZERO);
                return Ok(Some((socket, Goes::Elsewhere)));
            }
            Found::Other(Some(socket), _) => {
                context.path.heard(Instant::now());
                *reached = Reached::Far(Duration::ZERO);
                return Ok(Some((socket, Goes::ToOther)));
            }
            Found::Other(None, at) => others.push(at),
            Found::ThroughSsh(socket, why) => {
                lock(&context.board.notes).detour = Some(why.to_owned());
                *reached = Reached::Far(Duration::ZERO);
                return Ok(Some((socket, Goes::Elsewhere)));
            }
            Found::ByFar(why) => {
                lock(&context.board.notes).by_far = Some(why.to_owned());
                context.path.heard(Instant::now());
                return Ok(None);
            }
        }
    }
    if again && let Some((at, _)) = dialling.detour.as_ref().and_then(Detour::other) {
        others.push(at);
    }
    let (addresses, goes) = match others.is_empty() {
        true => (addresses, Goes::Elsewhere),
        false => (&others, Goes::ToOther),
    };
    let until = Instant::now() + OPENS_WITHIN;
    loop {
        let connected = match again {
            false => connect_first(addresses, plan, patience),
            true => connect_again(addresses, plan, patience, ANOTHER_AFTER),
        };
        match connected {
            Ok(socket) => {
                *reached = Reached::Far(Duration::ZERO);
                context.path.heard(Instant::now());
                return Ok(Some((socket, goes)));
            }
            Err(howdah_tcp::Error::Connect { source, .. })
                if source.kind() == ErrorKind::ConnectionRefused
                    && Instant::now() < until
                    && !context.abort.stopping()
                    && !context.abort.settled() =>
            {
                *reached = Reached::Closed;
                context.path.heard(Instant::now());
                thread::sleep(TRY_AGAIN_AFTER);
            }
            Err(error) => return Err(TransferError::Stream(format!("data stream: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(300);

    /// After how long it gives up on attempts that take `each`, and the pauses before.
    fn gives_up(
        patience: Duration,
        each: Duration,
        reached: Reached,
        there: bool,
    ) -> (Duration, Vec<Duration>) {
        let broke = Instant::now() + 10 * PATIENCE;
        let mut trouble = Trouble::new(patience, broke - 10 * PATIENCE);
        let mut now = broke;
        let mut pauses = Vec::new();
        while let Ok(pause) = trouble.pause(5, reached, there, now) {
            pauses.push(pause);
            now += pause + each;
        }
        (now - broke, pauses)
    }

    #[test]
    fn who_brings_nothing_is_given_up_and_who_brings_something_is_not() {
        let instant = Duration::ZERO;
        for reached in [Reached::Far(instant), Reached::Closed] {
            let (after, pauses) = gives_up(PATIENCE, instant, reached, true);
            assert!((GIVE_UP_AFTER..GIVE_UP_AFTER + LONGEST_PAUSE).contains(&after));
            assert_eq!(pauses[..3], [1, 2, 4].map(|times| times * FIRST_PAUSE));
            assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE));
        }
        let start = Instant::now();
        let mut trouble = Trouble::new(PATIENCE, start);
        for number in 0..1000 {
            let (taken, lasted) = match number {
                ..500 => (number, Duration::ZERO),
                _ => (499, 2 * GIVE_UP_AFTER),
            };
            let now = start + GIVE_UP_AFTER * u32::try_from(number).unwrap();
            let pause = trouble.pause(taken, Reached::Far(lasted), true, now);
            assert_eq!(pause, Ok(FIRST_PAUSE));
        }
    }

    #[test]
    fn a_path_that_is_out_is_tried_for_the_patience_and_no_longer() {
        let fifteen = Duration::from_secs(15);
        for (reached, there) in [
            (Reached::Nobody, true),
            (Reached::Nobody, false),
            // The control channel comes back later than the path.
            (Reached::Closed, false),
        ] {
            for patience in [PATIENCE, Duration::from_secs(20)] {
                let (after, _) = gives_up(patience, fifteen, reached, there);
                let most = patience + fifteen + LONGEST_PAUSE;
                assert!((patience..most).contains(&after), "{after:?} {reached:?}");
            }
        }
        let (after, pauses) = gives_up(Duration::ZERO, fifteen, Reached::Far(fifteen), true);
        assert_eq!((after, pauses), (Duration::ZERO, Vec::new()));
    }
}
