//! What of the target is not at the source, and what became of it: of jobs that ask for its removal.

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_CONTENT_FOLDERS, MAX_CONTENT_NAMES, MAX_EXTRANEOUS};
use crate::path::TreePath;

/// What a job has removed at the receiver, beside what it copies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delete {
    /// Whether that is also of what the filters leave out at both ends.
    pub excluded: bool,
    /// The most that is removed; where there is more, nothing is.
    pub most: Option<u64>,
}

/// A name in a folder: the first bytes of its BLAKE3 digest. Two names that share them are told apart by nobody, so
/// one of them stays.
pub type NameHash = [u8; 8];

/// Names in one folder of a source, of which no more is needed than that they are there. Those of a folder follow one
/// another, in any order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Index of the source.
    pub source: u16,
    /// The folder's path below that source.
    pub folder: TreePath,
    /// Names in it.
    pub names: Vec<NameHash>,
    /// Whether the folder has no others.
    pub complete: bool,
}

/// Checks what is in folders told at once; `open` is the one that is not complete.
pub(crate) fn check_content(
    told: &[Content],
    sources: usize,
    open: &mut Option<(u16, TreePath)>,
) -> Result<(), &'static str> {
    let names: usize = told.iter().map(|content| content.names.len()).sum();
    if !(1..=MAX_CONTENT_FOLDERS).contains(&told.len()) || names > MAX_CONTENT_NAMES {
        return Err("no folders, or too many folders or names at once");
    }
    told.iter()
        .try_for_each(|content| content.check(sources, open))
}

impl Content {
    fn check(
        &self,
        sources: usize,
        open: &mut Option<(u16, TreePath)>,
    ) -> Result<(), &'static str> {
        if usize::from(self.source) >= sources {
            return Err("what is in a source that the job has not");
        }
        let other = open
            .as_ref()
            .is_some_and(|(source, folder)| (*source, folder) != (self.source, &self.folder));
        if other {
            return Err("what is in a folder before another one is complete");
        }
        *open = (!self.complete).then(|| (self.source, self.folder.clone()));
        Ok(())
    }
}

/// Something at the target that is not at the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extraneous {
    /// Index of the source whose target it is in.
    pub source: u16,
    /// Its path below that.
    pub path: TreePath,
    /// Whether it is a folder; what is in it comes before it.
    pub folder: bool,
}

pub(crate) fn check_extraneous(found: &[Extraneous]) -> Result<(), &'static str> {
    match found.len() {
        1..=MAX_EXTRANEOUS => Ok(()),
        _ => Err("no or too many names to remove at once"),
    }
}

/// Why a receiver has removed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// The sender could not read all of its sources.
    LeftOut,
    /// There is more than [`Delete::most`].
    TooMany,
}

/// What became of what was not at the source: files, folders and links, each of them one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// How many were found at the target.
    pub extraneous: u64,
    /// How many of them were removed.
    pub removed: u64,
    /// How many could not be looked into or removed.
    pub failed: u64,
    /// Why none was removed, if that has a reason beside a dry run.
    pub held: Option<Held>,
}

impl Removal {
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let more = self.removed > self.extraneous;
        if more || self.held.is_some() && self.removed > 0 {
            return Err("an account of what was removed that cannot be");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::tests::{far_with, job, near_with};
    use crate::conversation::{Conversation, Side};
    use crate::message::{Direction, Finished, Job, Message};

    fn deletes(direction: Direction, dry_run: bool) -> Job {
        let Message::Job(job) = job(direction) else {
            unreachable!()
        };
        Job {
            delete: Some(Delete {
                excluded: false,
                most: None,
            }),
            dry_run,
            ..*job
        }
    }

    fn content(folder: &str, names: usize, complete: bool) -> Message {
        Message::Content(vec![of(folder, names, complete)])
    }

    fn of(folder: &str, names: usize, complete: bool) -> Content {
        Content {
            source: 0,
            folder: TreePath::try_from(folder.as_bytes().to_vec()).unwrap(),
            names: vec![[7; 8]; names],
            complete,
        }
    }

    fn finished(removal: Option<Removal>) -> Message {
        Message::Finished(Box::new(Finished {
            removal,
            ..Finished::default()
        }))
    }

    fn said(mut end: Conversation, messages: &[Message]) -> bool {
        messages.iter().all(|message| end.hear(message).is_ok())
    }

    const ALL_SENT: Message = Message::AllSent { whole: true };

    #[test]
    fn folders_are_told_one_after_the_other_and_all_before_the_last_word() {
        let far = || far_with(deletes(Direction::Push, false));
        let whole = content("a", 2, true);
        assert!(said(
            far(),
            &[whole.clone(), content("b", 0, true), ALL_SENT]
        ));
        let parts = [
            content("a", MAX_CONTENT_NAMES, false),
            content("a", 1, true),
        ];
        assert!(said(far(), &parts));
        let at_once = |folders: usize, names| {
            let told = (0..folders).map(|number| of(&number.to_string(), names, true));
            Message::Content(told.collect())
        };
        let each = MAX_CONTENT_NAMES / MAX_CONTENT_FOLDERS;
        assert!(said(far(), &[at_once(MAX_CONTENT_FOLDERS, each)]));
        assert!(said(
            far(),
            &[
                Message::Content(vec![of("a", 1, true), of("b", 1, false)]),
                content("b", 1, true)
            ]
        ));
        for wrong in [
            vec![content("a", 1, false), content("b", 1, true)],
            vec![content("a", 1, false), ALL_SENT],
            vec![content("a", MAX_CONTENT_NAMES + 1, true)],
            vec![at_once(0, 0)],
            vec![at_once(MAX_CONTENT_FOLDERS + 1, 0)],
            vec![at_once(MAX_CONTENT_FOLDERS, each + 1)],
            vec![Message::Content(vec![of("a", 1, false), of("b", 1, true)])],
            vec![ALL_SENT, ALL_SENT],
            vec![ALL_SENT, whole.clone()],
            vec![Message::Content(vec![Content {
                source: 1,
                ..of("a", 0, true)
            }])],
        ] {
            assert!(!said(far(), &wrong), "{wrong:?}");
        }
    }

    #[test]
    fn only_a_job_that_asks_for_it_removes_anything() {
        let near = near_with;
        for message in [content("a", 1, true), ALL_SENT] {
            let Message::Job(plain) = job(Direction::Pull) else {
                unreachable!()
            };
            assert!(!said(near(*plain), std::slice::from_ref(&message)));
            assert!(said(near(deletes(Direction::Pull, false)), &[message]));
        }
        let some = Extraneous {
            source: 0,
            path: TreePath::default(),
            folder: true,
        };
        let list = |count| Message::Extraneous(vec![some.clone(); count]);
        assert!(said(
            near(deletes(Direction::Push, true)),
            &[list(1), list(MAX_EXTRANEOUS)]
        ));
        for (job, count) in [
            (deletes(Direction::Push, false), 1),
            (deletes(Direction::Pull, true), 1),
            (deletes(Direction::Push, true), 0),
            (deletes(Direction::Push, true), MAX_EXTRANEOUS + 1),
        ] {
            assert!(!said(near(job), &[list(count)]));
        }
    }

    #[test]
    fn an_account_of_removals_is_of_a_job_that_removes_and_can_be() {
        let near = || near_with(deletes(Direction::Push, false));
        let removal = |extraneous, removed, held| {
            Some(Removal {
                extraneous,
                removed,
                failed: 0,
                held,
            })
        };
        assert!(said(near(), &[finished(removal(3, 2, None))]));
        assert!(said(
            near(),
            &[finished(removal(3, 0, Some(Held::TooMany)))]
        ));
        for wrong in [
            None,
            removal(1, 2, None),
            removal(3, 1, Some(Held::LeftOut)),
        ] {
            assert!(!said(near(), &[finished(wrong)]), "{wrong:?}");
        }
        let pulled = || near_with(deletes(Direction::Pull, false));
        assert!(!said(pulled(), &[finished(removal(0, 0, None))]));
        assert!(said(pulled(), &[finished(None)]));
    }

    #[test]
    fn a_list_and_memory_remove_nothing() {
        let heard = |job: Job| {
            let mut far = Conversation::new(Side::Far);
            far.hear(&crate::conversation::tests::hello()).unwrap();
            far.hear(&Message::Job(Box::new(job))).is_ok()
        };
        assert!(heard(deletes(Direction::Pull, false)));
        let named = Job {
            named: true,
            ..deletes(Direction::Pull, false)
        };
        assert!(!heard(named));
    }
}
