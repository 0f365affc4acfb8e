use std::io;

/// What went wrong, in one line meant for the user: what, where, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such program.
    #[error("congestion control program {name:?} is unknown; howdah brings {known}")]
    UnknownProgram {
        /// The name asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// No such parameter.
    #[error("{program} has no parameter {name:?}; {known}")]
    UnknownParameter {
        /// The program.
        program: &'static str,
        /// The name given.
        name: String,
        /// A sentence about what it has.
        known: String,
    },
    /// A value that is no value, or out of range.
    #[error("parameter {name} of {program}: {why}; it takes {range}")]
    Parameter {
        /// The program.
        program: &'static str,
        /// The parameter.
        name: &'static str,
        /// What is wrong with the value.
        why: String,
        /// What is allowed, with units.
        range: String,
    },
    /// The kernel is too old.
    #[error(
        "this kernel is Linux {release}; programs that can be swapped under live connections need 6.4 or later"
    )]
    OldKernel {
        /// As `uname -r` prints it.
        release: String,
    },
    /// No BTF.
    #[error(
        "{path} is missing: this kernel tells no program where its fields are; \
         use one built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are"
    )]
    NoBtf {
        /// The file.
        path: &'static str,
    },
    /// Not allowed to load programs.
    #[error(
        "loading programs into the kernel needs root (CAP_BPF and CAP_NET_ADMIN); run it with sudo"
    )]
    Privilege,
    /// Root, but only of a user namespace.
    #[error(
        "the kernel refuses programs here although this is root: a user namespace or a container \
         without CAP_BPF; load them from the host"
    )]
    Confined,
    /// The verifier, or libbpf before it.
    #[error("this kernel (Linux {release}) refuses {name}: {why}; see why with --verbose")]
    Refused {
        /// The kernel's name of the program.
        name: String,
        /// As `uname -r` prints it.
        release: String,
        /// The last thing that was said.
        why: String,
        /// All that kernel and libbpf said.
        log: String,
    },
    /// Somebody else's program has the name.
    #[error(
        "a congestion control {name} is in the kernel already and was not loaded from here by howdah; \
         unload it where it came from, or use it as it is"
    )]
    NameTaken {
        /// The kernel's name.
        name: String,
    },
    /// The kernel refused something else.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The kernel's reason.
        source: io::Error,
    },
}

impl Error {
    /// What the kernel said to a refused program: for those who ask, never by default.
    #[must_use]
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::Refused { log, .. } => Some(log),
            _ => None,
        }
    }
}
