//! Binds `printable` of `howdah-wire`: strange text as one line that a terminal obeys in nothing.

use pyo3::prelude::*;

#[pyfunction]
#[pyo3(signature = (text, most_bytes=None))]
pub fn printable(text: &[u8], most_bytes: Option<usize>) -> String {
    match most_bytes {
        Some(most) => howdah_wire::printable_within(text, most),
        None => howdah_wire::printable(text),
    }
}
