//! Trees of files: found and read at the sender (`source`, `queue`), put in place and on stable storage at
//! the receiver (`target`, `place`, `draft`, `commit`, `durable`). What a copy that was cut has left is found
//! again there (`part`, `journal`, `spans`, `unfinished`). `reach` bounds what a near end may name, `filter_file`
//! reads what else a folder is to be without, and `names` a list of what is to be sent, which `listed` finds. What the
//! target has and the source has not is found by `content` and `extraneous`, and taken away by `removal`.

pub mod assembly;
pub mod commit;
pub mod content;
pub mod destination;
pub mod draft;
pub mod durable;
pub mod extraneous;
pub mod filter_file;
pub mod folders;
pub mod journal;
pub mod listed;
pub mod names;
pub mod part;
pub mod place;
pub mod queue;
pub mod reach;
pub mod removal;
pub mod slicing;
pub mod source;
pub mod spans;
pub mod spool;
pub mod target;
pub mod unfinished;
pub mod write_behind;
