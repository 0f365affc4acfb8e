//! Expands sources with wildcards at the end that has the files, as a shell there does: `*`, `?` and `[…]` in each
//! name of a path. A name that begins with a dot matches only a pattern that begins with a dot.
//!
//! Deviations from a shell: if a file has the literal name of the pattern, only that file is meant. A pattern that
//! matches nothing is an error. Each path comes once.

use std::collections::HashSet;

use howdah_filter::matches;
use howdah_wire::limits::{MAX_FRAME_BYTES, MAX_PATH_BYTES, MAX_SOURCES};
use howdah_wire::printable;
use rustix::fs::{Dir, OFlags};
use rustix::io::Errno;

use crate::error::TransferError;
use crate::tree::part::is_part_name;
use crate::tree::reach::Reach;
use crate::tree::target::expand_home;
use crate::tree::unfinished::MARK;

/// Most paths that a pattern may lead to on the way, before its last name.
const MAX_ON_THE_WAY: usize = 1 << 16;
/// Most names that are looked at for all patterns.
const MAX_LOOKED_AT: usize = 10_000_000;

/// The paths that a near end's sources stand for: each path as it is, or all matches of a pattern, in order.
///
/// # Errors
/// When a pattern matches nothing, or there are too many matches in all.
pub fn expand(
    patterns: &[Vec<u8>],
    reach: &Reach,
    home: Option<&[u8]>,
) -> Result<Vec<Vec<u8>>, TransferError> {
    let mut looking = Looking {
        reach,
        looked_at: 0,
    };
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    for pattern in patterns {
        for path in looking.paths_of(pattern, home)? {
            if known.insert(path.clone()) {
                found.push(path);
            }
        }
        // What no message holds would never arrive.
        if found.len() > MAX_SOURCES || bytes_of(&found) > MAX_FRAME_BYTES / 2 {
            return Err(too_many(pattern));
        }
    }
    Ok(found)
}

fn bytes_of(paths: &[Vec<u8>]) -> usize {
    paths.iter().map(Vec::len).sum()
}

/// Whether a source may mean others than the file of its very name.
fn is_pattern(source: &[u8]) -> bool {
    source.iter().any(|byte| b"*?[\\".contains(byte))
}

fn too_many(pattern: &[u8]) -> TransferError {
    TransferError::Here(format!(
        "{} matches too much for one copy, which takes up to {MAX_SOURCES} sources; \
         copy the folder that they are in, and choose with --include and --exclude",
        printable(pattern)
    ))
}

struct Looking<'a> {
    reach: &'a Reach,
    looked_at: usize,
}

impl Looking<'_> {
    fn paths_of(
        &mut self,
        pattern: &[u8],
        home: Option<&[u8]>,
    ) -> Result<Vec<Vec<u8>>, TransferError> {
        let written = expand_home(pattern, home);
        if !is_pattern(pattern) || self.is_there(&written) {
            return Ok(vec![pattern.to_vec()]);
        }
        let (start, names) = match written.iter().position(|&byte| byte != b'/') {
            Some(start) => written.split_at(start),
            None => (written.as_slice(), b"".as_slice()),
        };
        let mut paths = vec![start.to_vec()];
        for (number, name) in names.split(|&byte| byte == b'/').enumerate() {
            let mut next = Vec::new();
            for path in &paths {
                let mut folder = path.clone();
                if number > 0 {
                    folder.push(b'/');
                }
                if is_pattern(name) && !name.is_empty() {
                    self.matching(&folder, name, pattern, &mut next)?;
                } else {
                    next.push([folder.as_slice(), name].concat());
                }
            }
            if next.len() > MAX_ON_THE_WAY {
                return Err(too_many(pattern));
            }
            paths = next;
        }
        paths.retain(|path| path.len() <= MAX_PATH_BYTES && self.is_there(path));
        if paths.is_empty() {
            return Err(TransferError::Here(format!(
                "nothing there matches {}; to take *, ?, [ or \\ as it is, put a backslash before it",
                printable(pattern)
            )));
        }
        // What a shell leaves as it is would be read as a home folder.
        let own = |path: Vec<u8>| match path.first() {
            Some(b'~') => [b"./", path.as_slice()].concat(),
            _ => path,
        };
        Ok(paths.into_iter().map(own).collect())
    }

    /// Adds what matches in a folder, sorted. A folder that is none, or may not be read, has nothing.
    fn matching(
        &mut self,
        folder: &[u8],
        name_pattern: &[u8],
        pattern: &[u8],
        found: &mut Vec<Vec<u8>>,
    ) -> Result<(), TransferError> {
        let opened = if folder.is_empty() { b"." } else { folder };
        let Ok(descriptor) = self.reach.open(opened, OFlags::RDONLY | OFlags::DIRECTORY) else {
            return Ok(());
        };
        let failed = |error: Errno| TransferError::path("read folder", opened, error);
        let hidden = name_pattern.starts_with(b".") || name_pattern.starts_with(b"\\.");
        let first = found.len();
        for name in Dir::read_from(&descriptor).map_err(failed)? {
            let name = name.map_err(failed)?;
            let name = name.file_name().to_bytes();
            self.looked_at += 1;
            let passed_over = matches!(name, b"." | b"..") || is_part_name(name) || name == MARK;
            if passed_over || name.starts_with(b".") && !hidden {
                continue;
            }
            if matches(name_pattern, name) {
                found.push([folder, name].concat());
            }
            if found.len() > MAX_ON_THE_WAY || self.looked_at > MAX_LOOKED_AT {
                return Err(too_many(pattern));
            }
        }
        found[first..].sort();
        Ok(())
    }

    /// Whether something has that path that a near end reaches.
    fn is_there(&self, path: &[u8]) -> bool {
        self.reach
            .open(path, OFlags::PATH | OFlags::NOFOLLOW)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn make(root: &Path, files: &[&str]) {
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        }
    }

    /// What a pattern leads to below `root`, which a confined login takes for all there is.
    fn expanded(root: &Path, patterns: &[&str]) -> Result<Vec<String>, String> {
        let reach = Reach::beneath(File::open(root).unwrap().into(), true);
        let patterns: Vec<_> = patterns
            .iter()
            .map(|pattern| pattern.as_bytes().to_vec())
            .collect();
        let found = expand(&patterns, &reach, Some(b"/")).map_err(|error| error.to_string())?;
        Ok(found
            .into_iter()
            .map(|path| String::from_utf8(path).unwrap())
            .collect())
    }

    #[test]
    fn patterns_lead_to_what_a_shell_would_find_in_order() {
        let base = tempfile::tempdir().unwrap();
        make(
            base.path(),
            &[
                "run2/x1.dat",
                "run2/x2.dat",
                "run10/x1.dat",
                "run10/x11.dat",
                "run10/.x3.dat",
                "run10/y1.dat",
                "other/x1.dat",
                "run3",
            ],
        );
        for (pattern, paths) in [
            (
                "run*/x?.dat",
                vec!["run10/x1.dat", "run2/x1.dat", "run2/x2.dat"],
            ),
            ("/run*/x[!1].dat", vec!["/run2/x2.dat"]),
            ("run*", vec!["run10", "run2", "run3"]),
            ("run*/", vec!["run10/", "run2/"]),
            ("run*/.", vec!["run10/.", "run2/."]),
            ("run10/.*", vec!["run10/.x3.dat"]),
            ("run?/../other/*", vec!["run2/../other/x1.dat"]),
            ("**/y*", vec!["run10/y1.dat"]),
            ("run10//x1.dat", vec!["run10//x1.dat"]),
            ("not/there", vec!["not/there"]),
        ] {
            assert_eq!(
                expanded(base.path(), &[pattern]).unwrap(),
                paths,
                "{pattern}"
            );
        }
        let twice = expanded(base.path(), &["run3", "run*", "other"]).unwrap();
        assert_eq!(twice, ["run3", "run10", "run2", "other"]);
        for nothing in [
            "z*", "run*/z?", "run3/*", "run[4-9]", "*/*/*", "run[", "run\\",
        ] {
            let why = expanded(base.path(), &[nothing]).unwrap_err();
            assert!(
                why.starts_with("nothing there matches run") || why.contains("matches "),
                "{why}"
            );
            assert!(why.contains("put a backslash before it"), "{why}");
        }
    }

    #[test]
    fn what_has_the_very_name_is_meant_and_a_backslash_reaches_it_too() {
        let base = tempfile::tempdir().unwrap();
        make(
            base.path(),
            &["a*", "ab", "c?", "d[1]", "d1", "back\\slash", "~", "e1"],
        );
        for (pattern, paths) in [
            ("a*", vec!["a*"]),
            ("a\\*", vec!["a*"]),
            ("?b", vec!["ab"]),
            ("c\\?", vec!["c?"]),
            ("d[1]", vec!["d[1]"]),
            ("d\\[1\\]", vec!["d[1]"]),
            ("back\\slash", vec!["back\\slash"]),
            ("back\\\\slash", vec!["back\\slash"]),
            ("[~]", vec!["./~"]),
            ("e\\1", vec!["e1"]),
        ] {
            assert_eq!(
                expanded(base.path(), &[pattern]).unwrap(),
                paths,
                "{pattern}"
            );
        }
    }

    #[test]
    fn no_pattern_leads_out_of_what_a_login_reaches() {
        let base = tempfile::tempdir().unwrap();
        make(base.path(), &["in/own", "out/secret"]);
        symlink("../out", base.path().join("in/way")).unwrap();
        symlink(base.path().join("out"), base.path().join("in/absolute")).unwrap();
        let root = base.path().join("in");
        for pattern in [
            "*/secret",
            "*/s*",
            "../*",
            "/../o*",
            "way/*",
            "absolute/s?cret",
        ] {
            assert!(expanded(&root, &[pattern]).is_err(), "{pattern}");
        }
        let all = expanded(&root, &["*"]).unwrap();
        assert_eq!(all, ["absolute", "own", "way"]);
    }

    #[test]
    fn a_pattern_that_matches_too_much_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let names: Vec<_> = (0..=MAX_SOURCES).map(|number| number.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        make(base.path(), &names);
        let why = expanded(base.path(), &["*"]).unwrap_err();
        assert!(why.contains("* matches too much for one copy"), "{why}");
    }
}
