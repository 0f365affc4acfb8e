//! Users and groups of this host by name and number.
//!
//! The C library asks the directories of a site, by shared libraries that it loads. A program without shared libraries
//! must not have it do so, as those of its host are of another C library: it reads the host's files itself.

#[cfg(any(test, target_feature = "crt-static"))]
mod files;

use std::path::PathBuf;

/// Whether `/etc/passwd` and `/etc/group` are all that is asked.
pub const FILES_ALONE: bool = cfg!(target_feature = "crt-static");

/// A user as this host names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The number.
    pub number: u32,
    /// The home folder.
    pub home: PathBuf,
}

/// The user of a number; `None`: this host knows none.
pub fn user(number: u32) -> Option<User> {
    directory::user(number)
}

/// The number of a user.
pub fn user_number(name: &str) -> Option<u32> {
    directory::user_number(name)
}

/// The name of a group.
pub fn group_name(number: u32) -> Option<String> {
    directory::group_name(number)
}

/// The number of a group.
pub fn group_number(name: &str) -> Option<u32> {
    directory::group_number(name)
}

#[cfg(not(target_feature = "crt-static"))]
mod directory {
    use nix::unistd::{Gid, Group, Uid};

    use super::User;

    pub fn user(number: u32) -> Option<User> {
        let user = nix::unistd::User::from_uid(Uid::from_raw(number)).ok()??;
        Some(User {
            name: user.name,
            number,
            home: user.dir,
        })
    }

    pub fn user_number(name: &str) -> Option<u32> {
        let user = nix::unistd::User::from_name(name).ok()??;
        Some(user.uid.as_raw())
    }

    pub fn group_name(number: u32) -> Option<String> {
        let group = Group::from_gid(Gid::from_raw(number)).ok()??;
        Some(group.name)
    }

    pub fn group_number(name: &str) -> Option<u32> {
        let group = Group::from_name(name).ok()??;
        Some(group.gid.as_raw())
    }
}

#[cfg(target_feature = "crt-static")]
mod directory {
    use std::fs;

    use super::{User, files};

    const USERS: &str = "/etc/passwd";
    const GROUPS: &str = "/etc/group";

    pub fn user(number: u32) -> Option<User> {
        files::users(&fs::read(USERS).ok()?).find(|user| user.number == number)
    }

    pub fn user_number(name: &str) -> Option<u32> {
        let file = fs::read(USERS).ok()?;
        let user = files::users(&file).find(|user| user.name == name)?;
        Some(user.number)
    }

    pub fn group_name(number: u32) -> Option<String> {
        let file = fs::read(GROUPS).ok()?;
        let (name, _) = files::groups(&file).find(|(_, other)| *other == number)?;
        Some(name.to_owned())
    }

    pub fn group_number(name: &str) -> Option<u32> {
        let file = fs::read(GROUPS).ok()?;
        let (_, number) = files::groups(&file).find(|(other, _)| *other == name)?;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_everywhere() {
        assert_eq!(user(0).unwrap().name, "root");
        assert_eq!(user_number("root"), Some(0));
        assert_eq!(group_name(0).as_deref(), Some("root"));
        assert_eq!(group_number("root"), Some(0));
        assert_eq!(user(u32::MAX - 4711), None);
    }
}
