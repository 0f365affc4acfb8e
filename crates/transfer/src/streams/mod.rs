//! What travels on data streams: pieces leave by `send`, files among them by `send_file`, and arrive by
//! `receive`, over a stream that may encrypt; `limiter` holds them to the copy's limit, `sample` watches the sockets.

pub mod kept;
pub mod limiter;
pub mod plain;
pub mod receive;
pub mod sample;
pub mod send;
mod send_file;
pub mod stream;
