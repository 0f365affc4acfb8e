"""The reference models as Python sees them; what they do is tested in crates/cc/model."""

from pathlib import Path

import cc_model as model
import msgspec
import pytest

from howdah._native import HowdahError

MS = 1_000_000
CONTROLS = Path(__file__).parents[2] / "crates/cc/controls"
MODELS = ", ".join(sorted(each.parent.name for each in CONTROLS.glob("*/model.rs")))
"""A control is found by its folder."""
ASKED = model.Experiment(
    algorithm="reno",
    rtt_ns=40 * MS,
    start_segments=100,
    ssthresh_segments=100,
    losses_ns=(0, 2_000 * MS),
    span_ns=3_000 * MS,
)


def test_reno_grows_by_one_a_round_and_halves() -> None:
    trace = model.run(ASKED)
    assert trace.cuts[0] == model.Cut(40 * MS, before_segments=100, after_segments=50)
    # Repaired after two round trips; the next loss is found after 51.
    assert trace.cuts[1] == model.Cut(2_040 * MS, before_segments=50 + 49, after_segments=49)
    assert trace.rounds[0] == model.Round(0, 100, 100, 40 * MS)


def test_a_held_window_stays() -> None:
    trace = model.run(msgspec.structs.replace(ASKED, algorithm="hold", window_segments=70))
    assert {each.cwnd_segments for each in trace.rounds} == {70}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"algorithm": "vegas"}, f"there is no model of vegas; there are: {MODELS}"),
        ({"rtt_ns": 0}, "path: the RTT must be"),
        ({"rate_bps": 0}, "path: the rate is 0"),
        ({"parameters": {"beta": 2}}, "parameter beta is unknown; known are: none"),
        ({"algorithm": "hold"}, "hold needs a target"),
        ({"algorithm": "hold", "window_segments": 9, "hold_bps": 9}, "a window or a rate, not both"),
        ({"window_segments": 9}, "reno takes no target"),
        ({"start_segments": 1}, "start_segments is 1; it must be 2 to 1000000"),
        ({"ack_segments": 0}, "ack_segments is 0; it must be 1 to 1000"),
        ({"losses_ns": (5, 3)}, "losses_ns must be in order"),
        ({"rtt_ns": -1}, "the description of the experiment is not understood"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changed: dict[str, object], told: str) -> None:
    with pytest.raises(HowdahError) as refused:
        model.run(msgspec.structs.replace(ASKED, **changed))
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
