//! Users and groups of this host by name and number.
//!
//! The C library asks the directories of a site, by shared libraries that it loads. A program without shared libraries
//! must not have it do so, as those of its host are of another C library: it reads the host's files itself.

/// The name of a user.
pub fn user_name(number: u32) -> Option<String> {
    directory::user_name(number)
}

/// The name of a group.
pub fn group_name(number: u32) -> Option<String> {
    directory::group_name(number)
}

/// The number of a user.
pub fn user_number(name: &str) -> Option<u32> {
    directory::user_number(name)
}

/// The number of a group.
pub fn group_number(name: &str) -> Option<u32> {
    directory::group_number(name)
}

#[cfg(not(target_feature = "crt-static"))]
mod directory {
    use nix::unistd::{Gid, Group, Uid, User};

    pub fn user_name(number: u32) -> Option<String> {
        let user = User::from_uid(Uid::from_raw(number)).ok().flatten();
        user.map(|user| user.name)
    }

    pub fn group_name(number: u32) -> Option<String> {
        let group = Group::from_gid(Gid::from_raw(number)).ok().flatten();
        group.map(|group| group.name)
    }

    pub fn user_number(name: &str) -> Option<u32> {
        let user = User::from_name(name).ok().flatten();
        user.map(|user| user.uid.as_raw())
    }

    pub fn group_number(name: &str) -> Option<u32> {
        let group = Group::from_name(name).ok().flatten();
        group.map(|group| group.gid.as_raw())
    }
}

#[cfg(target_feature = "crt-static")]
mod directory {
    use super::{name_of, number_of};
    use std::fs;

    const USERS: &str = "/etc/passwd";
    const GROUPS: &str = "/etc/group";

    pub fn user_name(number: u32) -> Option<String> {
        name_of(&fs::read(USERS).ok()?, number)
    }

    pub fn group_name(number: u32) -> Option<String> {
        name_of(&fs::read(GROUPS).ok()?, number)
    }

    pub fn user_number(name: &str) -> Option<u32> {
        number_of(&fs::read(USERS).ok()?, name)
    }

    pub fn group_number(name: &str) -> Option<u32> {
        number_of(&fs::read(GROUPS).ok()?, name)
    }
}

/// The names and numbers of `/etc/passwd` and `/etc/group`, whose lines begin alike.
#[cfg(any(test, target_feature = "crt-static"))]
fn accounts(file: &[u8]) -> impl Iterator<Item = (&str, u32)> {
    file.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut fields = std::str::from_utf8(line).ok()?.split(':');
        let (name, _, number) = (fields.next()?, fields.next()?, fields.next()?);
        Some((name, number.parse().ok()?))
    })
}

#[cfg(any(test, target_feature = "crt-static"))]
fn name_of(file: &[u8], wanted: u32) -> Option<String> {
    let found = accounts(file).find(|(_, number)| *number == wanted);
    found.map(|(name, _)| name.to_owned())
}

#[cfg(any(test, target_feature = "crt-static"))]
fn number_of(file: &[u8], wanted: &str) -> Option<u32> {
    let found = accounts(file).find(|(name, _)| *name == wanted);
    found.map(|(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_name_nobody_are_passed_over() {
        let file = b"root:x:0:\n+::::::\nhalf:x\nme:x:1000:1000:,,,:/home/me:/bin/sh\n";
        assert_eq!(name_of(file, 1000).as_deref(), Some("me"));
        assert_eq!(name_of(file, 7), None);
        assert_eq!(number_of(file, "root"), Some(0));
        assert_eq!(number_of(file, "half"), None);
    }

    #[test]
    fn root_is_known() {
        assert_eq!(user_number("root"), Some(0));
        assert_eq!(group_name(0).as_deref(), Some("root"));
    }
}
