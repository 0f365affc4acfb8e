"""JSON and plain values as the types that Python has for them, from any thread.

msgspec gathers what it knows of a Struct when the Struct is first used, and keeps it half made meanwhile. A
second thread that reads it then crashes the process (msgspec 0.22). So it is gathered under one lock.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_decoders: dict[object, msgspec.json.Decoder[Any]] = {}
_gathering = threading.Lock()


@overload
def from_json(text: bytes | bytearray | memoryview | str, kind: type[T]) -> T: ...


@overload
def from_json(text: bytes | bytearray | memoryview | str, kind: Any) -> Any: ...  # noqa: ANN401, unions


def from_json(text: bytes | bytearray | memoryview | str, kind: Any) -> Any:
    """The JSON ``text`` as a ``kind``. Raises msgspec.DecodeError, whatever the bytes are."""
    try:
        return decoder(kind).decode(text)
    except msgspec.DecodeError:
        raise
    except (ValueError, RecursionError) as error:
        # Names that are not UTF-8, more digits than Python reads, and lists in lists without end.
        raise msgspec.DecodeError(str(error)) from None


@overload
def from_plain(value: object, kind: type[T], hook: Callable[[Any, object], Any] | None = None) -> T: ...


@overload
def from_plain(value: object, kind: Any, hook: Callable[[Any, object], Any] | None = None) -> Any: ...  # noqa: ANN401


def from_plain(value: object, kind: Any, hook: Callable[[Any, object], Any] | None = None) -> Any:
    """The dicts, lists and scalars of ``value`` as a ``kind``. Raises what msgspec raises.

    ``hook`` makes the values of types that msgspec does not know.
    """
    decoder(kind)
    return msgspec.convert(value, kind, dec_hook=hook)


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401, a type or a union of types
    """The decoder of a type, made once and kept."""
    found = _decoders.get(kind)
    if found is None:
        with _gathering:
            found = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return found
