//! Paths that cannot leave the folder they are relative to.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_NAME_BYTES, MAX_PATH_BYTES};

/// Why bytes are no [`TreePath`] or [`LinkTarget`].
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
    /// When the name is no single name or the path becomes too long.
    pub fn join(&self, name: &[u8]) -> Result<Self, PathError> {
        if name.is_empty() || name.contains(&b'/') {
            return Err(PathError::Escapes);
        }
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        if !self.is_root() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Self::try_from(bytes)
    }
}

impl TryFrom<Vec<u8>> for TreePath {
    type Error = PathError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, PathError> {
        if bytes.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        if bytes.contains(&0) {
            return Err(PathError::Nul);
        }
        if !bytes.is_empty() {
            for name in bytes.split(|&byte| byte == b'/') {
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
