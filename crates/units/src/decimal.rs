//! Exact decimal numbers with a unit behind them, read and written without floating point.

use std::fmt;

use crate::UnitError;

/// How one kind of quantity is called, exemplified and bounded in messages.
pub(crate) struct Kind {
    pub what: &'static str,
    pub example: &'static str,
    pub range: &'static str,
}

/// digits × 10^-scale; small enough that any unit's factor can be multiplied in.
struct Decimal {
    digits: u128,
    scale: u32,
}

const MAX_DIGITS: usize = 20;

impl Kind {
    /// Reads `text` as a number and a unit that `factor` knows, in the base unit, rounded to the nearest.
    pub(crate) fn parse(
        &self,
        text: &str,
        factor: impl Fn(&str) -> Option<u64>,
    ) -> Result<u64, UnitError> {
        let Kind { what, example, .. } = *self;
        let trimmed = text.trim();
        let end = trimmed
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(trimmed.len());
        let (number, unit) = (&trimmed[..end], trimmed[end..].trim_start());
        let Some(decimal) = Decimal::parse(number) else {
            return Err(UnitError::NotANumber {
                what,
                text: text.into(),
                example,
            });
        };
        if unit.is_empty() {
            return Err(UnitError::NoUnit {
                what,
                text: text.into(),
                example,
            });
        }
        let Some(factor) = factor(unit) else {
            return Err(UnitError::UnknownUnit {
                what,
                text: text.into(),
                unit: unit.into(),
                example,
            });
        };
        decimal.times(factor).ok_or_else(|| self.out_of_range(text))
    }

    pub(crate) fn out_of_range(&self, text: &str) -> UnitError {
        UnitError::OutOfRange {
            what: self.what,
            text: text.into(),
            range: self.range,
        }
    }
}

impl Decimal {
    fn parse(number: &str) -> Option<Self> {
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let malformed = part.contains('.') || whole.len() + part.len() == 0;
        if malformed || whole.len() + part.len() > MAX_DIGITS {
            return None;
        }
        let digits = format!("{whole}{part}").parse().ok()?;
        Some(Decimal {
            digits,
            scale: part.len() as u32,
        })
    }

    fn times(&self, factor: u64) -> Option<u64> {
        let divisor = 10u128.pow(self.scale);
        let product = self.digits.checked_mul(u128::from(factor))?;
        u64::try_from((product + divisor / 2) / divisor).ok()
    }
}

/// Writes `value` as `Display` does: rounded where the format has a precision, else exactly, in the
/// largest unit of `units` (largest first) of which it is at least one; nothing is nothing of `zero`.
pub(crate) fn write_in(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(u64, &str)],
    zero: &str,
) -> fmt::Result {
    if let Some(digits) = f.precision() {
        return write_rounded(f, value as f64, digits, units);
    }
    match units.iter().find(|(factor, _)| value >= *factor) {
        Some(&(factor, unit)) => write_exact(f, value, factor, unit),
        None => write!(f, "0 {zero}"),
    }
}

/// Writes value/factor exactly, with no trailing zeros.
pub(crate) fn write_exact(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    factor: u64,
    unit: &str,
) -> fmt::Result {
    let mut text = (value / factor).to_string();
    let mut rest = u128::from(value % factor);
    if rest > 0 {
        text.push('.');
        while rest > 0 {
            rest *= 10;
            text.push(char::from(b'0' + (rest / u128::from(factor)) as u8));
            rest %= u128::from(factor);
        }
    }
    write!(f, "{text} {unit}")
}

/// Writes `value` (in the base unit) with `digits` significant digits, in the largest unit of `units`
/// (largest first) in which it rounds to at least 1.
pub(crate) fn write_rounded(
    f: &mut impl fmt::Write,
    value: f64,
    digits: usize,
    units: &[(u64, &str)],
) -> fmt::Result {
    let &(smallest, smallest_unit) = units.last().expect("a quantity has units");
    let (factor, unit) = *units
        .iter()
        .find(|(factor, _)| value / *factor as f64 >= 1.0 - 0.5 * 0.1f64.powi(digits as i32))
        .unwrap_or(&(smallest, smallest_unit));
    let scaled = value / factor as f64;
    if factor == smallest && value.fract() == 0.0 {
        return write!(f, "{value:.0} {unit}");
    }
    let whole_digits = 1 + scaled.max(1.0).log10().floor() as usize;
    write!(f, "{scaled:.*} {unit}", digits.saturating_sub(whole_digits))
}
