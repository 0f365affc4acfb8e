//! Encrypted streams: records, and what comes in place of their opening.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use howdah_transfer::stream::{Stream, StreamError};
use howdah_transfer::tls::record::{
    HEADER_BYTES, MAX_BODY_BYTES, MAX_PAYLOAD_BYTES, TRAILER_BYTES,
};
use howdah_transfer::tls::{Direction, Identity, OPENING_BYTES, SessionKeys, TlsStream};

use crate::input::Input;

/// What a socket takes without a reader.
const MOST_BYTES: usize = 64 << 10;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION: u8 = 23;

/// A socket from which `bytes` come and then nothing, and its other end. To whom it is handed, it is one
/// of TCP: reading, writing and shutting down are the same.
fn socket_with(bytes: &[u8]) -> (TcpStream, UnixStream) {
    let (near, mut far) = UnixStream::pair().expect("sockets");
    far.write_all(bytes).expect("the socket takes it");
    far.shutdown(Shutdown::Write).expect("it is open");
    (TcpStream::from(OwnedFd::from(near)), far)
}

pub mod records {
    //! Records of a peer that has the keys, and of one that has not.

    use super::*;

    fn first() -> Direction {
        Direction::new([7; 32]).expect("keys follow from any secret")
    }

    /// What a reader has to make of the records so far.
    enum Expected {
        More,
        End,
        Error,
    }

    pub fn run(data: &[u8]) {
        let mut input = Input::new(data);
        let max = 1 + usize::from(input.u16());
        let mut sender = first();
        let mut bytes = Vec::new();
        let mut plaintext = Vec::new();
        let mut expected = Expected::More;
        while !input.is_empty() && bytes.len() < MOST_BYTES - 2 * MAX_BODY_BYTES {
            let outcome = if input.byte() == 0 {
                let count = usize::from(input.byte());
                let raw = input.bytes(count);
                bytes.extend_from_slice(raw);
                if raw.is_empty() {
                    Expected::More
                } else {
                    Expected::Error
                }
            } else {
                let inner = inner(&mut input);
                let body_bytes = inner.len() + TRAILER_BYTES - 1;
                let mut record = vec![0; HEADER_BYTES + body_bytes];
                let (last, payload) = inner.split_last().expect("a type");
                record[HEADER_BYTES..][..payload.len()].copy_from_slice(payload);
                let key = sender.key();
                key.seal_type(*last, &mut record).expect("it has room");
                bytes.extend(record);
                take(
                    &inner,
                    &mut sender,
                    &mut plaintext,
                    matches!(expected, Expected::More),
                )
            };
            if let Expected::More = expected {
                expected = outcome;
            }
        }
        let (socket, far) = socket_with(&bytes);
        let mut stream = TlsStream::new(socket, first(), first());
        let mut got = Vec::new();
        let over = loop {
            match read(&mut stream, max, &mut got) {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        // What `parts` has opened beside a record that it refuses is not lent.
        let all = over.is_ok() || max.is_multiple_of(2);
        assert!(
            if all {
                got == plaintext
            } else {
                plaintext.starts_with(&got)
            },
            "what was sealed comes, and nothing else"
        );
        match (over, expected) {
            (Ok(()), Expected::End) | (Err(StreamError::Broken(_)), Expected::Error) => {}
            // Bytes that are no record may be too few to tell.
            (Err(StreamError::Truncated), Expected::More | Expected::Error) => {}
            (over, _) => panic!("the stream ended as it should not: {over:?}"),
        }
        drop(far);
    }

    /// The inner plaintext of a record: content, type and padding.
    fn inner(input: &mut Input<'_>) -> Vec<u8> {
        let length = match input.byte() {
            255 => MAX_PAYLOAD_BYTES + usize::from(input.byte() & 3),
            254 => usize::from(input.u16()) % MAX_PAYLOAD_BYTES,
            small => usize::from(small) % 24,
        };
        let start = input.bytes(length.min(24)).to_vec();
        let mut inner = start;
        inner.resize(length, 0x55);
        inner.push(match input.byte() {
            0..=199 => APPLICATION,
            200..=219 => ALERT,
            220..=239 => HANDSHAKE,
            _ => input.byte(),
        });
        inner.resize(
            (inner.len() + input.below(4)).min(MAX_BODY_BYTES + 1 - TRAILER_BYTES),
            0,
        );
        inner
    }

    /// RFC 8446, §5.4 for the type, §6 for alerts, §4.6.3 for updates.
    fn take(
        inner: &[u8],
        sender: &mut Direction,
        plaintext: &mut Vec<u8>,
        reading: bool,
    ) -> Expected {
        if inner.len() > MAX_PAYLOAD_BYTES + 1 {
            return Expected::Error;
        }
        let Some(at) = inner.iter().rposition(|byte| *byte != 0) else {
            return Expected::Error;
        };
        match (inner[at], &inner[..at]) {
            (APPLICATION, payload) => {
                if reading {
                    plaintext.extend_from_slice(payload);
                }
                Expected::More
            }
            (ALERT, [_, 0]) => Expected::End,
            (ALERT, [_, 90]) => Expected::More,
            (HANDSHAKE, [24, 0, 0, 1, 0 | 1]) => {
                *sender = sender.next().expect("keys follow from any secret");
                Expected::More
            }
            _ => Expected::Error,
        }
    }

    /// Reads in both of the ways that the receiver does; how many bytes came.
    fn read(stream: &mut TlsStream, max: usize, got: &mut Vec<u8>) -> Result<usize, StreamError> {
        let before = got.len();
        if max.is_multiple_of(2) {
            got.extend_from_slice(stream.data(max)?);
        } else {
            let mut parts = Vec::new();
            stream.parts(max, &mut parts)?;
            parts.iter().for_each(|part| got.extend_from_slice(part));
        }
        assert!(got.len() - before <= max);
        Ok(got.len() - before)
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let payload = |text: &[u8]| [&[1, text.len() as u8], text, &[0, 0]].concat();
        let alert = |description| vec![1, 2, 1, description, 200, 0];
        let update = |asked| vec![1, 5, 24, 0, 0, 1, asked, 220, 0];
        let head = |max: u16| max.to_le_bytes().to_vec();
        vec![
            [head(4096), payload(b"hello"), alert(0)].concat(),
            [
                head(4095),
                payload(b"hello"),
                update(1),
                payload(b"again"),
                alert(90),
                alert(0),
            ]
            .concat(),
            [head(3), payload(b"hello"), vec![0, 3, 23, 3, 3]].concat(),
            [head(4096), payload(b"hello"), alert(20)].concat(),
            [
                head(65535),
                vec![1, 255, 0],
                b"x".repeat(24),
                vec![0, 3],
                alert(0),
            ]
            .concat(),
        ]
    }
}

pub mod opening {
    //! What a stranger says in place of the proof that it has the key, and of the other end's nonce and records.

    use super::*;

    const GREETING: &[u8] = b"a greeting";

    /// Keys of both ends, and a key pair of another session. They are made once, which takes longer than all else.
    fn keys() -> &'static (SessionKeys, SessionKeys, Identity) {
        static KEYS: OnceLock<(SessionKeys, SessionKeys, Identity)> = OnceLock::new();
        KEYS.get_or_init(|| {
            let (near, far) = (
                Identity::generate().expect("a key"),
                Identity::generate().expect("a key"),
            );
            (
                SessionKeys::agree(&near, far.public_key()).expect("a key"),
                SessionKeys::agree(&far, near.public_key()).expect("a key"),
                Identity::generate().expect("a key"),
            )
        })
    }

    pub fn run(data: &[u8]) {
        let (dialler, acceptor, own) = keys();
        let mut input = Input::new(data);
        let dials = input.byte() == 0;
        let rest = input.rest();
        if dials {
            let (socket, far) = socket_with(&rest[..rest.len().min(MOST_BYTES)]);
            let mut stream = dialler.dial(socket, GREETING).expect("the socket takes it");
            let refused = stream.data(1).map(<[u8]>::len);
            assert!(refused.is_err(), "nothing comes without the key");
            drop(far);
        } else {
            let mut opening = [0; OPENING_BYTES];
            let given = rest.len().min(OPENING_BYTES);
            opening[..given].copy_from_slice(&rest[..given]);
            let checked = acceptor.check(GREETING, &opening);
            assert!(checked.is_none(), "nobody gets in without the key");
            let public = rest.get(..32).unwrap_or(rest);
            let _ = SessionKeys::agree(own, public);
        }
    }

    /// Openings and answers, right in their form alone.
    pub fn seeds() -> Vec<Vec<u8>> {
        let record = [&[APPLICATION, 3, 3, 0, 17][..], &[5; 17]].concat();
        vec![
            [vec![1], vec![9; 32], record.clone()].concat(),
            [vec![0], vec![9; 32], record].concat(),
            [vec![0], vec![9; 31]].concat(),
            b"\x01GET / HTTP/1.1\r\n\r\n".to_vec(),
            vec![0, ALERT, 3, 3, 0, 2, 2, 40],
        ]
    }
}
