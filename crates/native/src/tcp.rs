//! Hosts and sockets (crates/tcp).

use howdah_tcp::HostLimits;
use pyo3::prelude::*;

use crate::raise;

/// HostLimits of this network namespace as JSON.
#[pyfunction]
pub fn host_limits() -> PyResult<Vec<u8>> {
    serde_json::to_vec(&HostLimits::gather().map_err(raise)?).map_err(raise)
}
