"""What a bus is, whichever way its values travel.

Values are states and not messages: a later value of a key replaces the one before it, and a reader who
was slow or away gets the newest one only.
"""

import re
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import NamedTuple, Self

from howdah import HowdahError
from howdah.control.bus.watch import Change, Watch

__all__ = [
    "Ballot",
    "Bus",
    "Change",
    "Entry",
    "Unreachable",
    "check_key",
    "check_prefix",
    "check_ttl",
    "check_value",
]

VALUE_MAX_BYTES = 512 * 1024
"""Half of what a NATS server takes in one message by default."""
_WORD = r"[-/_=A-Za-z0-9]+"
_KEY = re.compile(rf"{_WORD}(\.{_WORD})*")


class Unreachable(HowdahError):
    """The bus does not answer at present; what was asked of it may or may not have been done."""


class Entry(NamedTuple):
    """What a key has."""

    value: bytes
    revision: int


class Ballot(ABC):
    """What an election needs of a bus: values that are replaced only as they were read."""

    forgets: bool
    """Whether its store may be lost as a whole, so that a value that is not there may have been."""
    connection: int
    """Grows whenever the connection breaks; a store lost and made anew shows in nothing else."""

    @abstractmethod
    async def get(self, key: str) -> Entry | None:
        """What the key has now; null: nothing."""

    @abstractmethod
    async def swap(self, key: str, value: bytes, expected: int) -> int | None:
        """Replaces the value of revision ``expected`` (0: none) and returns the new revision.

        Null: the key has another one, and nothing was done.
        """


class Bus(Ballot):
    """Small values under keys, shared by all who have the bus open.

    Keys are words of letters, digits and ``-_=/`` with dots between them. Revisions grow over the whole
    bus as long as its store lives. Every method raises Unreachable while the bus cannot be reached, and
    HowdahError for what it cannot take.
    """

    @abstractmethod
    async def put(self, key: str, value: bytes, *, ttl_s: int | None = None) -> int:
        """Replaces what the key has and returns the new revision.

        After ``ttl_s``, whole seconds, it is gone again, at most 2 s late, unless put anew.
        """

    async def tell(self, key: str, value: bytes) -> None:
        """Replaces what the key has, without waiting to hear that it did: for what is soon said again.

        It may be lost without an error.
        """
        await self.put(key, value)

    @abstractmethod
    async def delete(self, key: str) -> None:
        """Takes away what the key has, if anything."""

    @abstractmethod
    def watch(self, prefix: str = "") -> AbstractAsyncContextManager[Watch]:
        """Changes of the keys that begin with ``prefix``, a whole number of words with their dots.

        It starts with all that is there: those values can be read at once. It outlasts a broken
        connection, and then tells what has become different.
        """

    @abstractmethod
    async def close(self) -> None:
        """Ends all watches and lets the connection go. What was put stays."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def check_key(key: str) -> None:
    """Raises HowdahError for what cannot be a key."""
    if not _KEY.fullmatch(key):
        raise HowdahError(
            f"{key!r} cannot be a key on the bus: letters, digits and - _ = / in words with dots between them"
        )


def check_prefix(prefix: str) -> None:
    """Raises HowdahError unless ``prefix`` is whole words, each with its dot."""
    if prefix and not (prefix.endswith(".") and _KEY.fullmatch(prefix[:-1])):
        raise HowdahError(f"{prefix!r} cannot be watched on the bus: whole words, each with a dot after it")


def check_value(key: str, value: bytes) -> None:
    """Raises HowdahError for a value too large for the bus."""
    if len(value) > VALUE_MAX_BYTES:
        raise HowdahError(f"{key}: a value of {len(value)} bytes; the bus takes {VALUE_MAX_BYTES} at most")


def check_ttl(key: str, ttl_s: int | None) -> None:
    """Raises HowdahError for a time to live below one second."""
    if ttl_s is not None and ttl_s < 1:
        raise HowdahError(f"{key}: a value lives for at least 1 s on the bus, not {ttl_s} s")
