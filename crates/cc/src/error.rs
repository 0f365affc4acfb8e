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
    /// Loaded by a howdah whose maps we do not understand.
    #[error(
        "{name} was loaded by howdah {version}, whose maps this howdah {own} cannot read; \
         replace it with: howdah cc unload {short}; howdah cc load {short}"
    )]
    OtherAbi {
        /// The kernel's name.
        name: String,
        /// Of the one that loaded it.
        version: String,
        /// Ours.
        own: &'static str,
        /// The user's name.
        short: &'static str,
    },
    /// There is no such program in the kernel.
    #[error("{name} is not loaded; load it with: howdah cc load {short}")]
    NotLoaded {
        /// The kernel's name.
        name: String,
        /// The user's name.
        short: &'static str,
    },
    /// Rules choose it.
    #[error(
        "{name} is what attached connections get: {rules}; detach first with: howdah cc detach {rules}"
    )]
    Attached {
        /// The kernel's name.
        name: String,
        /// The first rule, as detach takes it.
        rules: String,
    },
    /// A namespace takes it by default.
    #[error(
        "{name} is what new connections of this host use; choose another first with: \
         sysctl -w net.ipv4.tcp_congestion_control=cubic"
    )]
    HostDefault {
        /// The kernel's name.
        name: String,
    },
    /// A target that is none.
    #[error("{why}")]
    Target {
        /// What is wrong, and what to do.
        why: String,
    },
    /// No such connection.
    #[error("no connection {flow} {why}; howdah cc status lists what there is")]
    NoFlow {
        /// As asked for.
        flow: String,
        /// `is here`, or what it uses instead.
        why: String,
    },
    /// A share that cannot be.
    #[error("{why}")]
    Share {
        /// What is wrong, and what to do.
        why: String,
    },
    /// A rule that cannot be.
    #[error("{why}")]
    Rule {
        /// What is wrong, and what to do.
        why: String,
    },
    /// A socket could not be asked.
    #[error(transparent)]
    Tcp(#[from] howdah_tcp::Error),
    /// Something that only root may own or change could be somebody else's.
    #[error(
        "{path} belongs to user {owner} and has mode {mode:o}, so another user may have put it there; \
         look at it, then remove it"
    )]
    Untrusted {
        /// The file or folder.
        path: String,
        /// Its owner.
        owner: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// Another howdah holds the lock.
    #[error(
        "{holder} has been changing programs for {seconds} s and holds {path}; wait for it, or end it"
    )]
    Busy {
        /// What is locked.
        path: String,
        /// How long this one has waited.
        seconds: u64,
        /// Who holds it.
        holder: String,
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
