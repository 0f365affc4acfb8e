"""What ssh or a far host answers where howdah does not: what it means, and whether another try may help."""

import re

from howdah import HowdahError
from howdah.remote.process import LOST
from howdah.remote.ssh import CONNECT_TIMEOUT_S
from howdah.text import INSTALL, printable

FOREIGN = "the other end is not howdah; it said: "
"""The beginning of an error of the session (crates/wire/src/frame.rs)."""
_SAID_BYTES_MAX = 400
_NOT_FOUND = 127
_NO_SH = re.compile(
    r"(^|[\s:])sh: ((command )?not found|no such file)|(command not found|unknown command): sh$",
    re.IGNORECASE | re.MULTILINE,
)
"""How shells say that they find no sh, with which every command of ours begins (``far_command``)."""
_TURNED_AWAY = ("connection closed by", "connection reset by")
"""What ssh writes of a connection that ends before the login; of one later: ``Connection to HOST closed``."""
_LOGIN = "{host} refuses the login; first make this work: ssh {host} true"
_ROUTE = "no route to {host}; check the network, or its address"
_CAUSES = {
    "could not resolve hostname": (
        "unknown host {host}; check the name, or give it a HostName in ~/.ssh/config"
    ),
    "connection refused": (
        "{host} refuses ssh: nothing listens on {port} there; start sshd, or give the port of sshd: "
        "Port in ~/.ssh/config, or -p in the ssh command"
    ),
    "during banner exchange": (
        "{host} takes connections, but no ssh answers there; check its port, which Port in ~/.ssh/config sets"
    ),
    "timed out": (
        f"{{host}} did not answer ssh within {CONNECT_TIMEOUT_S} s; "
        "check that it is up, and that no firewall is in the way"
    ),
    "no route to host": _ROUTE,
    "network is unreachable": _ROUTE,
    "remote host identification has changed": (
        "the host key of {host} has changed; if you expected that: ssh-keygen -R {host}"
    ),
    "host key verification failed": (
        "the host key of {host} is not known; check it and accept it once with: ssh {host} true"
    ),
    "too many authentication failures": (
        "{host} refuses the login, for ssh offers it too many keys; name the right one in ~/.ssh/config "
        "with IdentityFile, and say IdentitiesOnly yes there"
    ),
    "permission denied": _LOGIN,
} | dict.fromkeys(
    _TURNED_AWAY,
    "{host} closed the connection before the login; its sshd takes only so many at a time "
    "(MaxStartups in its sshd_config), or what listens on that port is no sshd",
)
"""The errors of ssh (any version since 6.0; it has no translations), and what the user is told."""
_REFUSALS = (
    "remote host identification has changed",
    "host key verification failed",
    "permission denied",
    "too many authentication failures",
)
"""What ssh writes where no other try would do better."""
_SIGNALLED = 128
"""A shell's exit code is above this when a signal ended its program."""


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


def may_pass(status: int | None, stderr: str) -> bool:
    """Whether what ended ``ssh HOST howdah serve`` may be gone when it is tried again."""
    refused = any(pattern in stderr.lower() for pattern in _REFUSALS)
    signalled = status is not None and (status < 0 or _SIGNALLED < status < LOST)
    return status is None or signalled or (status == LOST and not refused)


def turned_away(status: int | None, stderr: str) -> bool:
    """Whether the far sshd closed the connection before the login, as it does where too many come at once."""
    return may_pass(status, stderr) and any(pattern in stderr.lower() for pattern in _TURNED_AWAY)


def explain(host: str, status: int | None, stderr: str) -> str:
    """Explains how ``ssh HOST howdah serve`` ended, given its exit status and standard error."""
    last = _last(stderr)
    match status:
        case 255:
            known = (text for pattern, text in _CAUSES.items() if pattern in stderr.lower())
            unknown = f"ssh to {{host}} failed ({_plain(last)}); first make this work: ssh {{host}} true"
            port = stderr.lower().partition(": connection refused")[0].rpartition(" port ")[2]
            port = f"port {port}" if port.isdecimal() else "that port"
            return next(known, unknown).format(host=host, port=port)
        case 127:
            return (
                f"howdah was not found on {host}; install it there {INSTALL}, "
                "or give its path with --far-howdah PATH"
            )
        case 126:
            return (
                f"howdah on {host} cannot be run ({last}); check its permissions, or give --far-howdah PATH"
            )
        case int() if status < 0:
            return f"ssh to {host} was ended by signal {-status}; start the copy again"
        case _ if last.startswith("howdah: "):
            return f"{host}: {last.removeprefix('howdah: ')}"
        case _:
            return f"howdah on {host} ended before it answered ({last}); try: ssh {host} howdah --version"


def _finds_no_sh(status: int, stderr: str) -> bool:
    return status == _NOT_FOUND and _NO_SH.search(stderr) is not None


def _last(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return printable(lines[-1], _SAID_BYTES_MAX) if lines else "it said nothing"


def _plain(text: str) -> str:
    """The text as ``format`` gives it back."""
    return text.replace("{", "{{").replace("}", "}}")
