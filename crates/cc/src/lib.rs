//! Congestion control as BPF programs, loaded into the running kernel without a module or a reboot.
//!
//! - [`PROGRAMS`] are what we bring: a name, parameters with default, range and unit, one file of
//!   BPF C each (`src/bpf`).
//! - [`Candidate`] is one of them verified by the kernel; [`Candidate::register`] makes it a congestion
//!   control that sockets may choose.

mod error;
mod kernel;
mod loader;
mod log;
mod parameter;
mod program;

pub use error::Error;
pub use kernel::check as check_kernel;
pub use loader::{Candidate, Registered};
pub use parameter::{Parameter, Setting, Unit};
pub use program::{PROGRAMS, Program};
