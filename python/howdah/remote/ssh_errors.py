"""Why ssh or the far end ended before it answered, in one line a user can act on."""

from howdah.remote.ssh import CONNECT_TIMEOUT_S
from howdah.text import printable

_LAST_BYTES_MAX = 400

_LOGIN = "{host} refuses the login; make this work first: ssh {host} true"
_ROUTE = "no route to {host}; check the network, or its address"
_CAUSES = {
    "could not resolve hostname": (
        "unknown host {host}; check the name, or give it a HostName in ~/.ssh/config"
    ),
    "connection refused": (
        "{host} refuses ssh, nothing listens on that port; start sshd there, or set Port in ~/.ssh/config"
    ),
    "timed out": (
        f"{{host}} did not answer ssh within {CONNECT_TIMEOUT_S} s; "
        "check that it is up, and that no firewall is in the way"
    ),
    "no route to host": _ROUTE,
    "network is unreachable": _ROUTE,
    "remote host identification has changed": (
        "the host key of {host} is not the one seen before; if that is expected: ssh-keygen -R {host}"
    ),
    "host key verification failed": (
        "the host key of {host} is not known; look at it and accept it once with: ssh {host} true"
    ),
    "permission denied": _LOGIN,
    "too many authentication failures": _LOGIN,
}
"""What ssh writes (any version since 6.0, in English: it has no translations), and what we say."""


def explain(host: str, status: int | None, stderr: str) -> str:
    """What happened to ``ssh HOST howdah serve``, given its exit status and standard error."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = printable(lines[-1], _LAST_BYTES_MAX) if lines else "it said nothing"
    match status:
        case 255:
            known = (text for pattern, text in _CAUSES.items() if pattern in stderr.lower())
            unknown = f"ssh to {{host}} failed ({_escaped(last)}); make this work first: ssh {{host}} true"
            return next(known, unknown).format(host=host)
        case 127:
            return (
                f"howdah was not found on {host}; install it there with: pip install howdah, "
                "or say where it is with --far-howdah PATH"
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


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
