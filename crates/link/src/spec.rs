//! What a link is: the parameters, their ranges, and one clear message for what is out of range.

use howdah_units::{Bytes, Duration, Fraction, Rate};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Both directions of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Largest IP packet, bytes; 576 to 65535.
    pub mtu: u32,
    /// What a frame takes on the wire beyond its IP packet, bytes; Ethernet's is 38
    /// (preamble 8, header 14, check sequence 4, gap 12); 0 to 1000.
    pub frame_overhead_bytes: u32,
    /// Seed of everything random; the same seed and offers give the same drops.
    pub seed: u64,
    /// From the near host to the far one.
    pub near_to_far: DirectionSpec,
    /// From the far host to the near one.
    pub far_to_near: DirectionSpec,
}

/// One direction of a link as it begins, and how it changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectionSpec {
    /// Bits per second on the wire, 1 kb/s to 1 Tb/s; absent: nothing limits the rate.
    pub rate_bps: Option<u64>,
    /// Propagation delay, ns; at most 100 s.
    pub delay_ns: u64,
    /// Largest extra delay, ns, uniform from 0 and never reordering; at most 100 s.
    #[serde(default)]
    pub jitter_ns: u64,
    /// Drop-tail limit, bytes on the wire; absent: see [`Spec::queue_limit_bytes`].
    pub queue_bytes: Option<u64>,
    /// Probability that a wire segment is lost, independent of all others.
    #[serde(default)]
    pub loss: f64,
    /// Bursty loss beside the independent one.
    #[serde(default)]
    pub burst: Option<GilbertElliott>,
    /// What changes when; in order of time.
    #[serde(default)]
    pub changes: Vec<Change>,
}

/// The two-state loss model of Gilbert (1960) and Elliott (1963). Before each segment the state may
/// change; then the segment is lost with the probability of the state. It begins in the good state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// Probability of going from good to bad, per segment.
    pub enter: f64,
    /// Probability of going from bad to good, per segment.
    pub leave: f64,
    /// Probability of loss in the good state.
    pub loss_good: f64,
    /// Probability of loss in the bad state.
    pub loss_bad: f64,
}

/// One change of a direction; what is absent stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When, ns since the link began.
    pub at_ns: u64,
    /// The new rate; only where the direction began with one.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// The new delay.
    #[serde(default)]
    pub delay_ns: Option<u64>,
    /// The new probability of independent loss.
    #[serde(default)]
    pub loss: Option<f64>,
    /// The new bursty loss, beginning in its good state.
    #[serde(default)]
    pub burst: Option<GilbertElliott>,
    /// So many segments that leave from now on are lost, whatever else loses some; 1 to 1,000,000.
    #[serde(default)]
    pub drop: Option<u32>,
    /// True: from now on nothing is served and what is offered is dropped; false: over.
    #[serde(default)]
    pub outage: Option<bool>,
}

/// A parameter outside its range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("link: {place} is {value}; {wanted}")]
pub struct SpecError {
    place: String,
    value: String,
    wanted: String,
}

const RATE_BPS: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000;
const LONGEST_NS: u64 = 100_000_000_000;
const LARGEST_QUEUE_BYTES: u64 = 1 << 40;
const UNSHAPED_QUEUE_BYTES: u64 = 256 << 20;
/// A host hands an offloaded packet of 64 KB over at once, whatever the rate; a default queue holds two.
const SMALLEST_DEFAULT_QUEUE_BYTES: u64 = 2 * 70_000;

impl Spec {
    /// Says which parameter is out of its range, if one is.
    pub fn check(&self) -> Result<(), SpecError> {
        in_range("mtu", u64::from(self.mtu), 576, 65_535, |n| {
            format!("{n} bytes")
        })?;
        let overhead = u64::from(self.frame_overhead_bytes);
        in_range("frame_overhead_bytes", overhead, 0, 1_000, |n| {
            format!("{n} bytes")
        })?;
        let frame_bytes = u64::from(self.mtu) + overhead;
        self.near_to_far.check("near_to_far", frame_bytes)?;
        self.far_to_near.check("far_to_near", frame_bytes)
    }

    /// The RTT of the idle link as it begins, ns, without serialisation.
    pub fn base_rtt_ns(&self) -> u64 {
        self.near_to_far.delay_ns + self.far_to_near.delay_ns
    }

    /// The drop-tail limit of a direction in bytes: what it says; else one BDP of its first rate and
    /// the base RTT, at least two offloaded packets; 256 MiB where nothing limits the rate.
    pub fn queue_limit_bytes(&self, direction: &DirectionSpec) -> u64 {
        let default = match direction.rate_bps {
            None => UNSHAPED_QUEUE_BYTES,
            Some(rate_bps) => {
                let bdp = u128::from(rate_bps) * u128::from(self.base_rtt_ns()) / 8_000_000_000;
                (bdp as u64).clamp(SMALLEST_DEFAULT_QUEUE_BYTES, LARGEST_QUEUE_BYTES)
            }
        };
        direction.queue_bytes.unwrap_or(default)
    }
}

impl DirectionSpec {
    fn check(&self, name: &str, frame_bytes: u64) -> Result<(), SpecError> {
        let at = |key: &str| format!("{name}.{key}");
        if let Some(rate_bps) = self.rate_bps {
            rate_in_range(&at("rate_bps"), rate_bps)?;
        }
        span_in_range(&at("delay_ns"), self.delay_ns)?;
        span_in_range(&at("jitter_ns"), self.jitter_ns)?;
        if let Some(queue) = self.queue_bytes {
            let place = at("queue_bytes");
            in_range(&place, queue, frame_bytes, LARGEST_QUEUE_BYTES, |n| {
                Bytes(n).to_string()
            })?;
        }
        probability(&at("loss"), self.loss)?;
        if let Some(burst) = &self.burst {
            burst.check(&at("burst"))?;
        }
        let mut earliest_ns = 0;
        for (index, change) in self.changes.iter().enumerate() {
            let at = |key: &str| format!("{name}.changes[{index}].{key}");
            if change.at_ns < earliest_ns {
                return Err(SpecError {
                    place: at("at_ns"),
                    value: Duration(change.at_ns).to_string(),
                    wanted: format!(
                        "changes must be in order of time, so not before {}",
                        Duration(earliest_ns)
                    ),
                });
            }
            earliest_ns = change.at_ns;
            change.check(self.rate_bps.is_some(), at)?;
        }
        Ok(())
    }
}

impl Change {
    fn check(&self, shaped: bool, at: impl Fn(&str) -> String) -> Result<(), SpecError> {
        if let Some(rate_bps) = self.rate_bps {
            rate_in_range(&at("rate_bps"), rate_bps)?;
            if !shaped {
                return Err(SpecError {
                    place: at("rate_bps"),
                    value: Rate(rate_bps).to_string(),
                    wanted: "a direction that begins without a rate cannot change it; \
                             give the direction a rate_bps to begin with"
                        .into(),
                });
            }
        }
        if let Some(delay_ns) = self.delay_ns {
            span_in_range(&at("delay_ns"), delay_ns)?;
        }
        if let Some(loss) = self.loss {
            probability(&at("loss"), loss)?;
        }
        if let Some(drop) = self.drop {
            in_range(&at("drop"), drop.into(), 1, 1_000_000, |n| {
                format!("{n} segments")
            })?;
        }
        match &self.burst {
            Some(burst) => burst.check(&at("burst")),
            None => Ok(()),
        }
    }
}

impl GilbertElliott {
    fn check(&self, place: &str) -> Result<(), SpecError> {
        probability(&format!("{place}.enter"), self.enter)?;
        probability(&format!("{place}.leave"), self.leave)?;
        probability(&format!("{place}.loss_good"), self.loss_good)?;
        probability(&format!("{place}.loss_bad"), self.loss_bad)
    }
}

fn in_range(
    place: &str,
    value: u64,
    low: u64,
    high: u64,
    show: impl Fn(u64) -> String,
) -> Result<(), SpecError> {
    match (low..=high).contains(&value) {
        true => Ok(()),
        false => Err(SpecError {
            place: place.into(),
            value: show(value),
            wanted: format!("it must be {} to {}", show(low), show(high)),
        }),
    }
}

fn rate_in_range(place: &str, rate_bps: u64) -> Result<(), SpecError> {
    in_range(place, rate_bps, *RATE_BPS.start(), *RATE_BPS.end(), |n| {
        Rate(n).to_string()
    })
}

fn span_in_range(place: &str, span_ns: u64) -> Result<(), SpecError> {
    in_range(place, span_ns, 0, LONGEST_NS, |n| Duration(n).to_string())
}

fn probability(place: &str, value: f64) -> Result<(), SpecError> {
    Fraction::new(value).map(drop).map_err(|_| SpecError {
        place: place.into(),
        value: value.to_string(),
        wanted: "it must be 0 to 1".into(),
    })
}
