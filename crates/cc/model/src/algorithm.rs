//! The algorithms by name.

use crate::{
    Control, Cubic, HighSpeed, Hold, Htcp, Parameter, ParameterError, Reno, Scalable, Target,
    Values,
};

/// One of the modelled algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// RFC 5681.
    Reno,
    /// RFC 9438.
    Cubic,
    /// Kelly 2003.
    Scalable,
    /// Leith and Shorten 2004.
    Htcp,
    /// RFC 3649.
    HighSpeed,
    /// A window that is given.
    Hold,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::Reno,
        Algorithm::Cubic,
        Algorithm::Scalable,
        Algorithm::Htcp,
        Algorithm::HighSpeed,
        Algorithm::Hold,
    ];

    /// As users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Reno => "reno",
            Algorithm::Cubic => "cubic",
            Algorithm::Scalable => "scalable",
            Algorithm::Htcp => "htcp",
            Algorithm::HighSpeed => "highspeed",
            Algorithm::Hold => "hold",
        }
    }

    /// The algorithm of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }

    /// What can be set.
    #[must_use]
    pub const fn parameters(self) -> &'static [Parameter] {
        match self {
            Algorithm::Reno | Algorithm::HighSpeed => &[],
            Algorithm::Cubic => Cubic::PARAMETERS,
            Algorithm::Scalable => Scalable::PARAMETERS,
            Algorithm::Htcp => Htcp::PARAMETERS,
            Algorithm::Hold => Hold::PARAMETERS,
        }
    }

    /// A fresh control with the defaults, but for what is `given`. Only hold has a target, and must.
    pub fn control(
        self,
        given: &[(&str, u64)],
        target: Option<Target>,
    ) -> Result<Box<dyn Control>, ParameterError> {
        let values = Values::new(self.parameters(), given)?;
        Ok(match (self, target) {
            (Algorithm::Hold, Some(target)) => Box::new(Hold::new(target, &values)),
            (Algorithm::Hold, None) => return Err(ParameterError::NoTarget),
            (_, Some(_)) => return Err(ParameterError::Target { name: self.name() }),
            (Algorithm::Reno, None) => Box::new(Reno),
            (Algorithm::Cubic, None) => Box::new(Cubic::new(&values)),
            (Algorithm::Scalable, None) => Box::new(Scalable::new(&values)),
            (Algorithm::Htcp, None) => Box::new(Htcp::new(&values)),
            (Algorithm::HighSpeed, None) => Box::new(HighSpeed::default()),
        })
    }
}
