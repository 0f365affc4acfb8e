//! The data path: one thread that reads both devices, asks the model, waits, and writes.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use howdah_link::{Direction, Run, Spec};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, writev};

use crate::arrival::FirstArrival;
use crate::clock::Clock;
use crate::idle::Idle;
use crate::memory::{LARGEST_PACKET_BYTES, Pool, Store, Stored};
use crate::packet::{HEAD_BYTES, Packet};
use crate::stats::Shared;
use crate::steer::Steering;
use crate::unread::Unread;

/// Segments that arrive within this time of one another may leave as one packet.
const SPREAD_NS: u64 = 250_000;
/// Packets handled in one direction before the other has its turn.
const BATCH: usize = 8;

/// A packet, or a piece of one, on its way.
#[derive(Debug)]
struct InFlight {
    stored: Stored,
    first: u32,
    count: u32,
    whole: bool,
    wire_bytes: u64,
    due_ns: u64,
    /// How much its late reading may have delayed it.
    waited_ns: u64,
}

/// One direction.
#[derive(Debug)]
struct DirectionPath {
    index: usize,
    model: Direction,
    /// Largest number of bytes in flight, where no queue of the model limits them.
    unshaped_limit_bytes: Option<u64>,
    store: Store,
    in_flight: VecDeque<InFlight>,
    in_flight_bytes: u64,
    runs: Vec<Run>,
    unread: Unread,
}

/// The thread's state.
#[derive(Debug)]
pub(crate) struct DataPath {
    paths: [DirectionPath; 2],
    pool: Pool,
    overhead_bytes: u32,
    scratch: Vec<u8>,
    shared: Arc<Shared>,
    wake: Arc<OwnedFd>,
    idle: Idle,
    /// Closed with the thread, even when it panics: the other side then reads the end.
    _alive: OwnedFd,
}

impl DataPath {
    pub fn new(
        spec: &Spec,
        pool: Pool,
        shared: Arc<Shared>,
        wake: Arc<OwnedFd>,
        alive: OwnedFd,
    ) -> Self {
        let mut index = 0;
        let paths = Direction::pair(spec).map(|model| {
            let direction = [&spec.near_to_far, &spec.far_to_near][index];
            index += 1;
            DirectionPath {
                index: index - 1,
                model,
                unshaped_limit_bytes: match direction.rate_bps {
                    None => Some(spec.queue_limit_bytes(direction)),
                    Some(_) => None,
                },
                store: Store::default(),
                in_flight: VecDeque::with_capacity(4096),
                in_flight_bytes: 0,
                runs: Vec::new(),
                unread: Unread::default(),
            }
        });
        let overhead_bytes = spec.frame_overhead_bytes;
        let scratch = vec![0; LARGEST_PACKET_BYTES];
        DataPath {
            paths,
            pool,
            overhead_bytes,
            scratch,
            shared,
            wake,
            idle: Idle::default(),
            _alive: alive,
        }
    }

    /// Moves packets until the link is to stop, of which `wake` tells a sleeper.
    pub fn run(&mut self) -> Result<(), Errno> {
        let clock = *self.shared.clock.get().expect("the clock was started");
        let mut steering = Steering::new();
        loop {
            // What is due goes first: a packet read late only matters when the server ran dry.
            let mut moved = self.release(clock);
            if moved > 0 {
                let hosts = self.shared.hosts.iter();
                steering.follow(&self.idle, hosts.filter_map(|host| host.steering.as_ref()));
            }
            for path in 0..2 {
                moved += self.take(path, clock)?;
            }
            if moved == 0 {
                self.wait(clock)?;
            }
            if self.shared.stopping.load(Relaxed) {
                return Ok(());
            }
        }
    }

    /// Writes all that is due, in both directions; returns how many packets.
    fn release(&mut self, clock: Clock) -> usize {
        let mut released = 0;
        loop {
            let round = self.release_some(0, clock) + self.release_some(1, clock);
            released += round;
            if round == 0 {
                return released;
            }
        }
    }

    /// Writes what is due to the host at the other end, a batch at most; returns how many.
    fn release_some(&mut self, path: usize, clock: Clock) -> usize {
        let DataPath {
            paths,
            pool,
            overhead_bytes,
            shared,
            idle,
            ..
        } = self;
        let path = &mut paths[path];
        let flow = &shared.flows[path.index];
        let to = &shared.hosts[1 - path.index].tun;
        for done in 0..BATCH {
            let now_ns = clock.now_ns();
            if path
                .in_flight
                .front()
                .is_none_or(|in_flight| in_flight.due_ns > now_ns)
            {
                return done;
            }
            let in_flight = path.in_flight.pop_front().expect("one is due");
            let bytes = path.store.bytes(in_flight.stored);
            let mut head = [0; HEAD_BYTES];
            let written = match in_flight.whole {
                true => rustix::io::write(to, bytes),
                false => {
                    let piece =
                        Packet::new(bytes).piece(in_flight.first, in_flight.count, &mut head);
                    writev(to, &[IoSlice::new(piece.head), IoSlice::new(piece.payload)])
                }
            };
            path.store.give_back(pool);
            path.in_flight_bytes -= in_flight.wire_bytes;
            idle.released(now_ns);
            match written {
                Ok(_) => {
                    flow.delivered(in_flight.count, in_flight.wire_bytes, *overhead_bytes);
                    let late_ns = now_ns - in_flight.due_ns + in_flight.waited_ns;
                    shared.lateness.count(late_ns, in_flight.wire_bytes);
                }
                Err(_) => flow.failed(in_flight.count),
            }
        }
        BATCH
    }

    /// Reads what the host at this end has sent and offers it to the model; returns how many.
    fn take(&mut self, path: usize, clock: Clock) -> Result<usize, Errno> {
        let DataPath {
            paths,
            pool,
            overhead_bytes,
            scratch,
            shared,
            ..
        } = self;
        let path = &mut paths[path];
        let flow = &shared.flows[path.index];
        let host = &shared.hosts[path.index];
        let mut taken = 0;
        while taken < BATCH {
            let room = path.store.room(pool);
            let stored = room.is_some();
            let room = room.unwrap_or(scratch);
            let bytes = match read(&host.tun, &mut *room) {
                Ok(bytes) => bytes,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            taken += 1;
            let noted = host.first_arrival.as_ref().and_then(FirstArrival::noted_ns);
            let noted_ns = noted.map(|ns| clock.at_ns(ns));
            let came_ns = path.unread.came_ns(noted_ns, clock.now_ns());
            let burst = Packet::new(&room[..bytes]).burst(*overhead_bytes);
            let wire_bytes = burst.wire_bytes_of(0, burst.segments);
            let full = path
                .unshaped_limit_bytes
                .is_some_and(|most| path.in_flight_bytes + wire_bytes > most);
            if full || !stored {
                match full {
                    true => flow.overflowed(burst.segments),
                    false => flow.failed(burst.segments),
                }
                continue;
            }
            let unread_ns = path.unread.waited_ns(came_ns);
            let waited_ns = path.model.harm_ns(came_ns, unread_ns);
            path.model
                .offer_burst(came_ns, burst, SPREAD_NS, |run| path.runs.push(run));
            if path.runs.is_empty() {
                continue;
            }
            let stored = path.store.keep(bytes, path.runs.len() as u32);
            for run in path.runs.drain(..) {
                let wire_bytes = burst.wire_bytes_of(run.first, run.count);
                path.in_flight_bytes += wire_bytes;
                path.in_flight.push_back(InFlight {
                    stored,
                    first: run.first,
                    count: run.count,
                    whole: run.count == burst.segments,
                    wire_bytes,
                    due_ns: run.arrival_ns,
                    waited_ns,
                });
            }
        }
        // Where nothing limits the rate the device may never be empty.
        if taken < BATCH || path.unshaped_limit_bytes.is_some() {
            let now_ns = clock.now_ns();
            path.unread.nothing_waits(now_ns);
            if let (true, Some(note)) = (taken < BATCH, &host.first_arrival) {
                path.unread.asks(now_ns);
                note.ask();
            }
        }
        if taken > 0 {
            flow.publish(&path.model);
        }
        Ok(taken)
    }

    /// Sleeps until something is due or comes.
    fn wait(&mut self, clock: Clock) -> Result<(), Errno> {
        let due_ns = self
            .paths
            .iter()
            .filter_map(|path| Some(path.in_flight.front()?.due_ns))
            .min();
        let now_ns = clock.now_ns();
        let sleep_ns = due_ns.map(|due_ns| due_ns.saturating_sub(now_ns + self.idle.early_ns()));
        let timeout = sleep_ns.map(|sleep_ns| Timespec {
            tv_sec: (sleep_ns / 1_000_000_000) as i64,
            tv_nsec: (sleep_ns % 1_000_000_000) as i64,
        });
        let mut devices = [
            PollFd::new(&self.shared.hosts[0].tun, PollFlags::IN),
            PollFd::new(&self.shared.hosts[1].tun, PollFlags::IN),
            PollFd::new(&self.wake, PollFlags::IN),
        ];
        let ready = match poll(&mut devices, timeout.as_ref()) {
            Err(Errno::INTR) => None,
            polled => Some(polled?),
        };
        let awake_ns = clock.now_ns();
        if let (Some(0), Some(sleep_ns @ 1..)) = (ready, sleep_ns) {
            self.idle
                .overslept(awake_ns.saturating_sub(now_ns + sleep_ns));
        }
        // What came during the sleep ended it, so nothing waited longer than the waking took.
        self.paths
            .iter_mut()
            .for_each(|path| path.unread.nothing_waits(awake_ns));
        Ok(())
    }
}
