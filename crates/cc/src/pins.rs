//! The folder in the BPF file system for what outlives this process.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};
use rustix::{
    fs::{FsWord, statfs},
    mount::{MountFlags, UnmountFlags, mount, unmount},
};

use crate::{
    Error,
    layout::{About, Plain},
    loader::system,
    lock::{self, Locks},
    mounts,
};

const BPF_FS: &str = "/sys/fs/bpf";
/// The source of the mounts that howdah makes.
const SOURCE: &str = "howdah";
/// The files that a kernel with `CONFIG_BPF_PRELOAD` puts into each.
const PRELOADED: [&str; 2] = ["maps.debug", "progs.debug"];
const BPF_FS_MAGIC: FsWord = 0xcafe_4a11;

/// Where our pins are, and the prefix of our names.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) root: PathBuf,
    pub(crate) prefix: String,
}

/// A lock on a store. No other process changes the store until this is dropped. Dropping it removes what is not
/// needed any more.
pub(crate) struct Lock<'a> {
    store: &'a Store,
    locks: Locks,
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.store.tidy();
        // An open folder would keep the file system busy.
        self.locks.folder = None;
        if is_ours() && !is_used() {
            let _ = unmount(BPF_FS, UnmountFlags::empty());
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::at("howdah", "hd_")
    }
}

impl Store {
    /// A separate store for tests: the folder below the BPF file system, and the prefix of the kernel's names.
    #[must_use]
    pub fn at(folder: &str, prefix: &str) -> Self {
        Self {
            root: Path::new(BPF_FS).join(folder),
            prefix: prefix.to_owned(),
        }
    }

    /// Locks all stores and makes the folder. Mounts the BPF file system if it is not mounted.
    pub(crate) fn open(&self) -> Result<Lock<'_>, Error> {
        let mounting = lock::of_mounts()?;
        mount_bpf_fs().map_err(|source| Error::System {
            what: format!("mount the BPF file system for {}", self.root.display()),
            source,
        })?;
        Ok(Lock {
            store: self,
            locks: Locks {
                folder: Some(lock::of_folder(&self.root)?),
                mounting,
            },
        })
    }

    /// The name in the kernel of the program called `name`.
    pub(crate) fn kernel_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The folder of a program's own pins.
    pub(crate) fn folder(&self, kernel_name: &str) -> PathBuf {
        self.root.join(kernel_name)
    }

    /// The map that all programs share.
    pub(crate) fn flows(&self) -> PathBuf {
        self.root.join("flows")
    }

    /// What is loaded in `folder`; `None` if nothing is, or this process may not look.
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

    /// Removes a folder of pins. The kernel then removes programs and maps that nothing else uses.
    pub(crate) fn clear(&self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        let _ = fs::remove_dir(folder);
    }

    /// Removes what no program needs any more.
    fn tidy(&self) {
        let folders = fs::read_dir(&self.root).into_iter().flatten().flatten();
        if !folders.into_iter().any(|entry| entry.path().is_dir()) {
            let _ = fs::remove_file(self.flows());
            let _ = fs::remove_dir(&self.root);
        }
    }
}

/// Mounts the BPF file system where the system has not, for root alone; a second mount would hide the
/// first.
fn mount_bpf_fs() -> io::Result<()> {
    if !statfs(BPF_FS).is_ok_and(|found| found.f_type == BPF_FS_MAGIC) {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount(SOURCE, BPF_FS, "bpf", flags, Some(c"mode=0700"))?;
    }
    Ok(())
}

/// Whether anybody has pinned something.
fn is_used() -> bool {
    let mut entries = fs::read_dir(BPF_FS).into_iter().flatten().flatten();
    entries.any(|entry| !PRELOADED.iter().any(|name| entry.file_name() == *name))
}

/// Whether the BPF file system here was mounted by a howdah.
fn is_ours() -> bool {
    let mounts = mounts::all();
    let topmost = mounts
        .iter()
        .rfind(|mount| mount.place == Path::new(BPF_FS));
    topmost.is_some_and(|mount| mount.kind == "bpf" && mount.source == SOURCE)
}
