//! A copy between two far ends, which this process has both, and the session that starts it.

mod copies;
mod far_ends;
mod lies;
mod removal;

use far_ends::{Far, HERE, PATIENCE, base, between, greeted, run, run_with, start};
