//! What travels on data streams: pieces leave by `send`, files among them by `send_file`, and arrive by
//! `receive`, over a stream that may encrypt; `sample` watches the sockets.

pub mod kept;
pub mod plain;
pub mod receive;
pub mod sample;
pub mod send;
mod send_file;
pub mod stream;
