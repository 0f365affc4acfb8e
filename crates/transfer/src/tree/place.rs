//! Puts files, folders and links in place below the targets, and never anywhere else.
//!
//! Each folder is entered by one name at a time from its parent's descriptor, never through a
//! symbolic link. A file does not have its name until it is complete; `draft` says where it is until
//! then.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use howdah_wire::{Attributes, Keep, LinkTarget, Owner, Skip, TreePath, Xattrs, printable};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::{TransferError, reason};
use crate::tree::destination::{Destination, open_as_path, temporary_name};
use crate::tree::draft::Draft;
use crate::tree::durable;
use crate::tree::entered::OpenFolders;
use crate::tree::folders::{Folder, FolderMode, Folders};
use crate::tree::folding::{self, Folding};
use crate::tree::handover::Handover;
use crate::tree::later::Later;
use crate::tree::metadata::{Metadata, NotKept};
use crate::tree::moved::Led;
use crate::tree::new_modes::is_unfinished;
use crate::tree::other_names::OtherName;
use crate::tree::part::{self, PRIVATE, Unusable, part_name};
use crate::tree::refused::{Judged, Refusing};
use crate::tree::room::{Foreseen, Room};
use crate::tree::spool::Spool;
use crate::tree::target::Target;

/// The receiving side's file system, below the targets of one job.
#[derive(Debug)]
pub struct Placement {
    pub(super) targets: Vec<Target>,
    pub(super) metadata: Metadata,
    pub(super) open: Mutex<OpenFolders>,
    /// The folder in which an offered file was looked for last: the source, the path, and the open folder.
    pub(super) looked_into: Mutex<Option<(u16, Vec<u8>, OwnedFd)>>,
    pub(super) folders: Mutex<Folders>,
    /// Of file systems that take several names for one.
    pub(super) folding: Arc<Folding>,
    pub(super) led: Led,
    /// Locked while a folder with a mark is made.
    pub(super) marking: Mutex<()>,
    pub(super) other_names: Mutex<Spool<OtherName>>,
    /// What may be removed to make room for an entry.
    pub(super) room: Arc<Room>,
    /// Folders whose names belong to something else in the source. They are removed with what is not at the source.
    pub(super) in_the_way: Mutex<Spool<(u16, TreePath)>>,
    /// The entries that wait for the removal; absent if there is no removal, or it is done.
    pub(super) waiting: Mutex<Option<Vec<Later>>>,
    pub(super) foreseen: Mutex<Foreseen>,
    /// Folders that are the reason for entries that were left out.
    pub(super) refusing: Mutex<Refusing>,
    /// The folder in which files were offered last.
    pub(super) judged: Mutex<Option<Judged>>,
    /// Files that are not replaced, and are flushed one by one.
    pub(super) skipped: Mutex<Spool<(u16, TreePath)>>,
    /// Folders with changed names that are not on stable storage yet.
    pub(super) unflushed: durable::Unflushed,
    /// Whether it was said that no file can be gone on with.
    without_parts: AtomicBool,
    pub(super) handover: Handover,
    pub(super) skip: Skip,
    /// Whether entries have to survive a power cut.
    pub(super) durable: bool,
    /// Whether a list says what is sent. The source folder itself is sent only if the list names it.
    pub(super) named: bool,
}

impl Placement {
    /// Nothing placed yet.
    pub fn new(targets: Vec<Target>) -> Self {
        Self {
            targets,
            metadata: Metadata::new(Keep::default(), false),
            open: Mutex::default(),
            looked_into: Mutex::default(),
            folders: Mutex::default(),
            folding: Arc::default(),
            led: Led::default(),
            marking: Mutex::default(),
            other_names: Mutex::default(),
            room: Arc::default(),
            in_the_way: Mutex::default(),
            waiting: Mutex::default(),
            foreseen: Mutex::default(),
            refusing: Mutex::default(),
            judged: Mutex::default(),
            skipped: Mutex::default(),
            unflushed: durable::Unflushed::default(),
            without_parts: AtomicBool::new(false),
            handover: Handover::default(),
            skip: Skip::default(),
            durable: true,
            named: false,
        }
    }

    /// The same, for a job with or without a list of names.
    #[must_use]
    pub fn named(self, named: bool) -> Self {
        Self { named, ..self }
    }

    /// The same, for entries that have to survive a power cut or need not.
    #[must_use]
    pub fn durable(self, durable: bool) -> Self {
        Self { durable, ..self }
    }

    /// The same, with other rules on what is skipped.
    #[must_use]
    pub fn skipping(mut self, skip: Skip) -> Self {
        self.skip = skip;
        self
    }

    /// The same, with these attributes of files kept. `confined` says whether this process is confined to a folder,
    /// so that it cannot set all of them.
    #[must_use]
    pub fn keeping(self, keep: Keep, confined: bool) -> Self {
        Self {
            metadata: Metadata::new(keep, confined),
            ..self
        }
    }

    /// Whether the job has more than one source, so that others can be placed if one cannot.
    pub(super) fn has_other_targets(&self) -> bool {
        self.targets.len() > 1
    }

    /// The attributes that files get.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The path of an entry relative to the folder of its target.
    ///
    /// # Errors
    /// When the peer names a source that is not in the job.
    pub(super) fn relative(
        &self,
        source: u16,
        path: &TreePath,
    ) -> Result<(&Target, Vec<u8>), TransferError> {
        let target = self.targets.get(usize::from(source)).ok_or_else(|| {
            TransferError::Here("the other end broke the protocol: no such source".to_owned())
        })?;
        let mut relative = target.name.clone().unwrap_or_default();
        if !relative.is_empty() && !path.is_root() {
            relative.push(b'/');
        }
        relative.extend_from_slice(path.as_bytes());
        Ok((target, relative))
    }

    /// Notes that an entry has a new name, so that [`Self::finish`] puts it on stable storage.
    ///
    /// # Errors
    /// When its folder cannot be examined.
    pub fn note_named(&self, destination: &Destination) -> Result<(), TransferError> {
        self.unflushed
            .note(&destination.folder, &destination.display)
    }

    /// Notes that names in a folder have changed, so that [`Self::finish`] puts them on stable storage.
    ///
    /// # Errors
    /// When the folder cannot be examined.
    pub fn note_changed(&self, folder: &Arc<OwnedFd>, display: &[u8]) -> Result<(), TransferError> {
        self.unflushed.note(folder, display)
    }

    /// Puts all names that were noted on stable storage, until `stop` returns true.
    ///
    /// # Errors
    /// When the storage fails; [`TransferError::Cancelled`] when it was stopped.
    pub fn flush_names(&self, stop: impl Fn() -> bool) -> Result<(), TransferError> {
        self.unflushed.flush(stop)
    }

    /// The folder into which a source is copied; `None` if there is none, also because a dry run has not made it.
    pub fn folder_of(&self, source: u16) -> Option<&Arc<OwnedFd>> {
        self.targets.get(usize::from(source))?.folder.as_ref()
    }

    /// The destination of an entry. Missing folders above it are made.
    ///
    /// # Errors
    /// When a folder cannot be made or entered; [`TransferError::Refused`] if other entries can be placed.
    pub fn destination(&self, source: u16, path: &TreePath) -> Result<Destination, TransferError> {
        let (target, relative) = self.relative(source, path)?;
        let display = target.display(&relative);
        let (parent, name) = parent_and_name(&relative);
        if name.is_empty() {
            return Err(TransferError::Here(format!(
                "{} is no folder at its source; copy it without /.",
                printable(&display)
            )));
        }
        let folder = self.folder_to_change(source, target, parent)?;
        let top = target.folder.clone().ok_or(TransferError::Cancelled)?;
        Ok(Destination {
            folder,
            top,
            name: name.to_vec(),
            display,
            room: Arc::clone(&self.room),
            folding: Arc::clone(&self.folding),
            above: folding::hash(parent),
        })
    }

    /// Starts a file that comes as a whole and gets these attributes; see [`Draft`].
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn draft(
        &self,
        source: u16,
        path: &TreePath,
        size: u64,
        attributes: &Attributes,
    ) -> Result<Draft, TransferError> {
        let destination = self.destination(source, path)?;
        let mode = Metadata::first_mode(attributes);
        Draft::create(destination, size, mode, self.metadata.keep.sparse)
    }

    /// Starts the file that comes from a pipe at the other end.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn draft_of_pipe(&self) -> Result<Draft, TransferError> {
        // Its size is not known, so no run of zeros becomes a hole: that at the end could not be told.
        let destination = self.destination(0, &TreePath::default())?;
        Draft::create(destination, 0, PRIVATE, false)
    }

    /// Starts a file that comes in parts, or continues with what an earlier copy has left of it. Returns the reason
    /// if the next copy will not be able to continue with this file.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn draft_in_parts(
        &self,
        source: u16,
        path: &TreePath,
        size: u64,
        mtime_ns: i64,
    ) -> Result<(Draft, Option<String>), TransferError> {
        let destination = self.destination(source, path)?;
        let sparse = self.metadata.keep.sparse;
        let (unusable, destination) = match Draft::in_parts(destination, size, mtime_ns, sparse)? {
            Ok(draft) => return Ok((draft, None)),
            Err(unusable) => unusable,
        };
        let draft = Draft::create(destination, size, PRIVATE, sparse)?;
        let destination = draft.destination();
        let (shown, part) = (
            printable(&destination.display),
            printable(&part_name(&destination.name)),
        );
        let because = |why: &str| {
            format!(
                "{shown} begins anew if this copy is cut: {part} beside it cannot be used, {why}"
            )
        };
        let why = match unusable {
            Unusable::Busy => Some(because("another copy is writing it")),
            Unusable::Foreign(why) => Some(because(why)),
            // Said once: it is so with all of them.
            Unusable::Failed(_) if self.without_parts.swap(true, Ordering::Relaxed) => None,
            Unusable::Failed(error) => Some(because(&reason(error))),
        };
        Ok((draft, why))
    }

    /// Makes a folder. Its attributes are set by [`Self::finish`], after the last change in it.
    ///
    /// # Errors
    /// When it cannot be made or entered.
    pub fn make_folder(
        &self,
        source: u16,
        path: &TreePath,
        attributes: Attributes,
    ) -> Result<(), TransferError> {
        let (target, relative) = self.relative(source, path)?;
        if self.skip.missing && self.find(source, target, &relative).is_err() {
            return Ok(());
        }
        let made = match relative.is_empty() {
            // What does not fit into memory of folders is kept in it.
            true => self.folder_to_change(source, target, &relative),
            false => self.folder(source, target, &relative),
        };
        let made = match made {
            Err(TransferError::InTheWay(_)) if self.skip.there => return Ok(()),
            other => other?,
        };
        let left_alone = relative.is_empty() && !self.metadata.keep.top;
        let (false, Some(destination)) = (left_alone, &target.folder) else {
            return Ok(());
        };
        let failed = |error: std::io::Error| {
            TransferError::path("keep the attributes of", &target.display(&relative), error)
        };
        let mode = self.folder_mode(&made, attributes.mode);
        let folder = Folder {
            source,
            path: path.clone(),
            mode: mode.map_err(|error| failed(error.into()))?,
            attributes,
        };
        lock(&self.folders)
            .add(&folder, destination)
            .map_err(failed)
    }

    /// The mode that a folder gets in the end, which was there or has been made.
    fn folder_mode(&self, folder: &OwnedFd, mode: u32) -> Result<FolderMode, Errno> {
        if self.metadata.keep.perms {
            return Ok(FolderMode::Source(mode));
        }
        Ok(match is_unfinished(&rustix::fs::fstat(folder)?) {
            true => FolderMode::New(self.metadata.left(mode, folder)),
            false => FolderMode::Own,
        })
    }

    /// Makes a symbolic link. An existing link is replaced. Returns, in words, what could not be kept.
    ///
    /// # Errors
    /// When it cannot be made; [`TransferError::InTheWay`] when something with its name is not replaced.
    pub fn link(
        &self,
        source: u16,
        path: &TreePath,
        link: &LinkTarget,
        mtime_ns: i64,
        (owner, xattrs): (Option<&Owner>, Option<&Xattrs>),
    ) -> Result<NotKept, TransferError> {
        if self.passes_over(source, path)? {
            return Ok(None);
        }
        let destination = self.destination(source, path)?;
        let failed = |error: Errno| match error {
            // Its file system may have none.
            Errno::PERM => destination.not_placed("make link", error),
            _ => destination.not_made("make link", error),
        };
        let (folder, name) = (&destination.folder, destination.name.as_slice());
        let mut naming = destination.naming();
        match rustix::fs::symlinkat(link.as_bytes(), folder, name) {
            Err(Errno::EXIST) => {
                destination.make_room(&mut naming)?;
                let beside = link_beside(folder, name, link).map_err(failed)?;
                if let Err(error) = destination.replace_by(&beside, &mut naming) {
                    let _ = rustix::fs::unlinkat(folder, beside.as_slice(), AtFlags::empty());
                    return Err(error);
                }
            }
            other => {
                other.map_err(failed)?;
                naming.placed();
            }
        }
        drop(naming);
        let display = &destination.display;
        let given = self
            .metadata
            .give_time_by_name(folder, name, mtime_ns, display);
        self.note_named(&destination)?;
        let give_owner = |owner| {
            self.metadata
                .give_owner_by_name(folder, name, owner, display)
        };
        let mut not_kept = owner.and_then(give_owner);
        if let Some(xattrs) = xattrs {
            let kind = FileType::Symlink;
            let file = open_as_path(folder, name, kind).map_err(failed)?;
            let owned = not_kept.is_none();
            let why = self
                .metadata
                .give_xattrs_unopened(&file, kind, xattrs, owned, display);
            not_kept = not_kept.or(why);
        }
        let why = |error| TransferError::path("set the time of", display, error).to_string();
        Ok(not_kept.or_else(|| given.err().map(why)))
    }
}

/// The error that a peer has sent something that the user has not asked for.
pub(super) fn not_asked_for(what: &str) -> TransferError {
    TransferError::Here(format!(
        "the other end broke the protocol: {what} that was not asked for"
    ))
}

/// Makes a symbolic link beside its target; its name there. What a copy that was cut has left there is
/// removed.
fn link_beside(folder: &OwnedFd, name: &[u8], link: &LinkTarget) -> Result<Vec<u8>, Errno> {
    let make = |beside: &[u8]| rustix::fs::symlinkat(link.as_bytes(), folder, beside);
    let part = part_name(name);
    match make(&part) {
        Err(Errno::EXIST) => {}
        other => return other.map(|()| part),
    }
    let there = rustix::fs::statat(folder, part.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
    let is_own_link = there.is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
            && stat.st_uid == rustix::process::geteuid().as_raw()
    });
    if is_own_link {
        let _ = rustix::fs::unlinkat(folder, part.as_slice(), AtFlags::empty());
    } else {
        part::remove(folder, &part);
    }
    if make(&part).is_ok() {
        return Ok(part);
    }
    let unique = temporary_name(name);
    make(&unique).map(|()| unique)
}

/// The folder of an entry, empty for the target folder itself, and its last name.
pub(super) fn parent_and_name(relative: &[u8]) -> (&[u8], &[u8]) {
    match relative.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&relative[..slash], &relative[slash + 1..]),
        None => (b"", relative),
    }
}

/// Whether two modification times are the same, as far as the receiving file system keeps them.
pub(crate) fn same_time(sent_ns: i64, kept_ns: i64) -> bool {
    const SECOND: i64 = 1_000_000_000;
    sent_ns == kept_ns
        || kept_ns.rem_euclid(SECOND) == 0 && sent_ns.div_euclid(SECOND) == kept_ns / SECOND
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
