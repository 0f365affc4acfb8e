//! Binds `howdah-units`: text to numbers in base units, and numbers to text for people.

use howdah_units::{Bytes, Duration, Fraction, Rate};
use pyo3::prelude::*;

use crate::raise;

#[pyfunction]
pub fn parse_rate(text: &str) -> PyResult<u64> {
    text.parse::<Rate>().map(|rate| rate.0).map_err(raise)
}

#[pyfunction]
pub fn parse_bytes(text: &str) -> PyResult<u64> {
    text.parse::<Bytes>().map(|size| size.0).map_err(raise)
}

#[pyfunction]
pub fn parse_duration(text: &str) -> PyResult<u64> {
    text.parse::<Duration>()
        .map(|duration| duration.0)
        .map_err(raise)
}

#[pyfunction]
pub fn parse_fraction(text: &str) -> PyResult<f64> {
    text.parse::<Fraction>().map(Fraction::get).map_err(raise)
}

#[pyfunction]
pub fn format_rate(rate_bps: f64) -> PyResult<String> {
    Rate::rounded(rate_bps).map_err(raise)
}

#[pyfunction]
pub fn format_bytes(size_bytes: u64) -> String {
    format!("{:.3}", Bytes(size_bytes))
}

#[pyfunction]
pub fn format_duration(duration_s: f64) -> PyResult<String> {
    Duration::rounded(duration_s).map_err(raise)
}
