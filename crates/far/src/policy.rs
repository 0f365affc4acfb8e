//! The policy of this host: what its administrator has decided for all users, and what a user adds. The twin of
//! `python/howdah/site/policy.py`; docs/policy.md has the keys, and `tests/pure/test_far_program.py` holds both to each other.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::json;

pub use file::{no_range, ports};

mod file;

const SITE: &str = "/etc/howdah/policy.toml";
/// Where a user finds what to do.
pub const SEE: &str = "ask this host's administrator, or see docs/policy.md";
const ROOT: u32 = 0;
const BYTES_MAX: u64 = 1 << 20;
const GROUP_OR_OTHERS_WRITE: u32 = 0o022;

/// Where policies, and the bytes of a day, lie.
#[derive(Debug, Clone)]
pub struct Places {
    site: PathBuf,
    own: PathBuf,
    /// The file of the bytes of a day; without, the user's own.
    pub day: Option<PathBuf>,
}

impl Places {
    /// Those of this host and user.
    pub fn of_this_host() -> Self {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let own = match set("XDG_CONFIG_HOME") {
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from(set("HOME").unwrap_or_default()).join(".config"),
        };
        Self {
            site: SITE.into(),
            own: own.join("howdah/policy.toml"),
            day: None,
        }
    }
}

/// What binds this user on this host. Without any file, the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether a copy needs a log that takes its lines.
    pub audit_required: bool,
    keep_logins: bool,
    far_ends: Vec<Vec<String>>,
    plaintext: bool,
    delete: bool,
    /// The ports of which one is opened for data streams; without, the kernel chooses.
    pub ports: Option<(u16, u16)>,
    load_programs: bool,
    /// The most that one copy moves.
    pub copy_bytes: Option<u64>,
    /// The most that the copies of a user move in a day.
    pub day_bytes: Option<u64>,
    set_by: BTreeMap<&'static str, PathBuf>,
    site: PathBuf,
}

impl Policy {
    fn none(site: &Path) -> Self {
        Self {
            audit_required: false,
            keep_logins: true,
            far_ends: Vec::new(),
            plaintext: true,
            delete: true,
            ports: None,
            load_programs: true,
            copy_bytes: None,
            day_bytes: None,
            set_by: BTreeMap::new(),
            site: site.to_owned(),
        }
    }

    /// The words that say whose policy it is that sets this key.
    pub fn by(&self, key: &str) -> String {
        let host = nodename();
        match self.set_by.get(key) {
            Some(path) if *path != self.site => {
                format!("your own policy on host {host} ({}, {key})", path.display())
            }
            _ => format!("the policy of host {host} ({}, {key})", self.site.display()),
        }
    }

    /// Refuses data streams that may not be plaintext.
    ///
    /// # Errors
    /// Why they may not.
    pub fn check_plaintext(&self, encrypt: bool) -> Result<(), String> {
        if encrypt || self.plaintext {
            return Ok(());
        }
        let by = self.by("data.plaintext");
        Err(format!(
            "plaintext data streams are forbidden by {by}; leave out --plaintext"
        ))
    }

    /// Refuses a copy to this host that may remove nothing here.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check_delete(&self, delete: bool) -> Result<(), String> {
        if !delete || self.delete {
            return Ok(());
        }
        let by = self.by("data.delete");
        Err(format!(
            "removing what is not at the source is forbidden by {by}; leave out --delete"
        ))
    }

    /// The ports for data streams that a near end gets, which has asked for a range or not.
    ///
    /// # Errors
    /// When that has no port of the range in force.
    pub fn ports_of(&self, asked: Option<(u16, u16)>) -> Result<Option<(u16, u16)>, String> {
        let (Some(range), Some(allowed)) = (asked, self.ports) else {
            return Ok(asked.or(self.ports));
        };
        file::common(range, allowed).map(Some).ok_or_else(|| {
            let (allowed, by) = (in_words(allowed), self.by("data.ports"));
            format!(
                "ports {} have none of {allowed}, which is the range of {by}; give --ports {allowed}",
                in_words(range)
            )
        })
    }

    /// The values by the names that Python gives them.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "audit": if self.audit_required { "required" } else { "on" },
            "keep_logins": self.keep_logins,
            "far_ends": self.far_ends,
            "plaintext": self.plaintext,
            "delete": self.delete,
            "ports": self.ports,
            "load_programs": self.load_programs,
            "copy_bytes": self.copy_bytes,
            "day_bytes": self.day_bytes,
            "set_by": self.set_by,
        })
    }
}

/// `50000-50100`, or of one port its number.
fn in_words((least, most): (u16, u16)) -> String {
    if least == most {
        least.to_string()
    } else {
        format!("{least}-{most}")
    }
}

/// What binds this user on this host now.
///
/// # Errors
/// For a file that is no policy, or that others than its owner can write to.
pub fn in_force(places: &Places) -> Result<Policy, String> {
    let mut policy = Policy::none(&places.site);
    let user = rustix::process::geteuid().as_raw();
    for (path, owner) in [(&places.site, ROOT), (&places.own, user)] {
        if let Some(text) = text_of(path, owner)? {
            file::tighten(&mut policy, path, &text)?;
        }
    }
    Ok(policy)
}

/// The name of this host.
pub fn nodename() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// An error without the number that Rust appends.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// The file's content; `None`: there is no file.
fn text_of(path: &Path, owner: u32) -> Result<Option<Vec<u8>>, String> {
    let shown = path.display();
    let unread = |error: io::Error| format!("cannot read {shown}: {}; {SEE}", plain(&error));
    // Not to wait for the writer of a pipe.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        other => other.map_err(unread)?,
    };
    check(path, &file, owner)?;
    let mut text = Vec::new();
    file.take(BYTES_MAX + 1)
        .read_to_end(&mut text)
        .map_err(unread)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(format!(
            "{shown} is no policy: it has more than {BYTES_MAX} bytes; {SEE}"
        ));
    }
    Ok(Some(text))
}

/// Refuses a file, or its folder, that others can write to.
fn check(path: &Path, file: &File, owner: u32) -> Result<(), String> {
    let shown = path.display();
    let unread = |error: io::Error| format!("cannot read {shown}: {}; {SEE}", plain(&error));
    let found = file.metadata().map_err(unread)?;
    if !found.is_file() {
        return Err(format!("{shown} is no policy: it is no file; {SEE}"));
    }
    let (whose, mend) = match owner {
        ROOT => ("root's", "chown root, chmod 644"),
        _ => ("yours", "chmod 644"),
    };
    if !is_of(&found, owner) {
        return Err(format!(
            "{shown} must be {whose} and nobody else's to write; {mend}"
        ));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    if !is_of(&fs::metadata(folder).map_err(unread)?, owner) {
        return Err(format!(
            "{}, which has a policy in it, must be {whose} and nobody else's to write; chmod 755",
            folder.display()
        ));
    }
    Ok(())
}

/// Whether only `owner` and root can write to it. Where a user namespace shows no root, as in a lab, the host's root
/// is shown as the overflow user, who owns nothing else in /etc.
fn is_of(found: &fs::Metadata, owner: u32) -> bool {
    if found.mode() & GROUP_OR_OTHERS_WRITE != 0 {
        return false;
    }
    let uid = found.uid();
    uid == ROOT || uid == owner || unmapped() == Some(uid)
}

/// The number by which this user namespace shows the users it has not; `None`: it has all, or cannot say.
fn unmapped() -> Option<u32> {
    let users = fs::read_to_string("/proc/self/uid_map").ok()?;
    if users.split_whitespace().eq(["0", "0", "4294967295"]) {
        return None;
    }
    let number = fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn places(folder: &Path) -> Places {
        Places {
            site: folder.join("site/policy.toml"),
            own: folder.join("own/policy.toml"),
            day: None,
        }
    }

    fn say(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o644)).unwrap();
        fs::set_permissions(path.parent().unwrap(), PermissionsExt::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_user_tightens_and_never_loosens() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        assert_eq!(in_force(&places).unwrap(), Policy::none(&places.site));
        say(
            &places.own,
            "[data]\nplaintext = false\nports = \"50-99\"\n[quota]\ncopy = \"2MB\"\n",
        );
        let own = in_force(&places).unwrap();
        assert!(
            own.check_plaintext(false)
                .unwrap_err()
                .contains("forbidden by your own policy on")
        );
        own.check_plaintext(true).unwrap();
        if !rustix::process::geteuid().is_root() {
            return;
        }
        say(
            &places.site,
            "[data]\nplaintext = true\nports = \"90-120\"\n[quota]\ncopy = \"1MB\"\n",
        );
        let both = in_force(&places).unwrap();
        assert_eq!(
            (both.ports, both.copy_bytes, both.plaintext),
            (Some((90, 99)), Some(1_000_000), false)
        );
        assert!(both.by("quota.copy").starts_with("the policy of host "));
        say(&places.site, "[data]\nports = \"1-9\"\n");
        let said = in_force(&places).unwrap_err();
        assert!(
            said.contains("data.ports: 50-99 has no port of 1-9, which "),
            "{said}"
        );
    }

    #[test]
    fn what_others_can_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        say(&places.own, "");
        in_force(&places).unwrap();
        fs::set_permissions(&places.own, PermissionsExt::from_mode(0o664)).unwrap();
        assert!(
            in_force(&places)
                .unwrap_err()
                .contains("nobody else's to write")
        );
        say(&places.own, "");
        fs::set_permissions(folder.path().join("own"), PermissionsExt::from_mode(0o777)).unwrap();
        assert!(
            in_force(&places)
                .unwrap_err()
                .contains(", which has a policy in it, must be ")
        );
        fs::remove_file(&places.own).unwrap();
        fs::create_dir(&places.own).unwrap();
        assert!(
            in_force(&places)
                .unwrap_err()
                .contains("is no policy: it is no file")
        );
    }
}
