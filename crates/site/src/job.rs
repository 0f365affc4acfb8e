//! What a copy is asked to do, and what it has done: FarJob and FarAccount of `python/howdah/remote/messages.py`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, de};

/// The job of a copy. Each host decides for itself whether it is allowed.
#[derive(Debug, Clone, Deserialize)]
pub struct Job {
    direction: Direction,
    /// The paths at the sender.
    #[serde(deserialize_with = "many")]
    pub sources: Vec<Vec<u8>>,
    /// The path at the receiver.
    #[serde(deserialize_with = "one")]
    pub destination: Vec<u8>,
    /// The bytes to send from memory, if their number is known.
    pub memory_bytes: Option<u64>,
    /// Whether the receiver removes what is not at the sender.
    #[serde(default)]
    pub delete: bool,
    /// Whether nothing is copied.
    pub dry_run: bool,
    /// Whether the data streams are encrypted.
    pub encrypt: bool,
    /// The host that the data goes to or comes from, if that is not the near end's host.
    pub other: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Push,
    Pull,
}

impl Job {
    /// Whether the far end sends.
    pub fn is_pull(&self) -> bool {
        self.direction == Direction::Pull
    }
}

/// What has moved when a copy has ended.
#[derive(Debug, Default, Deserialize)]
pub struct Account {
    /// Payload that arrived.
    pub bytes: u64,
    /// Files in place.
    pub files: u64,
    /// What was removed at the receiver.
    #[serde(default)]
    pub removed: u64,
    /// The sum of the digests of its files, in hexadecimal.
    pub digest_sum: Option<String>,
    /// The reason why it ended early.
    pub error: Option<String>,
    /// Whether the near end stopped it.
    pub cancelled: bool,
}

fn one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(de::Error::custom)
}

fn many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<u8>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let decoded = texts.into_iter().map(|text| STANDARD.decode(text));
    decoded.collect::<Result<_, _>>().map_err(de::Error::custom)
}
