//! Jobs that remove what is at the target and not at the source.

use super::ProtocolError;
use crate::message::Job;
use crate::path::TreePath;
use crate::removal::{Content, Extraneous, Removal, check_content, check_extraneous};

/// How far a job with removals has come.
#[derive(Debug, Default)]
pub(super) struct Removing {
    /// Whether the job removes anything.
    asked: bool,
    sources: usize,
    dry_run: bool,
    /// The folder whose names are not complete yet.
    open: Option<(u16, TreePath)>,
    all_sent: bool,
}

impl Removing {
    pub(super) fn of(job: &Job) -> Self {
        Self {
            asked: job.delete.is_some(),
            sources: job.sources.len(),
            dry_run: job.dry_run,
            ..Self::default()
        }
    }

    pub(super) fn hear_content(&mut self, content: &[Content]) -> Result<(), ProtocolError> {
        if !self.asked || self.all_sent {
            return Err(ProtocolError(
                "what is in a folder, which it was not asked for",
            ));
        }
        check_content(content, self.sources, &mut self.open).map_err(ProtocolError)
    }

    pub(super) fn hear_all_sent(&mut self) -> Result<(), ProtocolError> {
        if !self.asked || self.all_sent || self.open.is_some() {
            return Err(ProtocolError("that all is sent, out of place"));
        }
        self.all_sent = true;
        Ok(())
    }

    pub(super) fn hear_extraneous(&self, found: &[Extraneous]) -> Result<(), ProtocolError> {
        if !self.asked || !self.dry_run {
            return Err(ProtocolError("names to remove, which it was not asked for"));
        }
        check_extraneous(found).map_err(ProtocolError)
    }

    /// Judges what a receiver says that it has removed.
    pub(super) fn hear_account(&self, removal: Option<&Removal>) -> Result<(), ProtocolError> {
        match removal {
            Some(removal) if self.asked => removal.check().map_err(ProtocolError),
            None if !self.asked => Ok(()),
            _ => Err(ProtocolError("an account of another job's removals")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Conversation;
    use crate::conversation::tests::{far_with, near_with, plain};
    use crate::kind::Kind;
    use crate::limits::{MAX_CONTENT_FOLDERS, MAX_CONTENT_NAMES, MAX_EXTRANEOUS};
    use crate::message::{Direction, Finished, Message};
    use crate::removal::{Delete, Withheld};

    fn deletes(direction: Direction, dry_run: bool) -> Job {
        Job {
            delete: Some(Delete {
                excluded: false,
                most: None,
            }),
            dry_run,
            ..plain(direction)
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
            assert!(!said(
                near(plain(Direction::Pull)),
                std::slice::from_ref(&message)
            ));
            assert!(said(near(deletes(Direction::Pull, false)), &[message]));
        }
        let some = Extraneous {
            source: 0,
            path: TreePath::default(),
            kind: Kind::Folder,
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
        let removal = |extraneous, removed, withheld| {
            Some(Removal {
                extraneous,
                removed,
                failed: 0,
                withheld,
            })
        };
        assert!(said(near(), &[finished(removal(3, 2, None))]));
        assert!(said(
            near(),
            &[finished(removal(3, 0, Some(Withheld::TooMany)))]
        ));
        for wrong in [
            None,
            removal(1, 2, None),
            removal(3, 1, Some(Withheld::LeftOut)),
        ] {
            assert!(!said(near(), &[finished(wrong)]), "{wrong:?}");
        }
        let pulled = || near_with(deletes(Direction::Pull, false));
        assert!(!said(pulled(), &[finished(removal(0, 0, None))]));
        assert!(said(pulled(), &[finished(None)]));
    }
}
