"""What series of round trips tell: made up here, in virtual time, so that what happened is known."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howdah.measure.probe_summary import summary
from howdah.probing.prober import ProbeSample, ProbingResult, Rhythm
from howdah.probing.series import Events, Floats, Series, burst_means, events, step_series
from howdah.recognition.models import own
from howdah.recognition.recognise import model_for
from howdah.values.probe import Counts
from howdah.words.probe import in_words

STEP_S = 0.01
NOISE_S = 50e-6


def sent_at(steps: int, random: np.random.Generator) -> Floats:
    return (np.arange(steps) + random.random(steps)) * STEP_S


def seen(sent_s: Floats, rtt_s: Floats, random: np.random.Generator, lost: Floats | float = 0.0) -> Series:
    noisy = rtt_s + random.exponential(NOISE_S, len(rtt_s))
    return Series(STEP_S, sent_s, np.where(random.random(len(rtt_s)) < lost, np.nan, noisy))


def queue(sent_s: Floats, loads: list[tuple[float, float]], size_s: float) -> tuple[Floats, Floats]:
    """A fluid queue under loads (duration, arrivals over capacity): its delay and loss at each instant."""
    ends_s = np.cumsum([length for length, _ in loads])
    depth_s, lost = np.empty_like(sent_s), np.zeros_like(sent_s)
    level_s = now_s = 0.0
    index = 0
    for number, at_s in enumerate(sent_s):
        while now_s < at_s:
            last = index == len(loads) - 1
            until_s = at_s if last else min(at_s, float(ends_s[index]))
            level_s = min(size_s, max(0.0, level_s + (loads[index][1] - 1) * (until_s - now_s)))
            now_s = until_s
            index += not last and now_s >= ends_s[index]
        depth_s[number] = level_s
        if level_s >= size_s:
            lost[number] = max(0.0, 1 - 1 / max(loads[index][1], 1))
    return depth_s, lost


RTT_S = st.floats(0.001, 0.4)
SEED = st.integers(0, 2**32 - 1)


@settings(max_examples=25)
@given(RTT_S, st.floats(0, 0.2), SEED)
def test_an_idle_path_has_its_base_no_queue_and_one_route(base_s: float, lost: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    sent_s = sent_at(700, random)
    found = events(seen(sent_s, np.full(700, base_s), random, lost))
    assert found.changes == []
    assert base_s <= found.base_s[-1] < base_s + NOISE_S
    assert found.queue_share < 0.01
    assert found.base_is_seen


@settings(max_examples=25)
@given(
    RTT_S,
    st.lists(st.tuples(st.floats(0.05, 3), st.floats(0, 0.98) | st.floats(1.3, 3)), min_size=1, max_size=8),
    st.floats(0.03, 0.2),
    SEED,
)
def test_whatever_arrives_a_queue_is_no_change_of_route(
    base_s: float, loads: list[tuple[float, float]], size_s: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    sent_s = sent_at(1000, random)
    depth_s, lost = queue(sent_s, loads, size_s)
    found = events(seen(sent_s, base_s + depth_s, random, lost))
    assert found.changes == []
    answered = ~np.isnan(found.queue_s)
    # The queue is what it was, above the least of it that was met.
    least_s = depth_s[answered].min()
    assert np.abs(found.queue_s - (depth_s - least_s))[answered].max() < 20 * NOISE_S


@settings(max_examples=25)
@given(st.tuples(RTT_S, st.floats(0.06, 0.1)), st.floats(2.0, 4.9), st.booleans(), st.floats(0, 0.05), SEED)
def test_a_base_that_moves_for_good_is_told_once(
    route: tuple[float, float], at_s: float, longer: bool, lost: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    sent_s = sent_at(700, random)
    base_s, moved_s = route[0], route[1] + 0.05 * route[0]
    before_s, after_s = (base_s, base_s + moved_s) if longer else (base_s + moved_s, base_s)
    # Both directions change at once: for a while a round trip has one way of each.
    there_s = np.where(sent_s < at_s, before_s, after_s) / 2
    back_s = np.where(sent_s + there_s < at_s, before_s, after_s) / 2
    found = events(seen(sent_s, there_s + back_s, random, lost))
    assert len(found.changes) == 1
    (change,) = found.changes
    assert change.at_s == pytest.approx(at_s, abs=6 * STEP_S + max(before_s, after_s) / 2)
    assert change.before_s == pytest.approx(before_s, abs=2 * NOISE_S)
    assert change.after_s == pytest.approx(after_s, abs=2 * NOISE_S)
    # The base is kept for each route, so that neither has a queue.
    assert found.queue_share < 0.01
    assert found.base_s[0] == pytest.approx(before_s, abs=2 * NOISE_S)
    assert found.base_s[-1] == pytest.approx(after_s, abs=2 * NOISE_S)


@settings(max_examples=15)
@given(RTT_S, st.floats(0.004, 0.03), st.booleans(), SEED)
def test_so_is_a_small_move_where_nothing_is_lost(
    base_s: float, moved_s: float, longer: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    sent_s = sent_at(700, random)
    route_s = np.where((sent_s < 3) == longer, base_s, base_s + moved_s)
    (change,) = events(seen(sent_s, route_s, random)).changes
    assert change.at_s == pytest.approx(3, abs=2 * STEP_S)


def with_bursts_of_queue(at_s: float | None) -> Events:
    """Bursts of 20 ms every half second, on a route that becomes 30 ms longer or does not."""
    random = np.random.default_rng(5)
    sent_s = sent_at(700, random)
    depth_s, lost = queue(sent_s, [(0.02, 2.0), (0.48, 0.5)] * 14, 0.1)
    route_s = np.where(sent_s < (at_s or np.inf), 0.05, 0.08)
    return events(seen(sent_s, route_s + depth_s, random, lost))


def test_a_change_of_route_under_a_queue_that_comes_and_goes_is_told() -> None:
    (change,) = with_bursts_of_queue(3.1).changes
    assert change.after_s - change.before_s == pytest.approx(0.03, abs=3 * NOISE_S)
    assert with_bursts_of_queue(None).changes == []


def test_a_base_is_an_upper_bound_where_a_queue_hardly_ever_empties() -> None:
    random = np.random.default_rng(2)
    sent_s = sent_at(700, random)
    sawtooth_s = 0.05 + 0.03 * (sent_s / 3 % 1)
    assert not events(seen(sent_s, sawtooth_s, random)).base_is_seen


def looks(kind: str, rtts: list[tuple[int, float | None]]) -> list[ProbeSample]:
    return [
        ProbeSample(
            kind="step" if kind == "step" else "burst", index=index, sent_s=index * STEP_S, rtt_s=rtt_s
        )
        for index, rtt_s in rtts
    ]


def test_gaps_are_gaps() -> None:
    # Lost, never sent, and lost for longer.
    given_looks = looks(
        "step", [(0, 0.1), (1, None), (3, 0.1), *((at, None) for at in range(4, 40)), (40, 0.1)]
    )
    series = step_series(given_looks, STEP_S)
    assert np.flatnonzero(~np.isnan(series.rtt_s)).tolist() == [0, 3, 40]
    assert [(gap.from_s, gap.until_s) for gap in series.gaps(0.25)] == [pytest.approx((0.04, 0.4))]


def test_the_papers_series_is_the_mean_of_what_each_burst_got_back() -> None:
    series = burst_means(looks("burst", [(0, 0.1), (0, 0.2), (1, None), (3, 0.3), (3, None)]), 1.0)
    assert series.rtt_s.tolist() == pytest.approx([0.15, np.nan, np.nan, 0.3], nan_ok=True)
    assert len(burst_means([], 1.0).rtt_s) == 0


def test_what_makes_the_figures_worse_is_noted_and_too_little_is_refused() -> None:
    many = looks("step", [(at, 0.1) for at in range(100)])
    counts = Counts(sent=100, answered=100, unstamped=60, skipped=1, doubled=2)
    probe = summary(ProbingResult(looks=many, counts=counts, elapsed_s=1.0), Rhythm(), "icmp", "192.0.2.7")
    assert [note.split(" ")[1] for note in probe.notes] == ["probe", "answers", "answers:"]
    assert probe.gaps == []
    assert len(probe.rtt_s) == 100
    with pytest.raises(Exception, match="too few to tell anything; give a longer for_s"):
        few = ProbingResult(looks=many[:3], counts=counts, elapsed_s=1.0)
        summary(few, Rhythm(), "icmp", "192.0.2.7")


def test_without_a_queue_it_is_nobody_on_any_path() -> None:
    rng = np.random.default_rng(1)
    # Loopback: the host's own delays are many times the base RTT, and nothing is in a queue.
    rtts_s = 4e-6 + 30e-6 * rng.random(1000)
    looks = [ProbeSample(kind="step", index=i, sent_s=i / 100, rtt_s=rtt_s) for i, rtt_s in enumerate(rtts_s)]
    counts = Counts(sent=1000, answered=1000, lost=0)
    probe = summary(ProbingResult(looks=looks, counts=counts, elapsed_s=10.0), Rhythm(), "icmp", "192.0.2.7")
    assert probe.queue_share == 0
    assert probe.others is not None
    assert probe.others.new
    assert probe.others.background == "nobody"
    base, *_ = (line for line in in_words(probe, "here").splitlines() if line.startswith("Base RTT"))
    assert base == f"Base RTT  {min(rtts_s) * 1e6:.1f} µs"


def test_a_damaged_model_takes_nothing_from_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    model_for.cache_clear()
    file = own("nothing")
    file.parent.mkdir(parents=True)
    file.write_bytes(b"damaged")
    many = looks("step", [(at, 0.02) for at in range(100)])
    counts = Counts(sent=100, answered=100)
    probe = summary(ProbingResult(looks=many, counts=counts, elapsed_s=1.0), Rhythm(), "icmp", "192.0.2.7")
    assert probe.base_rtt_s == pytest.approx(0.02)
    (said,) = (line for line in in_words(probe, "dtn2").splitlines() if line.startswith("Others"))
    assert said.startswith(f"Others    cannot tell: {file} is not a model: ")
    assert said.endswith(", or remove that file, and howdah's own model is used")
