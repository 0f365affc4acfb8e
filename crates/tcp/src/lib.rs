//! TCP sockets: congestion control, buffers, pacing, TCP_INFO, RTT and host limits.
//!
//! - [`SocketPlan`] says how a socket shall be; [`Settings`] what the kernel made of it.
//! - [`connect_first`], [`listen`] and [`accept`] apply a plan early enough to count.
//! - [`Info`] is `TCP_INFO` with units; [`Info::limited_by`] says what held a sender back.
//! - [`ssh_rtt`] reads the RTT of the connection that sshd serves us over.
//! - [`HostLimits`] is what this network namespace allows at all.

mod buffers;
mod control;
mod diag;
mod error;
mod info;
mod limits;
mod open;
mod option;
mod plan;

pub use buffers::tune_again;
pub use control::{
    allowed_controls, available_controls, congestion_control, set_congestion_control, try_control,
};
pub use diag::{Rtt, connection_info, controls::connection_controls, ssh_ends, ssh_rtt};
#[doc(hidden)]
pub use diag::{controls::tally, parse_answer};
pub use error::Error;
pub use info::{Info, Limit};
pub use limits::HostLimits;
pub use open::{Bound, Patience, accept, bind, bind_within, connect_again, connect_first, listen};
pub use plan::{Settings, SocketPlan, bound_rate};
