"""The status as it changes, as server-sent events.

Source: WHATWG HTML, section 9.2, Server-sent events.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import msgspec

from howdah.control.http.refusal import Refused
from howdah.control.interface import Operations
from howdah.control.status import Status

WATCHERS_MAX = 64


class Feed:
    """All who watch."""

    def __init__(self, operations: Operations) -> None:
        self.watchers = 0
        """How many there are."""
        self._operations = operations
        self._closed = asyncio.Event()
        self._last: tuple[Status, bytes] | None = None

    def check_room(self) -> None:
        """Raises Refused where there are too many already."""
        if self.watchers >= WATCHERS_MAX:
            why = f"{self.watchers} watch already, which is all this controller serves"
            raise Refused(503, why, {"Retry-After": "10"})

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Counts one more while it is entered."""
        self.watchers += 1
        try:
            yield
        finally:
            self.watchers -= 1

    def close(self) -> None:
        """Ends the events of all, soon."""
        self._closed.set()

    async def events(self) -> AsyncIterator[bytes]:
        """One for each status, as often as ``Operations.watch`` has any; who reads slowly misses some."""
        closed = asyncio.ensure_future(self._closed.wait())
        changes = self._operations.watch()
        coming = asyncio.ensure_future(anext(changes))
        try:
            while True:
                await asyncio.wait([coming, closed], return_when=asyncio.FIRST_COMPLETED)
                if closed.done():
                    return
                yield self._event(coming.result())
                coming = asyncio.ensure_future(anext(changes))
        finally:
            closed.cancel()
            coming.cancel()

    def _event(self, status: Status) -> bytes:
        """Encoded once for all who watch."""
        if self._last is None or self._last[0] is not status:
            self._last = status, b"data: " + msgspec.json.encode(status) + b"\n\n"
        return self._last[1]
