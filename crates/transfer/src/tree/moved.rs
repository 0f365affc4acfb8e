//! Folders that another program renames, replaces or removes during the copy. What is copied follows the open folder, so
//! in the end the paths that the user has named must still lead there.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, Mutex};

use howdah_wire::printable;
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use crate::end::abort::lock;
use crate::error::TransferError;
use crate::tree::place::Placement;
use crate::tree::reach::Reach;
use crate::tree::unfinished::marked;

/// Folders of sources that are kept open. Those of further sources are not examined.
const MAX_TOPS: usize = 64;

/// What must be where it was in the end.
#[derive(Debug, Default)]
pub(super) struct Led {
    reach: Reach,
    /// The folders that sources have become, by the index of the source.
    tops: Mutex<BTreeMap<u16, Arc<OwnedFd>>>,
}

impl Placement {
    /// The same, with targets that were found within this reach.
    #[must_use]
    pub fn within(mut self, reach: Reach) -> Self {
        self.led.reach = reach;
        self
    }

    /// Notes the folder that a source has become.
    pub(super) fn note_top(&self, source: u16, folder: &Arc<OwnedFd>) {
        let mut tops = lock(&self.led.tops);
        if tops.len() < MAX_TOPS {
            tops.entry(source).or_insert_with(|| Arc::clone(folder));
        }
    }

    /// Checks that the destination's path leads to the folder that was copied into, and the names of sources in it to
    /// the folders that they have become.
    ///
    /// # Errors
    /// When one of them does not, or cannot be looked at.
    pub fn check_paths(&self) -> Result<(), TransferError> {
        // All sources are copied into one folder.
        let Some((target, folder)) = self
            .targets
            .iter()
            .find_map(|target| Some((target, target.folder.as_ref()?)))
        else {
            return Ok(());
        };
        let path = marked(&target.folder_path);
        self.check_path(path, folder, self.led.reach.stat(&target.folder_path))?;
        for (&source, top) in &*lock(&self.led.tops) {
            let target = &self.targets[usize::from(source)];
            if let Some(name) = &target.name {
                let found = rustix::fs::statat(folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
                self.check_path(&target.display(name), top, found)?;
            }
        }
        Ok(())
    }

    fn check_path(
        &self,
        path: &[u8],
        folder: &OwnedFd,
        found: Result<Stat, Errno>,
    ) -> Result<(), TransferError> {
        let looked = |error| TransferError::path("look at", path, error);
        let copied = rustix::fs::fstat(folder).map_err(looked)?;
        let is_removed = copied.st_nlink == 0;
        match found {
            Ok(found)
                if (found.st_dev, found.st_ino) == (copied.st_dev, copied.st_ino)
                    && !is_removed =>
            {
                return Ok(());
            }
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(looked(error)),
        }
        let shown = printable(path);
        let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
        let now = match std::fs::read_link(link) {
            // To a confined near end its folder is all there is.
            Ok(now) if !self.led.reach.is_confined() && !is_removed => {
                format!("now {}", printable(&now.into_os_string().into_vec()))
            }
            _ if is_removed => "removed".to_owned(),
            _ => "elsewhere now".to_owned(),
        };
        let undo = match is_removed {
            true => "",
            false => "move it back, or ",
        };
        Err(TransferError::Here(format!(
            "{shown} was changed during the copy: the folder that was copied into is {now}; {undo}run the same command \
             again"
        )))
    }
}
