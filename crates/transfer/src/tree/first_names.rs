//! Hard links: which names that a scan finds belong to one file.
//!
//! Memory is only needed for files with names that are not found yet. A file is forgotten when its last name is
//! found.

use std::collections::HashMap;

use howdah_wire::TreePath;

use crate::tree::entry::{Entry, Kind};

/// The first name of each file with several names.
#[derive(Debug, Default)]
pub struct FirstNames(HashMap<(u64, u64), First>);

#[derive(Debug)]
struct First {
    source: u16,
    path: TreePath,
    /// Names that were not found yet.
    left: u64,
}

impl FirstNames {
    /// The entry as it is sent. Another name of a file that was found before becomes a link to its first name.
    pub fn link(&mut self, entry: Entry) -> Entry {
        let Kind::File {
            size,
            ref attributes,
            inode: Some(inode),
            ..
        } = entry.kind
        else {
            return entry;
        };
        let Some(first) = self.0.get_mut(&inode.number) else {
            let first = First {
                source: entry.source,
                path: entry.path.clone(),
                left: inode.names - 1,
            };
            self.0.insert(inode.number, first);
            return entry;
        };
        first.left -= 1;
        let kind = Kind::HardLink {
            first_source: first.source,
            first: first.path.clone(),
            size,
            mtime_ns: attributes.mtime_ns,
        };
        if first.left == 0 {
            self.0.remove(&inode.number);
        }
        Entry { kind, ..entry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::entry::Inode;
    use howdah_wire::Attributes;

    #[test]
    fn a_file_is_known_until_its_last_name_is_found() {
        let mut names = FirstNames::default();
        let entry = |source, path: &[u8], names| Entry {
            source,
            path: TreePath::try_from(path.to_vec()).unwrap(),
            kind: Kind::File {
                size: 3,
                attributes: Attributes {
                    mode: 0o644,
                    mtime_ns: 7,
                    owner: None,
                    xattrs: None,
                },
                xattrs: None,
                inode: Some(Inode {
                    number: (1, 2),
                    names,
                }),
            },
        };
        let first = entry(0, b"a", 3);
        assert_eq!(names.link(first.clone()), first);
        for (source, path) in [(0, b"b"), (1, b"c")] {
            let Kind::HardLink { first, .. } = names.link(entry(source, path, 3)).kind else {
                panic!("it is another name");
            };
            assert_eq!(first.as_bytes(), b"a");
        }
        assert!(names.0.is_empty());
        let alone = entry(0, b"d", 3);
        assert_eq!(names.link(alone.clone()), alone);
    }
}
