"""Standing for election on a bus: a task that looks, claims and renews, for as long as it is wanted."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

from howdah import HowdahError
from howdah.control.bus.election import Election, Record
from howdah.control.bus.interface import Ballot, Unreachable, check_key

_S = 1_000_000_000
_REPLY_PER_TERM = 0.3


def boottime_ns() -> int:
    """The clock of terms and leases. Unlike CLOCK_MONOTONIC it counts while the host sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Leadership:
    """Whether this process leads; it knows so by its clock alone, also while the bus is away."""

    def __init__(self, bus: Ballot, key: str, ttl_s: float, clock_ns: Callable[[], int]) -> None:
        self._bus = bus
        self._key = key
        self._reply_s = ttl_s * _REPLY_PER_TERM
        self._clock_ns = clock_ns
        self._election = Election(uuid.uuid4().hex, round(ttl_s * _S), forgets=bus.forgets)
        self._changed = asyncio.Event()
        self._told: int | None = None
        self._failure: HowdahError | None = None

    @property
    def epoch(self) -> int | None:
        """Of the term held now, larger than that of any term before it; null: another one may lead."""
        return self._election.epoch(self._clock_ns())

    @property
    def until_ns(self) -> int:
        """When the term ends unless it is renewed, by ``boottime_ns``."""
        return self._election.until_ns

    def above(self, epoch: int) -> None:
        """Later terms get a larger epoch than this one, which was seen somewhere."""
        self._election.above(epoch)

    async def won(self) -> int:
        """Waits until this process leads, and returns the epoch.

        Raises HowdahError when the bus does not let it stand.
        """
        while (epoch := self.epoch) is None:
            await self._change()
        return epoch

    async def lost(self, epoch: int) -> None:
        """Waits until the term of this epoch is over. Raises HowdahError as ``won`` does."""
        while self.epoch == epoch:
            with suppress(TimeoutError):
                async with asyncio.timeout((self.until_ns - self._clock_ns()) / _S):
                    await self._change()

    async def campaign(self) -> None:
        """Stands until cancelled."""
        try:
            while True:
                with suppress(Unreachable, TimeoutError):
                    await self._look()
                self._tell()
                await asyncio.sleep(self._pause_s())
        except HowdahError as error:
            self._failure = error
            self._changed.set()

    async def give_back(self) -> None:
        """Lets the next one lead at once, where the bus can be reached."""
        with suppress(HowdahError, TimeoutError):
            record, revision = await self._read()
            if record and (claim := self._election.give_back(record, revision, self._clock_ns())):
                await self._write(claim.record, claim.expected)

    async def _look(self) -> None:
        connection = self._bus.connection
        record, revision = await self._read()
        wall_ms = time.time_ns() // 1_000_000
        claim = self._election.look(record, revision, connection, self._clock_ns(), wall_ms)
        if claim is None:
            return
        self._election.sending(claim, connection, self._clock_ns())
        if await self._write(claim.record, claim.expected):
            self._election.written(self._bus.connection)

    async def _read(self) -> tuple[Record | None, int]:
        async with asyncio.timeout(self._reply_s):
            entry = await self._bus.get(self._key)
        if entry is None:
            return None, 0
        try:
            return msgspec.json.decode(entry.value, type=Record), entry.revision
        except msgspec.DecodeError as error:
            raise HowdahError(
                f"{self._key} on the bus is no record of who leads ({error}); delete it"
            ) from None

    async def _write(self, record: Record, expected: int) -> int | None:
        async with asyncio.timeout(self._reply_s):
            return await self._bus.swap(self._key, msgspec.json.encode(record), expected)

    def _pause_s(self) -> float:
        now_ns = self._clock_ns()
        pause_ns = self._election.pause_ns(now_ns)
        if self._election.epoch(now_ns) is not None:
            pause_ns = min(pause_ns, self._election.until_ns - now_ns)
        return pause_ns / _S

    def _tell(self) -> None:
        if (epoch := self.epoch) != self._told:
            self._told = epoch
            self._changed.set()

    async def _change(self) -> None:
        if self._failure:
            raise self._failure
        self._changed.clear()
        await self._changed.wait()
        if self._failure:
            raise self._failure


@asynccontextmanager
async def stand(
    bus: Ballot, name: str, *, ttl_s: float, clock_ns: Callable[[], int] = boottime_ns
) -> AsyncIterator[Leadership]:
    """Stands for leading ``name`` while the context lasts; then the term, if held, is given back.

    All who stand must use the same ``ttl_s``: one who died is followed after at most 1.3 of it. A term ends
    ``ttl_s`` after its last renewal was sent, less 1 %; a reply that takes 0.3 of it counts as lost.
    """
    key = f"leader.{name}"
    check_key(key)
    leadership = Leadership(bus, key, ttl_s, clock_ns)
    task = asyncio.create_task(leadership.campaign())
    try:
        yield leadership
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await leadership.give_back()
