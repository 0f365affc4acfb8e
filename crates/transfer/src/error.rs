//! Errors as one line for the user: what was wrong, where, and what to do.

use std::io;

use howdah_wire::{FrameError, PathError, PieceError, ProtocolError, printable};
use rustix::io::Errno;

use crate::streams::stream::StreamError;

/// Why a transfer ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// Something at this end.
    #[error("{0}")]
    Here(String),
    /// A source, or a file or folder in it, cannot be read. The others can.
    #[error("{0}")]
    Unreadable(String),
    /// Something at the target has the name of an entry and is not replaced. Other entries can be placed.
    #[error("{0}")]
    InTheWay(String),
    /// An entry of the target cannot be written. Other entries can be placed.
    #[error("{0}")]
    Refused(String),
    /// Something the far end reported.
    #[error("far end: {0}")]
    There(String),
    /// A data stream failed for good. The control channel may give a better reason.
    #[error("{0}")]
    Stream(String),
    /// The connection of a data stream broke. The near end dials another one.
    #[error("{0}")]
    Lost(String),
    /// The control channel ended before the transfer did: the connection of ssh, or the other end itself, has ended.
    #[error("{0}")]
    Gone(String),
    /// The other host answers, but its end of the transfer has become silent.
    #[error("{0}")]
    Silent(String),
    /// The user stopped it.
    #[error("cancelled; the same command goes on where this one stopped")]
    Cancelled,
}

impl TransferError {
    /// Whether the connection to the other end was lost, so that a new session may finish the same job. If the other
    /// end became silent before anything had `moved`, it would become silent again.
    pub fn lost_connection(&self, moved: bool) -> bool {
        match self {
            Self::Gone(_) => true,
            Self::Silent(_) => moved,
            _ => false,
        }
    }

    /// An error of this end with a path.
    pub(crate) fn path(action: &str, path: &[u8], error: impl Into<io::Error>) -> Self {
        Self::Here(in_words(action, path, &error.into()))
    }

    /// The same, if it concerns one entry of the target only.
    pub(crate) fn refused(action: &str, path: &[u8], error: Errno) -> Self {
        Self::Refused(in_words(action, path, &error.into()))
    }

    /// A data stream without any answer.
    pub(crate) fn dead_path() -> Self {
        let what = "data stream: the path is dead, nothing was acknowledged for too long";
        Self::Lost(what.to_owned())
    }

    /// An error in reading a source or an entry in it. If every source would fail in this way, it is an error of this
    /// host.
    pub(crate) fn reading(action: &str, path: &[u8], error: Errno) -> Self {
        let text = in_words(action, path, &error.into());
        match error {
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::Here(text),
            _ => Self::Unreadable(text),
        }
    }
}

/// What to do about a full file system.
pub(crate) const MAKE_ROOM: &str = "make room (df, df -i and quota show where)";

fn in_words(action: &str, path: &[u8], error: &io::Error) -> String {
    let path = printable(path);
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => format!(
            "no space left to {action} {path}; {MAKE_ROOM} and run the same command again, it goes on where \
                 this one stopped"
        ),
        Some(libc::EACCES) => {
            format!("no permission to {action} {path}; check its owner and mode")
        }
        // What is immutable is refused to root, too.
        Some(libc::EPERM) => {
            format!("no permission to {action} {path}; check its owner, mode and flags (lsattr)")
        }
        Some(libc::EROFS) => format!("cannot {action} {path}: its file system is read-only"),
        Some(libc::ENOENT) => format!("cannot {action} {path}: no such file or folder"),
        Some(libc::ENOTDIR) => {
            format!("cannot {action} {path}: a file is where a folder must be")
        }
        Some(libc::EISDIR) => format!("cannot {action} {path}: a folder has that name"),
        Some(libc::ELOOP) => format!("cannot {action} {path}: a symbolic link is in the way"),
        Some(libc::EBUSY) => {
            format!("cannot {action} {path}: something is mounted there; unmount it first")
        }
        Some(libc::EXDEV) => format!(
            "cannot {action} {path}: it leads out of the folder that this login reaches; \
                 name a path in it"
        ),
        Some(libc::EMFILE | libc::ENFILE) => {
            format!("cannot {action} {path}: too many open files; raise it with: ulimit -n 4096")
        }
        _ => format!("cannot {action} {path}: {}", reason_of(error)),
    }
}

/// Why something cannot be done with a file or folder, in words that go on with it and end the line.
pub(crate) fn reason(error: impl Into<io::Error>) -> String {
    reason_of(&error.into())
}

fn reason_of(error: &io::Error) -> String {
    let plain = plain(error);
    match error.raw_os_error() {
        Some(libc::EIO) => format!(
            "its disk has failed ({plain}); look into the kernel's log (dmesg), and run the same command again when \
                 the disk is well"
        ),
        _ => plain,
    }
}

/// The text of an error without Rust's `(os error N)`.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

impl From<StreamError> for TransferError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Io(error) if error.kind() == io::ErrorKind::TimedOut => Self::dead_path(),
            StreamError::Io(error) => Self::Lost(format!("data stream: {}", plain(&error))),
            StreamError::Truncated => Self::Lost(error.to_string()),
            StreamError::Broken(_) => Self::Stream(error.to_string()),
        }
    }
}

impl From<PieceError> for TransferError {
    fn from(error: PieceError) -> Self {
        Self::Stream(match error {
            PieceError::Damaged => format!("data stream: {error}"),
            _ => format!("the other end broke the protocol: {error}"),
        })
    }
}

impl From<ProtocolError> for TransferError {
    fn from(error: ProtocolError) -> Self {
        Self::Here(error.to_string())
    }
}

impl From<FrameError> for TransferError {
    fn from(error: FrameError) -> Self {
        Self::Here(match error {
            FrameError::Version(_) => {
                format!("{error}; install the same version of howdah at both ends")
            }
            FrameError::Foreign(said) if said.is_empty() => {
                "the other end is not howdah and said nothing".to_owned()
            }
            error => error.to_string(),
        })
    }
}

impl From<PathError> for TransferError {
    fn from(error: PathError) -> Self {
        Self::Here(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_may_be_dialled_again_and_what_failed_may_not() {
        let text = String::new;
        assert!(TransferError::Gone(text()).lost_connection(false));
        assert!(TransferError::Silent(text()).lost_connection(true));
        for error in [
            TransferError::Silent(text()),
            TransferError::Here(text()),
            TransferError::There(text()),
            TransferError::Stream(text()),
            TransferError::Cancelled,
        ] {
            assert!(!error.lost_connection(false), "{error:?}");
        }
    }

    #[test]
    fn errors_say_what_where_and_what_to_do() {
        let error =
            TransferError::path("write", b"a\nb", io::Error::from_raw_os_error(libc::ENOSPC));
        let text = error.to_string();
        assert!(
            text.starts_with("no space left to write a\\nb; make room"),
            "{text}"
        );
        assert!(!text.contains('\n'));
    }
}
