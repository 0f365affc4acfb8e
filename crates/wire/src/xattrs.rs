//! Extended attributes of a file, access lists and flags among them (xattr(7), chattr(1)).

use serde::{Deserialize, Serialize};

use crate::access_list::Who;
use crate::flags::FileFlags;
use crate::keep::Account;
use crate::limits::{MAX_NAME_BYTES, MAX_XATTRS_BYTES};

/// The most bytes that an attribute takes beside its name and value, and an account beside its name.
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
pub struct Xattrs {
    each: Vec<Xattr>,
    names: AccountNames,
    /// Its flags; absent where they are not kept, or its file system has none.
    pub flags: Option<FileFlags>,
}

/// A digest by which the extended attributes of two files are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct XattrsSum {
    /// Part of a digest of the attributes, including access lists.
    pub digest: u64,
    /// The flags; absent where they are not kept, or the file system has none.
    pub flags: Option<FileFlags>,
}

/// The sender's names of the users and groups in its access lists, in the order of their numbers. Those without a
/// name are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountNames {
    /// Users.
    pub users: Vec<Account>,
    /// Groups.
    pub groups: Vec<Account>,
}

impl Xattrs {
    /// These attributes, given in any order; `None` if they are too long to be sent.
    pub fn new(each: Vec<Xattr>) -> Option<Self> {
        Self::with_names(each, AccountNames::default())
    }

    /// The same, with names.
    pub fn with_names(mut each: Vec<Xattr>, names: AccountNames) -> Option<Self> {
        each.sort();
        let all = Self {
            each,
            names,
            flags: None,
        };
        all.is_sound().then_some(all)
    }

    /// Checks attributes that another end sends.
    #[cfg(test)]
    pub(crate) fn unchecked(each: Vec<Xattr>, names: AccountNames) -> Self {
        Self {
            each,
            names,
            flags: None,
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Xattr> {
        self.each.iter()
    }

    /// The value of the attribute with that name, if there is one.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let at = self
            .each
            .binary_search_by(|one| one.name.as_slice().cmp(name));
        at.ok().map(|at| self.each[at].value.as_slice())
    }

    /// The sender's name of a user or a group.
    pub fn name_of(&self, who: Who) -> Option<&Account> {
        let (accounts, number) = match who {
            Who::User(number) => (&self.names.users, number),
            Who::Group(number) => (&self.names.groups, number),
            Who::Other => return None,
        };
        let at = accounts.binary_search_by_key(&number, |account| account.number);
        at.ok().map(|at| &accounts[at])
    }

    /// Their length, in bytes.
    pub fn bytes(&self) -> usize {
        let each = self.each.iter();
        let each = each.map(|one| one.name.len() + one.value.len() + EACH_BYTES);
        let accounts = self.names.users.iter().chain(&self.names.groups);
        let names = accounts.map(|account| account.name.as_ref().map_or(0, String::len));
        each.chain(names.map(|len| len + EACH_BYTES)).sum()
    }

    /// Whether a file can have them.
    pub(crate) fn is_sound(&self) -> bool {
        let named =
            |one: &Xattr| (1..=MAX_NAME_BYTES).contains(&one.name.len()) && !one.name.contains(&0);
        self.bytes() <= MAX_XATTRS_BYTES
            && self.each.iter().all(named)
            && self.each.windows(2).all(|pair| pair[0].name < pair[1].name)
            && self.names.is_sound()
    }
}

impl AccountNames {
    fn is_sound(&self) -> bool {
        [&self.users, &self.groups].into_iter().all(|accounts| {
            accounts.iter().all(|account| account.is_named())
                && accounts
                    .windows(2)
                    .all(|pair| pair[0].number < pair[1].number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_ACCOUNT_BYTES;

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
        let turned = vec![xattr("user.b", 1), xattr("user.a", 1)];
        let wrong = Xattrs::unchecked(turned, AccountNames::default());
        assert!(!wrong.is_sound());
    }

    fn account(number: u32, name: &str) -> Account {
        Account {
            number,
            name: Some(name.to_owned()),
        }
    }

    #[test]
    fn names_have_an_order_and_a_bound_too() {
        let with = |users: Vec<Account>| {
            let groups = vec![account(7, "seven")];
            Xattrs::with_names(Vec::new(), AccountNames { users, groups })
        };
        let all = with(vec![account(7, "me"), account(8, "you")]).unwrap();
        assert_eq!(all.name_of(Who::User(8)), Some(&account(8, "you")));
        assert_eq!(all.name_of(Who::Group(7)), Some(&account(7, "seven")));
        assert_eq!(all.name_of(Who::Group(8)), None);
        assert_eq!(all.name_of(Who::Other), None);
        let nameless = Account {
            number: 7,
            name: None,
        };
        let long = "x".repeat(MAX_ACCOUNT_BYTES);
        let many = MAX_XATTRS_BYTES / MAX_ACCOUNT_BYTES;
        for wrong in [
            vec![account(8, "you"), account(7, "me")],
            vec![account(7, "me"), account(7, "me")],
            vec![account(0, "root")],
            vec![account(u32::MAX, "nobody")],
            vec![account(7, "")],
            vec![account(7, "a\0b")],
            vec![account(7, &"x".repeat(MAX_ACCOUNT_BYTES + 1))],
            vec![nameless],
            (1..=many as u32)
                .map(|number| account(number, &long))
                .collect(),
        ] {
            assert!(with(wrong.clone()).is_none(), "{wrong:?}");
        }
    }
}
