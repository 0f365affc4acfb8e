//! Filter rules (crates/filter).

use howdah_filter::{Given, Option as By, expand};
use pyo3::prelude::*;

use crate::raise;

/// Makes one list of rules of all that was given, in its order.
#[pyfunction]
pub fn expand_filters(
    py: Python<'_>,
    given: Vec<(String, Vec<u8>)>,
    nul_separated: bool,
    open: Py<PyAny>,
) -> PyResult<Vec<Vec<u8>>> {
    let given: Vec<Given<'_>> = given
        .iter()
        .map(|(option, text)| Ok((by(option)?, text.as_slice())))
        .collect::<PyResult<_>>()?;
    let mut failed = None;
    let expanded = expand(&given, nul_separated, &mut |name| {
        let text = open
            .call1(py, (name,))
            .and_then(|text| text.extract::<Vec<u8>>(py));
        text.map_err(|error| {
            let words = error.to_string();
            failed = Some(error);
            words
        })
    });
    expanded
        .map(Into::into)
        .map_err(|error| failed.unwrap_or_else(|| raise(error)))
}

fn by(option: &str) -> PyResult<By> {
    Ok(match option {
        "filter" => By::Filter,
        "exclude" => By::Exclude,
        "include" => By::Include,
        "exclude-from" => By::ExcludeFrom,
        "include-from" => By::IncludeFrom,
        other => return Err(raise(format!("{other} is no option of filters"))),
    })
}
