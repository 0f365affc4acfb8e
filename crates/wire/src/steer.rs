//! How the data streams of a transfer send, changed while they are open.

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_CONTROL_BYTES, MIN_LIMIT_BPS};

/// The user's limit on what all data streams send together. It has priority over plan and steering. The last one
/// applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// In bits per second, of what TCP carries; without a limit if absent.
    pub most_bps: Option<u64>,
    /// Whether nothing is sent at all.
    pub paused: bool,
}

impl Limit {
    /// Checks that a copy under this limit is fast enough to be told from one that hangs.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), &'static str> {
        match self.most_bps {
            Some(most_bps) if most_bps < MIN_LIMIT_BPS => Err("a limit that nothing gets through"),
            _ => Ok(()),
        }
    }
}

/// The part of a [`crate::StreamPlan`] that can change while streams are open. The last one applies, with all its
/// values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steering {
    /// Congestion control of each data stream; unchanged if absent.
    pub congestion_control: Option<String>,
    /// Number of data streams that carry payload, of those that the plan opened.
    pub streams: u16,
    /// Most each stream sends, in bits per second; without a bound if absent.
    pub pacing_bps: Option<u64>,
}

/// The result of one [`Steering`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steered {
    /// Nanoseconds since the sender's start of the job.
    pub at_ns: u64,
    /// The congestion control in use from then on, or why nothing was changed.
    pub taken: Result<String, String>,
}

impl Steering {
    /// Checks that this steering is possible with `opened` streams.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, opened: u16) -> Result<(), &'static str> {
        if !(1..=opened).contains(&self.streams) {
            return Err("a steering of no streams, or of more than were opened");
        }
        if self.pacing_bps == Some(0) {
            return Err("a steering to a rate of nothing");
        }
        match &self.congestion_control {
            Some(name) => check_control(name),
            None => Ok(()),
        }
    }
}

/// Only what Linux takes for a name goes to the kernel, and to the user's terminal.
pub(crate) fn check_control(name: &str) -> Result<(), &'static str> {
    let sound = (1..=MAX_CONTROL_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic());
    sound
        .then_some(())
        .ok_or("a name that no congestion control has")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_would_look_like_an_end_that_hangs_is_refused() {
        let limit = |most_bps| Limit {
            most_bps,
            paused: false,
        };
        for sound in [None, Some(MIN_LIMIT_BPS), Some(u64::MAX)] {
            limit(sound).check().unwrap();
        }
        for least in [0, MIN_LIMIT_BPS - 1] {
            limit(Some(least)).check().unwrap_err();
        }
    }

    #[test]
    fn what_no_kernel_could_do_is_refused() {
        let steering = |streams, name: Option<&str>, pacing_bps| Steering {
            congestion_control: name.map(str::to_owned),
            streams,
            pacing_bps,
        };
        steering(1, None, None).check(4).unwrap();
        steering(4, Some("hd_hold"), Some(1)).check(4).unwrap();
        for streams in [0, 5, u16::MAX] {
            assert!(steering(streams, None, None).check(4).is_err());
        }
        for name in ["", "a name", "bbr\n", "b\0r", "béb", "sixteen_letters_"] {
            assert!(steering(1, Some(name), None).check(4).is_err(), "{name}");
        }
        assert!(steering(1, None, Some(0)).check(4).is_err());
    }
}
