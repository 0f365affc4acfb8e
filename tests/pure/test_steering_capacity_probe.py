"""What a path carries, by moments of sending less: over a path in virtual time that keeps Little's law."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from stepped import Stepped

from howdah.steering.capacity_probe import (
    CapacityProbe,
)
from howdah.steering.throughput import Rates, lately_s
from howdah.steering.tunables import TUNED
from howdah.values.listened import Dip

STEP_S = 0.01
TICK = 10
"""Steps between two looks."""


class Path(NamedTuple):
    """Others and we on it, by what each has on its way."""

    capacity_bps: float = 500e6
    base_rtt_s: float = 0.1
    ours: float = 0.3
    """Of what is on its way."""
    queue_bdp: float = 0.6
    grows: float = 0.01
    """What others have on their way, a second."""
    noise_s: float = 0.0001
    cut_s: Callable[[float], bool] = lambda t_s: False
    """Whether others lose something at that instant."""
    windows: tuple[float, ...] = (1.0,)
    """How what is ours is divided among streams."""


def steps(path: Path, gauge: Stepped, lasts_s: float, known_base_s: float | None = None) -> Iterator[float]:
    """The bound of each stream in force, at each look."""
    chance = np.random.default_rng(1)
    whole = path.capacity_bps * path.base_rtt_s * (1 + path.queue_bdp)
    window = path.ours * whole * np.array(path.windows) / sum(path.windows)
    mine, others = window.copy(), (1 - path.ours) * whole
    rtt_s, bound_bps = path.base_rtt_s * (1 + path.queue_bdp), float("inf")
    acked = np.zeros(len(window))
    rates = Rates()
    times: list[float] = []
    rtts: list[float] = []
    for step in range(round(lasts_s / STEP_S)):
        t_s = step * STEP_S
        others *= 0.7 if path.cut_s(t_s) else 1 + path.grows * STEP_S
        # What is on its way comes to the window, or to what a bound lets out, within a round trip.
        wanted = np.minimum(window, bound_bps * rtt_s)
        mine += (wanted - mine) * min(1.0, 2 * STEP_S / rtt_s)
        rtt_s = max(path.base_rtt_s, (float(mine.sum()) + others) / path.capacity_bps)
        acked += mine / rtt_s / 8 * STEP_S
        times.append(t_s)
        rtts.append(rtt_s + chance.normal(0, path.noise_s))
        if step % TICK:
            continue
        rates.add(t_s, [round(each) for each in acked])
        if gauge.dipping:
            wish = gauge.look(t_s, np.array(times), np.array(rtts))
        else:
            had_bps = rates.each_bps(lately_s(rtts[-1]))
            wish = gauge.wants(t_s, rtts[-1], known_base_s or path.base_rtt_s, had_bps) if had_bps else None
        if wish is not None:
            bound_bps = float("inf") if wish.each_bps is None else wish.each_bps
            gauge.made(t_s, None)
        yield bound_bps


def gauged(path: Path, lasts_s: float = 30.0, known_base_s: float | None = None) -> Stepped:
    gauge = Stepped(CapacityProbe())
    for _ in steps(path, gauge, lasts_s, known_base_s):
        pass
    return gauge


@settings(deadline=None, max_examples=60)
@given(
    st.floats(20e6, 20e9),
    st.floats(0.02, 0.3),
    st.floats(0.08, 0.6),
    st.floats(0.3, 2.0),
    st.floats(0.0, 0.02),
)
def test_what_a_path_carries_is_told_beside_others(
    capacity_bps: float, base_rtt_s: float, ours: float, queue_bdp: float, grows: float
) -> None:
    path = Path(capacity_bps, base_rtt_s, ours, queue_bdp, grows, noise_s=2e-5)
    freed = min(TUNED.dip_freed, TUNED.dip_queue_freed * queue_bdp / (1 + queue_bdp))
    rtt_s = base_rtt_s * (1 + queue_bdp)
    assume(freed * ours * rtt_s > 2 * TUNED.dip_drop_s)
    # Others must not grow by as much as is held back meanwhile.
    assume(grows * TUNED.dip_round_trips * rtt_s < 0.3 * freed * ours)
    assert gauged(path).capacity_bps == pytest.approx(capacity_bps, rel=0.25)


def test_streams_of_unequal_windows_tell_it_too() -> None:
    """Those that have less than an equal part of a bound are not bounded by it."""
    path = Path(ours=0.5, windows=(1.0, 1.0, 1.5, 2.0, 4.0, 8.0, 8.0, 16.0))
    assert gauged(path).capacity_bps == pytest.approx(500e6, rel=0.1)


def test_what_hardly_shows_tells_nothing() -> None:
    assert gauged(Path(20e6, 0.02, ours=0.02, queue_bdp=0.3)).capacity_bps is None


def test_a_base_rtt_that_is_too_long_costs_no_more_than_precision() -> None:
    """Others never let the queue empty, so the least that was seen has some of it."""
    assert gauged(Path(), known_base_s=0.13).capacity_bps == pytest.approx(500e6, rel=0.2)


def test_dips_that_empty_the_queue_do_not_count() -> None:
    """Nearly all of the path is ours, and the gauge takes it for less."""
    gauge = gauged(Path(ours=0.95, queue_bdp=0.3))
    assert any(dip.least_rtt_s and dip.least_rtt_s < 0.102 for dip in gauge.dips)
    assert gauge.capacity_bps is None or gauge.capacity_bps == pytest.approx(500e6, rel=0.25)


def test_dips_that_others_spoil_do_not_count() -> None:
    cuts = {4.0, 9.5}
    gauge = gauged(Path(grows=0.04, cut_s=lambda t_s: round(t_s, 6) in cuts))
    assert gauge.capacity_bps == pytest.approx(500e6, rel=0.25)


@pytest.mark.parametrize("after_s", [-0.1, 0.05, 0.25])
def test_a_dip_in_which_others_lose_something_tells_nothing(after_s: float) -> None:
    """The queue falls by what they have less, and does not come back."""
    path = Path(queue_bdp=1.2)
    begin_s = gauged(path).dips[2].begin_s
    cut_s = round(begin_s + after_s, 2)
    calm, cut = (
        gauged(path._replace(cut_s=lambda t_s, at_s=at_s: round(t_s, 2) == at_s), begin_s + 3).dips[2]
        for at_s in (-1.0, cut_s)
    )
    assert cut.begin_s == calm.begin_s
    assert calm.capacity_bps == pytest.approx(500e6, rel=0.1)
    assert cut.rtt_s is not None
    assert cut.least_rtt_s is not None
    assert cut.rtt_s - cut.least_rtt_s > TUNED.dip_drop_s, "it shows, but not what the path carries"
    assert cut.capacity_bps is None


def test_a_dip_that_the_queue_limits_waits_until_there_is_much_of_it() -> None:
    gauge = Stepped(CapacityProbe())
    assert gauge.wants(1.0, 0.11, 0.1, [8e6], most_queue_s=0.05) is None
    assert gauge.wants(1.0, 0.125, 0.1, [8e6], most_queue_s=0.05) is not None


def test_of_dips_that_differ_those_with_the_larger_drops_count_more() -> None:
    """The first ones of a copy that had little yet, beside CUBIC; the very first does not count."""
    told = [
        (0.195, 0.183, 143),
        (0.198, 0.190, 210),
        (0.2, 0.193, 232),
        (0.195, 0.180, 417),
        (0.205, 0.185, 435),
    ]
    dips = [
        Dip(
            begin_s=10.0 + each,
            end_s=10.4 + each,
            rate_bps=1e8,
            bound_bps=7e7,
            rtt_s=rtt_s,
            least_rtt_s=least_s,
            capacity_bps=megabits * 1e6,
        )
        for each, (rtt_s, least_s, megabits) in enumerate(told)
    ]
    gauge = CapacityProbe(dips=tuple(dips))
    assert gauge.capacity_bps == pytest.approx(417e6)


def test_where_only_one_drop_was_large_all_that_was_told_counts_in_the_end() -> None:
    """As beside a CUBIC stream on 1 Gb/s × 128 ms, where the first dips emptied the queue."""
    gauge = CapacityProbe()
    told = [(None, 23), (940, 15), (None, 45), (452, 2.9), (973, 1.3), (1048, 1.5), (1053, 1.8), (985, 2.2)]
    for number, (megabits, drop_ms) in enumerate(told):
        assert gauge.capacity_bps is None
        assert not gauge.done
        capacity_bps = None if megabits is None else megabits * 1e6
        at_s = 10.0 + number
        dip = Dip(
            begin_s=at_s,
            end_s=at_s + 0.3,
            rate_bps=2e8,
            bound_bps=1.9e8,
            rtt_s=0.15,
            least_rtt_s=0.15 - drop_ms / 1e3,
            capacity_bps=capacity_bps,
        )
        gauge = replace(gauge, dips=(*gauge.dips, dip))
    assert gauge.done
    assert gauge.capacity_bps == 940e6


def test_a_dip_is_short_and_moderate_and_ends() -> None:
    gauge = Stepped(CapacityProbe())
    bounds = list(steps(Path(), gauge, 30))
    assert gauge.done
    assert len(gauge.dips) <= 2 * TUNED.dips_most
    assert bounds[-1] == float("inf")
    for dip in gauge.dips:
        assert 0.5 * dip.rate_bps <= dip.bound_bps < dip.rate_bps
        assert (
            dip.end_s - dip.begin_s
            <= max(TUNED.dip_least_s, TUNED.dip_round_trips * 0.17) + 3 * TICK * STEP_S
        )
    begins = [dip.begin_s for dip in gauge.dips]
    ends = [dip.end_s for dip in gauge.dips]
    assert all(begin - end >= TUNED.dip_apart_s for begin, end in zip(begins[1:], ends, strict=False))


def test_the_first_dip_does_not_count() -> None:
    gauge = Stepped(CapacityProbe())
    for _ in steps(Path(), gauge, 30):
        if len(gauge.dips) < 3:
            assert gauge.capacity_bps is None
    assert gauge.capacity_bps is not None


def test_without_a_queue_nothing_is_asked() -> None:
    gauge = Stepped(CapacityProbe())
    assert gauge.wants(1.0, 0.1005, 0.1, [8e6]) is None
    assert gauge.wants(1.0, 0.15, 0.1, [0.0]) is None
    assert gauge.wants(1.0, 0.15, 0.1, [8e6]) is not None


def test_round_trips_that_do_not_answer_tell_nothing_and_it_gives_up() -> None:
    """The queue is of others that fill it whatever we do."""
    gauge = Stepped(CapacityProbe())
    rtts: list[float] = []
    chance = np.random.default_rng(2)
    for step in range(6000):
        rtts.append(0.15 + chance.normal(0, 0.0003))
        if step % TICK:
            continue
        t_s = step * STEP_S
        times = STEP_S * np.arange(len(rtts))
        wish = gauge.look(t_s, times, np.array(rtts)) if gauge.dipping else gauge.wants(t_s, 0.15, 0.1, [8e7])
        if wish is not None:
            gauge.made(t_s, None)
    assert gauge.done
    assert gauge.capacity_bps is None


def test_dips_with_more_of_the_path_count_more_than_those_before() -> None:
    """The first ones were of little and spoilt: they told half of what it carries."""
    gauge = gauged(Path(capacity_bps=Path().capacity_bps / 2, ours=0.04))
    first_bps, dips = gauge.capacity_bps, len(gauge.dips)
    assert gauge.done
    gauge.again(0.0)
    assert not gauge.done
    assert gauge.capacity_bps == first_bps
    for _ in steps(Path(), gauge, 30):
        pass
    assert gauge.done
    assert gauge.capacity_bps == pytest.approx(Path().capacity_bps, rel=0.15)
    assert len(gauge.dips) <= dips + 2 * TUNED.dips_most


def test_another_path_is_measured_anew() -> None:
    gauge = gauged(Path())
    gauge.on_new_route()
    assert gauge.capacity_bps is None
    assert not gauge.done


def test_where_bounds_are_refused_it_asks_no_more() -> None:
    gauge = Stepped(CapacityProbe())
    assert gauge.wants(1.0, 0.15, 0.1, [8e6]) is not None
    gauge.made(1.1, "not here")
    assert not gauge.dipping
    assert gauge.wants(100.0, 0.15, 0.1, [8e6]) is None
