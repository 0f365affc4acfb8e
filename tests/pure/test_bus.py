"""What a bus promises, held to by both kinds: in one process, and over a NATS server."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import virtual
from buses import served
from hypothesis import given, settings
from hypothesis import strategies as st

from howdah import HowdahError
from howdah.control.bus import Bus, KeyChange, LocalBus, Watch
from howdah.control.bus.interface import VALUE_MAX_BYTES
from howdah.control.bus.jetstream import JetStreamBus
from howdah.control.bus.leadership import Leadership, stand

TTL_S = 1.0
LATE_S = 2.0
"""The most that a value may outlive its time, by the interface."""


class Kind:
    """One kind of bus: parties on a bus of their own, the event loop to use it in, and its clock."""

    def __init__(
        self,
        run: Callable[[Coroutine[Any, Any, None]], None],
        new: Callable[[], Callable[[], Coroutine[Any, Any, Bus]]],
    ) -> None:
        self.run = run
        self._new = new

    @asynccontextmanager
    async def parties(self) -> AsyncIterator[tuple[Bus, Bus]]:
        join = self._new()
        async with await join() as one, await join() as other:
            yield one, other

    def stand(self, bus: Bus) -> AbstractAsyncContextManager[Leadership]:
        loop = asyncio.get_running_loop()
        return stand(bus, "control", ttl_s=TTL_S, clock_ns=lambda: round(loop.time() * 1e9))


@pytest.fixture(scope="module")
def nats() -> Iterator[str]:
    with served() as server:
        yield server.url


@pytest.fixture(scope="module", params=["one process", "NATS"])
def kind(request: pytest.FixtureRequest) -> Kind:
    if request.param == "one process":
        return Kind(virtual.run, _shared)
    url, numbers = request.getfixturevalue("nats"), itertools.count()

    def fresh() -> Callable[[], Coroutine[Any, Any, Bus]]:
        bucket = f"bus{next(numbers)}"
        return lambda: JetStreamBus.connect(url, bucket=bucket)

    return Kind(asyncio.run, fresh)


def _shared() -> Callable[[], Coroutine[Any, Any, Bus]]:
    bus = LocalBus()

    async def join() -> Bus:
        return bus

    return join


async def soon(watch: Watch, within_s: float = 5.0) -> KeyChange:
    async with asyncio.timeout(within_s):
        return await anext(watch)


KEYS = st.sampled_from(["report.a", "report.b", "grant.a", "grant.b.example.org"])
VALUES = st.binary(max_size=8)
STEPS = st.lists(
    st.tuples(st.just("put"), KEYS, VALUES)
    | st.tuples(st.just("delete"), KEYS, st.none())
    | st.tuples(st.sampled_from(["swap", "swap blindly"]), KEYS, VALUES),
    max_size=12,
)


@given(steps=STEPS)
@settings(max_examples=25)
def test_it_is_a_dictionary_and_a_watch_ends_up_with_what_is_in_it(kind: Kind, steps: list[Any]) -> None:
    async def main() -> None:
        async with kind.parties() as (one, other), other.watch("report.") as changes:
            held: dict[str, tuple[bytes, int]] = {}
            revisions = [0]
            for what, key, value in steps:
                revision = held[key][1] if key in held else 0
                match what:
                    case "put":
                        revisions.append(await one.put(key, value))
                        held[key] = value, revisions[-1]
                    case "delete":
                        gone = await one.delete(key)
                        if held.pop(key, None):
                            revisions.append(gone)
                    case "swap":
                        revisions.append(await one.swap(key, value, revision) or 0)
                        held[key] = value, revisions[-1]
                    case "swap blindly":
                        assert await one.swap(key, value, revision + 1000) is None
                assert await other.get(key) == held.get(key)
            assert all(earlier < later for earlier, later in pairwise(revisions))
            await one.put("report.end", b"")
            assert await seen_until(changes, "report.end") == {
                key: each for key, each in held.items() if key.startswith("report.")
            }

    kind.run(main())


async def seen_until(changes: Watch, last: str) -> dict[str, tuple[bytes, int]]:
    """What a reader holds who reads up to the key ``last``; each key's revisions must grow."""
    held: dict[str, tuple[bytes, int]] = {}
    newest: dict[str, int] = {}
    while (change := await soon(changes)).key != last:
        assert change.revision > newest.get(change.key, 0)
        newest[change.key] = change.revision
        if change.value is None:
            held.pop(change.key, None)
        else:
            held[change.key] = change.value, change.revision
    return held


def test_a_watch_begins_with_what_is_there_and_a_slow_reader_gets_the_newest_only(kind: Kind) -> None:
    async def main() -> None:
        async with kind.parties() as (one, other):
            await one.put("report.a", b"1")
            first = await one.put("report.a", b"2")
            await one.put("report.gone", b"")
            await one.delete("report.gone")
            await one.put("reports", b"another word")
            async with other.watch("report.") as changes:
                assert await soon(changes) == KeyChange("report.a", b"2", first)
                for number in range(20):
                    newest = await one.put("report.a", str(number).encode())
                await one.put("report.b", b"")
                read = [await soon(changes)]
                while read[-1].key != "report.b":
                    read.append(await soon(changes))
                assert read[-2] == KeyChange("report.a", b"19", newest)

    kind.run(main())


def test_what_is_told_is_there_soon_and_in_the_order_it_was_told(kind: Kind) -> None:
    async def main() -> None:
        async with kind.parties() as (one, other), other.watch("report.") as changes:
            first = await one.put("report.a", b"first")
            for number in range(200):
                await one.tell("report.a", str(number).encode())
            await one.tell("report.end", b"")
            held = await seen_until(changes, "report.end")
            assert held["report.a"][0] == b"199"
            last = await one.get("report.a")
            assert last
            assert last.value == b"199"
            assert last.revision == first + 200
            with pytest.raises(HowdahError, match="a value of"):
                await one.tell("report.a", bytes(VALUE_MAX_BYTES + 1))

    kind.run(main())


def test_values_end_by_themselves_and_watches_tell(kind: Kind) -> None:
    async def main() -> None:
        async with kind.parties() as (one, other), other.watch() as changes:
            loop = asyncio.get_running_loop()
            start = loop.time()
            await one.put("short", b"", ttl_s=1)
            await one.put("renewed", b"", ttl_s=1)
            await one.put("kept", b"", ttl_s=1)
            await one.put("kept", b"for good")
            await asyncio.sleep(0.5)
            await one.put("renewed", b"", ttl_s=1)
            ended: dict[str, float] = {}
            while len(ended) < 2:
                change = await soon(changes)
                if change.value is None:
                    ended[change.key] = loop.time() - start
            assert 1.0 <= ended["short"] <= 1.0 + LATE_S
            assert 1.5 <= ended["renewed"] <= 1.5 + LATE_S
            assert await other.get("short") is None
            assert await one.swap("short", b"anew", 0)
            assert (await other.get("kept")) is not None

    kind.run(main())


def test_of_many_who_swap_at_once_one_succeeds_each_time(kind: Kind) -> None:
    async def add(bus: Bus, times: int) -> None:
        done = 0
        while done < times:
            entry = await bus.get("count")
            count, revision = (int(entry.value), entry.revision) if entry else (0, 0)
            done += await bus.swap("count", str(count + 1).encode(), revision) is not None

    async def main() -> None:
        async with kind.parties() as (one, other):
            await asyncio.gather(*(add(bus, 5) for bus in (one, other, one, other)))
            entry = await one.get("count")
            assert entry and entry.value == b"20"

    kind.run(main())


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda bus: bus.put("", b""), "'' cannot be a key on the bus"),
        (lambda bus: bus.put("two words", b""), "'two words' cannot be a key on the bus"),
        (lambda bus: bus.get("all.*"), "'all.*' cannot be a key on the bus"),
        (lambda bus: bus.delete("end."), "'end.' cannot be a key on the bus"),
        (lambda bus: bus.swap(".", b"", 0), "'.' cannot be a key on the bus"),
        (lambda bus: bus.watch("half").__aenter__(), "'half' cannot be watched on the bus"),
        (lambda bus: bus.put("a", b"", ttl_s=0), "a: a value lives for at least 1 s on the bus, not 0 s"),
        (
            lambda bus: bus.put("a", bytes(VALUE_MAX_BYTES + 1)),
            f"a: a value of {VALUE_MAX_BYTES + 1} bytes; the bus takes {VALUE_MAX_BYTES} at most",
        ),
    ],
)
def test_what_it_cannot_take_is_refused(
    kind: Kind, ask: Callable[[Bus], Coroutine[Any, Any, object]], words: str
) -> None:
    async def main() -> None:
        async with kind.parties() as (bus, _):
            with pytest.raises(HowdahError) as refusal:
                await ask(bus)
            assert str(refusal.value).startswith(words)
            await bus.put("largest", bytes(VALUE_MAX_BYTES))

    kind.run(main())


def test_closing_ends_watches_and_whatever_is_asked_then_is_refused(kind: Kind) -> None:
    async def main() -> None:
        async with kind.parties() as (bus, _), bus.watch() as changes:
            await bus.close()
            assert [change async for change in changes] == []
            with pytest.raises(HowdahError, match="the bus is closed"):
                await bus.put("a", b"")

    kind.run(main())


def test_one_leads_and_the_next_follows_at_once_when_it_gives_back(kind: Kind) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with kind.parties() as (one, other), AsyncExitStack() as leading:
            first = await leading.enter_async_context(kind.stand(one))
            epoch = await first.won()
            async with kind.stand(other) as second:
                await asyncio.sleep(1.5 * TTL_S)
                assert (first.epoch, second.epoch) == (epoch, None)
                start = loop.time()
                await leading.aclose()
                assert await second.won() > epoch
                assert loop.time() - start < TTL_S / 2

    kind.run(main())


def test_a_record_of_who_leads_that_cannot_be_read_is_an_error(kind: Kind) -> None:
    async def main() -> None:
        async with kind.parties() as (bus, _):
            await bus.put("leader.control", b"me")
            async with kind.stand(bus) as leadership:
                with pytest.raises(
                    HowdahError, match=r"leader\.control on the bus is not a record of the leader"
                ):
                    await leadership.won()

    kind.run(main())
