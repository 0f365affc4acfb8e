//! Users of this host, by number.

use std::path::PathBuf;

/// A user as this host names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The home folder.
    pub home: PathBuf,
}

/// What to say, and what to do, where [`of`] finds nobody.
#[cfg(not(target_feature = "crt-static"))]
pub const NOBODY: (&str, &str) = ("it has no user", "; add the user");
/// What to say, and what to do, where [`of`] finds nobody.
#[cfg(target_feature = "crt-static")]
pub const NOBODY: (&str, &str) = (
    "its /etc/passwd has no user",
    ", and a far end that was brought asks nothing else; install howdah on it",
);

/// The user of a number, by this host's own name service: the directory of a site, too; `None`: it names none.
#[cfg(not(target_feature = "crt-static"))]
pub fn of(number: u32) -> Option<User> {
    let user = nix::unistd::User::from_uid(number.into()).ok()??;
    Some(User {
        name: user.name,
        home: user.dir,
    })
}

/// The user of a number, by `/etc/passwd`: a program without shared libraries cannot ask the directory of a site.
#[cfg(target_feature = "crt-static")]
pub fn of(number: u32) -> Option<User> {
    in_file(&std::fs::read("/etc/passwd").ok()?, number)
}

#[cfg(any(test, target_feature = "crt-static"))]
fn in_file(file: &[u8], number: u32) -> Option<User> {
    String::from_utf8_lossy(file).lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let &[name, _, id, _, _, home, _] = &fields[..] else {
            return None;
        };
        (id.parse() == Ok(number)).then(|| User {
            name: name.to_owned(),
            home: home.into(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number_and_lines_that_are_none_are_passed_over() {
        let file = b"root:x:0:0:root:/root:/bin/bash\n+::::::\nhalf:x:7\nme:x:1000:1000:,,,:/home/me:/bin/sh\n";
        let me = in_file(file, 1000).unwrap();
        assert_eq!((me.name.as_str(), me.home), ("me", "/home/me".into()));
        assert_eq!(in_file(file, 7), None);
        assert_eq!(in_file(file, 4711), None);
    }

    #[test]
    fn root_is_a_user_everywhere() {
        assert_eq!(of(0).unwrap().name, "root");
        assert_eq!(of(u32::MAX - 4711), None);
    }
}
