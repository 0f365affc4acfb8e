//! Hard links: other names of files, which are made when all files have their first names.

use std::os::fd::OwnedFd;

use howdah_wire::{TreePath, printable};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::end::abort::lock;
use crate::error::{TransferError, reason};
use crate::tree::destination::{link_open, temporary_name};
use crate::tree::later::Later;
use crate::tree::needed::{is_file_of, is_newer};
use crate::tree::part::{self, part_name};
use crate::tree::place::{Placement, not_asked_for, same_time};
use crate::tree::reach::INSIDE;
use crate::tree::stat::mtime_ns;

/// Another name of a file.
#[derive(Debug, Serialize, Deserialize)]
pub struct OtherName {
    /// Index of the source that it belongs to.
    pub source: u16,
    /// Its path below that source.
    pub path: TreePath,
    /// Index of the source that the file's first name belongs to.
    pub first_source: u16,
    /// The path of the first name below that source.
    pub first: TreePath,
    /// The file's size in bytes.
    pub size: u64,
    /// Its modification time, in nanoseconds since 1970.
    pub mtime_ns: i64,
}

impl Placement {
    /// Keeps another name of a file until all files have their first names.
    ///
    /// # Errors
    /// When the user has not asked for hard links, when the peer names a source that is not in the job, or when the
    /// name cannot be kept.
    pub fn note_other_name(&self, name: &OtherName) -> Result<(), TransferError> {
        if !self.metadata.keep.hard_links {
            return Err(not_asked_for("a hard link"));
        }
        if self.passes_over(name.source, &name.path)? {
            return Ok(());
        }
        self.relative(name.first_source, &name.first)?;
        let (target, relative) = self.relative(name.source, &name.path)?;
        let Some(folder) = &target.folder else {
            return Ok(());
        };
        lock(&self.other_names)
            .add(name, folder)
            .map_err(|error| TransferError::path("link", &target.display(&relative), error))
    }

    /// Gives files their other names. `left_out` is called for each name that cannot be made, with the reason. `stop`
    /// ends it early.
    ///
    /// # Errors
    /// When the names cannot be read back; [`TransferError::Cancelled`] when it was stopped.
    pub fn give_other_names(
        &self,
        stop: impl Fn() -> bool,
        left_out: impl Fn(String),
    ) -> Result<(), TransferError> {
        let names = std::mem::take(&mut *lock(&self.other_names));
        names.each(&mut |name| {
            if stop() {
                return Err(TransferError::Cancelled);
            }
            match self.give_other_name(&name) {
                Err(TransferError::Refused(why)) => left_out(why),
                Err(TransferError::Here(why)) if !self.waits(name.first_source, &name.first) => {
                    left_out(why);
                }
                Err(TransferError::Here(why) | TransferError::InTheWay(why)) => {
                    if let Some((_, why)) = self.put_off(Later::Name(name), why) {
                        left_out(why);
                    }
                }
                other => other?,
            }
            Ok(())
        })
    }

    pub(crate) fn give_other_name(&self, name: &OtherName) -> Result<(), TransferError> {
        let (target, first) = self.relative(name.first_source, &name.first)?;
        let first_shown = printable(&target.display(&first));
        let destination = self.destination(name.source, &name.path)?;
        let refused = |why: &str| {
            let shown = printable(&destination.display);
            TransferError::Here(format!("cannot link {shown} to {first_shown}: {why}"))
        };
        let failed = |error: Errno| refused(&reason(error));
        let Some(within) = &target.folder else {
            return Ok(());
        };
        let (folder, own) = (&destination.folder, destination.name.as_slice());
        let mut naming = destination.naming();
        if self.skip.newer
            && let Ok(there) = rustix::fs::statat(folder, own, AtFlags::SYMLINK_NOFOLLOW)
            && is_newer(&there, name.mtime_ns)
        {
            return naming.take();
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat2(within, first.as_slice(), flags, Mode::empty(), INSIDE)
            .map_err(failed)?;
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        if !is_of(name.size, name.mtime_ns, &stat, self.metadata.has_times()) {
            return Err(refused(
                match self.skip.newer && is_newer(&stat, name.mtime_ns) {
                    true => "that is newer than the source's file, which was not sent",
                    false => "that is not the file that was sent",
                },
            ));
        }
        if part::is_named(folder, own, &file).map_err(failed)? {
            return naming.take();
        }
        match link_open(&file, folder, own) {
            Err(Errno::EXIST) => {
                destination.make_room(&mut naming)?;
                let beside = link_beside(&file, folder, own).map_err(failed)?;
                let replaced = destination.replace_by(&beside, &mut naming);
                // Where both are names of one file already, a rename leaves both.
                let _ = rustix::fs::unlinkat(folder, beside.as_slice(), AtFlags::empty());
                replaced?;
            }
            other => {
                other.map_err(failed)?;
                naming.placed();
            }
        }
        drop(naming);
        self.note_named(&destination)
    }
}

/// Whether this is the file that was sent under the first name. If times are kept, its time is compared too.
pub(super) fn is_of(size: u64, sent_ns: i64, stat: &Stat, with_time: bool) -> bool {
    is_file_of(stat, size) && (!with_time || same_time(sent_ns, mtime_ns(stat)))
}

/// Links a file beside a name that is taken; its name there. What a copy that was cut has left there is removed.
fn link_beside(file: &OwnedFd, folder: &OwnedFd, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let part = part_name(name);
    // A part of two names is one that was cut here, before it took the place of the old file.
    if part::is_named(folder, &part, file)? {
        return Ok(part);
    }
    if part::remove(folder, &part) && link_open(file, folder, &part).is_ok() {
        return Ok(part);
    }
    let unique = temporary_name(name);
    link_open(file, folder, &unique)?;
    Ok(unique)
}
