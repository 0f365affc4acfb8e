import asyncio
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn

import msgspec
import pytest
import virtual
from atwork import Line
from hypothesis import given
from hypothesis import strategies as st

from howdah import HowdahError
from howdah.control.bus import LocalBus
from howdah.control.leases.messages import (
    Call,
    FlowShare,
    Grant,
    Measured,
    Message,
    Places,
    Report,
    decode,
    key_of,
)
from howdah.control.policy.members import Member
from howdah.control.running.controller import SPAN_NS, Sighting
from howdah.control.running.outbox import PACE_S, Complaints, Outbox, together

CALL = "agent.a.call"


async def _run_outbox(line: Line, times: Sequence[int]) -> Outbox:
    """Puts a Call with a larger epoch after each of these times, in ms."""
    outbox = Outbox(line, patience_s=0.5)
    task = asyncio.create_task(outbox.run())
    for epoch, wait_ms in enumerate(times):
        await asyncio.sleep(wait_ms / 1000)
        outbox.put(Call(agent="a", epoch=epoch))
    await asyncio.sleep(1)
    task.cancel()
    return outbox


@given(st.lists(st.integers(0, 40), min_size=1, max_size=50))
def test_an_outbox_sends_the_newest_at_most_every_pace_and_at_once_after_a_pause(times: list[int]) -> None:
    async def main() -> None:
        async with LocalBus() as bus:
            line = Line(bus)
            begun_s = asyncio.get_running_loop().time()
            await _run_outbox(line, times)
            sent_s = [at_s for at_s, _ in line.puts]
            assert all(later - sooner >= PACE_S * 0.999 for sooner, later in pairwise(sent_s))
            assert sent_s[0] - begun_s == pytest.approx(times[0] / 1000)
            assert sent_s[-1] - begun_s <= sum(times) / 1000 + PACE_S * 1.001
            entry = await bus.get(CALL)
            assert entry
            assert decode(entry.value, Call, CALL).epoch == len(times) - 1

    virtual.run(main())


@given(st.lists(st.integers(0, 40), min_size=2, max_size=20), st.floats(0, 0.5))
def test_an_outbox_says_the_newest_once_the_bus_is_back(times: list[int], cut_s: float) -> None:
    async def main() -> None:
        async with LocalBus() as bus:
            line = Line(bus)
            line.is_cut = True
            asyncio.get_running_loop().call_later(cut_s, setattr, line, "is_cut", False)
            await _run_outbox(line, times)
            entry = await bus.get(CALL)
            assert entry
            assert decode(entry.value, Call, CALL).epoch == len(times) - 1

    virtual.run(main())


def test_an_outbox_that_was_cleared_says_nothing_of_before() -> None:
    async def main() -> None:
        async with LocalBus() as bus:
            line = Line(bus)
            line.is_cut = True
            outbox = Outbox(line, patience_s=0.5)
            task = asyncio.create_task(outbox.run())
            outbox.put(Call(agent="a", epoch=1))
            await asyncio.sleep(0.05)
            outbox.clear()
            line.is_cut = False
            await asyncio.sleep(1)
            task.cancel()
            assert line.puts == []

    virtual.run(main())


def _report(measured: dict[str, Measured], incarnation: int = 1) -> Report:
    return Report(
        agent="a", incarnation=incarnation, beat=1, epoch=1, seq=1, left_ns=0, shares={}, measured=measured
    )


@given(st.lists(st.integers(1, 10**9), min_size=2, max_size=60), st.integers(1, 10**9))
def test_a_steady_rate_is_seen_as_it_is_however_reports_come(gaps: list[int], bytes_per_s: int) -> None:
    sighting, now_ns = Sighting(), 0
    for gap in gaps:
        now_ns += gap
        sent = bytes_per_s * now_ns // 10**9
        sighting.note(_report({"f": Measured(sent, sent // 2, 1)}), now_ns)
    rates = sighting.rates("f")
    assert rates
    span_ns = min(sum(gaps[1:]), SPAN_NS)
    rounding_bps = 16 * 10**9 / span_ns + 1
    assert rates.sent_bps == pytest.approx(8 * bytes_per_s, abs=rounding_bps)
    assert rates.acked_bps == pytest.approx(4 * bytes_per_s, abs=rounding_bps)


def test_a_rate_is_of_the_last_second_alone() -> None:
    sighting = Sighting()
    sent = 0
    for tenth in range(100):
        sent += 1000 if tenth < 80 else 10
        sighting.note(_report({"f": Measured(sent, sent, 1)}), tenth * 10**8)
    rates = sighting.rates("f")
    assert rates
    assert rates.sent_bps == 8 * 100


@pytest.mark.parametrize(
    "later", [_report({"f": Measured(5, 5, 1)}), _report({"f": Measured(50, 50, 1)}, 2), _report({})]
)
def test_there_is_no_rate_where_bytes_are_counted_anew(later: Report) -> None:
    sighting = Sighting()
    assert sighting.rates("f") is None
    sighting.note(_report({"f": Measured(10, 10, 1)}), 0)
    assert sighting.rates("f") is None
    sighting.note(later, SPAN_NS)
    assert sighting.rates("f") is None


def test_the_first_that_ends_ends_all_and_its_own_error_is_raised() -> None:
    ended = []

    async def long(name: str) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(name)

    async def fails() -> NoReturn:
        await asyncio.sleep(1)
        raise HowdahError("no more")

    async def main() -> float:
        with pytest.raises(HowdahError, match=r"^no more$"):
            await together(long("a"), fails(), long("b"))
        return asyncio.get_running_loop().time()

    assert virtual.run(main()) == 1
    assert sorted(ended) == ["a", "b"]


def test_what_goes_wrong_again_is_told_again_only_once_it_was_right() -> None:
    told: list[str] = []
    complaints = Complaints(told.append)
    for text in ("x", "x", "y", "x"):
        complaints.wrong("here", HowdahError(text))
    complaints.wrong("there", HowdahError("x"))
    complaints.right("here")
    complaints.wrong("here", HowdahError("x"))
    assert told == ["x", "y", "x", "x", "x"]


def test_changes_come_in_batches_of_all_there_is() -> None:
    async def main() -> list[list[str]]:
        found = []
        async with LocalBus() as bus:
            await bus.put("k.a", b"")
            await bus.put("k.b", b"")
            async with bus.watch("k.") as watch:
                async for changes in watch.batches(0.1):
                    found.append([change.key for change in changes])
                    if len(found) == 1:
                        await bus.put("k.b", b"1")
                        await bus.put("k.c", b"")
                    elif len(found) == 2:
                        await bus.close()
        return found

    assert virtual.run(main()) == [["k.a", "k.b"], ["k.b", "k.c"]]


@pytest.mark.parametrize(
    "message",
    [
        _report({"f": Measured(1, 2, 3)}),
        Call(agent="a", epoch=3),
        Grant(
            agent="a",
            epoch=3,
            seq=4,
            incarnation=5,
            beat=6,
            lease_ns=7,
            alone="minimum",
            shares={"f": FlowShare(8, 9)},
        ),
        Places(
            agent="a", members={"f": Member("a", "10.0.0.0/8", (1, 2)), "g": Member("a", None, (1, 2), "/c")}
        ),
    ],
)
def test_a_message_is_read_from_under_its_own_key_alone(message: Message) -> None:
    value, kind = msgspec.json.encode(message), type(message)
    assert decode(value, kind, key_of(message)) == message
    other = key_of(msgspec.structs.replace(message, agent="b"))
    with pytest.raises(HowdahError, match="is about a; give each host a name of its own"):
        decode(value, kind, other)


_SIGNALLED = """
import asyncio, os, signal, sys
from howdah.interrupt import Interrupted
from howdah.cli.control_command import signalled

async def work():
    try:
        print("works", flush=True)
        await asyncio.sleep(60)
    finally:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.05)
        print("put back", flush=True)

signalled(work())
"""


def test_a_signal_lets_the_work_end_whole_and_is_the_exit_code() -> None:
    process = subprocess.Popen([sys.executable, "-c", _SIGNALLED], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "works\n"
    process.terminate()
    out, _ = process.communicate(timeout=30)
    assert out == "put back\n"
    assert process.returncode == 143
