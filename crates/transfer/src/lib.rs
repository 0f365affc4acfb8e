//! The data plane: sessions, streams, files.

pub mod plain;
pub mod stream;
pub mod tls;
