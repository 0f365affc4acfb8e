//! The site of a far end: the ports that it opens, and the overseer that decides whether a copy may begin and
//! continue.
//!
//! This crate does not decide. It asks the overseer before a job is carried out, and each tenth of a second while
//! bytes move. At the end it reports what has moved.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use howdah_wire::{Direction, Job, Totals};

use crate::end::abort::lock;
use crate::end::context::{Board, Context};
use crate::error::TransferError;
use crate::session::report::{far_account, far_job};

/// How often the overseer is asked while a copy goes on.
const ASKED_EVERY: Duration = Duration::from_millis(100);
/// How long the end of a copy waits for the thread that asks.
const GLANCE: Duration = Duration::from_millis(10);

/// Decides on the copies of a far end. A refusal is one line for the user.
pub trait Overseer: Send + Sync {
    /// Whether a job, FarJob as JSON, may be carried out; asked once, before anything is opened.
    ///
    /// # Errors
    /// Why not.
    fn accept(&self, job: &[u8]) -> Result<(), String>;

    /// Whether a copy may go on of which `moved` bytes have arrived and which is known to move `known` bytes,
    /// those included.
    ///
    /// # Errors
    /// Why not.
    fn moved(&self, moved: u64, known: u64) -> Result<(), String>;

    /// Takes the FarAccount, JSON, of a copy that has ended, well or not.
    ///
    /// # Errors
    /// What went wrong with that.
    fn ended(&self, account: &[u8]) -> Result<(), String>;
}

/// The settings of a far end's site. By default there are no restrictions.
#[derive(Clone, Default)]
pub struct Site {
    /// The ports from which one is opened for the data streams. If absent, the kernel chooses a port.
    pub ports: Option<RangeInclusive<u16>>,
    /// How many connections of the near host are accepted before there is a near end.
    pub ahead: u16,
    /// Whoever is asked.
    pub overseer: Option<Arc<dyn Overseer>>,
}

impl Site {
    /// Asks whether a job may be carried out.
    pub(crate) fn accept(&self, job: &Job) -> Result<(), TransferError> {
        match &self.overseer {
            Some(overseer) => overseer.accept(&far_job(job)).map_err(TransferError::Here),
            None => Ok(()),
        }
    }

    /// Starts a thread that asks whether the copy may continue, until everything has arrived.
    pub(crate) fn watch(&self, context: &Arc<Context>) -> Result<(), TransferError> {
        let Some(overseer) = self.overseer.clone() else {
            return Ok(());
        };
        context.spawn("howdah-site", move |context| {
            let mut asked = Instant::now();
            while !context.abort.settled() && !context.abort.stopping() {
                thread::sleep(GLANCE);
                if asked.elapsed() >= ASKED_EVERY {
                    asked = Instant::now();
                    let (moved, known) = so_far(context);
                    let answer = overseer.moved(moved, known);
                    answer.map_err(TransferError::Here)?;
                }
            }
            Ok(())
        })
    }

    /// Tells what has moved.
    pub(crate) fn ended(
        &self,
        board: &Board,
        outcome: Result<&Totals, &TransferError>,
    ) -> Result<(), TransferError> {
        if let Some(overseer) = &self.overseer {
            let moved = outcome.copied().unwrap_or_else(|_| Totals {
                bytes: board.bytes.load(Ordering::Relaxed),
                hole_bytes: board.hole_bytes.load(Ordering::Relaxed),
                files: board.files.load(Ordering::Relaxed),
                ..Totals::default()
            });
            let removed = board.removed.load(Ordering::Relaxed);
            let answer = overseer.ended(&far_account(
                moved,
                removed,
                board.digests.sum_in_hex(),
                outcome.err(),
            ));
            answer.map_err(TransferError::Here)?;
        }
        Ok(())
    }
}

/// Bytes that have arrived, holes too, and those that the copy is known to move. The receiver knows them all once
/// everything has been offered to it; a sender does not know yet what is skipped, so it knows what has arrived.
fn so_far(context: &Context) -> (u64, u64) {
    let holes = context.board.hole_bytes.load(Ordering::Relaxed);
    let moved = context.board.bytes.load(Ordering::Relaxed);
    let moved = moved.saturating_add(holes);
    let notes = lock(&context.board.notes);
    if context.job.direction == Direction::Pull || !notes.scanned.complete {
        return (moved, moved);
    }
    let wanted = notes.scanned.bytes.saturating_sub(notes.skipped.bytes);
    (moved, moved.max(wanted))
}
