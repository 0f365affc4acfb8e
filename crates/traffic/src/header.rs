//! What each datagram begins with.

use crate::Error;

/// What a source shows its sink; whoever does not know it is not counted.
pub type Token = [u8; 16];

/// Shortest datagram: little more than a header.
pub const MIN_DATAGRAM_BYTES: usize = 64;
/// Longest: what an IPv4 packet of 65,535 bytes carries.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

/// The beginning of a datagram's payload, numbers in network order: token, blast, number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which object a piece is of, from 1; [`Header::STREAM`] of none, [`Header::KNOCK`] of nothing at all.
    pub blast: u32,
    /// Its place in the sequence, or in the object.
    pub number: u64,
}

impl Header {
    /// Length in bytes.
    pub const BYTES: usize = 28;
    /// The datagram is one of a sequence.
    pub const STREAM: u32 = 0;
    /// The datagram only shows that its way is open.
    pub const KNOCK: u32 = u32::MAX;

    /// Writes it to the beginning of `datagram`.
    pub fn put(self, token: &Token, datagram: &mut [u8]) {
        datagram[..16].copy_from_slice(token);
        datagram[16..20].copy_from_slice(&self.blast.to_be_bytes());
        datagram[20..Self::BYTES].copy_from_slice(&self.number.to_be_bytes());
    }

    /// The header and the rest of a datagram that shows `token`; `None` for any other.
    pub fn take<'a>(token: &Token, datagram: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (shown, rest) = datagram.split_first_chunk::<16>()?;
        let (blast, rest) = rest.split_first_chunk::<4>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        // Every byte is looked at, so that the time tells nothing.
        let differ = shown.iter().zip(token).fold(0, |all, (a, b)| all | a ^ b);
        (differ == 0).then(|| {
            let blast = u32::from_be_bytes(*blast);
            let number = u64::from_be_bytes(*number);
            (Self { blast, number }, rest)
        })
    }
}

/// A length that datagrams may have.
///
/// # Errors
/// Outside of [`MIN_DATAGRAM_BYTES`] to [`MAX_DATAGRAM_BYTES`].
pub(crate) fn check_length(datagram_bytes: u64) -> Result<usize, Error> {
    usize::try_from(datagram_bytes)
        .ok()
        .filter(|bytes| (MIN_DATAGRAM_BYTES..=MAX_DATAGRAM_BYTES).contains(bytes))
        .ok_or(Error::DatagramLength(datagram_bytes))
}
