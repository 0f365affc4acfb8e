//! One emulated link, from its description to its last statistics.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};

use howdah_link::{DirectionSpec, Spec};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::clock::Clock;
use crate::memory::{Pool, PoolSize};
use crate::netns::{DEVICE, Netns};
use crate::path::DataPath;
use crate::stats::{LinkStats, Mark, Shared};
use crate::{EmulatorError, schedule};

/// One end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// Where commands run.
    Near,
    /// The other.
    Far,
}

impl FromStr for Host {
    type Err = EmulatorError;

    fn from_str(name: &str) -> Result<Self, EmulatorError> {
        match name {
            "near" => Ok(Host::Near),
            "far" => Ok(Host::Far),
            _ => Err(EmulatorError::Misuse(
                "the hosts of a link are near and far",
            )),
        }
    }
}

/// Two network namespaces joined by one link. Dropping it, or the end of the process however it comes,
/// removes all of it.
#[derive(Debug)]
pub struct Emulator {
    shared: Arc<Shared>,
    wake: Arc<OwnedFd>,
    ended: OwnedFd,
    state: State,
}

#[derive(Debug)]
enum State {
    Ready(Box<DataPath>),
    Running(JoinHandle<Result<(), Errno>>),
    Stopped,
}

impl Emulator {
    /// Makes both hosts, with loopback and device up and the device's MTU set; no packet moves yet.
    /// Addresses and routes are the caller's.
    pub fn new(spec: &Spec) -> Result<Self, EmulatorError> {
        spec.check()?;
        let hosts = [Netns::make(spec.mtu)?, Netns::make(spec.mtu)?];
        let pool = Pool::new(memory(spec)).map_err(EmulatorError::refused("mapping memory"))?;
        let wake = Arc::new(
            eventfd(0, EventfdFlags::CLOEXEC)
                .map_err(EmulatorError::refused("making an eventfd"))?,
        );
        let (ended, alive) =
            pipe_with(PipeFlags::CLOEXEC).map_err(EmulatorError::refused("making a pipe"))?;
        let shared = Arc::new(Shared::new(hosts, spec));
        let path = DataPath::new(spec, pool, Arc::clone(&shared), Arc::clone(&wake), alive);
        Ok(Emulator {
            shared,
            wake,
            ended,
            state: State::Ready(Box::new(path)),
        })
    }

    /// Name of the device in each host.
    pub fn device(&self) -> &'static str {
        DEVICE
    }

    /// A descriptor of the host's network namespace, for setns(2) and nsenter(1).
    pub fn namespace(&self, host: Host) -> BorrowedFd<'_> {
        self.shared.hosts[host as usize].namespace.as_fd()
    }

    /// A descriptor that is at its end once packets move no more, whatever ended that; `stop` says why.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Starts the clock of the schedule and moves packets on a thread of its own.
    pub fn start(&mut self) -> Result<(), EmulatorError> {
        let State::Ready(mut path) = std::mem::replace(&mut self.state, State::Stopped) else {
            return Err(EmulatorError::Misuse("a link can be started only once"));
        };
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new()
            .name("howdah-link".into())
            .spawn(move || {
                schedule::prefer();
                shared.clock.get_or_init(Clock::start);
                path.run()
            });
        self.state = State::Running(thread.map_err(EmulatorError::refused("starting a thread"))?);
        Ok(())
    }

    /// What the link has done so far, or since `mark`.
    pub fn stats(&self, since: Option<&Mark>) -> LinkStats {
        self.shared.stats(since)
    }

    /// From here statistics may count.
    pub fn mark(&self) -> Mark {
        self.shared.mark()
    }

    /// Stops moving packets; what is in flight is not delivered.
    pub fn stop(&mut self) -> Result<LinkStats, EmulatorError> {
        if let State::Running(thread) = std::mem::replace(&mut self.state, State::Stopped) {
            self.shared.stopping.store(true, Relaxed);
            rustix::io::write(&self.wake, &1u64.to_ne_bytes())
                .map_err(EmulatorError::refused("stopping the link"))?;
            let result = thread.join();
            if let Some(clock) = self.shared.clock.get() {
                self.shared.ended_ns.get_or_init(|| clock.now_ns());
            }
            match result {
                Ok(ended) => ended.map_err(EmulatorError::refused("moving packets"))?,
                Err(_) => return Err(EmulatorError::Misuse("the data path of the link panicked")),
            }
        }
        Ok(self.stats(None))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Whoever wants the statistics or the error has called `stop`.
        let _ = self.stop();
    }
}

/// Touched before the link is there; enough for 10 Gb/s × 20 ms.
const FIRST_BYTES: u64 = 64 << 20;
/// Never more than this is touched before it is needed.
const MOST_AHEAD_BYTES: u64 = 4 << 30;

/// Memory for what is queued and in flight. Commonly one direction is full of data and the other of
/// acknowledgements, so only the larger of the two is touched ahead.
fn memory(spec: &Spec) -> PoolSize {
    let of = |direction: &DirectionSpec| {
        let changes = &direction.changes;
        let rate_bps = changes
            .iter()
            .filter_map(|change| change.rate_bps)
            .chain(direction.rate_bps)
            .max();
        let delay_ns = changes
            .iter()
            .filter_map(|change| change.delay_ns)
            .max()
            .unwrap_or(0);
        let flight_ns = delay_ns.max(direction.delay_ns) + direction.jitter_ns;
        let flight = u128::from(rate_bps.unwrap_or(0)) * u128::from(flight_ns) / 8_000_000_000;
        flight as u64 + spec.queue_limit_bytes(direction)
    };
    let (there, back) = (of(&spec.near_to_far), of(&spec.far_to_near));
    // A packet takes less here than on the wire, unless it is tiny; a few chunks are never full.
    let with_slack = |wire_bytes: u64| wire_bytes + wire_bytes / 3 + (16 << 20);
    PoolSize {
        most_bytes: with_slack(there) + with_slack(back),
        ahead_bytes: there.max(back).min(MOST_AHEAD_BYTES),
        first_bytes: FIRST_BYTES,
    }
}
