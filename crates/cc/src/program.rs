//! The programs we bring, one row each.

use crate::{
    Error, Parameter,
    parameter::Unit::{Bytes, Count, Microseconds, PerMille, PerMillion, Switch},
};

/// A congestion control as a BPF program.
#[derive(Debug)]
pub struct Program {
    /// As users call it, and as Linux calls its own where it has it.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// In the order in which the program declares them.
    pub parameters: &'static [Parameter],
    /// The compiled program.
    pub(crate) object: &'static [u8],
}

/// A compiled program. libbpf reads headers in place, so the file must lie as ELF wants it.
macro_rules! object {
    ($name:literal) => {
        &$crate::program::Aligned(*include_bytes!(concat!(
            env!("OUT_DIR"),
            "/",
            $name,
            ".bpf.o"
        )))
        .0
    };
}
pub(crate) use object;

#[repr(align(8))]
pub(crate) struct Aligned<T>(pub T);

const fn parameter(
    name: &'static str,
    unit: crate::Unit,
    (default, least, most): (u64, u64, u64),
    help: &'static str,
) -> Parameter {
    Parameter {
        name,
        help,
        unit,
        default,
        least,
        most,
    }
}

/// All of them.
pub static PROGRAMS: [Program; 4] = [
    Program {
        name: "scalable",
        summary: "Scalable TCP (Kelly 2003): grows by 1 % a round trip, falls by an eighth",
        parameters: &[
            parameter(
                "ai_packets",
                Count,
                (100, 2, 10_000),
                "one packet more for so many acknowledged",
            ),
            parameter(
                "md_shift",
                Count,
                (3, 1, 8),
                "a loss takes 2^-N of the window",
            ),
        ],
        object: object!("scalable"),
    },
    Program {
        name: "htcp",
        summary: "H-TCP (Leith and Shorten 2004): grows faster the longer no loss came",
        parameters: &[
            parameter(
                "rtt_scaling",
                Switch,
                (1, 0, 1),
                "growth by time, not by round trips, as far as it goes",
            ),
            parameter(
                "bandwidth_switch",
                Switch,
                (1, 0, 1),
                "halve when the throughput between losses changed by a fifth",
            ),
        ],
        object: object!("htcp"),
    },
    Program {
        name: "highspeed",
        summary: "HighSpeed TCP (RFC 3649): grows faster and falls less in large windows",
        parameters: &[],
        object: object!("highspeed"),
    },
    Program {
        name: "hold",
        summary: "A held window or rate for a guaranteed path: no slow start, no cut on loss",
        parameters: &[
            parameter(
                "headroom",
                PerMille,
                (10, 0, 1000),
                "window beyond rate × base RTT",
            ),
            parameter(
                "frame_overhead",
                Bytes,
                (38, 0, 1000),
                "bytes on the wire beside each IP packet",
            ),
            parameter(
                "base_rtt_window",
                Microseconds,
                (2_000_000, 10_000, 600_000_000),
                "how long the least RTT counts as the path's",
            ),
            parameter(
                "guard_loss",
                PerMillion,
                (100_000, 1_000, 1_000_000),
                "share of loss that a round trip may have",
            ),
            parameter(
                "guard_rounds",
                Count,
                (8, 1, 1_000),
                "round trips in a row above it until the flow falls back",
            ),
            parameter(
                "return_rounds",
                Count,
                (32, 1, 1_000),
                "round trips in a row below half of it until it is held again",
            ),
        ],
        object: object!("hold"),
    },
];

impl Program {
    /// The program called `name`, with or without the kernel's `hd_`.
    pub fn find(name: &str) -> Result<&'static Self, Error> {
        let bare = name.strip_prefix("hd_").unwrap_or(name);
        PROGRAMS
            .iter()
            .find(|program| program.name == bare)
            .ok_or_else(|| Error::UnknownProgram {
                name: name.to_owned(),
                known: PROGRAMS.each_ref().map(|program| program.name).join(", "),
            })
    }

    /// Tells builds of the same version apart (FNV-1a of the compiled program).
    pub(crate) fn digest(&self) -> u64 {
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.object.iter().fold(0xcbf2_9ce4_8422_2325, mix)
    }

    /// All parameters' values in the program's order: the defaults, but for what `given` says in text.
    pub fn values(&self, given: &[(String, String)]) -> Result<Vec<u64>, Error> {
        self.values_over(None, given)
    }

    /// The same over the values of an earlier load.
    pub(crate) fn values_over(
        &self,
        earlier: Option<&[u64]>,
        given: &[(String, String)],
    ) -> Result<Vec<u64>, Error> {
        let defaults = self.parameters.iter().map(|each| each.default);
        let mut values: Vec<u64> = match earlier {
            Some(values) => values[..self.parameters.len()].to_vec(),
            None => defaults.collect(),
        };
        for (name, text) in given {
            let place = self.parameters.iter().position(|each| each.name == name);
            let Some(place) = place else {
                return Err(Error::UnknownParameter {
                    program: self.name,
                    name: name.clone(),
                    known: self.known_parameters(),
                });
            };
            values[place] = self.parameters[place].parse(self.name, text)?;
        }
        Ok(values)
    }

    fn known_parameters(&self) -> String {
        if self.parameters.is_empty() {
            return "it has none".to_owned();
        }
        let names: Vec<_> = self.parameters.iter().map(|each| each.name).collect();
        format!("it has {}", names.join(", "))
    }
}
