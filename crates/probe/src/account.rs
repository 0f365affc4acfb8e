//! What was sent and what came back; no I/O and no clock of its own.
//!
//! Words as in RFC 4737 (reordered: answered after an answer to a later probe) and RFC 2680 (lost: no answer
//! within a time that is told beside it; an answer after that is late and no longer counts).

use serde::Serialize;

use crate::schedule::Slot;

/// A probe whose fate is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Look {
    /// Its place in the rhythm.
    #[serde(flatten)]
    pub slot: Slot,
    /// When it left, since the probing began.
    pub sent_s: f64,
    /// How long after it was due: what this host was busy for, s.
    pub late_s: f64,
    /// Null: lost.
    pub rtt_s: Option<f64>,
}

/// How many of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Probes that left.
    pub sent: u64,
    /// Of these, those answered in time.
    pub answered: u64,
    /// Of these, those whose time is over without an answer.
    pub lost: u64,
    /// Answers to probes that had been given up.
    pub late: u64,
    /// Answers to probes that had been answered.
    pub doubled: u64,
    /// Answers in time, but after that to a later probe.
    pub reordered: u64,
    /// What came and answers nothing that was sent.
    pub foreign: u64,
    /// Probes left out, because their time had passed when this host came to send them.
    pub skipped: u64,
    /// Answers in time whose arrival the kernel did not tell, or not so that it could be believed.
    pub unstamped: u64,
}

/// A probe as it left; instants and times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    slot: Slot,
    at_ns: u64,
    late_ns: u64,
}

/// What a probe has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// On its way.
    Out,
    /// Answered in time.
    Answered,
    /// Given up.
    Lost,
}

/// What an answer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first, and in time; the round trip in ns.
    InTime(u64),
    /// The probe had been given up.
    Late,
    /// The probe had been answered.
    Doubled,
    /// No such probe.
    Foreign,
}

/// Every probe with its fate. Instants are ns since the probing began.
#[derive(Debug)]
pub struct Account {
    patience_ns: u64,
    probes: Vec<(Sent, Fate)>,
    open_from: usize,
    latest_answered: Option<u64>,
    longest_rtt_ns: u64,
    counts: Counts,
    settled: Vec<Look>,
}

impl Account {
    /// Nothing sent yet; a probe is lost `patience_ns` after it left.
    #[must_use]
    pub fn new(patience_ns: u64) -> Self {
        Self {
            patience_ns,
            probes: Vec::new(),
            open_from: 0,
            latest_answered: None,
            longest_rtt_ns: 0,
            counts: Counts::default(),
            settled: Vec::new(),
        }
    }

    /// A probe leaves that was due `late_ns` before; its number. Instants do not go back.
    pub fn send(&mut self, slot: Slot, at_ns: u64, late_ns: u64) -> u64 {
        self.counts.sent += 1;
        let sent = Sent {
            slot,
            at_ns,
            late_ns,
        };
        self.probes.push((sent, Fate::Out));
        self.probes.len() as u64 - 1
    }

    /// A probe was left out.
    pub fn skip(&mut self) {
        self.counts.skipped += 1;
    }

    /// An answer came at `at_ns`, after the far end had held the probe for `held_ns`; a time that the round
    /// trip has no room for is not believed.
    pub fn answer(&mut self, number: u64, at_ns: u64, held_ns: u64) -> Verdict {
        let Some((sent, fate)) = usize::try_from(number)
            .ok()
            .and_then(|index| self.probes.get_mut(index))
        else {
            self.counts.foreign += 1;
            return Verdict::Foreign;
        };
        match *fate {
            Fate::Answered => {
                self.counts.doubled += 1;
                Verdict::Doubled
            }
            Fate::Out if at_ns.saturating_sub(sent.at_ns) < self.patience_ns => {
                let whole_ns = at_ns.saturating_sub(sent.at_ns);
                let rtt_ns = whole_ns.checked_sub(held_ns).unwrap_or(whole_ns);
                *fate = Fate::Answered;
                self.settled.push(look(*sent, Some(rtt_ns)));
                self.counts.answered += 1;
                self.counts.reordered += u64::from(Some(number) < self.latest_answered);
                self.latest_answered = self.latest_answered.max(Some(number));
                self.longest_rtt_ns = self.longest_rtt_ns.max(rtt_ns);
                Verdict::InTime(rtt_ns)
            }
            // It is given up when the account is next settled.
            Fate::Out | Fate::Lost => {
                self.counts.late += 1;
                Verdict::Late
            }
        }
    }

    /// Something came that is no answer to us.
    pub fn foreign(&mut self) {
        self.counts.foreign += 1;
    }

    /// The last answer's arrival was read from our own clock.
    pub fn unstamped(&mut self) {
        self.counts.unstamped += 1;
    }

    /// Gives up what left `patience_ns` or longer before `now_ns`.
    pub fn settle(&mut self, now_ns: u64) {
        self.give_up(|sent_ns, patience_ns| now_ns.saturating_sub(sent_ns) >= patience_ns);
    }

    /// Gives up what is still out and left `until_lost_ns` or longer before `now_ns`. Of what left later nothing is known,
    /// and nothing is reported.
    pub fn close(&mut self, now_ns: u64, until_lost_ns: u64) {
        self.give_up(|sent_ns, _| now_ns.saturating_sub(sent_ns) >= until_lost_ns);
    }

    fn give_up(&mut self, is_over: impl Fn(u64, u64) -> bool) {
        while let Some((sent, fate)) = self.probes.get_mut(self.open_from) {
            if *fate == Fate::Out {
                if !is_over(sent.at_ns, self.patience_ns) {
                    return;
                }
                *fate = Fate::Lost;
                self.settled.push(look(*sent, None));
                self.counts.lost += 1;
            }
            self.open_from += 1;
        }
    }

    /// How many are on their way.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.counts.sent - self.counts.answered - self.counts.lost
    }

    /// Longest round trip so far, ns; 0 before the first.
    #[must_use]
    pub fn longest_rtt_ns(&self) -> u64 {
        self.longest_rtt_ns
    }

    /// So far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The probes whose fate became known since this was last asked, in the order in which it did.
    pub fn take(&mut self) -> Vec<Look> {
        std::mem::take(&mut self.settled)
    }
}

fn look(sent: Sent, rtt_ns: Option<u64>) -> Look {
    Look {
        slot: sent.slot,
        sent_s: sent.at_ns as f64 / 1e9,
        late_s: sent.late_ns as f64 / 1e9,
        rtt_s: rtt_ns.map(|ns| ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATIENCE_NS: u64 = 100;

    #[derive(Clone, Debug)]
    enum Step {
        Send,
        Answer { number: u64, held_ns: u64 },
        Settle,
        Wait(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => Just(Step::Send),
            4 => (0_u64..40, 0_u64..150).prop_map(|(number, held_ns)| Step::Answer { number, held_ns }),
            1 => Just(Step::Settle),
            3 => (0_u64..60).prop_map(Step::Wait),
        ];
        prop::collection::vec(step, 0..120)
    }

    proptest! {
        #[test]
        fn every_probe_settles_once_and_nothing_else_does(steps in steps()) {
            let mut account = Account::new(PATIENCE_NS);
            let mut sent_at = Vec::new();
            let mut looks = Vec::new();
            let (mut now, mut answers, mut foreign) = (0, 0, 0);
            for step in steps {
                match step {
                    Step::Send => {
                        let number = sent_at.len() as u64;
                        prop_assert_eq!(account.send(Slot::Step(number), now, number), number);
                        sent_at.push(now);
                    }
                    Step::Answer { number, held_ns } => {
                        answers += 1;
                        let verdict = account.answer(number, now, held_ns);
                        match sent_at.get(number as usize) {
                            None => {
                                foreign += 1;
                                prop_assert_eq!(verdict, Verdict::Foreign);
                            }
                            Some(sent) => match verdict {
                                Verdict::InTime(rtt) => {
                                    prop_assert!(now - sent < PATIENCE_NS);
                                    let whole = now - sent;
                                    prop_assert_eq!(rtt, if held_ns <= whole { whole - held_ns } else { whole });
                                }
                                Verdict::Late => prop_assert!(now - sent >= PATIENCE_NS),
                                Verdict::Doubled => {}
                                Verdict::Foreign => prop_assert!(false),
                            },
                        }
                    }
                    Step::Settle => {
                        account.settle(now);
                        let young = sent_at.iter().filter(|sent| now - **sent < PATIENCE_NS).count();
                        prop_assert!(account.outstanding() <= young as u64);
                    }
                    Step::Wait(ns) => now += ns,
                }
                looks.extend(account.take());
                let counts = account.counts();
                prop_assert_eq!(counts.sent, sent_at.len() as u64);
                prop_assert_eq!(
                    counts.answered + counts.late + counts.doubled + counts.foreign, answers
                );
                prop_assert_eq!(counts.foreign, foreign);
                prop_assert!(counts.reordered <= counts.answered.saturating_sub(1));
            }
            let until_lost_ns = PATIENCE_NS / 2;
            account.close(now, until_lost_ns);
            let young = sent_at.iter().filter(|sent| now - **sent < until_lost_ns).count();
            prop_assert!(account.outstanding() <= young as u64);
            let known = account.counts().answered + account.counts().lost;
            looks.extend(account.take());
            prop_assert_eq!(looks.len() as u64, known);
            account.close(now, 0);
            looks.extend(account.take());
            prop_assert_eq!(account.outstanding(), 0);
            for look in &looks {
                let Slot::Step(number) = look.slot else { unreachable!() };
                prop_assert_eq!(look.late_s, number as f64 / 1e9);
            }
            let mut slots: Vec<_> = looks.iter().map(|look| look.slot).collect();
            slots.sort();
            let all: Vec<_> = (0..sent_at.len() as u64).map(Slot::Step).collect();
            prop_assert_eq!(slots, all);
            let lost = looks.iter().filter(|look| look.rtt_s.is_none()).count();
            prop_assert_eq!(lost as u64, account.counts().lost);
        }
    }

    #[test]
    fn of_what_left_a_moment_before_the_end_nothing_is_known() {
        let mut account = Account::new(PATIENCE_NS);
        for at_ns in [0, 20, 60, 80] {
            account.send(Slot::Step(at_ns), at_ns, 0);
        }
        account.answer(1, 50, 0);
        account.close(90, 40);
        let counts = account.counts();
        assert_eq!((counts.sent, counts.answered, counts.lost), (4, 1, 1));
        assert_eq!((account.outstanding(), account.take().len()), (2, 2));
    }

    #[test]
    fn an_answer_overtaken_by_a_later_probes_is_reordered() {
        let mut account = Account::new(PATIENCE_NS);
        for number in 0..3 {
            account.send(Slot::Step(number), number, 0);
        }
        for number in [1, 0, 2] {
            assert!(matches!(account.answer(number, 10, 0), Verdict::InTime(_)));
        }
        assert_eq!(account.counts().reordered, 1);
        assert_eq!(account.longest_rtt_ns(), 10);
    }

    #[test]
    fn an_answer_after_a_probe_was_given_up_stays_a_gap() {
        let mut account = Account::new(PATIENCE_NS);
        account.send(Slot::Step(0), 0, 0);
        account.settle(PATIENCE_NS);
        assert_eq!(account.answer(0, PATIENCE_NS + 1, 0), Verdict::Late);
        assert_eq!(account.take().len(), 1);
        assert_eq!(account.counts().lost, 1);
    }
}
