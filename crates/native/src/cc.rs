//! Congestion control as programs (crates/cc). What the kernel said to a refused program is a note of the
//! exception.

use howdah_cc::{Error, Place, Program, Store, Target};
use pyo3::prelude::*;
use serde::Serialize;

use crate::{HowdahError, raise};

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
pub fn cc_check_place(to: &str, ports: &str) -> PyResult<()> {
    place(to, ports).map(drop).map_err(raise)
}

#[pyfunction]
#[pyo3(signature = (to, ports, control, rate_bps, window_packets))]
pub fn cc_attach(
    py: Python<'_>,
    to: &str,
    ports: &str,
    control: &str,
    rate_bps: Option<u64>,
    window_packets: Option<i64>,
) -> PyResult<Vec<u8>> {
    answer(py, || {
        let target = match (rate_bps, window_packets) {
            (None, None) => None,
            _ => Some(Target::new(rate_bps, window_packets)?),
        };
        Store::default().attach(place(to, ports)?, control, target)
    })
}

#[pyfunction]
pub fn cc_detach(py: Python<'_>, to: &str, ports: &str) -> PyResult<Vec<u8>> {
    answer(py, || Store::default().detach(place(to, ports)?))
}

fn place(to: &str, ports: &str) -> Result<Place, Error> {
    Ok(Place {
        to: to.parse()?,
        ports: ports.parse()?,
    })
}

/// Does `work` without holding up other Python threads; its result as JSON.
fn answer<T: Serialize + Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<Vec<u8>> {
    match py.detach(work) {
        Ok(found) => serde_json::to_vec(&found).map_err(raise),
        Err(error) => {
            let raised = HowdahError::new_err(error.to_string());
            if let Some(log) = error.log() {
                raised.value(py).call_method1("add_note", (log,))?;
            }
            Err(raised)
        }
    }
}
