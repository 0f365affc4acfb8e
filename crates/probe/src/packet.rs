//! What goes over the path.
//!
//! UDP, both ways, 64 bytes: magic (4), token (16), number (8), time held by the far end in ns (8), zeros.
//! An answer is as long as what it answers, so nobody gains by making a responder answer somebody else.
//! ICMP echo (RFC 792, RFC 4443): the same without the time held is the data, 56 bytes as ping(8) has.
//! Numbers are big-endian.

use std::fmt::Write;

const UDP_PROBE: [u8; 4] = *b"HDp1";
const UDP_ANSWER: [u8; 4] = *b"HDa1";
const ICMP_PROBE: [u8; 4] = *b"HDi1";
/// Of a UDP probe or an ICMP message.
pub const PROBE_BYTES: usize = 64;
const ICMP_HEADER_BYTES: usize = 8;

/// Who does not know it cannot answer, nor ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub [u8; 16]);

impl Token {
    /// From the kernel's generator.
    ///
    /// # Errors
    /// When it refuses, which it does before it has been seeded.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        // SAFETY: the pointer and the length describe `bytes`.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if got == bytes.len() as isize {
            Ok(Self(bytes))
        } else {
            Err(std::io::Error::last_os_error())
        }
    }

    /// As 32 hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.0.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// Of 32 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16)
            .ok()
            .map(|number| Self(number.to_be_bytes()))
    }

    /// In a time that does not tell how much of it was right.
    fn is(self, bytes: &[u8]) -> bool {
        let differing = |all: u8, (mine, theirs): (&u8, &u8)| all | (mine ^ theirs);
        bytes.len() == self.0.len() && self.0.iter().zip(bytes).fold(0, differing) == 0
    }
}

/// A UDP probe.
#[must_use]
pub fn udp_probe(token: Token, number: u64) -> [u8; PROBE_BYTES] {
    message(UDP_PROBE, token, number)
}

/// The number of a UDP probe with this token.
#[must_use]
pub fn read_udp_probe(bytes: &[u8], token: Token) -> Option<u64> {
    (bytes.len() == PROBE_BYTES).then(|| number(bytes, UDP_PROBE, token))?
}

/// The answer to a UDP probe.
#[must_use]
pub fn udp_answer(token: Token, number: u64, held_ns: u64) -> [u8; PROBE_BYTES] {
    let mut bytes = message(UDP_ANSWER, token, number);
    bytes[28..36].copy_from_slice(&held_ns.to_be_bytes());
    bytes
}

/// The number, and the time held in ns, of a UDP answer with this token.
#[must_use]
pub fn read_udp_answer(bytes: &[u8], token: Token) -> Option<(u64, u64)> {
    let number = number(bytes, UDP_ANSWER, token).filter(|_| bytes.len() == PROBE_BYTES)?;
    Some((number, u64::from_be_bytes(bytes[28..36].try_into().ok()?)))
}

/// The two versions of ICMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmp {
    /// RFC 792.
    V4,
    /// RFC 4443. The kernel fills its checksum in.
    V6,
}

impl Icmp {
    fn request(self) -> u8 {
        match self {
            Self::V4 => 8,
            Self::V6 => 128,
        }
    }

    fn reply(self) -> u8 {
        match self {
            Self::V4 => 0,
            Self::V6 => 129,
        }
    }
}

/// An ICMP echo request. A ping socket puts an identifier of its own in place of ours.
#[must_use]
pub fn icmp_probe(version: Icmp, token: Token, number: u64) -> [u8; PROBE_BYTES] {
    let mut bytes = [0; PROBE_BYTES];
    bytes[0] = version.request();
    bytes[4..6].copy_from_slice(&token.0[..2]);
    bytes[6..8].copy_from_slice(&(number as u16).to_be_bytes());
    let data = message(ICMP_PROBE, token, number);
    bytes[ICMP_HEADER_BYTES..].copy_from_slice(&data[..PROBE_BYTES - ICMP_HEADER_BYTES]);
    if version == Icmp::V4 {
        let sum = checksum(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// What an ICMP message is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// The answer to the probe of this number.
    Answer(u64),
    /// A forged echo reply, or a broken one.
    Foreign,
    /// A raw socket receives every ICMP message, and the echo replies to other programs.
    Other,
}

/// Reads an ICMP message without its IP header. `raw`: it may have another program's identifier.
#[must_use]
pub fn read_icmp(bytes: &[u8], version: Icmp, token: Token, raw: bool) -> Echo {
    let another = raw && bytes.get(4..6) != Some(&token.0[..2]);
    if bytes.first() != Some(&version.reply()) || another {
        return Echo::Other;
    }
    bytes
        .get(ICMP_HEADER_BYTES..)
        .and_then(|data| number(data, ICMP_PROBE, token))
        .map_or(Echo::Foreign, Echo::Answer)
}

/// An IPv4 packet without its header; a raw socket hands both over.
#[must_use]
pub fn without_ipv4_header(bytes: &[u8]) -> &[u8] {
    let header = bytes.first().map_or(0, |first| usize::from(first & 15) * 4);
    bytes.get(header..).unwrap_or_default()
}

fn message(magic: [u8; 4], token: Token, number: u64) -> [u8; PROBE_BYTES] {
    let mut bytes = [0; PROBE_BYTES];
    bytes[..4].copy_from_slice(&magic);
    bytes[4..20].copy_from_slice(&token.0);
    bytes[20..28].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn number(bytes: &[u8], magic: [u8; 4], token: Token) -> Option<u64> {
    let right = bytes.get(..4)? == magic && token.is(bytes.get(4..20)?);
    let number = u64::from_be_bytes(bytes.get(20..28)?.try_into().ok()?);
    right.then_some(number)
}

/// RFC 1071, of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let (pairs, _) = bytes.as_chunks::<2>();
    let mut sum: u32 = pairs
        .iter()
        .map(|pair| u32::from(u16::from_be_bytes(*pair)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_and_only_with_its_token(token: [u8; 16], other: [u8; 16], number: u64, held: u64) {
            let (token, other) = (Token(token), Token(other));
            prop_assert_eq!(Token::from_hex(&token.to_hex()), Some(token));
            prop_assert_eq!(read_udp_probe(&udp_probe(token, number), token), Some(number));
            prop_assert_eq!(read_udp_answer(&udp_answer(token, number, held), token), Some((number, held)));
            prop_assert_eq!(udp_probe(token, number).len(), udp_answer(token, number, held).len());
            // A probe sent back to whom it came from is no answer, and an answer is no probe.
            prop_assert_eq!(read_udp_answer(&udp_probe(token, number), token), None);
            prop_assert_eq!(read_udp_probe(&udp_answer(token, number, held), token), None);
            for version in [Icmp::V4, Icmp::V6] {
                let mut echo = icmp_probe(version, token, number);
                prop_assert_eq!(read_icmp(&echo, version, token, true), Echo::Other);
                echo[0] = version.reply();
                prop_assert_eq!(read_icmp(&echo, version, token, true), Echo::Answer(number));
                if token != other {
                    prop_assert_eq!(read_icmp(&echo, version, other, false), Echo::Foreign);
                    let same = token.0[..2] == other.0[..2];
                    let raw = if same { Echo::Foreign } else { Echo::Other };
                    prop_assert_eq!(read_icmp(&echo, version, other, true), raw);
                    prop_assert_eq!(read_udp_probe(&udp_probe(token, number), other), None);
                }
            }
        }

        #[test]
        fn whatever_comes_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let token = Token([0; 16]);
            let _ = read_udp_probe(&bytes, token);
            let _ = read_udp_answer(&bytes, token);
            let _ = read_icmp(without_ipv4_header(&bytes), Icmp::V4, token, true);
            let _ = read_icmp(&bytes, Icmp::V6, token, false);
        }
    }

    #[test]
    fn the_checksum_of_what_has_its_checksum_is_0() {
        assert_eq!(checksum(&icmp_probe(Icmp::V4, Token([9; 16]), 70_000)), 0);
        // The example of RFC 1071, section 3.
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&example), !0xddf2);
    }

    #[test]
    fn only_32_hexadecimal_digits_are_a_token() {
        for text in [
            "",
            "0",
            "+0123456789abcdef0123456789abcde",
            "g0123456789abcdef0123456789abcde",
        ] {
            assert_eq!(Token::from_hex(text), None, "{text}");
        }
    }
}
