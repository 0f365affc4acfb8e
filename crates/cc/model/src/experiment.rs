//! A simulation described as a value, with which a live connection can be compared.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

use crate::{
    Algorithm, ParameterError, Path, PathError, Simulation, Trace, Window,
    controls::{hold::Target, resume::Saved},
};

/// One connection over one path, with losses at given times.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The name of the algorithm.
    pub algorithm: String,
    /// The parameters that differ from their defaults, each in its unit.
    pub parameters: BTreeMap<String, u64>,
    /// The window that hold holds, segments. Other algorithms take none.
    pub window_segments: Option<u32>,
    /// The rate on the wire that hold holds, bits per second. Other algorithms take none.
    pub hold_bps: Option<u64>,
    /// What earlier connections had in flight, segments. Resume begins with it. Other algorithms take none.
    #[serde(default)]
    pub saved_segments: Option<u32>,
    /// The RTT that they had, ns.
    #[serde(default)]
    pub saved_rtt_ns: Option<u64>,
    /// RTT of the idle path, ns; 1 µs to 100 s.
    pub rtt_ns: u64,
    /// Rate of the path on the wire, bits per second; absent: unlimited.
    pub rate_bps: Option<u64>,
    /// What a full segment takes on the wire, bytes.
    pub wire_bytes: u32,
    /// The size of the same segment as an IP packet, which hold uses; 40 to 65,535 bytes.
    pub packet_bytes: u32,
    /// The most segments that wait at the bottleneck; absent: no limit.
    pub queue_segments: Option<u64>,
    /// Segments that an ACK acknowledges in the mean if nothing is lost; 1 to 1,000.
    pub ack_segments: f64,
    /// The first window, segments; 2 to 1,000,000.
    pub start_segments: u32,
    /// Where slow start ends, segments; absent: at the first loss.
    pub ssthresh_segments: Option<u32>,
    /// The next segment sent from each of these times on is lost; ns, in order.
    pub losses_ns: Vec<u64>,
    /// How long it runs, ns; at most an hour.
    pub span_ns: u64,
}

/// Why an experiment cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExperimentError {
    /// There is no algorithm of this name.
    #[error("there is no model of {name}; there are: {known}")]
    Algorithm {
        /// The name as given.
        name: String,
        /// The names of all algorithms.
        known: String,
    },
    /// The parameters or the target do not fit the algorithm.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The path cannot be.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Both a window and a rate were given.
    #[error("hold takes a window or a rate, not both")]
    TwoTargets,
    /// Only one of the two saved values was given.
    #[error("resume takes saved_segments with saved_rtt_ns, or neither")]
    HalfSaved,
    /// A number is out of range.
    #[error("{what} is {value}; it must be {least} to {most}")]
    Range {
        /// The name of the field.
        what: &'static str,
        /// The value as given.
        value: u64,
        /// The least allowed.
        least: u64,
        /// The largest allowed.
        most: u64,
    },
    /// An ACK cannot acknowledge so many segments.
    #[error("ack_segments is {0}; it must be 1 to 1000")]
    Acks(String),
    /// The losses are not in order of time.
    #[error("losses_ns must be in order of time")]
    Order,
}

impl Experiment {
    /// Runs the experiment.
    pub fn run(&self) -> Result<Trace, ExperimentError> {
        in_range("start_segments", self.start_segments.into(), 2, 1_000_000)?;
        if !(1.0..=1_000.0).contains(&self.ack_segments) {
            return Err(ExperimentError::Acks(self.ack_segments.to_string()));
        }
        in_range("packet_bytes", self.packet_bytes.into(), 40, 65_535)?;
        in_range("span_ns", self.span_ns, 0, 3_600_000_000_000)?;
        let unknown = || ExperimentError::Algorithm {
            name: self.algorithm.clone(),
            known: Algorithm::all()
                .iter()
                .map(|algorithm| algorithm.name)
                .collect::<Vec<_>>()
                .join(", "),
        };
        let algorithm = Algorithm::named(&self.algorithm).ok_or_else(unknown)?;
        let given: Vec<_> = self
            .parameters
            .iter()
            .map(|(name, &value)| (name.as_str(), value))
            .collect();
        let control = match (self.saved_segments, self.saved_rtt_ns) {
            (None, None) => algorithm.control(&given, self.target()?)?,
            (Some(segments), Some(rtt_ns)) => {
                let rtt_us = rtt_ns / 1_000;
                algorithm.resuming(&given, Saved { segments, rtt_us })?
            }
            _ => return Err(ExperimentError::HalfSaved),
        };
        let mut path = Path::new(self.rtt_ns, self.rate_bps, self.wire_bytes)?;
        path.queue_segments = self.queue_segments;
        path.ack_segments = self.ack_segments;
        if !self.losses_ns.is_sorted() {
            return Err(ExperimentError::Order);
        }
        let window = Window::new(self.start_segments, self.ssthresh_segments);
        let mut run = Simulation::new(control, path, window);
        for &at_ns in &self.losses_ns {
            // Up to just before, so that what is sent at this very time is the next.
            if at_ns > 0 {
                run.run_until(at_ns - 1);
            }
            run.lose(1);
        }
        run.run_until(self.span_ns);
        Ok(run.trace().clone())
    }

    fn target(&self) -> Result<Option<Target>, ExperimentError> {
        let rate = |rate_bps| Target::Rate {
            rate_bps,
            packet_bytes: self.packet_bytes,
        };
        match (self.window_segments, self.hold_bps) {
            (Some(_), Some(_)) => Err(ExperimentError::TwoTargets),
            (window, rate_bps) => Ok(window.map(Target::Window).or(rate_bps.map(rate))),
        }
    }
}

fn in_range(what: &'static str, value: u64, least: u64, most: u64) -> Result<(), ExperimentError> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(ExperimentError::Range {
            what,
            value,
            least,
            most,
        }),
    }
}
