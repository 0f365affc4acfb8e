//! Reference models of congestion control: what a kernel does at each ACK, in virtual time. No I/O.
//!
//! A [`Control`] is one algorithm; [`Algorithm`] names them. A [`Simulation`] runs one over a [`Path`]
//! and records the window of each round. Windows are segments, times inside an algorithm µs.
//!
//! Where all models differ from Linux, and why:
//!
//! - Time is µs; Linux counts jiffies (1 to 10 ms), so its sums are rounded more.
//! - A lost segment is detected when its ACK would have come. There is no reordering and no timeout, and so no state
//!   `Loss`.
//! - A window also grows if the sender had too little data to fill it. A sender has endless data, unless it is made
//!   by [`Simulation::silent`].

mod ack;
mod algorithm;
pub mod controls;
mod experiment;
mod parameter;
mod path;
mod simulation;
mod trace;
mod window;

pub use ack::{Ack, Control, Written};
pub use algorithm::{About, AfterLoss, Algorithm, Model};
pub use experiment::{Experiment, ExperimentError};
pub use parameter::{Parameter, ParameterError, Unit, Values};
pub use path::{Path, PathError};
pub use simulation::Simulation;
pub use trace::{Cut, Round, Trace};
pub use window::Window;
