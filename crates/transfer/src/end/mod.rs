//! What all threads of one end of a transfer share: the job, how far it is, and how it is stopped.

pub mod abort;
pub mod context;
pub mod digests;
pub mod lines;
pub mod naming;
pub mod open_files;
pub mod spent;
pub mod tuning;
