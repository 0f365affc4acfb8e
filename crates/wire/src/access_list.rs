//! Access lists in the form in which Linux keeps them in attributes: who may do what, by number (acl(5),
//! `linux/posix_acl_xattr.h`).

/// Name of the attribute with a folder's default list, which new files and folders in it get.
pub const DEFAULT_LIST: &str = "system.posix_acl_default";
/// Names of the two attributes with access lists: a file's own list, and a folder's default list.
pub const ACCESS_LISTS: [&[u8]; 2] = [b"system.posix_acl_access", DEFAULT_LIST.as_bytes()];

/// The only version that there is.
const VERSION: u32 = 2;
const ENTRY_BYTES: usize = 8;
/// An entry of a user that is told by number.
const USER: u16 = 0x02;
/// An entry of a group that is told by number.
const GROUP: u16 = 0x08;

/// Whom an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A user, by number.
    User(u32),
    /// A group, by number.
    Group(u32),
    /// The owner, the owner's group, the mask or all others.
    Other,
}

/// One entry of an access list, in the order in which Linux wants them: by tag, and then by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    tag: u16,
    number: u32,
    may: u16,
}

impl Entry {
    fn read(bytes: [u8; ENTRY_BYTES]) -> Self {
        let [tag_low, tag_high, may_low, may_high, number @ ..] = bytes;
        Self {
            tag: u16::from_le_bytes([tag_low, tag_high]),
            number: u32::from_le_bytes(number),
            may: u16::from_le_bytes([may_low, may_high]),
        }
    }

    /// Whom it is about.
    pub fn who(self) -> Who {
        match self.tag {
            USER => Who::User(self.number),
            GROUP => Who::Group(self.number),
            _ => Who::Other,
        }
    }

    /// What it is and what it allows, without a number.
    pub fn what(self) -> (u16, u16) {
        (self.tag, self.may)
    }
}

/// The entries of an access list; `None` if the value of the attribute is no access list.
pub fn entries(value: &[u8]) -> Option<Vec<Entry>> {
    let (version, rest) = value.split_first_chunk()?;
    let (each, rest) = rest.as_chunks();
    (u32::from_le_bytes(*version) == VERSION && rest.is_empty())
        .then(|| each.iter().copied().map(Entry::read).collect())
}

/// The value of an attribute with the same entries, in order, for the numbers that `here` gives in place of the old
/// ones. If two entries get the same number they become one, which allows what either of them allowed.
pub fn with_numbers(entries: Vec<Entry>, here: impl Fn(Who) -> Option<u32>) -> Vec<u8> {
    let mut entries = entries;
    for entry in &mut entries {
        entry.number = here(entry.who()).unwrap_or(entry.number);
    }
    entries.sort_unstable();
    entries.dedup_by(|next, kept| {
        let same = next.who() != Who::Other && next.who() == kept.who();
        if same {
            kept.may &= next.may;
        }
        same
    });
    let mut value = VERSION.to_le_bytes().to_vec();
    for Entry { tag, number, may } in entries {
        value.extend(tag.to_le_bytes());
        value.extend(may.to_le_bytes());
        value.extend(number.to_le_bytes());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NONE: u32 = u32::MAX;

    fn value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for &(tag, may, number) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(may.to_le_bytes());
            value.extend(number.to_le_bytes());
        }
        value
    }

    #[test]
    fn numbers_change_and_their_order_with_them() {
        let there = [
            (1, 7, NONE),
            (USER, 4, 10),
            (USER, 6, 20),
            (4, 5, NONE),
            (GROUP, 1, 10),
            (GROUP, 2, 20),
            (0x10, 7, NONE),
            (0x20, 0, NONE),
        ];
        let read = entries(&value(&there)).unwrap();
        assert_eq!(read[1].who(), Who::User(10));
        assert_eq!(read[5].who(), Who::Group(20));
        assert_eq!(read[6].who(), Who::Other);
        assert_eq!(with_numbers(read.clone(), |_| None), value(&there));
        let here = with_numbers(read, |who| match who {
            Who::User(10) => Some(30),
            Who::Group(20) => Some(5),
            _ => None,
        });
        let expected = [
            (1, 7, NONE),
            (USER, 6, 20),
            (USER, 4, 30),
            (4, 5, NONE),
            (GROUP, 2, 5),
            (GROUP, 1, 10),
            (0x10, 7, NONE),
            (0x20, 0, NONE),
        ];
        assert_eq!(here, value(&expected));
    }

    #[test]
    fn two_that_become_one_may_do_what_both_may() {
        let read = entries(&value(&[(USER, 6, 10), (USER, 3, 20), (GROUP, 4, 20)])).unwrap();
        let here = with_numbers(read, |_| Some(7));
        assert_eq!(here, value(&[(USER, 2, 7), (GROUP, 4, 7)]));
    }

    #[test]
    fn what_is_no_access_list_has_no_entries() {
        let right = value(&[(1, 7, NONE)]);
        assert!(entries(&right).is_some());
        assert_eq!(entries(&right[..11]), None);
        assert_eq!(entries(&right[..3]), None);
        let mut other = right;
        other[0] = 3;
        assert_eq!(entries(&other), None);
    }

    proptest! {
        #[test]
        fn any_list_comes_in_order_and_stays_so(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(read) = entries(&bytes) {
                let once = with_numbers(read, |_| None);
                prop_assert!(once.len() <= bytes.len());
                let again = with_numbers(entries(&once).unwrap(), |_| None);
                prop_assert_eq!(again, once);
            }
        }
    }
}
