//! A span of time in nanoseconds.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::UnitError;
use crate::decimal::{Kind, write_in, write_rounded};

/// Nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration(pub u64);

const KIND: Kind = Kind {
    what: "duration",
    example: "100ms, 1.5s or 250us",
    range: "0 to 584 years",
};

const NS_PER_S: u64 = 1_000_000_000;
const UNITS: [(u64, &str); 4] = [(NS_PER_S, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];

impl Duration {
    /// `duration_s` (finite, not negative) for people: three significant digits, from a minute on
    /// in minutes and seconds, from an hour on in hours and minutes.
    pub fn rounded(duration_s: f64) -> Result<String, UnitError> {
        if !duration_s.is_finite() || duration_s < 0.0 {
            return Err(KIND.out_of_range(&format!("{duration_s} s")));
        }
        if duration_s < 59.95 {
            let ns = (duration_s * NS_PER_S as f64).round();
            let mut text = String::new();
            write_rounded(&mut text, ns, 3, &UNITS).expect("a String takes any text");
            return Ok(text);
        }
        let seconds = duration_s.round() as u64;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        Ok(match hours {
            0 => format!("{minutes} min {:02} s", seconds % 60),
            _ => format!("{hours} h {minutes:02} min"),
        })
    }
}

fn factor(unit: &str) -> Option<u64> {
    match unit {
        "ns" => Some(1),
        "us" | "µs" | "μs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(NS_PER_S),
        "min" => Some(60 * NS_PER_S),
        "h" => Some(3600 * NS_PER_S),
        "d" => Some(24 * 3600 * NS_PER_S),
        "w" => Some(7 * 24 * 3600 * NS_PER_S),
        _ => None,
    }
}

impl FromStr for Duration {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        KIND.parse(text, factor).map(Duration)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in(f, self.0, &UNITS, "s")
    }
}

impl From<Duration> for std::time::Duration {
    fn from(duration: Duration) -> Self {
        Self::from_nanos(duration.0)
    }
}
