use std::io::{Read, Write};
use std::net::Shutdown;

use proptest::prelude::*;

use super::super::keys::Direction;
use super::super::record::{
    Content, HEADER_BYTES, MAX_BODY_BYTES, MAX_PAYLOAD_BYTES, Refused, TRAILER_BYTES, TrafficKey,
    record_bytes,
};
use super::*;
use crate::streams::stream::CHUNK_BYTES;

/// Keys that were changed so many times.
fn counted(number: u8) -> Direction {
    let first = Direction::new([7; 32]).unwrap();
    (0..number).fold(first, |direction, _| direction.next().unwrap())
}

fn stream(socket: TcpStream) -> TlsStream {
    TlsStream::new(socket, counted(0), counted(0))
}

/// What `send` puts on the wire, record by record.
fn sealed(send: impl FnOnce(&mut TlsStream) + Send) -> Vec<Vec<u8>> {
    let (near, mut far) = sockets();
    let mut bytes = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| send(&mut stream(near)));
        far.read_to_end(&mut bytes).unwrap();
    });
    let mut records = Vec::new();
    while let Some(length) = record_bytes(&bytes) {
        let rest = bytes.split_off(length.unwrap());
        records.push(std::mem::replace(&mut bytes, rest));
    }
    assert!(bytes.is_empty());
    records
}

/// What comes out at the other end, in pieces of `piece` bytes, and how it ends.
fn opened(bytes: &[u8], piece: usize, max: usize) -> (Vec<u8>, Result<(), StreamError>) {
    let (mut near, far) = sockets();
    thread::scope(|scope| {
        scope.spawn(move || {
            for piece in bytes.chunks(piece) {
                if near.write_all(piece).is_err() {
                    return;
                }
            }
            let _ = near.shutdown(Shutdown::Write);
            // Closing with an alert unread would reset the connection under the reader.
            let _ = near.read_to_end(&mut Vec::new());
        });
        let mut stream = stream(far);
        let result = drain(&mut stream, max);
        let again = stream.data(max);
        assert_eq!(
            again.is_err(),
            result.1.is_err(),
            "an error does not turn into an end"
        );
        result
    })
}

#[test]
fn parts_join_to_what_was_sent_and_stay_within_bounds() {
    let (near, far) = sockets();
    let sent: Vec<u8> = (0..3 * CHUNK_BYTES).map(|i| (i % 251) as u8).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = stream(near);
            for (index, payload) in sent.chunks(50_000).enumerate() {
                stream.put(payload).unwrap();
                if index % 3 == 0 {
                    stream.boundary().unwrap();
                }
            }
            stream.finish().unwrap();
        });
        let mut stream = stream(far);
        let mut got = Vec::new();
        for max in [1, 20_000, 70_000, usize::MAX].into_iter().cycle() {
            let mut parts = Vec::new();
            stream.parts(max, &mut parts).unwrap();
            let bytes: usize = parts.iter().map(|part| part.len()).sum();
            assert!(bytes <= max && parts.iter().all(|part| !part.is_empty()));
            if bytes == 0 {
                break;
            }
            parts.iter().for_each(|part| got.extend_from_slice(part));
        }
        assert!(got == sent, "{} bytes of {}", got.len(), sent.len());
    });
}

fn three_records() -> Vec<Vec<u8>> {
    sealed(|stream| {
        for text in [&b"first"[..], b"second", b"third"] {
            stream.put(text).unwrap();
            stream.flush().unwrap();
        }
        stream.finish().unwrap();
    })
}

fn broken(result: &Result<(), StreamError>) -> bool {
    matches!(result, Err(StreamError::Broken(_)))
}

/// RFC 8448 §3, the client's application data.
#[test]
fn a_record_is_sealed_as_in_rfc_8448() {
    let direction = || {
        Direction::new([
            0x9e, 0x40, 0x64, 0x6c, 0xe7, 0x9a, 0x7f, 0x9d, 0xc0, 0x5a, 0xf8, 0x88, 0x9b, 0xce,
            0x65, 0x52, 0x87, 0x5a, 0xfa, 0x0b, 0x06, 0xdf, 0x00, 0x87, 0xf7, 0x92, 0xeb, 0xb7,
            0xc1, 0x75, 0x04, 0xa5,
        ])
        .unwrap()
    };
    let expected = [
        0x17, 0x03, 0x03, 0x00, 0x43, 0xa2, 0x3f, 0x70, 0x54, 0xb6, 0x2c, 0x94, 0xd0, 0xaf, 0xfa,
        0xfe, 0x82, 0x28, 0xba, 0x55, 0xcb, 0xef, 0xac, 0xea, 0x42, 0xf9, 0x14, 0xaa, 0x66, 0xbc,
        0xab, 0x3f, 0x2b, 0x98, 0x19, 0xa8, 0xa5, 0xb4, 0x6b, 0x39, 0x5b, 0xd5, 0x4a, 0x9a, 0x20,
        0x44, 0x1e, 0x2b, 0x62, 0x97, 0x4e, 0x1f, 0x5a, 0x62, 0x92, 0xa2, 0x97, 0x70, 0x14, 0xbd,
        0x1e, 0x3d, 0xea, 0xe6, 0x3a, 0xee, 0xbb, 0x21, 0x69, 0x49, 0x15, 0xe4,
    ];
    let payload: Vec<u8> = (0..50).collect();
    let mut record = [&[0; HEADER_BYTES], &payload[..], &[0; TRAILER_BYTES]].concat();
    direction()
        .key()
        .seal(Content::Application, &mut record)
        .unwrap();
    assert_eq!(record, expected);
    assert_eq!(
        direction().key().open(&mut record),
        Ok((Content::Application, 50))
    );
    assert_eq!(record[HEADER_BYTES..][..50], payload);
}

#[test]
fn records_are_full_where_no_boundary_is_asked_for() {
    let records = sealed(|stream| {
        stream.put(&[1; 10]).unwrap();
        stream.boundary().unwrap();
        stream.boundary().unwrap();
        stream.send(&vec![2; CHUNK_BYTES + 1]).unwrap();
        stream.finish().unwrap();
    });
    let payload = |record: &Vec<u8>| record.len() - HEADER_BYTES - TRAILER_BYTES;
    let lengths: Vec<usize> = records.iter().map(payload).collect();
    let mut expected = vec![10];
    expected.extend([MAX_PAYLOAD_BYTES; CHUNK_BYTES / MAX_PAYLOAD_BYTES]);
    expected.extend([1, 2]);
    assert_eq!(lengths, expected);
}

#[test]
fn untouched_records_pass() {
    let (got, end) = opened(&three_records().concat(), usize::MAX, usize::MAX);
    assert_eq!(got, b"firstsecondthird");
    end.unwrap();
}

#[test]
fn records_out_of_order_repeated_or_left_out_are_refused() {
    let [a, b, c, close] = &three_records()[..] else {
        panic!("four records")
    };
    for wrong in [
        vec![b, a, c, close],
        vec![a, a, b, c, close],
        vec![a, c, close],
        vec![a, b, close],
        vec![close],
        vec![a, b, c, &a[..].to_vec()],
    ] {
        let bytes: Vec<u8> = wrong.into_iter().flatten().copied().collect();
        let (got, end) = opened(&bytes, usize::MAX, usize::MAX);
        assert!(broken(&end), "{end:?}");
        assert!(b"firstsecondthird".starts_with(&got));
    }
}

#[test]
fn an_end_without_close_notify_is_truncation() {
    let bytes = three_records()[..3].concat();
    for cut in [0, 1, 3, 20] {
        let (_, end) = opened(&bytes[..bytes.len() - cut], usize::MAX, usize::MAX);
        assert!(matches!(end, Err(StreamError::Truncated)), "{end:?}");
    }
}

/// A record with this inner plaintext, sealed by hand.
fn by_hand(key: &mut TrafficKey, inner: &[u8]) -> Vec<u8> {
    // `seal` appends the content type; padding is zeros behind it, so the last byte goes there.
    let (&last, rest) = inner.split_last().unwrap();
    let mut record = [&[0; HEADER_BYTES], rest, &[0; TRAILER_BYTES]].concat();
    key.seal_type(last, &mut record).unwrap();
    record
}

#[test]
fn padding_is_dropped_and_empty_records_are_skipped() {
    let mut direction = counted(0);
    let key = direction.key();
    let bytes = [
        by_hand(key, b"ab\x17\0\0\0"),
        by_hand(key, b"\x17"),
        by_hand(key, b"\x17\0\0"),
        by_hand(key, b"c\0\x17"),
        by_hand(key, &[1, 90, 21]),
        by_hand(key, &[1, 0, 21, 0]),
    ]
    .concat();
    let (got, end) = opened(&bytes, usize::MAX, usize::MAX);
    end.unwrap();
    assert_eq!(got, b"abc\0");
}

#[test]
fn what_has_no_place_in_the_stream_is_refused() {
    for inner in [
        &[0, 0, 0][..],           // padding alone
        b"x\x16",                 // a handshake message that is none
        &[4, 0, 0, 1, 0, 22],     // a session ticket
        &[24, 0, 0, 1, 2, 22],    // a key update that asks neither yes nor no
        &[24, 0, 0, 1, 0, 0, 22], // a key update with something behind it
        b"x\x14",                 // change_cipher_spec, encrypted
        b"x\x18",                 // an unknown type
        &[2, 21],                 // half an alert
        &[2, 20, 21],             // bad_record_mac
        &[2, 80, 21],             // internal_error
    ] {
        let (got, end) = opened(&by_hand(counted(0).key(), inner), usize::MAX, usize::MAX);
        assert!(broken(&end), "{inner:?}: {end:?}");
        assert!(got.is_empty());
    }
    let too_long = vec![23; MAX_PAYLOAD_BYTES + 2];
    let (_, end) = opened(
        &by_hand(counted(0).key(), &too_long),
        usize::MAX,
        usize::MAX,
    );
    assert!(broken(&end), "{end:?}");
}

#[test]
fn headers_are_judged_before_their_records_arrive() {
    assert_eq!(record_bytes(&[23, 3, 3, 0]), None);
    assert_eq!(record_bytes(&[23, 3, 3, 0, 17]), Some(Ok(22)));
    assert_eq!(
        record_bytes(&[23, 3, 3, 0, 16]),
        Some(Err(Refused::Malformed))
    );
    assert_eq!(
        record_bytes(&[20, 3, 3, 0, 17]),
        Some(Err(Refused::Unexpected))
    );
    assert_eq!(
        record_bytes(&[23, 3, 1, 0, 17]),
        Some(Err(Refused::Unexpected))
    );
    let [high, low] = (MAX_BODY_BYTES as u16 + 1).to_be_bytes();
    assert_eq!(
        record_bytes(&[23, 3, 3, high, low]),
        Some(Err(Refused::TooLong))
    );
}

#[test]
fn a_refusal_is_told_to_the_sender() {
    let (mut near, far) = sockets();
    let mut records = three_records();
    records[1][HEADER_BYTES] ^= 1;
    near.write_all(&records[..2].concat()).unwrap();
    let mut receiver = stream(far);
    assert_eq!(receiver.data(100).unwrap(), b"first");
    let refused = receiver.data(100).unwrap_err().to_string();
    assert!(refused.contains("changed on the way"), "{refused}");
    let told = stream(near).data(1).unwrap_err().to_string();
    assert!(told.contains("changed on the way"), "{told}");
}

#[test]
fn an_asked_for_key_update_comes_before_the_next_payload() {
    let (mut near, far) = sockets();
    let update = by_hand(counted(0).key(), &[24, 0, 0, 1, 1, 22]);
    let payload = by_hand(counted(1).key(), b"under the second key\x17");
    near.write_all(&[update, payload].concat()).unwrap();
    let mut updated = stream(far);
    updated.put(b"not sealed yet").unwrap();
    assert_eq!(updated.data(100).unwrap(), b"under the second key");
    updated.flush().unwrap();
    let mut bytes = [0; HEADER_BYTES + 5 + TRAILER_BYTES];
    near.read_exact(&mut bytes).unwrap();
    assert_eq!(
        counted(0).key().open(&mut bytes),
        Ok((Content::Handshake, 5))
    );
    assert_eq!(bytes[HEADER_BYTES..][..5], [24, 0, 0, 1, 0]);
    let mut bytes = [0; HEADER_BYTES + 14 + TRAILER_BYTES];
    near.read_exact(&mut bytes).unwrap();
    assert_eq!(
        counted(1).key().open(&mut bytes),
        Ok((Content::Application, 14))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_sizes_arrive_whole(
        puts in prop::collection::vec((0_usize..40_000, any::<bool>()), 1..12),
        per_key in prop::sample::select(vec![1_u64, 2, 7, 1 << 23]),
        piece in prop::sample::select(vec![1_usize, 4096, 16_411, 300_000]),
        max in 1_usize..20_000,
    ) {
        // Single bytes take a system call each.
        let piece = if piece == 1 && puts.len() > 2 { 5 } else { piece };
        let payload = pattern(puts.iter().map(|&(length, _)| length).sum());
        let bytes = sealed(|stream| {
            stream.set_records_per_key(per_key);
            let mut rest = &payload[..];
            for &(length, boundary) in &puts {
                let (now, later) = rest.split_at(length);
                rest = later;
                stream.put(now).unwrap();
                if boundary {
                    stream.boundary().unwrap();
                }
            }
            stream.finish().unwrap();
        })
        .concat();
        let (got, end) = opened(&bytes, piece, max);
        prop_assert!(end.is_ok(), "{end:?}");
        prop_assert!(got == payload);
    }

    #[test]
    fn no_changed_bit_gets_through(at in any::<prop::sample::Index>(), bit in 0..8) {
        let records = three_records();
        let mut bytes = records.concat();
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        let (got, end) = opened(&bytes, usize::MAX, usize::MAX);
        prop_assert!(end.is_err(), "byte {at}");
        let whole = [&b""[..], b"first", b"firstsecond", b"firstsecondthird"];
        prop_assert!(whole.contains(&&got[..]), "{got:?}");
        let before = records.iter().scan(0, |end, record| { *end += record.len(); Some(*end) })
            .filter(|&end| end <= at).count();
        prop_assert_eq!(&got[..], whole[before]);
    }
}
