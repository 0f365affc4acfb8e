//! The entries of a source, as a scan finds them.

use std::sync::Arc;

use howdah_wire::{
    Attributes, Content, Kind as Told, LinkTarget, Offered, OfferedFile, Owner, Special, TreePath,
    XattrsSum,
};

use crate::tree::content::name_hash;

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
    /// Its memory, in bytes, without what it shares with other entries.
    pub fn memory_bytes(&self) -> usize {
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

    /// The offer of it to a receiver.
    pub fn offered(&self) -> OfferedFile {
        let plain = OfferedFile {
            source: self.source,
            path: self.path.clone(),
            kind: Offered::File,
            size: 0,
            mtime_ns: 0,
            mode: 0,
            owner: None,
            xattrs: None,
        };
        let of_kind = |plain, kind| OfferedFile { kind, ..plain };
        match &self.kind {
            Kind::File {
                size,
                attributes,
                xattrs,
                ..
            } => OfferedFile {
                size: *size,
                mtime_ns: attributes.mtime_ns,
                mode: attributes.mode,
                owner: attributes.owner.clone(),
                xattrs: *xattrs,
                ..plain
            },
            Kind::HardLink {
                first_source,
                first,
                size,
                mtime_ns,
            } => OfferedFile {
                kind: Offered::HardLink {
                    first_source: *first_source,
                    first: first.clone(),
                },
                size: *size,
                mtime_ns: *mtime_ns,
                ..plain
            },
            // What the receiver has is not offered again.
            Kind::Attributes { .. } => plain,
            Kind::Folder(_) => of_kind(plain, Offered::Folder),
            Kind::Link { target, .. } => {
                of_kind(plain, Offered::Link(name_hash(target.as_bytes())))
            }
            Kind::Special { kind, device, .. } => {
                let (kind, device) = (*kind, *device);
                of_kind(plain, Offered::Special { kind, device })
            }
        }
    }
}

impl Kind {
    /// Its kind in the list of a dry run.
    pub fn told(&self) -> Told {
        match self {
            Self::File { .. } | Self::Attributes { .. } => Told::File,
            Self::HardLink { .. } => Told::HardLink,
            Self::Folder(_) => Told::Folder,
            Self::Link { .. } => Told::Link,
            Self::Special { .. } => Told::Special,
        }
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

/// A file with more than one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inode {
    /// Device and inode number, from stat(2).
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
    /// Whether it is a folder that is sent.
    pub(super) fn is_folder(&self) -> bool {
        matches!(self, Self::Entry(entry) if entry.is_folder())
    }
}
