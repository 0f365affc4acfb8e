use std::io::{Read, Write};

use super::super::keys::{Direction, OPENING_BYTES};
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
        sent.push(bytes.split_off(OPENING_BYTES));
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
    // The last two are of low order (RFC 7748 §6.1): anybody would know the secret.
    for wrong in [&[][..], &[1; 31], &[1; 33], &[0; 32], &{
        let mut one = [0; 32];
        one[0] = 1;
        one
    }] {
        assert!(SessionKeys::agree(&own, wrong).is_err(), "{wrong:?}");
    }
}

/// HKDF-Expand-Label with "traffic upd", by an implementation of its own (Python's hmac).
#[test]
fn the_next_secret_is_that_of_rfc_8446() {
    let expected = [
        0xe4, 0xe9, 0xfd, 0x53, 0x95, 0xb1, 0xb2, 0xc1, 0x2d, 0x57, 0xc4, 0x9c, 0xa8, 0x03, 0xcc,
        0xab, 0x19, 0x44, 0xc4, 0xb7, 0x40, 0x4c, 0xff, 0xb8, 0x0e, 0xae, 0x7a, 0x87, 0x37, 0x70,
        0x8e, 0x4c,
    ];
    assert_eq!(
        Direction::new([7; 32]).unwrap().next().unwrap().secret,
        expected
    );
}
