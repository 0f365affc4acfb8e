"""Whether somebody is there, by the round trips before the first byte."""

import pytest

from howdah.steering.sources import RttSample, others_present
from howdah.steering.tunables import TUNED

QUIET = [0.1 + 0.00002 * (step % 7) for step in range(30)]
SAWTOOTH = [0.1 + 0.0004 * (step % 10) for step in range(30)]
FULL = [each + 0.05 for each in QUIET]


def samples(rtt_s: list[float | None]) -> list[RttSample]:
    return [RttSample(0.01 * step, each) for step, each in enumerate(rtt_s)]


@pytest.mark.parametrize(
    ("rtt_s", "base_rtt_s", "there"),
    [
        (QUIET, None, False),
        (QUIET, 0.0999, False),
        (SAWTOOTH, None, True),
        (FULL, None, False),
        (FULL, 0.1, True),
        ([*QUIET, 0.2], None, False),
        ([each + 0.01 * (6 <= step < 13) for step, each in enumerate(QUIET)], None, False),
        ([each + 0.01 * (6 <= step < 16) for step, each in enumerate(QUIET)], None, True),
        (FULL[: TUNED.before_answers], 0.1, True),
        (FULL[: TUNED.before_answers - 1], 0.1, False),
        (SAWTOOTH[: TUNED.before_spread_answers], None, True),
        (SAWTOOTH[: TUNED.before_spread_answers - 1], 0.1, False),
        ([None] * 30, 0.1, False),
        ([], None, False),
    ],
    ids=[
        "quiet",
        "its base",
        "moves",
        "full, not known",
        "full",
        "one late",
        "a pause of less than a quarter",
        "a third",
        "few",
        "too few",
        "ten",
        "nine",
        "silent",
        "none",
    ],
)
def test_a_queue_of_others_is_heard(rtt_s: list[float | None], base_rtt_s: float | None, there: bool) -> None:
    assert others_present(samples(rtt_s), base_rtt_s) is there


BUSY = [0.0001 + 0.003 * (step % 5 < 2) for step in range(30)]


@pytest.mark.parametrize(
    ("rtt_s", "there"),
    [
        ([0.0001 + each for each in BUSY], False),
        ([0.0001 + each for each in reversed(BUSY)], False),
        (SAWTOOTH, False),
        ([0.1 + 0.02 * (step % 10) for step in range(30)], True),
        (FULL, True),
    ],
    ids=["its own timers", "not the same probes", "less than those", "a queue that moves", "a full queue"],
)
def test_what_a_busy_host_is_late_by_is_no_queue(rtt_s: list[float], there: bool) -> None:
    base_rtt_s = min(*rtt_s, 0.1)
    assert others_present(samples(rtt_s), base_rtt_s), "a host that is not busy"
    busy = [each._replace(late_s=late_s) for each, late_s in zip(samples(rtt_s), BUSY, strict=True)]
    assert others_present(busy, base_rtt_s) is there


def test_a_host_that_is_always_as_late_takes_nothing_off() -> None:
    late = [each._replace(late_s=0.004) for each in samples(SAWTOOTH)]
    assert others_present(late, None)


def test_lost_probes_tell_nothing() -> None:
    assert not others_present(samples([None if step % 2 else each for step, each in enumerate(QUIET)]), None)
