//! The names of a list that says what is moved. They are sent no faster than the sender takes them.

use super::ProtocolError;
use crate::limits::{MAX_NAMES, MAX_NAMES_OPEN};
use crate::message::{Direction, Job, Message, Names};

/// How far a list has come.
#[derive(Debug, Default)]
pub(super) struct NameList {
    may_come: bool,
    /// Messages of names that wait to be taken.
    open: usize,
}

impl NameList {
    pub(super) fn begin(&mut self, job: &Job) {
        self.may_come = job.named && job.direction == Direction::Pull;
    }

    /// Whether names may come, or go.
    pub(super) fn may_come(&self) -> bool {
        self.may_come
    }

    pub(super) fn say(&mut self, message: &Message) {
        match message {
            Message::Names(_) => self.open += 1,
            Message::NamesTaken => self.open = self.open.saturating_sub(1),
            _ => {}
        }
    }

    pub(super) fn hear(&mut self, names: &Names) -> Result<(), ProtocolError> {
        if names.names.len() > MAX_NAMES || self.open >= MAX_NAMES_OPEN {
            return Err(ProtocolError("too many names at once"));
        }
        self.open += 1;
        self.may_come = !names.complete;
        Ok(())
    }

    pub(super) fn hear_taken(&mut self) -> Result<(), ProtocolError> {
        let left = self.open.checked_sub(1);
        self.open = left.ok_or(ProtocolError("names taken that were not sent"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::tests::{far_with, names, near_with, plain};

    #[test]
    fn names_come_of_a_job_that_has_a_list_and_no_faster_than_they_are_taken() {
        let mut listed = plain(Direction::Pull);
        listed.named = true;
        let far = || far_with(listed.clone());
        assert!(
            far_with(plain(Direction::Pull))
                .hear(&names(1, true))
                .is_err()
        );
        assert!(far().hear(&names(MAX_NAMES + 1, true)).is_err());
        let mut all = far();
        all.hear(&names(1, true)).unwrap();
        assert!(all.hear(&names(1, true)).is_err());
        let mut many = far();
        for _ in 0..MAX_NAMES_OPEN {
            many.hear(&names(MAX_NAMES, false)).unwrap();
        }
        assert!(many.hear(&names(1, false)).is_err());
        let mut taken = far();
        for _ in 0..3 * MAX_NAMES_OPEN {
            taken.hear(&names(1, false)).unwrap();
            taken.say(&Message::NamesTaken);
        }
        let mut near = near_with(listed.clone());
        assert!(near.hear(&Message::NamesTaken).is_err());
        near.say(&names(1, false));
        near.hear(&Message::NamesTaken).unwrap();
    }
}
