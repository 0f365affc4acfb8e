//! The algorithms, and how lists of digests call them.

use aws_lc_rs::digest::{Context, SHA256};
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use simd_adler32::Adler32;

/// What makes a digest of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// BLAKE3, as b3sum(1) prints it.
    Blake3,
    /// SHA-256 (FIPS 180-4), as sha256sum(1) prints it.
    Sha256,
    /// MD5 (RFC 1321), as md5sum(1) prints it. It finds accidents, and no malice.
    Md5,
    /// CRC-32C (Castagnoli; RFC 3720, appendix B.4). It finds accidents alone.
    Crc32c,
    /// Adler-32 (RFC 1950, section 8.2). It finds accidents alone.
    Adler32,
}

impl Algorithm {
    /// All of them, the default first.
    pub const ALL: [Self; 5] = [
        Self::Blake3,
        Self::Sha256,
        Self::Md5,
        Self::Crc32c,
        Self::Adler32,
    ];

    /// Its name, as in options and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
            Self::Md5 => "md5",
            Self::Crc32c => "crc32c",
            Self::Adler32 => "adler32",
        }
    }

    /// Length of its digests, in bytes.
    pub fn digest_bytes(self) -> usize {
        match self {
            Self::Blake3 | Self::Sha256 => 32,
            Self::Md5 => 16,
            Self::Crc32c | Self::Adler32 => 4,
        }
    }

    /// The one that `text` names, as a tag of a line does: `SHA256 (file) = …`.
    pub fn named(text: &[u8]) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let is_it = |each: &Self| each.name().as_bytes() == text;
        Self::ALL.into_iter().find(is_it)
    }

    /// The one that the name of a list ends in: `run42.sha256`, `SHA256SUMS`, `md5sum.txt`, `a.b3sum`.
    pub fn of_list(file_name: &[u8]) -> Option<Self> {
        let name = file_name.to_ascii_lowercase();
        let name = name.strip_suffix(b".txt").unwrap_or(&name);
        let name = name.strip_suffix(b"s").unwrap_or(name);
        let name = name.strip_suffix(b"sum").unwrap_or(name);
        let begin = name
            .iter()
            .rposition(|byte| !byte.is_ascii_alphanumeric())
            .map_or(0, |at| at + 1);
        match &name[begin..] {
            b"b3" => Some(Self::Blake3),
            other => Self::named(other),
        }
    }
}

/// A digest being made.
pub enum Hasher {
    /// See [`Algorithm::Blake3`].
    Blake3(Box<blake3::Hasher>),
    /// See [`Algorithm::Sha256`].
    Sha256(Context),
    /// See [`Algorithm::Md5`].
    Md5(Md5),
    /// See [`Algorithm::Crc32c`].
    Crc32c(u32),
    /// See [`Algorithm::Adler32`].
    Adler32(Adler32),
}

impl Hasher {
    /// A hasher that has seen nothing.
    pub fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Blake3 => Self::Blake3(Box::default()),
            Algorithm::Sha256 => Self::Sha256(Context::new(&SHA256)),
            Algorithm::Md5 => Self::Md5(Md5::new()),
            Algorithm::Crc32c => Self::Crc32c(0),
            Algorithm::Adler32 => Self::Adler32(Adler32::new()),
        }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Blake3(hasher) => {
                hasher.update(bytes);
            }
            Self::Sha256(context) => context.update(bytes),
            Self::Md5(hasher) => hasher.update(bytes),
            Self::Crc32c(crc) => *crc = crc32c::crc32c_append(*crc, bytes),
            Self::Adler32(sum) => sum.write(bytes),
        }
    }

    /// The digest. Sums come with their most significant byte first, as they are printed.
    pub fn finish(self) -> Vec<u8> {
        match self {
            Self::Blake3(hasher) => hasher.finalize().as_bytes().to_vec(),
            Self::Sha256(context) => context.finish().as_ref().to_vec(),
            Self::Md5(hasher) => hasher.finalize().to_vec(),
            Self::Crc32c(crc) => crc.to_be_bytes().to_vec(),
            Self::Adler32(sum) => sum.finish().to_be_bytes().to_vec(),
        }
    }
}

/// A digest as it is printed.
pub fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values that each algorithm's own document, or its implementors, give.
    #[test]
    fn digests_are_those_of_the_standards() {
        let of = |algorithm, bytes: &[u8]| {
            let mut hasher = Hasher::new(algorithm);
            for byte in bytes.chunks(2) {
                hasher.update(byte);
            }
            let digest = hasher.finish();
            assert_eq!(digest.len(), algorithm.digest_bytes());
            hex(&digest)
        };
        assert_eq!(
            of(Algorithm::Sha256, b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            of(Algorithm::Md5, b"abc"),
            "900150983cd24fb0d6963f7d28e17f72"
        );
        assert_eq!(of(Algorithm::Crc32c, b"123456789"), "e3069283");
        assert_eq!(of(Algorithm::Adler32, b"Wikipedia"), "11e60398");
        assert_eq!(
            of(Algorithm::Blake3, b""),
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
    }

    #[test]
    fn lists_are_called_as_tools_call_them() {
        for (name, algorithm) in [
            ("run42.b3sum", Some(Algorithm::Blake3)),
            ("run42.b3", Some(Algorithm::Blake3)),
            ("B3SUMS", Some(Algorithm::Blake3)),
            ("x.blake3", Some(Algorithm::Blake3)),
            ("SHA256SUMS", Some(Algorithm::Sha256)),
            ("sha256sum.txt", Some(Algorithm::Sha256)),
            ("a.sha256", Some(Algorithm::Sha256)),
            ("MD5SUMS", Some(Algorithm::Md5)),
            ("night-md5.txt", Some(Algorithm::Md5)),
            ("a.crc32c", Some(Algorithm::Crc32c)),
            ("a.adler32", Some(Algorithm::Adler32)),
            ("a.sha512", None),
            ("amd5", None),
            ("list.txt", None),
            ("", None),
        ] {
            assert_eq!(Algorithm::of_list(name.as_bytes()), algorithm, "{name}");
        }
    }
}
