//! Where what outlives us is kept: a folder of the BPF file system.

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};
use rustix::{
    fs::{CWD, FlockOperation, FsWord, Mode, OFlags, flock, openat, statfs},
    mount::{MountFlags, mount},
};

use crate::{
    Error,
    layout::{About, Plain},
    loader::system,
};

const BPF_FS: &str = "/sys/fs/bpf";
const BPF_FS_MAGIC: FsWord = 0xcafe_4a11;

/// Where our pins are, and what our names begin with.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) root: PathBuf,
    pub(crate) prefix: String,
}

/// Nobody else changes a store while this lives.
pub(crate) struct Lock(#[expect(dead_code, reason = "held")] OwnedFd);

impl Default for Store {
    fn default() -> Self {
        Self::at("howdah", "hd_")
    }
}

impl Store {
    /// A store of its own beside the real one, for tests: the folder below the BPF file system, and the
    /// beginning of the kernel's names.
    #[must_use]
    pub fn at(folder: &str, prefix: &str) -> Self {
        Self {
            root: Path::new(BPF_FS).join(folder),
            prefix: prefix.to_owned(),
        }
    }

    /// Makes the folder, mounting the BPF file system where the system has not, and locks it.
    pub(crate) fn open(&self) -> Result<Lock, Error> {
        let wrong = |what: &str| {
            let what = format!("{what} {}", self.root.display());
            move |source: io::Error| Error::System { what, source }
        };
        mount_bpf_fs().map_err(wrong("mount the BPF file system for"))?;
        fs::create_dir_all(&self.root).map_err(wrong("make"))?;
        let folder = openat(
            CWD,
            &self.root,
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| wrong("open")(errno.into()))?;
        flock(&folder, FlockOperation::LockExclusive)
            .map_err(|errno| wrong("lock")(errno.into()))?;
        Ok(Lock(folder))
    }

    /// What the program called `name` is in the kernel.
    pub(crate) fn kernel_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Where a program's own pins are.
    pub(crate) fn folder(&self, kernel_name: &str) -> PathBuf {
        self.root.join(kernel_name)
    }

    /// The map that all programs share.
    pub(crate) fn flows(&self) -> PathBuf {
        self.root.join("flows")
    }

    /// What is loaded in `folder`; `None` when nothing is, or we may not look.
    pub(crate) fn about(&self, folder: &Path) -> Option<About> {
        if !folder.join("link").exists() {
            return None;
        }
        let read = || {
            let map = MapHandle::from_pinned_path(folder.join("about")).ok()?;
            About::read(&map.lookup(&[0; 4], MapFlags::ANY).ok()??)
        };
        Some(read().unwrap_or_else(About::zero))
    }

    /// Notes what is loaded in `folder`.
    pub(crate) fn note(&self, folder: &Path, about: &About) -> Result<(), Error> {
        let path = folder.join("about");
        let wrong = |error| system("note what was loaded", &error);
        let map = if path.exists() {
            MapHandle::from_pinned_path(&path).map_err(wrong)?
        } else {
            let options = libbpf_sys::bpf_map_create_opts {
                sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
                ..Default::default()
            };
            let size = size_of::<About>() as u32;
            let mut map =
                MapHandle::create(MapType::Array, Some("howdah_about"), 4, size, 1, &options)
                    .map_err(wrong)?;
            map.pin(&path).map_err(wrong)?;
            map
        };
        map.update(&[0; 4], about.bytes(), MapFlags::ANY)
            .map_err(wrong)
    }

    /// Takes a folder of pins away; what only they kept alive ends.
    pub(crate) fn clear(&self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        let _ = fs::remove_dir(folder);
    }

    /// Takes away what no program needs any more.
    pub(crate) fn tidy(&self) {
        let folders = fs::read_dir(&self.root).into_iter().flatten().flatten();
        if !folders.into_iter().any(|entry| entry.path().is_dir()) {
            let _ = fs::remove_file(self.flows());
            let _ = fs::remove_dir(&self.root);
        }
    }
}

/// Mounts the BPF file system where the system has not; a second mount would hide the first.
fn mount_bpf_fs() -> io::Result<()> {
    let above = openat(
        CWD,
        "/sys/fs",
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    flock(&above, FlockOperation::LockExclusive)?;
    if !is_bpf_fs() {
        mount("bpf", BPF_FS, "bpf", MountFlags::empty(), None)?;
    }
    Ok(())
}

fn is_bpf_fs() -> bool {
    statfs(BPF_FS).is_ok_and(|found| found.f_type == BPF_FS_MAGIC)
}
