"""The changes that a reader has not taken yet: for each key the newest only.

So a reader who is slow costs no more memory than there are keys, and never works on what is out of date.
"""

import asyncio
from collections.abc import Container
from typing import NamedTuple, Self


class Change(NamedTuple):
    """What a key has become."""

    key: str
    value: bytes | None
    """Null: it was deleted, or its time was over."""
    revision: int
    """Of the value; for one that is gone, of its end, or of itself where its end was not seen."""


class Watch:
    """An iterator over changes, for one reader. It ends when its bus is closed."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._known: dict[str, int] = {}
        self._waiting: dict[str, Change] = {}
        self._wake = asyncio.Event()
        self._ended = False
        self._why: Exception | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        """The next change. Raises HowdahError when the bus was closed by its other end."""
        while not self._waiting:
            if self._ended:
                raise self._why or StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._waiting.pop(next(iter(self._waiting)))

    def tell(self, change: Change) -> None:
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
            self.tell(Change(key, None, revision))

    def end(self, why: Exception | None = None) -> None:
        """Ends the iteration once what waits has been read; with an error if there is a ``why``."""
        self._ended, self._why = True, why
        self._wake.set()
