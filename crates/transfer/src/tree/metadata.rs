//! What a file, folder or link gets at the receiver beside its content: owner, extended attributes, mode, time and
//! flags. The order matters. A change of the owner removes capabilities and mode bits (chown(2)), and an access list
//! changes the mode.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use howdah_wire::{Attributes, FileFlags, Keep, Owner, Xattrs, printable};
use rustix::fs::{AtFlags, FileType, Gid, Mode, Stat, StatxFlags, Uid};
use rustix::io::Errno;

use crate::error::reason;
use crate::tree::destination::{Destination, times};
use crate::tree::flags::{self, Flags};
use crate::tree::new_modes::{NEW_MODE, left, umask};
use crate::tree::owners::{HostNames, Receivers};
use crate::tree::part::PRIVATE;
use crate::tree::stat::mtime_ns;
use crate::tree::xattrs::{self, Of, Scope, To};

/// Permission bits that a receiver grants whoever asks.
const GRANTED_MODE: u32 = 0o1777;
/// Set-user-ID and set-group-ID. They would let a peer plant a program that runs as the receiving user, so they are
/// granted where the user has asked that files belong to whom they belong at the sender, and that can be done. Those that
/// the receiver has itself stay with the user and the group for whom they were set.
const SET_ID_MODE: u32 = 0o6000;

/// What this receiver gives.
#[derive(Debug)]
pub struct Metadata {
    /// What its user asks for.
    pub keep: Keep,
    /// Whether it acts as root.
    pub privileged: bool,
    /// Whether this process can change owners and make special files by name. A confined process cannot.
    pub by_name: bool,
    /// The names of users and groups on this host.
    pub(super) names: HostNames,
    owners: Receivers,
    flags: Flags,
    /// What modes of new files lack, where those of the sources are not kept.
    umask: u32,
    /// Something whose file system keeps no modes.
    without_modes: OnceLock<Vec<u8>>,
    /// Something whose file system keeps no times.
    without_times: OnceLock<Vec<u8>>,
    /// Something whose file system lacks flags that it is to have.
    without_flags: OnceLock<Vec<u8>>,
}

/// The mode and the modification time that an entry gets; absent if it keeps its own.
#[derive(Debug, Clone, Copy)]
pub struct Gets {
    /// The mode.
    pub mode: Option<u32>,
    /// The user and the group of the existing file with this mode.
    pub of: Option<(u32, u32)>,
    /// The time, in nanoseconds since 1970.
    pub mtime_ns: Option<i64>,
}

/// The attributes of a file that could not be kept, in words.
pub type NotKept = Option<String>;

impl Metadata {
    /// The attributes that the user asks for, as far as this process can set them. A process that is confined to a
    /// folder can set what an ordinary user can, because the user of its login is not this host's root.
    pub fn new(keep: Keep, confined: bool) -> Self {
        let privileged = rustix::process::geteuid().is_root() && !confined;
        Self {
            keep,
            privileged,
            by_name: !confined,
            names: HostNames::new(keep),
            owners: Receivers::new(keep, privileged),
            flags: Flags::default(),
            umask: if keep.perms { 0 } else { umask() },
            without_modes: OnceLock::new(),
            without_times: OnceLock::new(),
            without_flags: OnceLock::new(),
        }
    }

    /// What a new file with this name gets.
    pub fn of_file(&self, destination: &Destination, attributes: &Attributes) -> Gets {
        let (folder, name) = (&destination.folder, destination.name.as_slice());
        let there = || {
            let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            is_file.then_some((stat.st_mode & 0o7777, Some((stat.st_uid, stat.st_gid))))
        };
        let (mode, of) = match self.keep.perms {
            true => (attributes.mode, None),
            false => there().unwrap_or_else(|| (self.left(attributes.mode, folder), None)),
        };
        Gets {
            mode: Some(mode),
            of,
            mtime_ns: self.time(attributes),
        }
    }

    /// What an existing file gets that is the same.
    pub fn of_same_file(&self, attributes: &Attributes) -> Gets {
        Gets {
            mode: Some(attributes.mode).filter(|_| self.keep.perms),
            of: None,
            mtime_ns: self.time(attributes),
        }
    }

    /// What a folder gets, with this mode.
    pub fn of_folder(&self, mode: Option<u32>, attributes: &Attributes) -> Gets {
        let times = !self.keep.omit_dir_times;
        Gets {
            mode,
            of: None,
            mtime_ns: self.time(attributes).filter(|_| times),
        }
    }

    fn time(&self, attributes: &Attributes) -> Option<i64> {
        self.keep.times.then_some(attributes.mtime_ns)
    }

    /// The part of a source's mode that a new entry in a folder gets.
    pub fn left(&self, mode: u32, folder: impl AsFd) -> u32 {
        left(mode, folder, self.umask)
    }

    /// Whether files that were sent get the times of their sources.
    pub fn has_times(&self) -> bool {
        self.keep.times && self.without_times.get().is_none()
    }

    /// Whether files belong to whom they belong at the sender.
    fn gives_owners(&self) -> bool {
        self.keep.owner && self.privileged
    }

    /// The bits of a mode of a source that are granted. On a folder, set-group-ID lets nothing run.
    fn granted(&self, kind: FileType) -> u32 {
        match self.gives_owners() {
            true if self.keep.group || kind == FileType::Directory => GRANTED_MODE | SET_ID_MODE,
            true => GRANTED_MODE | Mode::SUID.as_raw_mode(),
            false => GRANTED_MODE,
        }
    }

    /// The mode with which a file without a name is made. It is the final mode in most copies, so that it need not be
    /// set again. Extended attributes can be set only on a file that its owner may write.
    pub fn first_mode(attributes: &Attributes) -> Mode {
        match attributes.xattrs {
            None => Mode::from_raw_mode(attributes.mode & NEW_MODE),
            Some(_) => PRIVATE,
        }
    }

    /// Sets the attributes of an open file. Returns, in words, what could not be kept.
    ///
    /// # Errors
    /// When mode or time are refused.
    pub fn give(
        &self,
        file: impl AsFd,
        attributes: &Attributes,
        gets: Gets,
        display: &[u8],
    ) -> Result<NotKept, Errno> {
        let mut not_kept = None;
        let before = rustix::fs::fstat(&file)?;
        let kind = FileType::from_raw_mode(before.st_mode);
        if let Some(owner) = &attributes.owner {
            not_kept = self.give_owner(&file, owner, display);
        }
        // The mode would be another owner's.
        let owned = not_kept.is_none() && self.gives_owners();
        let granted = if owned {
            self.granted(kind)
        } else {
            GRANTED_MODE
        };
        if let Some(xattrs) = &attributes.xattrs {
            let why = self.give_xattrs(&file, attributes, xattrs, owned, display);
            not_kept = not_kept.or(why);
        }
        let (mode, of) = match gets.mode {
            // What it keeps, because a change of the owner or an access list would change it.
            None => (
                before.st_mode & 0o7777,
                Some((before.st_uid, before.st_gid)),
            ),
            Some(mode) if owned && gets.of.is_some() => (mode, gets.of),
            Some(mode) => (mode & granted, gets.of),
        };
        self.give_mode(&file, for_whom_it_is(mode, of, &file)?, display)?;
        if let Some(mtime_ns) = gets.mtime_ns {
            self.give_time(&file, mtime_ns, display)?;
        }
        let flags = attributes.xattrs.as_ref().and_then(|all| all.flags);
        let why = flags.and_then(|flags| self.give_flags(&file, flags, display));
        Ok(not_kept.or(why))
    }

    /// Gives flags, if they are kept, where the file system has them.
    fn give_flags(&self, file: impl AsFd, flags: FileFlags, display: &[u8]) -> NotKept {
        if !self.keep.xattrs {
            return None;
        }
        match flags::give(file, flags) {
            Ok(()) => None,
            Err(error) if flags::is_none(error) => {
                if !flags.is_empty() {
                    self.without_flags.get_or_init(|| display.to_vec());
                }
                None
            }
            Err(error) => {
                let (path, why) = (printable(display), reason(error));
                Some(format!("cannot set the flags of {path}: {why}"))
            }
        }
    }

    /// Whether an existing file has these flags, as far as they are kept and its file system has flags. If its flags
    /// cannot be read, it counts as having them.
    pub(super) fn has_flags(&self, of: Of<'_>, wanted: Option<FileFlags>) -> bool {
        let Some(wanted) = wanted.filter(|_| self.keep.xattrs) else {
            return true;
        };
        let there = self.flags.read(of);
        there.is_none_or(|there| there.kept == wanted)
    }

    /// Gives a mode, where the file system keeps some.
    fn give_mode(&self, file: impl AsFd, mode: u32, display: &[u8]) -> Result<(), Errno> {
        let mut mode = mode;
        let there = rustix::fs::fstat(&file)?;
        if !self.keep.perms && FileType::from_raw_mode(there.st_mode) == FileType::Directory {
            // It is the receiver's own: new folders have it from the one that they are in.
            mode |= there.st_mode & Mode::SGID.as_raw_mode();
        }
        // To ask costs less than to write the inode.
        if there.st_mode & 0o7777 == mode {
            return Ok(());
        }
        let given = rustix::fs::fchmod(&file, Mode::from_raw_mode(mode));
        if given.is_err_and(|error| is_refused(error, || stat_of_changeable(&file))) {
            self.without_modes.get_or_init(|| display.to_vec());
            return Ok(());
        }
        given
    }

    /// Sets a modification time, if the file system keeps times.
    ///
    /// # Errors
    /// When it is refused.
    pub fn give_time(&self, file: impl AsFd, mtime_ns: i64, display: &[u8]) -> Result<(), Errno> {
        let given = rustix::fs::futimens(&file, &times(mtime_ns));
        self.or_without_times(given, || stat_of_changeable(&file), display)
    }

    /// Sets the modification time of a symbolic link or a special file, if times are kept.
    ///
    /// # Errors
    /// When it is refused.
    pub fn give_time_by_name(
        &self,
        folder: &OwnedFd,
        name: &[u8],
        mtime_ns: i64,
        display: &[u8],
    ) -> Result<(), Errno> {
        if !self.keep.times {
            return Ok(());
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let given = rustix::fs::utimensat(folder, name, &times(mtime_ns), flags);
        let stat = || rustix::fs::statat(folder, name, flags);
        self.or_without_times(given, stat, display)
    }

    fn or_without_times(
        &self,
        given: Result<(), Errno>,
        stat: impl FnOnce() -> Result<Stat, Errno>,
        display: &[u8],
    ) -> Result<(), Errno> {
        if given.is_err_and(|error| is_refused(error, stat)) {
            self.without_times.get_or_init(|| display.to_vec());
            return Ok(());
        }
        given
    }

    /// A line each about modes, times and flags that the user asks for and the file system does not keep.
    pub fn not_kept_by_system(&self) -> Vec<String> {
        let modes = self.without_modes.get().filter(|_| self.keep.perms);
        let modes = modes.map(|path| {
            let path = printable(path);
            format!("modes are not kept: the file system refuses them, first for {path}")
        });
        let times = self.without_times.get().filter(|_| self.keep.times);
        let times = times.map(|path| {
            let path = printable(path);
            format!(
                "times are not kept: the file system refuses them, first for {path}; the next copy sends the files \
                 again, unless it has --size-only or --checksum"
            )
        });
        let flags = self.without_flags.get().map(|path| {
            let path = printable(path);
            format!("flags are not kept: the file system has not all of them, first for {path}")
        });
        modes.into_iter().chain(times).chain(flags).collect()
    }

    /// Gives extended attributes, which the owner's right to write is needed for.
    fn give_xattrs(
        &self,
        file: impl AsFd,
        attributes: &Attributes,
        xattrs: &Xattrs,
        with_security: bool,
        display: &[u8],
    ) -> NotKept {
        let scope = self.scope();
        if scope.is_empty() {
            return None;
        }
        let to = To::Open(file.as_fd());
        let give = || xattrs::give(to, xattrs, scope, with_security, &self.owners);
        let given = match give() {
            Err((_, Errno::ACCESS)) => {
                let mode = attributes.mode & 0o700 | 0o600;
                let _ = rustix::fs::fchmod(&file, Mode::from_raw_mode(mode));
                give()
            }
            other => other,
        };
        given.err().map(|error| xattrs::refused(display, error))
    }

    /// Sets extended attributes of a link or a special file that is open with `O_PATH`. `owned` says whether its
    /// owner is the right one. Capabilities and labels are not set for another owner.
    pub(super) fn give_xattrs_unopened(
        &self,
        file: impl AsFd,
        kind: FileType,
        xattrs: &Xattrs,
        owned: bool,
        display: &[u8],
    ) -> NotKept {
        let scope = self.scope();
        if !scope.is_of(kind) || !self.by_name {
            return None;
        }
        let with_security = owned && self.gives_owners();
        let to = To::Path(file.as_fd());
        let given = xattrs::give(to, xattrs, scope, with_security, &self.owners);
        given.err().map(|error| xattrs::refused(display, error))
    }

    /// Which extended attributes are kept.
    pub fn scope(&self) -> Scope {
        Scope {
            keep: self.keep,
            privileged: self.privileged,
        }
    }

    fn give_owner(&self, file: impl AsFd, owner: &Owner, display: &[u8]) -> NotKept {
        let (user, group) = self.owners.of(owner);
        let given = rustix::fs::fstat(&file).and_then(|stat| match missing(&stat, user, group) {
            (None, None) => Ok(()),
            (user, group) => rustix::fs::fchown(&file, user, group),
        });
        given.err().map(|error| owner_refused(display, error))
    }

    /// Sets the owner of a symbolic link or a special file.
    pub fn give_owner_by_name(
        &self,
        folder: &OwnedFd,
        name: &[u8],
        owner: &Owner,
        display: &[u8],
    ) -> NotKept {
        let (user, group) = self.owners.of(owner);
        if !self.by_name || (user, group) == (None, None) {
            return None;
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let given = rustix::fs::statat(folder, name, flags).and_then(|stat| {
            match missing(&stat, user, group) {
                (None, None) => Ok(()),
                (user, group) => rustix::fs::chownat(folder, name, user, group, flags),
            }
        });
        given.err().map(|error| owner_refused(display, error))
    }

    /// Whether an existing file lacks any of these attributes. Set-user-ID and set-group-ID bits that are not granted
    /// stay as they are.
    pub fn lacks(&self, there: &Stat, attributes: &Attributes) -> bool {
        let granted = self.granted(FileType::from_raw_mode(there.st_mode));
        let differs = (there.st_mode ^ attributes.mode) & granted != 0;
        self.keep.perms && differs
            || attributes.owner.as_ref().is_some_and(|owner| {
                let (user, group) = self.owners.of(owner);
                missing(there, user, group) != (None, None)
            })
    }

    /// Whether an entry has all of these attributes, so that none must be set. Extended attributes are not compared:
    /// an entry that should get some counts as lacking them.
    pub fn has(&self, there: &Stat, attributes: &Attributes, gets: Gets) -> bool {
        let owned = attributes.owner.as_ref().is_none_or(|owner| {
            let (user, group) = self.owners.of(owner);
            missing(there, user, group) == (None, None)
        });
        let granted = self.granted(FileType::from_raw_mode(there.st_mode));
        owned
            && attributes.xattrs.is_none()
            && gets
                .mode
                .is_none_or(|mode| there.st_mode & 0o7777 == mode & granted)
            && gets.mtime_ns.is_none_or(|time| time == mtime_ns(there))
    }

    /// Sets owner and mode of an existing, open file. Returns, in words, what could not be kept.
    pub fn mend(
        &self,
        file: impl AsFd,
        there: &Stat,
        attributes: &Attributes,
        display: &[u8],
    ) -> NotKept {
        if let Some(owner) = &attributes.owner
            && let Some(why) = self.give_owner(&file, owner, display)
        {
            return Some(why);
        }
        let granted = match self.keep.perms {
            true => self.granted(FileType::from_raw_mode(there.st_mode)),
            false => 0,
        };
        let of = Some((there.st_uid, there.st_gid));
        let mended = for_whom_it_is(there.st_mode & 0o7777 & !granted, of, &file)
            .and_then(|own| self.give_mode(&file, attributes.mode & granted | own, display));
        mended.err().map(|error| {
            let (path, why) = (printable(display), reason(error));
            format!("cannot set the mode of {path}: {why}")
        })
    }
}

/// A mode that a file of that user and group had, for one that may be of others: set-user-ID and set-group-ID were not
/// for them. On a folder they let nothing run.
fn for_whom_it_is(mode: u32, of: Option<(u32, u32)>, file: impl AsFd) -> Result<u32, Errno> {
    let Some(of) = of.filter(|_| mode & SET_ID_MODE != 0) else {
        return Ok(mode);
    };
    let now = rustix::fs::fstat(file)?;
    let is_folder = FileType::from_raw_mode(now.st_mode) == FileType::Directory;
    Ok(match is_folder || (now.st_uid, now.st_gid) == of {
        true => mode,
        false => mode & !SET_ID_MODE,
    })
}

/// Whether a file system refuses what it does not keep, to the owner too (FAT, some of networks).
fn is_refused(error: Errno, stat: impl FnOnce() -> Result<Stat, Errno>) -> bool {
    let own = rustix::process::geteuid();
    let may = || stat().is_ok_and(|stat| own.is_root() || stat.st_uid == own.as_raw());
    matches!(error, Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) && may()
}

/// What is told of an open file, unless a flag keeps it as it is.
fn stat_of_changeable(file: impl AsFd) -> Result<Stat, Errno> {
    match rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE) {
        Ok(found) if flags::is_fixed(found.stx_attributes) => Err(Errno::PERM),
        _ => rustix::fs::fstat(file),
    }
}

/// What of owner and group a file lacks.
fn missing(there: &Stat, user: Option<u32>, group: Option<u32>) -> (Option<Uid>, Option<Gid>) {
    let user = user.filter(|user| *user != there.st_uid);
    let group = group.filter(|group| *group != there.st_gid);
    (user.map(Uid::from_raw), group.map(Gid::from_raw))
}

fn owner_refused(display: &[u8], error: Errno) -> String {
    let (path, why) = (printable(display), reason(error));
    format!("cannot set the owner of {path}: {why}")
}
