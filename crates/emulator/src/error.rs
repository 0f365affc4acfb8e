//! What can go wrong while a link is made.

use std::io;

use howdah_link::SpecError;
use thiserror::Error;

/// One line for the user.
#[derive(Debug, Error)]
pub enum EmulatorError {
    /// The description of the link is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The kernel refused a step.
    #[error("{doing}: {error}{}", hint(error, doing))]
    Refused {
        /// What was being done.
        doing: &'static str,
        /// The kernel's answer.
        error: io::Error,
    },
    /// A call out of order.
    #[error("{0}")]
    Misuse(&'static str),
}

impl EmulatorError {
    pub(crate) fn refused<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| EmulatorError::Refused {
            doing,
            error: error.into(),
        }
    }
}

fn hint(error: &io::Error, doing: &str) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; it needs root or a user namespace",
        io::ErrorKind::NotFound if doing.contains("/dev/net/tun") => {
            "; the kernel needs CONFIG_TUN"
        }
        _ if error.raw_os_error() == Some(libc::EBADFD) => "; a device of the link was removed",
        _ => "",
    }
}
