//! Owners and groups of files, by number and name, looked up in the host's own directories.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use howdah_accounts::{group_name, group_number, user_number};
use howdah_wire::limits::MAX_ACCOUNT_BYTES;
use howdah_wire::{Account, Keep, Owner};
use nix::unistd::Gid;
use rustix::fs::Stat;

use crate::end::abort::lock;

/// Answers that are remembered, at most, of each kind.
const MAX_KNOWN: usize = 4096;

/// Remembered answers of directories, because a lookup may use a network.
#[derive(Debug)]
struct Known<K, V>(Mutex<HashMap<K, V>>);

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Known<K, V> {
    fn get(&self, key: &K, ask: impl FnOnce() -> V) -> V {
        if let Some(answer) = lock(&self.0).get(key) {
            return answer.clone();
        }
        let answer = ask();
        let mut known = lock(&self.0);
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(key.clone(), answer.clone());
        answer
    }
}

/// The names that this host sends for users and groups.
#[derive(Debug, Default)]
pub struct HostNames {
    keep: Keep,
    users: Known<u32, Option<String>>,
    groups: Known<u32, Option<String>>,
}

impl HostNames {
    /// The lookup of names, if names are sent.
    pub fn new(keep: Keep) -> Self {
        Self {
            keep,
            ..Self::default()
        }
    }

    /// A user as it is told.
    pub fn user(&self, number: u32) -> Account {
        self.account(number, &self.users, user_name)
    }

    /// A group as it is told.
    pub fn group(&self, number: u32) -> Account {
        self.account(number, &self.groups, group_name)
    }

    fn account(
        &self,
        number: u32,
        known: &Known<u32, Option<String>>,
        ask: fn(u32) -> Option<String>,
    ) -> Account {
        // Root is root everywhere, whatever it is called, and the last number stands for none (chown(2)).
        let told = !self.keep.numeric_ids && !matches!(number, 0 | u32::MAX);
        let fits = |name: &String| (1..=MAX_ACCOUNT_BYTES).contains(&name.len());
        let name = told.then(|| known.get(&number, || ask(number).filter(fits)));
        Account {
            number,
            name: name.flatten(),
        }
    }
}

/// The owners of a sender's files.
#[derive(Debug, Default)]
pub struct Senders {
    keep: Keep,
    /// What they are called.
    pub names: HostNames,
    known: Known<(u32, u32), Arc<Owner>>,
}

impl Senders {
    /// The lookup of owners, as far as they are kept.
    pub fn new(keep: Keep) -> Self {
        Self {
            keep,
            names: HostNames::new(keep),
            known: Known::default(),
        }
    }

    /// The user and group of a file, if they are kept.
    pub fn of(&self, stat: &Stat) -> Option<Arc<Owner>> {
        if !self.keep.tells_owners() {
            return None;
        }
        let (user, group) = (stat.st_uid, stat.st_gid);
        Some(self.known.get(&(user, group), || {
            Arc::new(Owner {
                user: self.names.user(user),
                group: self.names.group(group),
            })
        }))
    }
}

/// The owners that a receiver gives files.
#[derive(Debug, Default)]
pub struct Receivers {
    keep: Keep,
    /// Whether files can be given to anybody.
    privileged: bool,
    /// The groups to which files can be given otherwise.
    groups: Vec<u32>,
    users_known: Known<String, Option<u32>>,
    groups_known: Known<String, Option<u32>>,
}

impl Receivers {
    /// The owners that are set, as far as they are kept and this process can set them.
    pub fn new(keep: Keep, privileged: bool) -> Self {
        let groups = match keep.group && !privileged {
            true => own_groups(),
            false => Vec::new(),
        };
        Self {
            keep,
            privileged,
            groups,
            users_known: Known::default(),
            groups_known: Known::default(),
        }
    }

    /// The user and the group that a file gets, by number; absent if it keeps its own.
    pub fn of(&self, owner: &Owner) -> (Option<u32>, Option<u32>) {
        let user = (self.keep.owner && self.privileged).then(|| self.user(&owner.user));
        let group = self.keep.group.then(|| self.group(&owner.group));
        let group = group.filter(|group| self.privileged || self.groups.contains(group));
        (user, group)
    }

    /// The number on this host of a sender's user.
    pub fn user(&self, told: &Account) -> u32 {
        self.number(told, &self.users_known, user_number)
    }

    /// The number on this host of a sender's group.
    pub fn group(&self, told: &Account) -> u32 {
        self.number(told, &self.groups_known, group_number)
    }

    fn number(
        &self,
        told: &Account,
        known: &Known<String, Option<u32>>,
        ask: fn(&str) -> Option<u32>,
    ) -> u32 {
        let name = told.name.as_ref().filter(|_| !self.keep.numeric_ids);
        let here = name.and_then(|name| known.get(name, || ask(name)));
        here.unwrap_or(told.number)
    }
}

fn user_name(number: u32) -> Option<String> {
    howdah_accounts::user(number).map(|user| user.name)
}

fn own_groups() -> Vec<u32> {
    let mut groups = nix::unistd::getgroups().unwrap_or_default();
    groups.push(nix::unistd::getegid());
    groups.into_iter().map(Gid::as_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(user: (u32, Option<&str>), group: (u32, Option<&str>)) -> Owner {
        let account = |(number, name): (u32, Option<&str>)| Account {
            number,
            name: name.map(str::to_owned),
        };
        Owner {
            user: account(user),
            group: account(group),
        }
    }

    const ALL: Keep = Keep {
        perms: true,
        times: true,
        omit_dir_times: false,
        hard_links: false,
        sparse: false,
        owner: true,
        group: true,
        numeric_ids: false,
        devices: false,
        specials: false,
        top: false,
        xattrs: false,
        acls: false,
    };

    #[test]
    fn a_name_that_is_known_here_counts_and_the_number_otherwise() {
        let told = owner(
            (4711, Some("root")),
            (4712, Some("no such group of any host")),
        );
        let all = Receivers::new(ALL, true);
        assert_eq!(all.of(&told), (Some(0), Some(4712)));
        let numbers = Keep {
            numeric_ids: true,
            ..ALL
        };
        let numbers = Receivers::new(numbers, true);
        assert_eq!(numbers.of(&told), (Some(4711), Some(4712)));
        let group = Keep {
            owner: false,
            ..ALL
        };
        assert_eq!(Receivers::new(group, true).of(&told), (None, Some(4712)));
        assert_eq!(
            Receivers::new(Keep::default(), true).of(&told),
            (None, None)
        );
    }

    #[test]
    fn who_is_not_root_gives_files_to_own_groups_alone() {
        let all = Receivers::new(ALL, false);
        let own = nix::unistd::getegid().as_raw();
        assert_eq!(all.of(&owner((4711, None), (own, None))), (None, Some(own)));
        let strange = (0..).find(|group| !all.groups.contains(group)).unwrap();
        assert_eq!(all.of(&owner((0, None), (strange, None))), (None, None));
    }

    #[test]
    fn a_sender_tells_owners_if_they_are_kept_and_root_without_a_name() {
        let file = tempfile::tempfile().unwrap();
        let mut stat = rustix::fs::fstat(&file).unwrap();
        assert_eq!(Senders::default().of(&stat), None);
        (stat.st_uid, stat.st_gid) = (0, 0);
        let root = Senders::new(ALL).of(&stat).unwrap();
        assert_eq!(*root, owner((0, None), (0, None)));
        // The user that Debian, Fedora and others have at this number.
        (stat.st_uid, stat.st_gid) = (1, 4_000_000_000);
        let other = Senders::new(ALL).of(&stat).unwrap();
        assert_eq!(other.user.name, user_name(1));
        assert_eq!(other.group, owner((0, None), (4_000_000_000, None)).group);
    }
}
