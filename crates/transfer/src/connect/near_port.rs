//! Data streams that the far end connects to the near end, because a firewall lets only this direction through.
//!
//! If the far end's data port does not answer, the near end opens a port, and asks the far end to try it. If the far
//! end reaches the port, it connects all streams there, and they do not go through ssh.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_tcp::SocketPlan;
use howdah_wire::Message;

use crate::connect::dial::{Dialling, dial_all};
use crate::connect::pending::PendingPeers;
use crate::connect::setup::{Work, reserve};
use crate::connect::tried_port::round_trip;
use crate::end::abort::lock;
use crate::end::context::Context;
use crate::error::TransferError;
use crate::session::control::Control;
use crate::tls::SessionKeys;

/// The port of the near end.
pub struct NearPort {
    /// The address that this host has towards the far end; any port.
    at: SocketAddr,
    ports: Option<RangeInclusive<u16>>,
    far: IpAddr,
    token: [u8; 32],
    /// Encryption, unless they are plaintext.
    keys: Option<SessionKeys>,
    control: Control,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    listener: Option<TcpListener>,
    /// When the far end was asked to try it, or would have been.
    asked: Option<Instant>,
    /// Whether the far end has reached it; unknown before its answer.
    reached: Option<bool>,
}

/// What accepts the streams that the far end connects.
pub struct Listening {
    /// The port, at each address.
    pub listeners: Vec<TcpListener>,
    /// Connections that have not proved yet that they belong to the session.
    pub pending: PendingPeers,
}

impl NearPort {
    /// The port, still closed, of a near end whose far end has this address; `None` if there is no route to it.
    pub fn towards(
        far: SocketAddr,
        ports: Option<RangeInclusive<u16>>,
        keys: Option<SessionKeys>,
        control: Control,
    ) -> Option<Self> {
        let any: IpAddr = match far {
            SocketAddr::V4(_) => [0_u8; 4].into(),
            SocketAddr::V6(_) => [0_u8; 16].into(),
        };
        // Connecting such a socket sends nothing; the kernel chooses the address by the route.
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(far).ok()?;
        let mut at = socket.local_addr().ok()?;
        at.set_port(0);
        let mut token = [0; 32];
        aws_lc_rs::rand::fill(&mut token).ok()?;
        Some(Self {
            at,
            ports,
            far: far.ip().to_canonical(),
            token,
            keys,
            control,
            state: Mutex::new(State {
                listener: None,
                asked: None,
                reached: None,
            }),
            changed: Condvar::new(),
        })
    }

    /// Opens the port and asks the far end to try it, once. Returns whether the port is open.
    pub fn ask(&self) -> bool {
        let mut state = lock(&self.state);
        if state.asked.is_some() {
            return state.listener.is_some();
        }
        state.asked = Some(Instant::now());
        let bound = reserve(self.at, self.ports.clone()).ok();
        let opened = bound.and_then(|bound| Some((bound.port(), bound.listen().ok()?)));
        let Some((port, listener)) = opened else {
            state.reached = Some(false);
            return false;
        };
        state.listener = Some(listener);
        drop(state);
        self.control.say(Message::TryNear(port));
        true
    }

    /// Takes the far end's answer. What it has reached counts as this port if a connection has come to it: with a jump
    /// host in between, it was a port of that one.
    fn tried(&self, reached: bool) {
        let mut state = lock(&self.state);
        let has_come = |listener: &TcpListener| {
            listener.set_nonblocking(true).is_ok() && listener.accept().is_ok()
        };
        let reached = reached && state.listener.as_ref().is_some_and(has_come);
        state.reached.get_or_insert(reached);
        self.changed.notify_all();
    }

    /// Whether the far end has reached the port, by its answers so far.
    pub fn is_reached(&self) -> bool {
        lock(&self.state).reached == Some(true)
    }

    /// The same. Waits for the answer until this time has passed since the far end was asked.
    pub fn reached_within(&self, timeout: Duration) -> bool {
        let state = lock(&self.state);
        let Some(asked) = state.asked else {
            return false;
        };
        let left = (asked + timeout).saturating_duration_since(Instant::now());
        let answered = self
            .changed
            .wait_timeout_while(state, left, |state| state.reached.is_none());
        let (state, _) = answered.unwrap_or_else(PoisonError::into_inner);
        state.reached == Some(true)
    }

    /// Asks the far end to connect all streams to the port; `None` if that was asked before, or the port is closed.
    pub fn listening(&self) -> Option<Listening> {
        let mut state = lock(&self.state);
        let listener = state.listener.take()?;
        drop(state);
        let token = self.token;
        self.control.say(Message::ConnectNear { token });
        Some(Listening {
            listeners: vec![listener],
            pending: PendingPeers::new(token, self.keys.clone(), self.far),
        })
    }

    /// Closes the port for good, because the streams take another way.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.listener = None;
        state.asked.get_or_insert_with(Instant::now);
        state.reached = Some(false);
        self.changed.notify_all();
    }
}

/// What the far end needs to connect streams to the near end.
pub struct Caller {
    /// The address that ssh came from.
    pub near: IpAddr,
    /// The near end's port, once the near end has sent it.
    pub port: Option<u16>,
    /// Encryption, unless they are plaintext.
    pub keys: Option<SessionKeys>,
    /// How sockets are set up.
    pub plan: SocketPlan,
    /// What each stream does.
    pub work: Arc<Work>,
}

/// Handles a message about streams that the far end connects. Other messages are ignored.
///
/// # Errors
/// When the system has no thread left.
pub fn hear(context: &Arc<Context>, message: &Message) -> Result<(), TransferError> {
    match message {
        Message::PortTried(tried) => {
            if let Some(near_port) = context.near_port.get() {
                near_port.tried(tried.is_ok());
            }
        }
        Message::TryNear(port) => {
            let near = lock(&context.caller).as_mut().map(|caller| {
                caller.port = Some(*port);
                SocketAddr::new(caller.near, *port)
            });
            match near {
                Some(near) => {
                    context.spawn("howdah-try", move |context| {
                        // It is open already: who refuses is a firewall, and means it.
                        let tried = round_trip(&[near], Duration::ZERO, context.abort.flag());
                        let tried = tried.map(Option::unwrap_or_default);
                        context.control.say(Message::PortTried(tried));
                        Ok(())
                    })?;
                }
                None => {
                    let words = "this login connects to no other host";
                    context
                        .control
                        .say(Message::PortTried(Err(words.to_owned())));
                }
            }
        }
        Message::ConnectNear { token } => {
            let caller = lock(&context.caller).take();
            if let Some(Caller {
                near,
                port: Some(port),
                keys,
                plan,
                work,
            }) = caller
            {
                let dialling = Arc::new(Dialling {
                    addresses: vec![SocketAddr::new(near, port)],
                    detour: None,
                    token: *token,
                    keys,
                    ahead: Mutex::default(),
                    plan,
                });
                dial_all(context, &dialling, &work)?;
            }
        }
        _ => {}
    }
    Ok(())
}
