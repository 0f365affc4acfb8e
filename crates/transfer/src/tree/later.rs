//! Entries that wait until a folder with their name is removed. The source has something else there, and the job
//! removes what is not at the source.

use howdah_wire::{Piece, TreePath};

use crate::end::abort::lock;
use crate::end::open_files::allow_open_files;
use crate::tree::commit::Complete;
use crate::tree::other_names::OtherName;
use crate::tree::part::part_name;
use crate::tree::place::{Placement, parent_and_name};

/// The most that waits. A file is an open descriptor.
const MAX_WAITING: usize = 1024;
/// It takes at most this part of the descriptors that the process may have.
const PART_OF_DESCRIPTORS: usize = 8;

/// Something that waits.
#[derive(Debug)]
pub enum Later {
    /// A file, whole and on stable storage.
    File(Complete),
    /// A link or a special file.
    Made(Piece),
    /// Another name of a file.
    Name(OtherName),
}

impl Later {
    fn place(&self) -> Option<(u16, &TreePath)> {
        match self {
            Self::File(file) => Some((file.piece.source, &file.piece.path)),
            Self::Made(Piece::Link { source, path, .. } | Piece::Special { source, path, .. }) => {
                Some((*source, path))
            }
            Self::Made(_) => None,
            Self::Name(name) => Some((name.source, &name.path)),
        }
    }
}

impl Placement {
    /// Keeps an entry until after the removal. If nothing will be removed for it, returns it with the reason why it
    /// cannot have its name.
    pub fn put_off(&self, later: Later, why: String) -> Option<(Later, String)> {
        let mut waiting = lock(&self.waiting);
        let (Some(waiting), Some((source, path))) = (&mut *waiting, later.place()) else {
            return Some((later, why));
        };
        if path.is_root() {
            return Some((later, why));
        }
        let most = (allow_open_files() / PART_OF_DESCRIPTORS).clamp(1, MAX_WAITING);
        if waiting.len() >= most {
            let again = "too many folders are in the way of files; run the same command again";
            return Some((later, format!("{why}: {again}")));
        }
        self.note_in_the_way(source, path);
        waiting.push(later);
        None
    }

    /// After the removal, returns the entries that wait. None wait any more.
    pub fn take_later(&self) -> Vec<Later> {
        lock(&self.waiting).take().unwrap_or_default()
    }

    /// Whether something waits.
    pub(super) fn waits(&self, source: u16, path: &TreePath) -> bool {
        let waiting = lock(&self.waiting);
        let mut places = waiting.iter().flatten().filter_map(Later::place);
        places.any(|place| place == (source, path))
    }

    /// Whether this is the part of a file that waits.
    pub(super) fn is_part_of_waiting(&self, source: u16, path: &TreePath) -> bool {
        let (folder, name) = parent_and_name(path.as_bytes());
        let waiting = lock(&self.waiting);
        let mut places = waiting.iter().flatten().filter_map(Later::place);
        places.any(|(of, other)| {
            let (other_folder, other_name) = parent_and_name(other.as_bytes());
            of == source && other_folder == folder && part_name(other_name) == name
        })
    }
}
