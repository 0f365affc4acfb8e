//! TLS 1.3 records, encrypted and decrypted in place (RFC 8446 §5).

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::streams::stream::StreamError;

/// Type, legacy version and length in front of each record.
pub const HEADER_BYTES: usize = 5;
/// Most payload of a record (§5.1).
pub const MAX_PAYLOAD_BYTES: usize = 1 << 14;
/// Inner content type and authentication tag behind the payload.
pub const TRAILER_BYTES: usize = 1 + TAG_BYTES;
/// Room a full record takes.
pub const SLOT_BYTES: usize = HEADER_BYTES + MAX_PAYLOAD_BYTES + TRAILER_BYTES;
/// Most bytes behind the header a record may have (§5.2), ours or not.
pub const MAX_BODY_BYTES: usize = MAX_PAYLOAD_BYTES + 256;
const TAG_BYTES: usize = 16;

/// What a record carries (§5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Content {
    Alert = 21,
    Handshake = 22,
    Application = 23,
}

/// The key of one direction and the number of the next record.
pub struct TrafficKey {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl TrafficKey {
    /// `None` if the key is not 16 bytes long or the IV not 12.
    pub fn new(sequence: u64, key: &[u8], iv: &[u8]) -> Option<Self> {
        Some(Self {
            key: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key).ok()?),
            iv: iv.try_into().ok()?,
            sequence,
        })
    }

    /// Records handled with this key.
    pub fn records(&self) -> u64 {
        self.sequence
    }

    /// The per-record nonce (§5.3).
    fn next_nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Encrypts `record`. It has room for the header, then the payload, then room for the trailer.
    pub fn seal(&mut self, content: Content, record: &mut [u8]) -> Result<(), StreamError> {
        self.seal_type(content as u8, record)
    }

    /// Encrypts an empty record with `padding` zeros after its content type (§5.4). It has room for both, a header
    /// and a tag.
    pub fn seal_padded(&mut self, record: &mut [u8], padding: usize) -> Result<(), StreamError> {
        record[HEADER_BYTES..].fill(0);
        record[HEADER_BYTES] = Content::Application as u8;
        debug_assert_eq!(record.len(), HEADER_BYTES + padding + TRAILER_BYTES);
        self.seal_type(0, record)
    }

    /// The same with any last byte of the inner plaintext.
    pub fn seal_type(&mut self, content: u8, record: &mut [u8]) -> Result<(), StreamError> {
        let body_bytes = record.len() - HEADER_BYTES;
        debug_assert!(body_bytes <= MAX_BODY_BYTES);
        let header = header(body_bytes as u16);
        record[..HEADER_BYTES].copy_from_slice(&header);
        let (inner, tag) = record[HEADER_BYTES..].split_at_mut(body_bytes - TAG_BYTES);
        inner[body_bytes - TRAILER_BYTES] = content;
        let nonce = self.next_nonce();
        let computed = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(header), inner)
            .map_err(|_| StreamError::Broken("a record could not be sealed"))?;
        tag.copy_from_slice(computed.as_ref());
        Ok(())
    }

    /// Decrypts a whole record in place. The payload begins after the header, and has the length that is returned.
    pub fn open(&mut self, record: &mut [u8]) -> Result<(Content, usize), Refused> {
        let (header, body) = record.split_at_mut(HEADER_BYTES);
        let header: [u8; HEADER_BYTES] = (&*header).try_into().map_err(|_| Refused::Malformed)?;
        let nonce = self.next_nonce();
        let inner = self
            .key
            .open_in_place(nonce, Aad::from(header), body)
            .map_err(|_| Refused::Unauthentic)?;
        if inner.len() > MAX_PAYLOAD_BYTES + 1 {
            return Err(Refused::TooLong);
        }
        // The content type is the last byte that is not padding (§5.4).
        let at = inner
            .iter()
            .rposition(|&byte| byte != 0)
            .ok_or(Refused::Unexpected)?;
        let content = match inner[at] {
            21 => Content::Alert,
            22 => Content::Handshake,
            23 => Content::Application,
            _ => return Err(Refused::Unexpected),
        };
        Ok((content, at))
    }
}

/// The header of an encrypted record.
fn header(body_bytes: u16) -> [u8; HEADER_BYTES] {
    let [high, low] = body_bytes.to_be_bytes();
    [Content::Application as u8, 3, 3, high, low]
}

/// The length of the first record of `bytes` with its header; `None` while the header is incomplete.
pub fn record_bytes(bytes: &[u8]) -> Option<Result<usize, Refused>> {
    let &[content, major, minor, high, low] = bytes.first_chunk()?;
    let body_bytes = usize::from(u16::from_be_bytes([high, low]));
    Some(
        if [content, major, minor] != [Content::Application as u8, 3, 3] {
            Err(Refused::Unexpected)
        } else if body_bytes > MAX_BODY_BYTES {
            Err(Refused::TooLong)
        } else if body_bytes < TRAILER_BYTES {
            Err(Refused::Malformed)
        } else {
            Ok(HEADER_BYTES + body_bytes)
        },
    )
}

/// Why a record was refused: the fatal alerts of RFC 8446 §6.2 that records can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refused {
    Unexpected = 10,
    Unauthentic = 20,
    TooLong = 22,
    Malformed = 50,
}

impl Refused {
    pub(super) fn explained(self) -> StreamError {
        StreamError::Broken(match self {
            Self::Unexpected => "a record of a kind that does not belong here",
            Self::Unauthentic => "a record was changed on the way (wrong authentication tag)",
            Self::TooLong => "a record longer than allowed",
            Self::Malformed => "a malformed record",
        })
    }
}
