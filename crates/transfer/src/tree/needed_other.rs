//! Whether a copy would make an entry that is not a regular file, for a dry run. An entry that exists already would
//! get another mode, owner or time at most, and is not needed.

use std::os::fd::OwnedFd;

use howdah_wire::{Offered, OfferedFile};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::error::TransferError;
use crate::tree::content::name_hash;
use crate::tree::destination::open_folder;
use crate::tree::needed::{Need, Skipped, is_newer, skipped};
use crate::tree::other_names::is_of;
use crate::tree::place::{Placement, parent_and_name};
use crate::tree::special_files::{is_node, node};

impl Placement {
    /// Whether a copy would make this entry, which is not a regular file. `not_kept` is called with the reason if it
    /// would be left out.
    pub(super) fn needs_other(
        &self,
        file: &OfferedFile,
        not_kept: impl FnOnce(String),
    ) -> Result<Need, TransferError> {
        let made = Need::AllBut(Vec::new());
        // Before the name itself, whose folder is then the one that was looked into last.
        let first = match file.kind {
            Offered::HardLink { .. } => self.first_name(file)?,
            _ => First::Other,
        };
        let (target, relative) = self.relative(file.source, &file.path)?;
        let Some(folder) = &target.folder else {
            return Ok(match self.skip.missing {
                true => Need::Nothing,
                false => made,
            });
        };
        if relative.is_empty() {
            return Ok(Need::Nothing);
        }
        let looked = self.look(file.source, folder, &relative);
        let stays = match &looked {
            Ok(_) => self.skip.there,
            Err(Errno::NOTDIR | Errno::LOOP) if self.skip.there => true,
            Err(_) => self.skip.missing,
        };
        let is_folder = file.kind == Offered::Folder;
        if looked.is_ok()
            && let Err(refused) = self.find_there(target, folder, &relative, is_folder)
        {
            not_kept(refused.to_string());
            return Ok(Need::LeftOut);
        }
        let is_there = match &looked {
            Ok(stat) => match first {
                First::Same(number, need) if number == (stat.st_dev, stat.st_ino) => {
                    return Ok(if stays { Need::Nothing } else { need });
                }
                First::Unlike => true,
                First::Other if matches!(file.kind, Offered::HardLink { .. }) => {
                    self.skip.newer && is_newer(stat, file.mtime_ns)
                }
                _ => is_there(&file.kind, folder, &relative, stat),
            },
            Err(_) => matches!(first, First::Unlike),
        };
        if stays || is_there {
            return Ok(Need::Nothing);
        }
        let there = looked.as_ref().map_err(|error| *error);
        if let Offered::Special { kind, .. } = file.kind
            && let Some(line) = self
                .metadata
                .makes_no_node(kind, &target.display(&relative))
        {
            self.foresee(line);
            return Ok(Need::LeftOut);
        }
        let kept_out = match (&file.kind, there) {
            (Offered::Folder, Ok(_)) => {
                self.foresee_folder(target, &relative);
                None
            }
            _ => self.kept_out(file, target, &relative, there, true),
        };
        let refused = || self.foreseen_refusal(file, target, &relative, there);
        Ok(match kept_out.or_else(refused) {
            Some(why) => {
                not_kept(why);
                Need::LeftOut
            }
            None => made,
        })
    }

    /// What is at the first name of a file of which another one is offered.
    fn first_name(&self, file: &OfferedFile) -> Result<First, TransferError> {
        let (source, path) = file.content();
        let (target, relative) = self.relative(source, path)?;
        let Some(folder) = &target.folder else {
            return Ok(First::Other);
        };
        let Ok(stat) = self.look(source, folder, &relative) else {
            return Ok(match self.skip.missing {
                true => First::Unlike,
                false => First::Other,
            });
        };
        let number = (stat.st_dev, stat.st_ino);
        Ok(match skipped(self.skip, file, &stat) {
            None => First::Other,
            Some(Skipped::IfEqual) => First::Same(number, Need::Comparison),
            Some(Skipped::Untouched)
                if !is_of(file.size, file.mtime_ns, &stat, self.metadata.has_times()) =>
            {
                First::Unlike
            }
            Some(_) => First::Same(number, Need::Nothing),
        })
    }
}

/// What a copy leaves at the first name of a file.
enum First {
    /// What is there, by its device and number; whoever has that number too needs this.
    Same((u64, u64), Need),
    /// Another file than what is there.
    Other,
    /// What is there and is not the source's file, or nothing: no other name is made.
    Unlike,
}

/// Whether what has the name of something is the same.
fn is_there(kind: &Offered, root: &OwnedFd, relative: &[u8], stat: &Stat) -> bool {
    let there = FileType::from_raw_mode(stat.st_mode);
    match kind {
        Offered::Folder => there == FileType::Directory,
        Offered::Link(hash) => {
            let (above, name) = parent_and_name(relative);
            there == FileType::Symlink
                && open_folder(root, above)
                    .and_then(|above| rustix::fs::readlinkat(&above, name, Vec::new()))
                    .is_ok_and(|target| name_hash(target.as_bytes()) == *hash)
        }
        Offered::Special { kind, device } => {
            let (file_type, number) = node(*kind, *device);
            is_node(stat, file_type, number)
        }
        Offered::HardLink { .. } | Offered::File => false,
    }
}
