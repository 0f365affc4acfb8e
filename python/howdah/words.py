"""What people read, where it is said in more than one place."""

from collections.abc import Iterable

_NAMED = 6


def count(number: int, noun: str) -> str:
    """As ``1 file`` and ``1,200 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def some(names: Iterable[str]) -> str:
    """As ``near and far``; of many names the first few, and how many more."""
    known = list(names)
    shown = known if len(known) <= _NAMED else [*known[:_NAMED], f"{len(known) - _NAMED:,} more"]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
