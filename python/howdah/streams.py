"""The standard streams of a program of howdah."""

import contextlib
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

CLOSED: set[int] = set()
"""The descriptors of those that were closed when the program began."""


class _Lossy(io.FileIO):
    """A file that takes what it cannot write, and loses it."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Writes what can be written; each write tries anew, since a full disk may have room again."""
        written = None
        with contextlib.suppress(OSError):
            written = super().write(data)
        # Of a pipe that takes nothing now (EAGAIN) it is None.
        return memoryview(data).nbytes if written is None else written


def ready() -> None:
    """Has the standard streams there, and able to write whatever is said.

    A stream that is closed becomes /dev/null, so that no other file gets its number. What the encoding of the
    output lacks is written with a backslash, in the locale C too, where Python would raise an error for it.
    What standard error does not take is lost: a terminal that was closed, a reader that has gone (head) and
    a full disk end nothing that was only to be told of there.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        CLOSED.add(number)
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)
        os.set_inheritable(number, True)
        setattr(sys, name, os.fdopen(number, mode, closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in {"strict", "surrogateescape"}:
        sys.stdout.reconfigure(errors="backslashreplace")
    if isinstance(sys.stderr, io.TextIOWrapper):
        taken = io.BufferedWriter(_Lossy(2, "wb", closefd=False))
        encoding, errors = sys.stderr.encoding, sys.stderr.errors
        sys.stderr = io.TextIOWrapper(taken, encoding=encoding, errors=errors, line_buffering=True)
