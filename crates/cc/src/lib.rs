//! Congestion control as BPF programs, loaded into the running kernel without a module or a reboot.
//!
//! - [`PROGRAMS`] are the programs of howdah. Each has a folder in `controls`, with the program in BPF C and its
//!   reference model. The model has the parameters with default, range and unit.
//! - [`Store`] loads them so that they outlive the process, swaps them while connections use them, unloads them, sets
//!   the target of `hd_hold`, and attaches controls to other programs' connections.
//! - [`Memory`] is what earlier transfers to a destination carried. With it `hd_resume` begins new connections there.
//! - [`Shares`] are rates that several connections hold together during a lease.
//! - [`Trial`] registers one for as long as it lives.

use std::collections::BTreeMap;

mod attach;
mod cgroups;
mod connections;
mod error;
mod kernel;
mod layout;
mod loader;
mod lock;
mod log;
mod manage;
mod memories;
mod mounts;
mod namespaces;
mod network;
mod pins;
mod program;
mod rules;
mod shares;
mod target;
mod trial;

pub use attach::Attaching;
pub use cgroups::Cgroup;
pub use connections::{Connection, Hold};
pub use error::Error;
pub use kernel::check as check_kernel;
pub use layout::Target;
pub use manage::{Listed, Loaded, Loading, Unloading};
pub use memories::{Destination, Memory, Resumed, Saved};
pub use namespaces::Namespace;
pub use network::{Network, Ports};
pub use pins::Store;
pub use program::{PROGRAMS, Program, Setting};
pub use rules::{Place, Rule};
pub use shares::{Placing, Share, Shares};
pub use target::{FlowName, Targeted};
pub use trial::Trial;

/// Counts of connections by congestion control, in all network namespaces that this process can enter.
pub fn connection_counts() -> Result<BTreeMap<String, usize>, Error> {
    let mut counts = howdah_tcp::connection_controls()?;
    let others = Namespace::all().into_iter().skip(1);
    for found in
        others.filter_map(|each| each.inside(|| Ok(howdah_tcp::connection_controls()?)).ok())
    {
        for (name, count) in found {
            *counts.entry(name).or_insert(0) += count;
        }
    }
    Ok(counts)
}

impl Store {
    /// All connections and listeners of all network namespaces. This needs root.
    pub fn connections(&self) -> Result<Vec<Connection>, Error> {
        kernel::check()?;
        let _lock = self.open()?;
        connections::Census::take(self).map(|census| census.all)
    }
}
