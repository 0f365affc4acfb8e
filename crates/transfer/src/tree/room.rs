//! Makes room for an entry if something of another kind has its name. A file is removed for a folder, and an empty
//! folder for anything else. A folder that is not empty is removed only if the job removes what is not at the source
//! (`later`), and stays otherwise.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use howdah_wire::{Delete, Offered, OfferedFile, TreePath, printable};
use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::{TransferError, plain};
use crate::tree::destination::{Destination, open_folder};
use crate::tree::part;
use crate::tree::place::{Placement, parent_and_name};
use crate::tree::spool::Spool;
use crate::tree::stat::special;
use crate::tree::target::Target;

/// What was removed in this way, and what may be.
#[derive(Debug, Default)]
pub struct Room {
    /// Of a job that removes what the source has not.
    delete: Option<Delete>,
    removed: AtomicU64,
}

/// Why something stays where it is.
enum Stays {
    /// More would be removed than may.
    Most,
    /// The system refuses.
    Refused(Errno),
}

impl Room {
    /// Nothing has gone yet.
    pub fn new(delete: Option<Delete>) -> Self {
        Self {
            delete,
            removed: AtomicU64::new(0),
        }
    }

    /// How much has gone.
    pub fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    /// Whether the job removes what is not at the source.
    pub fn deletes(&self) -> bool {
        self.delete.is_some()
    }

    fn remove(&self, folder: &OwnedFd, name: &[u8], flags: AtFlags) -> Result<(), Stays> {
        let most = self.delete.and_then(|delete| delete.most);
        let count = |removed: u64| {
            most.is_none_or(|most| removed < most)
                .then_some(removed + 1)
        };
        let counted = self
            .removed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        if counted.is_err() {
            return Err(Stays::Most);
        }
        rustix::fs::unlinkat(folder, name, flags).map_err(|error| {
            self.removed.fetch_sub(1, Ordering::Relaxed);
            Stays::Refused(error)
        })
    }

    /// Removes an entry that has a folder's name and is not a folder.
    ///
    /// # Errors
    /// [`TransferError::InTheWay`] when it stays.
    pub(super) fn make_for_folder(
        &self,
        parent: &OwnedFd,
        name: &[u8],
        display: &[u8],
    ) -> Result<(), TransferError> {
        let shown = printable(display);
        let stays = |why: &str| {
            let text = format!(
                "cannot make folder {shown}: something else has that name, and {why}; remove it"
            );
            Err(TransferError::InTheWay(text))
        };
        match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            // Another stream was faster.
            Ok(there) if FileType::from_raw_mode(there.st_mode) == FileType::Directory => {
                return Ok(());
            }
            Ok(there) if part::in_use(parent, name, &there) => {
                return stays("another copy is writing it");
            }
            _ => {}
        }
        match self.remove(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Stays::Refused(Errno::NOENT | Errno::ISDIR)) => Ok(()),
            Err(Stays::Most) => stays("no more may be removed than --max-delete says"),
            Err(Stays::Refused(error)) => {
                let why = plain(&error.into());
                stays(&format!("it cannot be removed: {why}"))
            }
        }
    }

    /// Removes an empty folder whose name belongs to something else.
    ///
    /// # Errors
    /// [`TransferError::InTheWay`] when it stays.
    pub(super) fn make_for_file(&self, destination: &Destination) -> Result<(), TransferError> {
        let why = match self.remove(&destination.folder, &destination.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Stays::Refused(Errno::NOENT | Errno::NOTDIR)) => return Ok(()),
            Err(Stays::Refused(Errno::NOTEMPTY | Errno::EXIST)) => {
                return Err(TransferError::InTheWay(
                    self.not_empty(&destination.display),
                ));
            }
            Err(Stays::Most) => "no more may be removed than --max-delete says".to_owned(),
            Err(Stays::Refused(error)) => {
                format!("it cannot be removed: {}", plain(&error.into()))
            }
        };
        let shown = printable(&destination.display);
        Err(TransferError::InTheWay(format!(
            "cannot write {shown}: a folder has that name, and {why}; remove it"
        )))
    }

    fn not_empty(&self, display: &[u8]) -> String {
        let shown = printable(display);
        let what_to_do = match self.deletes() {
            true => "remove it",
            false => "remove it, or copy with --delete",
        };
        format!(
            "cannot write {shown}: a folder has that name, and something is in it; {what_to_do}"
        )
    }
}

/// Why a device is not replaced.
pub(super) fn device_stays(there: &Stat, display: &[u8]) -> Option<TransferError> {
    let kind = FileType::from_raw_mode(there.st_mode);
    let is_device = matches!(kind, FileType::BlockDevice | FileType::CharacterDevice);
    is_device.then(|| {
        let (shown, what) = (printable(display), special(kind));
        TransferError::InTheWay(format!("cannot write {shown}: {what}; remove it"))
    })
}

impl Placement {
    /// The same, for a job that does or does not remove what is not at the source.
    #[must_use]
    pub fn deleting(mut self, delete: Option<Delete>) -> Self {
        self.room = Arc::new(Room::new(delete));
        self.waiting = Mutex::new(delete.map(|_| Vec::new()));
        self
    }

    /// What may be removed to make room, and what was removed.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// Takes the list of folders whose names belong to something else.
    pub fn take_in_the_way(&self) -> Spool<(u16, TreePath)> {
        std::mem::take(&mut *lock(&self.in_the_way))
    }

    /// Why a needed entry will not get its name, because of what has it; `None` if it will. In a dry run, notes what
    /// would be removed for it.
    pub(super) fn kept_out(
        &self,
        file: &OfferedFile,
        target: &Target,
        relative: &[u8],
        there: Result<&Stat, Errno>,
        only_look: bool,
    ) -> Option<String> {
        let display = target.display(relative);
        match there {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                // What is beside a file that is a source by itself is nothing that is removed.
                let goes = self.room.deletes() && !file.path.is_root();
                if goes {
                    if only_look {
                        self.note_in_the_way(file.source, &file.path);
                    }
                    return None;
                }
                let root = target.folder.as_ref()?;
                if !is_empty(root, relative) {
                    return Some(self.room.not_empty(&display));
                }
                if only_look {
                    let shown = printable(&display);
                    let what = match file.kind {
                        Offered::Link(_) => "link",
                        Offered::Special { .. } => "special file",
                        _ => "file",
                    };
                    self.foresee(format!(
                        "would remove the empty folder {shown}: the source has a {what} of that name"
                    ));
                }
                None
            }
            Ok(stat) => device_stays(stat, &display).map(|error| error.to_string()),
            Err(_) => None,
        }
    }

    /// Notes what would be removed for a needed folder.
    pub(super) fn foresee_folder(&self, target: &Target, relative: &[u8]) {
        // Those that a job removes are found with the others, and the name by which the source itself is called stays.
        let is_top = target.name.is_some() && parent_and_name(relative).0.is_empty();
        if !self.room.deletes() && !is_top {
            let shown = printable(&target.display(relative));
            self.foresee(format!(
                "would remove {shown}: the source has a folder of that name"
            ));
        }
    }

    pub(super) fn foresee(&self, line: String) {
        let mut foreseen = lock(&self.foreseen);
        if foreseen.last != line {
            foreseen.last.clone_from(&line);
            foreseen.lines.push(line);
        }
    }

    /// What a dry run has found, since the last call, that would be removed without being extraneous.
    pub fn foreseen(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.foreseen).lines)
    }

    /// Notes a folder whose name belongs to something else. It is removed with everything in it.
    pub(super) fn note_in_the_way(&self, source: u16, path: &TreePath) {
        if let Some(folder) = self.folder_of(source) {
            // Where that cannot be kept the folder stays.
            let _ = lock(&self.in_the_way).add(&(source, path.clone()), folder);
        }
    }
}

/// The report of a dry run on what would be removed.
#[derive(Debug, Default)]
pub(super) struct Foreseen {
    lines: Vec<String>,
    /// What is said of one name is said once.
    last: String,
}

fn is_empty(root: &OwnedFd, relative: &[u8]) -> bool {
    let names = open_folder(root, relative).and_then(|folder| Dir::read_from(&folder));
    let Ok(names) = names else {
        return false;
    };
    names
        .take(3)
        .all(|name| name.is_ok_and(|name| matches!(name.file_name().to_bytes(), b"." | b"..")))
}
