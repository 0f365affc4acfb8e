//! Reads a list of names below a source from a file. The names are lines, or separated by NUL bytes.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use howdah_wire::limits::{MAX_NAMES, MAX_PATH_BYTES};
use howdah_wire::{Named, Names, PathError, TreePath, printable_within};

use crate::error::TransferError;

/// What of a name is shown where it cannot be one, in bytes.
const SHOWN_BYTES: usize = 200;

/// The longest name, and the end of its line: of what is longer, the rest would be read as the next name.
const MOST_BYTES: usize = MAX_PATH_BYTES + 2;

/// A list that is being read.
#[derive(Debug)]
pub struct NamesFile<R = File> {
    reader: BufReader<R>,
    nul_separated: bool,
    /// Whether a name began with `./`, which names the source itself too, as to rsync.
    itself: bool,
    /// A name for which the last message had no room.
    left: Option<Named>,
}

impl<R: Read> NamesFile<R> {
    /// A list in an open file.
    pub fn new(file: R, nul_separated: bool) -> Self {
        Self {
            reader: BufReader::new(file),
            nul_separated,
            itself: false,
            left: None,
        }
    }

    /// The next names, as many as fit into one message. The last message is marked as such.
    ///
    /// # Errors
    /// When the file cannot be read, or contains an invalid name.
    pub fn next_names(&mut self) -> Result<Names, TransferError> {
        let mut names = Vec::from_iter(self.left.take());
        while names.len() < MAX_NAMES {
            let mut text = Vec::new();
            let separator = if self.nul_separated { 0 } else { b'\n' };
            let mut read = (&mut self.reader)
                .take(MOST_BYTES as u64)
                .read_until(separator, &mut text);
            let comment = !self.nul_separated && matches!(text.first(), Some(b'#' | b';'));
            let whole = text.len() < MOST_BYTES || text.last() == Some(&separator);
            if comment && !whole {
                read = read.and_then(|_| self.reader.skip_until(separator));
            }
            read.map_err(|error| {
                TransferError::Here(format!("cannot read the list of names: {error}"))
            })?;
            if text.is_empty() {
                return Ok(Names {
                    names,
                    complete: true,
                });
            }
            if text.last() == Some(&separator) {
                text.pop();
            }
            if !self.nul_separated && text.last() == Some(&b'\r') {
                text.pop();
            }
            if !text.is_empty() && !comment {
                let name = match whole {
                    true => named(&text),
                    false => Err(refused(&text, PathError::TooLong)),
                }?;
                if text.starts_with(b"./") && !name.path.is_root() && !self.itself {
                    self.itself = true;
                    names.push(Named {
                        path: TreePath::default(),
                        content: false,
                    });
                }
                match names.len() {
                    MAX_NAMES => self.left = Some(name),
                    _ => names.push(name),
                }
            }
        }
        Ok(Names {
            names,
            complete: false,
        })
    }
}

/// The name below the source that a text means: `..` leads no higher than the source, and a slash at its beginning
/// means nothing. One at its end, or a dot, stands for what is in the folder too.
fn named(text: &[u8]) -> Result<Named, TransferError> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in text.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    let content = matches!(text, b"." | b"..")
        || [b"/".as_slice(), b"/.", b"/.."]
            .iter()
            .any(|end| text.ends_with(end));
    let path = TreePath::try_from(names.join(&b'/')).map_err(|error| refused(text, error))?;
    Ok(Named { path, content })
}

fn refused(text: &[u8], error: PathError) -> TransferError {
    let shown = printable_within(text, SHOWN_BYTES);
    TransferError::Here(format!(
        "the list of names holds {shown}: {error}; take it out"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(text: &[u8], nul_separated: bool) -> Result<Vec<(String, bool)>, TransferError> {
        let mut path = tempfile::NamedTempFile::new().unwrap();
        path.write_all(text).unwrap();
        let mut list = NamesFile::new(path.reopen().unwrap(), nul_separated);
        let mut found = Vec::new();
        loop {
            let some = list.next_names()?;
            for Named { path, content } in some.names {
                found.push((
                    String::from_utf8(path.as_bytes().to_vec()).unwrap(),
                    content,
                ));
            }
            if some.complete {
                return Ok(found);
            }
        }
    }

    #[test]
    fn names_mean_what_they_mean_to_rsync() {
        for (text, path, content) in [
            ("a/b", "a/b", false),
            ("/a//b", "a/b", false),
            ("a/b/", "a/b", true),
            ("a/.", "a", true),
            (".", "", true),
            ("./", "", true),
            ("a/../b", "b", false),
            ("../../b", "b", false),
            (" a ", " a ", false),
        ] {
            assert_eq!(
                read(text.as_bytes(), false).unwrap(),
                [(path.to_owned(), content)],
                "{text}"
            );
        }
    }

    #[test]
    fn a_dot_before_a_name_names_the_source_itself_too() {
        let dot = (String::new(), false);
        for (text, name) in [("./a", ("a", false)), ("./a/", ("a", true))] {
            let name = (name.0.to_owned(), name.1);
            assert_eq!(read(text.as_bytes(), false).unwrap(), [dot.clone(), name]);
        }
    }

    #[test]
    fn lines_have_comments_and_names_set_apart_by_nul_bytes_have_none() {
        let plain = |names: &[&str]| -> Vec<(String, bool)> {
            names
                .iter()
                .map(|name| ((*name).to_owned(), false))
                .collect()
        };
        assert_eq!(
            read(b"#a\n;b\n\nc\r\nd", false).unwrap(),
            plain(&["c", "d"])
        );
        assert_eq!(
            read(b"#a\0b\nc\0\0d\0", true).unwrap(),
            plain(&["#a", "b\nc", "d"])
        );
        assert_eq!(read(b"", false).unwrap(), []);
    }

    #[test]
    fn what_is_longer_than_a_name_is_never_read_as_two() {
        let refused = read("./".repeat(4000).as_bytes(), false).unwrap_err();
        assert!(refused.to_string().contains("too long"), "{refused}");
        let refused = read(&[b"./".repeat(2049), b"a\0b".to_vec()].concat(), true);
        assert!(refused.unwrap_err().to_string().contains("too long"));
        let comment = format!("#{}\na\n", "x".repeat(10_000));
        let found = read(comment.as_bytes(), false).unwrap();
        assert_eq!(found, [("a".to_owned(), false)]);
    }

    #[test]
    fn long_lists_come_in_messages_and_long_names_are_refused() {
        let many: String = (0..3 * MAX_NAMES + 1)
            .map(|number| format!("{number}\n"))
            .collect();
        assert_eq!(
            read(many.as_bytes(), false).unwrap().len(),
            3 * MAX_NAMES + 1
        );
        for text in ["x".repeat(5000), "y".repeat(256)] {
            let refused = read(text.as_bytes(), false).unwrap_err().to_string();
            assert!(
                refused.contains("too long") && refused.len() < 400,
                "{refused}"
            );
        }
    }
}
