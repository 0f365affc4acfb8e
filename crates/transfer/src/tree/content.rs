//! The names in the folders of a source, as the sender sends them and the receiver keeps them.

use std::io;
use std::os::fd::AsFd;

use howdah_wire::limits::{MAX_CONTENT_FOLDERS, MAX_CONTENT_NAMES};
use howdah_wire::{Content, NameHash, TreePath};

use crate::error::TransferError;
use crate::tree::spool::Spool;

/// What a name is told by.
pub fn name_hash(name: &[u8]) -> NameHash {
    let mut hash = NameHash::default();
    let len = hash.len();
    hash.copy_from_slice(&blake3::hash(name).as_bytes()[..len]);
    hash
}

/// The names of one folder that is being scanned, on their way into messages.
pub struct Noting {
    source: u16,
    folder: TreePath,
    names: Vec<NameHash>,
}

impl Noting {
    /// No name of this folder yet.
    pub fn new(source: u16, folder: &TreePath) -> Self {
        Self {
            source,
            folder: folder.clone(),
            names: Vec::new(),
        }
    }

    /// Adds a name. Returns a message when it is full.
    pub fn add(&mut self, name: &[u8]) -> Option<Content> {
        self.names.push(name_hash(name));
        (self.names.len() >= MAX_CONTENT_NAMES).then(|| self.message(false))
    }

    /// The message behind the last name.
    pub fn rest(mut self) -> Content {
        self.message(true)
    }

    fn message(&mut self, complete: bool) -> Content {
        Content {
            source: self.source,
            folder: self.folder.clone(),
            names: std::mem::take(&mut self.names),
            complete,
        }
    }
}

/// Names of scanned folders, gathered until they fill a message. Folders are many, and most have few names.
#[derive(Debug, Default)]
pub struct Untold {
    contents: Vec<Content>,
    names: usize,
}

impl Untold {
    /// Adds names of a folder. If they do not fit into the message, returns what was gathered before, to be sent
    /// first.
    pub fn add(&mut self, content: Content) -> Option<Vec<Content>> {
        let full = self.contents.len() >= MAX_CONTENT_FOLDERS
            || self.names + content.names.len() > MAX_CONTENT_NAMES;
        let before = if full { self.take() } else { None };
        self.names += content.names.len();
        self.contents.push(content);
        before
    }

    /// All names that are not sent yet, if there are any.
    pub fn take(&mut self) -> Option<Vec<Content>> {
        self.names = 0;
        let contents = std::mem::take(&mut self.contents);
        (!contents.is_empty()).then_some(contents)
    }
}

/// The names of all folders of all sources, until they are compared with the target.
#[derive(Debug, Default)]
pub struct Contents {
    spool: Spool<Content>,
}

impl Contents {
    /// Adds names of a folder. Names that are too many for memory go to a nameless file in `folder`.
    ///
    /// # Errors
    /// When that file cannot be made or written.
    pub fn add(&mut self, content: &Content, folder: impl AsFd) -> io::Result<()> {
        self.spool.add(content, folder)
    }

    /// Calls `take` for each of them, in the order in which they came.
    ///
    /// # Errors
    /// Errors of `take`, and when they cannot be read back.
    pub fn each(
        &self,
        take: &mut dyn FnMut(Content) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        self.spool.each(take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(names: usize) -> Content {
        Content {
            source: 0,
            folder: TreePath::default(),
            names: vec![[0; 8]; names],
            complete: true,
        }
    }

    #[test]
    fn folders_are_told_together_and_all_of_them() {
        let mut untold = Untold::default();
        let mut messages = Vec::new();
        let sizes = [MAX_CONTENT_NAMES, 0, 1, MAX_CONTENT_NAMES, 7, 7];
        let many = [1; 3 * MAX_CONTENT_FOLDERS];
        let all: Vec<usize> = sizes.into_iter().chain(many).collect();
        for &names in &all {
            messages.extend(untold.add(content(names)));
        }
        messages.extend(untold.take());
        assert_eq!(untold.take(), None);
        let len = |content: &Content| content.names.len();
        for told in &messages {
            assert!((1..=MAX_CONTENT_FOLDERS).contains(&told.len()));
            assert!(told.iter().map(len).sum::<usize>() <= MAX_CONTENT_NAMES);
        }
        assert_eq!(messages.iter().flatten().map(len).collect::<Vec<_>>(), all);
        assert!(messages.len() <= 7);
    }
}
