"""Documents in versioned JSON (plans, records). They are read into a Struct; an error says what to do.

A document is a JSON object with an integer ``schema``. It is looked at first, so that a document of
another version is refused for its version and not for the first key that has changed since.
"""

import re
import sys
from typing import TypeVar

import msgspec

from howdah import HowdahError, __version__, decoding
from howdah.text import INSTALL, printable

T = TypeVar("T", bound=msgspec.Struct)
_TEXT_BYTES_MAX = 8192
"""The most bytes of one text from another host."""


class _Schema(msgspec.Struct):
    schema: int


def decode(text: bytes, kind: type[T], *, schema: int, name: str, where: str, mend: str) -> T:
    """The document ``text`` as a ``kind``.

    ``name`` is what a person calls it ("plan"), ``where`` where it came from (a file name) and
    ``mend`` how to get a good one. Raises HowdahError naming the file, the key and what to do.
    """
    try:
        found = decoding.from_json(text, _Schema).schema
        if found != schema:
            raise HowdahError(_other_version(found, schema, name, where, mend))
        return decoding.from_json(text, kind)
    except msgspec.ValidationError as error:
        raise HowdahError(f"{where} is not a {name}: {in_words(str(error))}; {mend}") from None
    except msgspec.DecodeError as error:
        why = _lower(str(error).removeprefix("JSON is malformed: "))
        raise HowdahError(f"{where} is not JSON: {why}; {mend}") from None


def encode(document: object) -> bytes:
    """The document as indented JSON with a final newline, as ``--json`` prints it and files have it."""
    return _shown(msgspec.json.format(msgspec.json.encode(document), indent=1)) + b"\n"


def line(document: object) -> bytes:
    """The document as one line, for files of many lines of JSON."""
    return _shown(msgspec.json.encode(document)) + b"\n"


def _shown(json: bytes) -> bytes:
    """The JSON with escapes for all that a terminal would obey, which only strings can contain."""
    if json.isascii() and b"\x7f" not in json:
        return json
    return re.sub(r"[^\n -~]", _escaped, json.decode()).encode()


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    if printable(character) == character:
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def strange(value: T) -> T:
    """A document from another host or a file, with every text printable, so that people may be shown it."""
    return decoding.from_plain(_printable(msgspec.to_builtins(value)), type(value))


def _printable(value: object) -> object:
    match value:
        case str():
            return printable(value, _TEXT_BYTES_MAX)
        case list() | tuple():
            return [_printable(each) for each in value]
        case dict():
            return {_printable(key): _printable(each) for key, each in value.items()}
    return value


def show(document: object) -> None:
    """Writes the document to standard output."""
    sys.stdout.buffer.write(encode(document))


def _other_version(found: int, schema: int, name: str, where: str, mend: str) -> str:
    if found > schema:
        return (
            f"{where} is a {name} of schema {found}, howdah {__version__} reads schema {schema}; "
            f"read it with the newer howdah that wrote it, or install a newer one {INSTALL}"
        )
    return f"{where} is a {name} of schema {found}, howdah {__version__} reads schema {schema}; {mend}"


def in_words(problem: str) -> str:
    """``Expected `int`, got `str` - at `$.streams``` → ``key streams: expected int, got str``."""
    what, _, path = problem.partition(" - at `")
    what = _lower(what.replace("`", ""))
    key = re.sub(r"^\$\.?", "", path.rstrip("`"))
    return f"key {key}: {what}" if key else what


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
