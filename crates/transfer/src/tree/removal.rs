//! Removes what is at the target and not at the source.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use howdah_wire::{Extraneous, Kind, printable};
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use crate::error::{TransferError, reason};
use crate::tree::destination::open_folder;
use crate::tree::extraneous::{Candidate, Candidates};
use crate::tree::folders::OWNER_MODE;
use crate::tree::part::{self, Unusable, is_part_name};
use crate::tree::place::{Placement, parent_and_name};

/// The folder in which something was removed last.
type Open = Option<(u16, Vec<u8>, Arc<OwnedFd>)>;

/// Removes these entries, and counts them in `removed`. Returns how many could not be removed. An entry that has
/// disappeared meanwhile counts as neither.
///
/// # Errors
/// [`TransferError::Cancelled`] when `stop` returns true. What was removed by then stays removed.
pub fn remove(
    placement: &Placement,
    candidates: &Candidates,
    removed: &AtomicU64,
    warn: &dyn Fn(String),
    stop: &dyn Fn() -> bool,
) -> Result<u64, TransferError> {
    let mut last: Open = None;
    let mut failed = 0;
    candidates.each(&mut |candidate| {
        if stop() {
            return Err(TransferError::Cancelled);
        }
        match remove_one(placement, &candidate, &mut last) {
            Ok(()) => {
                removed.fetch_add(1, Ordering::Relaxed);
            }
            Err(Errno::NOENT) => {}
            Err(error) => {
                failed += 1;
                let Extraneous { source, path, .. } = &candidate.extraneous;
                let (target, relative) = placement.relative(*source, path)?;
                let shown = printable(&target.display(&relative));
                let why = match error {
                    Errno::NOTEMPTY => "something new is in it".to_owned(),
                    Errno::WOULDBLOCK => "another copy is writing it".to_owned(),
                    error => reason(error),
                };
                warn(format!("cannot remove {shown}: {why}"));
            }
        }
        Ok(())
    })?;
    Ok(failed)
}

fn remove_one(placement: &Placement, candidate: &Candidate, last: &mut Open) -> Result<(), Errno> {
    let Extraneous { source, path, kind } = &candidate.extraneous;
    let found = placement.relative(*source, path);
    let (target, relative) = found.map_err(|_| Errno::NOENT)?;
    let (parent, name) = parent_and_name(&relative);
    let root = target.folder.as_ref().ok_or(Errno::NOENT)?;
    let is_last = |(of, path, _): &(u16, Vec<u8>, Arc<OwnedFd>)| *of == *source && path == parent;
    if !last.as_ref().is_some_and(is_last) {
        let mut opened = open_folder(root, parent);
        if matches!(opened, Err(Errno::ACCESS)) {
            placement.open_way(*source, target, parent);
            opened = open_folder(root, parent);
        }
        let opened = Arc::new(opened?);
        *last = Some((*source, parent.to_vec(), opened));
    }
    let Some((_, above, parent)) = &*last else {
        return Err(Errno::NOENT);
    };
    let flags = match kind {
        Kind::Folder => AtFlags::REMOVEDIR,
        _ => AtFlags::empty(),
    };
    let unlink = || {
        // Another copy may have taken it up since it was found; the lock is held until it is gone.
        let _lock = match is_part_name(name).then(|| part::existing(parent, name)) {
            Some(Ok(lock)) => lock,
            Some(Err(Unusable::Busy)) => return Err(Errno::WOULDBLOCK),
            Some(Err(Unusable::Foreign(_) | Unusable::Failed(_))) | None => None,
        };
        rustix::fs::unlinkat(parent, name, flags)
    };
    match unlink() {
        // A folder that goes away may be closed to its owner.
        Err(Errno::ACCESS) if candidate.inside => {
            rustix::fs::fchmod(parent, Mode::RWXU)?;
            unlink()?;
        }
        // So may one that stays, which gets its mode at the end.
        Err(Errno::ACCESS) => {
            placement.open_to_owner(*source, target, above, parent, OWNER_MODE);
            unlink()?;
        }
        other => other?,
    }
    if !candidate.inside {
        let shown = target.display(&relative);
        placement
            .note_changed(parent, &shown)
            .map_err(|_| Errno::IO)?;
    }
    Ok(())
}
