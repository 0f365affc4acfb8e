//! Changes of a transfer on its way: what its user asks for, and what came of it. JSON at the near end.

use howdah_wire::{Steered, Steering};
use serde::{Deserialize, Serialize};

use crate::error::TransferError;

/// A steering as its user asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// What shall be in force.
    pub steering: Steering,
    /// The reason, for the record.
    pub why: String,
}

/// What came of a [`Wish`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    t_s: f64,
    congestion_control: Option<String>,
    streams: u16,
    pacing_bps: Option<u64>,
    why: String,
    refused: Option<String>,
}

impl Wish {
    /// Reads a Steering.
    ///
    /// # Errors
    /// When it is none, or asks for what streams of which the plan `opened` so many cannot do.
    pub fn read(json: &[u8], opened: u16) -> Result<Self, TransferError> {
        #[derive(Deserialize)]
        struct Json {
            congestion_control: Option<String>,
            streams: u16,
            pacing_bps: Option<u64>,
            why: String,
        }
        let wrong = |what: &str| TransferError::Here(format!("cannot steer the transfer: {what}"));
        let json: Json = serde_json::from_slice(json).map_err(|error| wrong(&error.to_string()))?;
        let steering = Steering {
            congestion_control: json.congestion_control,
            streams: json.streams,
            pacing_bps: json.pacing_bps,
        };
        steering.check(opened).map_err(wrong)?;
        let why = json.why;
        Ok(Self { steering, why })
    }

    /// What came of it, by the word of the end that sends.
    pub fn came_to(self, steered: Steered) -> Change {
        let Self { steering, why } = self;
        let (congestion_control, refused) = match steered.taken {
            Ok(in_use) => (Some(in_use), None),
            Err(reason) => (steering.congestion_control, Some(reason)),
        };
        Change {
            t_s: steered.at_ns as f64 / 1e9,
            congestion_control,
            streams: steering.streams,
            pacing_bps: steering.pacing_bps,
            why,
            refused,
        }
    }
}
