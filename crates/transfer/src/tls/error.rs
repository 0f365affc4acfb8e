//! What rustls refuses, as an error of a stream.

use crate::streams::stream::StreamError;

pub(super) fn unusable(error: rustls::Error) -> StreamError {
    StreamError::Handshake(error.to_string())
}
