//! Quotas: the bytes that one copy, and the copies of a user in a day, may move at this end.
//!
//! Payload that has arrived at the receiver is counted. Skipped files are not. A day is a day of UTC. The bytes of a
//! day are kept in a file of the user. So the quota is binding for a user who cannot change that file: one whose
//! login has a forced command. For other users it only prevents mistakes. A file system's quota is binding for them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use howdah_units::Bytes;
use rustix::fs::{FlockOperation, flock};

use crate::policy::nodename;
use crate::{Error, Policy, plain};

const DAY_S: u64 = 86_400;
/// `2026-11-25 00000000000000000000` and the end of the line.
const LINE_BYTES: usize = 32;

/// Counts what one copy moves.
pub struct Quota {
    copy: Option<(u64, String)>,
    day: Option<(u64, String)>,
    /// The file of the bytes of a day; without, the user's own.
    file: Option<PathBuf>,
    counted: u64,
}

impl Quota {
    /// By the limits of a policy.
    pub fn new(policy: &Policy) -> Self {
        Self {
            copy: policy
                .copy_bytes
                .map(|most| (most, policy.by("quota.copy"))),
            day: policy.day_bytes.map(|most| (most, policy.by("quota.day"))),
            file: None,
            counted: 0,
        }
    }

    /// Checks the bytes of the copy, if they are known before anything is sent.
    ///
    /// # Errors
    /// Why it may not begin.
    pub fn begin(&mut self, known: Option<u64>) -> Result<(), Error> {
        // What needs a single byte is refused when none is left.
        self.moved(0, known.unwrap_or(1))
    }

    /// Counts the `moved` bytes of the copy so far. The copy is known to move `known` bytes.
    ///
    /// # Errors
    /// Why it may not go on.
    pub fn moved(&mut self, moved: u64, known: u64) -> Result<(), Error> {
        for (most, by) in self.copy.iter().chain(&self.day) {
            if *most == 0 && known > 0 {
                return Err(Error::Refused(format!(
                    "copies that move a byte are forbidden by {by}; raise it, or have it raised"
                )));
            }
        }
        let used = self.count(moved)?;
        if let Some((most, by)) = &self.day
            && used.saturating_add(known.saturating_sub(moved)) > *most
        {
            let most = Bytes(*most);
            return Err(Error::Refused(format!(
                "this copy moves more than is left of {most:.3}, the most that is allowed in a day by {by}; copy \
                 less, or go on after midnight UTC"
            )));
        }
        match &self.copy {
            Some((most, by)) if known > *most => Err(Error::Refused(format!(
                "this copy moves more than {:.3}, the most that is allowed by {by}; copy less at once",
                Bytes(*most)
            ))),
            _ => Ok(()),
        }
    }

    /// Counts the `moved` bytes of the copy so far. Returns the bytes of the day, if they are counted.
    ///
    /// # Errors
    /// When they cannot be counted.
    pub fn count(&mut self, moved: u64) -> Result<u64, Error> {
        if self.day.is_none() {
            return Ok(0);
        }
        let path = match &self.file {
            Some(path) => path.clone(),
            None => day_file().map_err(Error::Broken)?,
        };
        let more = moved.saturating_sub(self.counted);
        let used = add(&path, &today(), more).map_err(Error::Broken)?;
        self.counted = self.counted.max(moved);
        Ok(used)
    }
}

/// The file of this user's bytes of a day on this host; home folders may be shared between hosts.
fn day_file() -> Result<PathBuf, String> {
    let number = rustix::process::geteuid().as_raw();
    // Not by HOME, which a user sets for one command.
    let user = howdah_accounts::user(number).ok_or_else(|| {
        let (nobody, mend) = match howdah_accounts::FILES_ALONE {
            true => (
                "its /etc/passwd has no user",
                ", and a far end that was brought asks nothing else; install howdah on it",
            ),
            false => ("it has no user", "; add the user"),
        };
        format!(
            "cannot count bytes for the policy of this host: {nobody} of number {number}{mend}, or have the key \
             quota.day left out"
        )
    })?;
    Ok(user.home.join(".local/state/howdah/quota").join(nodename()))
}

/// Adds to the bytes of a day, and says what they are then.
fn add(path: &Path, today: &str, more: u64) -> Result<u64, String> {
    let opened = open(path).map_err(|error| {
        format!(
            "cannot count bytes for the policy of this host in {}: {}; make that place yours to write",
            path.display(),
            plain(&error)
        )
    })?;
    let broken = || {
        format!(
            "{} does not say how many bytes were copied today; remove it if you may, or ask this host's \
             administrator",
            path.display()
        )
    };
    let mut text = [0; LINE_BYTES + 1];
    let length = opened.read_at(&mut text, 0).map_err(|_| broken())?;
    let before = match &text[..length] {
        [] => 0,
        line => {
            let (day, bytes) = read(line).ok_or_else(broken)?;
            if day == today { bytes } else { 0 }
        }
    };
    let used = before.saturating_add(more);
    if more > 0 || !text.starts_with(today.as_bytes()) {
        let line = format!("{today} {used:020}\n");
        opened
            .write_all_at(line.as_bytes(), 0)
            .map_err(|_| broken())?;
    }
    Ok(used)
}

/// Opens the file, made if it is missing, and locks it: a copy of the same user may count at this moment.
fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// The day and the bytes of the line that a file is; `None` for what is no such line.
fn read(line: &[u8]) -> Option<(&str, u64)> {
    let text = str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (day, bytes) = text.split_once(' ')?;
    let digits =
        |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let mut parts = day.split('-');
    let is_day = [4, 2, 2]
        .iter()
        .all(|&count| parts.next().is_some_and(|part| digits(part, count)));
    (is_day && parts.next().is_none() && digits(bytes, 20))
        .then(|| Some((day, bytes.parse().ok()?)))?
}

/// This day of UTC.
fn today() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    date(now.as_secs() / DAY_S)
}

/// The date so many days after 1970-01-01: Hinnant, *chrono-Compatible Low-Level Date Algorithms*, `civil_from_days`.
fn date(days: u64) -> String {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, is) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_782, "2026-11-25"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(date(days), is);
        }
    }

    #[test]
    fn the_bytes_of_a_day_add_up_and_begin_anew_with_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/er/host");
        assert_eq!(add(&file, "2026-11-25", 0), Ok(0));
        assert_eq!(add(&file, "2026-11-25", 5), Ok(5));
        assert_eq!(add(&file, "2026-11-25", 6), Ok(11));
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            "2026-11-25 00000000000000000011\n"
        );
        assert_eq!(add(&file, "2026-11-26", 1), Ok(1));
        for broken in [
            "2026-11-25 11\n",
            "x",
            "2026-11-25 00000000000000000011\nmore",
        ] {
            fs::write(&file, broken).unwrap();
            let said = add(&file, "2026-11-25", 0).unwrap_err();
            assert!(
                said.contains("does not say how many bytes were copied today"),
                "{said}"
            );
        }
    }

    /// A quota, with its file below a folder.
    fn limited(folder: &Path, copy: Option<u64>, day: Option<u64>) -> Quota {
        let by = |most| (most, "the policy of host dtn1".to_owned());
        Quota {
            copy: copy.map(by),
            day: day.map(by),
            file: Some(folder.join("state/quota/host")),
            counted: 0,
        }
    }

    fn refusal(answer: Result<(), Error>) -> String {
        match answer {
            Err(Error::Refused(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_copy_moves_no_more_than_it_may_and_without_a_quota_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut free = limited(folder.path(), None, None);
        free.begin(Some(1 << 60)).unwrap();
        free.moved(1 << 60, 1 << 60).unwrap();
        assert_eq!(free.count(1 << 60), Ok(0));
        let mut quota = limited(folder.path(), Some(100), None);
        quota.begin(None).unwrap();
        quota.begin(Some(100)).unwrap();
        quota.moved(100, 100).unwrap();
        for why in [
            quota.begin(Some(101)),
            quota.moved(0, 101),
            quota.moved(101, 101),
        ] {
            let why = refusal(why);
            assert!(why.starts_with(
                "this copy moves more than 100 B, the most that is allowed by the policy"
            ));
        }
        assert!(!folder.path().join("state").exists());
    }

    #[test]
    fn a_quota_of_nothing_forbids_every_copy_that_moves_a_byte() {
        let folder = tempfile::tempdir().unwrap();
        for (copy, day) in [(Some(0), None), (None, Some(0)), (Some(0), Some(0))] {
            let mut quota = limited(folder.path(), copy, day);
            for why in [quota.begin(Some(1)), quota.begin(None), quota.moved(0, 1)] {
                assert_eq!(
                    refusal(why),
                    "copies that move a byte are forbidden by the policy of host dtn1; raise it, or have it raised"
                );
            }
            quota.begin(Some(0)).unwrap();
        }
    }

    #[test]
    fn copies_of_a_day_count_together_and_each_byte_once() {
        let folder = tempfile::tempdir().unwrap();
        let [mut first, mut second] = [(); 2].map(|()| limited(folder.path(), None, Some(100)));
        first.begin(None).unwrap();
        for moved in [10, 20, 20, 40] {
            first.moved(moved, moved).unwrap();
        }
        second.begin(Some(60)).unwrap();
        assert!(
            refusal(second.begin(Some(61)))
                .contains("more than is left of 100 B, the most that is allowed in a day")
        );
        second.moved(50, 50).unwrap();
        assert_eq!(second.count(50), Ok(90));
        // Both go on at once: the one that comes too late is ended.
        first.moved(50, 50).unwrap();
        refusal(second.moved(51, 51));
        // What needs a single byte is refused when none is left.
        refusal(limited(folder.path(), None, Some(100)).begin(None));
    }

    #[test]
    fn the_file_is_its_users_alone_and_a_place_that_takes_none_stops_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        let mut quota = limited(folder.path(), None, Some(100));
        quota.count(1).unwrap();
        let file = folder.path().join("state/quota/host");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        fs::remove_dir_all(folder.path().join("state")).unwrap();
        fs::write(folder.path().join("state"), "a file").unwrap();
        let why = quota.begin(None).unwrap_err().to_string();
        assert!(
            why.starts_with("cannot count bytes for the policy of this host in /"),
            "{why}"
        );
        assert!(
            why.ends_with("state/quota/host: Not a directory; make that place yours to write"),
            "{why}"
        );
    }

    #[test]
    fn the_file_is_in_the_home_folder_that_the_host_names() {
        // Not in the one that HOME names, which a user sets for one command.
        let home = howdah_accounts::user(rustix::process::geteuid().as_raw())
            .unwrap()
            .home;
        assert_eq!(
            day_file(),
            Ok(home.join(".local/state/howdah/quota").join(nodename()))
        );
    }
}
