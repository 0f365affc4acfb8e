//! Binds `howdah-emulator`: one link between two network namespaces.

use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use howdah_emulator::{LinkStats, Mark};
use howdah_link::Spec;
use pyo3::prelude::*;

use crate::raise;

#[pyclass(module = "howdah._native")]
pub struct Emulator(Mutex<howdah_emulator::Emulator>);

impl Emulator {
    /// A panic in a call before has already been raised to Python; the link itself goes on.
    fn lock(&self) -> MutexGuard<'_, howdah_emulator::Emulator> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn to_json(stats: &LinkStats) -> PyResult<Vec<u8>> {
    serde_json::to_vec(stats).map_err(raise)
}

fn parse(link: &[u8]) -> PyResult<Spec> {
    serde_json::from_slice(link).map_err(|error| {
        raise(format_args!(
            "the description of the link is not understood: {error}"
        ))
    })
}

#[pyfunction]
pub fn check_link(link: &[u8]) -> PyResult<()> {
    parse(link)?.check().map_err(raise)
}

#[pyclass(frozen, module = "howdah._native")]
pub struct LinkMark(Mark);

#[pymethods]
impl Emulator {
    #[new]
    fn new(py: Python<'_>, link: &[u8]) -> PyResult<Self> {
        let spec = parse(link)?;
        let emulator = py
            .detach(|| howdah_emulator::Emulator::new(&spec))
            .map_err(raise)?;
        Ok(Emulator(Mutex::new(emulator)))
    }

    #[getter]
    fn device(&self) -> &'static str {
        self.lock().device()
    }

    fn namespace_fd(&self, host: &str) -> PyResult<i32> {
        let host = host.parse().map_err(raise)?;
        Ok(self.lock().namespace(host).as_raw_fd())
    }

    fn ended_fd(&self) -> i32 {
        self.lock().ended().as_raw_fd()
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.lock().start()).map_err(raise)
    }

    #[pyo3(signature = (since=None))]
    fn stats(&self, py: Python<'_>, since: Option<&LinkMark>) -> PyResult<Vec<u8>> {
        let since = since.map(|mark| &mark.0);
        to_json(&py.detach(|| self.lock().stats(since)))
    }

    fn mark(&self) -> LinkMark {
        LinkMark(self.lock().mark())
    }

    fn stop(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        to_json(&py.detach(|| self.lock().stop()).map_err(raise)?)
    }
}
