//! Where the digests of a transfer's files go. They are never kept all at once: there may be millions.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;

use howdah_wire::TreePath;

use crate::end::abort::lock;
use crate::end::naming::Naming;
use crate::error::plain;

/// The digest of one file, of what this end itself read or wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Index of the source the file belongs to.
    pub source: u16,
    /// Its path below that source.
    pub path: TreePath,
    /// BLAKE3 of its content, as `b3sum` prints it.
    pub blake3: [u8; 32],
}

/// The digests of one end.
#[derive(Debug)]
pub struct Digests(Mutex<Sink>);

/// Where they go.
#[derive(Debug)]
enum Sink {
    Nowhere,
    File(BufWriter<File>),
    Failed(String),
}

impl Digests {
    /// Nobody wants them.
    pub fn nowhere() -> Self {
        Self(Mutex::new(Sink::Nowhere))
    }

    /// They go to the file at `path`, a line each, as b3sum(1) prints and checks them.
    pub fn to_file(path: &[u8]) -> Self {
        // They name every file, so they are for this user alone, whatever the umask.
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        Self(Mutex::new(match options.open(OsStr::from_bytes(path)) {
            Ok(file) => Sink::File(BufWriter::new(file)),
            Err(error) => Sink::Failed(plain(&error)),
        }))
    }

    /// Adds some; `naming` names their files, and is asked only once there are some.
    pub fn add<'a>(
        &self,
        digests: impl IntoIterator<Item = Digest>,
        naming: impl Fn() -> &'a Naming,
    ) {
        let mut sink = lock(&self.0);
        let written = match &mut *sink {
            Sink::Nowhere | Sink::Failed(_) => Ok(()),
            Sink::File(file) => digests.into_iter().try_for_each(|digest| {
                let name = naming().name(digest.source, &digest.path);
                write_line(file, &digest, &name)
            }),
        };
        if let Err(error) = written {
            *sink = Sink::Failed(plain(&error));
        }
    }

    /// Writes what is still held back; why they are not all in their file, if they are not.
    pub fn finish(&self) -> Option<String> {
        match &mut *lock(&self.0) {
            Sink::File(file) => file.flush().err().map(|error| plain(&error)),
            Sink::Failed(why) => Some(why.clone()),
            _ => None,
        }
    }
}

/// A name with a backslash or a line break in it is escaped, and its line begins with a backslash.
fn write_line(file: &mut impl Write, digest: &Digest, name: &[u8]) -> io::Result<()> {
    let hex = blake3::Hash::from_bytes(digest.blake3).to_hex();
    let odd = |byte: &u8| matches!(byte, b'\\' | b'\n' | b'\r');
    if !name.iter().any(odd) {
        write!(file, "{hex}  ")?;
        file.write_all(name)?;
        return file.write_all(b"\n");
    }
    write!(file, "\\{hex}  ")?;
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

    fn digest() -> Digest {
        Digest {
            source: 0,
            path: TreePath::default(),
            blake3: [0xab; 32],
        }
    }

    #[test]
    fn odd_names_stay_on_their_line() {
        let line = |name: &[u8]| {
            let mut bytes = Vec::new();
            write_line(&mut bytes, &digest(), name).unwrap();
            bytes
        };
        let hex = "ab".repeat(32);
        assert_eq!(line(b"a b\xff"), [hex.as_bytes(), b"  a b\xff\n"].concat());
        let odd = format!("\\{hex}  a\\nb\\\\c\\rd\n");
        assert_eq!(line(b"a\nb\\c\rd"), odd.as_bytes());
    }

    #[test]
    fn what_keeps_them_from_their_file_is_told_at_the_end() {
        let naming = Naming::default();
        for (file, why) in [
            ("/dev/full", "No space left on device"),
            ("/no/such", "No such file or directory"),
        ] {
            let digests = Digests::to_file(file.as_bytes());
            for _ in 0..1000 {
                digests.add([digest()], || &naming);
            }
            assert_eq!(digests.finish().unwrap(), why);
        }
    }
}
