//! Which of the offered files the receiver needs. A file is not needed if the receiver has it, or if it is skipped
//! because of what the receiver has.

use std::os::fd::OwnedFd;

use howdah_wire::limits::MIN_BLOCK_BYTES;
use howdah_wire::{Offered, OfferedFile, Same, Skip, Span, TreePath};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::tree::handover::Handover;
use crate::tree::journal::Journal;
use crate::tree::part::{self, part_name};
use crate::tree::place::{Placement, parent_and_name, same_time};
use crate::tree::reach::INSIDE;
use crate::tree::skipped::TO_CHANGE;
use crate::tree::stat::{is_moved, mtime_ns};
use crate::tree::target::Target;

/// What the receiver needs of an offered file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it is there.
    Nothing,
    /// Its extended attributes: all else is there.
    Xattrs,
    /// To be compared with what is there, by its content.
    Comparison,
    /// All of it but for what may be there, which is worth a comparison.
    AllBut(Vec<Span>),
    /// Nothing: something has its name, and stays.
    LeftOut,
}

impl Placement {
    /// What must be sent of a file: nothing if it is skipped or left out because of what is or is not at the target.
    /// A file that is the same gets its owner and mode. `not_kept` is called with the reason if one of them cannot be
    /// set, or if a file is left out. A useless part of the file is removed. If `only_look` is true, nothing is
    /// changed.
    ///
    /// # Errors
    /// When the peer names a source that is not in the job.
    pub fn needs(
        &self,
        file: &OfferedFile,
        only_look: bool,
        not_kept: impl FnOnce(String),
    ) -> Result<Need, TransferError> {
        if file.kind != Offered::File {
            return self.needs_other(file, not_kept);
        }
        let (target, relative) = self.relative(file.source, &file.path)?;
        let Some(folder) = &target.folder else {
            return Ok(match self.skip.missing {
                true => Need::Nothing,
                false => Need::AllBut(Vec::new()),
            });
        };
        let mut looked = self.look(file.source, folder, &relative);
        if matches!(looked, Err(Errno::ACCESS)) && !only_look {
            self.open_way(file.source, target, parent_and_name(&relative).0);
            looked = self.look(file.source, folder, &relative);
        }
        let skipped = match &looked {
            Ok(stat) => skipped(self.skip, file, stat),
            // What is no folder stays for who ignores what is there.
            Err(Errno::NOTDIR | Errno::LOOP) if self.skip.there => Some(Skipped::Untouched),
            Err(_) => self.skip.missing.then_some(Skipped::Untouched),
        };
        let Some(skipped) = skipped else {
            let there = looked.as_ref().map_err(|error| *error);
            if let Some(why) = self.kept_out(file, target, &relative, there, only_look) {
                not_kept(why);
                return Ok(Need::LeftOut);
            }
            let foreseen = self.foreseen_refusal(file, target, &relative, there);
            let of_another = || self.foresee_there(target, folder, &relative, there);
            if let Some(why) = foreseen.or_else(of_another) {
                not_kept(why);
                return Ok(Need::LeftOut);
            }
            return Ok(Need::AllBut(found(
                &self.handover,
                folder,
                &relative,
                file,
                only_look,
            )));
        };
        if looked.is_ok()
            && skipped != Skipped::IfEqual
            && let Err(refused) = self.find_there(target, folder, &relative, false)
        {
            not_kept(refused.to_string());
            return Ok(Need::LeftOut);
        }
        let need = match (skipped, &looked) {
            (Skipped::IfEqual, _) => return Ok(Need::Comparison),
            (Skipped::Same, Ok(stat)) => {
                self.give_same(target, &relative, file, stat, only_look, not_kept)
            }
            _ => Need::Nothing,
        };
        if let (Ok(stat), false) = (&looked, only_look) {
            self.note_skipped(file, target, &relative, stat)?;
        }
        Ok(need)
    }

    /// What has this name below a target's folder. Files are offered folder by folder, so the folder is kept open.
    pub(super) fn look(
        &self,
        source: u16,
        folder: &OwnedFd,
        relative: &[u8],
    ) -> Result<Stat, Errno> {
        let (parent, name) = parent_and_name(relative);
        if parent.is_empty() {
            return rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        }
        let mut looked_into = lock(&self.looked_into);
        let opened = match looked_into.take() {
            Some((of, path, opened)) if of == source && path == parent => (of, path, opened),
            _ => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let opened = rustix::fs::openat2(folder, parent, flags, Mode::empty(), INSIDE)?;
                (source, parent.to_vec(), opened)
            }
        };
        let (_, _, parent) = looked_into.insert(opened);
        rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// What must be sent of a file whose content was compared with the existing one, as [`Self::needs`].
    ///
    /// # Errors
    /// When the peer names a source that is not in the job.
    pub fn compared(
        &self,
        file: &OfferedFile,
        same: bool,
        only_look: bool,
        not_kept: impl FnOnce(String),
    ) -> Result<Need, TransferError> {
        if file.kind != Offered::File && same {
            // Another name of the file that was compared.
            return Ok(Need::Nothing);
        }
        let (target, relative) = self.relative(file.source, &file.path)?;
        let Some(folder) = &target.folder else {
            return Ok(Need::AllBut(Vec::new()));
        };
        match self.look(file.source, folder, &relative) {
            Ok(stat) if same && is_file_of(&stat, file.size) => {
                if let Err(refused) = self.find_there(target, folder, &relative, false) {
                    not_kept(refused.to_string());
                    return Ok(Need::LeftOut);
                }
                let need = self.give_same(target, &relative, file, &stat, only_look, not_kept);
                if !only_look {
                    self.note_skipped(file, target, &relative, &stat)?;
                }
                Ok(need)
            }
            there => {
                let there = there.as_ref().map_err(|error| *error);
                let foreseen = self.foreseen_refusal(file, target, &relative, there);
                let of_another = || self.foresee_there(target, folder, &relative, there);
                if let Some(why) = foreseen.or_else(of_another) {
                    not_kept(why);
                    return Ok(Need::LeftOut);
                }
                Ok(Need::AllBut(found(
                    &self.handover,
                    folder,
                    &relative,
                    file,
                    only_look,
                )))
            }
        }
    }

    /// Opens the existing file for the comparison with an offered one; `None` if that is not possible.
    pub fn open_there(&self, file: &OfferedFile) -> Option<OwnedFd> {
        let (source, path) = file.content();
        let (target, relative) = self.relative(source, path).ok()?;
        let folder = target.folder.as_ref()?;
        let name = relative.as_slice();
        let there = rustix::fs::openat2(folder, name, TO_CHANGE, Mode::empty(), INSIDE).ok()?;
        let stat = rustix::fs::fstat(&there).ok()?;
        is_file_of(&stat, file.size).then_some(there)
    }

    /// Gives a file that is the same what it lacks; what is still needed of it.
    fn give_same(
        &self,
        target: &Target,
        relative: &[u8],
        file: &OfferedFile,
        stat: &Stat,
        only_look: bool,
        not_kept: impl FnOnce(String),
    ) -> Need {
        let otherwise = matches!(self.skip.same, Same::Content | Same::Size);
        let with_time = otherwise && self.metadata.keep.times;
        if !only_look
            && let Some(why) = self.mend(target, relative, stat, &file.attributes(), with_time)
        {
            not_kept(why);
        }
        let same_time = otherwise || same_time(file.mtime_ns, mtime_ns(stat));
        let folder = target.folder.as_ref();
        let lacks_xattrs =
            folder.is_some_and(|folder| !self.has_xattrs(folder, relative, file.xattrs));
        match same_time && lacks_xattrs {
            true => Need::Xattrs,
            false => Need::Nothing,
        }
    }

    /// Whether an entry that is not a file is skipped because of what has its name.
    ///
    /// # Errors
    /// When the peer names a source that is not in the job.
    pub(super) fn passes_over(&self, source: u16, path: &TreePath) -> Result<bool, TransferError> {
        let Skip { missing, there, .. } = self.skip;
        if !missing && !there {
            return Ok(false);
        }
        let (target, relative) = self.relative(source, path)?;
        Ok(match self.find(source, target, &relative) {
            Ok(()) => {
                if let (true, Some(root)) = (there, &target.folder) {
                    self.find_there(target, root, &relative, false)?;
                }
                there
            }
            Err(Errno::NOTDIR | Errno::LOOP) if there => true,
            Err(_) => missing,
        })
    }

    /// Finds what stays as it is, at the path of an entry of the source.
    ///
    /// # Errors
    /// [`TransferError::Refused`] when this copy has placed or found it under another name.
    pub(super) fn find_there(
        &self,
        target: &Target,
        root: &OwnedFd,
        relative: &[u8],
        is_folder: bool,
    ) -> Result<(), TransferError> {
        let display = |path: &[u8]| target.display(path);
        self.folding.find(root, relative, is_folder, display)
    }

    /// Why what is there cannot be replaced, if this copy has placed or found it under another name.
    fn foresee_there(
        &self,
        target: &Target,
        root: &OwnedFd,
        relative: &[u8],
        there: Result<&Stat, Errno>,
    ) -> Option<String> {
        there.ok()?;
        let display = |path: &[u8]| target.display(path);
        let foreseen = self.folding.foresee(root, relative, display);
        foreseen.err().map(|refused| refused.to_string())
    }

    /// Looks for a name below a target. Symbolic links are not followed.
    pub(super) fn find(&self, source: u16, target: &Target, relative: &[u8]) -> Result<(), Errno> {
        let folder = target.folder.as_ref().ok_or(Errno::NOENT)?;
        let path = if relative.is_empty() { b"." } else { relative };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat2(folder, path, flags, Mode::empty(), INSIDE);
        let mut opened = open();
        if matches!(opened, Err(Errno::ACCESS)) {
            self.open_way(source, target, parent_and_name(relative).0);
            opened = open();
        }
        opened.map(drop)
    }
}

/// How a file is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skipped {
    /// It may be another one, and stays as it is.
    Untouched,
    /// It is the same.
    Same,
    /// It is the same if its content is.
    IfEqual,
}

/// Whether and how a file is skipped because of an existing file.
pub(super) fn skipped(skip: Skip, file: &OfferedFile, there: &Stat) -> Option<Skipped> {
    if skip.there {
        return Some(Skipped::Untouched);
    }
    if FileType::from_raw_mode(there.st_mode) != FileType::RegularFile {
        return None;
    }
    if skip.newer && is_newer(there, file.mtime_ns) {
        return Some(Skipped::Untouched);
    }
    let same_time = same_time(file.mtime_ns, mtime_ns(there));
    let same_size = u64::try_from(there.st_size) == Ok(file.size);
    let same = match skip.same {
        // Two times that were moved look the same and may be different ones.
        Same::SizeAndTime => same_size && same_time && !is_moved(file.mtime_ns),
        Same::Size => same_size,
        Same::Content if same_size && file.size > 0 => return Some(Skipped::IfEqual),
        Same::Content => same_size,
        Same::Nothing => false,
    };
    same.then_some(Skipped::Same)
}

/// Whether an existing entry is a regular file that was changed after this time.
pub(super) fn is_newer(there: &Stat, sent_ns: i64) -> bool {
    let kept_ns = mtime_ns(there);
    FileType::from_raw_mode(there.st_mode) == FileType::RegularFile
        && !same_time(sent_ns, kept_ns)
        && kept_ns > sent_ns
}

/// Whether an existing entry is a regular file of that size.
pub(super) fn is_file_of(there: &Stat, size: u64) -> bool {
    FileType::from_raw_mode(there.st_mode) == FileType::RegularFile
        && u64::try_from(there.st_size) == Ok(size)
}

/// What an earlier copy may have left of a file that is needed. What it has left of another state of the
/// file, or nothing that is worth a comparison, is removed.
fn found(
    handover: &Handover,
    folder: &OwnedFd,
    relative: &[u8],
    file: &OfferedFile,
    only_look: bool,
) -> Vec<Span> {
    let (parent, name) = match parent_and_name(relative) {
        (b"", name) => (b".".as_slice(), name),
        other => other,
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(parent) = rustix::fs::openat2(folder, parent, flags, Mode::empty(), INSIDE) else {
        return Vec::new();
    };
    let part = part_name(name);
    let there = match only_look {
        true => part::existing(&parent, &part),
        false => handover.existing(&parent, &part),
    };
    let locked = match there {
        Ok(Some(locked)) => locked,
        Ok(None) => return Vec::new(),
        Err(_) => {
            if !only_look {
                part::remove(&parent, &part);
            }
            return Vec::new();
        }
    };
    let journal = (file.size > MIN_BLOCK_BYTES)
        .then(|| Journal::read(&locked, file.size, file.mtime_ns))
        .flatten();
    let spans = journal.map_or_else(Vec::new, |journal| journal.found());
    if spans.is_empty() && !only_look {
        let _ = rustix::fs::unlinkat(&parent, part.as_slice(), AtFlags::empty());
    }
    spans
}
