//! TLS 1.3 on the data streams, under keys that the ends exchange through the ssh channel.
//!
//! Each end makes an [`Identity`] for the session and tells the other its public key over ssh,
//! which has authenticated both. The handshake is rustls with raw public keys (RFC 7250); each
//! end accepts the announced key and nothing else. Then the traffic keys go to a record layer of
//! our own, because it can do without copies: files are read into the records they leave in, and
//! lent to the reader where they were decrypted.

mod error;
mod handshake;
mod identity;
#[doc(hidden)]
pub mod record;
mod stream;

pub use handshake::{Acceptor, Connector};
pub use identity::Identity;
#[doc(hidden)]
pub use stream::Rekey;
pub use stream::TlsStream;

#[cfg(test)]
mod tests;
