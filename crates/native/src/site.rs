//! The rules of a site (crates/site), and the far end under them (crates/far).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use howdah_site::{End, Error, Places};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::{Refused, raise};

fn refuse(error: Error) -> PyErr {
    match error {
        Error::Refused(why) => Refused::new_err(why),
        Error::Broken(_) => raise(error),
    }
}

/// What binds this user on this host.
#[pyclass(frozen, module = "howdah._native")]
pub struct Policy(howdah_site::Policy);

#[pymethods]
impl Policy {
    #[new]
    fn new() -> PyResult<Self> {
        let found = howdah_site::Policy::in_force(Places::of_this_host());
        found.map(Self).map_err(refuse)
    }

    #[getter]
    fn keep_logins(&self) -> bool {
        self.0.keep_logins
    }

    #[pyo3(signature = (*, encrypt))]
    fn check_plaintext(&self, encrypt: bool) -> PyResult<()> {
        self.0.check_plaintext(encrypt).map_err(refuse)
    }

    #[pyo3(signature = (*, delete))]
    fn check_delete(&self, delete: bool) -> PyResult<()> {
        self.0.check_delete(delete).map_err(refuse)
    }

    fn check_programs(&self) -> PyResult<()> {
        self.0.check_programs().map_err(refuse)
    }

    fn check_far_end(&self, host: &str) -> PyResult<()> {
        self.0.check_far_end(host).map_err(refuse)
    }

    #[pyo3(signature = (asked))]
    fn ports_of(&self, asked: Option<(u16, u16)>) -> PyResult<Option<(u16, u16)>> {
        self.0.ports_of(asked).map_err(refuse)
    }

    fn rules(&self) -> BTreeMap<String, OsString> {
        let rules = self.0.rules().into_iter();
        rules.map(|(line, file)| (line, file.into())).collect()
    }
}

/// Counts what one copy moves.
#[pyclass(frozen, module = "howdah._native")]
pub struct Quota(Mutex<howdah_site::Quota>);

#[pymethods]
impl Quota {
    #[new]
    fn new(policy: &Policy) -> Self {
        Self(Mutex::new(howdah_site::Quota::new(&policy.0)))
    }

    fn begin(&self, known: Option<u64>) -> PyResult<()> {
        let mut quota = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        quota.begin(known).map_err(refuse)
    }

    fn moved(&self, moved: u64, known: u64) -> PyResult<()> {
        let mut quota = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        quota.moved(moved, known).map_err(refuse)
    }
}

/// What the log of this host is told of a copy that begins here.
#[pyclass(frozen, module = "howdah._native")]
pub struct CopyLog(howdah_site::Copy);

#[pymethods]
impl CopyLog {
    #[new]
    fn new(job: &[u8], peer: &[u8], record: String) -> PyResult<Self> {
        let job = serde_json::from_slice(job).map_err(raise)?;
        let copy = howdah_site::Copy::new(End::Near, &job, Some(peer), Some(record));
        Ok(Self(copy))
    }

    fn begin(&self, py: Python<'_>, policy: &Policy) -> PyResult<()> {
        py.detach(|| self.0.begin(&policy.0)).map_err(refuse)
    }

    #[pyo3(signature = (policy, outcome, account, *, elapsed_s, digests))]
    fn end(
        &self,
        py: Python<'_>,
        policy: Option<&Policy>,
        outcome: &str,
        account: &[u8],
        elapsed_s: f64,
        digests: Option<PathBuf>,
    ) -> PyResult<()> {
        let policy = policy.map(|policy| &policy.0);
        let outcome = serde_json::from_value(outcome.into()).map_err(raise)?;
        let account: howdah_site::Account = serde_json::from_slice(account).map_err(raise)?;
        let (error, digests) = (account.error.as_deref(), digests.as_deref());
        py.detach(|| {
            self.0
                .end(policy, outcome, error, &account, elapsed_s, digests)
        })
        .map_err(refuse)
    }
}

#[pyfunction]
pub fn check_host_pattern(pattern: &str) -> PyResult<()> {
    howdah_site::check_pattern(pattern).map_err(PyValueError::new_err)
}

#[pyfunction]
pub fn host_fits(pattern: &str, host: &str) -> bool {
    howdah_site::fits(pattern, host)
}

#[pyfunction]
pub fn serve(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| howdah_far::serve(&words))
}
