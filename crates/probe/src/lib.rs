//! Round trips by ICMP echo and by UDP: what was sent, what came back, and when.
//!
//! - [`Schedule`] says when which probe is due, [`Account`] what became of each, [`arrival`] when one came;
//!   the three do no I/O.
//! - [`Prober`] sends and receives on a thread of its own; [`Responder`] answers its UDP probes.

mod account;
mod arrival;
mod error;
#[doc(hidden)]
pub mod packet;
mod prober;
mod responder;
mod schedule;
mod socket;

pub use account::{Account, Counts, Look, Verdict};
pub use arrival::{Arrival, Reading, arrival};
pub use error::Error;
pub use packet::{PROBE_BYTES, Token};
pub use prober::{Prober, Taken, Wanted};
pub use responder::Responder;
pub use schedule::{Burst, Due, Rhythm, Schedule, Slot};
pub use socket::ProbeKind;
