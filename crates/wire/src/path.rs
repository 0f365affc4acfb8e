//! Paths that cannot leave the folder they are relative to.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_NAME_BYTES, MAX_PATH_BYTES};

/// Why bytes are not a [`TreePath`] or [`LinkTarget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Longer than [`MAX_PATH_BYTES`], or a name longer than [`MAX_NAME_BYTES`].
    #[error("path is too long")]
    TooLong,
    /// Holds a NUL byte.
    #[error("path holds a NUL byte")]
    Nul,
    /// An empty name, `.` or `..`: absolute, or leading elsewhere.
    #[error("path leads out of its folder")]
    Escapes,
    /// A link target without a byte.
    #[error("link target is empty")]
    Empty,
}

/// A path below one source: names joined by `/`, none of them empty, `.` or `..`.
/// The empty path is the source itself. Names are bytes; they need not be UTF-8.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct TreePath(Box<[u8]>);

impl TreePath {
    /// The bytes of the path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is the source itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path of `name` inside this folder.
    ///
    /// # Errors
    /// When the name is not a single name, or the path becomes too long.
    pub fn join(&self, name: &[u8]) -> Result<Self, PathError> {
        if name.is_empty() || name.contains(&b'/') {
            return Err(PathError::Escapes);
        }
        let slash: &[u8] = if self.is_root() { b"" } else { b"/" };
        let known = self.0.len() + slash.len();
        Self::checked([&self.0, slash, name].concat(), known)
    }

    /// The path of the first `shared` bytes of this path, followed by `rest`; `None` if this path is shorter.
    ///
    /// # Errors
    /// When that is no path.
    pub fn with_rest(&self, shared: usize, rest: &[u8]) -> Result<Option<Self>, PathError> {
        let Some(shared) = self.0.get(..shared) else {
            return Ok(None);
        };
        let slash = shared.iter().rposition(|&byte| byte == b'/');
        let known = slash.map_or(0, |slash| slash + 1);
        Self::checked([shared, rest].concat(), known).map(Some)
    }

    /// A path of which the first `known` bytes are whole names, each with its slash, that were checked before: most of a deep
    /// tree's paths are.
    fn checked(bytes: Vec<u8>, known: usize) -> Result<Self, PathError> {
        if bytes.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        let new = &bytes[known..];
        if new.contains(&0) {
            return Err(PathError::Nul);
        }
        if !bytes.is_empty() {
            for name in new.split(|&byte| byte == b'/') {
                if matches!(name, b"" | b"." | b"..") {
                    return Err(PathError::Escapes);
                }
                if name.len() > MAX_NAME_BYTES {
                    return Err(PathError::TooLong);
                }
            }
        }
        Ok(Self(bytes.into()))
    }
}

impl TryFrom<Vec<u8>> for TreePath {
    type Error = PathError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, PathError> {
        Self::checked(bytes, 0)
    }
}

impl From<TreePath> for Vec<u8> {
    fn from(path: TreePath) -> Self {
        path.0.into()
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// Where a symbolic link points; kept as it is and never followed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct LinkTarget(Box<[u8]>);

impl LinkTarget {
    /// The bytes of the target.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<Vec<u8>> for LinkTarget {
    type Error = PathError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, PathError> {
        match bytes.len() {
            0 => Err(PathError::Empty),
            len if len >= MAX_PATH_BYTES => Err(PathError::TooLong),
            _ if bytes.contains(&0) => Err(PathError::Nul),
            _ => Ok(Self(bytes.into())),
        }
    }
}

impl From<LinkTarget> for Vec<u8> {
    fn from(target: LinkTarget) -> Self {
        target.0.into()
    }
}

impl fmt::Debug for LinkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(bytes: &[u8]) -> Result<TreePath, PathError> {
        TreePath::try_from(bytes.to_vec())
    }

    #[test]
    fn refuses_whatever_leads_elsewhere() {
        for bytes in [
            "/etc/passwd",
            "..",
            "a/../b",
            "a/..",
            ".",
            "./a",
            "a//b",
            "a/",
            "/",
            "a/./b",
        ] {
            assert_eq!(path(bytes.as_bytes()), Err(PathError::Escapes), "{bytes}");
        }
        assert_eq!(path(b"a\0b"), Err(PathError::Nul));
        assert_eq!(path(&[b'x'; 256]), Err(PathError::TooLong));
        assert_eq!(path(&b"xx/".repeat(1400)[..4199]), Err(PathError::TooLong));
    }

    #[test]
    fn keeps_odd_names() {
        for bytes in [
            b"".as_slice(),
            b"...",
            b"..a/b..",
            b"new\nline",
            b"\xff\xfe",
            b" ",
        ] {
            assert_eq!(path(bytes).unwrap().as_bytes(), bytes);
        }
    }

    #[test]
    fn a_joined_name_is_one_name() {
        let folder = path(b"a").unwrap();
        assert_eq!(folder.join(b"b").unwrap().as_bytes(), b"a/b");
        assert_eq!(TreePath::default().join(b"b").unwrap().as_bytes(), b"b");
        for name in [b"b/c".as_slice(), b"", b"..", b"/"] {
            assert_eq!(folder.join(name), Err(PathError::Escapes));
        }
    }

    proptest! {
        #[test]
        fn a_path_made_of_another_is_one_that_would_be_accepted(
            one in "[ab.]{1,3}(/[ab.]{1,3}){0,4}",
            shared in 0usize..24,
            rest in prop::collection::vec(prop::sample::select(&b"./a\0b"[..]), 0..8),
        ) {
            let Ok(one) = path(one.as_bytes()) else { return Ok(()) };
            let made = one.with_rest(shared, &rest);
            match one.as_bytes().get(..shared) {
                None => prop_assert_eq!(made, Ok(None)),
                Some(shared) => {
                    let whole = [shared, &rest[..]].concat();
                    prop_assert_eq!(made, path(&whole).map(Some));
                }
            }
            let joined = [one.as_bytes(), b"/", &rest[..]].concat();
            let expected = match rest.contains(&b'/') {
                true => Err(PathError::Escapes),
                false => path(&joined),
            };
            prop_assert_eq!(one.join(&rest), expected);
        }

        #[test]
        fn an_accepted_path_stays_inside(bytes in prop::collection::vec(prop::sample::select(&b"./a\0b"[..]), 0..24)) {
            if let Ok(path) = path(&bytes) {
                let mut depth = 0i32;
                for name in path.as_bytes().split(|&b| b == b'/') {
                    prop_assert!(name != b"..");
                    depth += i32::from(!name.is_empty());
                }
                prop_assert!(!path.as_bytes().starts_with(b"/") && depth >= i32::from(!path.is_root()));
            }
        }
    }
}
