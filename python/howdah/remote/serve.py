"""The far end, ``howdah serve``: started by the near end's ssh, speaks on standard input and output.

With ``--root DIR`` it is what a login for copies alone runs, as the forced command of a key or a user. sshd
then says in SSH_ORIGINAL_COMMAND what the client asked for; that is compared and never run.
"""

import os
import sys

from howdah import HowdahError, _native
from howdah.text import printable

_MISUSED = (
    "serve is the far end of a copy and is started over ssh; use: howdah cp SRC… HOST:PATH. "
    "For a login of copies alone, in authorized_keys: howdah serve --root DIR [--read-only]"
)
_ASKED_BYTES_MAX = 200


def main(arguments: list[str]) -> int:
    """Serves one session and returns the exit code."""
    try:
        root, read_only = _options(arguments)
        _check_asked(forced=root is not None)
    except HowdahError as error:
        print(f"howdah: {error}", file=sys.stderr)
        return 2
    try:
        far = _native.FarEnd()
        if root is None:
            far.harden()
        else:
            _confine(far, root, read_only=read_only)
        return far.serve(0, 1)
    except HowdahError as error:
        print(f"howdah: {error}", file=sys.stderr)
        return 1


def _options(words: list[str]) -> tuple[str | None, bool]:
    """The folder that is served alone, if one is, and whether it is only read. Raises HowdahError."""
    root, read_only, rest = None, False, list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name == "--root" and root is None and (value if equals else rest):
            root = value if equals else rest.pop(0)
        elif name == "--read-only" and not equals:
            read_only = True
        else:
            raise HowdahError(_MISUSED)
    if read_only and root is None:
        raise HowdahError("--read-only is of a folder; give it with --root DIR, all files with --root /")
    if sys.stdin.isatty():
        raise HowdahError(_MISUSED)
    return root, read_only


def _check_asked(*, forced: bool) -> None:
    """Refuses a client that wants something else of a login for copies. Raises HowdahError."""
    asked = os.environ.get("SSH_ORIGINAL_COMMAND")
    if asked is None:
        if forced and "SSH_CONNECTION" in os.environ:
            raise HowdahError(
                "this login is for copies alone, without a shell; use: howdah cp SRC… HOST:PATH"
            )
        return
    import shlex  # noqa: PLC0415

    try:
        words = shlex.split(asked)
    except ValueError:
        words = []
    if len(words) != 2 or words[1] != "serve":
        shown = printable(os.fsencode(asked), _ASKED_BYTES_MAX)
        raise HowdahError(f"this login is for copies by howdah cp alone, it does not run: {shown}")


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
