"""Leadership: the rules of an election, and a task that stands for it on a bus.

A record on the bus names the holder. The holder renews it, and counts its term from before it sent the
renewal; another candidate takes the record only after having seen it unchanged for longer than a term.
Both sides allow for clocks that run apart, so no two terms overlap whatever the delays.

A store may lose all it had (a NATS server that lost its disk), though never go back to an older state.
Then the record is missing while its holder still leads, so a missing record is waited for as long as one
that was seen; and a reply counts only on the connection on which it was asked for.

Source: Gray and Cheriton, Leases (SOSP 1989). Deviation: the clock of the server has no part. A record is
taken by its revision (compare and swap), and each side uses its own clock alone.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import msgspec

from howdah import HowdahError, decoding
from howdah.control.bus.interface import Ballot, Unreachable, check

DRIFT = 0.01
"""A clock may run fast or slow by this fraction; real ones do by a hundredth of it."""
_LOOKS_PER_TERM = 5


class LeaderRecord(msgspec.Struct, frozen=True):
    """The state of an election on the bus."""

    epoch: int
    """The number of this term; every later term has a larger one."""
    holder: str | None
    """The candidate that leads; null: the term was given back."""
    ttl_ns: int
    beat: int
    """The number of renewals."""


class Claim(NamedTuple):
    """A record to write where the revision is still ``expected`` (0: none)."""

    record: LeaderRecord
    expected: int


class _Sight(NamedTuple):
    record: LeaderRecord | None
    revision: int
    connection: int


class _Attempt(NamedTuple):
    record: LeaderRecord
    connection: int
    sent_ns: int


class Election:
    """One candidate, without time, bus or randomness of its own. Its clock counts while the host sleeps."""

    def __init__(self, me: str, ttl_ns: int, *, forgets: bool) -> None:
        """``me`` names nobody else, ever; ``forgets``: the store may be lost as a whole."""
        self._me = me
        self._ttl_ns = ttl_ns
        self._forgets = forgets
        self._above = 0
        self._epoch: int | None = None
        self._until_ns = 0
        self._sight: _Sight | None = None
        self._since_ns = 0
        self._attempt: _Attempt | None = None
        self.rival: int | None = None
        """The epoch of the last term that another was seen to renew."""

    def epoch(self, now_ns: int) -> int | None:
        """The term that this candidate holds now; null: it does not lead."""
        return self._epoch if now_ns < self._until_ns else None

    @property
    def until_ns(self) -> int:
        """The end of the term that it holds or held last."""
        return self._until_ns

    def above(self, epoch: int) -> None:
        """Makes later terms get a larger epoch than this, whatever the record says."""
        self._above = max(self._above, epoch)

    def look(
        self, record: LeaderRecord | None, revision: int, connection: int, now_ns: int, wall_ms: int
    ) -> Claim | None:
        """Takes in what the bus holds (revision 0: nothing), and returns what to write now, if anything.

        ``wall_ms``, since 1970, keeps epochs growing where the record is lost.
        """
        if record:
            self.above(record.epoch)
        if self._attempt and record == self._attempt.record:
            self._succeeded(connection)
        self._attempt = None
        if self.epoch(now_ns) is not None and record and self._is_mine(record):
            self._sight = None
            return Claim(msgspec.structs.replace(record, beat=record.beat + 1), revision)
        self._epoch = None
        sight = _Sight(record, revision, connection)
        if sight != self._sight:
            self._note_renewal(record)
            self._sight, self._since_ns = sight, now_ns
        if now_ns < self._since_ns + self._wait_ns(record):
            return None
        epoch = max(self._above, wall_ms) + 1
        return Claim(LeaderRecord(epoch, self._me, self._ttl_ns, 0), revision)

    def sending(self, claim: Claim, connection: int, now_ns: int) -> None:
        """Notes that a claim is about to be sent; ``connection`` is the one its look was made on."""
        self._attempt = _Attempt(claim.record, connection, now_ns)

    def written(self, connection: int) -> None:
        """Notes that the write is done; ``connection`` is the present one."""
        self._succeeded(connection)
        self._attempt = None

    def give_back(self, record: LeaderRecord, revision: int, now_ns: int) -> Claim | None:
        """Ends the term, and returns what to write so that others need not wait; null: nothing."""
        mine = self.epoch(now_ns) is not None and self._is_mine(record)
        self._epoch = None
        return Claim(msgspec.structs.replace(record, holder=None), revision) if mine else None

    def pause_ns(self, now_ns: int) -> int:
        """The time until the next look."""
        pause_ns = self._ttl_ns // _LOOKS_PER_TERM
        if self._sight and self.epoch(now_ns) is None:
            due_ns = self._since_ns + self._wait_ns(self._sight.record) - now_ns
            return min(pause_ns, due_ns) if due_ns > 0 else pause_ns
        return pause_ns

    def _note_renewal(self, record: LeaderRecord | None) -> None:
        before = self._sight.record if self._sight else None
        if record and before and record.holder and record.beat > before.beat and record.epoch == before.epoch:
            self.rival = record.epoch

    def _is_mine(self, record: LeaderRecord) -> bool:
        return (record.holder, record.epoch) == (self._me, self._epoch)

    def _wait_ns(self, record: LeaderRecord | None) -> int:
        if record is None:
            return round(self._ttl_ns * (1 + DRIFT)) if self._forgets else 0
        return 0 if record.holder is None else round(record.ttl_ns * (1 + DRIFT))

    def _succeeded(self, connection: int) -> None:
        attempt = self._attempt
        if attempt and attempt.connection == connection:
            self._epoch = attempt.record.epoch
            # The record may be lost before the next look, and the wall clock be set back.
            self.above(self._epoch)
            self._until_ns = attempt.sent_ns + round(self._ttl_ns * (1 - DRIFT))


_S = 1_000_000_000
_REPLY_PER_TERM = 0.3


def boottime_ns() -> int:
    """The clock of terms and leases. Unlike CLOCK_MONOTONIC it counts while the host sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Leadership:
    """Whether this process leads. That depends on its clock alone, also while the bus is away."""

    def __init__(self, bus: Ballot, key: str, ttl_s: float, clock_ns: Callable[[], int]) -> None:
        self._bus = bus
        self._key = key
        self._reply_s = ttl_s * _REPLY_PER_TERM
        self._clock_ns = clock_ns
        self._election = Election(uuid.uuid4().hex, round(ttl_s * _S), forgets=bus.forgets)
        self._changed = asyncio.Event()
        self._failure: Exception | None = None
        self._due_ns = clock_ns()
        self._late_ns = 0
        """How late the last look was."""
        self.trouble: str | None = None
        """The reason why the last look had no answer; null: it had one."""

    @property
    def rival(self) -> int | None:
        """The epoch of the last term that another was seen to renew."""
        return self._election.rival

    @property
    def why_lost(self) -> str:
        """The reason why a term was not prolonged, for people."""
        if self.trouble is not None:
            return self.trouble
        late_ns = max(self._late_ns, self._clock_ns() - self._due_ns)
        if late_ns > self._reply_s * _S:
            return f"its renewal was {late_ns / _S:.1f} s late, as on a host that is paused or overloaded"
        return "its record on the bus is gone, or another's"

    @property
    def epoch(self) -> int | None:
        """The term held now, larger than any term before it; null: another one may lead."""
        return self._election.epoch(self._clock_ns())

    @property
    def until_ns(self) -> int:
        """The end of the term unless it is renewed, by ``boottime_ns``."""
        return self._election.until_ns

    def above(self, epoch: int) -> None:
        """Makes later terms get a larger epoch than this one, which was seen somewhere."""
        self._election.above(epoch)

    async def won(self, each: Callable[[], None] = lambda: None) -> int:
        """Waits until this process leads, and returns the epoch. Calls ``each`` after every look before that.

        Raises HowdahError when the bus does not let it stand.
        """
        while (epoch := self.epoch) is None:
            each()
            await self._change()
        return epoch

    async def lost(self, epoch: int, each: Callable[[], None] = lambda: None) -> None:
        """Waits until the term of this epoch is over. Calls ``each`` after every look before that.

        Raises HowdahError as ``won`` does.
        """
        while self.epoch == epoch:
            each()
            with suppress(TimeoutError):
                async with asyncio.timeout((self.until_ns - self._clock_ns()) / _S):
                    await self._change()

    async def campaign(self) -> None:
        """Stands until cancelled."""
        try:
            while True:
                self._late_ns = self._clock_ns() - self._due_ns
                try:
                    await self._look()
                    self.trouble = None
                except Unreachable as error:
                    self.trouble = str(error)
                except TimeoutError:
                    self.trouble = f"the bus did not answer within {self._reply_s:g} s"
                self._changed.set()
                pause_s = self._pause_s()
                self._due_ns = self._clock_ns() + round(pause_s * _S)
                await asyncio.sleep(pause_s)
        except Exception as error:
            # Also one that nobody thought of: whoever waits for the election would wait for ever.
            self._failure = error
            self._changed.set()

    async def give_back(self) -> None:
        """Lets the next one lead at once, where the bus can be reached."""
        # Whatever fails, the term ends by itself.
        with suppress(Exception):
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

    async def _read(self) -> tuple[LeaderRecord | None, int]:
        async with asyncio.timeout(self._reply_s):
            entry = await self._bus.get(self._key)
        if entry is None:
            return None, 0
        try:
            return decoding.from_json(entry.value, LeaderRecord), entry.revision
        except msgspec.DecodeError as error:
            raise HowdahError(
                f"{self._key} on the bus is not a record of the leader ({error}); delete it"
            ) from None

    async def _write(self, record: LeaderRecord, expected: int) -> int | None:
        async with asyncio.timeout(self._reply_s):
            return await self._bus.swap(self._key, msgspec.json.encode(record), expected)

    def _pause_s(self) -> float:
        now_ns = self._clock_ns()
        pause_ns = self._election.pause_ns(now_ns)
        if self._election.epoch(now_ns) is not None:
            pause_ns = min(pause_ns, self._election.until_ns - now_ns)
        return pause_ns / _S

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
    check(key)
    leadership = Leadership(bus, key, ttl_s, clock_ns)
    task = asyncio.create_task(leadership.campaign())
    try:
        yield leadership
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await leadership.give_back()
