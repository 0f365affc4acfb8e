//! How data streams come to be: the near end connects, the far end accepts whoever proves that it
//! belongs to the session.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use howdah_tcp::{Patience, Settings, SocketPlan, accept, connect_first, listen, tune_again};
use howdah_wire::{Direction, Side, StreamHello, StreamPlan};

use crate::abort::lock;
use crate::context::Context;
use crate::control::Event;
use crate::error::TransferError;
use crate::plain::PlainStream;
use crate::strangers::{Stranger, Strangers};
use crate::stream::{Stream, StreamError};
use crate::tls::{Acceptor, Connector};

/// Unsent bytes a socket takes at first: more only delays the choice which stream gets a block.
pub(crate) const NOTSENT_LOWAT_BYTES: u32 = 512 * 1024;
/// How long a connection and its handshake may take, each; at the far end, all until it has proved
/// that it belongs here.
const SETUP_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the far end waits for the next stream before it looks again.
const ACCEPT_GLANCE: Duration = Duration::from_millis(100);
/// Connections beside the plan's that may be busy proving themselves.
const MAX_STRANGERS: usize = 16;
/// The window scale is chosen before the job, and its buffer, are known (RFC 7323 §2.3): by the
/// listener's buffer, for which this is enough (see [`tune_again`]),
const LISTENER_BUFFER_BYTES: u64 = 1 << 29;
/// and by its largest window. This gives scale 11: windows up to 134 MB, in steps of 2 KiB.
const LISTENER_WINDOW_BYTES: u64 = 1 << 27;

/// The work of one stream, given its index.
pub type Work =
    dyn Fn(&Arc<Context>, u16, &mut dyn Stream) -> Result<(), TransferError> + Send + Sync;

/// Where data streams come from.
pub enum Door {
    /// They are connected to the far end.
    Connect {
        /// Addresses to try, best first.
        addresses: Vec<SocketAddr>,
        /// What each stream shows.
        token: [u8; 32],
        /// Encryption, unless they are plaintext.
        tls: Option<Connector>,
    },
    /// They are accepted.
    Accept {
        /// Where they arrive.
        listener: TcpListener,
        /// What each must show.
        token: [u8; 32],
        /// Encryption, unless they are plaintext.
        tls: Option<Acceptor>,
    },
}

/// Listens on any port for the data streams of one session.
///
/// # Errors
/// When the kernel lets no socket listen.
pub fn open_listener() -> Result<TcpListener, TransferError> {
    let plan = SocketPlan {
        buffer_bytes: Some(LISTENER_BUFFER_BYTES),
        window_bytes: Some(LISTENER_WINDOW_BYTES),
        ..SocketPlan::default()
    };
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    // A host without IPv6 has no such address.
    listen(any, &plan)
        .or_else(|_| listen(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), &plan))
        .map_err(|error| TransferError::Here(error.to_string()))
}

/// How sockets of a plan are set up; `sends` says whether payload leaves through them.
fn socket_plan(plan: &StreamPlan, sends: bool) -> SocketPlan {
    SocketPlan {
        congestion_control: plan.congestion_control.clone().filter(|_| sends),
        buffer_bytes: plan.buffer_bytes,
        window_bytes: plan.buffer_bytes.filter(|_| !sends),
        pacing_bps: plan.pacing_bps.filter(|_| sends),
        notsent_lowat_bytes: Some(NOTSENT_LOWAT_BYTES),
    }
}

impl Door {
    /// Opens the streams of the job's plan; each does `work` on a thread of its own and then
    /// reports [`Event::StreamDone`].
    ///
    /// # Errors
    /// When the system has no thread left. Everything later becomes an event.
    pub fn open(
        self,
        context: &Arc<Context>,
        sends: bool,
        work: Arc<Work>,
    ) -> Result<(), TransferError> {
        let plan = socket_plan(&context.job.plan, sends);
        match self {
            Self::Connect {
                addresses,
                token,
                tls,
            } => {
                let shared = Arc::new((addresses, plan, tls));
                for stream in 0..context.job.plan.streams {
                    let (shared, work) = (Arc::clone(&shared), Arc::clone(&work));
                    context.spawn("howdah-stream", move |context| {
                        let (addresses, plan, tls) = &*shared;
                        let hello = StreamHello { token, stream };
                        let mut opened = connect(context, addresses, plan, tls.as_ref(), hello)?;
                        run(context, stream, &mut *opened, &*work)
                    })?;
                }
            }
            Self::Accept {
                listener,
                token,
                tls,
            } => {
                let entrance = Entrance {
                    plan,
                    token,
                    tls,
                    missing: AtomicU16::new(context.job.plan.streams),
                    strangers: Strangers::default(),
                    taken: Mutex::new(vec![false; usize::from(context.job.plan.streams)]),
                    work,
                };
                context.spawn("howdah-accept", move |context| {
                    accept_streams(context, &listener, &Arc::new(entrance))
                })?;
            }
        }
        Ok(())
    }
}

fn run(
    context: &Arc<Context>,
    index: u16,
    stream: &mut dyn Stream,
    work: &Work,
) -> Result<(), TransferError> {
    if index == 0 {
        tell_shortfall(context, stream);
    }
    context.tuning.join(stream.socket());
    work(context, index, stream)?;
    context.abort.close(index);
    let _ = context.events.send(Event::StreamDone);
    Ok(())
}

/// Has the user know when this host grants smaller buffers than the plan has.
fn tell_shortfall(context: &Context, stream: &dyn Stream) {
    let job = &context.job;
    let sends = (job.direction == Direction::Push) == (context.side == Side::Near);
    let plan = socket_plan(&job.plan, sends);
    if let Ok(granted) = Settings::read(stream.socket())
        && let Some(short) = plan.shortfall(&granted, sends)
    {
        context.warn(short);
    }
}

fn connect(
    context: &Context,
    addresses: &[SocketAddr],
    plan: &SocketPlan,
    tls: Option<&Connector>,
    hello: StreamHello,
) -> Result<Box<dyn Stream>, TransferError> {
    let patience = Patience {
        timeout: SETUP_TIMEOUT,
        stop: context.abort.flag(),
    };
    let socket = connect_first(addresses, plan, patience)
        .map_err(|error| TransferError::Stream(format!("data stream: {error}")))?;
    context.abort.register(hello.stream, duplicate(&socket)?);
    let mut stream: Box<dyn Stream> = match tls {
        Some(tls) => Box::new(tls.connect(socket, SETUP_TIMEOUT)?),
        None => Box::new(PlainStream::new(socket)),
    };
    stream.put(&hello.encode())?;
    stream.flush()?;
    Ok(stream)
}

struct Entrance {
    plan: SocketPlan,
    token: [u8; 32],
    tls: Option<Acceptor>,
    missing: AtomicU16,
    strangers: Strangers,
    taken: Mutex<Vec<bool>>,
    work: Arc<Work>,
}

fn accept_streams(
    context: &Arc<Context>,
    listener: &TcpListener,
    entrance: &Arc<Entrance>,
) -> Result<(), TransferError> {
    let most = usize::from(context.job.plan.streams) + MAX_STRANGERS;
    for number in 0.. {
        if entrance.missing.load(Ordering::Acquire) == 0 || context.abort.stopping() {
            break;
        }
        let now = Instant::now();
        entrance.strangers.hang_up(|stranger| stranger.until <= now);
        let patience = Patience {
            timeout: ACCEPT_GLANCE,
            stop: context.abort.flag(),
        };
        let Ok((socket, _)) = accept(listener, patience) else {
            continue;
        };
        let stranger = Stranger {
            number,
            socket: duplicate(&socket)?,
            until: Instant::now() + SETUP_TIMEOUT,
        };
        if !entrance.strangers.take(stranger, most) {
            continue;
        }
        let entrance = Arc::clone(entrance);
        context.spawn("howdah-stream", move |context| {
            entrance.set_up(&socket)?;
            let admitted = entrance.admit(context, number, socket);
            entrance.strangers.forget(number);
            // Whoever cannot prove that it belongs here is turned away and changes nothing.
            let Ok((index, mut stream)) = admitted else {
                return Ok(());
            };
            run(context, index, &mut *stream, &*entrance.work)
        })?;
    }
    entrance.strangers.hang_up(|_| true);
    Ok(())
}

impl Entrance {
    /// Sets a socket up as planned; what the kernel refuses here it would refuse every stream.
    fn set_up(&self, socket: &TcpStream) -> Result<(), TransferError> {
        let set_up = self
            .plan
            .apply(socket)
            .and_then(|()| match self.plan.buffer_bytes {
                Some(_) => Ok(()),
                None => tune_again(socket),
            });
        set_up.map_err(|error| TransferError::Here(error.to_string()))
    }

    fn admit(
        &self,
        context: &Context,
        number: u64,
        socket: TcpStream,
    ) -> Result<(u16, Box<dyn Stream>), TransferError> {
        let duplicate = duplicate(&socket)?;
        let mut stream: Box<dyn Stream> = match &self.tls {
            Some(tls) => Box::new(tls.accept(socket, SETUP_TIMEOUT)?),
            None => Box::new(PlainStream::new(socket)),
        };
        let mut hello = [0; StreamHello::BYTES];
        stream.take(&mut hello)?;
        let hello = StreamHello::decode(&hello)?;
        verify_slices_are_equal(&hello.token, &self.token)
            .map_err(|_| StreamError::Broken("wrong token"))?;
        let mut taken = lock(&self.taken);
        match taken.get_mut(usize::from(hello.stream)) {
            Some(taken) if !*taken => *taken = true,
            _ => return Err(StreamError::Broken("a stream that the plan has not").into()),
        }
        // In this order: the door closes when none is missing, and hangs up on all strangers.
        self.strangers.forget(number);
        self.missing.fetch_sub(1, Ordering::Release);
        context.abort.register(hello.stream, duplicate);
        Ok((hello.stream, stream))
    }
}

fn duplicate(socket: &TcpStream) -> Result<OwnedFd, TransferError> {
    Ok(socket
        .as_fd()
        .try_clone_to_owned()
        .map_err(StreamError::from)?)
}
