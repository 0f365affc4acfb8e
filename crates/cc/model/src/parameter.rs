//! The parameters of an algorithm. The model, the program of the same name, its help, its JSON and its checks all use
//! one table.

use howdah_units::{Bytes, Duration, Fraction, UnitError};
use serde::Serialize;
use thiserror::Error;

/// How a value is written, and the unit of the algorithm.
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

/// A parameter of an algorithm, which it reads before its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// The name as users write it and as the program calls it.
    pub name: &'static str,
    /// What the parameter does, in one line.
    pub help: &'static str,
    /// How a value is written.
    pub unit: Unit,
    /// The default, in the algorithm's unit.
    pub default: u64,
    /// The least value allowed, in the algorithm's unit.
    pub least: u64,
    /// The largest value allowed, in the algorithm's unit.
    pub most: u64,
}

/// The values of all parameters of one algorithm, in range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values(Vec<(&'static str, u64)>);

/// A parameter that does not exist, a value out of its range, or a target in the wrong place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// The algorithm has no parameter of this name.
    #[error("parameter {name} is unknown; known are: {known}")]
    Unknown {
        /// The name as given.
        name: String,
        /// The names of all parameters of the algorithm.
        known: String,
    },
    /// The value is out of range.
    #[error("{name} is {value}; it must be {range}")]
    Range {
        /// The name of the parameter.
        name: &'static str,
        /// The value as users write it.
        value: String,
        /// The range as users write it.
        range: String,
    },
    /// Hold was given no target.
    #[error("hold needs a target: a window or a rate")]
    NoTarget,
    /// A target was given to an algorithm that computes its window itself.
    #[error("{name} takes no target; only hold does")]
    Target {
        /// The name of the algorithm.
        name: &'static str,
    },
    /// A memory of earlier connections was given to an algorithm that uses none.
    #[error("{name} begins with nothing saved; only resume does")]
    Saved {
        /// The name of the algorithm.
        name: &'static str,
    },
}

impl Unit {
    /// The value of `text`, or what is wrong with it.
    pub fn parse(self, text: &str) -> Result<u64, String> {
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

    /// A value as users write it.
    #[must_use]
    pub fn show(self, value: u64) -> String {
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
    /// A parameter that counts something.
    #[must_use]
    pub const fn count(
        name: &'static str,
        (default, least, most): (u64, u64, u64),
        help: &'static str,
    ) -> Self {
        Parameter {
            name,
            help,
            unit: Unit::Count,
            default,
            least,
            most,
        }
    }

    /// A switch that is on by default.
    #[must_use]
    pub const fn switch(name: &'static str, help: &'static str) -> Self {
        Parameter {
            unit: Unit::Switch,
            ..Parameter::count(name, (1, 0, 1), help)
        }
    }

    /// The same parameter, counted in `unit`.
    #[must_use]
    pub const fn in_unit(self, unit: Unit) -> Self {
        Parameter { unit, ..self }
    }

    /// Whether `value` is in range.
    #[must_use]
    pub fn allows(&self, value: u64) -> bool {
        (self.least..=self.most).contains(&value)
    }

    /// The range, as users write it.
    #[must_use]
    pub fn range(&self) -> String {
        match self.unit {
            Unit::Switch => "on or off".to_owned(),
            unit => format!("{} to {}", unit.show(self.least), unit.show(self.most)),
        }
    }
}

impl Values {
    /// The values in `given`, and the defaults of the other `parameters`.
    pub fn new(parameters: &[Parameter], given: &[(&str, u64)]) -> Result<Self, ParameterError> {
        let mut values: Vec<_> = parameters.iter().map(|p| (p.name, p.default)).collect();
        for &(name, value) in given {
            let index = parameters
                .iter()
                .position(|parameter| parameter.name == name)
                .ok_or_else(|| ParameterError::Unknown {
                    name: name.into(),
                    known: names(parameters),
                })?;
            let parameter = parameters[index];
            if !parameter.allows(value) {
                return Err(ParameterError::Range {
                    name: parameter.name,
                    value: parameter.unit.show(value),
                    range: parameter.range(),
                });
            }
            values[index].1 = value;
        }
        Ok(Values(values))
    }

    /// The value of `parameter`, which must belong to the algorithm these were made for.
    #[must_use]
    pub fn get(&self, parameter: &Parameter) -> u64 {
        let found = self.0.iter().find(|(name, _)| *name == parameter.name);
        found.expect("a parameter of this algorithm").1
    }

    /// Whether a switch is on.
    #[must_use]
    pub fn on(&self, parameter: &Parameter) -> bool {
        self.get(parameter) != 0
    }
}

fn names(parameters: &[Parameter]) -> String {
    match parameters {
        [] => "none".into(),
        some => some
            .iter()
            .map(|parameter| parameter.name)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn parsed<T: std::str::FromStr<Err = UnitError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: UnitError| error.to_string())
}

fn part(text: &str, of: f64) -> Result<u64, String> {
    parsed::<Fraction>(text).map(|part| (part.get() * of).round() as u64)
}
