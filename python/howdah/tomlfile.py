"""TOML files that people write: read into Structs, or refused with the file, the key and what to do.

``see`` is always where the user finds how such a file is written.
"""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from howdah import HowdahError, document

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def read(file: Path, see: str) -> str:
    """The file's text. Raises HowdahError."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise HowdahError(f"cannot read {file}: {error.strerror}; {see}") from None
    except UnicodeDecodeError:
        raise HowdahError(f"{file} is not TOML: it is no UTF-8; {see}") from None


def table(text: str, where: str, see: str) -> dict[str, Any]:
    """The text as TOML. Raises HowdahError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise HowdahError(f"{where} is not TOML: {error}; {see}") from None


def convert(given: object, kind: type[T], where: str, see: str) -> T:
    """A table as a ``kind``. Raises HowdahError naming the key."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise HowdahError(f"{where}: {document.in_words(str(error))}; {see}") from None


def value(parse: Callable[[str], T], text: str, where: str) -> T:
    """One value parsed. Raises HowdahError as ``parse``, with ``where`` in front."""
    try:
        return parse(text)
    except HowdahError as error:
        raise HowdahError(f"{where}: {error}") from None


def name(text: str, where: str) -> str:
    """A name fit for files, keys and displays. Raises HowdahError."""
    if not _NAME.fullmatch(text):
        raise HowdahError(f"{where} {text!r}: give 1 to 64 letters, digits, dots, dashes")
    return text
