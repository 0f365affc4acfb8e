//! How data streams come to be: the near end dials, the far end listens and tells strangers from its own.
//! A connection that breaks is replaced.

pub mod connections;
pub mod dial;
pub mod door;
pub mod shaking;
pub mod strangers;
