//! Where the digests of a transfer's files go. They are never kept in memory all at once, because there may be
//! millions.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;

use howdah_digest::write_line;
use howdah_wire::{DigestSum, FileDigest, Message, TreePath};

use crate::end::abort::lock;
use crate::end::naming::Naming;
use crate::error::plain;
use crate::session::control::Control;

/// The most digests that go to the near end in one message.
const TOLD_AT_ONCE: usize = 64;

/// Digests of files that a lost receiver may have completed without being able to say so, by source and path.
pub type Unconfirmed = HashMap<(u16, TreePath), [u8; 32]>;

/// The digest of one file, computed from the bytes that this end itself read or wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Index of the source the file belongs to.
    pub source: u16,
    /// Its path below that source.
    pub path: TreePath,
    /// BLAKE3 of its content, as `b3sum` prints it.
    pub blake3: [u8; 32],
}

impl Digest {
    /// What it adds to the sum that both ends compare: the file it is of counts as well.
    fn addend(&self) -> DigestSum {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.blake3);
        hasher.update(&self.source.to_le_bytes());
        hasher.update(self.path.as_bytes());
        let bytes = hasher.finalize();
        let mut words = bytes.as_bytes().chunks_exact(8);
        [(); 4].map(|()| {
            let word = words.next().and_then(|word| word.try_into().ok());
            word.map_or(0, u64::from_le_bytes)
        })
    }
}

/// The digests of one end.
#[derive(Debug)]
pub struct Digests {
    sink: Mutex<Sink>,
    sum: Mutex<DigestSum>,
    unconfirmed: Mutex<Unconfirmed>,
}

/// Where they go.
#[derive(Debug)]
enum Sink {
    Nowhere,
    Near(Control),
    File(BufWriter<File>),
    Failed(String),
}

impl Digests {
    /// Nobody wants them.
    pub fn nowhere() -> Self {
        Self::to(Sink::Nowhere)
    }

    /// Sends the digests to the near end, at the speed at which it reads them.
    pub fn to_near(control: Control) -> Self {
        Self::to(Sink::Near(control))
    }

    /// Writes the digests to the file at `path`, one line each, in the format of b3sum(1).
    pub fn to_file(path: &[u8]) -> Self {
        // They name every file, so they are for this user alone, whatever the umask.
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        Self::to(match options.open(OsStr::from_bytes(path)) {
            Ok(file) => Sink::File(BufWriter::new(file)),
            Err(error) => Sink::Failed(plain(&error)),
        })
    }

    fn to(sink: Sink) -> Self {
        Self {
            sink: Mutex::new(sink),
            sum: Mutex::default(),
            unconfirmed: Mutex::default(),
        }
    }

    /// Continues from a session whose receiver was lost, and which left these digests.
    #[must_use]
    pub fn after(self, unconfirmed: Unconfirmed) -> Self {
        *lock(&self.unconfirmed) = unconfirmed;
        self
    }

    /// Notes digests of files that were sent to a receiver that was lost before it confirmed them.
    pub fn leave_unconfirmed(&self, digests: impl IntoIterator<Item = Digest>) {
        let digests = digests.into_iter();
        lock(&self.unconfirmed)
            .extend(digests.map(|digest| ((digest.source, digest.path), digest.blake3)));
    }

    /// Takes the digests from which the next session continues.
    pub fn take_unconfirmed(&self) -> Unconfirmed {
        std::mem::take(&mut lock(&self.unconfirmed))
    }

    /// Adds the digests of files that the session before this one has sent, and that the receiver turns out to have.
    /// They are not in the sum, which covers only what this session sends.
    pub fn confirm<'a>(
        &self,
        there: impl IntoIterator<Item = (u16, TreePath)>,
        naming: impl Fn() -> &'a Naming,
    ) {
        let mut unconfirmed = lock(&self.unconfirmed);
        if unconfirmed.is_empty() {
            return;
        }
        let found = there.into_iter().filter_map(|(source, path)| {
            let key = (source, path);
            let blake3 = unconfirmed.remove(&key)?;
            Some(Digest {
                source,
                path: key.1,
                blake3,
            })
        });
        lock(&self.sink).take(found, naming);
    }

    /// Adds digests; `naming` gives the names of their files. It is called only if there are any.
    pub fn add<'a>(
        &self,
        digests: impl IntoIterator<Item = Digest>,
        naming: impl Fn() -> &'a Naming,
    ) {
        let mut sink = lock(&self.sink);
        let mut sum = lock(&self.sum);
        let digests = digests.into_iter().inspect(|digest| {
            for (sum, word) in sum.iter_mut().zip(digest.addend()) {
                *sum = sum.wrapping_add(word);
            }
        });
        sink.take(digests, naming);
    }

    /// Adds a digest to the sum only, because its file has arrived without a name.
    pub fn count(&self, digest: &Digest) {
        for (sum, word) in lock(&self.sum).iter_mut().zip(digest.addend()) {
            *sum = sum.wrapping_add(word);
        }
    }

    /// Takes the sum that another end reports, if no digests were added here.
    pub fn take_for_all(&self, sum: DigestSum) {
        *lock(&self.sum) = sum;
    }

    /// The sum of all digests that were added.
    pub fn sum(&self) -> DigestSum {
        *lock(&self.sum)
    }

    /// The same in hexadecimal, so that the logs of both ends can be compared; `None` if there are no digests.
    pub fn sum_in_hex(&self) -> Option<String> {
        let sum = self.sum();
        let mut bytes = [0; 32];
        for (part, word) in bytes.chunks_exact_mut(8).zip(sum) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        (sum != DigestSum::default()).then(|| blake3::Hash::from_bytes(bytes).to_hex().to_string())
    }

    /// Writes the digests that are still in memory. Returns why some of them are not in the file, if that is so.
    pub fn finish(&self) -> Option<String> {
        match &mut *lock(&self.sink) {
            Sink::File(file) => file.flush().err().map(|error| plain(&error)),
            Sink::Failed(why) => Some(why.clone()),
            Sink::Near(_) | Sink::Nowhere => None,
        }
    }
}

impl Sink {
    /// Takes all of them, also if they can go nowhere.
    fn take<'a>(&mut self, digests: impl Iterator<Item = Digest>, naming: impl Fn() -> &'a Naming) {
        let written = match self {
            Self::Nowhere | Self::Failed(_) => {
                digests.for_each(drop);
                Ok(())
            }
            Self::Near(control) => {
                let told: Vec<FileDigest> = digests.map(FileDigest::from).collect();
                for at_once in told.chunks(TOLD_AT_ONCE) {
                    control.say(Message::Digests(at_once.to_vec()));
                }
                Ok(())
            }
            Self::File(file) => {
                let mut written = Ok(());
                // The sum is of all, so those behind one that cannot be written are gone through too.
                for digest in digests {
                    if written.is_ok() {
                        let name = naming().name(digest.source, &digest.path);
                        let digest = blake3::Hash::from_bytes(digest.blake3).to_hex();
                        written = write_line(file, &digest, &name);
                    }
                }
                written
            }
        };
        if let Err(error) = written {
            *self = Self::Failed(plain(&error));
        }
    }
}

impl From<Digest> for FileDigest {
    fn from(digest: Digest) -> Self {
        Self {
            source: digest.source,
            path: digest.path,
            blake3: digest.blake3,
        }
    }
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
    fn the_sum_is_of_each_file_and_its_digest_in_any_order() {
        let file = |source, path: &[u8], blake3| Digest {
            source,
            path: TreePath::try_from(path.to_vec()).unwrap(),
            blake3: [blake3; 32],
        };
        let naming = Naming::default();
        let sum = |files: &[Digest]| {
            let digests = Digests::nowhere();
            digests.add(files.iter().cloned(), || &naming);
            digests.sum()
        };
        let (a, b) = (file(0, b"a", 1), file(0, b"b", 2));
        let both = sum(&[a.clone(), b.clone()]);
        assert_eq!(both, sum(&[b.clone(), a.clone()]));
        assert_eq!(sum(&[]), [0; 4]);
        assert_eq!(Digests::nowhere().sum_in_hex(), None);
        for other in [
            vec![a.clone()],
            vec![a.clone(), b.clone(), b.clone()],
            vec![file(0, b"a", 2), file(0, b"b", 1)],
            vec![a.clone(), file(1, b"b", 2)],
            vec![a, file(0, b"b", 3)],
        ] {
            assert_ne!(sum(&other), both, "{other:?}");
        }
    }

    #[test]
    fn the_sum_is_of_all_also_where_their_file_takes_no_more() {
        let naming = Naming::default();
        let sum = |digests: Digests| {
            digests.add(vec![digest(); 1000], || &naming);
            digests.sum()
        };
        assert_eq!(sum(Digests::to_file(b"/dev/full")), sum(Digests::nowhere()));
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
