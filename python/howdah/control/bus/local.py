"""The bus of one process: a dictionary, in the event loop of all who share it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from howdah import HowdahError
from howdah.control.bus.interface import Bus, Entry, KeyChange, Watch, check, check_prefix


class LocalBus(Bus):
    """A bus inside one process. Nothing of it outlives the process, so nothing of a lost one can be found."""

    forgets = False
    connection = 0

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._ends: dict[str, asyncio.TimerHandle] = {}
        self._watches: set[Watch] = set()
        self._revision = 0
        self._closed = False

    async def put(self, key: str, value: bytes, *, ttl_s: int | None = None) -> int:
        """The value is there, and told to all watches, when this returns."""
        self._check_open()
        check(key, value, ttl_s)
        revision = self._become(key, value)
        if ttl_s is not None:
            self._ends[key] = asyncio.get_running_loop().call_later(ttl_s, self._become, key, None)
        return revision

    async def get(self, key: str) -> Entry | None:
        """The value that was put last."""
        self._check_open()
        check(key)
        return self._entries.get(key)

    async def swap(self, key: str, value: bytes, expected: int) -> int | None:
        """Replaces the value. Nothing comes between, since nothing in it waits."""
        entry = await self.get(key)
        return await self.put(key, value) if (entry.revision if entry else 0) == expected else None

    async def delete(self, key: str) -> int:
        """The value is gone, and all watches were told, when this returns."""
        return self._become(key, None) if await self.get(key) else self._revision

    @asynccontextmanager
    async def watch(self, prefix: str = "") -> AsyncIterator[Watch]:
        """The watch ends with the context, or with the bus."""
        self._check_open()
        check_prefix(prefix)
        watch = Watch(prefix)
        for key, (value, revision) in self._entries.items():
            if key.startswith(prefix):
                watch.tell(KeyChange(key, value, revision))
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    async def close(self) -> None:
        """The bus is closed for all who share it."""
        self._closed = True
        for end in self._ends.values():
            end.cancel()
        for watch in self._watches:
            watch.end()

    def _become(self, key: str, value: bytes | None) -> int:
        if end := self._ends.pop(key, None):
            end.cancel()
        self._revision += 1
        if value is None:
            del self._entries[key]
        else:
            self._entries[key] = Entry(value, self._revision)
        for watch in self._watches:
            if key.startswith(watch.prefix):
                watch.tell(KeyChange(key, value, self._revision))
        return self._revision

    def _check_open(self) -> None:
        if self._closed:
            raise HowdahError("the bus is closed")
