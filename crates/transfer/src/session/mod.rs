//! One session, from the greeting to the final report: the control channel, and the thread that runs each end.
//!
//! `near_end` and `far` are the two ends. `sender` and `receiver` are the two roles, and each end may have either.
//! `between` is a near end without a role, because two far ends have them. `near` is the near end as its owner uses
//! it. `greeting`, `ports` and `expanding` come before the job, and `job` reads it. `control`, `inbox`,
//! `reachability` and `liveness` read and check what comes. `outgoing` queues what leaves. `answering` answers
//! offers. For copies that compare files by their content, `comparing` puts the answers off until `digesting` has
//! read the files at both ends.

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
