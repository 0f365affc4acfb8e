"""Words for people that are used in more than one place."""

from collections.abc import Iterable

from howdah import _native

INSTALL = "as docs/install.md says"
"""The way to install howdah. No package is published yet: when one is, this and ``with_extra`` change."""
_NAMED = 6


def printable(text: str | bytes, most_bytes: int | None = None) -> str:
    """Strange text as one line without control characters; what is too long ends in ``…``.

    Text is strange when another host said it, or when it holds the name of a file. It comes through here
    where it is taken in (what a far end says) or where it is shown (errors, names, records).
    """
    if isinstance(text, bytes):
        return _native.printable(text, most_bytes)
    try:
        name = text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        name = text.encode(errors="backslashreplace")
    return _native.printable(name, most_bytes)


def count(number: int, noun: str) -> str:
    """The words ``1 file`` or ``1,200 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def no_room(file: object, mend: str = "free some there") -> str:
    """The words for a file that a full disk does not take."""
    return f"cannot write {file}: no room is left on its file system; {mend}"


def with_extra(name: str) -> str:
    """The command that installs what one of the extras of howdah needs."""
    return f"pip install 'WHEEL[{name}]', with the WHEEL of docs/install.md"


def some(names: Iterable[str]) -> str:
    """The words ``near and far``; of many names the first few, and how many more."""
    known = list(names)
    shown = known if len(known) <= _NAMED else [*known[:_NAMED], f"{len(known) - _NAMED:,} more"]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
