"""What streams have had, and what each may have so that all have a bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah.steering.throughput import Rates, level_bps
from howdah.steering.tunables import TUNED

RATES = st.lists(st.floats(0.0, 1e10), min_size=1, max_size=64)


@given(most_bps=RATES, part=st.floats(0.001, 1.0))
def test_together_they_have_the_bound_where_none_has_too_much(most_bps: list[float], part: float) -> None:
    bound_bps = part * sum(most_bps)
    each_bps = level_bps(most_bps, bound_bps)
    together_bps = sum(min(each_bps, most) for most in most_bps)
    highest_bps = TUNED.uneven_most * bound_bps / len(most_bps)
    assert each_bps <= highest_bps
    assert together_bps == pytest.approx(bound_bps) or (together_bps < bound_bps and each_bps == highest_bps)


def test_where_they_cannot_have_a_bound_the_fastest_may_have_what_it_can() -> None:
    assert level_bps([1e6, 2e6, 15e6], 30e6) == 15e6


def test_rates_that_were_low_for_a_moment_bound_nobody_below_an_equal_part() -> None:
    """In a recovery nothing is acknowledged for a round trip."""
    assert level_bps([1e6, 2e6, 5e6], 30e6) == 10e6


def test_equal_windows_have_equal_parts() -> None:
    assert level_bps([3e6] * 4, 8e6) == 2e6


def test_rates_are_of_each_stream_and_of_late() -> None:
    rates = Rates()
    for t_s in (0.0, 1.0):
        rates.add(t_s, [])
        assert rates.each_bps(1.0) is None
    rates = Rates()
    assert rates.all_bps(0.1) is None
    for tick in range(100):
        rates.add(tick / 10, [tick * 100_000, 0, max(0, tick - 90) * 50_000])
    assert rates.each_bps(0.5) == pytest.approx([8e6, 0.0, 4e6])
    assert rates.each_bps(3.0) == pytest.approx([8e6, 0.0, 1.2e6])
    assert rates.all_bps(0.1) == pytest.approx(12e6)
    assert rates.each_bps(60.0) is None, "nothing so old is kept"


def test_a_time_that_is_not_later_counts_for_nothing() -> None:
    rates = Rates()
    for t_s, acked in ((0.0, 0), (1.0, 10**6), (1.0, 10**9), (0.5, 10**9)):
        rates.add(t_s, [acked])
    assert rates.each_bps(1.0) == [8e6]


def test_before_and_after_another_stream_was_seen_nothing_is_told() -> None:
    rates = Rates()
    rates.add(0.0, [0])
    rates.add(1.0, [10**6, 10**6])
    assert rates.each_bps(1.0) is None
    rates.add(2.0, [2 * 10**6, 2 * 10**6])
    assert rates.each_bps(1.0) == [8e6, 8e6]
