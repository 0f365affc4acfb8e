//! Whether a transfer makes progress, by what this end can observe.
//!
//! Messages keep the control channel open (`inbox`). They do not keep the transfer open, because an end that only
//! says that it is running could then delay the other one for ever. Progress is payload, acknowledgements of the
//! kernel, answers, and the other end's reports as far as they are possible. Time in which this end has work of its
//! own does not count against the other end. Neither does time in which the other end is not known to be reachable:
//! `reachability` judges an outage of the path.

use std::time::{Duration, Instant};

use howdah_wire::Side;
use howdah_wire::limits::MAX_PAUSE_NS;

use crate::error::TransferError;

/// After this time the near end gives up on a far end that is reachable and makes no progress.
pub const NEAR_PATIENCE: Duration = Duration::from_secs(80);
/// The far end waits longer, because the near end's user can stop the copy and may have a slow source.
pub const FAR_PATIENCE: Duration = Duration::from_secs(900);
/// The last step may take this long: the receiver's disk also flushes what others have written.
const LAST_PATIENCE: Duration = Duration::from_secs(600);
/// A user may pause a copy for this long in all; a far end waits no longer for a near end that says so.
const LONGEST_PAUSE: Duration = Duration::from_nanos(MAX_PAUSE_NS);
/// Between two looks at most this time counts. What is longer was this host's own pause.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

/// What the other end owes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    /// Nothing: this end has work of its own.
    Nothing,
    /// What a sentence about it says that it has not done.
    Step(&'static str),
    /// The same, where it may take long.
    LastStep(&'static str),
    /// The end of a pause, from its user.
    End,
}

/// One end's observation of the other end's progress.
#[derive(Debug)]
pub struct Liveness {
    side: Side,
    patience: Duration,
    evidence: u64,
    idle: Duration,
    /// All pauses of its user together, so that an end which pauses again and again is not waited for for ever.
    paused: Duration,
    looked: Instant,
}

impl Liveness {
    /// An observation by the end `side` that starts at `now`.
    pub fn new(side: Side, patience: Duration, now: Instant) -> Self {
        Self {
            side,
            patience,
            evidence: 0,
            idle: Duration::ZERO,
            paused: Duration::ZERO,
            looked: now,
        }
    }

    /// Checks the other end. `evidence` is a number that changes with each step of the other end. `there` says
    /// whether the other end is known to be reachable.
    ///
    /// # Errors
    /// When it is the other end's turn, and it has made no progress for too long.
    pub fn look(
        &mut self,
        evidence: u64,
        owed: Owed,
        there: bool,
        now: Instant,
    ) -> Result<(), TransferError> {
        let since = now.saturating_duration_since(self.looked).min(LONGEST_LOOK);
        self.looked = now;
        if evidence != self.evidence {
            self.evidence = evidence;
            self.idle = Duration::ZERO;
            return Ok(());
        }
        let (step, patience) = match owed {
            Owed::Nothing => {
                self.idle = Duration::ZERO;
                return Ok(());
            }
            Owed::Step(step) => (step, self.patience),
            Owed::LastStep(step) => (step, self.patience.max(LAST_PATIENCE)),
            Owed::End => {
                self.idle = Duration::ZERO;
                self.paused += since;
                return match self.paused <= LONGEST_PAUSE {
                    true => Ok(()),
                    false => Err(TransferError::Here(format!(
                        "the copy was paused for {} days in all, which is the most; run the same command again to go on",
                        LONGEST_PAUSE.as_secs() / 86_400
                    ))),
                };
            }
        };
        self.idle += if there { since } else { Duration::ZERO };
        if self.idle <= patience {
            return Ok(());
        }
        let other = match self.side {
            Side::Near => "far",
            Side::Far => "near",
        };
        Err(TransferError::Here(format!(
            "the {other} end is there but {step} for {} s; look at its disk and its load, then run the \
             same command again to go on",
            patience.as_secs()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Owed = Owed::Step("has sent nothing");

    /// Looks every second; after how many it gives up.
    fn gives_up(
        side: Side,
        most: u64,
        mut seen: impl FnMut(u64) -> (u64, Owed),
    ) -> Option<(u64, String)> {
        let start = Instant::now();
        let patience = match side {
            Side::Near => NEAR_PATIENCE,
            Side::Far => FAR_PATIENCE,
        };
        let mut liveness = Liveness::new(side, patience, start);
        (1..most).find_map(|second| {
            let (evidence, owed) = seen(second);
            let looked = liveness.look(evidence, owed, true, start + Duration::from_secs(second));
            looked.err().map(|error| (second, error.to_string()))
        })
    }

    #[test]
    fn who_does_nothing_is_named_within_ninety_seconds() {
        let (second, error) = gives_up(Side::Near, 10_000, |_| (7, STEP)).unwrap();
        assert!((80..90).contains(&second), "{second}");
        assert!(
            error.starts_with("the far end is there but has sent nothing for 80 s"),
            "{error}"
        );
        let (second, error) = gives_up(Side::Far, 10_000, |_| (0, STEP)).unwrap();
        assert!((900..910).contains(&second) && error.starts_with("the near end"));
    }

    #[test]
    fn each_step_and_each_moment_of_own_work_begins_the_time_anew() {
        assert_eq!(gives_up(Side::Near, 5000, |s| (s / 79, STEP)), None);
        let own_work = |s| (0, if s % 79 == 0 { Owed::Nothing } else { STEP });
        assert_eq!(gives_up(Side::Near, 5000, own_work), None);
        let (second, _) = gives_up(Side::Near, 5000, |_| (0, Owed::LastStep("x"))).unwrap();
        assert!((600..610).contains(&second));
    }

    #[test]
    fn a_pause_outlasts_all_patience_and_ends_after_a_week() {
        assert_eq!(gives_up(Side::Near, 5000, |_| (7, Owed::End)), None);
        let (second, error) = gives_up(Side::Far, 700_000, |_| (7, Owed::End)).unwrap();
        assert!((604_800..604_900).contains(&second), "{second}");
        assert!(
            error.starts_with("the copy was paused for 7 days"),
            "{error}"
        );
        let paused = |s| (7, if s < 1000 { Owed::End } else { STEP });
        let (second, _) = gives_up(Side::Near, 5000, paused).unwrap();
        assert!((1079..1090).contains(&second), "{second}");
    }

    #[test]
    fn only_time_in_which_the_other_end_is_there_counts() {
        let start = Instant::now();
        let mut liveness = Liveness::new(Side::Near, NEAR_PATIENCE, start);
        let mut looks = |seconds: std::ops::Range<u64>, there| {
            seconds
                .map(Duration::from_secs)
                .find_map(|second| liveness.look(0, STEP, there, start + second).err())
        };
        assert_eq!(looks(1..80, true), None);
        assert_eq!(looks(80..600, false), None);
        assert!(looks(600..605, true).is_some());
    }

    #[test]
    fn a_pause_of_this_host_is_no_silence_of_the_other_end() {
        let start = Instant::now();
        let mut liveness = Liveness::new(Side::Near, NEAR_PATIENCE, start);
        for hour in 1..10 {
            let now = start + Duration::from_secs(3600 * hour);
            liveness.look(0, STEP, true, now).unwrap();
        }
    }
}
