//! Trees of files: found and read at the sender (`source`, `scan`, `unread`, `untold`, `source_links`, `source_holes`; `landing` says what of several sources lands where one
//! has been before), which hands them out from its `queue` once the
//! receiver has answered its `offers` with what is `needed` (`needed_other` of a dry run), in a `block` at a time of what is `ready`, or of a `supply` from memory. They are put in
//! place and on stable storage at the receiver (`target`, `place`, `entered`, `draft`, `commit`, `finish`, `durable`). A file's other names are told by its number at
//! the sender (`first_names`) and given last at the receiver (`other_names`). What else is kept of files is given in `metadata`, with the
//! names of `owners`, `xattrs`, and `special_files`, or the modes of `new_modes`. What a copy that was cut has left is found
//! again there (`part`, `journal`, `spans`, `unfinished`). `reach` bounds what a near end may name, `expand` finds what its patterns name, `filter_file`
//! reads what else a folder is to be without, and `names` a list of what is to be sent, which `listed` finds. What the
//! target has and the source has not is found by `content` and `extraneous`, and taken away by `removal`. `room` takes away what is in
//! the way of something else, or has it wait in `later` for the removal. Where a file system takes several names for one, `folding`
//! tells which of them are taken. What cannot be written is `refused`, and left out.
//! `moved` looks in the end whether paths lead to what was copied. Where the near
//! end has a pipe in place of files, `inlet` reads it and `piped_file` is what becomes of that, or `outlet` writes it.

pub mod assembly;
pub mod block;
pub mod commit;
pub mod content;
pub mod destination;
pub mod draft;
pub mod durable;
pub mod entered;
pub mod entry;
pub mod expand;
pub mod extraneous;
pub mod filter_file;
mod finish;
pub mod first_names;
pub mod flags;
pub mod folders;
mod folding;
pub mod handover;
pub mod holes;
pub mod inlet;
pub mod journal;
pub mod landing;
pub mod later;
pub mod listed;
pub mod metadata;
mod moved;
pub mod names;
pub mod needed;
pub mod needed_other;
pub mod new_modes;
pub mod offers;
pub mod other_names;
pub mod outlet;
pub mod owners;
pub mod part;
pub mod piped_file;
pub mod place;
pub mod queue;
pub mod reach;
pub mod ready;
pub mod refused;
pub mod removal;
pub mod room;
pub mod scan;
pub mod skipped;
pub mod slicing;
pub mod source;
pub mod source_file;
pub mod source_holes;
pub mod source_kept;
pub mod source_links;
pub mod spans;
pub mod special_files;
pub mod spool;
pub mod stat;
pub mod supply;
pub mod target;
pub mod unfinished;
pub mod unread;
pub mod untold;
pub mod write_behind;
pub mod xattrs;
pub mod zeros;

#[cfg(test)]
mod keep_tests;
#[cfg(test)]
mod modes_tests;
