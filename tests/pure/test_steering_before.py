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


def test_lost_probes_tell_nothing() -> None:
    assert not others_present(samples([None if step % 2 else each for step, each in enumerate(QUIET)]), None)
