//! How a sender goes through its sources. The options are those of rsync.

use serde::{Deserialize, Serialize};

/// Which parts of the sources are read. By default all of them, and links are copied as links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Walk {
    /// Whether folders on another file system than their source are made without what is in them.
    pub one_file_system: bool,
    /// How symbolic links are copied.
    pub links: Links,
    /// Whether links that point outside the copied tree are left out.
    pub safe_links: bool,
}

/// Which symbolic links are followed: the file or folder that they point to is copied in their place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Links {
    /// None.
    #[default]
    Kept,
    /// Those that point outside the copied tree.
    Unsafe,
    /// All.
    Followed,
}
