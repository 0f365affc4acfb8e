//! The data plane: sessions, streams, files.
//!
//! [`Session`] is the near end of one transfer, [`serve`] the far one. Either may send. The folders follow
//! a byte on its way: `session` greets and takes the job, `tree` reads it, `connect` and `streams` carry it,
//! sealed by [`tls`], and `tree` puts it in place. `end` is what all threads of one end share: one that
//! handles what happens, one for each stream, two for the control channel.

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
