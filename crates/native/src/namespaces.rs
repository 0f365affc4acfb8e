//! Binds what `howdah-emulator` knows of namespaces.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::raise;

#[pyfunction]
#[pyo3(signature = (*, user, pid, mount))]
pub fn unshare(user: bool, pid: bool, mount: bool) -> PyResult<()> {
    howdah_emulator::unshare(user, pid, mount).map_err(raise)
}

#[pyfunction]
pub fn die_with_parent() -> PyResult<()> {
    howdah_emulator::die_with_parent().map_err(raise)
}

#[pyfunction]
pub fn drop_capabilities() -> PyResult<()> {
    howdah_emulator::drop_capabilities().map_err(raise)
}

#[pyfunction]
pub fn mount_proc() -> PyResult<()> {
    howdah_emulator::mount_proc().map_err(raise)
}

#[pyfunction]
pub fn bind_mount(source: PathBuf, target: PathBuf) -> PyResult<()> {
    howdah_emulator::bind_mount(&source, &target).map_err(raise)
}
