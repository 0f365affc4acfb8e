//! The policy of this host: the administrator's rules for all users, and a user's own rules.
//!
//! A user's own file has the same keys. Of two values the stricter one applies, so a user can tighten the rules and
//! never loosen them. If a file is broken, or other users can write to it, everything that needs a policy is refused.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub use file::ports;

use howdah_wire::printable;

use crate::{Error, fits, plain, shown};

mod file;

const SITE: &str = "/etc/howdah/policy.toml";
/// Where a user finds what to do.
pub const SEE: &str = "ask this host's administrator, or see docs/policy.md";
const ROOT: u32 = 0;
const BYTES_MAX: u64 = 1 << 20;
const GROUP_OR_OTHERS_WRITE: u32 = 0o022;

/// Ports from the first to the last.
pub type Ports = (u16, u16);

/// Where policies lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    site: PathBuf,
    own: PathBuf,
    /// The owner of the site's file: root, or in tests whoever runs them.
    root: u32,
}

impl Places {
    /// Those of this host and user.
    pub fn of_this_host() -> Self {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let home = || match set("HOME") {
            Some(home) => home.into(),
            None => howdah_accounts::user(uid())
                .map(|user| user.home)
                .unwrap_or_default(),
        };
        let own = match set("XDG_CONFIG_HOME") {
            Some(folder) => PathBuf::from(folder),
            None => home().join(".config"),
        };
        Self {
            site: SITE.into(),
            own: own.join("howdah/policy.toml"),
            root: ROOT,
        }
    }

    /// Those of a test: all below one folder.
    #[cfg(test)]
    pub(crate) fn below(folder: &Path) -> Self {
        Self {
            site: folder.join("site/policy.toml"),
            own: folder.join("own/policy.toml"),
            root: uid(),
        }
    }
}

/// The rules for this user on this host. Without any file, these are the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether a copy requires a log.
    pub audit_required: bool,
    /// Whether an ssh login, and a far end behind it, may be kept after a copy.
    pub keep_logins: bool,
    /// Patterns of hosts, by the file that has them. Each list has to have one that fits a far end.
    far_ends: Vec<(PathBuf, Vec<String>)>,
    plaintext: bool,
    delete: bool,
    /// The ports of which this host, as a far end, opens one for data streams; without, the kernel chooses.
    ports: Option<Ports>,
    load_programs: bool,
    /// The most that one copy moves.
    pub copy_bytes: Option<u64>,
    /// The most that the copies of a user move in a day.
    pub day_bytes: Option<u64>,
    /// By key, as `data.plaintext`, the file that set what holds.
    set_by: BTreeMap<&'static str, PathBuf>,
    places: Places,
}

impl Policy {
    /// The rules for this user on this host now.
    ///
    /// # Errors
    /// When a file is not a policy, or other users can write to it.
    pub fn in_force(places: Places) -> Result<Self, Error> {
        let mut policy = Self::free(places);
        let Places {
            site, own, root, ..
        } = policy.places.clone();
        for (path, owner) in [(site, root), (own, uid())] {
            if let Some(text) = text_of(&path, owner).map_err(Error::Broken)? {
                file::tighten(&mut policy, &path, &text).map_err(Error::Broken)?;
            }
        }
        Ok(policy)
    }

    /// The rules if the site's file and the user's file have these texts.
    #[doc(hidden)]
    pub fn of_texts(site: &[u8], own: &[u8]) -> Result<Self, Error> {
        let mut policy = Self::free(Places {
            site: SITE.into(),
            own: "/home/me/.config/howdah/policy.toml".into(),
            root: ROOT,
        });
        let places = policy.places.clone();
        for (path, text) in [(places.site, site), (places.own, own)] {
            file::tighten(&mut policy, &path, text).map_err(Error::Broken)?;
        }
        Ok(policy)
    }

    fn free(places: Places) -> Self {
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
            places,
        }
    }

    /// Words that name the file that sets this key.
    pub fn by(&self, key: &str) -> String {
        let host = nodename();
        match self.set_by.get(key) {
            Some(path) if *path != self.places.site => {
                format!("your own policy on host {host} ({}, {key})", path.display())
            }
            _ => {
                let site = self.places.site.display();
                format!("the policy of host {host} ({site}, {key})")
            }
        }
    }

    /// Refuses data streams in plaintext, if the policy forbids them.
    ///
    /// # Errors
    /// Why they may not.
    pub fn check_plaintext(&self, encrypt: bool) -> Result<(), Error> {
        self.check(encrypt || self.plaintext, || {
            let by = self.by("data.plaintext");
            format!("plaintext data streams are forbidden by {by}; leave out --plaintext")
        })
    }

    /// Refuses programs for this kernel.
    ///
    /// # Errors
    /// Why none may be loaded.
    pub fn check_programs(&self) -> Result<(), Error> {
        self.check(self.load_programs, || {
            let by = self.by("programs.load");
            format!("loading programs into the kernel is forbidden by {by}; {SEE}")
        })
    }

    /// Refuses a far end, by the name or address to which ssh connects.
    ///
    /// # Errors
    /// When no pattern fits it.
    pub fn check_far_end(&self, host: &str) -> Result<(), Error> {
        let fit = |(_, list): &(_, Vec<String>)| list.iter().any(|pattern| fits(pattern, host));
        self.check(self.far_ends.iter().all(fit), || {
            let by = self.by("ssh.far_ends");
            format!(
                "{} is no far end that is allowed by {by}; {SEE}",
                shown(host)
            )
        })
    }

    /// Refuses a copy with removals on this host, if the policy forbids them.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check_delete(&self, delete: bool) -> Result<(), Error> {
        self.check(!delete || self.delete, || {
            let by = self.by("data.delete");
            format!("removing what is not at the source is forbidden by {by}; leave out --delete")
        })
    }

    /// The ports for data streams, for a near end that may have asked for a range.
    ///
    /// # Errors
    /// When that range has no port in common with the range in force.
    pub fn ports_of(&self, asked: Option<Ports>) -> Result<Option<Ports>, Error> {
        let (Some(range), Some(allowed)) = (asked, self.ports) else {
            return Ok(asked.or(self.ports));
        };
        let both = file::common(range, allowed);
        self.check(both.is_some(), || {
            let (allowed, by) = (in_words(allowed), self.by("data.ports"));
            let range = in_words(range);
            format!("ports {range} have none of {allowed}, which is the range of {by}; give --ports {allowed}")
        })?;
        Ok(both)
    }

    /// The rules in force, as lines of a file, each with the file that sets it. Defaults are left out.
    pub fn rules(&self) -> Vec<(String, PathBuf)> {
        let said = |key: &str| match key {
            "audit" => "\"required\"".to_owned(),
            "data.ports" => format!("{:?}", self.ports.map(in_words).unwrap_or_default()),
            "quota.copy" => format!("\"{}B\"", self.copy_bytes.unwrap_or_default()),
            "quota.day" => format!("\"{}B\"", self.day_bytes.unwrap_or_default()),
            // What is left are flags, which are true unless they forbid.
            _ => "false".to_owned(),
        };
        let lines = |(key, path): (&&str, &PathBuf)| match *key {
            "ssh.far_ends" => self.far_ends.iter().map(line_of_far_ends).collect(),
            key => vec![(format!("{key} = {}", said(key)), path.clone())],
        };
        self.set_by.iter().flat_map(lines).collect()
    }

    fn check(&self, allowed: bool, why: impl FnOnce() -> String) -> Result<(), Error> {
        if allowed {
            Ok(())
        } else {
            Err(Error::Refused(why()))
        }
    }
}

/// A list of patterns as the line of a file.
fn line_of_far_ends((path, list): &(PathBuf, Vec<String>)) -> (String, PathBuf) {
    let list: Vec<String> = list.iter().map(|pattern| quoted(pattern)).collect();
    let line = format!("ssh.far_ends = [{}]", list.join(", "));
    (line, path.clone())
}

/// A text as TOML has it, without characters that a terminal would not show.
fn quoted(text: &str) -> String {
    let mut said = '"'.to_string();
    for each in text.chars() {
        let as_it_is = printable(each.encode_utf8(&mut [0; 4]).as_bytes());
        match each {
            '"' | '\\' => said.extend(['\\', each]),
            _ if as_it_is.chars().eq([each]) => said.push(each),
            _ => {
                let _ = write!(said, "\\U{:08X}", u32::from(each));
            }
        }
    }
    said + "\""
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// `50000-50100`, or of one port its number.
fn in_words((least, most): Ports) -> String {
    if least == most {
        least.to_string()
    } else {
        format!("{least}-{most}")
    }
}

/// The name of this host.
pub fn nodename() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// The file's content; `None`: there is no file.
fn text_of(path: &Path, owner: u32) -> Result<Option<Vec<u8>>, String> {
    let shown = path.display();
    let unread = |error: io::Error| format!("cannot read {shown}: {}; {SEE}", plain(&error));
    // Not to wait for the writer of a pipe.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return match hidden(path) {
                Some(why) => Err(format!("cannot read {shown}: {why}; {SEE}")),
                None => Ok(None),
            };
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

/// Why a path that cannot be found may be meant to have something: a link on it leads nowhere, or what is there has
/// the name of its folder and is none. `None`: there is nothing.
fn hidden(path: &Path) -> Option<String> {
    let there = |at: &&Path| fs::symlink_metadata(at).is_ok();
    let at = path.ancestors().find(there)?;
    let found = fs::metadata(at);
    if found.is_err() {
        return Some(format!("{} is a link that leads nowhere", at.display()));
    }
    let is_folder = found.is_ok_and(|found| found.is_dir());
    (path.parent() == Some(at) && !is_folder).then(|| format!("{} is no folder", at.display()))
}

/// Refuses a file, or its folder, that others can write to.
fn check(path: &Path, file: &File, owner: u32) -> Result<(), String> {
    let shown = path.display();
    let unread = |error: io::Error| format!("cannot read {shown}: {}; {SEE}", plain(&error));
    let found = file.metadata().map_err(unread)?;
    if !found.is_file() {
        return Err(format!("{shown} is no policy: it is no file; {SEE}"));
    }
    let whose = if owner == ROOT { "root's" } else { "yours" };
    let mend = |mode: u32| match owner {
        ROOT => format!(" (chown root, chmod {mode}); {SEE}"),
        _ => format!("; chmod {mode}"),
    };
    if !is_of(&found, owner) {
        return Err(format!(
            "{shown} must be {whose} and nobody else's to write{}",
            mend(644)
        ));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    if !is_of(&fs::metadata(folder).map_err(unread)?, owner) {
        return Err(format!(
            "{}, which has a policy in it, must be {whose} and nobody else's to write{}",
            folder.display(),
            mend(755)
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
mod tests;
