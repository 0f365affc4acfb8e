//! What travels on data streams: pieces leave by `send` and arrive by `receive`, over a stream that may
//! encrypt, and `sample` watches the sockets.

pub mod kept;
pub mod plain;
pub mod receive;
pub mod sample;
pub mod send;
pub mod stream;
