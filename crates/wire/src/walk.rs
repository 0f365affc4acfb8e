//! How a sender goes through its sources, as rsync's options say it.

use serde::{Deserialize, Serialize};

/// What of the sources is looked at. By default all of them, with links as links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Walk {
    /// Folders of another file system than that of their source are made, and nothing in them is looked at.
    pub one_file_system: bool,
    /// What becomes of symbolic links.
    pub links: Links,
    /// Links that lead out of what is copied are left out.
    pub safe_links: bool,
}

/// Which symbolic links are copied as what they lead to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Links {
    /// None.
    #[default]
    Kept,
    /// Those that lead out of what is copied.
    Unsafe,
    /// All.
    Followed,
}
