//! Rate, Bytes, Duration and Fraction: parse what people write, print what people read.
//!
//! Each type wraps one number in one unit, so that a bare number never crosses a function.
//! `Display` is exact and parses back to the same value; with a precision (`{:.3}`) it rounds
//! to that many significant digits. Prefixes are decimal (1 Gb/s = 10⁹ b/s); bytes know the
//! binary ones too (1 GiB = 2³⁰ B). A number without a unit is refused.

mod bytes;
mod decimal;
mod duration;
mod error;
mod fraction;
mod rate;

pub use bytes::Bytes;
pub use duration::Duration;
pub use error::UnitError;
pub use fraction::Fraction;
pub use rate::Rate;
