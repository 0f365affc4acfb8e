//! The connections of every network namespace, read by iterators in the kernel.

use std::{
    collections::BTreeSet,
    io::Read,
    net::{IpAddr, SocketAddr},
};

use libbpf_rs::{Iter, Link, MapCore as _, MapFlags, Object};
use serde::Serialize;

use crate::{
    Error, Namespace, Resumed, Store, Target,
    layout::{
        self, ORDER_FORGET, ORDER_MOVE, ORDER_PENDING, ORDER_REMEMBER, ORDER_TARGET, Order, Plain,
    },
    loader::{self, system},
    program::object,
};

const LISTEN: u32 = 10;

/// A TCP connection or listener.
#[derive(Clone, Debug, Serialize)]
pub struct Connection {
    /// The inode of its network namespace.
    pub namespace: u64,
    /// The kernel's cookie of the connection, never used twice.
    pub cookie: u64,
    /// Whether it is a listener.
    pub listens: bool,
    /// This end.
    pub local: SocketAddr,
    /// The other end. A listener has the unspecified address.
    pub remote: SocketAddr,
    /// Its congestion control.
    pub control: String,
    /// Congestion window, packets.
    pub window_packets: u32,
    /// Smoothed RTT; absent before the first sample.
    pub rtt_s: Option<f64>,
    /// The number, from 1, of the rule that chose its control, and the control before.
    pub rule: Option<(u32, String)>,
    /// The state of `hd_hold`, if that is its control.
    pub hold: Option<Hold>,
    /// Its result under `hd_resume`, also if another control has taken over since; absent if it never had
    /// `hd_resume`.
    pub resume: Option<Resumed>,
    /// Ids of its cgroups, from the root down.
    #[serde(skip)]
    pub(crate) cgroups: Vec<u64>,
}

/// A connection under `hd_hold`.
#[derive(Clone, Debug, Serialize)]
pub struct Hold {
    /// Its own target, if it has one.
    pub target: Option<Target>,
    /// The state: `idle` without a target, `held`, or `fallback` after the guard has acted.
    pub state: &'static str,
    /// What the target comes to, packets.
    pub target_packets: u32,
    /// The path's RTT without queues; absent before the first sample.
    pub base_rtt_s: Option<f64>,
    /// The share of packets lost in the last round trip that had enough packets to measure it.
    pub loss: f64,
    /// Round trips seen.
    pub rounds: u64,
    /// Round trips with the window held.
    pub rounds_held: u64,
    /// How often the guard struck.
    pub falls: u32,
    /// How often the control returned to the target.
    pub returns: u32,
}

/// A change of a connection. The kernel makes it under the lock of the socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub to: Option<String>,
    pub target: Option<Target>,
    /// The number of the rule to note. The first rule also notes the control before.
    pub rule: Option<u32>,
    /// Whether the noted rule has ended.
    pub forget: bool,
}

/// Programs that walk connections.
pub(crate) struct Walk {
    object: Object,
}

impl Walk {
    fn load(store: &Store, orders: usize) -> Result<Self, Error> {
        let object = loader::load("howdah_flows", object!("flows"), |name, map| match name {
            "flows" => map.set_pin_path(store.flows()),
            "orders" => map.set_max_entries(orders.max(1) as u32),
            _ => Ok(()),
        })?;
        Ok(Self { object })
    }

    fn run(&self, program: &str, namespace: &Namespace) -> Result<Vec<u8>, Error> {
        let wrong = |error: libbpf_rs::Error| system("walk the connections", &error);
        let found = self.object.progs_mut().find(|each| each.name() == program);
        let program = found.expect("both are in the object");
        let link: Link = program
            .attach_iter_with_opts(libbpf_rs::IterOpts::None)
            .map_err(wrong)?;
        namespace.inside(|| {
            let mut found = Vec::new();
            let mut iterator = Iter::new(&link).map_err(wrong)?;
            iterator
                .read_to_end(&mut found)
                .map_err(|source| Error::System {
                    what: "walk the connections".to_owned(),
                    source,
                })?;
            Ok(found)
        })
    }
}

/// A snapshot of all connections and listeners of all namespaces.
pub(crate) struct Census {
    namespaces: Vec<Namespace>,
    pub all: Vec<Connection>,
}

impl Census {
    pub fn take(store: &Store) -> Result<Self, Error> {
        Self::of(store, Namespace::all())
    }

    /// The connections of some namespaces only.
    pub fn of(store: &Store, namespaces: Vec<Namespace>) -> Result<Self, Error> {
        let walk = Walk::load(store, 1)?;
        let hold = store.kernel_name("hold");
        let mut all = Vec::new();
        for namespace in &namespaces {
            // A namespace may end while we look.
            let Ok(found) = walk.run("list", namespace) else {
                continue;
            };
            let size = size_of::<layout::Connection>();
            let read = found
                .chunks_exact(size)
                .filter_map(layout::Connection::read);
            all.extend(read.map(|each| describe(&each, namespace.inode, &hold)));
        }
        Ok(Self { namespaces, all })
    }

    /// The connections that have this control.
    pub fn on<'a>(&'a self, control: &'a str) -> impl Iterator<Item = &'a Connection> {
        self.all.iter().filter(move |each| each.control == control)
    }

    /// Changes some connections, unless they have ended or have another control by now. Returns how many.
    pub fn change(&self, store: &Store, changes: &[(&Connection, Change)]) -> Result<usize, Error> {
        if changes.is_empty() {
            return Ok(0);
        }
        let walk = Walk::load(store, changes.len())?;
        let orders = walk.object.maps().find(|map| map.name() == "orders");
        let orders = orders.expect("it is in the object");
        for (connection, change) in changes {
            let key = connection.cookie.to_ne_bytes();
            orders
                .update(&key, order(connection, change).bytes(), MapFlags::ANY)
                .map_err(|error| system("order a change of connections", &error))?;
        }
        let concerned: BTreeSet<_> = changes.iter().map(|(each, _)| each.namespace).collect();
        for namespace in &self.namespaces {
            if concerned.contains(&namespace.inode) {
                walk.run("change", namespace)?;
            }
        }
        let done = |connection: &Connection| {
            let value = orders
                .lookup(&connection.cookie.to_ne_bytes(), MapFlags::ANY)
                .ok()??;
            Order::read(&value).map(|order| order.result == 0)
        };
        Ok(changes
            .iter()
            .filter(|(connection, _)| done(connection) == Some(true))
            .count())
    }
}

fn order(connection: &Connection, change: &Change) -> Order {
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    Order {
        from: layout::name(&connection.control),
        to: layout::name(change.to.as_deref().unwrap_or_default()),
        target: change.target.unwrap_or_default(),
        flags: flag(change.to.is_some(), ORDER_MOVE)
            | flag(change.target.is_some(), ORDER_TARGET)
            | flag(change.rule.is_some(), ORDER_REMEMBER)
            | flag(change.forget, ORDER_FORGET),
        rule: change.rule.unwrap_or(0),
        result: ORDER_PENDING,
        unused: 0,
    }
}

fn describe(found: &layout::Connection, namespace: u64, hold: &str) -> Connection {
    let end = |bytes: &[u8; 16], port: u16| {
        let ip: IpAddr = layout::address(found.family, bytes);
        SocketAddr::new(ip, port)
    };
    let seconds = |us: u32| (us > 0).then(|| f64::from(us) / 1e6);
    let control = layout::text(&found.control);
    let flow = (found.known == 1).then_some(&found.flow);
    let held = flow.filter(|_| control == hold);
    Connection {
        namespace,
        cookie: found.cookie,
        listens: found.state == LISTEN,
        local: end(&found.local, found.local_port),
        remote: end(&found.remote, found.remote_port),
        window_packets: found.window,
        rtt_s: seconds(found.srtt_us),
        rule: flow
            .filter(|flow| flow.rule > 0)
            .map(|flow| (flow.rule, layout::text(&flow.before))),
        hold: held.map(|flow| Hold {
            target: (!flow.target.is_none()).then_some(flow.target),
            state: match flow.state {
                0 => "idle",
                1 => "held",
                _ => "fallback",
            },
            target_packets: flow.window,
            base_rtt_s: seconds(flow.base_rtt_us),
            loss: f64::from(flow.loss_ppm) / 1e6,
            rounds: flow.rounds,
            rounds_held: flow.rounds_held,
            falls: flow.falls,
            returns: flow.returns,
        }),
        resume: flow.and_then(|flow| Resumed::of(&flow.resumed)),
        control,
        cgroups: found.cgroups.into_iter().take_while(|&id| id > 0).collect(),
    }
}
