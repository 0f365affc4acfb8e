//! Frames of the control channel: a magic preamble once, then length and body for each message.

use serde::Serialize;

use crate::limits::MAX_FRAME_BYTES;
use crate::{Message, PROTOCOL_VERSION, printable_within};

/// First bytes of each direction; no shell banner or error message starts like this.
const MAGIC: [u8; 8] = *b"\x89HOWDAH\n";
const PREAMBLE_BYTES: usize = MAGIC.len() + 4;
/// The most that is kept of the text of a peer that does not speak this protocol, in bytes.
const MAX_FOREIGN_BYTES: usize = 400;

/// Why bytes cannot be read as frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The peer does not speak this protocol; holds what it said instead.
    #[error("the other end is not howdah; it said: {0}")]
    Foreign(String),
    /// The peer speaks another version.
    #[error("the other end speaks protocol {0}, this one {PROTOCOL_VERSION}")]
    Version(u32),
    /// A frame longer than [`MAX_FRAME_BYTES`].
    #[error("a frame of {0} bytes is longer than allowed")]
    TooLong(usize),
    /// A body that is no message.
    #[error("a frame holds no message")]
    Malformed,
}

/// What each end sends before its first frame.
pub fn preamble() -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    bytes
}

/// One message as a frame.
///
/// # Errors
/// [`FrameError::TooLong`] when the message is longer than a peer would accept.
pub fn encode(message: &Message) -> Result<Vec<u8>, FrameError> {
    let body = postcard_bytes(message).map_err(|_| FrameError::Malformed)?;
    if body.len() > MAX_FRAME_BYTES {
        return Err(FrameError::TooLong(body.len()));
    }
    let len = u32::try_from(body.len()).map_err(|_| FrameError::TooLong(body.len()))?;
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend_from_slice(&len.to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

pub(crate) fn postcard_bytes<T: Serialize>(value: &T) -> postcard::Result<Vec<u8>> {
    postcard::to_stdvec(value)
}

/// Turns bytes of one direction into messages.
#[derive(Debug, Default)]
pub struct FrameReader {
    buffer: Vec<u8>,
    next: usize,
    greeted: bool,
}

impl FrameReader {
    /// A reader at the start of its direction.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes as they arrive.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.next);
        self.next = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete message, if there is one.
    ///
    /// # Errors
    /// When the bytes are no frames; the direction is unusable from then on.
    pub fn next_message(&mut self) -> Result<Option<Message>, FrameError> {
        let rest = &self.buffer[self.next..];
        if !self.greeted {
            let known = rest.len().min(MAGIC.len());
            if rest[..known] != MAGIC[..known] {
                return Err(FrameError::Foreign(self.foreign()));
            }
            let Some(version) = rest.get(MAGIC.len()..PREAMBLE_BYTES) else {
                return Ok(None);
            };
            let version = version
                .iter()
                .rev()
                .fold(0, |sum, &byte| sum << 8 | u32::from(byte));
            if version != PROTOCOL_VERSION {
                return Err(FrameError::Version(version));
            }
            self.greeted = true;
            self.next += PREAMBLE_BYTES;
            return self.next_message();
        }
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(FrameError::TooLong(length));
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let message = match postcard::take_from_bytes(body) {
            Ok((message, [])) => message,
            _ => return Err(FrameError::Malformed),
        };
        self.next += 4 + length;
        Ok(Some(message))
    }

    /// The printable text that the peer has sent so far, if it has not greeted as howdah does.
    pub fn foreign(&self) -> String {
        let said = &self.buffer[self.next..];
        printable_within(said.trim_ascii(), MAX_FOREIGN_BYTES)
    }

    /// Whether the peer has greeted as howdah does.
    pub fn greeted(&self) -> bool {
        self.greeted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{MAX_FIRST_NAMES_BYTES, MAX_NAME_BYTES, MAX_OFFERED_FILES, MAX_PATH_BYTES};
    use crate::{
        Answer, Checked, Compare, Compared, Found, Limit, Offer, Offered, OfferedFile, Span,
        Steered, Steering, TreePath,
    };
    use proptest::prelude::*;

    fn stream(messages: &[Message]) -> Vec<u8> {
        let mut bytes = preamble();
        for message in messages {
            bytes.extend(encode(message).unwrap());
        }
        bytes
    }

    fn read_all(reader: &mut FrameReader) -> Result<Vec<Message>, FrameError> {
        std::iter::from_fn(|| reader.next_message().transpose()).collect()
    }

    fn span() -> impl Strategy<Value = Span> {
        any::<(u64, u64)>().prop_map(|(offset, len)| Span { offset, len })
    }

    fn found() -> impl Strategy<Value = Found> {
        let spans = prop::collection::vec(span(), 0..9);
        (any::<u16>(), spans).prop_map(|(index, spans)| Found { index, spans })
    }

    fn message() -> impl Strategy<Value = Message> {
        let path = "[a-z]{1,8}(/[a-z]{1,8}){0,3}"
            .prop_map(|text| TreePath::try_from(text.into_bytes()).unwrap());
        let file = (any::<u16>(), path, any::<u64>(), any::<i64>()).prop_map(
            |(source, path, size, mtime_ns)| OfferedFile {
                source,
                path,
                kind: Offered::File,
                size,
                mtime_ns,
                mode: 0o644,
                owner: None,
                xattrs: None,
            },
        );
        prop_oneof![
            Just(Message::Cancel),
            any::<(bool, bool)>()
                .prop_map(|(fresh, into_folder)| Message::Accept { fresh, into_folder }),
            ".{0,40}".prop_map(Message::Warning),
            (any::<u64>(), prop::collection::vec(file, 0..20))
                .prop_map(|(first, files)| Message::Offer(Offer { first, files })),
            (
                any::<u64>(),
                prop::collection::vec(any::<bool>(), 0..50),
                prop::collection::vec(found(), 0..4)
            )
                .prop_map(|(first, needed, found)| Message::Answer(Answer {
                    first,
                    needed,
                    found,
                    other_xattrs: Vec::new(),
                })),
            (any::<u64>(), prop::collection::vec(any::<u16>(), 0..9))
                .prop_map(|(first, files)| Message::Compare(Compare { first, files })),
            (
                any::<u64>(),
                prop::collection::vec(any::<Option<[u8; 32]>>(), 0..9)
            )
                .prop_map(|(first, blake3)| Message::Compared(Compared { first, blake3 })),
            (any::<u64>(), span(), any::<bool>())
                .prop_map(|(file, span, same)| Message::Checked(Checked { file, span, same })),
            (any::<Option<String>>(), any::<u16>(), any::<Option<u64>>()).prop_map(
                |(congestion_control, streams, pacing_bps)| Message::Steer(Steering {
                    congestion_control,
                    streams,
                    pacing_bps
                })
            ),
            (any::<Option<u64>>(), any::<bool>())
                .prop_map(|(most_bps, paused)| Message::Limit(Limit { most_bps, paused })),
            (any::<u64>(), any::<Result<String, String>>())
                .prop_map(|(at_ns, taken)| Message::Steered(Steered { at_ns, taken })),
        ]
    }

    #[test]
    fn says_what_a_stranger_said() {
        let mut reader = FrameReader::new();
        reader.push(b"bash: howdah: command not found\n");
        let error = reader.next_message().unwrap_err();
        assert_eq!(
            error,
            FrameError::Foreign("bash: howdah: command not found".into())
        );
    }

    #[test]
    fn refuses_another_version_and_a_giant_frame() {
        let mut reader = FrameReader::new();
        reader.push(b"\x89HOWDAH\n\xff\0\0\0");
        assert_eq!(reader.next_message(), Err(FrameError::Version(255)));
        let mut reader = FrameReader::new();
        reader.push(&preamble());
        reader.push(&u32::MAX.to_le_bytes());
        assert_eq!(
            reader.next_message(),
            Err(FrameError::TooLong(u32::MAX as usize))
        );
    }

    #[test]
    fn the_largest_messages_fit() {
        let name = "x".repeat(MAX_NAME_BYTES);
        let path = [name.as_str(); MAX_PATH_BYTES / (MAX_NAME_BYTES + 1)].join("/");
        let path = TreePath::try_from(path.into_bytes()).unwrap();
        let (source, size) = (u16::MAX, u64::MAX);
        let file = OfferedFile {
            source,
            path,
            kind: Offered::File,
            size,
            mtime_ns: i64::MIN,
            mode: 0o644,
            owner: None,
            xattrs: None,
        };
        let first = u64::MAX;
        let mut files = vec![file; MAX_OFFERED_FILES];
        // Paths that share nothing, so that each is said whole, and the first names that one offer takes.
        let mut left = MAX_FIRST_NAMES_BYTES + MAX_PATH_BYTES;
        for (number, file) in files.iter_mut().enumerate() {
            let path = file.path.as_bytes();
            let begin = if number % 2 == 0 { b"a" } else { b"b" };
            let first = file.path.clone();
            file.path = TreePath::try_from([begin, &path[1..]].concat()).unwrap();
            if let Some(rest) = left.checked_sub(first.as_bytes().len()) {
                left = rest;
                file.kind = Offered::HardLink {
                    first_source: source,
                    first,
                };
            }
        }
        assert!(encode(&Message::Offer(Offer { first, files })).is_ok());
    }

    #[test]
    fn refuses_bytes_left_over_in_a_frame() {
        let mut bytes = stream(&[Message::Cancel]);
        bytes[PREAMBLE_BYTES] += 1;
        bytes.push(0);
        let mut reader = FrameReader::new();
        reader.push(&bytes);
        assert_eq!(reader.next_message(), Err(FrameError::Malformed));
    }

    proptest! {
        #[test]
        fn messages_survive_any_cut(messages in prop::collection::vec(message(), 0..6), cut in 1usize..40) {
            let mut reader = FrameReader::new();
            let mut got = Vec::new();
            for bytes in stream(&messages).chunks(cut) {
                reader.push(bytes);
                got.extend(read_all(&mut reader).unwrap());
            }
            prop_assert_eq!(got, messages);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), greeted: bool) {
            let mut reader = FrameReader::new();
            if greeted {
                reader.push(&preamble());
            }
            reader.push(&bytes);
            let _ = read_all(&mut reader);
        }

        #[test]
        fn a_flipped_bit_never_panics(messages in prop::collection::vec(message(), 1..4), at: prop::sample::Index, bit in 0u8..8) {
            let mut bytes = stream(&messages);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let mut reader = FrameReader::new();
            reader.push(&bytes);
            let _ = read_all(&mut reader);
        }

        #[test]
        fn a_truncated_stream_yields_a_prefix(messages in prop::collection::vec(message(), 1..5), at: prop::sample::Index) {
            let bytes = stream(&messages);
            let mut reader = FrameReader::new();
            reader.push(&bytes[..at.index(bytes.len())]);
            let got = read_all(&mut reader).unwrap();
            prop_assert!(got.len() < messages.len());
            prop_assert_eq!(&got[..], &messages[..got.len()]);
        }
    }
}
