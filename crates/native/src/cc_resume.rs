//! What transfers to a destination carried before, for `hd_resume` (crates/cc).

use howdah_cc::{Destination, Error, Saved, Store};
use pyo3::prelude::*;
use serde::Deserialize;

use crate::{cc::answer, raise};

/// The connections that a memory is for, as a person writes them.
#[derive(Deserialize)]
struct DestinationText {
    to: String,
    port: Option<u16>,
    namespace: Option<u64>,
}

impl DestinationText {
    fn read(json: &[u8]) -> PyResult<Self> {
        serde_json::from_slice(json).map_err(raise)
    }

    fn destination(&self) -> Result<Destination, Error> {
        Destination::new(&self.to, self.port, self.namespace)
    }
}

#[pyfunction]
pub fn cc_check_saved(saved: &[u8]) -> PyResult<()> {
    let saved: Saved = serde_json::from_slice(saved).map_err(raise)?;
    saved.check().map_err(raise)
}

#[pyfunction]
pub fn cc_remember(py: Python<'_>, destination: &[u8], saved: &[u8]) -> PyResult<Vec<u8>> {
    let destination = DestinationText::read(destination)?;
    let saved: Saved = serde_json::from_slice(saved).map_err(raise)?;
    answer(py, || {
        Store::default().remember(&destination.destination()?, &saved)
    })
}

#[pyfunction]
pub fn cc_forget(py: Python<'_>, destination: &[u8]) -> PyResult<Vec<u8>> {
    let destination = DestinationText::read(destination)?;
    answer(py, || Store::default().forget(&destination.destination()?))
}

#[pyfunction]
pub fn cc_memories(py: Python<'_>) -> PyResult<Vec<u8>> {
    answer(py, || Store::default().memories())
}
