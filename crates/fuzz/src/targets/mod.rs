//! The targets, by what they read.

use crate::model;

mod control;
mod datagrams;
mod filters;
mod host;
mod kernel;
mod lists;
mod parts;
mod pieces;
mod text;
mod tls;

/// A function that takes any bytes and asserts what must hold of them.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, which its file of kept inputs has too.
    pub name: &'static str,
    /// The function.
    pub run: fn(&[u8]),
    /// Inputs that reach far from the beginning.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

macro_rules! targets {
    ($($module:ident :: $name:ident),* $(,)?) => {
        /// All targets.
        pub const TARGETS: &[Target] = &[$(Target {
            name: stringify!($name),
            run: $module::$name::run,
            seeds: $module::$name::seeds,
        }),*];
    };
}

targets! {
    control::frames,
    control::conversation,
    pieces::headers,
    pieces::access_lists,
    pieces::greetings,
    pieces::arrivals,
    pieces::paths,
    tls::records,
    tls::opening,
    datagrams::traffic,
    datagrams::probes,
    datagrams::offload,
    kernel::tcp_info,
    kernel::sock_diag,
    filters::rules,
    text::printable,
    text::units,
    text::link,
    lists::digest_lists,
    lists::verify_jobs,
    lists::name_lists,
    parts::part_journals,
    host::forced_logins,
    host::requests,
    host::policies,
    model::transfer,
}

/// The target of that name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
