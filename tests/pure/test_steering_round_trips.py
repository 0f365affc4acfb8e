"""Round trips during a transfer: which are judged, what becomes of the base RTT, and who may be deaf."""

import itertools
import math
from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import pytest

from howdah import HowdahError
from howdah.probing.series import Floats
from howdah.steering import sources
from howdah.steering.round_trips import CannotTell, RoundTrips, Verdict
from howdah.steering.sources import RttSample, StreamSource
from howdah.steering.tunables import TUNED

STEP_S = 0.01


class Played:
    """An ear that hears what it is told to."""

    by: sources.By = "icmp"
    step_s = STEP_S
    begun_s = 0.0

    def __init__(self, samples: list[RttSample]) -> None:
        self.samples = samples

    def take(self, now_s: float, rtt_s: float | None) -> list[RttSample]:
        heard = list(itertools.takewhile(lambda sample: sample.t_s <= now_s, self.samples))
        del self.samples[: len(heard)]
        return heard

    def why_silent(self) -> str | None:
        return None

    def close(self) -> None:
        pass


class Noted:
    """A recogniser that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Floats, Floats, float, Mapping[str, int]]] = []

    def __call__(
        self, times_s: Floats, rtt_s: Floats, base_rtt_s: float, ours: Mapping[str, int]
    ) -> Verdict | CannotTell:
        self.asked.append((times_s, rtt_s, base_rtt_s, ours))
        return SimpleNamespace(classes={"nobody": 1.0}, new=False, heard_s=2.5)


def played(rtt_s: list[float], from_s: float = 0.0) -> list[RttSample]:
    return [
        RttSample(from_s + STEP_S * (step + 0.5), None if math.isnan(each) else each)
        for step, each in enumerate(rtt_s)
    ]


def listened(trips: RoundTrips, from_s: float, until_s: float) -> None:
    for tick in range(round(from_s * 10) + 1, round(until_s * 10) + 1):
        trips.take(tick / 10, None)
        trips.verdict(tick / 10, {"cubic": 1})


def queued(steps: int, base_s: float = 0.05) -> list[float]:
    """A queue of one base RTT that comes and goes."""
    return [base_s * (1 + (step % 300) / 300) + (step % 7) * 2e-5 for step in range(steps)]


def test_each_second_the_end_of_the_series_is_judged_with_the_least_rtt_known() -> None:
    noted = Noted()
    trips = RoundTrips(Played(played(queued(1000))), noted, 0.049)
    listened(trips, 0, 10)
    assert 7 <= len(noted.asked) <= 9
    times_s, rtt_s, base_s, ours = noted.asked[-1]
    assert base_s == 0.049
    assert ours == {"cubic": 1}
    assert (np.diff(times_s) > 0).all()
    assert len(times_s) == len(rtt_s)
    assert trips.queue_bdp == pytest.approx(1.0, abs=0.1)


def test_what_was_heard_before_a_change_is_not_judged() -> None:
    noted = Noted()
    trips = RoundTrips(Played(played(queued(1000))), noted, None)
    listened(trips, 0, 5)
    trips.begin(5.5)
    asked = len(noted.asked)
    listened(trips, 5, 7)
    assert len(noted.asked) == asked, "too little has been heard since"
    listened(trips, 7, 10)
    assert min(each[0][0] for each in noted.asked[asked:]) >= 5.5


def test_gaps_and_late_losses_are_in_their_place_and_what_is_still_out_is_not_lost() -> None:
    rtts = queued(600)
    rtts[200:250] = [math.nan] * 50
    samples = played(rtts)
    late = [sample for sample in samples if sample.rtt_s is None]
    noted = Noted()
    source = Played([sample for sample in samples if sample.rtt_s is not None])
    trips = RoundTrips(source, noted, None)
    listened(trips, 0, 5)
    source.samples = [*late, *source.samples]
    listened(trips, 5, 6)
    times_s, rtt_s, _, _ = noted.asked[-1]
    assert (np.diff(times_s) > 0).all()
    assert np.isnan(rtt_s).sum() == 50
    assert not np.isnan(rtt_s[-1])


def test_another_route_has_another_base_and_only_its_own_round_trips_are_judged() -> None:
    rng = np.random.default_rng(1)
    noise = np.abs(rng.normal(0, 2e-5, 1600))
    rtts = np.where(np.arange(1600) < 800, 0.03, 0.05) + noise
    noted = Noted()
    trips = RoundTrips(Played(played(rtts.tolist())), noted, 0.03)
    listened(trips, 0, 16)
    (moved,) = trips.moved
    assert moved.t_s == pytest.approx(8.0, abs=0.1)
    assert (moved.before_s, moved.after_s) == pytest.approx((0.03, 0.05), abs=1e-3)
    assert trips.base_rtt_s == pytest.approx(0.05, abs=1e-3)
    assert noted.asked[-1][0][0] >= moved.t_s
    assert noted.asked[-1][2] == pytest.approx(0.05, abs=1e-3)


def test_a_small_queue_that_moves_from_one_level_to_another_is_no_other_route() -> None:
    """As beside senders that are all paced, for a while."""
    rng = np.random.default_rng(1)
    rtts = np.where(np.arange(1600) < 800, 0.0342, 0.0354) + np.abs(rng.normal(0, 2e-5, 1600))
    trips = RoundTrips(Played(played([0.03, *rtts.tolist()])), Noted(), None)
    listened(trips, 0, 16)
    assert trips.moved == []
    assert trips.base_rtt_s == 0.03


def test_an_empty_queue_that_moves_a_little_at_once_is_no_other_route() -> None:
    """As beside a copy that is held, on a machine that was busy for a moment: 2 ms of 60."""
    rng = np.random.default_rng(1)
    rtts = np.where(np.arange(1600) < 800, 0.06, 0.062) + np.abs(rng.normal(0, 2e-5, 1600))
    trips = RoundTrips(Played(played(rtts.tolist())), Noted(), 0.06)
    listened(trips, 0, 16)
    assert trips.moved == []
    assert trips.base_rtt_s == 0.06


def test_a_route_is_found_behind_a_move_that_is_none() -> None:
    rng = np.random.default_rng(1)
    step = np.arange(1600)
    levels = np.where(step < 800, 0.06, np.where(step < 1000, 0.062, 0.09))
    trips = RoundTrips(Played(played((levels + np.abs(rng.normal(0, 2e-5, 1600))).tolist())), Noted(), 0.06)
    listened(trips, 0, 16)
    (moved,) = trips.moved
    assert moved.t_s == pytest.approx(10.0, abs=0.1)


def test_only_the_last_minute_is_kept() -> None:
    noted = Noted()
    trips = RoundTrips(Played(played(queued(9000))), noted, None)
    listened(trips, 0, 90)
    times_s = noted.asked[-1][0]
    assert times_s[-1] - times_s[0] <= TUNED.series_kept_s
    assert trips.base_rtt_s == pytest.approx(0.05, abs=1e-3), "the least is not forgotten"


def test_where_no_echo_may_be_sent_the_streams_are_listened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: str) -> sources.EchoSource:
        raise HowdahError(f"{address}: no")

    monkeypatch.setattr(sources, "EchoSource", refuse)
    source, why = sources.best_source(["127.0.0.1"])
    assert isinstance(source, StreamSource)
    assert why == "127.0.0.1: no"
    assert source.take(1.5, 0.04) == [RttSample(1.5, 0.04)]
    assert sources.best_source([])[1] == "the receiver's address for ICMP echo is not known here"


def test_the_recogniser_is_asked_as_agreed() -> None:
    noted = Noted()
    trips = RoundTrips(Played(played(queued(600))), noted, None)
    listened(trips, 0, 6)
    times_s, rtt_s, base_s, ours = noted.asked[-1]
    assert times_s.dtype == rtt_s.dtype == np.float64
    assert times_s.shape == rtt_s.shape
    assert (base_s, ours) == (pytest.approx(0.05, abs=1e-3), {"cubic": 1})


def test_bursts_that_do_not_yield_are_told_without_a_model() -> None:
    on = np.arange(1200) % 400 < 120
    rtt_s = np.where(on, 0.08, 0.04) + np.arange(1200) % 7 * 1e-5
    rtt_s[on & (np.arange(1200) % 4 == 0)] = math.nan
    noted = Noted()
    trips = RoundTrips(Played(played(rtt_s.tolist())), noted, None)
    verdicts = []
    for tick in range(1, 121):
        trips.take(tick / 10, None)
        verdicts.append(trips.verdict(tick / 10, {"cubic": 1}))
    assert {"1 udp": 0.9} in [each.classes for each in verdicts if isinstance(each, Verdict)]
