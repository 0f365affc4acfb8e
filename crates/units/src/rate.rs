//! A rate in bits per second.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::UnitError;
use crate::decimal::{Kind, write_in, write_rounded};

/// Bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub u64);

const KIND: Kind = Kind {
    what: "rate",
    example: "10Gbit or 400Mb/s",
    range: "0 to 18 Eb/s",
};

const UNITS: [(u64, &str); 5] = [
    (1_000_000_000_000, "Tb/s"),
    (1_000_000_000, "Gb/s"),
    (1_000_000, "Mb/s"),
    (1_000, "kb/s"),
    (1, "b/s"),
];

impl Rate {
    /// `rate_bps` (finite, not negative) with three significant digits, as a progress display shows it.
    pub fn rounded(rate_bps: f64) -> Result<String, UnitError> {
        if !rate_bps.is_finite() || rate_bps < 0.0 {
            return Err(KIND.out_of_range(&rate_bps.to_string()));
        }
        let mut text = String::new();
        write_rounded(&mut text, rate_bps, 3, &UNITS).expect("a String takes any text");
        Ok(text)
    }
}

/// Bits in one of `unit`: `b` is a bit and `B` a byte, with or without a decimal prefix of either case.
fn factor(unit: &str) -> Option<u64> {
    const SPELLINGS: [(&str, u64); 11] = [
        ("bits/s", 1),
        ("bit/s", 1),
        ("bits", 1),
        ("bit", 1),
        ("Bps", 8),
        ("bps", 1),
        ("B/s", 8),
        ("b/s", 1),
        ("bytes/s", 8),
        ("byte/s", 8),
        ("b", 1),
    ];
    let (prefix, bits) = SPELLINGS
        .iter()
        .find_map(|&(name, bits)| Some((unit.strip_suffix(name)?, bits)))?;
    let scale = match prefix {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        "t" | "T" => 1_000_000_000_000,
        _ => return None,
    };
    Some(bits * scale)
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        KIND.parse(text, factor).map(Rate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in(f, self.0, &UNITS, "b/s")
    }
}
