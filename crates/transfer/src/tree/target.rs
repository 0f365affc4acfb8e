//! Where each source goes. The destination that a user has named is interpreted as by `cp -r`.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use howdah_wire::{Job, TreePath, printable};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::TransferError;
use crate::tree::destination::refuse_special;
use crate::tree::durable::lost;
use crate::tree::new_modes::new_folder_mode;
use crate::tree::outlet::Outlet;
use crate::tree::part::part_name;
use crate::tree::reach::Reach;
use crate::tree::source::{BaseName, base_name};
use crate::tree::unfinished::{is_of, marked};

/// Where one source goes.
#[derive(Debug, Clone)]
pub struct Target {
    /// The existing folder into which the source is copied; absent only in a dry run whose destination folder does
    /// not exist yet.
    pub folder: Option<Arc<OwnedFd>>,
    /// Path of that folder, for messages.
    pub folder_path: Vec<u8>,
    /// The name that the source gets in it; `None` if only the entries of the source are copied.
    pub name: Option<Vec<u8>>,
    /// The source whose mark the folder may have, because the folder's name is the source's new name
    /// ([`crate::tree::unfinished`]). A mark is made only if there is a [`Self::name`].
    pub renamed: Option<Vec<u8>>,
}

/// The targets of a job's sources.
#[derive(Debug)]
pub struct Targets {
    /// One for each source.
    pub each: Vec<Target>,
    /// Whether no file there could be skipped.
    pub fresh: bool,
    /// Whether the destination is a folder into which sources are copied with their names.
    pub into_folder: bool,
    /// What the near end can reach.
    pub reach: Reach,
    /// The pipe that takes the data in place of files.
    pub outlet: Option<Arc<Outlet>>,
}

impl Targets {
    /// The targets of a job. A job may have no files at all.
    ///
    /// # Errors
    /// Those of [`Self::resolve`].
    pub fn of(job: &Job, destination: &[u8], reach: &Reach) -> Result<Self, TransferError> {
        match job.memory {
            Some(_) => Ok(Self {
                each: Vec::new(),
                fresh: true,
                into_folder: false,
                reach: Reach::default(),
                outlet: None,
            }),
            None => Self::resolve(job, destination, reach),
        }
    }

    /// A pipe, and no files.
    pub fn of_pipe(outlet: Outlet) -> Self {
        Self {
            each: Vec::new(),
            fresh: true,
            into_folder: false,
            reach: Reach::default(),
            outlet: Some(Arc::new(outlet)),
        }
    }

    /// Finds out where a job's sources go. Makes the destination folder if it is missing and the job requires one,
    /// but not in a dry run.
    ///
    /// # Errors
    /// When the destination is a file where a folder is needed, its parent is missing, or two
    /// sources would take the same name.
    pub fn resolve(job: &Job, destination: &[u8], reach: &Reach) -> Result<Self, TransferError> {
        let names = job
            .sources
            .iter()
            .map(|source| base_name(source))
            .collect::<Result<Vec<_>, _>>()?;
        check_distinct(&names)?;
        if job.delete.is_some() && names.len() > 1 && names.contains(&BaseName::Contents) {
            let words = "of several sources none can be SRC/. where what is in no source is removed; \
                         copy them one after the other";
            return Err(TransferError::Here(words.to_owned()));
        }
        let must_be_folder = job.destination_is_folder || names.len() > 1;
        if job.pipe {
            refuse_folder(destination, must_be_folder, reach)?;
        }
        let (folder, folder_path, fixed_name) = match reach.stat(destination) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                let folder = open_folder(destination, reach)?;
                let renamed = matches!(names[..], [BaseName::Named(_)]) && !must_be_folder;
                match split(destination) {
                    Ok((parent, name)) if renamed && is_of(&folder, marked(&job.sources[0])) => {
                        (Some(open_folder(&parent, reach)?), parent, Some(name))
                    }
                    _ => (Some(folder), destination.to_vec(), None),
                }
            }
            Ok(_) if must_be_folder => {
                return Err(TransferError::Here(format!(
                    "destination {} is a file, not a folder; name a folder or remove it",
                    printable(destination)
                )));
            }
            Err(Errno::NOENT) if must_be_folder => {
                // One that is to get what is kept of its source is private until then. Of a list, only its end tells.
                let is_to_get = job.keep.top && names.contains(&BaseName::Contents);
                let mode = match is_to_get {
                    true => new_folder_mode(job.keep.perms && !job.named),
                    false => Mode::from_raw_mode(0o777),
                };
                let folder = make_folder(destination, mode, job.dry_run, reach)?;
                (folder, destination.to_vec(), None)
            }
            found @ (Ok(_) | Err(Errno::NOENT)) => {
                if let Ok(stat) = found {
                    refuse_special(&stat, destination)?;
                }
                let (parent, name) = split(destination)?;
                (Some(open_folder(&parent, reach)?), parent, Some(name))
            }
            Err(error) => return Err(TransferError::path("write to", destination, error)),
        };
        let folder = folder.map(Arc::new);
        let mut fresh = true;
        let mut each = Vec::with_capacity(names.len());
        for (name, source) in names.into_iter().zip(&job.sources) {
            let renamed = fixed_name.is_some() == matches!(name, BaseName::Named(_));
            let name = match (&fixed_name, name) {
                (Some(name), _) => Some(name.clone()),
                (None, BaseName::Named(name)) => Some(name),
                (None, BaseName::Contents) => None,
            };
            let target = Target {
                folder: folder.clone(),
                folder_path: folder_path.clone(),
                name,
                renamed: renamed.then(|| marked(source).to_vec()),
            };
            fresh &= target.is_fresh()?;
            each.push(target);
        }
        Ok(Self {
            each,
            // Where nothing new is made, what is not there is a question of its own.
            fresh: fresh && !job.skip.missing,
            into_folder: fixed_name.is_none(),
            reach: reach.clone(),
            outlet: None,
        })
    }
}

/// Refuses to put what a pipe gives into a folder, for it has no name of its own.
fn refuse_folder(
    destination: &[u8],
    must_be_folder: bool,
    reach: &Reach,
) -> Result<(), TransferError> {
    let is_folder = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if !must_be_folder && !reach.stat(destination).is_ok_and(is_folder) {
        return Ok(());
    }
    Err(TransferError::Here(format!(
        "cannot write what comes from a pipe to {}: it is a folder, and a pipe has no name; \
         name the file in it",
        printable(destination)
    )))
}

impl Target {
    /// The path, for messages, of an entry with this path relative to the folder.
    pub fn display(&self, relative: &[u8]) -> Vec<u8> {
        [marked(&self.folder_path), b"/", relative].concat()
    }

    /// The path below its source of an entry with this path relative to the folder; `None` if it is not part of the
    /// copy.
    pub fn path_of(&self, relative: &[u8]) -> Option<TreePath> {
        let below = match &self.name {
            None => relative,
            Some(name) => match relative.strip_prefix(name.as_slice())? {
                b"" => b"",
                below => below.strip_prefix(b"/")?,
            },
        };
        TreePath::try_from(below.to_vec()).ok()
    }

    fn is_fresh(&self) -> Result<bool, TransferError> {
        let Some(folder) = &self.folder else {
            return Ok(true);
        };
        let failed = |error: Errno| TransferError::path("read folder", &self.folder_path, error);
        match &self.name {
            Some(name) => {
                for name in [name, &part_name(name)] {
                    match rustix::fs::statat(folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(_) => return Ok(false),
                        Err(Errno::NOENT) => {}
                        Err(error) => return Err(failed(error)),
                    }
                }
                Ok(true)
            }
            None => {
                for name in Dir::read_from(folder).map_err(failed)? {
                    if !matches!(name.map_err(failed)?.file_name().to_bytes(), b"." | b"..") {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

/// A path as the shell at this end would have expanded it. `~` is the home folder, and an empty path is `.`.
pub fn expand_home(path: &[u8], home: Option<&[u8]>) -> Vec<u8> {
    match (path, home) {
        (b"", _) => b".".to_vec(),
        (b"~", Some(home)) => home.to_vec(),
        ([b'~', rest @ ..], Some(home)) if rest.starts_with(b"/") => [home, rest].concat(),
        _ => path.to_vec(),
    }
}

fn check_distinct(names: &[BaseName]) -> Result<(), TransferError> {
    let mut sorted: Vec<&BaseName> = names.iter().collect();
    sorted.sort_by_key(|name| match name {
        BaseName::Named(name) => name.as_slice(),
        BaseName::Contents => b"",
    });
    for pair in sorted.windows(2) {
        if let (BaseName::Named(one), BaseName::Named(other)) = (pair[0], pair[1])
            && one == other
        {
            return Err(TransferError::Here(format!(
                "two sources are both named {}; copy them one after the other",
                printable(one)
            )));
        }
    }
    Ok(())
}

fn open_folder(path: &[u8], reach: &Reach) -> Result<OwnedFd, TransferError> {
    reach
        .open(path, OFlags::RDONLY | OFlags::DIRECTORY)
        .map_err(|error| TransferError::path("write to folder", path, error))
}

fn make_folder(
    path: &[u8],
    mode: Mode,
    dry_run: bool,
    reach: &Reach,
) -> Result<Option<OwnedFd>, TransferError> {
    let (parent, name) = split(path)?;
    let above = open_folder(&parent, reach)?;
    if dry_run {
        return Ok(None);
    }
    rustix::fs::mkdirat(&above, name, mode)
        .map_err(|error| TransferError::path("make folder", path, error))?;
    match rustix::fs::fsync(above) {
        // Some file systems flush no single folder; what lies in it is flushed with its system.
        Ok(()) | Err(Errno::INVAL) => open_folder(path, reach).map(Some),
        Err(error) => Err(lost(path, error)),
    }
}

/// Parent and last name of a path whose last name does not exist, or is no folder.
fn split(path: &[u8]) -> Result<(Vec<u8>, Vec<u8>), TransferError> {
    let end = path
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(0, |last| last + 1);
    let path = &path[..end];
    let start = path
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |slash| slash + 1);
    let (parent, name) = path.split_at(start);
    if matches!(name, b"" | b"." | b"..") {
        return Err(TransferError::path("write to", path, Errno::NOENT));
    }
    let parent = match parent {
        b"" => b".",
        b"/" => parent,
        parent => &parent[..parent.len() - 1],
    };
    Ok((parent.to_vec(), name.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_filter::Filters;
    use howdah_wire::{Direction, Keep, Limit, Skip, StreamPlan};
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    fn job(sources: &[&str], folder: bool, dry_run: bool) -> Job {
        Job {
            direction: Direction::Push,
            sources: sources
                .iter()
                .map(|source| source.as_bytes().to_vec())
                .collect(),
            destination: Vec::new(),
            destination_is_folder: folder,
            filters: Filters::default(),
            named: false,
            walk: howdah_wire::Walk::default(),
            skip: Skip::default(),
            delete: None,
            keep: Keep::default(),
            memory: None,
            pipe: false,
            dry_run,
            encrypt: true,
            sync: true,
            fresh: false,
            sample_every_ns: 100_000_000,
            patience_ns: 300_000_000_000,
            limit: Limit::default(),
            plan: StreamPlan {
                congestion_control: None,
                streams: 1,
                buffer_bytes: None,
                pacing_bps: None,
                block_bytes: 1,
            },
            peer: None,
            tells_digests: false,
        }
    }

    fn resolve(job: &Job, destination: &Path) -> Result<Targets, String> {
        Targets::resolve(job, destination.as_os_str().as_bytes(), &Reach::default())
            .map_err(|error| error.to_string())
    }

    fn names(targets: &Targets) -> Vec<Option<&[u8]>> {
        targets
            .each
            .iter()
            .map(|target| target.name.as_deref())
            .collect()
    }

    #[test]
    fn destinations_read_as_cp_reads_them() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("folder");
        fs::create_dir(&folder).unwrap();

        let into = resolve(&job(&["x/src"], false, false), &folder).unwrap();
        assert_eq!(names(&into), [Some(b"src".as_slice())]);
        assert!(into.fresh);
        fs::write(folder.join("src"), b"").unwrap();
        assert!(
            !resolve(&job(&["x/src"], false, false), &folder)
                .unwrap()
                .fresh
        );

        let renamed = resolve(&job(&["x/src"], false, false), &base.path().join("new")).unwrap();
        assert_eq!(names(&renamed), [Some(b"new".as_slice())]);
        let contents = resolve(&job(&["x/."], false, false), &folder).unwrap();
        assert_eq!(names(&contents), [None]);
        assert!(!contents.fresh);

        let made = resolve(&job(&["a", "b"], false, false), &base.path().join("made")).unwrap();
        assert_eq!(names(&made), [Some(b"a".as_slice()), Some(b"b")]);
        assert!(base.path().join("made").is_dir());
    }

    #[test]
    fn a_new_folder_that_gets_the_mode_of_its_source_is_private_until_then() {
        let base = tempfile::tempdir().unwrap();
        for (name, perms, mode) in [("kept", true, 0o700), ("left", false, 0o1700)] {
            let mut job = job(&["x/."], true, false);
            (job.keep.top, job.keep.perms) = (true, perms);
            let folder = base.path().join(name);
            resolve(&job, &folder).unwrap();
            assert_eq!(folder.metadata().unwrap().mode() & 0o7777, mode);
        }
    }

    #[test]
    fn a_dry_run_makes_nothing() {
        let base = tempfile::tempdir().unwrap();
        let targets = resolve(&job(&["a"], true, true), &base.path().join("new")).unwrap();
        assert!(targets.fresh && targets.each[0].folder.is_none());
        assert!(!base.path().join("new").exists());
    }

    #[test]
    fn wrong_destinations_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, b"").unwrap();
        let error = resolve(&job(&["a"], true, false), &file).unwrap_err();
        assert!(error.contains("is a file, not a folder"), "{error}");
        let error = resolve(&job(&["a"], false, false), Path::new("/dev/null")).unwrap_err();
        assert_eq!(error, "cannot write /dev/null: it is a device");
        let error = resolve(&job(&["a"], false, false), &base.path().join("no/where")).unwrap_err();
        assert!(error.contains("no: no such file or folder"), "{error}");
        let error = resolve(&job(&["a/x", "b/x"], false, false), base.path()).unwrap_err();
        assert!(error.contains("both named x"), "{error}");
        let error = resolve(&job(&["a/.."], false, false), base.path()).unwrap_err();
        assert!(error.contains("no name of its own"), "{error}");
    }

    #[test]
    fn paths_are_shown_without_what_a_user_has_put_behind_the_folder() {
        let shown = |folder: &[u8]| {
            let target = Target {
                folder: None,
                folder_path: folder.to_vec(),
                name: None,
                renamed: None,
            };
            String::from_utf8(target.display(b"a/b")).unwrap()
        };
        for folder in ["d", "d/", "d/.", "d//", "d/./"] {
            assert_eq!(shown(folder.as_bytes()), "d/a/b", "{folder}");
        }
        assert_eq!(
            [shown(b"/"), shown(b"."), shown(b"./")],
            ["/a/b", "./a/b", "./a/b"]
        );
    }

    #[test]
    fn home_is_expanded() {
        let home = Some(b"/home/u".as_slice());
        assert_eq!(expand_home(b"", home), b".");
        assert_eq!(expand_home(b"~", home), b"/home/u");
        assert_eq!(expand_home(b"~/a", home), b"/home/u/a");
        assert_eq!(expand_home(b"~user/a", home), b"~user/a");
    }
}
