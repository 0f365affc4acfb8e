//! One session, from the greeting to the account: the control channel and the thread that runs each end.
//!
//! `near_end` and `far` are the two ends, `sender` and `receiver` the two roles; either end may have either, and
//! `between` is a near end that has neither, because two far ends have them. `near` is what the owner of a near end
//! holds. Before the job it has its `greeting`, and has the far end try `ports` and expand patterns (`expanding`).
//! `job` reads what is asked for. What comes is read, bounded and judged by `control`, `inbox`, `reachability` and
//! `liveness`, and what leaves waits in `outgoing`. The receiver says to offers what `answering` has, after `comparing`
//! where files are told by their content, which `digesting` reads at both ends.

pub mod answering;
pub mod between;
pub mod comparing;
pub mod control;
pub mod digesting;
pub mod expanding;
pub mod far;
pub mod greeting;
pub mod inbox;
pub mod job;
pub mod listing;
pub mod liveness;
pub mod memory;
pub mod names;
pub mod near;
pub mod near_end;
pub mod outgoing;
pub mod ports;
pub mod reachability;
pub mod receiver;
pub mod removing;
pub mod report;
pub mod sender;
pub mod site;
pub mod steer;
