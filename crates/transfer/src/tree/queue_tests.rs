use super::*;
use crate::tree::ready::MAX_UNCHECKED;
use howdah_wire::limits::MAX_OFFERS_OPEN;
use howdah_wire::{Attributes, Found, Span, TreePath};
use proptest::prelude::*;
use std::time::Instant;

const MIB: u64 = 1 << 20;

fn file(name: u64, size: u64) -> Entry {
    let path = TreePath::try_from(name.to_string().into_bytes()).unwrap();
    let attributes = Attributes {
        mode: 0o644,
        mtime_ns: 0,
        owner: None,
        xattrs: None,
    };
    Entry {
        source: 0,
        path,
        kind: Kind::File {
            size,
            attributes,
            inode: None,
            xattrs: None,
        },
    }
}

fn queue(streams: u16, block_bytes: u64) -> Queue {
    Queue::new(Arc::new(Abort::default()), streams, block_bytes, false)
}

fn offers(queue: &Queue) -> Vec<Offer> {
    let mut offers = Vec::new();
    queue.make_offers(|offer| offers.push(offer));
    offers
}

fn drain(queue: &Queue) -> Vec<Block> {
    std::iter::from_fn(|| queue.next_block(0, || Ok(())).unwrap()).collect()
}

#[test]
fn nothing_is_handed_out_before_the_receiver_accepts() {
    let queue = queue(2, 4 * MIB);
    queue.add(file(1, 10)).unwrap();
    queue.scan_complete();
    assert!(queue.try_next(0).is_none());
    assert_eq!(offers(&queue)[0].files.len(), 1);
    queue.accept(true);
    assert!(matches!(queue.try_next(0), Some(Block::Pack(pack)) if pack.len() == 1));
    assert!(queue.next_block(0, || Ok(())).unwrap().is_none());
}

#[test]
fn only_what_is_needed_is_handed_out() {
    let queue = queue(2, 4 * MIB);
    queue.accept(false);
    for name in 0..4 {
        queue.add(file(name, 10)).unwrap();
    }
    assert!(
        offers(&queue).is_empty(),
        "an offer waits to be full while the scan runs"
    );
    queue.scan_complete();
    assert!(!queue.scanned().complete);
    let offer = offers(&queue).remove(0);
    assert!(queue.scanned().complete);
    let answer = Answer {
        first: offer.first,
        needed: vec![true, false, false, true],
        found: Vec::new(),
        other_xattrs: Vec::new(),
    };
    queue.answer(answer).unwrap();
    let Some(Block::Pack(pack)) = queue.try_next(0) else {
        panic!("no pack")
    };
    let names: Vec<&[u8]> = pack
        .iter()
        .map(|(_, entry)| entry.path.as_bytes())
        .collect();
    assert_eq!(names, [b"0", b"3"]);
    assert_eq!((queue.skipped().files, queue.skipped().bytes), (2, 20));
}

/// A queue with one file of `size` bytes of which the receiver says that it may have the rest.
fn resuming(size: u64, there: Vec<Span>) -> Result<Queue, ProtocolError> {
    let queue = queue(2, 4 * MIB);
    queue.accept(false);
    queue.add(file(1, size)).unwrap();
    queue.scan_complete();
    let offer = offers(&queue).remove(0);
    queue.answer(Answer {
        first: offer.first,
        needed: vec![true],
        found: vec![Found {
            index: 0,
            spans: there,
        }],
        other_xattrs: Vec::new(),
    })?;
    Ok(queue)
}

fn span(offset: u64, len: u64) -> Span {
    Span { offset, len }
}

#[test]
fn only_so_many_files_with_holes_are_on_the_way() {
    let queue = queue(2, 4 * MIB);
    queue.accept(true);
    for name in 0..200 {
        queue.add(file(name, 9 * MIB)).unwrap();
    }
    queue.scan_complete();
    let mut on_the_way = Vec::new();
    while let Some(block) = queue.try_next(0) {
        if let Block::Slice(file, _) = block {
            queue.note_hole(&file, None);
            on_the_way.push(file);
        }
    }
    let mut files: Vec<_> = on_the_way.iter().map(|file| file.number).collect();
    files.dedup();
    // The first slice of a file is what shows that it has holes.
    assert!(queue.try_next(0).is_none());
    assert!((64..=65).contains(&files.len()), "{}", files.len());
    assert_eq!(on_the_way.len(), 3 * files.len());
    on_the_way.drain(..3 * 10);
    assert!(queue.try_next(0).is_some());
}

#[test]
fn what_differs_is_sent_and_no_stream_ends_before_all_is_compared() {
    let queue = resuming(4 * MIB, vec![span(MIB, 2 * MIB)]).unwrap();
    let mut compared = Vec::new();
    let mut sent = Vec::new();
    while let Some(block) = queue.try_next(0) {
        match block {
            Block::Slice(_, span) => sent.push(span),
            Block::There(file, span) => compared.push((file.number, span)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sent.iter().map(|span| span.len).sum::<u64>(), 2 * MIB);
    assert_eq!(
        compared.iter().map(|(_, span)| span.len).sum::<u64>(),
        2 * MIB
    );
    let said = |(file, span), same| queue.checked(&Checked { file, span, same });
    let (first, others) = compared.split_first().unwrap();
    queue.note_read(first.0, first.1.offset, [7; 32]);
    for &other in others {
        said(other, false).unwrap();
        assert!(said(other, false).is_err(), "it was said before");
        assert!(matches!(queue.try_next(1), Some(Block::Slice(_, span)) if span == other.1));
    }
    // One is still being compared.
    assert!(queue.try_next(0).is_none());
    let waits = queue.next_block(0, || Err(TransferError::Cancelled));
    assert_eq!(waits.unwrap_err(), TransferError::Cancelled);
    let same = said(*first, true).unwrap().unwrap();
    assert_eq!((same.span, same.checksum), (first.1, Some([7; 32])));
    assert!(queue.next_block(0, || Ok(())).unwrap().is_none());
}

#[test]
fn words_on_what_is_not_there_are_refused() {
    for there in [span(0, 8 * MIB), span(0, MIB + 1), span(4 * MIB, 1)] {
        assert!(resuming(4 * MIB, vec![there]).is_err(), "{there:?}");
    }
    assert!(resuming(10, vec![span(0, 10)]).is_err(), "a small file");
    let queue = resuming(4 * MIB, vec![span(0, 4 * MIB)]).unwrap();
    let Some(Block::There(file, part)) = queue.try_next(0) else {
        panic!("nothing to compare")
    };
    for (number, span) in [
        (file.number + 1, part),
        (file.number, span(part.offset + 4 * MIB, part.len)),
        (file.number, span(part.offset, part.len + 1)),
    ] {
        let checked = Checked {
            file: number,
            span,
            same: true,
        };
        assert!(queue.checked(&checked).is_err(), "{checked:?}");
    }
}

#[test]
fn parts_that_are_being_compared_have_a_bound() {
    let queue = resuming(1000 * MIB, vec![span(0, 1000 * MIB)]).unwrap();
    let blocks = std::iter::from_fn(|| queue.try_next(0)).count();
    assert_eq!((blocks, queue.unchecked()), (MAX_UNCHECKED, MAX_UNCHECKED));
    queue.forget(1, 0);
    assert!(queue.try_next(0).is_some() && queue.try_next(0).is_none());
}

#[test]
fn one_offer_goes_out_with_the_job_and_few_are_open_later() {
    let queue = queue(1, MIB);
    for name in 0..MAX_WAITING as u64 {
        queue.add(file(name, 1)).unwrap();
    }
    assert_eq!(offers(&queue).len(), 1);
    queue.accept(false);
    assert_eq!(offers(&queue).len(), MAX_OFFERS_OPEN - 1);
}

#[test]
fn what_waits_has_a_bound_in_memory_too_and_leaves_as_much_as_it_came() {
    let long = TreePath::try_from(b"x".repeat(255)).unwrap();
    let named = move |number: u64| {
        let path = (0..10).fold(long.clone(), |path, _| path.join(long.as_bytes()).unwrap());
        let path = path.join(number.to_string().as_bytes()).unwrap();
        Entry {
            path,
            ..file(number, 1)
        }
    };
    for fresh in [true, false] {
        let queue = Arc::new(queue(1, MIB));
        queue.accept(fresh);
        let (added, named) = (Arc::clone(&queue), named.clone());
        let scan = std::thread::spawn(move || {
            let count = 2 * (MAX_WAITING_BYTES / 2816) as u64;
            (0..count).for_each(|number| added.add(named(number)).unwrap());
            added.scan_complete();
            count
        });
        let mut taken = 0;
        let answer = |offer: Offer| Answer {
            first: offer.first,
            needed: vec![true; offer.files.len()],
            found: Vec::new(),
            other_xattrs: Vec::new(),
        };
        let in_memory = || {
            let state = lock(&queue.state);
            state.ready.memory_bytes() + state.offers.memory_bytes()
        };
        while in_memory() < MAX_WAITING_BYTES {
            std::thread::yield_now();
        }
        while !scan.is_finished() || in_memory() > 0 {
            assert!(in_memory() < MAX_WAITING_BYTES + 4096);
            for offer in offers(&queue) {
                queue.answer(answer(offer)).unwrap();
            }
            if let Some(Block::Pack(pack)) = queue.try_next(0) {
                taken += pack.len() as u64;
            }
        }
        assert_eq!(taken, scan.join().unwrap());
    }
}

#[test]
fn blocks_shrink_so_that_streams_end_together() {
    let queue = queue(8, 4 * MIB);
    queue.accept(true);
    queue.add(file(1, 256 * MIB)).unwrap();
    queue.scan_complete();
    let lens: Vec<u64> = drain(&queue)
        .iter()
        .map(|block| match block {
            Block::Slice(_, span) => span.len,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lens[0], 4 * MIB);
    assert!(lens.is_sorted_by(|a, b| a >= b));
    assert!(
        lens[lens.len() - 8..]
            .iter()
            .all(|&len| len == MIN_BLOCK_BYTES),
        "{lens:?}"
    );
}

#[test]
fn streams_are_restrained_only_where_all_is_known_and_little_is_left() {
    let queue = queue(16, MIB);
    queue.accept(true);
    queue.add(file(1, 20 * MIB)).unwrap();
    assert_eq!(queue.unsent_at_most(), None);
    queue.scan_complete();
    assert_eq!(queue.unsent_at_most(), None);
    let mut left = 20 * MIB;
    while left > 0 {
        let before = queue.unsent_at_most();
        let Some(Block::Slice(_, span)) = queue.try_next(0) else {
            panic!("no slice");
        };
        let expected = (left < 16 * MIB).then_some(span.len.max(MIN_BLOCK_BYTES) as u32 / 2);
        assert_eq!(before, expected, "{left} left");
        left -= span.len;
    }
    assert_eq!(queue.unsent_at_most(), None);
}

#[test]
fn a_stream_not_in_use_gets_nothing_but_ends_with_the_others() {
    let queue = queue(4, MIB);
    queue.add_memory(Memory::Bytes(3 * MIB));
    queue.use_streams(2);
    assert!(queue.try_next(2).is_none() && queue.try_next(3).is_none());
    assert!(queue.try_next(0).is_some() && queue.try_next(1).is_some());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.next_block(3, || Ok(())));
        drain(&queue);
        assert!(waiting.join().unwrap().unwrap().is_none());
    });
    queue.add_memory(Memory::Bytes(MIB));
    assert!(queue.try_next(3).is_none());
    queue.use_streams(4);
    assert!(queue.try_next(3).is_some());
}

#[test]
fn a_stop_ends_every_wait() {
    let abort = Arc::new(Abort::default());
    let queue = Queue::new(Arc::clone(&abort), 1, MIB, false);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.next_block(0, || Ok(())));
        abort.trigger();
        assert_eq!(
            waiting.join().unwrap().unwrap_err(),
            TransferError::Cancelled
        );
    });
}

proptest! {
    #[test]
    fn every_byte_is_handed_out_once_in_sound_pieces(
        sizes in prop::collection::vec(prop_oneof![0u64..1000, 0u64..40 * MIB], 0..40),
        streams in 1u16..16,
        block_bytes in 1u64..128 * MIB,
    ) {
        let queue = queue(streams, block_bytes);
        queue.accept(true);
        for (name, &size) in (0..).zip(&sizes) {
            queue.add(file(name, size)).unwrap();
        }
        queue.scan_complete();
        let mut sent = vec![0; sizes.len()];
        for block in drain(&queue) {
            match block {
                Block::Pack(pack) => for (_, entry) in pack {
                    let name: usize = std::str::from_utf8(entry.path.as_bytes()).unwrap().parse().unwrap();
                    prop_assert!(sizes[name] <= 4 * MIN_BLOCK_BYTES && sent[name] == 0);
                    sent[name] = sizes[name];
                },
                Block::Slice(file, Span { offset, len }) => {
                    let name: usize = std::str::from_utf8(file.entry.path.as_bytes()).unwrap().parse().unwrap();
                    prop_assert_eq!(sent[name], offset);
                    prop_assert!(offset.is_multiple_of(len.next_power_of_two()));
                    prop_assert!(len.is_power_of_two() || offset + len == file.size);
                    prop_assert!(len > 0 && len <= MAX_PIECE_BYTES);
                    sent[name] += len;
                }
                Block::There(..) | Block::Memory(_) | Block::Piped(_) => prop_assert!(false),
            }
        }
        prop_assert_eq!(sent, sizes);
    }
}

#[test]
fn memory_ends_at_its_time_and_its_account_is_what_was_taken() {
    let time = Duration::from_millis(30);
    let queue = queue(4, 4 * MIB);
    queue.add_memory(Memory::Time(30_000_000));
    assert!(!queue.scanned().complete);
    // The time counts from the first block, however late that is.
    std::thread::sleep(time);
    let begun = Instant::now();
    let mut taken = 0;
    while let Some(block) = queue.next_block(0, || Ok(())).unwrap() {
        let Block::Memory(len) = block else {
            panic!("{block:?}")
        };
        taken += len;
    }
    assert!(begun.elapsed() >= time && taken > 0);
    let scanned = queue.scanned();
    assert_eq!((scanned.bytes, scanned.complete), (taken, true));
    assert!(queue.try_next(0).is_none());
}
