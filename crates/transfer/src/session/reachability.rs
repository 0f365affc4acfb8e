//! Whether the other host can be reached, by acknowledgements, data, answers to a SYN or to a keepalive, and messages
//! on the control channel.
//!
//! A copy waits through an outage of the path, as long as its patience lasts. An end that is reachable and makes no
//! progress is judged by `liveness`. An end whose host answers, but whose control channel is silent, is judged by the
//! limit here.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use howdah_wire::Side;

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::session::liveness::FAR_PATIENCE;

/// A path that brings nothing for this long is out. Open connections ask every other second
/// whether the other host is there, and without one both ends speak every 5 s.
const OUT_AFTER: Duration = Duration::from_secs(8);
/// On a path with long round trips, nothing for so many of them.
const OUT_AFTER_ROUND_TRIPS: u32 = 4;
/// Whatever the patience is, a path may bring nothing for this long.
const LEAST_PATIENCE: Duration = Duration::from_secs(15);
/// The far end waits this much longer than the near one, which has a user to tell.
const FAR_WAITS_LONGER: Duration = Duration::from_secs(60);
/// Both ends speak at least every few seconds, however busy. A far end whose host answers, and that is silent for
/// this long, is gone.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// A near end may be stopped by its user (Ctrl-Z), and is then waited for as one that does nothing.
const MAX_NEAR_SILENCE: Duration = FAR_PATIENCE;
/// After an outage ssh's own connection may be silent for as long again: TCP doubles the time between two
/// tries, up to this one (`TCP_RTO_MAX`).
const LONGEST_BACKOFF: Duration = Duration::from_secs(120);
/// Who has spoken within this time is there.
const IN_TOUCH: Duration = Duration::from_secs(12);
/// Between two looks at most this time counts. What is longer was this host's own pause.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

/// One end's observations of the other host.
#[derive(Debug)]
pub struct Reachability {
    side: Side,
    patience: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    looked: Instant,
    /// When something came last.
    heard: Instant,
    /// How long nothing has come.
    unheard: Duration,
    /// The same of the control channel,
    word: Instant,
    word_before: Instant,
    wordless: Duration,
    /// The part of that time in which the other host could be reached.
    silence: Duration,
    /// How long the outage lasted after which no message has come yet.
    latest: Duration,
    outages: u64,
    all: Duration,
}

/// The outages of a copy so far, and the present one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ridden {
    /// How long nothing has come over the path, if it is down now.
    pub out_for: Option<Duration>,
    /// Outages that are over.
    pub outages: u64,
    /// How long they took, together.
    pub all: Duration,
}

impl Reachability {
    /// A path that works at `now`. It may be down for `patience`.
    pub fn new(side: Side, patience: Duration, now: Instant) -> Self {
        let patience = match side {
            Side::Near => patience,
            Side::Far => patience + FAR_WAITS_LONGER,
        };
        Self {
            side,
            patience: patience.max(LEAST_PATIENCE),
            state: Mutex::new(State {
                looked: now,
                heard: now,
                unheard: Duration::ZERO,
                word: now,
                word_before: now,
                wordless: Duration::ZERO,
                silence: Duration::ZERO,
                latest: Duration::ZERO,
                outages: 0,
                all: Duration::ZERO,
            }),
        }
    }

    /// Notes that something came from the other host at `at`.
    pub fn heard(&self, at: Instant) {
        let mut state = lock(&self.state);
        state.heard = state.heard.max(at);
    }

    /// Notes that the other end sent a message at `at`.
    pub fn word(&self, at: Instant) {
        let mut state = lock(&self.state);
        state.word = state.word.max(at);
        state.heard = state.heard.max(at);
    }

    /// Whether the other end itself is known to be reachable.
    pub fn in_touch(&self) -> bool {
        lock(&self.state).wordless <= IN_TOUCH
    }

    /// Checks the path, which has the round trip `rtt`.
    ///
    /// # Errors
    /// When nothing has come over the path, or the other end has sent no message, for too long.
    pub fn look(&self, rtt: Duration, now: Instant) -> Result<Ridden, TransferError> {
        let mut state = lock(&self.state);
        let since = now
            .saturating_duration_since(state.looked)
            .min(LONGEST_LOOK);
        let before = std::mem::replace(&mut state.looked, now);
        let out_after = OUT_AFTER.max(rtt * OUT_AFTER_ROUND_TRIPS);
        // The kernel tells times to a few milliseconds only, so what came long ago may seem to come a little later.
        let counted = match state.heard >= before {
            true => since,
            false => state.unheard + since,
        };
        let unheard = now.saturating_duration_since(state.heard).min(counted);
        if state.unheard > out_after && unheard <= out_after {
            let outage = state.unheard;
            state.latest = outage;
            state.outages += 1;
            state.all += outage;
        }
        state.unheard = unheard;
        let out = state.unheard > out_after;
        if state.word > state.word_before {
            state.word_before = state.word;
            state.wordless = Duration::ZERO;
            state.silence = Duration::ZERO;
            state.latest = Duration::ZERO;
        } else {
            state.wordless += since;
            state.silence += if out { Duration::ZERO } else { since };
        }
        if state.unheard > self.patience {
            return Err(self.unreachable());
        }
        let most = match self.side {
            Side::Near => MAX_SILENCE,
            Side::Far => MAX_NEAR_SILENCE,
        };
        let silent_for = most + state.latest.min(LONGEST_BACKOFF);
        if state.silence > silent_for {
            return Err(TransferError::Silent(format!(
                "the other host answers, but the other end has said nothing for {} s; look at its load, then run \
                 the same command again to go on",
                silent_for.as_secs()
            )));
        }
        Ok(Ridden {
            out_for: out.then_some(state.unheard),
            outages: state.outages,
            all: state.all,
        })
    }

    fn unreachable(&self) -> TransferError {
        let other = match self.side {
            Side::Near => "far",
            Side::Far => "near",
        };
        TransferError::Here(format!(
            "no answer from the {other} host for {} s; check the network between the hosts, then run the same \
             command again to go on",
            self.patience.as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(300);
    const SECOND: Duration = Duration::from_secs(1);

    /// What is seen at each second: whether something came, and whether a word was among it. Looks end
    /// where it gives up, with the second and why.
    fn watch(
        side: Side,
        patience: Duration,
        rtt: Duration,
        seen: impl Fn(u32) -> (bool, bool),
    ) -> Result<Ridden, (u32, TransferError)> {
        let start = Instant::now();
        let path = Reachability::new(side, patience, start);
        let mut ridden = Ridden::default();
        for second in 1..2000 {
            let now = start + second * SECOND;
            let (came, said) = seen(second);
            if came {
                path.heard(now);
            }
            if said {
                path.word(now);
            }
            ridden = path.look(rtt, now).map_err(|error| (second, error))?;
        }
        Ok(ridden)
    }

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn outages_are_waited_through_for_the_patience_and_counted() {
        let out = |second| (101..160).contains(&second) || (1000..1200).contains(&second);
        let ridden = watch(Side::Near, PATIENCE, SHORT, |s| (!out(s), !out(s))).unwrap();
        let both = Ridden {
            out_for: None,
            outages: 2,
            all: 259 * SECOND,
        };
        assert_eq!(ridden, both);
        for (side, patience_s, expected) in [
            (Side::Near, 300, 401),
            (Side::Near, 20, 121),
            (Side::Near, 0, 116),
            (Side::Far, 300, 461),
        ] {
            let patience = Duration::from_secs(patience_s);
            let (second, error) =
                watch(side, patience, SHORT, |s| (s <= 100, s <= 100)).unwrap_err();
            assert_eq!(second, expected, "{error}");
            assert!(
                error.to_string().starts_with("no answer from the "),
                "{error}"
            );
        }
    }

    #[test]
    fn a_path_is_out_after_a_while_and_of_long_round_trips_after_a_longer_one() {
        let start = Instant::now();
        for (rtt, within) in [(SHORT, 8), (5 * SECOND, 20)] {
            let path = Reachability::new(Side::Near, PATIENCE, start);
            for second in 1..=within + 1 {
                let ridden = path.look(rtt, start + second * SECOND).unwrap();
                assert_eq!(ridden.out_for.is_some(), second > within, "{second}");
            }
        }
    }

    #[test]
    fn times_that_are_told_roughly_change_nothing() {
        let start = Instant::now();
        let path = Reachability::new(Side::Near, PATIENCE, start);
        let tenth = Duration::from_millis(100);
        for tenths in 1..=600 {
            path.heard(start + Duration::from_micros(4 * u64::from(tenths)));
            path.look(SHORT, start + tenths * tenth).unwrap();
        }
        let now = start + 601 * tenth;
        path.heard(now);
        let ridden = path.look(SHORT, now).unwrap();
        assert_eq!(ridden.outages, 1);
        assert!((59..=60).contains(&ridden.all.as_secs()), "{ridden:?}");
    }

    #[test]
    fn an_end_that_is_silent_while_its_host_answers_is_gone() {
        let (second, error) = watch(Side::Near, PATIENCE, SHORT, |s| (true, s < 100)).unwrap_err();
        assert_eq!(second, 160);
        assert!(matches!(error, TransferError::Silent(_)), "{error}");
        assert!(
            error.to_string().contains("has said nothing for 60 s"),
            "{error}"
        );
        // Nor one that is stopped, for as long as the far end waits for one that does nothing.
        let (second, error) = watch(Side::Far, PATIENCE, SHORT, |s| (true, s < 100)).unwrap_err();
        assert_eq!(second, 1000);
        assert!(
            error.to_string().contains("has said nothing for 900 s"),
            "{error}"
        );
        assert!(
            watch(Side::Far, PATIENCE, SHORT, |s| (
                true,
                !(100..990).contains(&s)
            ))
            .is_ok()
        );
        // Who waits for its turn to speak is not.
        assert!(watch(Side::Near, PATIENCE, SHORT, |s| (s % 50 == 0, s % 50 == 0)).is_ok());
    }

    #[test]
    fn after_an_outage_the_control_channel_has_as_long_again() {
        // Out for 50 s; the word comes 100 s after the path.
        let seen = |s| (!(101..150).contains(&s), !(101..250).contains(&s));
        watch(Side::Near, PATIENCE, SHORT, seen).unwrap();
        let seen = |s| (!(101..150).contains(&s), s <= 100);
        let (second, _) = watch(Side::Near, PATIENCE, SHORT, seen).unwrap_err();
        assert!((250..265).contains(&second), "{second}");
    }

    #[test]
    fn an_end_is_in_touch_while_it_speaks() {
        let start = Instant::now();
        let path = Reachability::new(Side::Near, PATIENCE, start);
        let looks = |seconds: std::ops::Range<u32>| {
            for second in seconds {
                path.heard(start + second * SECOND);
                path.look(SHORT, start + second * SECOND).unwrap();
            }
            path.in_touch()
        };
        assert!(looks(1..12));
        assert!(!looks(12..20));
        path.word(start + 20 * SECOND);
        assert!(looks(20..21));
    }

    #[test]
    fn a_pause_of_this_host_is_no_outage() {
        let start = Instant::now();
        let path = Reachability::new(Side::Near, PATIENCE, start);
        for hour in 1..10 {
            let now = start + Duration::from_secs(3600 * hour);
            let ridden = path.look(SHORT, now).unwrap();
            assert_eq!(ridden, Ridden::default());
            path.word(now);
        }
    }
}
