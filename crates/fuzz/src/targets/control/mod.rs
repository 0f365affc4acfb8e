//! The control channel: its bytes, and who may say what when.

pub mod conversation;
pub mod frames;
mod ledger;
