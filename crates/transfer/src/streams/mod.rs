//! What travels on data streams: pieces leave by `send` and arrive by `receive`, files among them by `send_file` and
//! `receive_file`, those of pipes by `send_pipe` and `receive_pipe`, over a stream that may encrypt. `limiter` holds
//! them to the copy's limit, `sample` watches the sockets.

pub mod kept;
pub mod limiter;
pub mod plain;
pub mod receive;
mod receive_file;
mod receive_pipe;
pub mod sample;
pub mod send;
mod send_file;
mod send_pipe;
pub mod stream;
