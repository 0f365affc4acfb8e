//! The data plane: sessions, streams, files.
