//! Whether both far ends are reachable, and whether the copy between them makes progress, by their messages.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use howdah_wire::{Progress, Side};

use super::End;
use crate::end::abort::lock;
use crate::end::context::{Board, Context};
use crate::error::TransferError;
use crate::session::job::Between;
use crate::session::liveness::{Liveness, Owed};
use crate::session::reachability::{Reachability, Ridden};
use crate::session::sender::REMOVALS_WITHIN;
use crate::tree::queue::MAX_WAITING;

/// The progress of both far ends, by their messages.
#[derive(Debug, Default)]
pub struct Steps {
    /// Whether the receiver takes the copy.
    pub accepted: bool,
    /// Files that the sender has offered,
    pub offered: u64,
    /// Offers that the receiver has answered.
    pub answered: u64,
    /// Parts of which the receiver has said whether they are the same.
    pub checked: u64,
    /// Messages on files that are compared by their content.
    pub compared: u64,
    /// Bytes of these files that each end reports as read.
    pub digested: [u64; 2],
    /// Pieces that the receiver has taken.
    pub taken: u64,
    /// When the sender had sent everything, if the job removes.
    pub all_sent: Option<Instant>,
    /// Names that the receiver has looked at or removed since then, by its account.
    cleaned: u64,
    /// When the receiver had all.
    pub verified: Option<Instant>,
}

/// The watch over both far ends.
pub struct Movement {
    /// What they have done.
    pub steps: Steps,
    /// Whether the receiver can be reached; the context's is of the sender.
    receiver_path: Reachability,
    liveness: Liveness,
}

impl Movement {
    /// A watch that starts at `now`. `path_patience` is how long the path to the receiver may be out.
    pub fn new(context: &Context, path_patience: Duration, now: Instant) -> Self {
        Self {
            steps: Steps::default(),
            receiver_path: Reachability::new(Side::Near, path_patience, now),
            liveness: Liveness::new(Side::Near, context.patience, now),
        }
    }

    /// Notes that an end has sent a message.
    pub fn word(&mut self, context: &Context, end: End, now: Instant) {
        match end {
            End::Sender => context.path.word(now),
            End::Receiver => self.receiver_path.word(now),
        }
    }

    /// Notes what the receiver reports of its removals. As in any copy, this counts as progress for a limited time,
    /// because it cannot be checked.
    pub fn cleaned(&mut self, progress: &Progress) {
        let within = |told: Instant| told.elapsed() < REMOVALS_WITHIN;
        if self.steps.all_sent.is_some_and(within) {
            self.steps.cleaned = progress.looked_at.wrapping_add(progress.removed);
        }
    }

    /// Checks whether both ends are reachable, and whether the copy makes progress.
    ///
    /// # Errors
    /// When one of them has gone, or has made no progress for too long.
    pub fn look(
        &mut self,
        context: &Context,
        between: &Between,
        now: Instant,
    ) -> Result<(), TransferError> {
        let looks = [
            (End::Sender, context.path.look(Duration::ZERO, now)),
            (End::Receiver, self.receiver_path.look(Duration::ZERO, now)),
        ];
        let [sender, receiver] = looks.map(|(end, ridden)| {
            ridden.map_err(|error| TransferError::Here(format!("{}: {error}", end.name(between))))
        });
        let (sender, receiver) = (sender?, receiver?);
        // Mostly it is this host's own way out that is gone, and with it both.
        let longest = |one: &Ridden| (one.out_for, one.all);
        let ridden = match longest(&receiver) > longest(&sender) {
            true => receiver,
            false => sender,
        };
        lock(&context.board.notes).ridden = ridden;
        let there = context.path.in_touch() && self.receiver_path.in_touch();
        let (evidence, owed) = (self.evidence(&context.board), self.owed(context));
        self.liveness.look(evidence, owed, there, now)
    }

    /// Grows with each step of both. One alone may say what it likes: what the receiver says has arrived counts as
    /// far as the sender's kernel says the same.
    fn evidence(&self, board: &Board) -> u64 {
        let (scanned, acked) = {
            let notes = lock(&board.notes);
            let acked = notes.acked.values().copied();
            (notes.scanned, acked.fold(0, u64::saturating_add))
        };
        let steps = &self.steps;
        let moved = board.bytes.load(Ordering::Relaxed);
        let moved = moved.saturating_add(steps.taken).min(acked);
        let most = steps.offered.max(steps.taken) + MAX_WAITING as u64;
        moved
            .wrapping_add(steps.answered)
            .wrapping_add(steps.compared)
            .wrapping_add(steps.digested[0].min(steps.digested[1]))
            .wrapping_add(steps.checked.min(steps.taken))
            .wrapping_add(scanned.files.min(most))
            .wrapping_add(u64::from(scanned.complete))
            .wrapping_add(steps.cleaned)
            .wrapping_add(u64::from(steps.all_sent.is_some()))
            .wrapping_add(u64::from(steps.accepted))
            .wrapping_add(u64::from(steps.verified.is_some()))
    }

    /// What the far ends have to do next.
    fn owed(&self, context: &Context) -> Owed {
        let board = &context.board;
        let notes = lock(&board.notes);
        let there = notes.skipped.bytes.saturating_add(board.unsent_bytes());
        let to_move = notes.scanned.bytes.saturating_sub(there);
        if !self.steps.accepted {
            Owed::Step("has not said whether it takes the copy")
        } else if notes.scanned.complete && board.bytes.load(Ordering::Relaxed) >= to_move {
            Owed::LastStep("has not confirmed the copy")
        } else if context.limiter.paused() {
            Owed::End
        } else {
            Owed::Step("has moved nothing")
        }
    }
}
