//! Digests of files (crates/digest).

use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

use howdah_digest::Algorithm;
use pyo3::prelude::*;

use crate::raise;
use crate::transfer::own;

/// Which algorithm a list of digests has, and of how many files.
#[pyfunction]
#[pyo3(signature = (file, algorithm, name))]
pub fn examine_digests(
    py: Python<'_>,
    file: &[u8],
    algorithm: Option<&str>,
    name: &[u8],
) -> PyResult<(String, u64)> {
    let given = algorithm.map(algorithm_named).transpose()?;
    let examined = py.detach(|| {
        let opened = File::open(OsStr::from_bytes(file)).map_err(|error| error.to_string())?;
        howdah_digest::examine(BufReader::new(opened), given, name)
            .map_err(|error| error.to_string())
    });
    let examined = examined.map_err(raise)?;
    Ok((examined.algorithm.name().to_owned(), examined.files))
}

/// The algorithm that the name of a list ends in.
#[pyfunction]
pub fn algorithm_of_list(name: &[u8]) -> Option<&'static str> {
    Algorithm::of_list(name).map(Algorithm::name)
}

/// A line of a list of digests.
#[pyfunction]
pub fn digest_line(digest: &str, name: &[u8]) -> PyResult<Vec<u8>> {
    let mut line = Vec::new();
    howdah_digest::write_line(&mut line, digest, name).map_err(raise)?;
    Ok(line)
}

/// Carries out a check for whoever holds the other ends; returns the exit code.
#[pyfunction]
pub fn check_digests(py: Python<'_>, read_fd: RawFd, write_fd: RawFd) -> PyResult<u8> {
    let (read, write) = own(read_fd, write_fd)?;
    Ok(u8::from(!py.detach(|| howdah_digest::serve(read, write))))
}

fn algorithm_named(name: &str) -> PyResult<Algorithm> {
    Algorithm::named(name.as_bytes())
        .ok_or_else(|| raise(format!("{name} is no algorithm of digests")))
}
