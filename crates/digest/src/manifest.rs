//! Lists of digests, a line a file, as b3sum(1), sha256sum(1) and md5sum(1) print and check them.
//!
//! The format is that of GNU coreutils (*cksum invocation*): `DIGEST  NAME`, or with a tag
//! `SHA256 (NAME) = DIGEST`. A line whose name holds a backslash or a line break begins with a backslash,
//! and these are escaped in it. Lines that begin with `#` are comments. Deviations: one space between
//! digest and name is enough, names are relative to one folder, and a carriage return at the end of
//! a line does not count.

use std::io::{self, BufRead, Read, Write};

use howdah_wire::printable_within;

use crate::algorithm::Algorithm;

/// Longest line, in bytes: the longest path with every byte escaped, and a digest.
const MAX_LINE_BYTES: u64 = 16 << 10;
/// Most of a line that a message shows, in bytes.
const SHOWN_BYTES: usize = 80;

/// What a list says of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, relative to the folder that the list is of; no part of it is `.` or `..`.
    pub name: Vec<u8>,
    /// Its digest.
    pub digest: Vec<u8>,
}

/// A list that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ManifestError(pub String);

/// A list of digests of one algorithm, read line by line.
#[derive(Debug)]
pub struct Manifest<R> {
    lines: R,
    algorithm: Algorithm,
    number: u64,
}

/// What a list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Examined {
    /// Of which algorithm its digests are.
    pub algorithm: Algorithm,
    /// How many files it names.
    pub files: u64,
}

/// Reads a whole list and checks every line. The algorithm is the one that is `given`, or the one that its
/// lines name, or else that of the list's own name, or the only one whose digests are so long.
///
/// # Errors
/// When a line is none of a list, or nothing says of which algorithm it is.
pub fn examine(
    lines: impl BufRead,
    given: Option<Algorithm>,
    file_name: &[u8],
) -> Result<Examined, ManifestError> {
    let mut lines = Lines { lines, number: 0 };
    let (mut algorithm, mut files) = (given, 0);
    while let Some(line) = lines.next()? {
        let number = lines.number;
        let known = match algorithm {
            Some(known) => known,
            None => line
                .tag
                .or_else(|| Algorithm::of_list(file_name))
                .map_or_else(|| of_length(&line, number), Ok)?,
        };
        algorithm = Some(known);
        line.entry(known, number)?;
        files += 1;
    }
    match algorithm {
        Some(algorithm) if files > 0 => Ok(Examined { algorithm, files }),
        _ => Err(ManifestError("it names no file".to_owned())),
    }
}

fn of_length(line: &Line, number: u64) -> Result<Algorithm, ManifestError> {
    let so_long = |each: &Algorithm| each.digest_bytes() == line.digest.len();
    let fitting: Vec<Algorithm> = Algorithm::ALL.into_iter().filter(so_long).collect();
    match *fitting {
        [only] => Ok(only),
        [first, second] => Err(ManifestError(format!(
            "nothing says whether its digests are of {} or of {}; give --algorithm {} or {0}",
            second.name(),
            first.name(),
            first.name(),
        ))),
        _ => Err(ManifestError(format!(
            "line {number} has a digest of {} characters, which is of none of {}",
            2 * line.digest.len(),
            Algorithm::ALL.map(Algorithm::name).join(", ")
        ))),
    }
}

impl<R: BufRead> Manifest<R> {
    /// A list of digests of this algorithm.
    pub fn new(lines: R, algorithm: Algorithm) -> Self {
        Self {
            lines,
            algorithm,
            number: 0,
        }
    }

    /// The next file; `None` when there are no more.
    ///
    /// # Errors
    /// When the next line is none of a list of this algorithm, and when it cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ManifestError> {
        let mut lines = Lines {
            lines: &mut self.lines,
            number: self.number,
        };
        let line = lines.next()?;
        self.number = lines.number;
        line.map(|line| line.entry(self.algorithm, self.number))
            .transpose()
    }
}

/// The lines that name files.
struct Lines<R> {
    lines: R,
    number: u64,
}

/// One of them.
struct Line {
    tag: Option<Algorithm>,
    digest: Vec<u8>,
    name: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<Line>, ManifestError> {
        let mut text = Vec::new();
        loop {
            text.clear();
            let read = (&mut self.lines)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut text);
            let count =
                read.map_err(|error| ManifestError(format!("it cannot be read: {error}")))?;
            if count == 0 {
                return Ok(None);
            }
            self.number += 1;
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if !text.is_empty() && !text.starts_with(b"#") {
                return parse(text).map(Some).ok_or_else(|| {
                    let shown = printable_within(text, SHOWN_BYTES);
                    ManifestError(format!(
                        "line {} is not a digest and a name, as sha256sum writes them: {shown}",
                        self.number
                    ))
                });
            }
        }
    }
}

impl Line {
    fn entry(self, algorithm: Algorithm, number: u64) -> Result<Entry, ManifestError> {
        let shown = printable_within(&self.name, SHOWN_BYTES);
        if let Some(tag) = self.tag.filter(|tag| *tag != algorithm) {
            return Err(ManifestError(format!(
                "line {number} has a digest of {} where one of {} is expected ({shown})",
                tag.name(),
                algorithm.name()
            )));
        }
        if self.digest.len() != algorithm.digest_bytes() {
            return Err(ManifestError(format!(
                "line {number} has a digest of {} characters, one of {} has {} ({shown})",
                2 * self.digest.len(),
                algorithm.name(),
                2 * algorithm.digest_bytes()
            )));
        }
        let name = inside(&self.name).ok_or_else(|| {
            ManifestError(format!(
                "line {number} names what is not inside a folder: {shown}; names are relative to PATH, \
                 without .."
            ))
        })?;
        Ok(Entry {
            name,
            digest: self.digest,
        })
    }
}

/// The name without `.` and double slashes; `None` for one that leads out of its folder or names none.
fn inside(name: &[u8]) -> Option<Vec<u8>> {
    let outside = name.first() == Some(&b'/') || name.contains(&0) || name.ends_with(b"/");
    let parts: Vec<&[u8]> = name
        .split(|byte| *byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."))
        .collect();
    (!outside && !parts.is_empty() && !parts.contains(&b"..".as_slice())).then(|| parts.join(&b'/'))
}

fn parse(text: &[u8]) -> Option<Line> {
    let (escaped, text) = match text.strip_prefix(b"\\") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (tag, digest, name) = tagged(text).or_else(|| plain(text))?;
    Some(Line {
        tag,
        digest: unhex(digest)?,
        name: if escaped {
            unescape(name)?
        } else {
            name.to_vec()
        },
    })
}

type Parts<'a> = (Option<Algorithm>, &'a [u8], &'a [u8]);

/// `SHA256 (NAME) = DIGEST`
fn tagged(text: &[u8]) -> Option<Parts<'_>> {
    let begin = text.windows(2).position(|two| two == b" (")?;
    let end = text.windows(4).rposition(|four| four == b") = ")?;
    let tag = Algorithm::named(&text[..begin])?;
    let name = text.get(begin + 2..end)?;
    Some((Some(tag), &text[end + 4..], name))
}

/// `DIGEST  NAME`, or `DIGEST *NAME`
fn plain(text: &[u8]) -> Option<Parts<'_>> {
    let space = text.iter().position(|byte| *byte == b' ')?;
    let name = match text.get(space + 1)? {
        b' ' | b'*' => &text[space + 2..],
        _ => &text[space + 1..],
    };
    Some((None, &text[..space], name))
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let byte = |two: &[u8]| match *two {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    if text.is_empty() {
        return None;
    }
    text.chunks(2).map(byte).collect()
}

fn unescape(name: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = name.iter();
    let mut plain = Vec::with_capacity(name.len());
    while let Some(&byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            byte => byte,
        });
    }
    Some(plain)
}

/// Writes a line of a list; `digest` is in hexadecimal.
///
/// # Errors
/// When it cannot be written.
pub fn write_line(file: &mut impl Write, digest: &str, name: &[u8]) -> io::Result<()> {
    let odd = |byte: &u8| matches!(byte, b'\\' | b'\n' | b'\r');
    if !name.iter().any(odd) {
        write!(file, "{digest}  ")?;
        file.write_all(name)?;
        return file.write_all(b"\n");
    }
    write!(file, "\\{digest}  ")?;
    for &byte in name {
        match byte {
            b'\\' => file.write_all(b"\\\\")?,
            b'\n' => file.write_all(b"\\n")?,
            b'\r' => file.write_all(b"\\r")?,
            byte => file.write_all(&[byte])?,
        }
    }
    file.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::hex;
    use proptest::prelude::*;

    fn entries(text: &[u8], algorithm: Algorithm) -> Result<Vec<Entry>, ManifestError> {
        let mut manifest = Manifest::new(text, algorithm);
        let mut found = Vec::new();
        while let Some(entry) = manifest.next_entry()? {
            found.push(entry);
        }
        Ok(found)
    }

    #[test]
    fn odd_names_stay_on_their_line() {
        let line = |name: &[u8]| {
            let mut bytes = Vec::new();
            write_line(&mut bytes, &"ab".repeat(32), name).unwrap();
            bytes
        };
        let hex = "ab".repeat(32);
        assert_eq!(line(b"a b\xff"), [hex.as_bytes(), b"  a b\xff\n"].concat());
        let odd = format!("\\{hex}  a\\nb\\\\c\\rd\n");
        assert_eq!(line(b"a\nb\\c\rd"), odd.as_bytes());
    }

    #[test]
    fn lines_of_other_tools_are_read() {
        let md5 = "0123456789abcdef0123456789ABCDEF";
        for (line, name) in [
            (format!("{md5}  a b"), "a b"),
            (format!("{md5} *a"), "a"),
            (format!("{md5} a"), "a"),
            (format!("{md5}  ./x//y/./z\r"), "x/y/z"),
            (format!("MD5 (a) = b) = {md5}"), "a) = b"),
            (format!("\\{md5}  a\\nb"), "a\nb"),
            (format!("\\MD5 (a\\\\b) = {md5}"), "a\\b"),
            (format!("# a comment\n\n{md5}  a"), "a"),
        ] {
            let found = entries(line.as_bytes(), Algorithm::Md5).unwrap();
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!(found[0].name, name.as_bytes(), "{line}");
            assert_eq!(found[0].digest[..2], [0x01, 0x23]);
        }
    }

    #[test]
    fn lines_that_are_none_are_named() {
        let md5 = "0".repeat(32);
        for (line, why) in [
            ("hello".to_owned(), "line 2 is not a digest"),
            ("hello world".to_owned(), "line 2 is not a digest"),
            (format!("{md5}0  a"), "line 2 is not a digest"),
            (
                format!("{md5}00  a"),
                "line 2 has a digest of 34 characters",
            ),
            (
                format!("SHA256 (a) = {md5}"),
                "digest of sha256 where one of md5",
            ),
            (format!("\\{md5}  a\\tb"), "line 2 is not a digest"),
            (format!("{md5}  /etc/passwd"), "not inside a folder"),
            (format!("{md5}  a/../../b"), "not inside a folder"),
            (format!("{md5}  a/"), "not inside a folder"),
            (format!("{md5}  ."), "not inside a folder"),
            (format!("{md5}  {}", "x".repeat(20_000)), "not a digest"),
        ] {
            let text = format!("{md5}  first\n{line}\n");
            let error = entries(text.as_bytes(), Algorithm::Md5).unwrap_err();
            assert!(error.0.contains(why), "{line}: {error}");
            assert_eq!(
                examine(text.as_bytes(), Some(Algorithm::Md5), b""),
                Err(error)
            );
        }
    }

    #[test]
    fn the_algorithm_is_told_by_option_tag_name_and_length_in_this_order() {
        let of = |text: &str, given, name: &[u8]| {
            examine(text.as_bytes(), given, name).map(|found| found.algorithm)
        };
        let (long, short) = ("0".repeat(64), "0".repeat(8));
        let plain = format!("{long}  a\n");
        let tagged = format!("SHA256 (a) = {long}\n");
        assert_eq!(
            of(&plain, Some(Algorithm::Sha256), b"a.b3sum"),
            Ok(Algorithm::Sha256)
        );
        assert_eq!(of(&tagged, None, b"a.b3sum"), Ok(Algorithm::Sha256));
        assert_eq!(of(&plain, None, b"a.b3sum"), Ok(Algorithm::Blake3));
        assert_eq!(
            of(&format!("{}  a", "0".repeat(32)), None, b""),
            Ok(Algorithm::Md5)
        );
        let unsure = of(&plain, None, b"list").unwrap_err();
        assert!(
            unsure.0.contains("give --algorithm blake3 or sha256"),
            "{unsure}"
        );
        let unsure = of(&format!("{short}  a"), None, b"list").unwrap_err();
        assert!(unsure.0.contains("crc32c or adler32"), "{unsure}");
        let unknown = of(&format!("{long}{long}  a"), None, b"list").unwrap_err();
        assert!(unknown.0.contains("128 characters"), "{unknown}");
        assert_eq!(
            of("# nothing\n", None, b""),
            Err(ManifestError("it names no file".to_owned()))
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(name in "[^/\0]{1,40}", digest: [u8; 32]) {
            prop_assume!(name != "." && name != "..");
            let mut line = Vec::new();
            write_line(&mut line, &hex(&digest), name.as_bytes()).unwrap();
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            let found = entries(&line, Algorithm::Sha256).unwrap();
            prop_assert_eq!(found, vec![Entry { name: name.into_bytes(), digest: digest.to_vec() }]);
        }

        #[test]
        fn no_bytes_make_it_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = examine(text.as_slice(), None, b"");
        }
    }
}
