//! Encrypted data streams: records of TLS 1.3, under keys that the ends agree on through the ssh channel.
//!
//! There is no handshake ([`keys`]). The record layer is our own, because it can do without copies: files are read into
//! the records they leave in, and lent to the reader where they were decrypted.

mod keys;
#[doc(hidden)]
pub mod record;
mod stream;

pub use keys::{Checked, Identity, OPENING_BYTES, SessionKeys};
#[doc(hidden)]
pub use keys::{Direction, Secret};
pub use stream::TlsStream;

#[cfg(test)]
mod tests;
