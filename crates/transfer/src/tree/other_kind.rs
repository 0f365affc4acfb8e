//! Entries of the target that are removed although the source has their name, because they are of another kind.

use howdah_wire::{Extraneous, Kind, TreePath};
use rustix::fs::AtFlags;

use super::{Candidate, Judged, Run};
use crate::error::TransferError;
use crate::tree::destination::open_folder;
use crate::tree::place::parent_and_name;
use crate::tree::stat::kind_of;

impl Run<'_> {
    /// Notes a folder with all that is in it, although the source has its name.
    pub(super) fn take_in_the_way(
        &mut self,
        source: u16,
        path: &TreePath,
    ) -> Result<(), TransferError> {
        let (folder, name) = parent_and_name(path.as_bytes());
        let folder = TreePath::try_from(folder.to_vec())?;
        let Some(here) = self.enter_known(source, &folder)? else {
            return Ok(());
        };
        match self.judge(&here, name)? {
            Judged::Folder(below) => self.descend(below),
            Judged::Stays | Judged::Gone | Judged::Other(..) => Ok(()),
        }
    }

    /// Notes an entry that is not a folder and has a folder's name, if making the folder would remove it.
    pub(super) fn note_before_folder(
        &mut self,
        source: u16,
        path: &TreePath,
    ) -> Result<(), TransferError> {
        let (target, relative) = self.search.placement.relative(source, path)?;
        let Some(root) = target.folder.as_ref().filter(|_| !path.is_root()) else {
            return Ok(());
        };
        let (above, name) = parent_and_name(&relative);
        let there = open_folder(root, above)
            .and_then(|above| rustix::fs::statat(&above, name, AtFlags::SYMLINK_NOFOLLOW));
        let Some(kind) = there.ok().map(|stat| kind_of(&stat)) else {
            return Ok(());
        };
        if kind == Kind::Folder {
            return Ok(());
        }
        let extraneous = Extraneous {
            source,
            path: path.clone(),
            kind,
        };
        let candidate = Candidate {
            extraneous,
            inside: false,
        };
        let added = self.found.spool.add(&candidate, root);
        added.map_err(|error| {
            let display = target.display(&relative);
            TransferError::path("note what would be removed:", &display, error)
        })?;
        self.found.count += 1;
        Ok(())
    }
}
