//! One session, from the greeting to the account: the control channel and the thread that runs each end.
//!
//! `near` and `far` are the two ends, `sender` and `receiver` the two roles; either end may have either. What
//! comes is read, bounded and judged by `control`, `inbox`, `reachability` and `liveness`, and what leaves waits in
//! `outgoing`.

pub mod control;
pub mod far;
pub mod inbox;
pub mod listing;
pub mod liveness;
pub mod memory;
pub mod names;
pub mod near;
pub mod outgoing;
pub mod reachability;
pub mod receiver;
pub mod removing;
pub mod report;
pub mod sender;
pub mod site;
pub mod steer;
