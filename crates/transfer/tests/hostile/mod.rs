//! A near end that lies, and strangers at the far end's door.

pub mod liar;
mod pieces;
mod strangers;
mod words;
