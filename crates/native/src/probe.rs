//! Round trips (crates/probe).

use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use pyo3::prelude::*;

use crate::raise;

#[pyclass(frozen, module = "howdah._native")]
pub struct Prober(howdah_probe::Prober);

#[pymethods]
impl Prober {
    #[new]
    fn new(wanted: &[u8]) -> PyResult<Self> {
        let wanted = serde_json::from_slice(wanted).map_err(raise)?;
        howdah_probe::Prober::start(&wanted)
            .map(Self)
            .map_err(raise)
    }

    fn take(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Vec<u8>> {
        let timeout = Duration::try_from_secs_f64(timeout_s).map_err(raise)?;
        serde_json::to_vec(&py.detach(|| self.0.take(timeout))).map_err(raise)
    }

    fn stop(&self) {
        self.0.stop();
    }
}

#[pyclass(frozen, module = "howdah._native")]
pub struct Responder(howdah_probe::Responder);

#[pymethods]
impl Responder {
    #[new]
    fn new(address: &str) -> PyResult<Self> {
        let address = address
            .parse()
            .map_err(|_| raise(format_args!("{address:?} is no address of this host")))?;
        howdah_probe::Responder::open(address)
            .map(Self)
            .map_err(raise)
    }

    #[getter]
    fn port(&self) -> u16 {
        self.0.port()
    }

    #[getter]
    fn token(&self) -> String {
        self.0.token().to_hex()
    }

    fn run(&self, py: Python<'_>, stop_fd: RawFd) -> PyResult<u64> {
        if stop_fd < 0 {
            return Err(raise("a responder needs a descriptor that stops it"));
        }
        // SAFETY: the caller keeps the descriptor open until this returns, as the stubs say.
        let stop = unsafe { BorrowedFd::borrow_raw(stop_fd) };
        py.detach(|| self.0.run(stop)).map_err(raise)
    }
}
