//! How data streams are connected. The near end dials. The far end listens, and admits the peers that prove that they
//! belong to the session. A connection that breaks is replaced. A port that may be closed is tried first.

pub mod ahead;
pub mod connections;
pub mod detour;
pub mod dial;
pub mod near_port;
pub mod other_family;
pub mod pending;
pub mod setup;
pub mod tried_port;
