"""What a watch makes of a consumer's messages when some of them are lost."""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.aio.msg import Msg

from howdah.control.bus.interface import KeyChange, Watch
from howdah.control.bus.jetstream import OPERATION, REASON, Reading

PREFIX = "$KV.b."
KEYS = st.sampled_from("abcd")
ENDS = st.sampled_from([{OPERATION: "PURGE"}, {OPERATION: "DEL"}, {REASON: "MaxAge"}])


class Step(NamedTuple):
    key: str
    headers: dict[str, str] | None
    """Null: a value."""


STEPS = st.lists(st.builds(Step, KEYS, st.none() | ENDS), max_size=12)


class Consumer:
    """Delivers as the server does: the last message of each key, then each new one; the time is always 0."""

    def __init__(self, stored: list[Step], new: list[Step]) -> None:
        last = {step.key: revision for revision, step in enumerate(stored, start=1)}
        begun = sorted(last.values())
        self._steps = dict(enumerate([*stored, *new], start=1))
        self._order = [*begun, *range(len(stored) + 1, len(self._steps) + 1)]
        self._begun = len(begun)

    @property
    def held(self) -> dict[str, int]:
        """The revision of each value that is there in the end."""
        last = {step.key: revision for revision, step in self._steps.items()}
        return {key: revision for key, revision in last.items() if self._steps[revision].headers is None}

    def messages(self) -> Iterator[Msg]:
        for number, revision in enumerate(self._order, start=1):
            step, left = self._steps[revision], max(0, self._begun - number)
            reply = f"$JS.ACK.KV_b.c.1.{revision}.{number}.0.{left}"
            yield message(PREFIX + step.key, reply, str(revision).encode(), step.headers)

    def idle(self) -> Msg:
        return message("inbox", "", b"", {"Status": "100", "Nats-Last-Consumer": str(len(self._order))})


def message(subject: str, reply: str, data: bytes, headers: dict[str, str] | None) -> Msg:
    return Msg(Client(), subject=subject, reply=reply, data=data if headers is None else b"", headers=headers)


@given(known=st.sets(KEYS), stored=STEPS, new=STEPS, data=st.data())
def test_what_is_missing_is_noticed_and_otherwise_all_is_told(
    known: set[str], stored: list[Step], new: list[Step], data: st.DataObject
) -> None:
    consumer = Consumer(stored, new)
    messages = list(consumer.messages())
    lost = data.draw(st.sets(st.sampled_from(range(len(messages))), max_size=2)) if messages else set()

    async def main() -> None:
        watch, complete = Watch(""), asyncio.Event()
        for key in known:
            watch.tell(KeyChange(key, b"before", 0))
        reading = Reading(watch, len(PREFIX), complete)
        for number, each in enumerate(messages):
            if number not in lost:
                await reading.take(each)
        await reading.take(consumer.idle())
        assert reading.stale.is_set() == bool(lost)
        assert complete.is_set() or lost or not stored
        watch.end()
        held: dict[str, int | None] = dict.fromkeys(known, 0)
        async for change in watch:
            held[change.key] = None if change.value is None else change.revision
        if not lost and stored:
            assert {key: revision for key, revision in held.items() if revision is not None} == consumer.held

    asyncio.run(main())


def test_nothing_is_told_after_something_was_missed() -> None:
    async def main() -> None:
        consumer = Consumer([Step("a", None), Step("b", None)], [Step("c", None)])
        watch = Watch("")
        reading = Reading(watch, len(PREFIX), asyncio.Event())
        first, _, third = consumer.messages()
        await reading.take(first)
        await reading.take(third)
        watch.end()
        assert [change.key async for change in watch] == ["a"]

    asyncio.run(main())


def test_a_silent_consumer_does_not_go_on() -> None:
    async def main() -> None:
        reading = Reading(Watch(""), len(PREFIX), asyncio.Event())
        assert not await reading.goes_on(0.01)
        beat = asyncio.create_task(reading.take(Consumer([], []).idle()))
        assert await reading.goes_on(0.01)
        await beat

    asyncio.run(main())
