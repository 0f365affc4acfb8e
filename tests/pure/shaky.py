"""A store, and parties whose connections to it are slow, lossy and break."""

import asyncio
import random

from howdah.control.bus.interface import Ballot, Entry, Unreachable


class Store:
    """One server's values; it may lose them all, and then counts from 1 again."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.revision = 0
        self.parties: list[ShakyBus] = []

    def lose_all(self) -> None:
        self.entries.clear()
        self.revision = 0
        for party in self.parties:
            party.connection += 1

    def swap(self, key: str, value: bytes, expected: int) -> int | None:
        entry = self.entries.get(key)
        if (entry.revision if entry else 0) != expected:
            return None
        self.revision += 1
        self.entries[key] = Entry(value, self.revision)
        return self.revision


class ShakyBus(Ballot):
    """What one party has of the store; a connection that breaks brings no reply, whatever was done."""

    forgets = True

    def __init__(self, store: Store, rng: random.Random) -> None:
        self.connection = 0
        self.loss = 0.0
        self.delay_s = 0.01
        self._store = store
        self._rng = rng
        store.parties.append(self)

    async def get(self, key: str) -> Entry | None:
        connection = self.connection
        await self._travel(connection)
        entry = self._store.entries.get(key)
        await self._travel(connection)
        return entry

    async def swap(self, key: str, value: bytes, expected: int) -> int | None:
        connection = self.connection
        await self._travel(connection)
        revision = self._store.swap(key, value, expected)
        await self._travel(connection)
        return revision

    async def _travel(self, connection: int) -> None:
        await asyncio.sleep(self._rng.expovariate(1 / self.delay_s))
        if self._rng.random() < self.loss:
            await asyncio.sleep(60)
        if connection != self.connection:
            raise Unreachable("the connection broke")
