//! What there is to send, as a scan comes upon it.

use std::sync::Arc;

use howdah_wire::{Attributes, Content, LinkTarget, Owner, Special, TreePath, XattrsSum};

/// One thing to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Index of its source.
    pub source: u16,
    /// Path below the source.
    pub path: TreePath,
    /// What it is.
    pub kind: Kind,
}

impl Entry {
    /// What it takes of memory, in bytes, but for what it shares with others.
    pub fn held_bytes(&self) -> usize {
        let other_name = match &self.kind {
            Kind::HardLink { first, .. } => first.as_bytes().len(),
            Kind::Link { target, .. } => target.as_bytes().len(),
            _ => 0,
        };
        size_of::<Self>() + self.path.as_bytes().len() + other_name
    }

    /// Whether it is a folder.
    pub(super) fn is_folder(&self) -> bool {
        matches!(self.kind, Kind::Folder(_))
    }
}

/// What an [`Entry`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File {
        /// Its size in bytes.
        size: u64,
        /// Its mode and modification time.
        attributes: Attributes,
        /// What tells its other names, if it has any.
        inode: Option<Inode>,
        /// What tells its extended attributes, if they are kept and can be read.
        xattrs: Option<XattrsSum>,
    },
    /// A file that the receiver has, but for its extended attributes.
    Attributes {
        /// Its size in bytes.
        size: u64,
        /// Its mode, modification time and owner.
        attributes: Attributes,
    },
    /// Another name of a file that was found before.
    HardLink {
        /// Index of the source that the first name belongs to.
        first_source: u16,
        /// The first name, below that source.
        first: TreePath,
        /// The file's size in bytes.
        size: u64,
        /// Its modification time, in nanoseconds since 1970.
        mtime_ns: i64,
    },
    /// A folder.
    Folder(Attributes),
    /// A symbolic link, sent as such.
    Link {
        /// Where it points.
        target: LinkTarget,
        /// Its modification time, in nanoseconds since 1970.
        mtime_ns: i64,
        /// To whom it belongs, if that is kept.
        owner: Option<Arc<Owner>>,
    },
    /// A device, a FIFO or a socket.
    Special {
        /// Its mode and modification time.
        attributes: Attributes,
        /// What it is.
        kind: Special,
        /// The major and the minor number of a device.
        device: (u32, u32),
    },
}

/// A file of more than one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inode {
    /// Device and number, as stat(2) says them.
    pub number: (u64, u64),
    /// How many names it has.
    pub names: u64,
}

/// What a scan comes upon.
#[derive(Debug)]
pub enum Found {
    /// Something to send.
    Entry(Entry),
    /// A special file, or what an interrupted copy has left, which is left out; a line that says so.
    Special(String),
    /// Something that cannot be read; a line that says why.
    Unreadable(String),
    /// Names in a folder, of sources that note them.
    Content(Content),
}

impl Found {
    /// Whether it is a folder to send.
    pub(super) fn is_folder(&self) -> bool {
        matches!(self, Self::Entry(entry) if entry.is_folder())
    }
}
