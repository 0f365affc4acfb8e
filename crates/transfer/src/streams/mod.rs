//! Data streams at work. Pieces are sent by `send` and received by `receive`. Pieces of files are sent by `send_file`
//! and received by `receive_file`, those of pipes by `send_pipe` and `receive_pipe`. A stream may encrypt. `limiter`
//! applies the copy's limit, and `sample` reads the statistics of the sockets.

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
