//! The log of this host: journald's own socket, or else the syslog socket; one datagram a line.
//!
//! The C library's syslog() is not used, because it silently drops a line if there is no log, and a policy may
//! require a log. References: systemd's Native Journal Protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL); RFC 3164 §4.1,
//! in the form in which syslog(3) writes it to /dev/log.

use std::fmt::Write;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const IDENTIFIER: &str = "howdah";
const JOURNAL: &str = "/run/systemd/journal/socket";
const SYSLOG: &str = "/dev/log";
/// The facility `LOG_AUTHPRIV`: a line names files, so not everybody may read it.
const PRIVATE: u8 = 10;
/// A log that has stopped reading must not hold a copy.
const SEND: Duration = Duration::from_secs(2);

/// Where the log listens.
#[derive(Debug, Clone)]
pub struct Log {
    pub journal: PathBuf,
    pub syslog: PathBuf,
}

impl Log {
    pub fn of_this_host() -> Self {
        Self {
            journal: JOURNAL.into(),
            syslog: SYSLOG.into(),
        }
    }

    /// Writes one line, with its fields if the log supports them. Neither contains control characters.
    ///
    /// # Errors
    /// When no log takes it.
    pub fn write(&self, line: &str, severity: u8, fields: &[(&str, &str)]) -> io::Result<()> {
        let process = std::process::id();
        let mut journal = format!(
            "MESSAGE={line}\nPRIORITY={severity}\nSYSLOG_FACILITY={PRIVATE}\n\
             SYSLOG_IDENTIFIER={IDENTIFIER}\nSYSLOG_PID={process}\n"
        );
        for (key, value) in fields {
            let _ = writeln!(journal, "{key}={value}");
        }
        send(&self.journal, &journal).or_else(|_| {
            let facility = PRIVATE << 3 | severity;
            let stamp = stamp(SystemTime::now());
            send(
                &self.syslog,
                &format!("<{facility}>{stamp} {IDENTIFIER}[{process}]: {line}"),
            )
        })
    }
}

fn send(path: &Path, datagram: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    sender.set_write_timeout(Some(SEND))?;
    sender.send_to(datagram.as_bytes(), path).map(drop)
}

/// The local time as `Nov 25 09:05:01`, the day padded by a space (RFC 3164 §4.1.2).
fn stamp(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = libc::time_t::try_from(since.as_secs()).unwrap_or_default();
    // SAFETY: all fields of `tm` may be zero, and both pointers are valid for the call.
    let local = unsafe {
        let mut local = std::mem::zeroed::<libc::tm>();
        libc::localtime_r(&raw const seconds, &raw mut local);
        local
    };
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = usize::try_from(local.tm_mon).unwrap_or_default() % MONTHS.len();
    format!(
        "{} {:>2} {:02}:{:02}:{:02}",
        MONTHS[month], local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stamp_has_the_form_of_syslog() {
        let stamp = stamp(UNIX_EPOCH + Duration::from_secs(40 * 365 * 86_400));
        let form: String = stamp
            .chars()
            .map(|each| if each.is_ascii_digit() { '0' } else { each })
            .collect();
        assert_eq!(stamp.len(), "Dec 22 00:00:00".len());
        assert!(form.ends_with("00:00:00"), "{stamp}");
    }
}
