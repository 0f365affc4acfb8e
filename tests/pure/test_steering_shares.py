"""What a way to send should get beside others, what that is worth, and what a policy makes of both."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah.steering.policy import Situation, UtilityPolicy
from howdah.steering.shares import (
    Background,
    Belief,
    Choice,
    Shares,
    background,
    harm,
    jain,
    left_to_loss,
    shares,
    value,
    without_us,
)
from howdah.steering.tunables import TUNED

CUBIC, BBR, EIGHT = Choice("cubic", 1), Choice("bbr", 1), Choice("cubic", 8)
BACKGROUNDS = st.builds(Background, st.integers(0, 4), st.integers(0, 4), st.integers(0, 1))
CHOICES = st.builds(
    Choice, st.sampled_from(["cubic", "bbr"]), st.integers(1, 16), st.none() | st.integers(10**5, 10**9)
)


@pytest.mark.parametrize(
    ("label", "who", "kind"),
    [
        ("nobody", Background(), "nobody"),
        ("2 cubic", Background(loss=2), "loss"),
        ("1 bbr, 2 cubic", Background(loss=2, bbr=1), "bbr"),
        ("1 reno, 1 udp", Background(loss=1, udp=1), "udp"),
    ],
)
def test_a_class_says_who_is_there(label: str, who: Background, kind: str) -> None:
    assert (background(label), background(label).kind) == (who, kind)


def test_what_is_no_class_is_refused() -> None:
    with pytest.raises(ValueError, match="says not who"):
        background("some; others")


def test_a_belief_is_mixed_and_what_no_class_has_is_not_known() -> None:
    mixed = Belief({"1 bbr": 1.0}).mixed(Belief({"1 cubic": 0.5}), 0.4)
    assert mixed.classes == pytest.approx({"1 bbr": 0.6, "1 cubic": 0.2})
    assert mixed.known == pytest.approx(0.8)
    assert mixed.likeliest[0] == "1 bbr"


def test_bbr_leaves_what_the_literature_says() -> None:
    assert left_to_loss(0.5) == left_to_loss(1.0) == TUNED.left_beside_bbr
    assert left_to_loss(2.0) == pytest.approx(0.25)
    assert left_to_loss(1e9) == pytest.approx(0.5)


@given(CHOICES, BACKGROUNDS, st.floats(0, 8))
def test_shares_are_parts_of_one_path(choice: Choice, who: Background, queue_bdp: float) -> None:
    found = shares(choice, who, queue_bdp, 1e8)
    assert min(found) >= 0
    assert found.ours + sum(found.others(who)) <= 1 + 1e-9
    before = without_us(who, queue_bdp)
    assert sum(before.others(who)) <= 1 + 1e-9
    assert 0 <= value(found, before, who, 0.5) <= 1


def test_a_bound_is_a_share_and_the_others_have_the_rest() -> None:
    found = shares(Choice("cubic", 8, 5_000_000), Background(loss=1), 1.0, 100e6)
    assert found.ours == pytest.approx(0.4)
    assert found.loss == pytest.approx(0.6)


def test_jain_and_harm() -> None:
    assert jain([1, 1, 1]) == 1
    assert jain([1, 0, 0]) == pytest.approx(1 / 3)
    assert harm([0.5], [1.0]) == 0, "an equal share for a newcomer harms nobody"
    assert harm([0.1, 0.3], [0.5, 0.5]) == pytest.approx(0.7), "the one who loses most"


def test_the_knob_turns_from_its_own_rate_to_an_equal_share() -> None:
    who = Background(loss=1)
    before = without_us(who, 1.0)

    def best(fairness: float) -> float:
        return max(
            (step / 100 for step in range(1, 100)),
            key=lambda ours: value(Shares(ours, 1 - ours, 0.0), before, who, fairness),
        )

    assert best(0.0) == best(0.3) == 0.99
    assert best(0.4) == best(0.5) == best(0.9) == 0.5


def situation(current: Choice = EIGHT, **known: object) -> Situation:
    return Situation(current, EIGHT, ("cubic", "bbr"), stream_most_bps=1e9, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("label", "fairness", "choice"),
    [
        ("1 cubic", 0.5, CUBIC),
        ("1 cubic", 0.0, Choice("bbr", 1)),
        ("1 bbr", 0.5, BBR),
        ("1 bbr, 1 cubic", 0.5, BBR),
        ("nobody", 0.5, EIGHT),
    ],
)
def test_the_policy_takes_what_is_worth_most(label: str, fairness: float, choice: Choice) -> None:
    found = UtilityPolicy(fairness)(Belief({label: 0.9}), situation())
    assert found is not None
    assert found.choice.congestion_control == choice.congestion_control
    if fairness > 0:
        assert found.choice == choice


def test_the_policy_does_not_tell_when_it_cannot() -> None:
    for belief in (Belief({}), Belief({"1 bbr": 0.4, "1 cubic": 0.3, "nobody": 0.3})):
        assert UtilityPolicy(0.5)(belief, situation()) is None


def test_what_was_measured_counts() -> None:
    belief = Belief({"1 bbr": 0.95})
    expected = UtilityPolicy(0.5)(belief, situation())
    measured = {EIGHT: 90e6, BBR: 9e6}
    corrected = UtilityPolicy(0.5)(belief, situation(capacity_bps=180e6, measured=measured))
    assert expected is not None
    assert corrected is not None
    assert (expected.choice, corrected.choice != BBR) == (BBR, True)


def test_streams_that_must_stay_are_bounded_and_too_small_windows_are_not_taken() -> None:
    fixed = situation(streams_fixed=True, capacity_bps=100e6)
    found = UtilityPolicy(0.8)(Belief({"1 cubic": 0.95}), fixed)
    assert found is not None
    assert (found.choice.streams, found.choice.pacing_bps) == (8, 6_200_000)
    small = situation(capacity_bps=100e6)._replace(stream_most_bps=60e6)
    found = UtilityPolicy(0.5)(Belief({"1 cubic": 0.95}), small)
    assert found is not None
    assert found.choice.streams >= 4
