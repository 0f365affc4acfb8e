//! The Python extension module, thin: each file binds one crate, nothing decides here.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

mod cc;
mod cc_model;
mod cc_resume;
mod cc_shares;
mod digest;
mod emulator;
mod filter;
mod namespaces;
mod probe;
mod site;
mod tcp;
mod text;
mod traffic;
mod transfer;
mod units;

pyo3::create_exception!(
    howdah._native,
    HowdahError,
    pyo3::exceptions::PyException,
    "What was wrong, where, and what to do, in one line meant for the user."
);

pyo3::create_exception!(
    howdah._native,
    Refused,
    HowdahError,
    "A policy does not allow what was asked for."
);

/// Hands an error's message to Python as a `HowdahError`.
fn raise(error: impl std::fmt::Display) -> PyErr {
    HowdahError::new_err(error.to_string())
}

#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::HowdahError;
    #[pymodule_export]
    use super::Refused;
    #[pymodule_export]
    use super::cc::{
        CcTrial, cc_attach, cc_cgroup, cc_check_kernel, cc_check_place, cc_check_settings,
        cc_check_target, cc_connections, cc_counts, cc_default_target, cc_detach, cc_list, cc_load,
        cc_rules, cc_set, cc_shares, cc_unload,
    };
    #[pymodule_export]
    use super::cc_model::cc_model;
    #[pymodule_export]
    use super::cc_resume::{cc_check_saved, cc_forget, cc_memories, cc_remember};
    #[pymodule_export]
    use super::cc_shares::CcShares;
    #[pymodule_export]
    use super::digest::{algorithm_of_list, check_digests, digest_line, examine_digests};
    #[pymodule_export]
    use super::emulator::{Emulator, LinkMark, check_link};
    #[pymodule_export]
    use super::filter::expand_filters;
    #[pymodule_export]
    use super::namespaces::{bind_mount, die_with_parent, drop_capabilities, mount_proc, unshare};
    #[pymodule_export]
    use super::probe::{Prober, Responder};
    #[pymodule_export]
    use super::site::{CopyLog, Policy, Quota, check_host_pattern, host_fits, serve};
    #[pymodule_export]
    use super::tcp::host_limits;
    #[pymodule_export]
    use super::text::printable;
    #[pymodule_export]
    use super::traffic::{UdpSink, UdpSource};
    #[pymodule_export]
    use super::transfer::{Session, connect_ahead};
    #[pymodule_export]
    use super::units::{
        format_bytes, format_duration, format_rate, parse_bytes, parse_duration, parse_fraction,
        parse_rate,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let programs = PyTuple::new(module.py(), howdah_cc::Program::names())?;
        module.add("CC_PROGRAMS", programs)?;
        module.add("PROTOCOL_VERSION", howdah_wire::PROTOCOL_VERSION)
    }
}
