//! What can be set in an algorithm: name, default, range, unit. Fixed-point where the kernel's are.

use std::ops::RangeInclusive;

use serde::Serialize;
use thiserror::Error;

/// One parameter of one algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// As users write it.
    pub name: &'static str,
    /// Its value unless set.
    pub default: u64,
    /// Least and largest value.
    pub range: RangeInclusive<u64>,
    /// Of value and range; a share is given as its denominator, `1/1024`.
    pub unit: &'static str,
    /// What it does.
    pub what: &'static str,
}

/// The values of all parameters of one algorithm, in range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values(Vec<(&'static str, u64)>);

/// A parameter that does not exist, a value out of its range, or a target in the wrong place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// The algorithm has none of this name.
    #[error("parameter {name} is unknown; known are: {known}")]
    Unknown {
        /// As given.
        name: String,
        /// All names of the algorithm.
        known: String,
    },
    /// Out of range.
    #[error("{name} is {value} {unit}; it must be {least} to {most}")]
    Range {
        /// Which parameter.
        name: &'static str,
        /// As given.
        value: u64,
        /// Of all three values.
        unit: &'static str,
        /// The least allowed.
        least: u64,
        /// The largest allowed.
        most: u64,
    },
    /// Hold was not told what.
    #[error("hold needs a target: a window or a rate")]
    NoTarget,
    /// A target for an algorithm that finds its window itself.
    #[error("{name} takes no target; only hold does")]
    Target {
        /// Which algorithm.
        name: &'static str,
    },
}

impl Values {
    /// The defaults of `parameters`, but for what is `given`.
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
            parameters[index].check(value)?;
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

impl Parameter {
    /// Says what is wrong with `value`, if anything is.
    pub fn check(&self, value: u64) -> Result<(), ParameterError> {
        match self.range.contains(&value) {
            true => Ok(()),
            false => Err(ParameterError::Range {
                name: self.name,
                value,
                unit: self.unit,
                least: *self.range.start(),
                most: *self.range.end(),
            }),
        }
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
