//! What a link has done so far: counters one thread writes and any may read, and the record made of them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use howdah_link::{Direction, Spec};
use howdah_units::Duration;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::lateness::{self, Lateness, add};
use crate::netns::{DEVICE, Netns};

/// A run is spoilt when more than this share of its bytes left late.
const SPOILT_FRACTION: f64 = 0.01;

/// The record of a link so far, or since a [`Mark`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkStats {
    /// Since the link was started or the mark was made, ns; 0 before.
    pub elapsed_ns: u64,
    /// Name of the device in each host.
    pub device: String,
    /// By direction.
    pub directions: Directions,
    /// How well the machine kept up.
    pub lateness: LatenessStats,
}

/// Both directions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Directions {
    /// From the near host to the far one.
    pub near_to_far: DirectionStats,
    /// From the far host to the near one.
    pub far_to_near: DirectionStats,
}

/// What one direction has carried and dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionStats {
    /// Wire segments delivered.
    pub segments: u64,
    /// Bytes delivered, with what each frame costs beyond its IP packet.
    pub wire_bytes: u64,
    /// Bytes of IP packets delivered.
    pub ip_bytes: u64,
    /// Wire segments dropped, by cause.
    pub dropped: Dropped,
    /// Largest backlog of the bottleneck since the link was started, bytes on the wire.
    pub queue_bytes_max: u64,
    /// Mean backlog found by the bytes that came; absent before the first.
    pub queue_bytes_mean: Option<f64>,
    /// Longest time until everything queued was served, since the link was started, ns.
    pub queue_delay_max_ns: u64,
    /// Mean time until what was queued was served, found by the bytes that came; absent before the first.
    pub queue_delay_mean_ns: Option<f64>,
}

/// Wire segments dropped, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// The queue was full.
    pub queue: u64,
    /// Independent loss.
    pub loss: u64,
    /// Bursty loss.
    pub burst: u64,
    /// The link was down.
    pub outage: u64,
    /// Not the link's doing: this machine could not keep up. Packets the device dropped count one each.
    pub machine: u64,
}

/// How much later than the model says packets left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatenessStats {
    /// Packets and pieces of packets that left.
    pub releases: u64,
    /// Median over bytes on the wire, ns; absent before the first release.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns.
    pub p99_ns: Option<u64>,
    /// Largest, ns.
    pub max_ns: Option<u64>,
    /// Share of the bytes that left later than the limit.
    pub late_fraction: f64,
    /// The larger of 1 ms and 1 % of the base RTT, ns.
    pub limit_ns: u64,
    /// Whether figures measured on this link are to be distrusted.
    pub spoilt: bool,
    /// In words, when spoilt.
    pub why: Option<String>,
}

/// Counters of one direction.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    segments: AtomicU64,
    wire_bytes: AtomicU64,
    ip_bytes: AtomicU64,
    overflow: AtomicU64,
    machine: AtomicU64,
    model: Model,
}

/// What the model of a direction counts, as last published.
#[derive(Debug, Default)]
struct Model {
    queue: AtomicU64,
    loss: AtomicU64,
    burst: AtomicU64,
    outage: AtomicU64,
    largest_bytes: AtomicU64,
    longest_ns: AtomicU64,
    offered_bytes: AtomicU64,
    mean_bytes: AtomicF64,
    mean_ns: AtomicF64,
}

/// The bits of an f64; all zeros before the first value.
#[derive(Debug, Default)]
struct AtomicF64(AtomicU64);

impl AtomicF64 {
    fn publish(&self, value: Option<f64>) {
        self.0.store(value.unwrap_or_default().to_bits(), Relaxed);
    }

    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
}

impl Flow {
    pub fn delivered(&self, segments: u32, wire_bytes: u64, overhead_bytes: u32) {
        add(&self.segments, u64::from(segments));
        add(&self.wire_bytes, wire_bytes);
        add(
            &self.ip_bytes,
            wire_bytes - u64::from(segments) * u64::from(overhead_bytes),
        );
    }

    /// Segments dropped because what is in flight on an unshaped link filled its queue limit.
    pub fn overflowed(&self, segments: u32) {
        add(&self.overflow, u64::from(segments));
    }

    pub fn failed(&self, segments: u32) {
        add(&self.machine, u64::from(segments));
    }

    pub fn publish(&self, direction: &Direction) {
        let (drops, queue) = (direction.drops(), direction.queue());
        self.model.queue.store(drops.queue, Relaxed);
        self.model.loss.store(drops.loss, Relaxed);
        self.model.burst.store(drops.burst, Relaxed);
        self.model.outage.store(drops.outage, Relaxed);
        self.model.largest_bytes.store(queue.largest_bytes, Relaxed);
        self.model.longest_ns.store(queue.longest_ns, Relaxed);
        self.model.offered_bytes.store(queue.offered_bytes, Relaxed);
        self.model.mean_bytes.publish(queue.mean_bytes());
        self.model.mean_ns.publish(queue.mean_ns());
    }

    fn counts(&self, host: &Netns) -> FlowCounts {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        let model = &self.model;
        let offered = get(&model.offered_bytes) as f64;
        FlowCounts {
            segments: get(&self.segments),
            wire_bytes: get(&self.wire_bytes),
            ip_bytes: get(&self.ip_bytes),
            dropped: Dropped {
                queue: get(&model.queue) + get(&self.overflow),
                loss: get(&model.loss),
                burst: get(&model.burst),
                outage: get(&model.outage),
                machine: get(&self.machine) + host.device_drops().unwrap_or(0),
            },
            largest_bytes: get(&model.largest_bytes),
            longest_ns: get(&model.longest_ns),
            offered_bytes: offered,
            sum_bytes: model.mean_bytes.get() * offered,
            sum_ns: model.mean_ns.get() * offered,
        }
    }
}

/// What one direction had counted at an instant, or between two.
#[derive(Debug, Clone)]
struct FlowCounts {
    segments: u64,
    wire_bytes: u64,
    ip_bytes: u64,
    dropped: Dropped,
    largest_bytes: u64,
    longest_ns: u64,
    offered_bytes: f64,
    /// Of what each offered byte found queued.
    sum_bytes: f64,
    sum_ns: f64,
}

impl FlowCounts {
    /// What was counted after `earlier`, but for the largest values.
    fn since(self, earlier: &FlowCounts) -> FlowCounts {
        let before = &earlier.dropped;
        FlowCounts {
            segments: self.segments - earlier.segments,
            wire_bytes: self.wire_bytes - earlier.wire_bytes,
            ip_bytes: self.ip_bytes.saturating_sub(earlier.ip_bytes),
            dropped: Dropped {
                queue: self.dropped.queue - before.queue,
                loss: self.dropped.loss - before.loss,
                burst: self.dropped.burst - before.burst,
                outage: self.dropped.outage - before.outage,
                machine: self.dropped.machine.saturating_sub(before.machine),
            },
            offered_bytes: self.offered_bytes - earlier.offered_bytes,
            sum_bytes: self.sum_bytes - earlier.sum_bytes,
            sum_ns: self.sum_ns - earlier.sum_ns,
            ..self
        }
    }

    fn stats(self) -> DirectionStats {
        let mean =
            |sum: f64| (self.offered_bytes > 0.0).then(|| (sum / self.offered_bytes).max(0.0));
        DirectionStats {
            segments: self.segments,
            wire_bytes: self.wire_bytes,
            ip_bytes: self.ip_bytes,
            dropped: self.dropped,
            queue_bytes_max: self.largest_bytes,
            queue_bytes_mean: mean(self.sum_bytes),
            queue_delay_max_ns: self.longest_ns,
            queue_delay_mean_ns: mean(self.sum_ns),
        }
    }
}

/// What a link had done at an instant, for statistics that count from there.
#[derive(Debug, Clone)]
pub struct Mark {
    at_ns: u64,
    flows: [FlowCounts; 2],
    lateness: lateness::Counts,
}

/// Everything the data path tells the rest of the process.
#[derive(Debug)]
pub(crate) struct Shared {
    pub hosts: [Netns; 2],
    pub flows: [Flow; 2],
    pub lateness: Lateness,
    pub clock: OnceLock<Clock>,
    pub ended_ns: OnceLock<u64>,
    pub stopping: AtomicBool,
    /// Both directions have a rate.
    shaped: bool,
}

impl Shared {
    pub fn new(hosts: [Netns; 2], spec: &Spec) -> Self {
        Shared {
            hosts,
            flows: Default::default(),
            lateness: Lateness::new((spec.base_rtt_ns() / 100).max(1_000_000)),
            clock: OnceLock::new(),
            ended_ns: OnceLock::new(),
            stopping: AtomicBool::new(false),
            shaped: spec.near_to_far.rate_bps.is_some() && spec.far_to_near.rate_bps.is_some(),
        }
    }

    /// What has been done by now.
    pub fn mark(&self) -> Mark {
        let running_ns = || self.clock.get().map_or(0, |clock| clock.now_ns());
        Mark {
            at_ns: self.ended_ns.get().copied().unwrap_or_else(running_ns),
            flows: [0, 1].map(|way| self.flows[way].counts(&self.hosts[way])),
            lateness: self.lateness.counts(),
        }
    }

    pub fn stats(&self, since: Option<&Mark>) -> LinkStats {
        let mut now = self.mark();
        if let Some(earlier) = since {
            now.at_ns -= earlier.at_ns;
            let [there, back] = now.flows;
            now.flows = [
                there.since(&earlier.flows[0]),
                back.since(&earlier.flows[1]),
            ];
            now.lateness = now.lateness.since(&earlier.lateness);
        }
        let [near_to_far, far_to_near] = now.flows.map(FlowCounts::stats);
        let machine_drops = near_to_far.dropped.machine + far_to_near.dropped.machine;
        LinkStats {
            elapsed_ns: now.at_ns,
            device: DEVICE.into(),
            directions: Directions {
                near_to_far,
                far_to_near,
            },
            lateness: self.lateness_stats(&now.lateness, machine_drops),
        }
    }

    fn lateness_stats(&self, lateness: &lateness::Counts, machine_drops: u64) -> LatenessStats {
        let late_fraction = lateness.late_fraction();
        let why = if machine_drops > 0 {
            Some(format!(
                "{machine_drops} packets were dropped by this machine and not by the link; \
                 lower the rate or stop other programs"
            ))
        } else if late_fraction > SPOILT_FRACTION {
            let reason = match self.shaped {
                true => {
                    "this machine is too slow or too busy for this link; \
                     lower the rate or stop other programs"
                }
                false => "nothing limits the rate of this link but this machine; give it a rate",
            };
            Some(format!(
                "{:.1} % of the bytes left more than {} late (1 % may): {reason}",
                late_fraction * 100.0,
                Duration(lateness.limit_ns)
            ))
        } else {
            None
        };
        LatenessStats {
            releases: lateness.releases,
            p50_ns: lateness.quantile_ns(0.5),
            p99_ns: lateness.quantile_ns(0.99),
            max_ns: lateness.longest_ns(),
            late_fraction,
            limit_ns: lateness.limit_ns,
            spoilt: why.is_some(),
            why,
        }
    }
}
