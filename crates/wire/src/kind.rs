//! The kind of an entry in a dry run, which offers and lists all kinds, and not only regular files.

use serde::{Deserialize, Serialize};

use crate::keep::Special;
use crate::path::TreePath;
use crate::removal::NameHash;

/// The kind of an entry in the list of a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// Another name of a file that is copied.
    HardLink,
    /// A device, a FIFO or a socket.
    Special,
}

/// The kind of an offered entry. Only a dry run offers other kinds than files. A copy sends those without an offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Offered {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, by the first bytes of the BLAKE3 digest of where it points.
    Link(NameHash),
    /// Another name of a file that was offered before.
    HardLink {
        /// Index of the source that the first name belongs to.
        first_source: u16,
        /// The first name, below that source.
        first: TreePath,
    },
    /// A device, a FIFO or a socket.
    Special {
        /// What it is.
        kind: Special,
        /// The major and the minor number of a device.
        device: (u32, u32),
    },
}

impl Offered {
    /// Its kind in a list.
    pub fn kind(&self) -> Kind {
        match self {
            Self::File => Kind::File,
            Self::Folder => Kind::Folder,
            Self::Link(_) => Kind::Link,
            Self::HardLink { .. } => Kind::HardLink,
            Self::Special { .. } => Kind::Special,
        }
    }
}
