//! What a copy keeps of files beside names, contents, times and modes: what its user asks for.

use serde::{Deserialize, Serialize};

/// What is kept. The near end's user asks for it, and the receiver applies nothing else, whatever the sender says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// Names of one file stay names of one file.
    pub hard_links: bool,
    /// Runs of zeros become holes.
    pub sparse: bool,
}
