//! Devices, FIFOs and sockets. They are made if the copy's user has asked for them.

use howdah_wire::{Attributes, Special, TreePath, printable};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Stat};
use rustix::io::Errno;

use std::os::fd::AsRawFd;

use crate::error::{TransferError, reason};
use crate::tree::destination::{Destination, open_as_path, temporary_name};
use crate::tree::metadata::{Metadata, NotKept};
use crate::tree::place::{Placement, not_asked_for};
use crate::tree::stat::{of_special, special};

/// What came of making one.
#[derive(Debug, PartialEq, Eq)]
pub enum Made {
    /// It is there.
    Yes,
    /// Only root makes devices: it is left out, as in rsync, and that is no failure.
    LeftOut(String),
    /// It is there, and not with all that it is to have.
    Without(String),
    /// It could not be made.
    Failed(String),
}

/// The kind of a special file, and the number of a device.
pub(super) fn node(kind: Special, (major, minor): (u32, u32)) -> (FileType, u64) {
    let number = match kind.is_device() {
        true => rustix::fs::makedev(major, minor),
        false => 0,
    };
    (of_special(kind), number)
}

impl Metadata {
    /// The line on a special file that this process cannot make.
    pub(super) fn makes_no_node(&self, kind: Special, display: &[u8]) -> Option<String> {
        let why = match (kind.is_device() && !self.privileged, self.by_name) {
            (true, _) => ", which root alone makes",
            (false, false) => ", and this login makes none",
            (false, true) => return None,
        };
        let (shown, what) = (printable(display), special(of_special(kind)));
        Some(format!("left out {shown}: {what}{why}"))
    }
}

impl Placement {
    /// Makes a device, a FIFO or a socket. What has its name is replaced, except a device or a folder that is not
    /// empty.
    ///
    /// # Errors
    /// When the user has not asked for it, or its folder cannot be made; [`TransferError::InTheWay`] when something
    /// with its name is not replaced.
    pub fn make_special(
        &self,
        source: u16,
        path: &TreePath,
        attributes: &Attributes,
        kind: Special,
        device: (u32, u32),
    ) -> Result<Made, TransferError> {
        let metadata = &self.metadata;
        let asked = match kind.is_device() {
            true => metadata.keep.devices,
            false => metadata.keep.specials,
        };
        if !asked {
            return Err(not_asked_for("a special file"));
        }
        if self.passes_over(source, path)? {
            return Ok(Made::Yes);
        }
        let destination = self.destination(source, path)?;
        if let Some(line) = metadata.makes_no_node(kind, &destination.display) {
            return Ok(Made::LeftOut(line));
        }
        let (file_type, number) = node(kind, device);
        let made = self.put_special(&destination, attributes, file_type, number);
        Ok(match made {
            Ok(None) => {
                self.note_named(&destination)?;
                Made::Yes
            }
            Ok(Some(why)) => Made::Without(why),
            Err(TransferError::Here(why)) => Made::Failed(why),
            Err(error) => return Err(error),
        })
    }

    fn put_special(
        &self,
        destination: &Destination,
        attributes: &Attributes,
        file_type: FileType,
        number: u64,
    ) -> Result<NotKept, TransferError> {
        let (folder, name) = (&destination.folder, destination.name.as_slice());
        let failed = |error: Errno| {
            let (path, why) = (printable(&destination.display), reason(error));
            TransferError::Here(format!("cannot make {path}: {why}"))
        };
        let there = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_there = there.is_ok_and(|stat| is_node(&stat, file_type, number));
        let perms = self.metadata.keep.perms;
        let mut naming = destination.naming();
        if is_there {
            naming.take()?;
            let mode = Some(attributes.mode).filter(|_| perms);
            return self
                .give_special(destination, name, file_type, attributes, mode)
                .map_err(failed);
        }
        let mode = match perms {
            true => attributes.mode,
            false => self.metadata.left(attributes.mode, folder),
        };
        let beside = temporary_name(name);
        let private = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(folder, beside.as_slice(), file_type, private, number)
            .map_err(failed)?;
        let placed = self
            .give_special(destination, &beside, file_type, attributes, Some(mode))
            .map_err(failed)
            .and_then(|not_kept| {
                destination
                    .replace_by(&beside, &mut naming)
                    .map(|()| not_kept)
            });
        if placed.is_err() {
            let _ = rustix::fs::unlinkat(folder, beside.as_slice(), AtFlags::empty());
        }
        placed
    }

    /// Gives a special file owner, extended attributes, mode, if it gets one, and time, and does not open it: that could
    /// wait for ever, or set a device going.
    fn give_special(
        &self,
        destination: &Destination,
        name: &[u8],
        file_type: FileType,
        attributes: &Attributes,
        mode: Option<u32>,
    ) -> Result<NotKept, Errno> {
        let (folder, display) = (&destination.folder, &destination.display);
        let mut not_kept = None;
        if let Some(owner) = &attributes.owner {
            not_kept = self
                .metadata
                .give_owner_by_name(folder, name, owner, display);
        }
        if mode.is_some() || attributes.xattrs.is_some() {
            let file = open_as_path(folder, name, file_type)?;
            // What it keeps, because an access list would change it.
            let own_mode = rustix::fs::fstat(&file)?.st_mode & 0o7777;
            if let Some(xattrs) = &attributes.xattrs {
                let owned = not_kept.is_none();
                let why = self
                    .metadata
                    .give_xattrs_unopened(&file, file_type, xattrs, owned, display);
                not_kept = not_kept.or(why);
            }
            let way = format!("/proc/self/fd/{}", file.as_raw_fd());
            let mode = mode.map_or(own_mode, |mode| mode & 0o777);
            rustix::fs::chmodat(
                CWD,
                way.as_str(),
                Mode::from_raw_mode(mode),
                AtFlags::empty(),
            )?;
        }
        self.metadata
            .give_time_by_name(folder, name, attributes.mtime_ns, display)?;
        Ok(not_kept)
    }
}

pub(super) fn is_node(stat: &Stat, file_type: FileType, number: u64) -> bool {
    let is_device = matches!(file_type, FileType::CharacterDevice | FileType::BlockDevice);
    FileType::from_raw_mode(stat.st_mode) == file_type && (!is_device || stat.st_rdev == number)
}
