"""The interface of a bus, whichever way its values travel, and the changes that a reader of it gets.

Values are states and not messages: a later value of a key replaces the one before it, and a reader who
was slow or away gets the newest one only. So a slow reader costs no more memory than there are keys, and
never works on what is out of date.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Container
from contextlib import AbstractAsyncContextManager, suppress
from typing import NamedTuple, Self

from howdah import HowdahError

VALUE_MAX_BYTES = 512 * 1024
"""Half of what a NATS server takes in one message by default."""
_WORD = r"[-/_=A-Za-z0-9]+"
_KEY = re.compile(rf"{_WORD}(\.{_WORD})*")


class Unreachable(HowdahError):
    """The bus does not answer at present; what was asked of it may or may not have been done."""


class Entry(NamedTuple):
    """The value of a key with its revision."""

    value: bytes
    revision: int


class KeyChange(NamedTuple):
    """The new state of a key."""

    key: str
    value: bytes | None
    """The new value; null: it was deleted, or its time was over."""
    revision: int
    """The revision of the value; for one that is gone, of its end, or its own where the end was not seen."""


class Watch:
    """An iterator over changes, for one reader. It ends when its bus is closed."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._known: dict[str, int] = {}
        self._waiting: dict[str, KeyChange] = {}
        self._wake = asyncio.Event()
        self._ended = False
        self._why: Exception | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> KeyChange:
        """The next change. Raises HowdahError when the bus was closed by its other end."""
        while not self._waiting:
            if self._ended:
                raise self._why or StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._waiting.pop(next(iter(self._waiting)))

    async def at_hand(self) -> AsyncIterator[KeyChange]:
        """The changes that can be read without a wait."""
        with suppress(TimeoutError, StopAsyncIteration):
            while True:
                async with asyncio.timeout(0):
                    change = await anext(self)
                yield change

    async def batches(self, pace_s: float) -> AsyncIterator[list[KeyChange]]:
        """Gives all changes that wait, as soon as there is one, but at most every ``pace_s`` seconds."""
        async for change in self:
            yield [change, *[each async for each in self.at_hand()]]
            await asyncio.sleep(pace_s)

    def tell(self, change: KeyChange) -> None:
        """Takes in a change, unless the reader has been told the same before."""
        if change.value is None:
            if self._known.pop(change.key, None) is None:
                return
        elif self._known.get(change.key) == change.revision:
            return
        else:
            self._known[change.key] = change.revision
        self._waiting.pop(change.key, None)
        self._waiting[change.key] = change
        self._wake.set()

    def keep_only(self, present: Container[str]) -> None:
        """Takes in that of all keys only those ``present`` are still there."""
        gone = [(key, revision) for key, revision in self._known.items() if key not in present]
        for key, revision in gone:
            self.tell(KeyChange(key, None, revision))

    def end(self, why: Exception | None = None) -> None:
        """Ends the iteration once what waits has been read; with an error if there is a ``why``."""
        self._ended, self._why = True, why
        self._wake.set()


class Ballot(ABC):
    """The part of a bus that an election needs: a value is replaced only if it is still the one read."""

    forgets: bool
    """Whether its store may be lost as a whole, so that a value that is not there may have been."""
    connection: int
    """Grows whenever the connection breaks; a store lost and made anew shows in nothing else."""

    @abstractmethod
    async def get(self, key: str) -> Entry | None:
        """The present value of the key; null: it has none."""

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
        """Replaces the value of the key and returns the new revision.

        After ``ttl_s``, whole seconds, it is gone again, at most 2 s late, unless put anew.
        """

    async def tell(self, key: str, value: bytes) -> None:
        """Replaces the value of the key and waits for no acknowledgement: for what is soon said again.

        It may be lost without an error.
        """
        await self.put(key, value)

    @abstractmethod
    async def delete(self, key: str) -> int:
        """Takes away the value of the key, if it has one, and returns the revision at which it has none."""

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

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def check(key: str, value: bytes = b"", ttl_s: int | None = None) -> None:
    """Raises HowdahError for what cannot be a key, a value too large, and a time to live below one second."""
    if not _KEY.fullmatch(key):
        raise HowdahError(
            f"{key!r} cannot be a key on the bus: letters, digits and - _ = / in words with dots between them"
        )
    if len(value) > VALUE_MAX_BYTES:
        raise HowdahError(f"{key}: a value of {len(value)} bytes; the bus takes {VALUE_MAX_BYTES} at most")
    if ttl_s is not None and ttl_s < 1:
        raise HowdahError(f"{key}: a value lives for at least 1 s on the bus, not {ttl_s} s")


def check_prefix(prefix: str) -> None:
    """Raises HowdahError unless ``prefix`` is whole words, each with its dot."""
    if prefix and not (prefix.endswith(".") and _KEY.fullmatch(prefix[:-1])):
        raise HowdahError(f"{prefix!r} cannot be watched on the bus: whole words, each with a dot after it")
