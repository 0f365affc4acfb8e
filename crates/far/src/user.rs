//! Users as `/etc/passwd` names them. A program without shared libraries cannot ask the directories of a site.

use std::fs;
use std::path::PathBuf;

const FILE: &str = "/etc/passwd";

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The home folder.
    pub home: PathBuf,
}

/// The user of a number; `None` where the file does not name it.
pub fn of(number: u32) -> Option<User> {
    named(&fs::read(FILE).ok()?, number)
}

fn named(file: &[u8], number: u32) -> Option<User> {
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
        let me = named(file, 1000).unwrap();
        assert_eq!((me.name.as_str(), me.home), ("me", "/home/me".into()));
        assert_eq!(named(file, 7), None);
        assert_eq!(named(file, 4711), None);
    }
}
