//! Cgroups of the unified hierarchy, known by their paths and by the kernel's ids.

use std::{
    fmt,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    str::FromStr,
};

use serde::Serialize;

use crate::{
    Error,
    layout::{CGROUP_PATH_MAX, CGROUPS_MAX},
    mounts,
};

/// The path of a cgroup from the root of the hierarchy, as `/system.slice/postgresql.service`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Cgroup(String);

impl Cgroup {
    /// The kernel's number of the cgroup with this path now, which is the inode of its directory; absent if there is
    /// none.
    pub fn id(&self) -> Result<Option<u64>, Error> {
        let place = root()?.join(&self.0[1..]);
        let looked = || format!("look at {}", place.display());
        match fs::metadata(&place) {
            Ok(found) if found.is_dir() => Ok(Some(found.ino())),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::System {
                what: looked(),
                source,
            }),
        }
    }

    /// The error if a required cgroup does not exist.
    pub(crate) fn missing(&self) -> Error {
        let place = root().unwrap_or_default();
        wrong(format!(
            "there is no cgroup {self} below {0}; list what there is with: find {0} -type d",
            place.display()
        ))
    }

    /// The path in the form of a rule in the kernel.
    pub(crate) fn known(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for Cgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Cgroup {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for Cgroup {
    type Err = Error;

    /// The only spelling of a path, so that paths are equal where cgroups are.
    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = |why: &str| {
            Err(wrong(format!(
                "cgroup {text:?} {why}; write for example /system.slice/postgresql.service"
            )))
        };
        let Some(below) = text.strip_prefix('/') else {
            return refused("does not begin with / at the root of its hierarchy");
        };
        let mut parts = below.split('/');
        if !below.is_empty() && parts.any(|part| matches!(part, "" | "." | "..")) {
            return refused("has a part that is empty, . or ..");
        }
        if text.contains(char::is_control) {
            return refused("has a control character");
        }
        if text.len() >= CGROUP_PATH_MAX {
            return refused(&format!("has more than {} bytes", CGROUP_PATH_MAX - 1));
        }
        if below.split('/').count() >= CGROUPS_MAX {
            return refused(&format!("lies deeper than {} levels", CGROUPS_MAX - 1));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Where the unified hierarchy is mounted.
fn root() -> Result<PathBuf, Error> {
    let found = mounts::all()
        .into_iter()
        .find(|mount| mount.kind == "cgroup2");
    found.map(|mount| mount.place).ok_or_else(|| {
        wrong(
            "cgroup2 is not mounted here, and it is what tells us of new connections; mount it with: \
             mount -t cgroup2 cgroup2 /sys/fs/cgroup"
                .to_owned(),
        )
    })
}

/// The root of the unified hierarchy.
pub(crate) fn open_root() -> Result<File, Error> {
    let place = root()?;
    File::open(&place).map_err(|source| Error::System {
        what: format!("open {}", place.display()),
        source,
    })
}

fn wrong(why: String) -> Error {
    Error::Rule { why }
}

#[cfg(test)]
mod tests {
    use super::Cgroup;

    #[test]
    fn a_path_has_one_spelling() {
        for text in ["/", "/a", "/system.slice/postgresql@15-main.service"] {
            assert_eq!(text.parse::<Cgroup>().unwrap().to_string(), text);
        }
        for (text, says) in [
            ("", "does not begin with /"),
            ("system.slice", "does not begin with /"),
            ("/a/", "empty, . or .."),
            ("//a", "empty, . or .."),
            ("/a/../b", "empty, . or .."),
            ("/a\nb", "control character"),
            (&format!("/{}", "x".repeat(255)), "more than 255 bytes"),
            (&"/a".repeat(32), "deeper than 31 levels"),
        ] {
            let error = text.parse::<Cgroup>().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        assert!("/a".repeat(31).parse::<Cgroup>().is_ok());
    }
}
