//! Shares under `hd_hold` (crates/cc).

use std::sync::{Mutex, MutexGuard, PoisonError};

use howdah_cc::{Place, Shares, Store};
use pyo3::prelude::*;
use serde::Deserialize;

use crate::{
    cc::{PlaceText, answer},
    raise,
};

#[pyclass(frozen, module = "howdah._native")]
pub struct CcShares(Mutex<Shares>);

/// Connections, and the share they get.
#[derive(Deserialize)]
struct Placed {
    place: PlaceText,
    share: String,
}

impl CcShares {
    /// A panic in a call before has already been raised to Python; what lies in the kernel is whole.
    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl CcShares {
    #[new]
    fn new(py: Python<'_>, owner: &str) -> PyResult<Self> {
        let opened = py.detach(|| Shares::open(&Store::default(), owner));
        opened.map(|shares| Self(Mutex::new(shares))).map_err(raise)
    }

    fn define(&self, py: Python<'_>, name: &str, minimum_bps: u64) -> PyResult<Vec<u8>> {
        answer(py, || self.lock().define(name, minimum_bps))
    }

    fn set(
        &self,
        py: Python<'_>,
        name: &str,
        rate_bps: u64,
        minimum_bps: u64,
        until_ns: u64,
    ) -> PyResult<()> {
        py.detach(|| self.lock().set(name, rate_bps, minimum_bps, until_ns))
            .map_err(raise)
    }

    fn all(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        answer(py, || self.lock().all())
    }

    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.lock().remove(name)).map_err(raise)
    }

    fn place(&self, py: Python<'_>, wanted: &[u8]) -> PyResult<Vec<u8>> {
        let wanted: Vec<Placed> = serde_json::from_slice(wanted).map_err(raise)?;
        answer(py, || {
            let wanted = wanted
                .into_iter()
                .map(|each| Ok((each.place.place()?, each.share)))
                .collect::<Result<Vec<(Place, String)>, howdah_cc::Error>>()?;
            self.lock().place(&wanted)
        })
    }
}
