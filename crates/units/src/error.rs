//! What can be wrong with a quantity that somebody wrote.

use thiserror::Error;

/// A quantity that cannot be read. The message is one line and says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnitError {
    /// The text does not begin with a plain decimal number.
    #[error("{what} {text:?} is not a number with a unit; write for example {example}")]
    NotANumber {
        /// The kind of quantity: rate, size, duration or fraction.
        what: &'static str,
        /// What was given.
        text: String,
        /// Something that would have been right.
        example: &'static str,
    },
    /// The number stands alone.
    #[error("{what} {text:?} has no unit; write for example {example}")]
    NoUnit {
        /// The kind of quantity.
        what: &'static str,
        /// What was given.
        text: String,
        /// Something that would have been right.
        example: &'static str,
    },
    /// The unit is not one of this quantity.
    #[error("{what} {text:?} has the unknown unit {unit:?}; write for example {example}")]
    UnknownUnit {
        /// The kind of quantity.
        what: &'static str,
        /// What was given.
        text: String,
        /// The part that was not understood.
        unit: String,
        /// Something that would have been right.
        example: &'static str,
    },
    /// The value does not fit its type or has a range of its own.
    #[error("{what} {text:?} is outside {range}")]
    OutOfRange {
        /// The kind of quantity.
        what: &'static str,
        /// What was given.
        text: String,
        /// What is allowed.
        range: &'static str,
    },
}
