//! What holds of sequences, rates and objects whatever the way does to them.

use std::collections::HashSet;
use std::time::Duration;

use howdah_traffic::{
    Account, Arrival, Blast, Digest, Gathering, Header, MAX_RANGES, Missing, Pace, Shape, WINDOW,
    fill,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// What the way does to each datagram: lost, late by some places, doubled.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Lost,
    Arrives { late: u8 },
    Twice { late: u8 },
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        2 => Just(Fate::Lost),
        5 => (0_u8..4).prop_map(|late| Fate::Arrives { late }),
        1 => (0_u8..4).prop_map(|late| Fate::Twice { late }),
    ];
    // At least one arrives, or nothing ever would.
    vec(fate, 1..40).prop_filter("all is lost", |fates| {
        fates.iter().any(|fate| !matches!(fate, Fate::Lost))
    })
}

/// What comes of what is sent, in the order of arrival.
fn carried<T: Copy>(sent: &[T], fates: &mut impl Iterator<Item = Fate>) -> Vec<T> {
    let mut arriving = Vec::new();
    for (place, datagram) in sent.iter().enumerate() {
        let place = place as u64;
        match fates.next() {
            Some(Fate::Arrives { late }) => arriving.push((place + u64::from(late), *datagram)),
            Some(Fate::Twice { late }) => {
                arriving.extend([(place, *datagram), (place + u64::from(late), *datagram)]);
            }
            _ => {}
        }
    }
    arriving.sort_by_key(|(at, _)| *at);
    arriving.into_iter().map(|(_, datagram)| datagram).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn an_object_arrives_whole_and_only_what_is_missing_is_sent_again(
        object_bytes in 1_u64..5000, piece_bytes in 1_usize..200, fates in fates(), seed: u64,
    ) {
        let shape = Shape::new(object_bytes, piece_bytes).unwrap();
        let (mut blast, mut gathering) = (Blast::new(shape), Gathering::new(shape));
        let mut fates = fates.into_iter().cycle();
        let mut digest = Digest::default();
        let mut held = HashSet::new();
        let mut content = vec![0; piece_bytes];
        for round in 0.. {
            let sent: Vec<_> = blast.by_ref().collect();
            let numbers: HashSet<_> = sent.iter().map(|piece| piece.number).collect();
            prop_assert_eq!(numbers.len(), sent.len(), "each once a round");
            prop_assert!(numbers.is_disjoint(&held));
            prop_assert!(sent.iter().all(|piece| piece.first_time == (round == 0)));
            for piece in sent.iter().filter(|piece| piece.first_time) {
                fill(seed, piece.number, &mut content[..piece.length]);
                digest.add(piece.number, &content[..piece.length]);
            }
            for piece in carried(&sent, &mut fates) {
                fill(seed, piece.number, &mut content[..piece.length]);
                prop_assert_eq!(
                    gathering.take(piece.number, &content[..piece.length]),
                    held.insert(piece.number)
                );
            }
            let missing = gathering.missing();
            prop_assert_eq!(missing.pieces(), shape.pieces() - held.len() as u64);
            if gathering.whole() {
                break;
            }
            blast.again(missing).unwrap();
        }
        prop_assert_eq!(held.len() as u64, shape.pieces());
        prop_assert_eq!(gathering.digest(), digest);
    }

    #[test]
    fn the_digest_sees_one_changed_bit_and_no_order(
        pieces in vec(vec(any::<u8>(), 1..50), 1..8), at: prop::sample::Index, bit in 0_u8..8,
    ) {
        let sum = |pieces: &[(usize, &Vec<u8>)]| {
            let mut digest = Digest::default();
            pieces.iter().for_each(|(number, piece)| digest.add(*number as u64, piece));
            digest
        };
        let mut ordered: Vec<_> = pieces.iter().enumerate().collect();
        let before = sum(&ordered);
        ordered.reverse();
        prop_assert_eq!(sum(&ordered), before);
        let mut changed = pieces.clone();
        let piece = at.index(changed.len());
        let byte = at.index(changed[piece].len());
        changed[piece][byte] ^= 1_u8 << bit;
        prop_assert_ne!(sum(&changed.iter().enumerate().collect::<Vec<_>>()), before);
    }

    #[test]
    fn pieces_that_an_object_has_not_are_refused(ranges in vec((0_u64..30, 0_u64..10), 0..4)) {
        let shape = Shape::new(200, 10).unwrap();
        let mut end = 0;
        let mut good = true;
        for &(first, count) in &ranges {
            good &= count > 0 && first >= end && first + count <= shape.pieces();
            end = first + count;
        }
        let pieces: u64 = ranges.iter().map(|range| range.1).sum();
        let mut blast = Blast::new(shape);
        let taken = blast.again(Missing(ranges));
        prop_assert_eq!(taken.is_ok(), good);
        if good {
            prop_assert_eq!(blast.left(), pieces);
            prop_assert_eq!(blast.count() as u64, pieces);
        }
    }

    #[test]
    fn a_sequence_is_accounted_for_as_a_set_would(fates in fates(), count in 1_u64..300) {
        let sent: Vec<u64> = (0..count).collect();
        let (mut account, mut seen, mut largest) = (Account::default(), HashSet::new(), None);
        for number in carried(&sent, &mut fates.into_iter().cycle()) {
            let expected = if !seen.insert(number) {
                Arrival::Doubled
            } else if Some(number) > largest {
                Arrival::InOrder
            } else {
                Arrival::Reordered
            };
            prop_assert_eq!(account.take(number), expected);
            largest = largest.max(Some(number));
        }
    }

    #[test]
    fn a_rate_is_held_over_any_time(rate_bps in 1_000_u64..20_000_000_000, bytes in 64_usize..65_507, ns in 0_u64..10_u64.pow(10)) {
        let pace = Pace::new(rate_bps, bytes);
        let time = Duration::from_nanos(ns);
        let (within, due) = (pace.within(time), pace.due(time));
        let exact = rate_bps as f64 * ns as f64 / 1e9 / 8.0 / bytes as f64;
        prop_assert!((within as f64 - exact).abs() <= 1.0 + exact * 1e-9);
        prop_assert!(due == within || due == within + 1);
        prop_assert!(due == 0 || pace.at(due - 1) <= time);
        prop_assert!(pace.at(due) > time);
        prop_assert!(pace.together() >= 1);
    }

    #[test]
    fn a_datagram_without_the_token_is_none(token: [u8; 16], blast: u32, number: u64, rest in vec(any::<u8>(), 0..80), at in 0_usize..16) {
        let mut datagram = vec![0; Header::BYTES];
        datagram.extend(&rest);
        let header = Header { blast, number };
        header.put(&token, &mut datagram);
        prop_assert_eq!(Header::take(&token, &datagram), Some((header, &rest[..])));
        datagram[at] ^= 1;
        prop_assert_eq!(Header::take(&token, &datagram), None);
        prop_assert_eq!(Header::take(&token, &datagram[..Header::BYTES - 1]), None);
    }
}

#[test]
fn beyond_the_window_nothing_is_said() {
    let mut account = Account::default();
    let far = 3 * WINDOW + 5;
    assert_eq!(account.take(far), Arrival::InOrder);
    assert_eq!(account.take(far - WINDOW), Arrival::TooLate);
    assert_eq!(account.take(far - WINDOW + 1), Arrival::Reordered);
    assert_eq!(account.take(far - WINDOW + 1), Arrival::Doubled);
    assert_eq!(account.take(far + 2), Arrival::InOrder);
    assert_eq!(
        account.take(far + 1),
        Arrival::Reordered,
        "what was there a window ago is forgotten"
    );
    assert_eq!(account.take(u64::MAX), Arrival::InOrder);
    assert_eq!(account.take(u64::MAX), Arrival::Doubled);
}

#[test]
fn more_ranges_than_one_list_takes_are_told_in_turn() {
    let pieces = 2 * MAX_RANGES as u64 + 20;
    let shape = Shape::new(pieces, 1).unwrap();
    let mut gathering = Gathering::new(shape);
    for number in (1..pieces).step_by(2) {
        assert!(gathering.take(number, &[0]));
    }
    let first = gathering.missing();
    assert_eq!(
        (first.0.len(), first.pieces()),
        (MAX_RANGES, MAX_RANGES as u64)
    );
    let mut blast = Blast::new(shape);
    blast.again(first).unwrap();
    for piece in blast {
        assert!(gathering.take(piece.number, &[0]));
    }
    assert_eq!(gathering.missing().pieces(), 10);
}

#[test]
fn objects_that_cannot_be_are_refused() {
    for bytes in [0, (64 << 30) + 1, u64::MAX] {
        assert!(Shape::new(bytes, 1000).is_err());
    }
    let mut gathering = Gathering::new(Shape::new(25, 10).unwrap());
    assert!(!gathering.take(2, &[0; 10]), "the last one is shorter");
    assert!(!gathering.take(3, &[0; 10]));
    assert!(!gathering.take(u64::MAX, &[]));
    assert!(gathering.take(2, &[0; 5]));
}
