"""The bus of controllers and agents: small values under keys, which can be watched, and an election.

``opened`` gives the bus of one process, a dictionary in the event loop of all who share it, or of many hosts
over NATS, which is loaded only then. Both are a ``Bus``; ``leadership.stand`` works over either.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from howdah import HowdahError
from howdah.control.bus.access import Access
from howdah.control.bus.interface import Bus, Entry, KeyChange, Unreachable, Watch, check, check_prefix
from howdah.text import with_extra

if TYPE_CHECKING:
    from howdah.control.bus.jetstream import JetStreamBus


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


__all__ = ["Access", "Bus", "Entry", "KeyChange", "Unreachable", "Watch", "opened", "prepare"]


@asynccontextmanager
async def opened(
    servers: str | None = None, access: Access | None = None, *, replicas: int = 1
) -> AsyncIterator[Bus]:
    """The bus of this process alone, or of the NATS ``servers``: addresses with commas between them.

    ``replicas`` is on how many servers of a cluster a new bucket lies. Raises Unreachable when no server
    answers, HowdahError when one refuses or cannot do what is needed.
    """
    async with LocalBus() if servers is None else await _over_nats(servers, access, replicas) as bus:
        yield bus


def prepare(servers: str | None, access: Access) -> None:
    """Loads and reads all that connecting takes, then and later, so that it needs no privilege.

    Raises HowdahError as ``opened`` does.
    """
    if servers is not None:
        _jetstream()
        access.read()


async def _over_nats(servers: str, access: Access | None, replicas: int) -> Bus:
    return await _jetstream().connect(servers, access, replicas=replicas)


def _jetstream() -> "type[JetStreamBus]":
    try:
        from howdah.control.bus.jetstream import JetStreamBus  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"nats", "nkeys"}:
            raise
        raise HowdahError(f"NATS needs nats-py; install it with: {with_extra('control')}") from None
    return JetStreamBus
