//! One link as a pure model in virtual time: rate, delay, loss, queue, schedule. No I/O, no clock.
//!
//! Times are nanoseconds since the link began; sizes are bytes on the wire. A segment offered to a
//! [`Direction`] is either dropped (with a cause) or arrives at an instant that is known at once,
//! because the schedule of changes is known beforehand. What is held to be true, and tested:
//!
//! - the bottleneck is a fluid server: it serves exactly ∫rate dt, over changes and outages too;
//! - the queue is drop-tail in bytes and counts what the server has not served yet;
//! - what the queue took is lost or not by the state of the link as it leaves the server, each wire
//!   segment by itself; the loss still took its time on the wire;
//! - arrival = departure + delay + jitter, and nothing overtakes.

mod direction;
mod loss;
mod schedule;
mod service;
mod spec;

pub use direction::{Burst, Cause, Direction, Drops, Queue, Run, Verdict};
pub use spec::{Change, DirectionSpec, GilbertElliott, Spec, SpecError};
