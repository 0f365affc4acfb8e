"""The filter rules of a copy: those that were given, and those in the files that they name."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from howdah import HowdahError
from howdah._native import expand_filters
from howdah.text import printable

By = Literal["filter", "exclude", "include", "exclude-from", "include-from"]
"""The option that says what its value is: a rule, a pattern, or a file of patterns."""

Rule = str | tuple[By, str | os.PathLike[str]]
"""A rule as ``--filter`` takes it, or an option with its value."""

_MOST_BYTES = 1 << 20
"""The largest file of rules; crates/filter refuses a list that is longer."""


def read(given: Sequence[Rule], *, nul_separated: bool = False) -> tuple[bytes, ...]:
    """The rules in their order, a text each, with those of the files that they name.

    Raises HowdahError for what is no rule, and for a file that cannot be read.
    """
    if isinstance(given, str):
        raise HowdahError(f"filters must be a list of rules: filters=[{given!r}]")
    pairs = [("filter", each) if isinstance(each, str) else each for each in given]
    return tuple(expand_filters([(by, os.fsencode(text)) for by, text in pairs], nul_separated, _text))


def _text(name: bytes) -> bytes:
    """The text of a file of rules, or of standard input."""
    try:
        if name == b"-":
            return sys.stdin.buffer.read(_MOST_BYTES + 1)
        with Path(os.fsdecode(name)).open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise HowdahError(
            f"cannot read the filter rules in {printable(name)}: {error.strerror}; check the name"
        ) from None
