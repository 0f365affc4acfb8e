//! The pattern of one rule, and the names that it matches.

use std::borrow::Cow;

use crate::glob;

/// A pattern, and how it is held against names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Without the slash that stands for folders alone.
    text: Box<[u8]>,
    /// Only folders match.
    folders_only: bool,
    /// Slashes in the text; without any, and without a double star, the last name alone counts.
    slashes: usize,
    place: Place,
    wild: bool,
    /// It ends in three stars: a folder matches as if there were a slash behind it.
    folder_and_content: bool,
}

/// Where in a path a pattern may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the beginning.
    Anchored,
    /// At the beginning, as if there were a slash before it.
    AnyDepth,
    /// Behind any slash.
    BehindSlashes,
    /// It matches the last names, one more than it has slashes.
    LastNames,
}

impl Pattern {
    /// The pattern of a text that is not empty.
    pub fn new(text: &[u8]) -> Self {
        let folders_only = text.len() > 1 && text.ends_with(b"/");
        let text = &text[..text.len() - usize::from(folders_only)];
        let wild = text.iter().any(|byte| b"*?[".contains(byte));
        let double = text.windows(2).position(|two| two == b"**");
        let place = match double {
            _ if text.starts_with(b"/") => Place::Anchored,
            Some(0) => Place::AnyDepth,
            Some(_) => Place::BehindSlashes,
            None => Place::LastNames,
        };
        Self {
            text: text.into(),
            folders_only,
            slashes: text.iter().filter(|&&byte| byte == b'/').count(),
            place,
            wild,
            folder_and_content: text.ends_with(b"***"),
        }
    }

    /// The text it was made of.
    pub fn text(&self) -> Vec<u8> {
        let slash: &[u8] = if self.folders_only { b"/" } else { b"" };
        [&self.text, slash].concat()
    }

    /// Whether it matches a path below the transfer's root. An anchored pattern begins behind `base`, the folder
    /// whose filter file it is from; empty at the root.
    pub fn matches(&self, path: &[u8], is_folder: bool, base: &[u8]) -> bool {
        if self.folders_only && !is_folder {
            return false;
        }
        let mut path = Cow::Borrowed(path);
        if self.folder_and_content && is_folder {
            path.to_mut().push(b'/');
        }
        match self.place {
            Place::Anchored => {
                below(&path, base).is_some_and(|path| self.fits(&self.text[1..], path))
            }
            Place::AnyDepth => {
                path.to_mut().insert(0, b'/');
                self.fits(&self.text, &path)
            }
            Place::BehindSlashes => {
                self.fits(&self.text, &path)
                    || (0..path.len())
                        .filter(|&at| path[at] == b'/')
                        .any(|at| self.fits(&self.text, &path[at + 1..]))
            }
            Place::LastNames => {
                last_names(&path, self.slashes).is_some_and(|names| self.fits(&self.text, names))
            }
        }
    }

    fn fits(&self, pattern: &[u8], text: &[u8]) -> bool {
        match self.wild {
            true => glob::matches(pattern, text),
            false => pattern == text,
        }
    }
}

/// A path from a folder on that it is in.
fn below<'a>(path: &'a [u8], base: &[u8]) -> Option<&'a [u8]> {
    match base {
        b"" => Some(path),
        base => path.strip_prefix(base)?.strip_prefix(b"/"),
    }
}

/// The end of a path that has so many slashes; `None` where it has fewer.
fn last_names(path: &[u8], slashes: usize) -> Option<&[u8]> {
    let mut behind = (0..path.len()).rev().filter(|&at| path[at] == b'/');
    match behind.nth(slashes) {
        Some(at) => Some(&path[at + 1..]),
        None => {
            let all = path.iter().filter(|&&byte| byte == b'/').count();
            (all == slashes).then_some(path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_the_page_of_rsync_says() {
        for (pattern, path, is_folder, expected) in [
            ("foo", "a/foo", false, true),
            ("foo", "foo/a", false, false),
            ("foo/bar", "x/foo/bar", false, true),
            ("foo/bar", "x/afoo/bar", false, false),
            ("foo/*", "foo", true, false),
            ("foo/bar", "bar", false, false),
            ("foo/", "a/foo", true, true),
            ("foo/", "a/foo", false, false),
            ("/foo", "foo", false, true),
            ("/foo", "a/foo", false, false),
            ("/foo/**", "foo/a/b", false, true),
            ("/foo/**", "foo", true, false),
            ("foo/***", "a/foo", true, true),
            ("foo/***", "foo", false, false),
            ("foo/***", "a/foo/b", false, true),
            ("**/foo", "foo", false, true),
            ("**foo", "a/bfoo", false, true),
            ("a**b", "x/a/y/b", false, true),
            ("a**b", "xa/y/b", false, false),
            ("foo\\bar", "foo\\bar", false, true),
            ("foo\\b*", "foobar", false, true),
            ("/", "a", true, false),
            ("a//", "a", true, false),
        ] {
            let matches = Pattern::new(pattern.as_bytes()).matches(path.as_bytes(), is_folder, b"");
            assert_eq!(matches, expected, "{pattern} {path}");
        }
    }

    #[test]
    fn an_anchored_pattern_of_a_folder_begins_there() {
        let pattern = Pattern::new(b"/x*");
        assert!(pattern.matches(b"a/b/xy", false, b"a/b"));
        assert!(!pattern.matches(b"a/b/c/xy", false, b"a/b"));
        assert!(!pattern.matches(b"xy", false, b"a/b"));
        assert!(!pattern.matches(b"a/bx/xy", false, b"a/b"));
    }
}
