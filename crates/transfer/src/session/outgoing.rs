//! The messages of one end that are not written yet. Their number is limited, however slowly the other end reads.
//!
//! Some messages are states: how far the scan is, how much has arrived, how the sockets are, what the limit is. A
//! newer one replaces an older one. Offers, answers and changes are bounded by the number that may be open at a time
//! (`howdah_wire::Conversation`). Lines for the user, results of comparisons, digests and names in folders come from
//! threads that can wait, and these wait while too many messages are queued.

use std::collections::VecDeque;
use std::mem::discriminant;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_wire::Message;

use crate::end::abort::lock;
use crate::session::control::MAX_EVENTS;

/// Messages of threads that can wait that may be queued.
const MAX_LINES: usize = 256;
/// From so many on nothing is carried here from another far end. What was on its way by then has room.
const MAX_CARRIED: usize = 32;
const _: () = assert!(MAX_CARRIED + 3 * MAX_EVENTS <= MAX_LINES);

/// The queue between an end and the thread that writes its control channel.
#[derive(Debug, Default)]
pub struct Outgoing {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Message>,
    lines: usize,
    /// Nothing more is said; what is queued is still written.
    closed: bool,
    /// Nobody writes any more.
    gone: bool,
}

/// What comes next to be written.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// A message.
    Message(Message),
    /// There was none for the time given.
    Nothing,
    /// There will be none.
    End,
}

impl Outgoing {
    /// Queues a message. If the queue is closed, the message is dropped.
    pub fn say(&self, message: Message) {
        let mut state = lock(&self.state);
        if is_line(&message) {
            while state.lines >= MAX_LINES && !state.closed && !state.gone {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
        if state.closed || state.gone {
            return;
        }
        state.lines += usize::from(is_line(&message));
        let kind = discriminant(&message);
        let older = state
            .queue
            .iter_mut()
            .find(|older| replaces(&message) && discriminant(*older) == kind);
        match older {
            Some(older) => *older = message,
            None => state.queue.push_back(message),
        }
        self.changed.notify_all();
    }

    /// Whether there is room for the names in another far end's folders, so that the thread that forwards them need
    /// not wait.
    pub fn has_room(&self) -> bool {
        let state = lock(&self.state);
        state.lines < MAX_CARRIED || state.closed || state.gone
    }

    /// Closes the queue. Messages that are queued are still written.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    /// Drops all messages, now and later, because no thread writes them any more.
    pub fn give_up(&self) {
        let mut state = lock(&self.state);
        state.gone = true;
        state.queue.clear();
        self.changed.notify_all();
    }

    /// Takes the next message. Waits up to `patience` for one.
    pub fn next(&self, patience: Duration) -> Next {
        let deadline = Instant::now() + patience;
        let mut state = lock(&self.state);
        loop {
            if let Some(message) = state.queue.pop_front() {
                state.lines -= usize::from(is_line(&message));
                self.changed.notify_all();
                return Next::Message(message);
            }
            if state.closed || state.gone {
                return Next::End;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Next::Nothing;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn is_line(message: &Message) -> bool {
    matches!(
        message,
        Message::Warning(_)
            | Message::LeftOut(_)
            | Message::Checked(_)
            | Message::Digests(_)
            | Message::Content(_)
            | Message::Extraneous(_)
    )
}

/// Whether a message of this kind makes an older one worthless.
fn replaces(message: &Message) -> bool {
    matches!(
        message,
        Message::Progress(_)
            | Message::Scanned(_)
            | Message::Samples(_)
            | Message::Limit(_)
            | Message::Spent(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_wire::{Progress, Scanned};
    use std::sync::Arc;
    use std::thread;

    fn progress(bytes: u64) -> Message {
        Message::Progress(Progress {
            bytes,
            ..Progress::default()
        })
    }

    fn all(outgoing: &Outgoing) -> Vec<Message> {
        std::iter::from_fn(|| match outgoing.next(Duration::ZERO) {
            Next::Message(message) => Some(message),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn a_newer_state_takes_the_place_of_the_older_one() {
        let outgoing = Outgoing::default();
        for bytes in 0..100_000 {
            outgoing.say(progress(bytes));
            outgoing.say(Message::Scanned(Scanned::default()));
            outgoing.say(Message::Samples(Vec::new()));
        }
        assert_eq!(
            all(&outgoing),
            [
                progress(99_999),
                Message::Scanned(Scanned::default()),
                Message::Samples(Vec::new())
            ]
        );
    }

    #[test]
    fn lines_wait_for_room_and_are_never_lost() {
        let outgoing = Arc::new(Outgoing::default());
        let said = Arc::clone(&outgoing);
        let speaker = thread::spawn(move || {
            for number in 0..10 * MAX_LINES {
                said.say(Message::LeftOut(number.to_string()));
            }
            said.close();
        });
        let mut came = 0;
        loop {
            assert!(lock(&outgoing.state).queue.len() <= MAX_LINES);
            match outgoing.next(Duration::from_secs(20)) {
                Next::Message(message) => {
                    assert_eq!(message, Message::LeftOut(came.to_string()));
                    came += 1;
                }
                Next::End => break,
                Next::Nothing => panic!("nothing came"),
            }
        }
        assert_eq!(came, 10 * MAX_LINES);
        speaker.join().unwrap();
    }

    #[test]
    fn a_writer_that_has_gone_keeps_nobody_waiting() {
        let outgoing = Arc::new(Outgoing::default());
        let said = Arc::clone(&outgoing);
        let speaker = thread::spawn(move || {
            for _ in 0..2 * MAX_LINES {
                said.say(Message::Warning(String::new()));
            }
        });
        thread::sleep(Duration::from_millis(20));
        assert!(!speaker.is_finished());
        outgoing.give_up();
        speaker.join().unwrap();
        assert_eq!(outgoing.next(Duration::ZERO), Next::End);
    }
}
