"""Words for people that are used in more than one place."""

from collections.abc import Callable, Iterable, Mapping

from howdah import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    # A copy loads this before ssh, and not typing.
    from typing import TypeVar

    T = TypeVar("T")

INSTALL = "as docs/install.md says"
"""The way to install howdah. No package is published yet: when one is, this and ``with_extra`` change."""
_NAMED = 6

Sample = tuple[Mapping[str, str], float | None]
"""Labels of a metric with its value; null: not known."""


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


def of_error(problem: BaseException) -> str:
    """The error in one line: a HowdahError's own words, or ``KeyError: 'x'``."""
    if isinstance(problem, _native.HowdahError):
        return str(problem)
    return printable(" ".join(f"{type(problem).__name__}: {problem}".split()))


def count(number: int, noun: str) -> str:
    """The words ``1 file`` or ``1,200 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def apart(values: "Iterable[T]", short: "Callable[[T], str]", exact: "Callable[[T], str]") -> "dict[T, str]":
    """The words of each value: short ones, or exact ones for all where two would read alike."""
    known = {value: short(value) for value in values}
    return known if len({*known.values()}) == len(known) else {value: exact(value) for value in known}


def no_room(file: object, mend: str = "free some there") -> str:
    """The words for a file that a full disk does not take."""
    return f"cannot write {file}: no room is left on its file system; {mend}"


def metric(name: str, says: str, samples: Iterable[Sample], kind: str = "gauge") -> str:
    """A metric in Prometheus' text format, version 0.0.4, with its samples, without those that are not known.

    It is written by hand: a collector of prometheus-client would be as long, and its registry is made for a
    process that counts, not for one that tells of others. Tests read it with that library's parser.
    """
    lines = [f"# HELP {name} {says}\n# TYPE {name} {kind}\n"]
    for labels, value in samples:
        if value is not None:
            pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            lines.append(f"{name}{{{pairs}}} {float(value)!r}\n" if pairs else f"{name} {float(value)!r}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def with_extra(name: str) -> str:
    """The command that installs what one of the extras of howdah needs."""
    return f"pip install 'WHEEL[{name}]', with the WHEEL of docs/install.md"


def some(names: Iterable[str]) -> str:
    """The words ``near and far``; of many names the first few, and how many more."""
    known = list(names)
    shown = known if len(known) <= _NAMED else [*known[:_NAMED], f"{len(known) - _NAMED:,} more"]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
