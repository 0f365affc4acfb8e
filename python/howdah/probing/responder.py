"""The far end of a probing by UDP, ``howdah respond``: started over ssh, says where it listens, and answers.

It ends when its standard input does, so it never outlives the ssh that started it.
"""

import os
import sys
import time
from collections.abc import Callable

import msgspec

from howdah import HowdahError, __version__, _native, document
from howdah.probing.probing import TICK_S
from howdah.remote import ssh
from howdah.remote.ssh_errors import explain

_END_S = 2.0
_GREETING_BYTES_MAX = 4096


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """What the far end says on its standard output, in one line."""

    version: str
    address: str | None = None
    """Of it, as ssh reached it."""
    port: int
    token: str


def main(words: list[str]) -> int:
    """``howdah respond``, and its exit code."""
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
    """At the address that ssh came in by, so that answers leave from it; else at any."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    address = words[2] if len(words) == 4 else None
    if address is not None and "%" not in address:
        return address, _native.Responder(address)
    try:
        return address, _native.Responder("::")
    except HowdahError:
        return address, _native.Responder("0.0.0.0")  # noqa: S104


class FarResponder:
    """A running ``ssh HOST howdah respond``; ends with the ``with``."""

    def __init__(self, login: ssh.Login, far_howdah: str | None, *, asks: bool) -> None:
        self._far = ssh.Far(login, login.start(far_howdah, asks=asks, role="respond"))
        self._done = False

    def __enter__(self) -> "FarResponder":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._far.write_fd)
        os.close(self._far.read_fd)
        if not self._done or self._far.exit_status(_END_S) is None:
            self._far.end()

    def greeting(self, within_s: float | None, far_says: Callable[[str], None]) -> Greeting:
        """Waits for it, at most so long. Raises HowdahError with the cause when none comes."""
        far, host = self._far, self._far.login.host
        deadline = None if within_s is None else time.monotonic() + within_s
        said = b""
        while not said.endswith(b"\n"):
            if deadline is not None and time.monotonic() > deadline:
                raise HowdahError(f"ssh to {host} did not answer within {within_s:g} s; try: ssh {host} true")
            if ssh.readable(far.read_fd, TICK_S):
                piece = os.read(far.read_fd, _GREETING_BYTES_MAX)
                said += piece
                if not piece or len(said) > _GREETING_BYTES_MAX:
                    break
        try:
            greeting = document.strange(msgspec.json.decode(said, type=Greeting))
        except msgspec.MsgspecError:
            status, stderr = far.exit_status(_END_S), far.stderr()
            if status and "No such command" not in stderr:
                raise HowdahError(explain(host, status, stderr)) from None
            raise HowdahError(
                f"howdah on {host} is another version, which answers no probes; "
                "install the same version on both hosts"
            ) from None
        far_says(far.says())
        self._done = True
        return greeting
