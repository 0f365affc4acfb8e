"""TOML files that people write: read into Structs, or refused with the file, the key and what to do.

One Struct describes one format of file. Its annotations say the units: ``rate: Rate`` reads ``"10Gbit"``,
``rtt: Several[Duration]`` reads one duration or a list. A Struct refuses what it cannot be as a ValueError of
its ``__post_init__``, and the error names the table. ``see`` is where users find how such a file is written.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

import msgspec

from howdah import HowdahError, decoding
from howdah._native import parse_bytes, parse_duration, parse_fraction, parse_rate

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]")
_KINDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "a table",
    "str": "a text",
}
"""The types of msgspec's messages in words."""
_FORMATS = {
    "runs": ("a plan of a sweep", "howdah sweep"),
    "load": ("a pattern of traffic", "howdah traffic"),
    "path": ("a plan of recordings", "howdah shared dataset"),
    "class": ("a policy of a guaranteed path", "howdah control serve"),
    "change": ("a lab", "howdah lab run --schedule"),
}
"""Files that people write, by the key of tables that only such a file has: what it is, and what takes it."""


class Unit:
    """A value that is written with its unit; as text it is what was written."""

    written: str

    @staticmethod
    def number(text: str) -> float:
        """The number of a text. Raises HowdahError."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.written

    @classmethod
    def read(cls, value: object) -> Self:
        """The value that a file has. Raises HowdahError."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise HowdahError('not a text with a unit, as "10Gbit"')
        found = cls(cls.number(str(value)))  # type: ignore[call-arg]
        found.written = str(value)
        return found


class Rate(Unit, int):
    """Bits per second, written as ``10Gbit``."""

    number = staticmethod(parse_rate)


class Size(Unit, int):
    """Bytes, written as ``125MB``."""

    number = staticmethod(parse_bytes)


class Duration(Unit, int):
    """Nanoseconds, written as ``100ms``."""

    number = staticmethod(parse_duration)

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self / 1e9

    def seconds_within(self, least_s: float, most_s: float, where: str) -> float:
        """The duration in seconds. Raises HowdahError unless it is within ``least_s`` to ``most_s``."""
        if not least_s <= self.seconds <= most_s:
            raise HowdahError(f"{where} {self} is not within {least_s:g}s to {most_s:g}s")
        return self.seconds


class Ratio(Unit, float):
    """A number from 0 to 1, written as ``5%`` or ``0.05``."""

    number = staticmethod(parse_fraction)


U = TypeVar("U", bound=Unit)


class Several(tuple[T, ...]):
    """One value or a list of them."""

    __slots__ = ()


class Tables(dict[str, T]):
    """Tables that have names of the user's choice."""


def load(file: Path, kind: type[T], see: str) -> T:
    """The file as a ``kind``. Raises HowdahError naming the file, the key and what to do."""
    return loads(read(file, see), str(file), kind, see)


def loads(text: str, where: str, kind: type[T], see: str) -> T:
    """TOML as a ``kind``; ``where`` is where it came from. Raises HowdahError as ``load`` does."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise HowdahError(f"{where} is not TOML: {_twice(error, text, kind) or error}; {see}") from None
    except ValueError:
        raise HowdahError(f"{where} has a number of too many digits; {see}") from None
    except RecursionError:
        raise HowdahError(f"{where} has too many lists or tables in one another; {see}") from None
    try:
        return convert(table, kind, where, see)
    except HowdahError:
        _refuse_another_kind(table, kind, where)
        raise


def _twice(error: tomllib.TOMLDecodeError, text: str, kind: object) -> str | None:
    """The error of a table that is there twice, with what to write; None for any other."""
    at = re.search(r"Cannot (?:declare|overwrite).*\(at (?:line (\d+)|end)", str(error))
    lines = text.splitlines()
    number = int(at[1] or len(lines)) if at else 0
    header = _HEADER.match(lines[number - 1]) if number else None
    if header is None:
        return None
    name = header[1].strip()
    kinds = _kinds_at(kind, [(key, "") for key in name.split(".")])
    is_list = any(get_origin(each) is list for each in kinds)
    mend = f"write [[{name}]] each time" if is_list else "put all its keys into one"
    return f"line {number}: the table {name} is there twice; {mend}"


def _refuse_another_kind(table: dict[str, Any], kind: type[Any], where: str) -> None:
    """Raises HowdahError where the file is a good one, perhaps, of another format."""
    own = {field.encode_name for field in msgspec.structs.fields(kind)}
    tables = [key for key in _FORMATS if isinstance(table.get(key), list | dict)]
    if tables and own.isdisjoint(tables):
        what, command = _FORMATS[tables[0]]
        raise HowdahError(f"{where} is {what}, for: {command} {where}") from None


def read(file: Path, see: str) -> str:
    """The file's text. Raises HowdahError."""
    try:
        return decode(file.read_bytes(), str(file), see)
    except OSError as error:
        raise HowdahError(f"cannot read {file}: {error.strerror}; {see}") from None


def decode(text: bytes, where: str, see: str) -> str:
    """The text of bytes. Raises HowdahError."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise HowdahError(f"{where} is not TOML: it is not UTF-8; {see}") from None


def convert(table: object, kind: type[T], where: str, see: str) -> T:
    """A table as a ``kind``. Raises HowdahError that begins with ``where`` and the path of the key."""
    try:
        return decoding.from_plain(table, kind, _custom)
    except msgspec.ValidationError as error:
        raise HowdahError(f"{where}: {in_words(error, kind, see, table)}") from None


def value(kind: type[U], text: str, where: str) -> U:
    """One value with its unit. Raises HowdahError that begins with ``where``."""
    try:
        return kind.read(text)
    except HowdahError as error:
        raise HowdahError(f"{where}: {error}") from None


def plain(value: Any) -> Any:  # noqa: ANN401, whatever a Struct holds
    """The number of a value with a unit, as JSON takes it; any other value as it is."""
    if isinstance(value, Unit):
        return float(value) if isinstance(value, float) else int(value)  # type: ignore[call-overload]
    return value


def name(text: str, where: str) -> str:
    """A name fit for files, keys and displays. Raises HowdahError."""
    if not _NAME.fullmatch(text):
        raise HowdahError(f"{where} {text!r}: give 1 to 64 letters, digits, dots, dashes")
    return text


def _custom(kind: Any, value: object) -> Any:  # noqa: ANN401, msgspec's hook
    """A value of a type that msgspec does not know. Raises ValueError, to which msgspec adds the path."""
    if isinstance(kind, type) and issubclass(kind, Unit):
        try:
            return kind.read(value)
        except HowdahError as error:
            raise ValueError(str(error)) from None
    (inner,) = get_args(kind)
    if get_origin(kind) is Several:
        if value == []:
            raise ValueError("an empty list; give a value, or leave the key out")
        return Several(_nested(value if isinstance(value, list) else [value], list[inner]))  # type: ignore[valid-type]
    if not isinstance(value, dict):
        raise ValueError("expected a table")
    return Tables({key: _nested(each, inner, f" - at `$.{key}`") for key, each in value.items()})


def _nested(value: object, kind: type[T], place: str = "") -> T:
    try:
        return decoding.from_plain(value, kind, _custom)
    except msgspec.ValidationError as error:
        # msgspec adds the path of the surrounding table only to a ValueError.
        raise ValueError(f"{error}{place}") from None


def in_words(error: msgspec.ValidationError, kind: object, see: str, given: object) -> str:
    """The error as ``runs 1: streams 2: expected a whole number >= 1; see: …``, of what was ``given``."""
    problem, *places = str(error).split(" - at `$")
    path = "".join(place.rstrip("`") for place in reversed(places))
    steps = _STEP.findall(path)
    at = re.sub(r"\[(\d+)\]\.?", lambda found: f" {int(found[1]) + 1}: ", path).strip(".: ")
    says = _says(problem, kind, steps)
    if says is not None and isinstance(number := _at(given, steps), float):
        # Of a number that is to be whole it would say that it is a number.
        says = says.replace(", got a number", f", got {number:g}")
    return (f"{at}: " if at else "") + (problem if says is None else f"{says}; {see}")


def _says(problem: str, kind: object, steps: Sequence[tuple[str, str]]) -> str | None:
    """A problem that msgspec found, in words; None for one that is in words already."""
    quoted = problem.partition("`")[2].rstrip("`")
    if problem.startswith("Object contains unknown field"):
        tables = [each for each in _kinds_at(kind, steps) if _is_struct(each)]
        known = [field.encode_name for field in msgspec.structs.fields(tables[0])] if len(tables) == 1 else []
        return f"unknown key {quoted}" + (f"; known are {', '.join(known)}" if known else "")
    if problem.startswith("Object missing required field"):
        return f"the key {quoted} is missing"
    if problem.startswith("Invalid "):
        choices = [str(text) for each in _kinds_at(kind, steps) for text in _choices(each)]
        tags = [str(each.__struct_config__.tag) for each in _kinds_at(kind, steps[:-1]) if _is_struct(each)]
        return f"{problem[problem.find(' value ') + 7 :]} is unknown; give {' or '.join(choices or tags)}"
    if problem.startswith("Expected "):
        return "e" + re.sub(r"`([^`]+)`", lambda found: _kind_in_words(found[1]), problem[1:])
    return None


def _kind_in_words(names: str) -> str:
    return " or ".join(_KINDS.get(each, each) for each in names.split(" | ") if each != "null") or "null"


def _at(given: Any, steps: Sequence[tuple[str, str]]) -> object:  # noqa: ANN401, whatever a file holds
    """What is at the end of ``steps``; None where they lead nowhere."""
    try:
        for key, index in steps:
            given = given[int(index)] if index else given[key]
    except (KeyError, IndexError, TypeError):
        return None
    return given


def _kinds_at(kind: object, steps: Sequence[tuple[str, str]]) -> list[Any]:
    """The types that a value at the end of ``steps`` (a key, or an index, each) may have."""
    found = list(_alternatives(kind))
    for key, _ in steps:
        inner = [
            field.type
            for each in found
            if _is_struct(each)
            for field in msgspec.structs.fields(each)
            if field.encode_name == key
        ]
        inner += [args[0] for each in found if get_origin(each) is not Literal and (args := get_args(each))]
        found = [each for one in inner for each in _alternatives(one)]
    return found


def _alternatives(kind: Any) -> Iterator[Any]:  # noqa: ANN401, a type
    if get_origin(kind) is Annotated:
        yield from _alternatives(get_args(kind)[0])
    elif get_origin(kind) in {Union, UnionType}:
        for each in get_args(kind):
            yield from _alternatives(each)
    else:
        yield kind


def _choices(kind: object) -> tuple[object, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
