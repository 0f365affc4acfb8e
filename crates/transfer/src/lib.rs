//! The data plane: sessions, streams, files.
//!
//! [`Session`] is the near end of one transfer, [`serve`] the far one. Either may send. Each end is
//! one thread that handles what happens (`sender`, `receiver`), one blocking thread for each
//! stream (`send`, `receive`), and two for the control channel (`control`).

mod abort;
mod assembly;
mod commit;
mod connections;
mod context;
mod control;
mod dial;
mod digests;
mod door;
mod draft;
mod durable;
mod error;
mod folders;
mod inbox;
mod kept;
mod lines;
mod listing;
mod liveness;
mod memory;
mod naming;
mod outgoing;
mod place;
pub mod plain;
mod queue;
mod receive;
mod receiver;
mod report;
mod sample;
mod send;
mod sender;
mod serve;
mod session;
mod shaking;
mod source;
mod spot;
mod steer;
mod strangers;
pub mod stream;
mod target;
pub mod tls;
mod tuning;
mod write_behind;

pub use error::TransferError;
pub use serve::serve;
pub use session::Session;
