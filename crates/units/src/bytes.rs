//! A size in bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::UnitError;
use crate::decimal::{Kind, write_exact, write_in};

/// Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

const KIND: Kind = Kind {
    what: "size",
    example: "125MB, 4MiB or 1500B",
    range: "0 to 18 EB",
};

const DECIMAL: [(u64, &str); 5] = [
    (1_000_000_000_000, "TB"),
    (1_000_000_000, "GB"),
    (1_000_000, "MB"),
    (1_000, "kB"),
    (1, "B"),
];

const BINARY: [(u64, &str); 4] = [
    (1 << 40, "TiB"),
    (1 << 30, "GiB"),
    (1 << 20, "MiB"),
    (1 << 10, "KiB"),
];

fn factor(unit: &str) -> Option<u64> {
    if unit == "KB" {
        return Some(1_000);
    }
    DECIMAL
        .iter()
        .chain(&BINARY)
        .find(|(_, name)| *name == unit)
        .map(|(factor, _)| *factor)
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        KIND.parse(text, factor).map(Bytes)
    }
}

impl fmt::Display for Bytes {
    /// Whole multiples of a binary unit are shown in it; everything else is decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(factor, _): &(u64, &str)| self.0.is_multiple_of(*factor);
        let largest = DECIMAL.iter().find(|(factor, _)| self.0 >= *factor);
        let binary = BINARY.iter().find(|unit| whole(unit));
        match binary {
            Some(&(factor, unit)) if f.precision().is_none() && !largest.is_none_or(whole) => {
                write_exact(f, self.0, factor, unit)
            }
            _ => write_in(f, self.0, &DECIMAL, "B"),
        }
    }
}
