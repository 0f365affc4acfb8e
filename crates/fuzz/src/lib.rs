//! Fuzz targets: every parser of bytes from elsewhere, and both ends of a transfer in one model.
//!
//! A target is a function that takes any bytes and asserts what must hold of them. It is run in two ways:
//! by libFuzzer, which follows the coverage (`make fuzz`), and on any stable compiler by [`drive`], which
//! changes the kept inputs at random from a seed (`cargo test -p howdah-fuzz`). Both begin with the kept
//! inputs, a file a target in `corpus/`; [`corpus`] says how they are made.

pub mod corpus;
pub mod drive;
mod input;
mod memory;
mod message;
mod model;
mod mutate;
mod shown;
mod targets;

pub use targets::{TARGETS, Target, find};
