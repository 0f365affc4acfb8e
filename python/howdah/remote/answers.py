"""What a far host answers where howdah does not, in words."""

import re

from howdah import HowdahError
from howdah.remote.ssh import explain
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


def ended(host: str, status: int, stderr: str) -> str:
    """Explains how ``ssh HOST howdah …`` ended, given its exit status and standard error."""
    if status == _NOT_FOUND and _NO_SH.search(stderr):
        return (
            f"the shell of a login on {host} finds no sh, so howdah can be neither found nor brought there; "
            "mend PATH in its start-up files (.bashrc, .profile), or give --far-howdah PATH"
        )
    return explain(host, status, stderr)
