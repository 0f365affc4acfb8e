use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};

use super::super::keys::{Direction, OPENING_BYTES, Secret};
use super::super::record::{Content, HEADER_BYTES, TRAILER_BYTES, TrafficKey};
use super::*;

const GREETING: &[u8] = b"a greeting of no particular length";

/// What a connection begins with: the greeting, and what follows it.
struct Begun {
    socket: TcpStream,
    opening: [u8; OPENING_BYTES],
}

fn identities<const COUNT: usize>() -> [Identity; COUNT] {
    std::array::from_fn(|_| Identity::generate().unwrap())
}

/// The keys of both ends.
fn agreed(near: &Identity, far: &Identity) -> (SessionKeys, SessionKeys) {
    (
        SessionKeys::agree(near, far.public_key()).unwrap(),
        SessionKeys::agree(far, near.public_key()).unwrap(),
    )
}

/// A stream that `dialler` begins, and its other end.
fn dialled(dialler: &SessionKeys) -> (TlsStream, Begun) {
    let (near, mut socket) = sockets();
    let stream = dialler.dial(near, GREETING).unwrap();
    let mut greeting = [0; GREETING.len()];
    socket.read_exact(&mut greeting).unwrap();
    assert_eq!(greeting, GREETING);
    let mut opening = [0; OPENING_BYTES];
    socket.read_exact(&mut opening).unwrap();
    (stream, Begun { socket, opening })
}

fn accepted(acceptor: &SessionKeys, begun: Begun) -> TlsStream {
    let checked = acceptor.check(GREETING, &begun.opening).unwrap();
    checked.go_on(begun.socket).unwrap()
}

#[test]
fn both_directions_carry_what_was_sent() {
    let [near, far] = identities();
    let (dialler, acceptor) = agreed(&near, &far);
    let payload = pattern(3_000_017);
    let (near, begun) = dialled(&dialler);
    let far = accepted(&acceptor, begun);
    let (mut sender, mut receiver) = (near, far);
    for _ in 0..2 {
        sender.set_records_per_key(50);
        thread::scope(|scope| {
            scope.spawn(|| {
                sender.put(b"header").unwrap();
                sender.boundary().unwrap();
                sender.send(&payload).unwrap();
                sender.finish().unwrap();
            });
            let mut header = [0; 6];
            receiver.take(&mut header).unwrap();
            assert_eq!(&header, b"header");
            let (got, end) = drain(&mut receiver, 100_000);
            end.unwrap();
            assert!(got == payload);
            assert!(receiver.data(1).unwrap().is_empty());
        });
        std::mem::swap(&mut sender, &mut receiver);
    }
}

#[test]
fn payload_follows_the_greeting_without_an_answer() {
    let [near, far] = identities();
    let (dialler, acceptor) = agreed(&near, &far);
    let (mut stream, begun) = dialled(&dialler);
    stream.send(b"right behind").unwrap();
    let mut other = accepted(&acceptor, begun);
    assert_eq!(other.data(100).unwrap(), b"right behind");
}

#[test]
fn who_has_another_key_is_refused() {
    let [near, far, other] = identities();
    let (_, acceptor) = agreed(&near, &far);
    for (own, peer) in [(&other, &far), (&near, &other)] {
        let stranger = SessionKeys::agree(own, peer.public_key()).unwrap();
        let (_stream, begun) = dialled(&stranger);
        assert!(acceptor.check(GREETING, &begun.opening).is_none());
    }
}

#[test]
fn an_opening_belongs_to_its_greeting_and_its_direction() {
    let [near, far] = identities();
    let (dialler, acceptor) = agreed(&near, &far);
    let (_stream, begun) = dialled(&dialler);
    assert!(acceptor.check(b"another one", &begun.opening).is_none());
    // Played back to the end that it came from.
    assert!(dialler.check(GREETING, &begun.opening).is_none());
    for at in 0..OPENING_BYTES {
        let mut changed = begun.opening;
        changed[at] ^= 1;
        assert!(acceptor.check(GREETING, &changed).is_none(), "byte {at}");
    }
    assert!(acceptor.check(GREETING, &begun.opening).is_some());
}

#[test]
fn a_connection_that_is_played_again_gets_records_under_other_keys() {
    let [near, far] = identities();
    let (dialler, acceptor) = agreed(&near, &far);
    let (_stream, begun) = dialled(&dialler);
    let mut sent = Vec::new();
    for _ in 0..2 {
        let (here, mut there) = sockets();
        let checked = acceptor.check(GREETING, &begun.opening).unwrap();
        checked
            .go_on(here)
            .unwrap()
            .send(b"the same payload")
            .unwrap();
        let mut bytes = Vec::new();
        there.read_to_end(&mut bytes).unwrap();
        sent.push(bytes.split_off(32));
    }
    assert_ne!(sent[0], sent[1]);
}

#[test]
fn an_answer_of_somebody_else_is_refused() {
    let [near, far] = identities();
    let (dialler, _) = agreed(&near, &far);
    let (mut stream, mut begun) = dialled(&dialler);
    begun.socket.write_all(&[9; 32]).unwrap();
    let record = [&[23, 3, 3, 0, 40][..], &[5; 40]].concat();
    begun.socket.write_all(&record).unwrap();
    let refused = stream.data(1).unwrap_err().to_string();
    assert!(refused.contains("changed on the way"), "{refused}");
}

#[test]
fn what_is_no_public_key_is_refused() {
    let [own] = identities();
    for wrong in [&[][..], &[1; 31], &[1; 33]] {
        assert!(SessionKeys::agree(&own, wrong).is_err(), "{wrong:?}");
    }
}

fn hex<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..][..2], 16).unwrap())
}

/// All points of low order, in each form of 32 bytes without the bit that is masked, and with it: 0, 1, two of order 8,
/// and p − 1, p and p + 1 of p = 2^255 − 19. With them, anybody would know the secret (RFC 7748 §6.1).
#[test]
fn points_of_low_order_are_refused() {
    let [own] = identities();
    let around_p = |last: u8| {
        let mut bytes = [0xff; 32];
        (bytes[0], bytes[31]) = (last, 0x7f);
        bytes
    };
    let mut one = [0; 32];
    one[0] = 1;
    for point in [
        [0; 32],
        one,
        hex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
        hex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
        around_p(0xec),
        around_p(0xed),
        around_p(0xee),
    ] {
        for bit in [0, 0x80] {
            let mut point = point;
            point[31] |= bit;
            assert!(SessionKeys::agree(&own, &point).is_err(), "{point:x?}");
        }
    }
}

/// HMAC-SHA-256 of parts, of which HKDF is made (RFC 5869).
fn mac(key: &[u8], parts: &[&[u8]]) -> Secret {
    let tag = sign(&Key::new(HMAC_SHA256, key), &parts.concat());
    tag.as_ref().try_into().unwrap()
}

/// The key of a traffic secret (RFC 8446 §7.3), after so many records.
fn traffic_key(secret: &Secret, records: u64) -> TrafficKey {
    let key = mac(secret, &[b"\0\x10\x09tls13 key\0\x01"]);
    let iv = mac(secret, &[b"\0\x0c\x08tls13 iv\0\x01"]);
    TrafficKey::new(records, &key[..16], &iv[..12]).unwrap()
}

/// The derivation once more, as docs/design/transfer.md has it. The shared secret was computed with integers of Python.
#[test]
fn the_keys_of_a_connection_depend_on_all_that_names_it() {
    let shared = hex::<32>("2ed76ab549b1e73c031eb49c9448f0798aea81b698279a0c3dc3e49fbfc4b953");
    let session = mac(b"howdah data streams", &[&shared]);
    let key = |label: &[&[u8]], context: &[&[u8]]| {
        let secret = mac(&session, &[&label.concat(), &context.concat(), &[1]]);
        traffic_key(&secret, 0)
    };
    for [near, far] in [[1, 2], [2, 1]] {
        let (near, far) = (Identity::known([near; 32]), Identity::known([far; 32]));
        let (dialler, acceptor) = agreed(&near, &far);
        let (_stream, begun) = dialled(&dialler);
        let (nonce, proof) = begun.opening.split_at(32);
        let context = [near.public_key(), far.public_key(), nonce, GREETING];
        let mut proof = proof.to_vec();
        let opened = key(&[b"dialler"], &context).open(&mut proof);
        assert_eq!(opened, Ok((Content::Application, 0)));
        let (here, mut there) = sockets();
        let checked = acceptor.check(GREETING, &begun.opening).unwrap();
        let _stream = checked.go_on(here).unwrap();
        let mut answer = [0; OPENING_BYTES];
        there.read_exact(&mut answer).unwrap();
        let (nonce, proof) = answer.split_at_mut(32);
        let opened = key(&[b"acceptor", nonce], &context).open(proof);
        assert_eq!(opened, Ok((Content::Application, 0)));
    }
}

#[test]
fn records_of_another_connection_are_refused() {
    let [near, far] = identities();
    let (dialler, acceptor) = agreed(&near, &far);
    let ((mut one, begun), (mut two, other)) = (dialled(&dialler), dialled(&dialler));
    one.send(b"of the first").unwrap();
    two.send(b"of the second").unwrap();
    let swapped = Begun {
        socket: other.socket,
        opening: begun.opening,
    };
    let refused = accepted(&acceptor, swapped).data(100).unwrap_err();
    assert!(refused.to_string().contains("changed on the way"));
}

#[test]
fn what_an_end_has_sent_is_refused_when_it_comes_back() {
    let [near, far] = identities();
    let (dialler, acceptor) = agreed(&near, &far);
    let (mut stream, mut begun) = dialled(&dialler);
    stream.send(b"to the other end").unwrap();
    let mut sent = begun.opening.to_vec();
    let mut record = [0; HEADER_BYTES + 16 + TRAILER_BYTES];
    begun.socket.read_exact(&mut record).unwrap();
    sent.extend(record);
    begun.socket.write_all(&sent).unwrap();
    let refused = stream.data(100).unwrap_err().to_string();
    assert!(refused.contains("changed on the way"), "{refused}");
    let (here, mut there) = sockets();
    let mut stream = acceptor
        .check(GREETING, &begun.opening)
        .unwrap()
        .go_on(here)
        .unwrap();
    stream.send(b"to the dialler").unwrap();
    let mut answer = [0; OPENING_BYTES + HEADER_BYTES + 14 + TRAILER_BYTES];
    there.read_exact(&mut answer).unwrap();
    there.write_all(&answer[OPENING_BYTES..]).unwrap();
    let refused = stream.data(100).unwrap_err().to_string();
    assert!(refused.contains("changed on the way"), "{refused}");
}

#[test]
fn only_who_has_the_key_answers() {
    let [near, far, other] = identities();
    let (dialler, acceptor) = agreed(&near, &far);
    let (mut stream, mut begun) = dialled(&dialler);
    assert!(!stream.is_answered(Duration::ZERO));
    // A service that speaks first.
    begun.socket.write_all(b"220 mail.example").unwrap();
    assert!(!stream.is_answered(Duration::from_millis(50)));
    begun.socket.write_all(&[b' '; 64]).unwrap();
    assert!(!stream.is_answered(LONG));
    // Somebody who knows what an answer looks like.
    let strangers = SessionKeys::agree(&other, far.public_key()).unwrap();
    let (_, made_up) = dialled(&strangers);
    let (_, stranger) = agreed(&other, &far);
    for has_key in [false, true] {
        let (mut stream, begun) = dialled(&dialler);
        let checked = match has_key {
            true => acceptor.check(GREETING, &begun.opening),
            false => stranger.check(GREETING, &made_up.opening),
        };
        let mut answering = checked.unwrap().go_on(begun.socket).unwrap();
        assert_eq!(stream.is_answered(LONG), has_key);
        answering.send(b"payload").unwrap();
        assert_eq!(stream.data(100).is_ok(), has_key);
    }
}

/// 2^24.5 full records are the most for a key of AES-GCM (RFC 8446 §5.5).
#[test]
fn a_stream_of_terabytes_changes_its_key_before_the_limit() {
    let (near, mut far) = sockets();
    let mut sending = Direction::new([7; 32]).unwrap();
    *sending.key() = traffic_key(&[7; 32], 1 << 24);
    let mut stream = TlsStream::new(near, sending, Direction::new([8; 32]).unwrap());
    stream.send(b"payload").unwrap();
    let mut update = [0; HEADER_BYTES + 5 + TRAILER_BYTES];
    far.read_exact(&mut update).unwrap();
    let opened = traffic_key(&[7; 32], 1 << 24).open(&mut update);
    assert_eq!(opened, Ok((Content::Handshake, 5)));
    let mut record = [0; HEADER_BYTES + 7 + TRAILER_BYTES];
    far.read_exact(&mut record).unwrap();
    let mut next = Direction::new([7; 32]).unwrap().next().unwrap();
    assert_eq!(next.key().open(&mut record), Ok((Content::Application, 7)));
}

/// 32 bytes of this process, wherever they are.
fn memory(at: usize) -> Secret {
    let mut bytes = [0; 32];
    let memory = File::open("/proc/self/mem").unwrap();
    memory.read_exact_at(&mut bytes, at as u64).unwrap();
    bytes
}

#[test]
fn a_secret_that_has_been_in_use_is_wiped() {
    let direction = Direction::new([7; 32]).unwrap();
    let at = std::ptr::from_ref::<Secret>(&direction.secret).addr();
    assert_eq!(memory(at), [7; 32]);
    let moved = vec![direction];
    drop(moved);
    // The allocator writes on the first bytes of what is free.
    assert_eq!(memory(at)[16..], [0; 16]);
}

/// HKDF-Expand-Label with "traffic upd", by an implementation of its own (Python's hmac).
#[test]
fn the_next_secret_is_that_of_rfc_8446() {
    let expected = [
        0xe4, 0xe9, 0xfd, 0x53, 0x95, 0xb1, 0xb2, 0xc1, 0x2d, 0x57, 0xc4, 0x9c, 0xa8, 0x03, 0xcc,
        0xab, 0x19, 0x44, 0xc4, 0xb7, 0x40, 0x4c, 0xff, 0xb8, 0x0e, 0xae, 0x7a, 0x87, 0x37, 0x70,
        0x8e, 0x4c,
    ];
    let next = Direction::new([7; 32]).unwrap().next().unwrap();
    assert_eq!(**next.secret, expected);
}
