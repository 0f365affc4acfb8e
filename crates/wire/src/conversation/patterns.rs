//! Patterns that the far end expands to sources, once, before the job.

use super::ProtocolError;
use crate::limits::{MAX_PATH_BYTES, MAX_SOURCES};
use crate::message::Message;

/// Whether patterns were expanded.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    /// Whether this end was asked to expand them.
    expanded: bool,
    /// The result is still to be told.
    open: bool,
}

impl Patterns {
    pub(super) fn say(&mut self, message: &Message) {
        if let Message::Expand(_) = message {
            self.open = true;
        }
    }

    /// Judges patterns to be expanded; `None` if some were expanded before.
    pub(super) fn hear(&mut self, patterns: &[Vec<u8>]) -> Option<Result<(), ProtocolError>> {
        let first = !std::mem::replace(&mut self.expanded, true);
        first.then(|| check_paths(patterns))
    }

    /// Whether an answer was still to come. If so, this is that answer.
    pub(super) fn take_answer(&mut self) -> bool {
        std::mem::take(&mut self.open)
    }
}

/// Checks the result of patterns.
pub(super) fn check_expanded(found: &Result<Vec<Vec<u8>>, String>) -> Result<(), ProtocolError> {
    found.as_ref().map_or(Ok(()), |paths| check_paths(paths))
}

fn check_paths(paths: &[Vec<u8>]) -> Result<(), ProtocolError> {
    let sound = |path: &Vec<u8>| (1..=MAX_PATH_BYTES).contains(&path.len()) && !path.contains(&0);
    if !(1..=MAX_SOURCES).contains(&paths.len()) || !paths.iter().all(sound) {
        return Err(ProtocolError(
            "no or too many sources, or some that cannot be",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Side;
    use crate::conversation::tests::{far_with, greeted, plain};
    use crate::message::Direction;

    #[test]
    fn patterns_are_expanded_once_before_the_job_and_within_bounds() {
        let paths = |count: usize| vec![b"run*".to_vec(); count];
        let far = || greeted(Side::Far);
        let mut once = far();
        once.hear(&Message::Expand(paths(MAX_SOURCES))).unwrap();
        assert!(once.hear(&Message::Expand(paths(1))).is_err());
        let nul = vec![b"a\0b".to_vec()];
        let long = vec![vec![b'x'; MAX_PATH_BYTES + 1]];
        for wrong in [
            paths(0),
            paths(MAX_SOURCES + 1),
            nul,
            long,
            vec![Vec::new()],
        ] {
            assert!(far().hear(&Message::Expand(wrong.clone())).is_err());
            let mut near = greeted(Side::Near);
            near.say(&Message::Expand(paths(1)));
            assert!(near.hear(&Message::Expanded(Ok(wrong))).is_err());
        }
        let mut late = far_with(plain(Direction::Pull));
        assert!(late.hear(&Message::Expand(paths(1))).is_err());
        let mut near = greeted(Side::Near);
        assert!(near.hear(&Message::Expanded(Ok(paths(1)))).is_err());
        let mut near = greeted(Side::Near);
        near.say(&Message::Expand(paths(1)));
        near.hear(&Message::Expanded(Err("nothing".into())))
            .unwrap();
        assert!(near.hear(&Message::Expanded(Ok(paths(1)))).is_err());
    }
}
