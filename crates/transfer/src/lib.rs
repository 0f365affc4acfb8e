//! The data plane: sessions, streams, files.
//!
//! [`Session`] is the near end of one transfer, [`serve`] the far one. Either may send. The modules follow a byte on
//! its way: `session` greets and receives the job, `tree` reads files, `connect` and `streams` carry them, encrypted
//! by [`tls`], and `tree` puts them in place. `end` is shared by all threads of one end. One thread handles events,
//! each stream has one, and the control channel has two.

mod connect;
mod end;
mod error;
mod session;
mod streams;
pub mod tls;
mod tree;

pub use connect::ahead::connect_ahead;
#[doc(hidden)]
pub use connect::connections;
pub use error::TransferError;
pub use session::far::{FarEnd, serve};
pub use session::near::Session;
pub use session::site::{Overseer, Site};
#[doc(hidden)]
pub use streams::kept;
pub use streams::stream;
#[doc(hidden)]
pub use tree::assembly;
#[doc(hidden)]
pub use tree::journal::Journal;
#[doc(hidden)]
pub use tree::names::NamesFile;
pub use tree::reach::Reach;
#[doc(hidden)]
pub use tree::{needed, part, place, special_files, spool, target};
