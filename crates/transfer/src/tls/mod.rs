//! Encrypted data streams: records of TLS 1.3, under keys that the ends agree on through the ssh channel.
//!
//! There is no handshake ([`keys`]). The record layer is our own, so that data is not copied: files are read into the
//! records in which they are sent, and received data is used where it was decrypted.

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
