//! The journal of the verified parts of a file. It lies after the content, in the same file.
//!
//! It begins at the offset that will be the file's end. A header names the source of the content, and a record
//! follows for each verified part. The journal only says what to compare, and nothing in it is trusted. So it may be
//! older or newer than the content, or damaged, and is never flushed. The kernel only has to begin writing it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use howdah_wire::Span;
use howdah_wire::limits::MAX_SPANS_OF_FILE;
use rustix::io::Errno;

use crate::tree::place::same_time;
use crate::tree::spans::Spans;
use crate::tree::stat::mtime_ns;

const MAGIC: [u8; 8] = *b"\x89HDPART1";
/// Magic, size and modification time of the source, each little-endian.
const HEADER_BYTES: usize = 24;
/// Offset and length, each little-endian.
const RECORD_BYTES: usize = 16;
/// From so many records on they are written anew, as few as they can be.
const MANY_RECORDS: usize = 4096;
/// How often its write to the disk is begun. The kernel by itself would begin 30 s later, and a power cut
/// would take that much with it.
const BEGIN_EVERY: Duration = Duration::from_secs(1);
/// Records that are read.
const MAX_RECORDS: usize = 4 * MANY_RECORDS;

/// The journal of one file.
#[derive(Debug)]
pub struct Journal {
    size: u64,
    mtime_ns: i64,
    done: Spans,
    records: usize,
    begun: Instant,
}

impl Journal {
    /// An empty journal of a source of `size` bytes with this modification time.
    pub fn new(size: u64, mtime_ns: i64) -> Self {
        Self {
            size,
            mtime_ns,
            done: Spans::default(),
            records: 0,
            begun: Instant::now(),
        }
    }

    /// The journal in `file`; `None` if it is not of this source.
    pub fn read(file: impl AsFd, size: u64, mtime_ns: i64) -> Option<Self> {
        let stat = rustix::fs::fstat(&file).ok()?;
        let there = u64::try_from(stat.st_size).ok()?;
        let mut journal = Self::new(size, mtime_ns);
        if there == size && same_time(mtime_ns, self::mtime_ns(&stat)) {
            // It was complete, and had got all but its name.
            journal.done.add(Span {
                offset: 0,
                len: size,
            });
            return Some(journal);
        }
        let trailer = there.checked_sub(size)?;
        let most = (HEADER_BYTES + MAX_RECORDS * RECORD_BYTES) as u64;
        let mut bytes = vec![0; usize::try_from(trailer.min(most)).ok()?];
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::io::pread(&file, &mut bytes[filled..], size + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        journal.take(&bytes[..filled]).then_some(journal)
    }

    /// Takes what lies behind the content; whether it is a journal of this source.
    fn take(&mut self, trailer: &[u8]) -> bool {
        let Some((header, records)) = trailer.split_at_checked(HEADER_BYTES) else {
            return false;
        };
        if *header != self.header() {
            return false;
        }
        for record in records.chunks_exact(RECORD_BYTES) {
            self.records += 1;
            let span = Span {
                offset: number(&record[..8]),
                len: number(&record[8..]),
            };
            if span.end().is_some_and(|end| end <= self.size) {
                self.done.add(span);
            }
        }
        true
    }

    /// Writes a new journal in `file`. The content ends where the journal begins.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&mut self, file: impl AsFd) -> Result<(), Errno> {
        let mut bytes = self.header().to_vec();
        for span in self.done.each() {
            bytes.extend_from_slice(&record(span));
        }
        self.records = self.done.count();
        put(&file, &bytes, self.size)?;
        rustix::fs::ftruncate(file, self.size + bytes.len() as u64)
    }

    /// Notes a part that was verified and written.
    ///
    /// # Errors
    /// When the file system refuses. After an interruption the part is then not known.
    pub fn add(&mut self, file: impl AsFd, span: Span) -> Result<(), Errno> {
        self.done.add(span);
        if self.records >= MANY_RECORDS.max(2 * self.done.count()) {
            return self.write(file);
        }
        let at = (HEADER_BYTES + self.records * RECORD_BYTES) as u64;
        self.records += 1;
        put(file, &record(span), self.size + at)
    }

    /// The parts to be compared, as many as fit into one answer.
    pub fn found(&self) -> Vec<Span> {
        let spans = self.done.in_blocks(self.size);
        spans.take(MAX_SPANS_OF_FILE).collect()
    }

    /// The range of the file with the journal, if it is time to write it to the disk.
    pub fn due(&mut self) -> Option<Span> {
        if self.begun.elapsed() < BEGIN_EVERY {
            return None;
        }
        self.begun = Instant::now();
        Some(Span {
            offset: self.size,
            len: (HEADER_BYTES + self.records * RECORD_BYTES) as u64,
        })
    }

    /// The size of the source in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..16].copy_from_slice(&self.size.to_le_bytes());
        header[16..].copy_from_slice(&self.mtime_ns.to_le_bytes());
        header
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn record(span: Span) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&span.offset.to_le_bytes());
    record[8..].copy_from_slice(&span.len.to_le_bytes());
    record
}

fn put(file: impl AsFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(&file, bytes, offset) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_wire::limits::MIN_BLOCK_BYTES;
    use proptest::prelude::*;
    use std::fs::{File, FileTimes};
    use std::io::{Seek, SeekFrom, Write};
    use std::time::{Duration, SystemTime};

    const UNIT: u64 = MIN_BLOCK_BYTES;
    const SIZE: u64 = 64 * UNIT + 3;

    fn span(offset: u64, len: u64) -> Span {
        Span { offset, len }
    }

    fn begun() -> (File, Journal) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        let mut journal = Journal::new(SIZE, 7);
        journal.write(&file).unwrap();
        (file, journal)
    }

    #[test]
    fn what_was_added_is_found_again() {
        let (file, mut journal) = begun();
        assert!(Journal::read(&file, SIZE, 7).unwrap().found().is_empty());
        for part in [
            span(0, UNIT),
            span(4 * UNIT, 2 * UNIT),
            span(64 * UNIT, 3),
            span(UNIT, UNIT),
        ] {
            journal.add(&file, part).unwrap();
        }
        let again = Journal::read(&file, SIZE, 7).unwrap();
        let found = [
            span(0, 2 * UNIT),
            span(4 * UNIT, 2 * UNIT),
            span(64 * UNIT, 3),
        ];
        assert_eq!(again.found(), found);
        assert_eq!(again.records, 4);
        for (size, mtime_ns) in [(SIZE, 8), (SIZE - 1, 7), (SIZE + 1, 7), (SIZE + UNIT, 7)] {
            assert!(Journal::read(&file, size, mtime_ns).is_none());
        }
        // A record that is cut says nothing.
        let len = file.metadata().unwrap().len();
        file.set_len(len - 1).unwrap();
        let torn = Journal::read(&file, SIZE, 7).unwrap();
        assert_eq!(
            torn.found(),
            [span(0, UNIT), span(4 * UNIT, 2 * UNIT), span(64 * UNIT, 3)]
        );
        file.set_len(SIZE + 5).unwrap();
        assert!(Journal::read(&file, SIZE, 7).is_none());
    }

    #[test]
    fn it_stays_small_however_many_parts_come() {
        let file = tempfile::tempfile().unwrap();
        let size = 100_000 * UNIT;
        file.set_len(size).unwrap();
        let mut journal = Journal::new(size, 7);
        journal.write(&file).unwrap();
        let most = (HEADER_BYTES + (MANY_RECORDS + 1) * RECORD_BYTES) as u64;
        for number in 0..20_000 {
            journal.add(&file, span(number * UNIT, UNIT)).unwrap();
            assert!(file.metadata().unwrap().len() <= size + most);
        }
        let again = Journal::read(&file, size, 7).unwrap();
        assert_eq!(again.found(), [span(0, 20_000 * UNIT)]);
    }

    #[test]
    fn a_file_that_lacks_only_its_name_is_worth_a_comparison() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_000_007);
        file.set_times(FileTimes::new().set_modified(modified))
            .unwrap();
        let whole = Journal::read(&file, SIZE, 1_700_000_000_000_000_007).unwrap();
        assert_eq!(whole.found(), [span(0, SIZE)]);
        assert!(Journal::read(&file, SIZE, 1_700_000_000_000_000_008).is_none());
        assert!(Journal::read(&file, SIZE + 1, 1_700_000_000_000_000_007).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_journal_or_none(
            with_header: bool,
            bytes in prop::collection::vec(any::<u8>(), 0..400),
        ) {
            let (mut file, _) = begun();
            let at = if with_header { HEADER_BYTES as u64 } else { 0 };
            file.seek(SeekFrom::Start(SIZE + at)).unwrap();
            file.write_all(&bytes).unwrap();
            if let Some(journal) = Journal::read(&file, SIZE, 7) {
                let mut from = 0;
                for span in journal.found() {
                    prop_assert!(span.offset >= from && span.len > 0);
                    from = span.end().unwrap();
                    prop_assert!(from <= SIZE);
                }
            } else {
                prop_assert!(!with_header);
            }
        }
    }
}
