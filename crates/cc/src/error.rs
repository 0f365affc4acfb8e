use std::io;

/// What went wrong, in one line meant for the user: what, where, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such program.
    #[error("congestion control program {name:?} is unknown; howdah brings {known}")]
    UnknownProgram {
        /// The name asked for.
        name: String,
        /// The names of all programs.
        known: String,
    },
    /// The program has no such parameter.
    #[error("{program} has no parameter {name:?}; {known}")]
    UnknownParameter {
        /// The program.
        program: &'static str,
        /// The name given.
        name: String,
        /// A sentence about what it has.
        known: String,
    },
    /// A parameter's value cannot be read or is out of range.
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
        /// The kernel's release, as `uname -r` prints it.
        release: String,
    },
    /// The kernel has no BTF.
    #[error(
        "{path} is missing: this kernel tells no program where its fields are; \
         use one built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are"
    )]
    NoBtf {
        /// The file.
        path: &'static str,
    },
    /// This user may not load programs.
    #[error(
        "programs in the kernel are root's: this needs root (CAP_BPF and CAP_NET_ADMIN); run it with sudo"
    )]
    Privilege,
    /// This user is root in a user namespace only.
    #[error(
        "the kernel refuses programs here although this is root: a user namespace or a container \
         without CAP_BPF; load them from the host"
    )]
    Confined,
    /// The verifier, or libbpf before it, refused the program.
    #[error("this kernel (Linux {release}) refuses {name}: {why}; see why with --verbose")]
    Refused {
        /// The kernel's name of the program.
        name: String,
        /// The kernel's release, as `uname -r` prints it.
        release: String,
        /// The last line of the log.
        why: String,
        /// The whole log of the kernel and of libbpf.
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
    /// The program was loaded by another version of howdah, and this one cannot read its maps.
    #[error(
        "{name} was loaded by howdah {version}, whose maps this howdah {own} cannot read; \
         replace it with: howdah cc unload {short}; howdah cc load {short}"
    )]
    OtherAbi {
        /// The kernel's name.
        name: String,
        /// The version of the howdah that loaded it.
        version: String,
        /// The version of this howdah.
        own: &'static str,
        /// The user's name.
        short: &'static str,
    },
    /// There is no such program in the kernel to unload.
    #[error("{name} is not loaded, so nothing is to be unloaded; see: howdah cc status")]
    NothingLoaded {
        /// The kernel's name.
        name: String,
    },
    /// There is no such program in the kernel.
    #[error("{name} is not loaded; load it with: howdah cc load {short}")]
    NotLoaded {
        /// The kernel's name.
        name: String,
        /// The user's name.
        short: &'static str,
    },
    /// A rule chooses the control.
    #[error(
        "{name} is what attached connections get: {rules}; detach first with: howdah cc detach {rules}"
    )]
    Attached {
        /// The kernel's name.
        name: String,
        /// The first rule, as detach takes it.
        rules: String,
    },
    /// The control is the default of this host.
    #[error(
        "{name} is what new connections of this host use; choose another first with: \
         sysctl -w net.ipv4.tcp_congestion_control=cubic"
    )]
    HostDefault {
        /// The kernel's name.
        name: String,
    },
    /// The target cannot be held.
    #[error("{why}")]
    Target {
        /// What is wrong, and what to do.
        why: String,
    },
    /// There is no such connection.
    #[error("no connection {flow} {why}; howdah cc status lists what there is")]
    NoFlow {
        /// The connection as it was named.
        flow: String,
        /// `is here`, or the control that it uses instead.
        why: String,
    },
    /// The share cannot be.
    #[error("{why}")]
    Share {
        /// What is wrong, and what to do.
        why: String,
    },
    /// The memory cannot be.
    #[error("{why}")]
    Memory {
        /// What is wrong, and what to do.
        why: String,
    },
    /// The rule cannot be.
    #[error("{why}")]
    Rule {
        /// What is wrong, and what to do.
        why: String,
    },
    /// The kernel did not answer about its sockets.
    #[error(transparent)]
    Tcp(#[from] howdah_tcp::Error),
    /// Another user may own or change a file that must be root's alone.
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
        "{process} has been changing programs for {seconds} s and holds {path}; wait for it, or end it"
    )]
    Busy {
        /// What is locked.
        path: String,
        /// How long this one has waited.
        seconds: u64,
        /// The process that holds it.
        process: String,
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
    /// The log of a refused program. It is too long for the message.
    #[must_use]
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::Refused { log, .. } => Some(log),
            _ => None,
        }
    }
}
