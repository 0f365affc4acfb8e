"""What a far host answers where howdah does not, in words."""

import re

from howdah import HowdahError
from howdah.remote.ssh import LOST, explain
from howdah.text import printable

FOREIGN = "the other end is not howdah; it said: "
"""The beginning of an error of the session (crates/wire/src/frame.rs)."""
_SAID_BYTES_MAX = 400
_NOT_FOUND = 127
_NO_SH = re.compile(
    r"(^|[\s:])sh: ((command )?not found|no such file)|(command not found|unknown command): sh$",
    re.IGNORECASE | re.MULTILINE,
)
"""How shells say that they find no sh, with which every command of ours begins (``far_command``)."""


def not_howdah(host: str, said: str | bytes) -> HowdahError:
    """The error for a host that first said something else than howdah does."""
    return HowdahError(
        f"{host}: {FOREIGN}{printable(said.strip(), _SAID_BYTES_MAX)}; "
        f"a start-up file of the shell on {host} (.bashrc, .profile) must write to standard output "
        "only where a terminal is there: if [ -t 1 ]"
    )


def not_started(host: str, status: int, stderr: str) -> str | None:
    """How a howdah that is there failed to start, in words; null where it, the shell or ssh has said why.

    ``far_command`` has run, which says by itself where there is none.
    """
    last = _last(stderr)
    if status == LOST or _finds_no_sh(status, stderr):
        return None
    match status:
        case 127:
            likely = "most likely because what its first line names is not there"
            return f"howdah on {host} cannot be started ({last}), {likely}"
        case 126:
            return f"howdah on {host} cannot be run ({last})"
        case _ if not last.startswith("howdah: "):
            return f"howdah on {host} ended before it answered ({last})"
        case _:
            return None


def ended(host: str, status: int, stderr: str, *, anew: bool = False) -> str:
    """Explains how ``ssh HOST howdah …`` ended, given its exit status and standard error.

    ``anew``: it was ``far_command`` with ANEW, which looks for no howdah.
    """
    if _finds_no_sh(status, stderr):
        return (
            f"the shell of a login on {host} finds no sh, so howdah can be neither found nor brought there; "
            "mend PATH in its start-up files (.bashrc, .profile), or give --far-howdah PATH"
        )
    if anew and status == _NOT_FOUND:
        return (
            f"the command that {host} runs for this login was not found ({_last(stderr)}); it is a forced "
            "command (command= in authorized_keys, ForceCommand in sshd_config), which the administrator of "
            f"{host} can mend"
        )
    return explain(host, status, stderr)


def _finds_no_sh(status: int, stderr: str) -> bool:
    return status == _NOT_FOUND and _NO_SH.search(stderr) is not None


def _last(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return printable(lines[-1], _SAID_BYTES_MAX) if lines else "it said nothing"
