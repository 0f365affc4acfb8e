//! TLS: what follows the handshake, and what comes in place of one.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Duration;

use howdah_transfer::stream::{Stream, StreamError};
use howdah_transfer::tls::record::{
    HEADER_BYTES, MAX_BODY_BYTES, MAX_PAYLOAD_BYTES, TRAILER_BYTES, TrafficKey,
};
use howdah_transfer::tls::{Acceptor, Connector, Identity, Rekey, TlsStream};

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

    /// Keys that both ends can count up.
    #[derive(Default)]
    struct Counted(u8);

    impl Rekey for Counted {
        fn next_sending(&mut self) -> Result<TrafficKey, StreamError> {
            Ok(key(0))
        }
        fn next_receiving(&mut self) -> Result<TrafficKey, StreamError> {
            self.0 = self.0.wrapping_add(1);
            Ok(key(self.0))
        }
    }

    fn key(number: u8) -> TrafficKey {
        TrafficKey::new(0, &[number; 16], &[number; 12]).expect("the lengths are right")
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
        let mut sender = key(0);
        let mut updates = 0_u8;
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
                sender.seal_type(*last, &mut record).expect("it has room");
                bytes.extend(record);
                take(
                    &inner,
                    &mut sender,
                    &mut updates,
                    &mut plaintext,
                    matches!(expected, Expected::More),
                )
            };
            if let Expected::More = expected {
                expected = outcome;
            }
        }
        let (socket, far) = socket_with(&bytes);
        let mut stream = TlsStream::new(socket, key(0), key(0), Box::<Counted>::default());
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
        sender: &mut TrafficKey,
        updates: &mut u8,
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
                *updates = updates.wrapping_add(1);
                *sender = key(*updates);
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

pub mod handshake {
    //! What a stranger or an impostor says in place of a handshake, at either end.

    use super::*;

    fn ends() -> &'static (Connector, Acceptor) {
        static ENDS: OnceLock<(Connector, Acceptor)> = OnceLock::new();
        ENDS.get_or_init(|| {
            let (near, far) = (
                Identity::generate().expect("a key"),
                Identity::generate().expect("a key"),
            );
            (
                Connector::new(&near, far.public_key()).expect("a configuration"),
                Acceptor::new(&far, near.public_key()).expect("a configuration"),
            )
        })
    }

    pub fn run(data: &[u8]) {
        let mut input = Input::new(data);
        let connects = input.byte() == 0;
        let (socket, far) =
            socket_with(&input.rest()[..data.len().saturating_sub(1).min(MOST_BYTES)]);
        let (connector, acceptor) = ends();
        let long = Duration::from_secs(60);
        let outcome = if connects {
            connector.connect(socket, long)
        } else {
            acceptor.accept(socket, long)
        };
        assert!(
            matches!(
                outcome,
                Err(StreamError::Handshake(_) | StreamError::Io(_) | StreamError::Broken(_))
            ),
            "nobody gets in without the key"
        );
        drop(far);
    }

    /// What a real client says first, and beginnings of other answers.
    pub fn seeds() -> Vec<Vec<u8>> {
        use std::io::Read;
        let (near, mut far) = UnixStream::pair().expect("sockets");
        far.shutdown(Shutdown::Write).expect("it is open");
        let refused = ends().0.connect(
            TcpStream::from(OwnedFd::from(near)),
            Duration::from_secs(60),
        );
        assert!(refused.is_err());
        let mut hello = Vec::new();
        far.read_to_end(&mut hello).expect("it is closed");
        let (answered, mut server) = UnixStream::pair().expect("sockets");
        server.write_all(&hello).expect("the socket takes it");
        server.shutdown(Shutdown::Write).expect("it is open");
        let refused = ends().1.accept(
            TcpStream::from(OwnedFd::from(answered)),
            Duration::from_secs(60),
        );
        assert!(refused.is_err());
        let mut answer = Vec::new();
        server.read_to_end(&mut answer).expect("it is closed");
        vec![
            [vec![1], hello.clone()].concat(),
            [vec![0], answer].concat(),
            [vec![0], hello].concat(),
            b"\x01GET / HTTP/1.1\r\n\r\n".to_vec(),
            vec![0, 21, 3, 3, 0, 2, 2, 40],
            vec![1, 22, 3, 1, 0xff, 0xff],
        ]
    }
}
