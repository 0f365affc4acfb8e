"""The far end, ``howdah serve``: started by the near end's ssh, speaks on standard input and output.

It carries out what the policy of its own host allows, whatever the near end's host says.

With ``--root DIR`` it is what a login for copies alone runs, as the forced command of a key or a user. sshd
then says in SSH_ORIGINAL_COMMAND what the client asked for; that is compared and never run.
"""

import os
import sys
from _thread import start_new_thread

from howdah import HowdahError, _native
from howdah.remote import far_command
from howdah.site import policy
from howdah.text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    Ports = tuple[int, int]

_MISUSED = (
    "serve is the far end of a copy and is started over ssh; use: howdah cp SRC… HOST:PATH. "
    "For a login of copies alone, in authorized_keys: howdah serve --root DIR [--read-only]"
)
_ASKED_BYTES_MAX = 200


def main(arguments: list[str]) -> int:
    """Serves one session and returns the exit code."""
    try:
        root, read_only, asked = _options(arguments)
        # A forced command has options of its own, and the client of such a login may ask for a range, too.
        asked = _asked_of_login(forced=root is not None) or asked
    except HowdahError as error:
        print(f"howdah: {error}", file=sys.stderr)
        return 2
    try:
        ports = policy.in_force().ports_of(asked)
        if root is not None:
            # A confined process cannot read the policy, count bytes of the day or reach the log.
            from howdah.remote.overseer_process import started  # noqa: PLC0415

            with started(root) as overseer:
                far = _native.FarEnd(overseer, ports)
                _confine(far, root, read_only=read_only)
                return far.serve(0, 1)
        far = _native.FarEnd(Overseer(), ports)
        far.harden()
        # The greeting goes out meanwhile, and a job comes a round trip later at the earliest.
        start_new_thread(_load, ())
        try:
            return far.serve(0, 1)
        finally:
            # A C extension whose loading is broken off crashes when Python ends.
            _load()
    except HowdahError as error:
        print(f"howdah: {error}", file=sys.stderr)
        return 1


def _load() -> None:
    """Loads what it takes to decide on a job, or waits until it is loaded."""
    from howdah.remote import oversight  # noqa: F401, PLC0415


class Overseer:
    """Decides on the copy of a far end by the policy of its host."""

    def accept(self, job: bytes) -> None:
        """Takes a FarJob (messages.py) before anything is opened. Raises HowdahError to refuse it."""
        from howdah.remote.oversight import Oversight  # noqa: PLC0415

        self._oversight = Oversight(job)

    def moved(self, moved: int, known: int) -> None:
        """Takes each 0.1 s the bytes that have arrived, and all that the copy is known to move.

        Raises HowdahError to end the copy.
        """
        self._oversight.moved(moved, known)

    def ended(self, account: bytes) -> None:
        """Takes the FarAccount (messages.py) of an accepted job, once.

        Raises HowdahError where the outcome must be logged and cannot be.
        """
        self._oversight.ended(account)


def _options(words: list[str]) -> "tuple[str | None, bool, Ports | None]":
    """The folder that is served alone, if one is, whether it is only read, and the range of data ports.

    Raises HowdahError.
    """
    root, read_only, ports, rest = None, False, None, list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name == "--root" and root is None and (value if equals else rest):
            root = value if equals else rest.pop(0)
        elif name == "--read-only" and not equals:
            read_only = True
        elif name == "--ports" and ports is None and (value if equals else rest):
            ports = _range(value if equals else rest.pop(0))
        else:
            raise HowdahError(_MISUSED)
    if read_only and root is None:
        raise HowdahError("--read-only is of a folder; give it with --root DIR, all files with --root /")
    if sys.stdin.isatty():
        raise HowdahError(_MISUSED)
    return root, read_only, ports


def _range(text: str) -> "Ports":
    from howdah.ports import parse  # noqa: PLC0415

    try:
        return parse(text)
    except ValueError as error:
        raise HowdahError(str(error)) from None


def _asked_of_login(*, forced: bool) -> "Ports | None":
    """The range of data ports that the client of a login for copies asks for.

    Raises HowdahError for one that wants something else.
    """
    asked = os.environ.get("SSH_ORIGINAL_COMMAND")
    if asked is None:
        if forced and "SSH_CONNECTION" in os.environ:
            raise HowdahError(
                "this login is for copies alone, without a shell; use: howdah cp SRC… HOST:PATH"
            )
        return None
    import shlex  # noqa: PLC0415

    try:
        words = shlex.split(asked)
    except ValueError:
        words = []
    wanted = far_command.asked(words)
    if len(wanted) == 3 and wanted[:2] == ["serve", "--ports"]:
        return _range(wanted[2])
    if wanted != ["serve"]:
        shown = printable(os.fsencode(asked), _ASKED_BYTES_MAX)
        raise HowdahError(f"this login is for copies by howdah cp alone, it does not run: {shown}")
    return None


def _confine(far: _native.FarEnd, root: str, *, read_only: bool) -> None:
    """Leaves this process nothing but the folder, and says what holds it there. Raises HowdahError."""
    try:
        folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HowdahError(f"cannot serve {printable(os.fsencode(root))}: {error.strerror}") from None
    try:
        abi, whole = far.confine(folder, read_only)
    finally:
        os.close(folder)
    print(
        in_words(read_only=read_only, abi=abi, whole=whole, seccomp=far.harden()), file=sys.stderr, flush=True
    )


def in_words(*, read_only: bool, abi: int | None, whole: bool, seccomp: bool) -> str:
    """What a near end reaches and what holds it there, one line. ``abi`` is landlock's, None without it."""
    holds = ["openat2"]
    lacks = []
    if abi is None:
        lacks.append("landlock")
    else:
        holds.append(f"landlock {abi}" if whole else f"landlock {abi} in part")
    (holds if seccomp else lacks).append("seccomp")
    line = f"paths begin at the folder of this login, {'to read alone' if read_only else 'to read and write'}"
    missing = f"; this kernel has no {' and no '.join(lacks)}" if lacks else ""
    return f"{line}; held by {', '.join(holds)}{missing}"
