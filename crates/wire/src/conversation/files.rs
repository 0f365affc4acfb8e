//! Files that are offered, compared by their content, and answered.

use std::collections::VecDeque;

use super::ProtocolError;
use crate::kind::Offered;
use crate::limits::{MAX_COMPARED_OFFERS_OPEN, MAX_OFFERED_FILES, MAX_OFFERS_OPEN};
use crate::message::{Answer, Compare, Compared, Job, Message, Offer, OfferedFile, Same};
use crate::span::check_found;

/// How far offers and answers have come.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Whether the receiver has said that nothing is there yet.
    fresh: bool,
    /// Whether more than files is offered.
    dry_run: bool,
    offered: u64,
    answered: u64,
    /// The state of a job that compares files by their content; `None` for other jobs.
    comparing: Option<Comparing>,
}

/// How far a job that compares files by their content has come.
#[derive(Debug, Default)]
struct Comparing {
    /// The first file and the count of each [`Message::Compare`] that waits for its answer.
    open: VecDeque<(u64, usize)>,
    /// The receiver may not ask for files before this one.
    next: u64,
}

impl Files {
    pub(super) fn begin(&mut self, job: &Job) {
        self.comparing = (job.skip.same == Same::Content).then(Comparing::default);
        self.dry_run = job.dry_run;
    }

    pub(super) fn accept(&mut self, fresh: bool) {
        self.fresh = fresh;
    }

    pub(super) fn fresh(&self) -> bool {
        self.fresh
    }

    pub(super) fn say(&mut self, message: &Message) {
        match message {
            Message::Offer(offer) => self.offered += offer.files.len() as u64,
            Message::Answer(answer) => self.answered += answer.needed.len() as u64,
            Message::Compare(Compare { first, files }) => {
                if let Some(comparing) = &mut self.comparing {
                    comparing.open.push_back((*first, files.len()));
                }
            }
            Message::Compared(_) => {
                if let Some(comparing) = &mut self.comparing {
                    comparing.open.pop_front();
                }
            }
            _ => {}
        }
    }

    pub(super) fn hear_offer(&mut self, offer: &Offer) -> Result<(), ProtocolError> {
        if offer.first != self.offered {
            return Err(ProtocolError("an offer out of order"));
        }
        if offer.files.is_empty() || offer.files.len() > MAX_OFFERED_FILES {
            return Err(ProtocolError("an offer of no or too many files"));
        }
        let sound = |file: &OfferedFile| file.attributes().is_sound();
        if !offer.files.iter().all(sound) {
            return Err(ProtocolError("an offer of a file that cannot be"));
        }
        if !self.dry_run && offer.files.iter().any(|file| file.kind != Offered::File) {
            return Err(ProtocolError("an offer of what is no file"));
        }
        let open = self.offered - self.answered;
        let most = match self.comparing {
            Some(_) => MAX_COMPARED_OFFERS_OPEN,
            None => MAX_OFFERS_OPEN,
        };
        if open > (MAX_OFFERED_FILES * most) as u64 {
            return Err(ProtocolError("too many offers at once"));
        }
        self.offered += offer.files.len() as u64;
        Ok(())
    }

    pub(super) fn hear_answer(&mut self, answer: &Answer) -> Result<(), ProtocolError> {
        let answers = answer.needed.len() as u64;
        if self.fresh || answer.first != self.answered || answers == 0 {
            return Err(ProtocolError("an answer out of order"));
        }
        if answers > self.offered - self.answered {
            return Err(ProtocolError("an answer to what was not offered"));
        }
        check_found(&answer.needed, &answer.found).map_err(ProtocolError)?;
        let there = |&index: &u16| answer.needed.get(usize::from(index)) == Some(&false);
        let others = &answer.other_xattrs;
        if !others.iter().all(there) || !others.is_sorted_by(|one, next| one < next) {
            return Err(ProtocolError("attributes of what was not offered"));
        }
        self.answered += answers;
        Ok(())
    }

    pub(super) fn hear_compare(&mut self, compare: &Compare) -> Result<(), ProtocolError> {
        let comparing = self.comparing.as_mut();
        let comparing = comparing.ok_or(ProtocolError("a comparison that was not asked for"))?;
        let Compare { first, files } = compare;
        let (Some(&least), Some(&last)) = (files.first(), files.last()) else {
            return Err(ProtocolError("a comparison of nothing"));
        };
        if !files.is_sorted_by(|one, next| one < next) {
            return Err(ProtocolError("a comparison out of order"));
        }
        let at = |index: u16| first.checked_add(index.into());
        let begun = at(least).is_some_and(|least| least >= comparing.next.max(self.answered));
        match at(last) {
            Some(last) if begun && *first >= self.answered && last < self.offered => {
                comparing.open.push_back((*first, files.len()));
                comparing.next = last + 1;
                Ok(())
            }
            _ => Err(ProtocolError("a comparison of what was not offered")),
        }
    }

    pub(super) fn hear_compared(&mut self, compared: &Compared) -> Result<(), ProtocolError> {
        let Compared { first, blake3 } = compared;
        let open = self.comparing.as_mut().map(|one| &mut one.open);
        match open.and_then(VecDeque::pop_front) {
            Some(asked) if asked == (*first, blake3.len()) => Ok(()),
            _ => Err(ProtocolError("digests that were not asked for")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::tests::{answer, far, far_with, near, near_with, offer, plain};
    use crate::message::Direction;
    use crate::span::{Checked, Found, Span};

    #[test]
    fn offers_and_answers_keep_their_order() {
        let mut pull = far(Direction::Pull);
        pull.say(&offer(0, 5));
        pull.hear(&answer(0, 3)).unwrap();
        assert!(pull.hear(&answer(0, 2)).is_err());
        pull.hear(&answer(3, 2)).unwrap();
        assert!(pull.hear(&answer(5, 1)).is_err());
        let mut push = far(Direction::Push);
        push.hear(&offer(0, 5)).unwrap();
        assert!(push.hear(&offer(4, 5)).is_err());
        assert!(push.hear(&offer(5, MAX_OFFERED_FILES + 1)).is_err());
    }

    #[test]
    fn only_a_dry_run_offers_what_is_no_file() {
        let Message::Offer(mut offered) = offer(0, 2) else {
            panic!("it is one");
        };
        offered.files[1].kind = Offered::Folder;
        for dry_run in [true, false] {
            let mut push = far_with(Job {
                dry_run,
                ..plain(Direction::Push)
            });
            let heard = push.hear(&Message::Offer(offered.clone()));
            assert_eq!(heard.is_ok(), dry_run);
        }
    }

    #[test]
    fn digests_are_asked_for_once_of_files_that_were_offered_and_come_in_order() {
        let by_content = |direction| {
            let mut job = plain(direction);
            job.skip.same = Same::Content;
            job
        };
        let compare = |first, files: &[u16]| {
            Message::Compare(Compare {
                first,
                files: files.to_vec(),
            })
        };
        let sender = || {
            let mut push = near_with(by_content(Direction::Push));
            push.say(&offer(0, 5));
            push
        };
        let mut push = sender();
        push.hear(&compare(0, &[0, 3])).unwrap();
        push.hear(&compare(0, &[4])).unwrap();
        assert!(push.hear(&compare(0, &[4])).is_err());
        for wrong in [
            compare(0, &[]),
            compare(0, &[5]),
            compare(0, &[1, 1]),
            compare(u64::MAX, &[1]),
        ] {
            assert!(sender().hear(&wrong).is_err(), "{wrong:?}");
        }
        let mut push = sender();
        push.hear(&answer(0, 2)).unwrap();
        assert!(push.hear(&compare(0, &[1])).is_err());
        let mut other = near(Direction::Push);
        other.say(&offer(0, 5));
        assert!(other.hear(&compare(0, &[0])).is_err(), "another job");

        let compared = |first, files| {
            Message::Compared(Compared {
                first,
                blake3: vec![None; files],
            })
        };
        let receiver = || {
            let mut push = far_with(by_content(Direction::Push));
            push.hear(&offer(0, 5)).unwrap();
            push.say(&compare(0, &[0, 3]));
            push.say(&compare(3, &[1]));
            push
        };
        let mut push = receiver();
        push.hear(&compared(0, 2)).unwrap();
        push.hear(&compared(3, 1)).unwrap();
        assert!(push.hear(&compared(3, 1)).is_err());
        assert!(receiver().hear(&compared(3, 1)).is_err());
        assert!(receiver().hear(&compared(0, 1)).is_err());
        let mut push = far_with(by_content(Direction::Push));
        let most = (MAX_COMPARED_OFFERS_OPEN + 1) as u64;
        for number in 0..most {
            let files = MAX_OFFERED_FILES as u64;
            push.hear(&offer(number * files, MAX_OFFERED_FILES))
                .unwrap();
        }
        let next = offer(most * MAX_OFFERED_FILES as u64, MAX_OFFERED_FILES);
        assert!(push.hear(&next).is_err());
    }

    #[test]
    fn only_a_receiver_with_something_there_says_what_it_found() {
        let found = |spans: Vec<Span>| {
            Message::Answer(Answer {
                first: 0,
                needed: vec![true],
                found: vec![Found { index: 0, spans }],
                other_xattrs: Vec::new(),
            })
        };
        let span = |len| Span { offset: 0, len };
        let heard = |message: &Message| {
            let mut push = near(Direction::Push);
            push.say(&offer(0, 1));
            push.hear(message)
        };
        heard(&found(vec![span(1)])).unwrap();
        assert!(heard(&found(vec![])).is_err());
        assert!(heard(&found(vec![span(0)])).is_err());
        let checked = Message::Checked(Checked {
            file: 1,
            span: span(1),
            same: false,
        });
        heard(&checked).unwrap();
        assert!(near(Direction::Pull).hear(&checked).is_err());
        let mut push = near(Direction::Push);
        push.hear(&Message::Accept {
            fresh: true,
            into_folder: false,
        })
        .unwrap();
        assert!(push.hear(&checked).is_err());
    }

    #[test]
    fn attributes_are_asked_for_of_files_that_are_there_and_offered_as_they_can_be() {
        let heard = |other_xattrs: Vec<u16>| {
            let mut push = near(Direction::Push);
            push.say(&offer(0, 3));
            push.hear(&Message::Answer(Answer {
                first: 0,
                needed: vec![false, true, false],
                found: Vec::new(),
                other_xattrs,
            }))
        };
        heard(vec![0, 2]).unwrap();
        for wrong in [vec![1], vec![3], vec![2, 0], vec![0, 0]] {
            assert!(heard(wrong).is_err());
        }
        let Message::Offer(mut offer) = offer(0, 1) else {
            panic!("it is one");
        };
        offer.files[0].mode = 0o10_000;
        assert!(far(Direction::Push).hear(&Message::Offer(offer)).is_err());
    }

    #[test]
    fn offers_that_wait_for_an_answer_have_a_bound() {
        let mut push = far(Direction::Push);
        let first = (0..).step_by(MAX_OFFERED_FILES);
        let refused = first
            .map(|first| push.hear(&offer(first, MAX_OFFERED_FILES)))
            .position(|heard| heard.is_err());
        assert_eq!(refused, Some(MAX_OFFERS_OPEN + 1));
        let mut push = far(Direction::Push);
        for number in 0..3 * MAX_OFFERS_OPEN as u64 {
            push.hear(&offer(number, 1)).unwrap();
            push.say(&answer(number, 1));
        }
    }
}
