//! Lists that people and other tools write: of digests, with the job to check one, and of names.

use crate::input::Input;
use crate::memory::within;
use crate::shown::assert_shown;

/// Most bytes of an error about a list.
const MOST_SHOWN: usize = 300;

/// Asserts that a name has no part that is empty, `.` or `..`.
fn assert_inside(name: &[u8]) {
    let mut parts = name.split(|byte| *byte == b'/');
    assert!(parts.all(|part| !matches!(part, b"" | b"." | b"..") && !part.contains(&0)));
}

pub mod digest_lists {
    //! A list of digests, of an algorithm that is given, named or guessed.

    use howdah_digest::{Algorithm, Entry, Manifest, examine, hex, write_line};

    use super::*;

    const FILE_NAMES: [&[u8]; 4] = [b"list", b"SHA256SUMS", b"a.b3sum", b"night-crc32c.txt"];
    /// Memory for one line, however long the list.
    const MEMORY: usize = 128 << 10;

    pub fn run(data: &[u8]) {
        let mut input = Input::new(data);
        let given = Algorithm::ALL.get(input.below(6)).copied();
        let file_name = FILE_NAMES[input.below(FILE_NAMES.len())];
        let text = input.rest();
        let found = match within(MEMORY, || examine(text, given, file_name)) {
            Ok(found) => found,
            Err(error) => return assert_shown(&error.to_string(), MOST_SHOWN),
        };
        assert!(given.is_none_or(|given| given == found.algorithm));
        let entries = entries(text, found.algorithm);
        assert_eq!(entries.len() as u64, found.files);
        let mut again = Vec::new();
        for Entry { name, digest } in &entries {
            assert_inside(name);
            assert_eq!(digest.len(), found.algorithm.digest_bytes());
            write_line(&mut again, &hex(digest), name).expect("a vector takes it");
        }
        let lines = again.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, entries.len(), "a name stays on its line");
        assert_eq!(self::entries(&again, found.algorithm), entries);
    }

    fn entries(text: &[u8], algorithm: Algorithm) -> Vec<Entry> {
        let mut list = Manifest::new(text, algorithm);
        let next = || list.next_entry().expect("it was read before");
        std::iter::from_fn(next).collect()
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let (long, md5) = ("a".repeat(64), "0123456789abcdef0123456789ABCDEF");
        let list = |kind: [u8; 2], text: String| [&kind[..], text.as_bytes()].concat();
        vec![
            list([0, 0], format!("{long}  a b\n{long} *./c//d\r\n")),
            list([5, 1], format!("SHA256 (a) = b) = {long}\n# x\n\n{long} e")),
            list([5, 2], format!("\\{long}  a\\nb\\\\c\\rd\n")),
            list([5, 0], format!("{md5}  a\n\\MD5 (a\\\\b) = {md5}\n")),
            list([3, 3], "cafebabe  ..\n".to_owned()),
            list([5, 3], "cafebabe  a\n".to_owned()),
            list([5, 0], "cafebabe  a\n".to_owned()),
        ]
    }
}

pub mod verify_jobs {
    //! The job before a list that comes to a far end, `howdah verify`.

    use howdah_digest::{Algorithm, Job};

    use super::*;

    /// Longest job, in bytes.
    const LONGEST: usize = 16 << 10;
    /// Memory for a job: its line, and what is in it.
    const MEMORY: usize = 4 * LONGEST;

    /// The first byte says how many spaces, which JSON ignores, are before the job.
    pub fn run(data: &[u8]) {
        let mut input = Input::new(data);
        let spaces = usize::from(input.byte()) * 128;
        let bytes = [&b" ".repeat(spaces), input.rest()].concat();
        let line = bytes.iter().position(|byte| *byte == b'\n');
        let line = line.map_or(bytes.len(), |at| at + 1);
        let mut rest = &bytes[..];
        let (job, root) = match within(MEMORY, || Job::take(&mut rest)) {
            Ok(taken) => taken,
            Err(error) => return assert_shown(&error, MOST_SHOWN),
        };
        assert_eq!(rest.len(), bytes.len() - line.min(LONGEST));
        assert!(line <= LONGEST || bytes[LONGEST..line].iter().all(u8::is_ascii_whitespace));
        assert!(root.len() <= job.root.len());
        let mut again = serde_json::to_vec(&job).expect("it is JSON");
        again.extend(b"\nthe list");
        let mut rest = &again[..];
        let read = Job::take(&mut rest).expect("it reads what it writes");
        assert_eq!((read, rest), ((job, root), &b"the list"[..]));
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let job = |root: &str, also| Job {
            root: root.to_owned(),
            algorithm: Algorithm::Sha256,
            files: 3,
            also,
            extra: true,
        };
        let seed = |spaces: u8, job: &Job| {
            let json = serde_json::to_vec(job).expect("it is JSON");
            [&[spaces][..], &json, b"\nab  c\n"].concat()
        };
        vec![
            seed(0, &job("L2RhdGE=", None)),
            seed(127, &job("", Some(Algorithm::Blake3))),
            seed(128, &job("/w==", None)),
        ]
    }
}

pub mod name_lists {
    //! A list of names, `--files-from`.

    use howdah_transfer::NamesFile;
    use howdah_wire::limits::{MAX_NAMES, MAX_PATH_BYTES};
    use howdah_wire::{Named, TreePath};

    use super::*;

    /// Memory that the names of one message may take: each may be as long as its text.
    const MEMORY: usize = 64 << 10;
    const MEMORY_PER_BYTE: usize = 64;

    /// The first byte says how names are set apart, the second how often `./` is before the first one.
    pub fn run(data: &[u8]) {
        let mut input = Input::new(data);
        let nul_separated = input.byte() & 1 != 0;
        let dots = b"./".repeat(usize::from(input.byte()) * 16);
        let text = [&dots, input.rest()].concat();
        let (names, error) = read(&text, nul_separated);
        let (meant, whole) = meant(&text, nul_separated);
        assert_eq!(names, meant);
        assert_eq!(error.is_none(), whole);
        if let Some(error) = error {
            assert_shown(&error, 2 * MOST_SHOWN);
        }
        // What `./` before a name says of the source itself has no line of its own.
        let is_itself = |name: &Named| name.path.is_root() && !name.content;
        assert!(names.iter().filter(|name| is_itself(name)).count() <= 1);
        let (_, names): (Vec<_>, Vec<_>) = names.into_iter().partition(is_itself);
        let mut again = Vec::new();
        for Named { path, content } in &names {
            if !path.is_root() {
                assert_inside(path.as_bytes());
            }
            again.extend(b"/");
            again.extend(path.as_bytes());
            again.extend(if *content { &b"/."[..] } else { b"" });
            again.extend(if nul_separated { &b"\0"[..] } else { b"\r\n" });
        }
        let short = |name: &Named| name.path.as_bytes().len() + 4 <= MAX_PATH_BYTES;
        if names.iter().all(short) {
            assert_eq!(read(&again, nul_separated), (names, None));
        }
    }

    /// The names of a list, and why there are no more of them.
    fn read(text: &[u8], nul_separated: bool) -> (Vec<Named>, Option<String>) {
        let mut list = NamesFile::new(text, nul_separated);
        let mut all = Vec::new();
        loop {
            match within(MEMORY + MEMORY_PER_BYTE * text.len(), || list.next_names()) {
                Ok(some) => {
                    assert!(some.names.len() == MAX_NAMES || some.complete);
                    all.extend(some.names);
                    if some.complete {
                        return (all, None);
                    }
                }
                // What came before it in the same message is not handed out.
                Err(error) => return (all, Some(error.to_string())),
            }
        }
    }

    /// The same by the standard library's reading of paths; whether that is all.
    fn meant(text: &[u8], nul_separated: bool) -> (Vec<Named>, bool) {
        use std::os::unix::ffi::OsStrExt;
        use std::path::{Component, Path};
        let (mut names, mut itself) = (Vec::new(), false);
        for line in text.split(|byte| *byte == if nul_separated { 0 } else { b'\n' }) {
            let long = line.len() > MAX_PATH_BYTES + 1;
            let line = match line.strip_suffix(b"\r") {
                Some(line) if !nul_separated => line,
                _ => line,
            };
            if line.is_empty() || !nul_separated && matches!(line[0], b'#' | b';') {
                continue;
            }
            let mut parts: Vec<&[u8]> = Vec::new();
            for part in Path::new(std::ffi::OsStr::from_bytes(line)).components() {
                match part {
                    Component::Normal(name) => parts.push(name.as_bytes()),
                    Component::ParentDir => {
                        parts.pop();
                    }
                    _ => {}
                }
            }
            let last = line.rsplit(|byte| *byte == b'/').next();
            let content = matches!(last, Some(b"" | b"." | b".."));
            match TreePath::try_from(parts.join(&b'/')) {
                Ok(path) if !long => {
                    if line.starts_with(b"./") && !path.is_root() && !itself {
                        itself = true;
                        let path = TreePath::default();
                        names.push(Named {
                            path,
                            content: false,
                        });
                    }
                    names.push(Named { path, content });
                }
                _ => {
                    names.truncate(names.len() / MAX_NAMES * MAX_NAMES);
                    return (names, false);
                }
            }
        }
        (names, true)
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        vec![
            b"\0\0a/b\n#c\n;d\n\n./#e\r\n/f//g/\n../h/..\n.\n".to_vec(),
            b"\x01\0a\nb\0#c\0\0d/.\0e\r".to_vec(),
            b"\0\xffa\nb\n".to_vec(),
            [b"\0\0".to_vec(), b"a\n".repeat(MAX_NAMES + 1)].concat(),
            [
                b"\0\0".to_vec(),
                b"a\n".repeat(MAX_NAMES - 1),
                b"./b\nc\n".to_vec(),
            ]
            .concat(),
            [b"\x01\0".to_vec(), b"x".repeat(256)].concat(),
        ]
    }
}
