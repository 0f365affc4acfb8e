//! A receiver that removes what is not at the sender, after everything has arrived.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use howdah_wire::limits::MAX_EXTRANEOUS;
use howdah_wire::{Content, Message, Removal, Side, Withheld};

use crate::end::abort::lock;
use crate::end::context::Context;
use crate::error::TransferError;
use crate::session::listing::Listing;
use crate::tree::content::Contents;
use crate::tree::extraneous::{Candidate, Candidates, MAX_NAMES_IN_MEMORY, Search};
use crate::tree::place::Placement;
use crate::tree::removal;

/// The names in the sender's folders, and the result of the removal.
#[derive(Debug, Default)]
pub struct Removing {
    contents: Mutex<Contents>,
    /// Whether the sender could read all of its sources, once it has said.
    whole: Mutex<Option<bool>>,
    came_to: Mutex<Option<Removal>>,
}

impl Removing {
    /// Keeps the names in a folder of a source.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn note(&self, content: &Content, placement: &Placement) -> Result<(), TransferError> {
        let Some(folder) = placement.folder_of(content.source) else {
            return Ok(());
        };
        lock(&self.contents).add(content, folder).map_err(|error| {
            TransferError::path("keep what is in", content.folder.as_bytes(), error)
        })
    }

    /// Notes that the sender has sent everything.
    pub fn all_sent(&self, whole: bool) {
        *lock(&self.whole) = Some(whole);
    }

    /// Whether the sender has said so.
    pub fn is_all_sent(&self) -> bool {
        lock(&self.whole).is_some()
    }

    /// What it came to.
    pub fn came_to(&self) -> Option<Removal> {
        *lock(&self.came_to)
    }

    /// Finds what has to be removed, and removes it. In a dry run it gives the list to `listed` or to the other end.
    ///
    /// # Errors
    /// When a filter file at the target cannot be used, or the storage fails. Nothing is removed then.
    /// [`TransferError::Cancelled`] when this end stops. What was removed by then stays removed.
    pub fn carry_out(
        &self,
        context: &Context,
        placement: &Placement,
        listed: &Mutex<Listing>,
    ) -> Result<(), TransferError> {
        let removal = match *lock(&self.whole) {
            Some(true) => self.remove(context, placement, listed)?,
            _ => Removal {
                withheld: Some(Withheld::LeftOut),
                ..Removal::default()
            },
        };
        *lock(&self.came_to) = Some(removal);
        Ok(())
    }

    fn remove(
        &self,
        context: &Context,
        placement: &Placement,
        listed: &Mutex<Listing>,
    ) -> Result<Removal, TransferError> {
        let (job, board) = (&context.job, &context.board);
        let delete = job.delete.ok_or(TransferError::Cancelled)?;
        let stop = || context.abort.stopping();
        let warn = |line| context.warn(line);
        let in_the_way = placement.take_in_the_way();
        let search = Search {
            placement,
            sources: &job.sources,
            filters: &job.filters,
            excluded: delete.excluded,
            one_file_system: job.walk.one_file_system,
            in_the_way: &in_the_way,
            dry_run: job.dry_run,
            most_names: MAX_NAMES_IN_MEMORY,
            stop: &stop,
            warn: &warn,
            looked_at: &board.looked_at,
        };
        let found = search.run(&std::mem::take(&mut *lock(&self.contents)))?;
        // What has gone already for what was copied counts, too.
        let gone = placement.room().removed();
        let mut removal = Removal {
            extraneous: found.count + gone,
            failed: found.failed,
            ..Removal::default()
        };
        if delete.most.is_some_and(|most| found.count + gone > most) {
            removal.withheld = Some(Withheld::TooMany);
        }
        if job.dry_run {
            list(context, &found, listed)?;
        } else if removal.withheld.is_none() {
            if found.count > 0 {
                if job.sync {
                    // What came in place of something must outlive a power cut before that goes.
                    placement.flush_names(stop)?;
                }
                removal.failed += removal::remove(placement, &found, &board.removed, &warn, &stop)?;
            }
            removal.removed = board.removed.load(Ordering::Relaxed) + gone;
        }
        Ok(removal)
    }
}

/// Hands on what would be removed.
fn list(
    context: &Context,
    found: &Candidates,
    listed: &Mutex<Listing>,
) -> Result<(), TransferError> {
    let mut some = Vec::new();
    found.each(&mut |Candidate { extraneous, .. }| {
        if context.abort.stopping() {
            return Err(TransferError::Cancelled);
        }
        if context.side == Side::Near {
            lock(listed).add_extraneous(extraneous);
            return Ok(());
        }
        some.push(extraneous);
        if some.len() >= MAX_EXTRANEOUS {
            let full = std::mem::take(&mut some);
            context.control.say(Message::Extraneous(full));
        }
        Ok(())
    })?;
    if !some.is_empty() {
        context.control.say(Message::Extraneous(some));
    }
    Ok(())
}
