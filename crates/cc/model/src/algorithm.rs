//! Describes each algorithm, and finds it by its name.

use std::fmt;

use crate::{
    Control, Parameter, ParameterError, Values,
    controls::{self, hold::Target, resume::Saved},
};

/// An algorithm with a reference model. Its name is that of its folder in `crates/cc/controls`.
#[derive(Debug, Clone, Copy)]
pub struct Algorithm {
    /// The name for users. If Linux has the algorithm, it is also Linux's name.
    pub name: &'static str,
    /// What its file says of it.
    pub about: &'static About,
}

/// The description of an algorithm. Each `model.rs` has one, called `ABOUT`.
#[derive(Debug)]
pub struct About {
    /// The name as papers write it.
    pub title: &'static str,
    /// What the algorithm does, in one line, for `howdah cc list`.
    pub summary: &'static str,
    /// Whether Linux has the algorithm too.
    pub in_linux: bool,
    /// How the window grows, for the table of docs/cc.md.
    pub growth: &'static str,
    /// What a loss leaves of the window.
    pub after_loss: AfterLoss,
    /// Whether it is fair beside Reno, for the table of docs/cc.md.
    pub fair_beside_reno: &'static str,
    /// The parameters, in the order in which the program declares them.
    pub parameters: &'static [Parameter],
    /// How the model is made.
    pub model: Model,
}

/// How a model is made from the values of its parameters.
#[derive(Debug, Clone, Copy)]
pub enum Model {
    /// The model finds its window itself.
    Free(fn(&Values) -> Box<dyn Control>),
    /// The window or the rate is given.
    Held(fn(Target, &Values) -> Box<dyn Control>),
    /// The model begins with what earlier connections carried, if that is known.
    Resumed(fn(Option<Saved>, &Values) -> Box<dyn Control>),
}

/// What a loss leaves of the window, as fractions of it: part and whole. No less than
/// [`Window::FLOOR`](crate::Window::FLOOR) is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterLoss {
    /// This fraction is left, rounded down.
    Leaves(u64, u64),
    /// This fraction is taken, rounded down.
    Takes(u64, u64),
    /// What is left lies between two fractions and depends on what happened before.
    Between((u64, u64), (u64, u64)),
}

impl Algorithm {
    /// Every algorithm, in the order of the names.
    #[must_use]
    pub fn all() -> &'static [Algorithm] {
        &controls::ALL
    }

    /// The algorithm of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|algorithm| algorithm.name == name)
    }

    /// Whether its window or rate is given from outside.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.about.model, Model::Held(_))
    }

    /// A new control with the values in `given`, and defaults for the others. A held one must have a target, and
    /// others must not.
    pub fn control(
        &self,
        given: &[(&str, u64)],
        target: Option<Target>,
    ) -> Result<Box<dyn Control>, ParameterError> {
        let values = Values::new(self.about.parameters, given)?;
        match (self.about.model, target) {
            (Model::Free(make), None) => Ok(make(&values)),
            (Model::Resumed(make), None) => Ok(make(None, &values)),
            (Model::Held(make), Some(target)) => Ok(make(target, &values)),
            (Model::Held(_), None) => Err(ParameterError::NoTarget),
            (Model::Free(_) | Model::Resumed(_), Some(_)) => {
                Err(ParameterError::Target { name: self.name })
            }
        }
    }

    /// A new control with the memory `saved`, as [`Self::control`].
    pub fn resuming(
        &self,
        given: &[(&str, u64)],
        saved: Saved,
    ) -> Result<Box<dyn Control>, ParameterError> {
        let values = Values::new(self.about.parameters, given)?;
        match self.about.model {
            Model::Resumed(make) => Ok(make(Some(saved), &values)),
            _ => Err(ParameterError::Saved { name: self.name }),
        }
    }
}

impl fmt::Display for AfterLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = |(part, whole)| part as f64 / whole as f64;
        match *self {
            Self::Takes(0, _) => write!(f, "all"),
            Self::Takes(part, whole) => write!(f, "{}/{whole}", whole - part),
            Self::Leaves(part, whole) if whole < 10 => write!(f, "{part}/{whole}"),
            Self::Leaves(part, whole) => write!(f, "{:.1}", decimal((part, whole))),
            Self::Between(least, most) => {
                write!(f, "{:.1} to {:.1}", decimal(least), decimal(most))
            }
        }
    }
}
