"""The log of this host: journald's own socket, or else the syslog socket; one datagram a line.

Python's ``syslog`` module is not taken: the C library drops a line silently that no log takes, and a policy
may require that one does. References: systemd's Native Journal Protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL);
RFC 3164 §4.1, as syslog(3) writes it to /dev/log.
"""

import os
import socket
import time
from collections.abc import Mapping

IDENTIFIER = "howdah"
JOURNAL = "/run/systemd/journal/socket"
SYSLOG = "/dev/log"
_PRIVATE = 10
"""The facility LOG_AUTHPRIV: a line names files, so not everybody may read it."""
_SEND_S = 2.0


def write(line: str, severity: int, fields: Mapping[str, str]) -> None:
    """Writes one line, with its fields where the log takes any. Neither has control characters in it.

    ``severity`` is syslog's, 0 to 7. Raises OSError where no log takes it.
    """
    journal = {
        "MESSAGE": line,
        "PRIORITY": str(severity),
        "SYSLOG_FACILITY": str(_PRIVATE),
        "SYSLOG_IDENTIFIER": IDENTIFIER,
        "SYSLOG_PID": str(os.getpid()),
        **fields,
    }
    try:
        _send(JOURNAL, "".join(f"{key}={value}\n" for key, value in journal.items()))
    except OSError:
        stamp = time.strftime("%b %e %H:%M:%S")
        _send(SYSLOG, f"<{_PRIVATE << 3 | severity}>{stamp} {IDENTIFIER}[{os.getpid()}]: {line}")


def _send(path: str, datagram: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        # A log that has stopped reading must not hold a copy.
        sender.settimeout(_SEND_S)
        sender.sendto(datagram.encode(), path)
