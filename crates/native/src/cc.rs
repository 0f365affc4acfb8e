//! Congestion control as programs (crates/cc). What the kernel said to a refused program is a note of the
//! exception.

use std::sync::{Mutex, PoisonError};

use howdah_cc::{Cgroup, Error, FlowName, Place, Program, Store, Target, Trial};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{HowdahError, raise};

#[pyfunction]
pub fn cc_check_kernel() -> PyResult<()> {
    howdah_cc::check_kernel().map_err(raise)
}

#[pyfunction]
pub fn cc_list(py: Python<'_>) -> PyResult<Vec<u8>> {
    answer(py, || Ok(Store::default().list()))
}

#[pyfunction]
pub fn cc_counts(py: Python<'_>) -> PyResult<Vec<u8>> {
    answer(py, howdah_cc::connection_counts)
}

#[pyfunction]
pub fn cc_load(py: Python<'_>, name: &str, settings: Vec<(String, String)>) -> PyResult<Vec<u8>> {
    answer(py, || {
        Store::default().load(Program::find(name)?, &settings)
    })
}

#[pyfunction]
pub fn cc_check_settings(name: &str, settings: Vec<(String, String)>) -> PyResult<()> {
    Program::find(name)
        .and_then(|program| program.values(&settings))
        .map(drop)
        .map_err(raise)
}

#[pyfunction]
pub fn cc_unload(py: Python<'_>, name: &str) -> PyResult<Vec<u8>> {
    answer(py, || Store::default().unload(Program::find(name)?))
}

#[pyfunction]
#[pyo3(signature = (rate_bps, window_packets, flow))]
pub fn cc_set(
    py: Python<'_>,
    rate_bps: Option<u64>,
    window_packets: Option<i64>,
    flow: Option<&str>,
) -> PyResult<Vec<u8>> {
    answer(py, || {
        Store::default().set_target(Target::new(rate_bps, window_packets)?, flow)
    })
}

#[pyfunction]
#[pyo3(signature = (rate_bps, window_packets, flow))]
pub fn cc_check_target(
    rate_bps: Option<u64>,
    window_packets: Option<i64>,
    flow: Option<&str>,
) -> PyResult<()> {
    Target::new(rate_bps, window_packets).map_err(raise)?;
    flow.map_or(Ok(()), |flow| flow.parse().map(|_: FlowName| ()))
        .map_err(raise)
}

#[pyfunction]
pub fn cc_default_target(py: Python<'_>) -> PyResult<Vec<u8>> {
    answer(py, || Ok(Store::default().default_target()))
}

#[pyfunction]
pub fn cc_connections(py: Python<'_>) -> PyResult<Vec<u8>> {
    answer(py, || Store::default().connections())
}

#[pyfunction]
pub fn cc_rules(py: Python<'_>) -> PyResult<Vec<u8>> {
    answer(py, || Store::default().rules())
}

#[pyfunction]
pub fn cc_shares(py: Python<'_>) -> PyResult<Vec<u8>> {
    answer(py, || Store::default().shares())
}

/// Which connections a rule is for, as a person writes it.
#[derive(Deserialize)]
pub(crate) struct PlaceText {
    to: Option<String>,
    ports: String,
    namespace: Option<u64>,
    cgroup: Option<String>,
}

impl PlaceText {
    fn read(json: &[u8]) -> PyResult<Self> {
        serde_json::from_slice(json).map_err(raise)
    }

    pub fn place(&self) -> Result<Place, Error> {
        let Self {
            to,
            ports,
            namespace,
            cgroup,
        } = self;
        Place::new(to.as_deref(), ports, cgroup.as_deref(), *namespace)
    }
}

#[pyfunction]
pub fn cc_check_place(place: &[u8]) -> PyResult<()> {
    PlaceText::read(place)?.place().map(drop).map_err(raise)
}

#[pyfunction]
pub fn cc_cgroup(path: &str) -> PyResult<Option<u64>> {
    path.parse()
        .and_then(|cgroup: Cgroup| cgroup.id())
        .map_err(raise)
}

#[pyfunction]
#[pyo3(signature = (place, control, rate_bps, window_packets))]
pub fn cc_attach(
    py: Python<'_>,
    place: &[u8],
    control: &str,
    rate_bps: Option<u64>,
    window_packets: Option<i64>,
) -> PyResult<Vec<u8>> {
    let place = PlaceText::read(place)?;
    answer(py, || {
        let target = match (rate_bps, window_packets) {
            (None, None) => None,
            _ => Some(Target::new(rate_bps, window_packets)?),
        };
        Store::default().attach(place.place()?, control, target)
    })
}

#[pyfunction]
pub fn cc_detach(py: Python<'_>, place: &[u8]) -> PyResult<Vec<u8>> {
    let place = PlaceText::read(place)?;
    answer(py, || Store::default().detach(&place.place()?))
}

#[pyclass(frozen, module = "howdah._native")]
pub struct CcTrial {
    name: String,
    trial: Mutex<Option<Trial>>,
}

#[pymethods]
impl CcTrial {
    #[new]
    fn new(py: Python<'_>, name: &str) -> PyResult<Self> {
        let begun = py.detach(|| {
            let program = Program::find(name)?;
            Trial::begin(&Store::default(), program, &program.values(&[])?)
        });
        let trial = begun.map_err(|error| raised(py, &error))?;
        Ok(Self {
            name: trial.name().to_owned(),
            trial: Mutex::new(Some(trial)),
        })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn end(&self, py: Python<'_>) {
        py.detach(|| *self.trial.lock().unwrap_or_else(PoisonError::into_inner) = None);
    }
}

/// Does `work` without holding up other Python threads; its result as JSON.
pub(crate) fn answer<T: Serialize + Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<Vec<u8>> {
    match py.detach(work) {
        Ok(found) => serde_json::to_vec(&found).map_err(raise),
        Err(error) => Err(raised(py, &error)),
    }
}

fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let raised = HowdahError::new_err(error.to_string());
    let noted = error
        .log()
        .map(|log| raised.value(py).call_method1("add_note", (log,)));
    match noted {
        Some(Err(failed)) => failed,
        _ => raised,
    }
}
