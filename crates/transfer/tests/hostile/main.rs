//! A near end that lies, and strangers at the far end's door.

mod liar;
#[path = "../listing/mod.rs"]
mod listing;
mod pieces;
mod strangers;
mod words;
