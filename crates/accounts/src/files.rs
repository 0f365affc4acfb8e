//! `/etc/passwd` and `/etc/group`, whose lines begin alike: name, password, number. Lines that name nobody are passed
//! over.

use super::User;

/// The users of `/etc/passwd`.
pub fn users(file: &[u8]) -> impl Iterator<Item = User> {
    lines(file).filter_map(|fields| {
        let &[name, _, number, _, _, home, _] = &fields[..] else {
            return None;
        };
        Some(User {
            name: name.to_owned(),
            number: number.parse().ok()?,
            home: home.into(),
        })
    })
}

/// The groups of `/etc/group`: name and number.
#[cfg_attr(
    not(any(target_feature = "crt-static", test)),
    expect(dead_code, reason = "the C library is asked")
)]
pub fn groups(file: &[u8]) -> impl Iterator<Item = (&str, u32)> {
    lines(file).filter_map(|fields| match fields[..] {
        [name, _, number, _] => Some((name, number.parse().ok()?)),
        _ => None,
    })
}

fn lines(file: &[u8]) -> impl Iterator<Item = Vec<&str>> {
    file.split(|&byte| byte == b'\n')
        .filter_map(|line| Some(std::str::from_utf8(line).ok()?.split(':').collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_name_nobody_are_passed_over() {
        let file = b"root:x:0:0:root:/root:/bin/bash\n+::::::\nhalf:x:7\nme:x:1000:1000:,,,:/home/me:/bin/sh\n\xff:x:9:9::/:\n";
        let found: Vec<_> = users(file).map(|user| (user.name, user.number)).collect();
        assert_eq!(found, [("root".to_owned(), 0), ("me".to_owned(), 1000)]);
        let me = users(file).last().unwrap();
        assert_eq!(me.home, std::path::Path::new("/home/me"));
        let groups: Vec<_> = groups(b"root:x:0:\n+:::\nhalf:x\nusers:x:100:me,you\n").collect();
        assert_eq!(groups, [("root", 0), ("users", 100)]);
    }
}
