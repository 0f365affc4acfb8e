//! Binds `howdah-cc-model`: what a congestion control would do.

use howdah_cc_model::Experiment;
use pyo3::prelude::*;

use crate::raise;

#[pyfunction]
pub fn cc_model(experiment: &[u8]) -> PyResult<Vec<u8>> {
    let experiment: Experiment = serde_json::from_slice(experiment).map_err(|error| {
        raise(format_args!(
            "the description of the experiment is not understood: {error}"
        ))
    })?;
    let trace = experiment.run().map_err(raise)?;
    serde_json::to_vec(&trace).map_err(raise)
}
