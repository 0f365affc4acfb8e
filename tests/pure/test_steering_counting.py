"""CUBIC streams counted by the queue that they make beside paced streams, on paths drawn by a seed."""

# ruff: noqa: S311

import math
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest
from beside import DEFAULT, Steered, arbiter_of
from cubics import Cubics, PathOfOthers
from msgspec.structs import replace

from howdah.steering.counting import Count
from howdah.steering.machine import Tick
from howdah.steering.path_state import PathCapacity, PathState
from howdah.steering.policy import Situation, UtilityPolicy
from howdah.steering.shares import Belief, jain
from howdah.steering.states import Phase
from howdah.steering.throughput import Look
from howdah.steering.tunables import TUNED

LOOK_S = 0.2
SETTLED_S = 20.0


class Drawn(NamedTuple):
    """A path, its others, and our part of it."""

    path: PathOfOthers
    streams: int
    part: float
    measured: float
    """What it is taken to carry, of what it does."""
    seed: int


def drawn(seed: int) -> Drawn:
    """100 Mb/s to 2.5 Gb/s, 20 to 250 ms, a queue of 0.2 to 3 bandwidth × delay."""
    draw = Random(seed)
    path = PathOfOthers(
        10 ** draw.uniform(8, 9.4), 10 ** draw.uniform(-1.7, -0.6), 10 ** draw.uniform(-0.7, 0.48)
    )
    streams = draw.choice([1, 2, 4])
    return Drawn(path, streams, draw.choice([1 / 2, 1 / (streams + 1)]), draw.uniform(0.9, 1.1), seed)


def counted(drawn: Drawn, length_s: float = 100.0) -> list[int | None]:
    """The count at each look."""
    path, count = drawn.path, Count()
    counts: list[int | None] = []
    others = Cubics(path, drawn.streams, Random(drawn.seed))
    while others.t_s < length_s + SETTLED_S:
        rtt_s = others.go(LOOK_S, drawn.part * path.carries_bps)
        if others.t_s > SETTLED_S:
            rest_bps = (drawn.measured - drawn.part) * path.carries_bps
            count = count.look(others.t_s, rtt_s, path.base_rtt_s, rest_bps)
            counts.append(count.streams)
    return counts


def test_on_drawn_paths_the_count_is_that_of_the_streams_or_there_is_none() -> None:
    known = right = near = 0
    for seed in range(120):
        case = drawn(seed)
        streams = counted(case)[-1]
        known += streams is not None
        right += streams == case.streams
        near += streams is not None and abs(streams - case.streams) <= max(1, case.streams / 2)
    assert known >= 0.5 * 120
    assert right >= 0.7 * known
    assert near >= 0.97 * known


@pytest.mark.parametrize(
    "queue",
    [
        lambda t_s: 0.0,
        lambda t_s: 0.8,
        lambda t_s: 0.5 + 0.25 * math.sin(2 * math.pi * t_s / 0.4),
        lambda t_s: 0.3 + 0.5 * (t_s % 7) / 7,
        lambda t_s: 0.9 if t_s % 20 < 10 else 0.0,
        lambda t_s: 0.2 + 0.05 * (t_s % 12),
    ],
    ids=["none", "stays", "pulses as of BBR", "grows as of Reno", "bursts as of UDP", "grows for long"],
)
@pytest.mark.parametrize("seed", range(5))
def test_a_queue_of_others_than_cubic_counts_nothing(queue: Callable[[float], float], seed: int) -> None:
    draw, count = Random(seed), Count()
    for look in range(1, 1500):
        t_s = look * LOOK_S
        rtt_s = 0.05 * (1 + queue(t_s)) + abs(draw.gauss(0, 2e-4))
        count = count.look(t_s, rtt_s, 0.05, 100e6)
        assert count.streams is None


class Beside(NamedTuple):
    """What a steered transfer did beside them, over the last 40 s."""

    arbiter: Steered
    jain: float
    ours_bps: float


def beside(
    path: PathOfOthers,
    streams: int,
    belief: Belief | None,
    *,
    length_s: float = 150.0,
    seed: int = 1,
    arrives: float = 1.0,
) -> Beside:
    """The machine paces the plan's streams to their share of a measured path, beside CUBIC streams.

    ``arrives`` is the part of the pacing that arrives once the path was measured.
    """
    now = Situation(DEFAULT, DEFAULT, ("cubic", "bbr"), stream_most_bps=1e9)
    arbiter, others = arbiter_of(UtilityPolicy(0.5), now), Cubics(path, streams, Random(seed))
    arbiter.state = replace(arbiter.state, reno_starts=False)
    # No dips and no other probe: what the path carries is told.
    known, acked, late = PathState(path.base_rtt_s, path.queue_bdp, finely=False), 0.0, [0.0] * (streams + 1)
    each_bps, looks = 0.5 * path.carries_bps / DEFAULT.streams, 0
    while others.t_s < SETTLED_S:
        others.go(LOOK_S, each_bps * DEFAULT.streams)
    arbiter.capacity_probed(path.carries_bps)
    while others.t_s < length_s:
        rtt_s, count = others.go(LOOK_S, arrives * each_bps * DEFAULT.streams), DEFAULT.streams
        acked += arrives * each_bps * count * LOOK_S / 8
        if belief is not None and round(others.t_s / LOOK_S) % 5 == 0 and arbiter.has_fair_pace:
            arbiter.update_belief(belief)
        rates_bps = [arrives * each_bps] * count
        look = Look(others.t_s, round(acked), 0, rtt_s, 1000.0)
        command = arbiter.observe(Tick(look, known, path.base_rtt_s, rtt_s, rates_bps, rates_bps))
        if command is not None:
            arbiter.made(command, others.t_s, None, sum(rates_bps))
            each_bps = command.choice.pacing_bps or each_bps
        if others.t_s > length_s - 40:
            looks += 1
            late = [a + b for a, b in zip(late, [sum(rates_bps), *others.rates_bps], strict=True)]
    return Beside(arbiter, jain(late), late[0] / looks)


FAR, NEAR = PathOfOthers(470e6, 0.128, 1.0), PathOfOthers(188e6, 0.04, 1.0)


@pytest.mark.parametrize(("path", "streams"), [(FAR, 1), (FAR, 2), (FAR, 4), (NEAR, 1), (NEAR, 2), (NEAR, 4)])
def test_the_share_follows_the_count(path: PathOfOthers, streams: int) -> None:
    ran = beside(path, streams, None)
    assert ran.arbiter.state.phase is Phase.PACED
    assert ran.jain > 0.97


@pytest.mark.parametrize("label", ["1 bbr", "1 udp"])
def test_who_is_taken_for_another_and_leaves_a_share_is_counted(label: str) -> None:
    ran = beside(FAR, 4, Belief({label: 0.9}))
    assert ran.arbiter.state.count.streams is not None
    assert ran.jain > 0.97


@pytest.mark.parametrize("belief", [None, Belief({"1 bbr": 0.9}), Belief({"1 udp": 0.9})])
def test_nothing_is_counted_where_less_than_a_share_arrives(belief: Belief | None) -> None:
    ran = beside(FAR, 4, belief, arrives=0.6)
    assert ran.arbiter.state.count.streams is None
    assert ran.arbiter.path.capacity.counted == 0


def test_a_count_never_takes_more_than_without_it() -> None:
    """Two were told when the path was measured, so less than a third is no share of one that is counted."""
    capacity = PathCapacity(sharers=3, probed_bps=300e6)
    assert replace(capacity, counted=1).share_bps == capacity.share_bps == pytest.approx(100e6)
    assert replace(capacity, counted=4).share_bps == pytest.approx(60e6)


def test_another_route_has_another_count() -> None:
    ran = beside(FAR, 2, None)
    assert ran.arbiter.state.count.streams == 2
    ran.arbiter.on_new_route()
    assert ran.arbiter.state.count == Count()
    assert ran.arbiter.path.capacity.counted == 0


@pytest.mark.parametrize("source", [1.0, 0.1], ids=["as fast as the path", "slow"])
def test_who_was_counted_long_ago_is_counted_no_more(source: float) -> None:
    """The others have left. The copy takes their part, or its source is too slow for its own."""
    arbiter = beside(FAR, 2, None).arbiter
    assert arbiter.path.capacity.counted == 2
    known = PathState(FAR.base_rtt_s, FAR.queue_bdp, finely=False)
    t_s, acked, each_bps = 150.0, 10.0 * FAR.carries_bps, 0.1 * FAR.carries_bps
    while t_s < 150.0 + TUNED.count_kept_s + 30:
        t_s += LOOK_S
        rates_bps = [min(each_bps, source * FAR.carries_bps / DEFAULT.streams)] * DEFAULT.streams
        acked += sum(rates_bps) * LOOK_S / 8
        look = Look(t_s, round(acked), 0, FAR.base_rtt_s, 1000.0)
        command = arbiter.observe(Tick(look, known, FAR.base_rtt_s, FAR.base_rtt_s, rates_bps, rates_bps))
        if command is not None:
            arbiter.made(command, t_s, None, sum(rates_bps))
            each_bps = command.choice.pacing_bps or each_bps
    assert sum(rates_bps) > 0.9 * source * FAR.carries_bps
    assert arbiter.state.count.streams is None
    assert arbiter.path.capacity.counted == 0


@pytest.mark.parametrize("rtt_s", [0.2, FAR.base_rtt_s], ids=["a queue that stays", "no queue since"])
def test_what_was_counted_long_ago_counts_no_more(rtt_s: float) -> None:
    others, count = Cubics(FAR, 2, Random(1)), Count()
    while count.streams is None:
        longer_s = others.go(LOOK_S, 0.5 * FAR.carries_bps)
        count = count.look(others.t_s, longer_s, FAR.base_rtt_s, 0.5 * FAR.carries_bps)
    later_s = others.t_s + TUNED.count_kept_s
    for look in range(1, 100):
        count = count.look(later_s + look * LOOK_S, rtt_s, FAR.base_rtt_s, 0.5 * FAR.carries_bps)
    assert count.streams is None
