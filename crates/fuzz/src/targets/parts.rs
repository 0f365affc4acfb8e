//! What a copy that was cut has left at the receiver.

pub mod part_journals {
    //! The journal behind the content of a part, which another user, or a power cut, may have written.
    //!
    //! First any bytes are read as a journal, then a journal is written, cut and read again. Beside it an account is kept
    //! of the parts that were noted: nothing else may be found, and all of that must be.

    use std::collections::BTreeSet;
    use std::fs::{File, FileTimes};
    use std::iter::repeat_n;
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, SystemTime};

    use howdah_transfer::Journal;
    use howdah_wire::Span;
    use howdah_wire::limits::{MAX_SPANS_OF_FILE, MIN_BLOCK_BYTES};
    use rustix::fs::{MemfdFlags, memfd_create};

    use crate::input::Input;
    use crate::memory::within;

    /// Its last byte is not the one of a whole second.
    const MTIME_NS: i64 = 1_700_000_000_000_000_007;
    const UNIT: u64 = MIN_BLOCK_BYTES;
    const MAGIC: &[u8; 8] = b"\x89HDPART1";
    const HEADER_BYTES: usize = 24;
    const RECORD_BYTES: usize = 16;
    /// Records that are written at most, unless there are more parts than half of them, and how many are read.
    const MANY_RECORDS: usize = 4096;
    const MAX_RECORDS: usize = 4 * MANY_RECORDS;
    /// Memory for records that are read, and for each part that they make.
    const MEMORY: usize = 64 << 10;
    const MEMORY_PER_PART: usize = 64;
    /// More than are written in a row by one input without need.
    const MOST_STEPS: usize = 64;

    thread_local! {
        // A file of memory: nothing is asked of a disk.
        static PART: File = memfd_create("part", MemfdFlags::CLOEXEC).expect("a file").into();
    }

    /// The first bytes say how long the source is, what is wrong with the header, and where the file ends.
    pub fn run(data: &[u8]) {
        PART.with(|part| {
            let mut input = Input::new(data);
            let size = match input.byte() {
                // So many blocks that not each of them can be a part of its own.
                255 => 2200 * UNIT,
                blocks => u64::from(blocks % 64) * UNIT + u64::from(input.byte()),
            };
            match input.byte() % 4 {
                0 => judge_changed(part, size, &mut input),
                1 => judge_complete(part, size, &mut input),
                _ => judge_read(part, size, &mut input),
            }
        });
    }

    fn header(size: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&size.to_le_bytes());
        bytes[16..].copy_from_slice(&MTIME_NS.to_le_bytes());
        bytes
    }

    fn read(part: &File, size: u64) -> Option<Journal> {
        Journal::read(part, size, MTIME_NS)
    }

    /// A file of `size` bytes with something behind them.
    fn put(part: &File, size: u64, trailer: &[u8]) {
        part.set_len(0).expect("it is shortened");
        part.set_len(size).expect("it has holes");
        part.write_all_at(trailer, size).expect("it has room");
    }

    /// Any records behind a header of which a byte may be wrong, cut anywhere.
    fn judge_read(part: &File, size: u64, input: &mut Input<'_>) {
        let (wrong, at, cut) = (input.byte(), input.below(HEADER_BYTES), input.u16());
        let often = input.byte();
        let mut spans = spans(input, size);
        if let (255, Some(&first)) = (often, spans.first()) {
            // So many that only the first half of the others is read.
            let others = spans.len().min(MAX_RECORDS) / 2;
            spans.splice(..0, repeat_n(first, MAX_RECORDS - others));
        }
        let records: Vec<u8> = spans.iter().flat_map(|span| record(*span)).collect();
        let mut trailer = header(size).to_vec();
        trailer[at] ^= wrong;
        trailer.extend(&records);
        // An odd number cuts, also the content.
        let end = (size + trailer.len() as u64).saturating_sub(u64::from(cut / 2));
        put(part, size, &trailer);
        if cut % 2 == 1 {
            part.set_len(end).expect("it is cut");
        }
        let left = part
            .metadata()
            .expect("it is there")
            .len()
            .saturating_sub(size);
        let whole = (left as usize).saturating_sub(HEADER_BYTES) / RECORD_BYTES;
        let noted = &spans[..spans.len().min(whole).min(MAX_RECORDS)];
        let parts: BTreeSet<_> = noted.iter().map(|span| (span.offset, span.len)).collect();
        let most = MEMORY + RECORD_BYTES * whole.min(MAX_RECORDS) + MEMORY_PER_PART * parts.len();
        let journal = within(most, || read(part, size));
        let is_sound = wrong == 0 && left >= HEADER_BYTES as u64;
        assert_eq!(
            journal.is_some(),
            is_sound,
            "a journal is read if it is one"
        );
        let Some(mut journal) = journal else {
            return;
        };
        assert_found(&journal.found(), noted, size);
        // What is noted next comes behind all records, also those that say nothing.
        let next = Span {
            offset: 0,
            len: UNIT.min(size),
        };
        journal.add(part, next).expect("it has room");
        let found = journal.found();
        assert_found(&found, &[noted, &[next]].concat(), size);
        assert_eq!(again(part, size), found, "it reads what it has added");
        journal.write(part).expect("it has room");
        let there = part.metadata().expect("it is there").len() - size;
        let inside = noted.iter().filter(|span| is_inside(**span, size)).count();
        assert!(
            there <= (HEADER_BYTES + (inside.min(parts.len()) + 1) * RECORD_BYTES) as u64,
            "nothing else is left"
        );
        assert_eq!(again(part, size), found, "it reads what it writes");
    }

    /// A file that has the size and perhaps the time of its source.
    fn judge_complete(part: &File, size: u64, input: &mut Input<'_>) {
        let (later, shorter, longer) = (input.byte(), input.byte(), input.byte());
        let left = size.saturating_sub(shorter.into());
        put(part, left, &vec![255; longer.into()]);
        let since = match later {
            // Some file systems keep whole seconds.
            255 => Duration::from_secs(MTIME_NS.unsigned_abs() / 1_000_000_000),
            later => Duration::from_nanos(MTIME_NS.unsigned_abs() + u64::from(later)),
        };
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + since);
        part.set_times(times).expect("it has a time");
        let journal = read(part, size);
        let is_whole = [0, 255].contains(&later) && left + u64::from(longer) == size;
        assert_eq!(journal.is_some(), is_whole, "a whole file has its time");
        if let Some(journal) = journal {
            let all = [Span {
                offset: 0,
                len: size,
            }];
            assert_found(&journal.found(), &all, size);
        }
    }

    /// Parts are noted one by one; in between the file is cut, and the journal read again.
    fn judge_changed(part: &File, size: u64, input: &mut Input<'_>) {
        put(part, size, &[]);
        let mut journal = Journal::new(size, MTIME_NS);
        journal.write(part).expect("it has room");
        let mut noted: Vec<Span> = Vec::new();
        for _ in 0..MOST_STEPS {
            if input.is_empty() {
                break;
            }
            match input.byte() % 8 {
                // The end of the file, and of the last record perhaps, was not on the disk.
                0 => {
                    let there = part.metadata().expect("it is there").len();
                    let cut = input.u16() % 64;
                    let left = there - u64::from(cut).min(there - size - HEADER_BYTES as u64);
                    part.set_len(left).expect("it is cut");
                    let records = (left - size) as usize - HEADER_BYTES;
                    noted.truncate(records / RECORD_BYTES);
                    journal = read(part, size).expect("its header is whole");
                }
                1 => {
                    journal = read(part, size).expect("it was written");
                }
                // So many that they are written anew.
                2 if input.byte() == 7 => {
                    let span = part_of_it(span(input, size), size);
                    for _ in 0..=MANY_RECORDS {
                        journal.add(part, span).expect("it has room");
                    }
                    noted.push(span);
                    let there = part.metadata().expect("it is there").len() - size;
                    let most = MANY_RECORDS.max(2 * noted.len()) + MOST_STEPS;
                    assert!(there <= (HEADER_BYTES + most * RECORD_BYTES) as u64);
                    // What a cut leaves of it is not known any more.
                    assert_found(&again(part, size), &noted, size);
                    return;
                }
                _ => {
                    let span = part_of_it(span(input, size), size);
                    journal.add(part, span).expect("it has room");
                    noted.push(span);
                }
            }
            let found = journal.found();
            assert_found(&found, &noted, size);
            assert_eq!(again(part, size), found, "it reads what it writes");
        }
    }

    fn is_inside(span: Span, size: u64) -> bool {
        span.end().is_some_and(|end| end <= size)
    }

    /// What a receiver may note: nothing outside of the file.
    fn part_of_it(span: Span, size: u64) -> Span {
        let offset = span.offset.min(size);
        let len = span.len.min(size - offset);
        Span { offset, len }
    }

    /// Any part of a file, at blocks, beside them, or far outside.
    fn span(input: &mut Input<'_>, size: u64) -> Span {
        let mut near = || {
            let at = u64::from(input.byte()) * UNIT / 4;
            match input.byte() {
                0..=127 => at,
                beside => (at + u64::from(beside)).saturating_sub(192),
            }
        };
        let (offset, len) = (near(), near());
        match input.byte() {
            0 => Span {
                offset: input.u64(),
                len: input.u64(),
            },
            1 => Span { offset, len: size },
            2 => Span {
                offset,
                len: size.saturating_sub(offset),
            },
            // Beyond the end by a little.
            3 => Span {
                offset,
                len: size.saturating_sub(offset) + 1 + len % 3,
            },
            _ => Span { offset, len },
        }
    }

    /// A record is drawn whole, or near blocks; or each second block is one.
    fn spans(input: &mut Input<'_>, size: u64) -> Vec<Span> {
        let mut spans = Vec::new();
        if input.byte() == 255 {
            let blocks = (0..size / UNIT).step_by(2);
            spans.extend(blocks.map(|block| Span {
                offset: block * UNIT,
                len: UNIT,
            }));
        }
        while !input.is_empty() {
            spans.push(span(input, size));
        }
        spans
    }

    fn record(span: Span) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&span.offset.to_le_bytes());
        bytes[8..].copy_from_slice(&span.len.to_le_bytes());
        bytes
    }

    fn again(part: &File, size: u64) -> Vec<Span> {
        read(part, size).expect("it was written").found()
    }

    /// What is found are the whole blocks of what was noted of this file, the first of them if they are many.
    fn assert_found(found: &[Span], noted: &[Span], size: u64) {
        let mut noted: Vec<(u64, u64)> = noted
            .iter()
            .filter(|span| span.len > 0 && is_inside(**span, size))
            .map(|span| (span.offset, span.offset + span.len))
            .collect();
        noted.sort_unstable();
        let mut expected: Vec<Span> = Vec::new();
        let mut reach = 0;
        let mut next = noted.iter().peekable();
        for block in 0..size.div_ceil(UNIT) {
            let (begin, end) = (block * UNIT, size.min((block + 1) * UNIT));
            // From where on all is noted up to `reach`.
            let mut covers_from = if reach >= begin { begin } else { u64::MAX };
            while let Some((from, to)) = next.next_if(|(from, _)| *from < end) {
                if *from > reach {
                    covers_from = *from;
                }
                reach = reach.max(*to);
            }
            if covers_from > begin || reach < end {
                continue;
            }
            match expected.last_mut() {
                Some(last) if last.offset + last.len == begin => last.len = end - last.offset,
                _ => expected.push(Span {
                    offset: begin,
                    len: end - begin,
                }),
            }
        }
        expected.truncate(MAX_SPANS_OF_FILE);
        assert_eq!(found, expected, "what is noted is found and nothing else");
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let near = |offset: u8, len: u8| vec![offset, 0, len, 0, 4];
        vec![
            [
                vec![8, 3, 2, 0, 0, 0, 0, 0, 0],
                near(0, 4),
                near(8, 16),
                near(3, 9),
            ]
            .concat(),
            [vec![8, 0, 2, 0, 0, 9, 0, 0, 0], near(0, 4), near(4, 4)].concat(),
            [vec![63, 255, 2, 0, 0, 0, 0, 255, 0], near(0, 4), near(8, 1)].concat(),
            vec![255, 2, 0, 0, 0, 0, 0, 255],
            [vec![1, 0, 2, 1, 9, 0, 0, 0, 0], near(0, 4)].concat(),
            [
                vec![1, 0, 3, 0, 0, 0, 0, 0, 0],
                vec![0; 5],
                vec![255; 8],
                vec![1; 8],
            ]
            .concat(),
            vec![8, 0, 1, 0, 0],
            vec![8, 9, 1, 1, 0],
            vec![8, 9, 1, 255, 0],
            vec![8, 9, 1, 0, 0, 3],
            [
                vec![63, 0, 2, 0, 0, 0, 0, 255, 0],
                near(0, 4),
                near(8, 4),
                near(16, 4),
                near(24, 4),
            ]
            .concat(),
            [
                vec![8, 0, 0, 3],
                near(0, 4),
                vec![0, 1, 0, 3],
                near(4, 8),
                vec![1, 3],
                near(2, 2),
            ]
            .concat(),
            [vec![8, 0, 0, 3], near(0, 4), vec![2, 7], near(8, 4)].concat(),
        ]
    }
}
