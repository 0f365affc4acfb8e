//! Parameters of programs: one table each feeds the help, the JSON, the checks and the program.

use howdah_units::{Bytes, Duration, Fraction};
use serde::Serialize;

use crate::Error;

/// How a value is written and in what the program counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A number of packets, round trips or bits: no unit to write.
    Count,
    /// `on` or `off`.
    Switch,
    /// Bytes, as `38B`.
    Bytes,
    /// Microseconds, as `2s`.
    Microseconds,
    /// Thousandths, as `1%`.
    PerMille,
    /// Millionths, as `10%`.
    PerMillion,
}

/// A number that a program reads before its first packet.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Parameter {
    /// As users write it and as the program calls it.
    pub name: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// How it is written.
    pub unit: Unit,
    /// In the program's unit.
    pub default: u64,
    /// Least allowed, in the program's unit.
    pub least: u64,
    /// Most allowed.
    pub most: u64,
}

/// A parameter's value, in the program's unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The parameter's name.
    pub name: &'static str,
    /// In the program's unit.
    pub value: u64,
    /// As users write it.
    pub text: String,
}

impl Unit {
    fn parse(self, text: &str) -> Result<u64, String> {
        match self {
            Self::Count => text
                .parse()
                .map_err(|_| format!("{text:?} is not a whole number")),
            Self::Switch => match text {
                "on" => Ok(1),
                "off" => Ok(0),
                _ => Err(format!("{text:?} is neither on nor off")),
            },
            Self::Bytes => parsed::<Bytes>(text).map(|bytes| bytes.0),
            Self::Microseconds => parsed::<Duration>(text).map(|time| time.0 / 1000),
            Self::PerMille => part(text, 1e3),
            Self::PerMillion => part(text, 1e6),
        }
    }

    fn show(self, value: u64) -> String {
        match self {
            Self::Count => value.to_string(),
            Self::Switch => if value == 0 { "off" } else { "on" }.to_owned(),
            Self::Bytes => format!("{value}B"),
            Self::Microseconds => Duration(value.saturating_mul(1000))
                .to_string()
                .replace(' ', ""),
            Self::PerMille => format!("{}%", value as f64 / 10.0),
            Self::PerMillion => format!("{}%", value as f64 / 10_000.0),
        }
    }
}

impl Parameter {
    /// The value that `text` means, if it is in range.
    pub(crate) fn parse(&self, program: &'static str, text: &str) -> Result<u64, Error> {
        let wrong = |why: String| Error::Parameter {
            program,
            name: self.name,
            why,
            range: self.range(),
        };
        let value = self.unit.parse(text.trim()).map_err(wrong)?;
        if (self.least..=self.most).contains(&value) {
            Ok(value)
        } else {
            Err(wrong(format!("{} is out of range", self.unit.show(value))))
        }
    }

    /// A value with its text.
    #[must_use]
    pub fn setting(&self, value: u64) -> Setting {
        Setting {
            name: self.name,
            value,
            text: self.unit.show(value),
        }
    }

    /// What is allowed, as users write it.
    #[must_use]
    pub fn range(&self) -> String {
        match self.unit {
            Unit::Switch => "on or off".to_owned(),
            unit => format!("{} to {}", unit.show(self.least), unit.show(self.most)),
        }
    }
}

fn parsed<T: std::str::FromStr<Err = howdah_units::UnitError>>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|error: howdah_units::UnitError| error.to_string())
}

fn part(text: &str, of: f64) -> Result<u64, String> {
    parsed::<Fraction>(text).map(|part| (part.get() * of).round() as u64)
}
