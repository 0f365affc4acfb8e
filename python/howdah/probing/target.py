"""Where probes go: a host as ssh knows it, a name, or an address."""

import socket

from howdah import HowdahError
from howdah.remote import ssh


class Target:
    """One HOST of a command line."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.name = host.rpartition("@")[2]
        """Without the user."""
        if not self.name or not host.isprintable() or host.startswith("-") or any(c in host for c in " /[]"):
            raise HowdahError(f"{host!r} names no host; write for example: howdah probe dtn2")

    def login(self) -> ssh.Login:
        """How ssh would reach it. Raises HowdahError where there is no ssh."""
        return ssh.Login(self.host)

    def address(self) -> str:
        """Of the host itself, as ``192.0.2.7`` or ``fe80::7%3``: the first that a route leads to.

        ssh is only asked what the name means in its configuration. Raises HowdahError for a name that is
        unknown, and where there is no route.
        """
        try:
            name = self.login().config.get("hostname", self.name)
        except HowdahError:
            # No ssh on this host, and none needed for ICMP.
            name = self.name
        problem = ""
        for address in resolved(name, self.name):
            try:
                _connect(address)
            except OSError as error:
                problem = problem or f"{address}: {error.strerror}"
            else:
                return address
        raise HowdahError(f"no route to {self.name} ({problem}); check the network, or its address")


def resolved(name: str, shown: str) -> list[str]:
    """The addresses of a name; ``shown`` is what the user calls it."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        raise HowdahError(
            f"unknown host {shown}; check the name, or give it a HostName in ~/.ssh/config"
        ) from None
    return [_written(family, at) for family, _, _, _, at in found]


def endpoint(address: str, port: int) -> str:
    """As crates/probe reads it."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _connect(address: str) -> None:
    """Asks the kernel for a route and sends nothing."""
    host, _, scope = address.partition("%")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((host, 9, 0, int(scope or 0)) if ":" in host else (host, 9))


def _written(family: int, at: tuple[object, ...]) -> str:
    scope = f"%{at[3]}" if family == socket.AF_INET6 and at[3] else ""
    return f"{str(at[0]).partition('%')[0]}{scope}"
