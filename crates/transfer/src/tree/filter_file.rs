//! The filter files of a folder.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use howdah_filter::{EnterError, Filters, Folder, MAX_TEXT_BYTES};
use howdah_wire::printable;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::TransferError;
use crate::tree::reach::INSIDE;

/// The rules in an open folder with this path below the transfer's root: the rules above it, and those of its own
/// filter files. `shown` is its path for the user.
///
/// # Errors
/// When a filter file cannot be read, or contains an invalid rule. It is not known then what it would exclude.
pub fn enter(
    filters: &Filters,
    name: &[u8],
    folder: &OwnedFd,
    above: &Folder,
    shown: &[u8],
) -> Result<Folder, TransferError> {
    let entered = filters.enter(name, above, &mut |file| read(folder, file));
    entered.map_err(|(file, error)| {
        let file = printable(&[shown, b"/".as_slice(), &file].concat());
        TransferError::Here(match error {
            EnterError::Open(why) => format!("cannot read the filter file {file}: {why}"),
            EnterError::Rules(error) => format!("{file}: {error}"),
        })
    })
}

fn read(folder: &OwnedFd, name: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let in_words = |error: Errno| std::io::Error::from(error).to_string();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat2(folder, name, flags, Mode::empty(), INSIDE) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err("it is a symbolic link; put a file there".to_owned()),
        other => other.map_err(in_words)?,
    };
    let stat = rustix::fs::fstat(&opened).map_err(in_words)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err("it is no regular file; put one there".to_owned());
    }
    let mut text = Vec::new();
    let most = MAX_TEXT_BYTES as u64 + 1;
    let read = File::from(opened).take(most).read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() > MAX_TEXT_BYTES {
        return Err("it is larger than 1 MiB; use fewer rules with wildcards".to_owned());
    }
    Ok(Some(text))
}
