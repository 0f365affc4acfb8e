"""Active probing: what is sent, what is told of it, and that it is judged by a model of its own."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rtts import recording
from samples import PROBE

from howdah import HowdahError
from howdah.dataset.plan import load, loads
from howdah.recognition.model import Undecided
from howdah.recognition.recognise import recognise
from howdah.recognition.recording import Burst, bursts_of
from howdah.recognition.windows import SENT, sent_at
from howdah.traffic.bursts import PROFILE, QUIET_S, profile
from howdah.traffic.pattern import Tcp
from howdah.values.probe import Burst as Sent
from howdah.words.probe import in_words

SCENARIOS = Path(__file__).parents[2] / "scenarios"

PLAN = """
name = "active"
length = "40s"
runs = 2
bursts = true
[[path]]
name = "wide"
rate = "100Mbit"
rtt = "50ms"
"""


def when(for_s: float) -> dict[str, list[tuple[float, float]]]:
    return {
        load.congestion_control or "": [tuple(period) for period in load.wave.periods(for_s)]
        for load in PROFILE.loads
        if isinstance(load, Tcp)
    }


def test_by_default_cubic_bbr_cubic_and_nothing_take_turns() -> None:
    assert when(PROFILE.duration_s) == {"cubic": [(0, 5), (10, 15)], "bbr": [(5, 10)]}
    assert when(50) == {
        "cubic": [(0, 5), (10, 15), (20, 25), (30, 35), (40, 45)],
        "bbr": [(5, 10), (25, 30), (45, 50)],
    }


def test_the_scenario_is_the_default() -> None:
    assert profile(SCENARIOS / "probe-bursts.toml", None) == profile(None, None) == PROFILE


def test_a_time_is_of_all_with_what_comes_before_the_first_burst() -> None:
    for file in (None, SCENARIOS / "probe-bursts.toml"):
        assert profile(file, 52.0).duration_s == 52.0 - QUIET_S
    with pytest.raises(HowdahError, match=r"for_s=2\.0 leaves no time for bursts, which begin after 2 s"):
        profile(None, 2.0)


def test_what_does_not_yield_is_no_probe() -> None:
    file = SCENARIOS / "traffic-square-udp.toml"
    with pytest.raises(HowdahError, match=r"traffic-square-udp.toml: load udp1 is not TCP"):
        profile(file, None)


def test_what_was_sent_is_told_with_what_it_cost() -> None:
    bursts = [
        Sent(start_s=2.0, end_s=7.1, congestion_control="cubic", bytes=1_500_000_000),
        Sent(start_s=7.0, end_s=12.2, congestion_control="bbr", bytes=400_000_000),
    ]
    lines = in_words(msgspec.structs.replace(PROBE, bursts=bursts), "dtn2").splitlines()
    (line,) = (line for line in lines if line.startswith("Sent"))
    assert line == "Sent      1.90 GB: cubic 5.1 s and bbr 5.2 s; RTT, Queue and Room include their effect"
    assert not any(line.startswith("Sent") for line in in_words(PROBE, "dtn2").splitlines())
    assert bursts_of(bursts) == (
        Burst(start_s=2.0, end_s=7.1, congestion_control="cubic"),
        Burst(start_s=7.0, end_s=12.2, congestion_control="bbr"),
    )


def test_what_was_sent_when_is_known_step_by_step() -> None:
    bursts = [
        Burst(start_s=1.0, end_s=2.0, congestion_control="cubic"),
        Burst(start_s=2.0, end_s=3.0, congestion_control="bbr"),
        Burst(start_s=4.0, end_s=9.0, congestion_control="hd_scalable"),
    ]
    names = [SENT[code] for code in sent_at(np.array([0.5, 1.0, 1.9, 2.0, 3.0, 4.5]), bursts)]
    assert names == ["nothing", "cubic", "cubic", "bbr", "nothing", "other"]


def test_it_is_a_situation_of_its_own() -> None:
    made = recording("bbr", "run", 7, duration_s=12.0)
    burst = Burst(start_s=made.times_s[0], end_s=made.times_s[0] + 5, congestion_control="cubic")
    assert made.situation == "nothing"
    assert replace(made, bursts=(burst,)).situation == "bursts"
    answer = recognise(made.times_s, made.rtt_s, made.base_rtt_s, {"cubic": 1}, (burst,))
    assert isinstance(answer, Undecided)
    assert answer.why == "there is no model for a path with bursts+cubic of our own on it"


def test_a_data_set_has_them_beside_every_class() -> None:
    plan = loads(PLAN, "p.toml")
    assert plan.controls() == ["cubic", "bbr"]
    assert {Path(run.file).parts[0] for run in plan.runs()} == {"bursts"}
    assert "bursts/wide.1cubic.beside-bursts.2.npz" in {run.file for run in plan.runs()}
    assert all(run.bursts and not run.ours for run in plan.runs())
    # What is sent is part of what a run is.
    passive = loads(PLAN.replace("bursts = true", ""), "p.toml")
    assert not {run.name for run in plan.runs()} & {run.name for run in passive.runs()}
    with pytest.raises(HowdahError, match=r"p.toml: bursts exclude other streams of ours"):
        loads(PLAN.replace("bursts = true", 'bursts = true\nours = ["nobody", "1 cubic"]'), "p.toml")
    shipped = load(SCENARIOS / "shared-dataset-active.toml")
    assert shipped.bursts
    assert shipped.length_s >= 150
