"""The far end of a probing: the address of a host, and the responder that answers UDP there.

``howdah respond`` is started over ssh, says where it listens, and answers. It ends when its standard input
does, so it never outlives the ssh that started it.
"""

import os
import socket
import sys
import time
from collections.abc import Callable

import msgspec

from howdah import HowdahError, __version__, _native, decoding, document, interrupt
from howdah.probing.prober import TICK_S
from howdah.remote import process, ssh
from howdah.remote.answers import ended, not_howdah
from howdah.remote.endpoints import bare

_END_S = 2.0
_GREETING_BYTES_MAX = 4096


class Target:
    """A HOST from a command line, as ssh or a resolver understands it."""

    def __init__(self, host: str) -> None:
        host = self.host = bare(host)
        self.name = host.rpartition("@")[2]
        """The host without the user."""
        if not self.name or not host.isprintable() or host.startswith("-") or any(c in host for c in " /[]"):
            raise HowdahError(f"{host!r} is not a host; give for example: howdah probe dtn2")

    def login(self) -> ssh.Login:
        """The login that ssh would use. Raises HowdahError where there is no ssh."""
        return ssh.Login(self.host)

    def address(self) -> str:
        """The first address of the host that has a route, as ``192.0.2.7`` or ``fe80::7%3``.

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
    """The addresses of a name. Raises HowdahError, naming ``shown``, where there are none."""
    try:
        # Of a text, Python makes a name for DNS, for which it loads what only other letters need.
        host = name.encode() if name.isascii() else name
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        raise HowdahError(
            f"unknown host {shown}; check the name, or give it a HostName in ~/.ssh/config"
        ) from None
    return [_as_text(family, at) for family, _, _, _, at in found]


def endpoint(address: str, port: int) -> str:
    """An address and a port as crates/probe reads them."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _connect(address: str) -> None:
    """Asks the kernel for a route and sends nothing."""
    host, _, scope = address.partition("%")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((host, 9, 0, int(scope or 0)) if ":" in host else (host, 9))


def _as_text(family: int, at: tuple[object, ...]) -> str:
    scope = f"%{at[3]}" if family == socket.AF_INET6 and at[3] else ""
    return f"{str(at[0]).partition('%')[0]}{scope}"


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """The line that the far end writes to its standard output."""

    version: str
    address: str | None = None
    """The address by which ssh reached it; null: not known."""
    port: int
    token: str


def respond(words: list[str]) -> int:
    """Runs ``howdah respond`` and returns its exit code."""
    if words or sys.stdin.isatty():
        print(
            "howdah: respond is the far end of a probe and is started over ssh; use: howdah probe --udp HOST",
            file=sys.stderr,
        )
        return 2
    try:
        address, responder = _open()
        greeting = Greeting(version=__version__, address=address, port=responder.port, token=responder.token)
        os.write(sys.stdout.fileno(), msgspec.json.encode(greeting) + b"\n")
        responder.run(sys.stdin.fileno())
    except (HowdahError, OSError) as error:
        print(f"howdah: {error}", file=sys.stderr)
        return 1
    return 0


def _open() -> tuple[str | None, _native.Responder]:
    """Listens at the address that ssh came in by, so that answers leave from it, or else at all addresses."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    address = words[2] if len(words) == 4 else None
    if address is not None and "%" not in address:
        return address, _native.Responder(address)
    try:
        return address, _native.Responder("::")
    except HowdahError:
        return address, _native.Responder("0.0.0.0")  # noqa: S104


class FarResponder:
    """A running ``ssh HOST howdah respond``, which ends with the ``with`` block."""

    def __init__(self, login: ssh.Login, far_howdah: str | None, *, asks: bool) -> None:
        self._far = process.FarProcess(login, login.start(far_howdah, asks=asks, role="respond"))
        self._done = False

    def __enter__(self) -> "FarResponder":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._far.write_fd)
        os.close(self._far.read_fd)
        if not self._done or self._far.exit_status(_END_S) is None:
            self._far.end()

    def greeting(self, within_s: float | None, far_says: Callable[[str], None]) -> Greeting:
        """Waits at most ``within_s`` for the greeting. Raises HowdahError with the cause when none comes."""
        far, host = self._far, self._far.login.host
        deadline = None if within_s is None else time.monotonic() + within_s
        said = b""
        while not said.endswith(b"\n"):
            interrupt.check()
            if deadline is not None and time.monotonic() > deadline:
                raise HowdahError(f"ssh to {host} did not answer within {within_s:g} s; try: ssh {host} true")
            if process.readable(far.read_fd, TICK_S):
                piece = os.read(far.read_fd, _GREETING_BYTES_MAX)
                said += piece
                if not piece or len(said) > _GREETING_BYTES_MAX:
                    break
        try:
            greeting = document.strange(decoding.from_json(said, Greeting))
        except msgspec.MsgspecError as error:
            if said and not isinstance(error, msgspec.ValidationError):
                raise not_howdah(host, said) from None
            status, stderr = far.exit_status(_END_S), far.stderr()
            if status and "No such command" not in stderr:
                raise HowdahError(ended(host, status, stderr)) from None
            raise HowdahError(
                f"howdah on {host} has another version, which cannot answer probes; "
                "install the same version on both hosts"
            ) from None
        far_says(far.new_stderr())
        self._done = True
        return greeting
