//! Bytes of the control channel.

use howdah_wire::{FrameError, FrameReader, Message, encode, preamble};

use crate::input::Input;
use crate::memory::within;
use crate::message::{KINDS, any_message};

/// Memory that a byte of a message may cost: a source of a job takes 1 byte and becomes a vector, in
/// one that doubles as it grows. An offer of 513 files says a path of 4096 bytes once, and 9 bytes of each other file.
const MEMORY_PER_BYTE: usize = 24 * 4 + 513 * 4096 / (4096 + 512 * 9);
/// Memory that a message may cost beyond that: serde reserves so much for a sequence at once.
const MEMORY_AT_ONCE: usize = 2 << 20;

/// The first byte says how the bytes are cut as they arrive, the second whether a greeting precedes them.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (cut, greeted) = (input.byte(), input.byte() & 1 != 0);
    let mut bytes = if greeted { preamble() } else { Vec::new() };
    let start = bytes.len();
    bytes.extend(input.rest());
    let most = MEMORY_AT_ONCE + MEMORY_PER_BYTE * bytes.len();
    let (whole, error) = within(most, || read(&bytes, bytes.len().max(1)));
    let (parts, part_error) = read(&bytes, 1 + usize::from(cut));
    assert_eq!(
        whole, parts,
        "what arrives in parts is read as what arrives at once"
    );
    assert_eq!(error.is_some(), part_error.is_some());
    if let (Some(FrameError::TooLong(one)), Some(FrameError::TooLong(other))) =
        (&error, &part_error)
    {
        assert_eq!(one, other);
    }
    let mut at = if greeted {
        start
    } else {
        start + preamble().len()
    };
    for message in &whole {
        let length = frame_length(&bytes[at..]);
        let frame = encode(message).expect("what was read can be said");
        assert!(
            frame.len() <= length,
            "no other frame of a message is shorter"
        );
        if frame.len() == length {
            assert_eq!(frame, bytes[at..at + length]);
        }
        let (again, error) = read(&[preamble(), frame].concat(), usize::MAX);
        assert_eq!((&again[..], error), (std::slice::from_ref(message), None));
        at += length;
    }
}

fn frame_length(bytes: &[u8]) -> usize {
    let length = bytes.first_chunk().expect("a frame has a length");
    4 + u32::from_le_bytes(*length) as usize
}

fn read(bytes: &[u8], cut: usize) -> (Vec<Message>, Option<FrameError>) {
    let mut reader = FrameReader::new();
    let mut messages = Vec::new();
    for part in bytes.chunks(cut) {
        reader.push(part);
        loop {
            match reader.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => {
                    assert!(reader.foreign().len() <= 400);
                    return (messages, Some(error));
                }
            }
        }
    }
    (messages, None)
}

pub fn seeds() -> Vec<Vec<u8>> {
    let frames = seed_messages()
        .into_iter()
        .map(|message| encode(&message).expect("it is short"));
    let mut seeds: Vec<Vec<u8>> = frames.map(|frame| [vec![3, 1], frame].concat()).collect();
    seeds.push(
        [
            vec![3, 0],
            preamble(),
            encode(&Message::Cancel).expect("it is short"),
        ]
        .concat(),
    );
    seeds.push(b"\x03\x00bash: howdah: command not found\n".to_vec());
    seeds
}

fn seed_messages() -> Vec<Message> {
    let drawn = |kind: u8| {
        let bytes: Vec<u8> = std::iter::once(kind)
            .chain((0..96).map(|at| at * 5 % 7))
            .collect();
        any_message(&mut Input::new(&bytes))
    };
    (0..KINDS).map(drawn).collect()
}
