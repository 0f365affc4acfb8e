//! Changes of a running transfer: what its user asks for, and the result. At the near end both are JSON.

use howdah_wire::{Steered, Steering};
use serde::{Deserialize, Serialize};

use crate::end::abort::lock;
use crate::end::context::Context;
use crate::end::tuning::HOLD;
use crate::error::TransferError;

/// Why connections that a rule of their host gives to [`HOLD`] stay as they are.
const HELD: &str =
    "a rule of the sending host holds the connections to a share; howdah cc status shows it there";

/// A steering as its user gives it.
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

/// The results of a transfer's steerings: the first ones, and how it sends now.
#[derive(Debug, Default)]
pub struct Changes {
    kept: Vec<Change>,
    more: u64,
    latest: Option<Change>,
    /// The congestion control in use since the last one that was not refused.
    in_force: Option<String>,
}

impl Changes {
    /// So many are kept of those that may come for as long as a transfer lasts.
    const MOST: usize = 1000;

    /// Takes the next one.
    pub fn add(&mut self, change: Change) {
        if self.kept.len() < Self::MOST {
            self.kept.push(change.clone());
        } else {
            self.more += 1;
        }
        if change.refused.is_none() {
            self.in_force.clone_from(&change.congestion_control);
        }
        self.latest = Some(change);
    }

    /// The first ones, in order.
    pub fn kept(&self) -> &[Change] {
        &self.kept
    }

    /// How many there were beyond those.
    pub fn more(&self) -> u64 {
        self.more
    }

    /// The control of the last one that was not refused, if that is known.
    fn control(&self) -> Option<&str> {
        self.in_force.as_deref()
    }

    /// The last one.
    pub fn latest(&self) -> Option<&Change> {
        self.latest.as_ref()
    }
}

/// Notes what came of a steering.
pub fn note_change(context: &Context, wish: Wish, steered: Steered) {
    let changes = &mut lock(&context.board.notes).changes;
    let planned = context.job.plan.congestion_control.as_deref();
    let change = wish.came_to(steered, changes.control().or(planned));
    changes.add(change);
}

impl Wish {
    /// Reads a Steering.
    ///
    /// # Errors
    /// When it is not a steering, or asks for something that is not possible with `opened` streams.
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

    /// What came of it, by the word of the end that sends; `before` is the control that was asked for until then.
    fn came_to(self, steered: Steered, before: Option<&str>) -> Change {
        let Self { steering, why } = self;
        let asked = steering.congestion_control.as_deref().or(before);
        let (congestion_control, refused) = match steered.taken {
            Ok(in_use) if in_use == HOLD && asked != Some(HOLD) => {
                (Some(in_use), Some(HELD.to_owned()))
            }
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

#[cfg(test)]
mod tests {
    use super::{Change, Changes};

    fn change(t_s: f64) -> Change {
        Change {
            t_s,
            congestion_control: None,
            streams: 1,
            pacing_bps: None,
            why: String::new(),
            refused: None,
        }
    }

    #[test]
    fn of_many_changes_the_first_are_kept_and_the_last_is_known() {
        let mut changes = Changes::default();
        assert_eq!(changes.latest(), None);
        for number in 0..Changes::MOST + 5 {
            changes.add(change(number as f64));
        }
        assert_eq!(changes.kept().len(), Changes::MOST);
        assert_eq!(changes.kept()[0], change(0.0));
        assert_eq!(changes.more(), 5);
        assert_eq!(changes.latest(), Some(&change((Changes::MOST + 4) as f64)));
    }
}
