//! Every network namespace that this process can enter, and work inside one.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::PathBuf,
    thread,
};

use rustix::{
    net::{AddressFamily, SocketType},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use crate::{Error, mounts};

const SYSCTLS: &str = "/proc/sys/net/ipv4";

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    descriptor: OwnedFd,
    /// Its inode, as `/proc/PID/ns/net` names it.
    pub inode: u64,
}

impl Namespace {
    /// This process's namespace, then all others that a process is in or has a descriptor of, and those that are
    /// mounted here.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let own = "/proc/thread-self/ns/net".into();
        let mut seen = BTreeSet::new();
        [own]
            .into_iter()
            .chain(mounted())
            .chain(of_processes())
            .filter_map(|path| Self::open(path).ok())
            .filter(|namespace| seen.insert(namespace.inode))
            .collect()
    }

    /// The namespace with this inode.
    pub(crate) fn of(inode: u64) -> Result<Self, Error> {
        let found = Self::all().into_iter().find(|each| each.inode == inode);
        found.ok_or_else(|| Error::Rule {
            why: format!(
                "no process, descriptor or mount to be seen from here is of network namespace {inode};                  list them with: lsns -t net"
            ),
        })
    }

    /// The kernel's cookie of the namespace, never used twice.
    pub(crate) fn cookie(&self) -> Result<u64, Error> {
        self.inside(|| {
            cookie_here().map_err(|source| Error::System {
                what: "ask for the cookie of a network namespace".to_owned(),
                source,
            })
        })
    }

    fn open(path: PathBuf) -> io::Result<Self> {
        let file = File::open(path)?;
        let inode = file.metadata()?.ino();
        Ok(Self {
            descriptor: file.into(),
            inode,
        })
    }

    /// Runs `what` in this namespace, on a thread of its own.
    pub(crate) fn inside<T: Send>(
        &self,
        what: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                use std::os::fd::AsFd;
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(self.descriptor.as_fd(), kind).map_err(|errno| {
                    Error::System {
                        what: "enter a network namespace".to_owned(),
                        source: errno.into(),
                    }
                })?;
                what()
            });
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// The control that new sockets of the calling thread's namespace use.
pub(crate) fn default_control() -> Option<String> {
    let text = fs::read_to_string(format!("{SYSCTLS}/tcp_congestion_control")).ok()?;
    Some(text.trim().to_owned())
}

/// The kernel's cookie of the calling thread's namespace.
fn cookie_here() -> io::Result<u64> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is what there is.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    match failed {
        0 => Ok(cookie),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the control that new sockets of the calling thread's namespace use.
pub(crate) fn set_default_control(name: &str) -> io::Result<()> {
    fs::write(format!("{SYSCTLS}/tcp_congestion_control"), name)
}

/// Sets which controls processes without CAP_NET_ADMIN may choose, in every namespace.
pub(crate) fn allow_controls(names: &[String]) -> io::Result<()> {
    fs::write(
        format!("{SYSCTLS}/tcp_allowed_congestion_control"),
        names.join(" "),
    )
}

fn mounted() -> impl Iterator<Item = PathBuf> {
    let here = |mount: &mounts::Mount| mount.root.starts_with("net:[");
    mounts::all()
        .into_iter()
        .filter(here)
        .map(|mount| mount.place)
}

fn of_processes() -> impl Iterator<Item = PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = processes.map(|entry| entry.path()).filter(|path| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        name.bytes().all(|byte| byte.is_ascii_digit())
    });
    numbered.flat_map(|process| {
        let open = fs::read_dir(process.join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let open = open.map(|entry| entry.path()).filter(|path| {
            fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("net:["))
        });
        [process.join("ns/net")]
            .into_iter()
            .chain(open.collect::<Vec<_>>())
    })
}
