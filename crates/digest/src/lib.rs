//! Digests of files: the [`Algorithm`]s, lists of digests as other tools write them ([`Manifest`]), and files
//! read from their disk and checked against a list by many threads ([`check`], [`serve`]).

mod algorithm;
mod check;
mod disk;
mod extra;
mod manifest;
mod serve;
mod slices;
mod work;

pub use algorithm::{Algorithm, Hasher, hex};
pub use check::{Asked, Event, Finding, Summary, What, check};
pub use manifest::{Entry, Examined, Manifest, ManifestError, examine, write_line};
pub use serve::{Job, serve};
