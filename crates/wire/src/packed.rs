//! Files of an offer, packed. Each path and owner is sent as its difference from the one before it. Files are offered
//! folder by folder, and in a deep tree most of a path is the folder's.

use std::fmt;
use std::sync::Arc;

use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::keep::Owner;
use crate::kind::Offered;
use crate::limits::MAX_OFFERED_FILES;
use crate::message::OfferedFile;
use crate::path::TreePath;
use crate::xattrs::XattrsSum;

/// A file as it is on the wire.
#[derive(Serialize, Deserialize)]
struct Packed {
    source: u16,
    /// How many bytes at the beginning of its path are the same as in the path before it.
    shared: u16,
    rest: Vec<u8>,
    kind: Offered,
    size: u64,
    mtime_ns: i64,
    mode: u32,
    owner: Whose,
    xattrs: Option<XattrsSum>,
}

/// To whom a file belongs.
#[derive(Serialize, Deserialize)]
enum Whose {
    /// That is not kept.
    Untold,
    /// The same user and group as the file before it.
    AsBefore,
    /// To others.
    Of(Arc<Owner>),
}

/// Packs files one behind the other.
///
/// # Errors
/// Of the serializer.
pub fn serialize<S: Serializer>(files: &[OfferedFile], serializer: S) -> Result<S::Ok, S::Error> {
    let mut sequence = serializer.serialize_seq(Some(files.len()))?;
    let mut before: Option<&OfferedFile> = None;
    for file in files {
        let path = file.path.as_bytes();
        let shared = before.map_or(0, |before| shared(before.path.as_bytes(), path));
        let owner = match (&file.owner, before.map(|before| &before.owner)) {
            (None, _) => Whose::Untold,
            (owner, Some(other)) if owner == other => Whose::AsBefore,
            (Some(owner), _) => Whose::Of(Arc::clone(owner)),
        };
        sequence.serialize_element(&Packed {
            source: file.source,
            shared,
            rest: path[usize::from(shared)..].to_vec(),
            kind: file.kind.clone(),
            size: file.size,
            mtime_ns: file.mtime_ns,
            mode: file.mode,
            owner,
            xattrs: file.xattrs,
        })?;
        before = Some(file);
    }
    sequence.end()
}

/// How many bytes two paths begin with alike.
fn shared(one: &[u8], other: &[u8]) -> u16 {
    let alike = one
        .iter()
        .zip(other)
        .take_while(|(one, other)| one == other);
    u16::try_from(alike.count()).unwrap_or(u16::MAX)
}

/// Unpacks the files. A few bytes can stand for a long path, so no more files are unpacked than an offer may have,
/// plus one. By that one the conversation sees that there are too many.
///
/// # Errors
/// When there are more files, when a path shares more or fewer bytes than it says, or when it is no path.
pub fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<OfferedFile>, D::Error> {
    deserializer.deserialize_seq(Unpacking)
}

struct Unpacking;

impl<'de> Visitor<'de> for Unpacking {
    type Value = Vec<OfferedFile>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at most {MAX_OFFERED_FILES} files")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut files: Vec<OfferedFile> = Vec::new();
        while let Some(packed) = sequence.next_element::<Packed>()? {
            if files.len() > MAX_OFFERED_FILES {
                return Err(A::Error::custom("an offer of too many files"));
            }
            let before = files.last();
            let root = TreePath::default();
            let path = before.map_or(&root, |file| &file.path);
            let shared = usize::from(packed.shared);
            // There is one way to say a path, and it is the shortest.
            let next = path.as_bytes().get(shared);
            if next.is_some() && next == packed.rest.first() {
                return Err(A::Error::custom("a path shares too little"));
            }
            let path = path.with_rest(shared, &packed.rest);
            let path = path.map_err(A::Error::custom)?;
            let path = path.ok_or_else(|| A::Error::custom("a path shares too much"))?;
            let owner = match packed.owner {
                Whose::Untold => None,
                Whose::Of(owner) => Some(owner),
                Whose::AsBefore => match before.and_then(|file| file.owner.as_ref()) {
                    Some(owner) => Some(Arc::clone(owner)),
                    None => return Err(A::Error::custom("an owner as one that was not told")),
                },
            };
            files.push(OfferedFile {
                source: packed.source,
                path,
                kind: packed.kind,
                size: packed.size,
                mtime_ns: packed.mtime_ns,
                mode: packed.mode,
                owner,
                xattrs: packed.xattrs,
            });
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::postcard_bytes;
    use crate::keep::Account;
    use crate::limits::MAX_PATH_BYTES;
    use crate::message::Offer;
    use proptest::prelude::*;

    fn file(path: &[u8]) -> OfferedFile {
        OfferedFile {
            source: 0,
            path: TreePath::try_from(path.to_vec()).unwrap(),
            kind: Offered::File,
            size: 7,
            mtime_ns: -1,
            mode: 0o600,
            owner: None,
            xattrs: None,
        }
    }

    fn read(bytes: &[u8]) -> Option<Offer> {
        postcard::from_bytes(bytes).ok()
    }

    #[test]
    fn files_of_one_deep_folder_cost_little_more_than_their_names() {
        let folder = "folder/".repeat(200);
        let paths = (0..MAX_OFFERED_FILES).map(|number| format!("{folder}{number:03}"));
        let files = paths.map(|path| file(path.as_bytes())).collect();
        let offer = Offer { first: 0, files };
        let bytes = postcard_bytes(&offer).unwrap();
        assert!(bytes.len() < folder.len() + 16 * MAX_OFFERED_FILES);
        assert_eq!(read(&bytes), Some(offer));
    }

    #[test]
    fn a_few_bytes_never_become_many_paths() {
        let long = [b"x/".repeat(MAX_PATH_BYTES / 2 - 1).as_slice(), b"x"].concat();
        let most = Offer {
            first: 0,
            files: vec![file(&long); MAX_OFFERED_FILES],
        };
        let bytes = postcard_bytes(&most).unwrap();
        assert_eq!(read(&bytes), Some(most.clone()));
        let files = vec![file(&long); MAX_OFFERED_FILES + 2];
        let more = postcard_bytes(&Offer { first: 0, files }).unwrap();
        assert!(more.len() < 2 * bytes.len());
        assert_eq!(read(&more), None);
    }

    #[test]
    fn owners_are_told_where_they_change() {
        let owner = |number| {
            let account = Account {
                number,
                name: Some("someone".into()),
            };
            Some(Arc::new(Owner {
                user: account.clone(),
                group: account,
            }))
        };
        let owners = [None, owner(1), owner(1), owner(2), None, owner(2)];
        let files = owners
            .map(|owner| OfferedFile {
                owner,
                ..file(b"a")
            })
            .to_vec();
        let offer = Offer { first: 0, files };
        let bytes = postcard_bytes(&offer).unwrap();
        assert_eq!(
            bytes.windows(7).filter(|some| some == b"someone").count(),
            6
        );
        assert_eq!(read(&bytes), Some(offer));
    }

    #[test]
    fn a_path_shares_what_there_was_and_stays_one() {
        let packed = |shared: u8, rest: &[u8]| {
            // The first of two files, and then the second: source, shared, rest, kind, size, time, mode, none, none.
            let first = [0, 0, 3, b'a', b'/', b'b', 0, 1, 0, 0, 0, 0];
            let len = u8::try_from(rest.len()).unwrap();
            let second = [&[0, shared, len][..], rest, &[0, 1, 0, 0, 0, 0]].concat();
            read(&[&[0, 2][..], &first, &second].concat())
        };
        let second = |offer: Option<Offer>| Some(offer?.files[1].path.as_bytes().to_vec());
        assert_eq!(second(packed(2, b"c")), Some(b"a/c".to_vec()));
        assert_eq!(second(packed(0, b"")), Some(Vec::new()));
        assert_eq!(packed(4, b""), None);
        assert_eq!(packed(1, b"/c"), None);
        assert_eq!(packed(2, b"../c"), None);
        assert_eq!(packed(2, b""), None);
    }

    proptest! {
        #[test]
        fn all_files_come_back(paths in prop::collection::vec("[ab]{1,3}(/[ab]{1,3}){0,4}", 0..40)) {
            let files = paths.iter().map(|path| file(path.as_bytes())).collect();
            let offer = Offer { first: 3, files };
            prop_assert_eq!(read(&postcard_bytes(&offer).unwrap()), Some(offer));
        }

        #[test]
        fn any_bytes_are_an_offer_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(offer) = read(&bytes) {
                prop_assert!(offer.files.len() <= MAX_OFFERED_FILES);
            }
        }
    }
}
