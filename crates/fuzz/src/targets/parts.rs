//! What a copy that was cut has left at the receiver.

pub mod part_journals {
    //! The journal behind the content of a part, which another user, or a power cut, may have written.

    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use howdah_transfer::Journal;
    use howdah_wire::Span;
    use howdah_wire::limits::{MAX_SPANS_OF_FILE, MIN_BLOCK_BYTES};
    use rustix::fs::{MemfdFlags, memfd_create};

    use crate::input::Input;
    use crate::memory::within;

    const MTIME_NS: i64 = 7;
    const UNIT: u64 = MIN_BLOCK_BYTES;
    const HEADER_BYTES: u64 = 24;
    /// Records that are read at most, and the memory for them and for the parts that they make.
    const MAX_RECORDS: usize = 4 * 4096;
    const MEMORY: usize = 64 << 10;
    const MEMORY_PER_RECORD: usize = 16 + 64;

    thread_local! {
        // A file of memory: nothing is asked of a disk.
        static PART: File = memfd_create("part", MemfdFlags::CLOEXEC).expect("a file").into();
    }

    /// The first bytes say how long the source is, whether the header is sound, and how often the records come.
    pub fn run(data: &[u8]) {
        PART.with(|part| judge(part, &mut Input::new(data)));
    }

    fn judge(part: &File, input: &mut Input<'_>) {
        let size = u64::from(input.byte() % 64) * UNIT + u64::from(input.byte());
        let (sound, often) = (input.byte() != 0, input.byte());
        let spans = spans(input, size);
        let mut trailer: Vec<u8> = spans.iter().flat_map(|span| record(*span)).collect();
        if often == 255 {
            trailer = trailer.repeat(1 + MAX_RECORDS / spans.len().max(1));
        }
        part.set_len(0).expect("it is shortened");
        part.set_len(size).expect("it has holes");
        if sound {
            Journal::new(size, MTIME_NS)
                .write(part)
                .expect("it has room");
        }
        let at = size + if sound { HEADER_BYTES } else { 0 };
        part.write_all_at(&trailer, at).expect("it has room");
        let records = (trailer.len() / 16).min(MAX_RECORDS);
        let most = MEMORY + MEMORY_PER_RECORD * records;
        let Some(mut journal) = within(most, || Journal::read(part, size, MTIME_NS)) else {
            assert!(!sound, "a sound header is read");
            return;
        };
        assert!(sound || trailer.starts_with(b"\x89HDPART1"));
        if !sound {
            return;
        }
        let read = &spans[..spans.len().min(MAX_RECORDS)];
        let found = journal.found();
        assert_found(&found, read, size);
        journal.write(part).expect("it has room");
        assert_eq!(again(part, size), found, "it reads what it writes");
        let more = Span {
            offset: 0,
            len: size.min(UNIT),
        };
        journal.add(part, more).expect("it has room");
        let with = again(part, size);
        assert_eq!(with, journal.found());
        assert!(size == 0 || with.first().is_some_and(|first| first.offset == 0));
    }

    /// A record is drawn whole, or as quarters of blocks.
    fn spans(input: &mut Input<'_>, size: u64) -> Vec<Span> {
        let mut spans = Vec::new();
        while !input.is_empty() {
            let (offset, len) = match input.byte() {
                0 => (input.u64(), input.u64()),
                1 => (u64::from(input.byte()) * UNIT / 4, size),
                2 => {
                    let offset = u64::from(input.byte()) * UNIT / 4;
                    (offset, size.saturating_sub(offset))
                }
                quarters => {
                    let len = u64::from(quarters) * UNIT / 4;
                    (u64::from(input.byte()) * UNIT / 4, len)
                }
            };
            spans.push(Span { offset, len });
        }
        spans
    }

    fn record(span: Span) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&span.offset.to_le_bytes());
        bytes[8..].copy_from_slice(&span.len.to_le_bytes());
        bytes
    }

    fn again(part: &File, size: u64) -> Vec<Span> {
        let journal = Journal::read(part, size, MTIME_NS).expect("it was written");
        journal.found()
    }

    /// What is found are the whole blocks of what the records say of this file, by an account a quarter of a block.
    fn assert_found(found: &[Span], records: &[Span], size: u64) {
        let inside = |span: &&Span| span.end().is_some_and(|end| end <= size);
        let within: Vec<(u64, u64)> = records
            .iter()
            .filter(inside)
            .map(|span| (span.offset, span.offset + span.len))
            .collect();
        let covered = |mut from: u64, to: u64| {
            while from < to {
                let reach = within
                    .iter()
                    .filter(|(begin, end)| *begin <= from && from < *end);
                match reach.map(|(_, end)| *end).max() {
                    Some(end) => from = end,
                    None => return false,
                }
            }
            true
        };
        assert!(found.len() <= MAX_SPANS_OF_FILE);
        let mut before = None;
        for span in found {
            let end = span.end().expect("it is in the file");
            assert!(span.len > 0 && end <= size && before < Some(span.offset));
            assert!(span.offset.is_multiple_of(UNIT));
            assert!(end == size || span.len.is_multiple_of(UNIT));
            assert!(
                covered(span.offset, end),
                "nothing is found that is not noted"
            );
            before = Some(end);
        }
        let blocks = size.div_ceil(UNIT);
        for (begin, end) in (0..blocks).map(|block| (block * UNIT, size.min((block + 1) * UNIT))) {
            let is_found = found
                .iter()
                .any(|span| span.offset <= begin && end <= span.offset + span.len);
            assert_eq!(is_found, covered(begin, end), "what is noted is found");
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        vec![
            vec![8, 3, 1, 0, 4, 0, 8, 16, 3, 1, 5, 9],
            vec![8, 0, 1, 0, 2, 12, 1, 0, 4, 4],
            vec![63, 255, 1, 255, 4, 0, 4, 8],
            vec![2, 0, 0, 0, 0, 1, 2, 3],
            [vec![1, 0, 1, 0, 0], vec![255; 8], vec![1; 8]].concat(),
            vec![0, 0, 1, 0, 2, 0],
        ]
    }
}
