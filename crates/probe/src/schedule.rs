//! When which probe is due.
//!
//! One look in each step, at a random instant of it: unlike an exact period it cannot keep time with what it
//! looks at, and the share of looks that meet a queue is, without bias, the share of time there is one
//! (stratified sampling; RFC 2330, 11.1.1, and RFC 3432 have the arguments for and against a period).
//! Beside them, bursts as of the paper on shared paths: ten probes 1 ms apart, every second.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// Probes close together, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Burst {
    /// From the begin of one to the begin of the next.
    pub every_ns: u64,
    /// Probes.
    pub count: u64,
    /// From one probe to the next.
    pub gap_ns: u64,
}

/// How a probing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Rhythm {
    /// One look in each.
    pub step_ns: u64,
    /// Beside them; none for a far end that shall answer no more than one a step.
    pub burst: Option<Burst>,
}

/// The place of a probe in the rhythm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", content = "index", rename_all = "lowercase")]
pub enum Slot {
    /// The look of this step.
    Step(u64),
    /// One of this burst.
    Burst(u64),
}

/// A probe and the instant it is due, in ns since the probing began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When.
    pub at_ns: u64,
    /// What.
    pub slot: Slot,
}

/// All probes of a probing, in the order of time.
#[derive(Debug)]
pub struct Schedule {
    rhythm: Rhythm,
    until_ns: u64,
    random: Xoshiro256PlusPlus,
    step: Due,
    next_of_burst: u64,
}

impl Schedule {
    /// The probes due before `until_ns`; the same seed, the same instants.
    ///
    /// # Panics
    /// For steps or distances of bursts of 0; [`crate::Wanted`] is checked before.
    #[must_use]
    pub fn new(rhythm: Rhythm, until_ns: u64, seed: u64) -> Self {
        assert!(rhythm.step_ns > 0 && rhythm.burst.is_none_or(|burst| burst.every_ns > 0));
        let mut made = Self {
            rhythm,
            until_ns,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            step: Due {
                at_ns: 0,
                slot: Slot::Step(0),
            },
            next_of_burst: 0,
        };
        made.step = made.in_step(0);
        made
    }

    fn in_step(&mut self, index: u64) -> Due {
        let within_ns = self.random.next_u64() % self.rhythm.step_ns;
        Due {
            at_ns: index * self.rhythm.step_ns + within_ns,
            slot: Slot::Step(index),
        }
    }

    fn in_burst(&self) -> Option<Due> {
        let burst = self.rhythm.burst.filter(|burst| burst.count > 0)?;
        let (index, place) = (
            self.next_of_burst / burst.count,
            self.next_of_burst % burst.count,
        );
        Some(Due {
            at_ns: index * burst.every_ns + place * burst.gap_ns,
            slot: Slot::Burst(index),
        })
    }

    /// The next one; it stays the next until [`Schedule::advance`].
    #[must_use]
    pub fn next(&self) -> Option<Due> {
        let due = self
            .in_burst()
            .filter(|burst| burst.at_ns < self.step.at_ns)
            .unwrap_or(self.step);
        (due.at_ns < self.until_ns).then_some(due)
    }

    /// The next one is dealt with.
    pub fn advance(&mut self) {
        match self.next().map(|due| due.slot) {
            Some(Slot::Step(index)) => self.step = self.in_step(index + 1),
            Some(Slot::Burst(_)) => self.next_of_burst += 1,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(rhythm: Rhythm, until_ns: u64, seed: u64) -> Vec<Due> {
        let mut schedule = Schedule::new(rhythm, until_ns, seed);
        let mut found = Vec::new();
        while let Some(due) = schedule.next() {
            found.push(due);
            schedule.advance();
        }
        found
    }

    proptest! {
        #[test]
        fn each_step_has_one_look_each_burst_all_of_its_probes_and_time_never_goes_back(
            step_ns in 1_u64..1000,
            burst in prop::option::of((1_u64..5000, 0_u64..8, 0_u64..200)),
            steps in 1_u64..200,
            seed: u64,
        ) {
            // Bursts that overlap would be no bursts.
            let burst = burst.map(|(every_ns, count, gap_ns)| Burst { every_ns: every_ns + count * gap_ns, count, gap_ns });
            let until_ns = steps * step_ns;
            let found = all(Rhythm { step_ns, burst }, until_ns, seed);
            prop_assert!(found.is_sorted_by_key(|due| due.at_ns));
            let looks: Vec<_> = found.iter().filter_map(|due| match due.slot {
                Slot::Step(index) => Some((index, due.at_ns / step_ns)),
                Slot::Burst(_) => None,
            }).collect();
            prop_assert_eq!(looks, (0..steps).map(|index| (index, index)).collect::<Vec<_>>());
            let mut bursts: Vec<_> = burst.into_iter().flat_map(move |burst| {
                (0..=until_ns / burst.every_ns).flat_map(move |index| {
                    (0..burst.count).map(move |place| index * burst.every_ns + place * burst.gap_ns)
                })
            }).filter(|at_ns| *at_ns < until_ns).collect();
            bursts.sort_unstable();
            let sent: Vec<_> = found.iter().filter(|due| matches!(due.slot, Slot::Burst(_))).map(|due| due.at_ns).collect();
            prop_assert_eq!(sent, bursts);
        }
    }

    #[test]
    fn looks_fall_anywhere_in_their_step() {
        let rhythm = Rhythm {
            step_ns: 1000,
            burst: None,
        };
        let within: Vec<_> = all(rhythm, 1_000_000, 7)
            .iter()
            .map(|due| due.at_ns % 1000)
            .collect();
        let mean = within.iter().sum::<u64>() / within.len() as u64;
        assert!((450..550).contains(&mean), "{mean}");
        assert!(within.iter().any(|ns| *ns < 50) && within.iter().any(|ns| *ns > 950));
    }
}
