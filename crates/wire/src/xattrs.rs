//! Extended attributes of a file, access lists among them (xattr(7)).

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_NAME_BYTES, MAX_XATTRS_BYTES};

/// What an attribute takes beside its name and value, in bytes, at most.
const EACH_BYTES: usize = 8;

/// One extended attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Xattr {
    /// Its name with its namespace, as `user.checksum`.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// The extended attributes of a file, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xattrs(Vec<Xattr>);

impl Xattrs {
    /// So many, in any order; `None` where they take more than travels.
    pub fn new(mut each: Vec<Xattr>) -> Option<Self> {
        each.sort();
        let all = Self(each);
        all.is_sound().then_some(all)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Xattr> {
        self.0.iter()
    }

    /// The value of one, if there is one of that name.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let at = self.0.binary_search_by(|one| one.name.as_slice().cmp(name));
        at.ok().map(|at| self.0[at].value.as_slice())
    }

    /// What they take, in bytes.
    pub fn bytes(&self) -> usize {
        let each = self.0.iter();
        each.map(|one| one.name.len() + one.value.len() + EACH_BYTES)
            .sum()
    }

    /// Whether they can be those of a file.
    pub(crate) fn is_sound(&self) -> bool {
        let named =
            |one: &Xattr| (1..=MAX_NAME_BYTES).contains(&one.name.len()) && !one.name.contains(&0);
        self.bytes() <= MAX_XATTRS_BYTES
            && self.0.iter().all(named)
            && self.0.windows(2).all(|pair| pair[0].name < pair[1].name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xattr(name: &str, len: usize) -> Xattr {
        Xattr {
            name: name.as_bytes().to_vec(),
            value: vec![1; len],
        }
    }

    #[test]
    fn they_have_an_order_and_a_bound() {
        let all = Xattrs::new(vec![xattr("user.b", 2), xattr("user.a", 1)]).unwrap();
        assert_eq!(all.get(b"user.a"), Some(&[1][..]));
        assert_eq!(all.get(b"user.c"), None);
        assert!(Xattrs::new(vec![xattr("user.b", MAX_XATTRS_BYTES)]).is_none());
        for names in [["user.a", "user.a"], ["", "user.a"], ["a\0b", "user.a"]] {
            assert!(Xattrs::new(names.map(|name| xattr(name, 1)).to_vec()).is_none());
        }
        let wrong = Xattrs(vec![xattr("user.b", 1), xattr("user.a", 1)]);
        assert!(!wrong.is_sound());
    }
}
