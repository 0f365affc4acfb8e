//! A part of a whole, 0 to 1.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::UnitError;
use crate::decimal::Kind;

/// A part of a whole, 0 to 1 inclusive.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Fraction(f64);

const KIND: Kind = Kind {
    what: "fraction",
    example: "0.01% or 1e-4",
    range: "0 to 1 (0% to 100%)",
};

impl Fraction {
    /// `value` if it lies in 0..=1.
    pub fn new(value: f64) -> Result<Self, UnitError> {
        Self::checked(value, &value.to_string())
    }

    /// The number, 0 to 1.
    pub fn get(self) -> f64 {
        self.0
    }

    fn checked(value: f64, text: &str) -> Result<Self, UnitError> {
        match (0.0..=1.0).contains(&value) {
            true => Ok(Fraction(value + 0.0)),
            false => Err(KIND.out_of_range(text)),
        }
    }
}

impl TryFrom<f64> for Fraction {
    type Error = UnitError;

    fn try_from(value: f64) -> Result<Self, UnitError> {
        Self::new(value)
    }
}

impl From<Fraction> for f64 {
    fn from(fraction: Fraction) -> f64 {
        fraction.0
    }
}

impl FromStr for Fraction {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, whole) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        let starts_well = number.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
        match number.parse::<f64>() {
            Ok(value) if starts_well => Self::checked(value / whole, text),
            _ => Err(UnitError::NotANumber {
                what: KIND.what,
                text: text.into(),
                example: KIND.example,
            }),
        }
    }
}

impl fmt::Display for Fraction {
    /// Rust prints a float so that it parses back to the same one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            small if small > 0.0 && small < 1e-4 => write!(f, "{small:e}"),
            value => write!(f, "{value}"),
        }
    }
}
