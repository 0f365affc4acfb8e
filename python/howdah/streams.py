"""The standard streams of a program of howdah."""

import io
import os
import sys

CLOSED: set[int] = set()
"""The descriptors of those that were closed when the program began."""


def ready() -> None:
    """Has the standard streams there, and able to write whatever is said.

    A stream that is closed becomes /dev/null, so that no other file gets its number. What the encoding of the
    output lacks is written with a backslash, in the locale C too, where Python would raise an error for it.
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
