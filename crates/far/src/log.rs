//! The log of this host: journald's own socket, or else the syslog socket; one datagram a line. The twin of
//! `python/howdah/site/log.py`, which names the sources.

use std::fmt::Write;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const IDENTIFIER: &str = "howdah";
const JOURNAL: &str = "/run/systemd/journal/socket";
const SYSLOG: &str = "/dev/log";
/// The facility `LOG_AUTHPRIV`: a line names files, so not everybody may read it.
const PRIVATE: u8 = 10;
/// A log that has stopped reading must not hold a copy.
const SEND: Duration = Duration::from_secs(2);

/// Writes one line, with its fields where the log takes any. Neither has control characters in it.
///
/// # Errors
/// When no log takes it.
pub fn write(line: &str, severity: u8, fields: &[(&str, String)]) -> io::Result<()> {
    let process = std::process::id();
    let mut journal = format!(
        "MESSAGE={line}\nPRIORITY={severity}\nSYSLOG_FACILITY={PRIVATE}\n\
         SYSLOG_IDENTIFIER={IDENTIFIER}\nSYSLOG_PID={process}\n"
    );
    for (key, value) in fields {
        let _ = writeln!(journal, "{key}={value}");
    }
    send(JOURNAL, &journal).or_else(|_| {
        let facility = PRIVATE << 3 | severity;
        let stamp = stamp(SystemTime::now());
        send(
            SYSLOG,
            &format!("<{facility}>{stamp} {IDENTIFIER}[{process}]: {line}"),
        )
    })
}

fn send(path: impl AsRef<Path>, datagram: &str) -> io::Result<()> {
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
    fn a_datagram_arrives_whole_and_a_log_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("log");
        assert!(send(&at, "nobody").is_err());
        let log = UnixDatagram::bind(&at).unwrap();
        send(&at, "copy {}").unwrap();
        let mut buffer = [0; 100];
        let length = log.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"copy {}");
    }

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
