"""Streams paced to an equal share of what the path is known to carry, over paths in virtual time."""

from collections.abc import Callable

import pytest
from beside import (
    BBR,
    CAPACITY_BPS,
    DEFAULT,
    EQUAL,
    ONE,
    OWN,
    PATH,
    SHARE_BPS,
    TICK_S,
    Ran,
    Simulated,
    arbiter_of,
    right,
    run,
)

from howdah.steering.policy import Paper, Situation, UtilityPolicy
from howdah.steering.shares import Background, Belief, Choice
from howdah.steering.throughput import Look
from howdah.steering.tunables import TUNED


def late(choice: Choice, who: Background) -> float:
    """One stream that comes late to others that yield to loss is long in coming to its share."""
    return 0.3 if choice == ONE and who.loss else 1.0


def late_beside(ear: Callable[[float, Choice], Belief], others: Callable[[float], str]) -> Simulated:
    return Simulated(others, ear, late)


LATE = late_beside(right(lambda t_s: "1 cubic"), lambda t_s: "1 cubic")


def test_where_the_capacity_is_known_streams_are_paced_to_an_equal_share() -> None:
    ran = run(
        LATE,
        UtilityPolicy(0.5),
        60,
        began=ONE,
        gauged=lambda t_s: 1.0,
    )
    assert ran.choices[-1] == EQUAL
    assert ran.arbiter.paced
    assert ran.arbiter.has_fair_pace
    assert ran.arbiter.can_recognise
    assert ran.arbiter.share_bps == pytest.approx(CAPACITY_BPS / 2)
    assert ran.mean(ran.rates_bps, 20) == pytest.approx(CAPACITY_BPS / 2, rel=0.05)


def test_without_the_capacity_nothing_is_paced() -> None:
    ran = run(LATE, UtilityPolicy(0.5), 60, began=ONE)
    assert {choice.pacing_bps for choice in ran.choices} == {None}


def test_how_many_of_a_kind_there_are_is_not_believed_behind_paced_streams() -> None:
    def ear(t_s: float, choice: Choice) -> Belief:
        return Belief({"1 cubic" if choice.pacing_bps is None else "2 cubic": 0.95})

    ran = run(
        late_beside(ear, lambda t_s: "1 cubic"), UtilityPolicy(0.5), 120, began=ONE, gauged=lambda t_s: 1.0
    )
    assert ran.choices[-1].pacing_bps == SHARE_BPS
    assert len({choice for choice in ran.choices if choice.pacing_bps}) == 1


def paced_beside(ear: Callable[[float, Choice], Belief | None], others: Callable[[float], str]) -> Ran:
    """For a minute beside one that yields, and then beside whoever."""
    path = late_beside(ear, lambda t_s: "1 cubic" if t_s < 60 else others(t_s))
    return run(path, UtilityPolicy(0.5), 120, began=ONE, gauged=lambda t_s: 1.0)


@pytest.mark.parametrize(("label", "choice"), [("1 bbr", BBR), ("1 cubic", EQUAL), ("nobody", EQUAL)])
def test_paced_streams_stay_but_beside_who_does_not_yield(label: str, choice: Choice) -> None:
    ran = paced_beside(lambda t_s, choice: Belief({label: 0.95} if t_s > 63 else {}), lambda t_s: label)
    assert EQUAL in ran.choices
    assert ran.choices[-1] == choice


def test_who_takes_an_equal_share_from_paced_streams_is_answered_though_nobody_can_tell() -> None:
    ran = paced_beside(lambda t_s, choice: Belief({}), lambda t_s: "1 bbr")
    assert BBR in ran.choices
    period = next(period for period in ran.arbiter.periods if period.choice == BBR)
    assert (period.why, period.background) == ("competing traffic does not yield", None)
    assert 60 < period.t_s < 75


def test_who_is_taken_for_bbr_but_leaves_paced_streams_their_share_changes_nothing() -> None:
    ran = paced_beside(lambda t_s, choice: Belief({"1 bbr": 0.95}), lambda t_s: "1 cubic")
    assert set(ran.choices[round(70 / TICK_S) :]) == {ran.choices[-1]}
    ran = paced_beside(
        lambda t_s, choice: Belief({"1 bbr" if t_s > 60 else "1 cubic": 0.95}), lambda t_s: "1 cubic"
    )
    assert set(ran.choices[round(60 / TICK_S) :]) == {EQUAL}


def test_beside_bbr_that_is_gone_streams_are_paced_again() -> None:
    def others(t_s: float) -> str:
        return "1 bbr" if t_s < 90 else "nobody"

    ran = paced_beside(right(lambda t_s: "1 cubic" if t_s < 60 else others(t_s)), others)
    assert list(dict.fromkeys(ran.choices)) == [ONE, EQUAL, BBR]
    assert ran.choices[-1] == EQUAL


def test_bbr_that_hears_nobody_any_more_is_given_up_for_the_fair_default() -> None:
    """It was a wrong ear: one CUBIC stream is there, and has hardly anything beside BBR."""

    def ear(t_s: float, choice: Choice) -> Belief:
        return Belief({"nobody" if choice.is_bbr else "1 bbr": 0.95 if t_s < 60 else 0.0})

    ran = run(Simulated(lambda t_s: "1 cubic", ear), UtilityPolicy(0.5), 60, began=ONE)
    assert BBR in ran.choices
    after = ran.choices[ran.choices.index(BBR) :]
    assert DEFAULT in after
    assert after.index(DEFAULT) * TICK_S < 30


def test_another_route_has_another_share() -> None:
    ran = run(LATE, UtilityPolicy(0.5), 60, began=ONE, gauged=lambda t_s: 1.0)
    ran.arbiter.on_new_route()
    assert not ran.arbiter.has_fair_pace
    wanted = ran.arbiter.look(Look(60.2, 10**10, 0, 0.07, 100.0), PATH)
    assert wanted is not None
    assert (wanted.choice, wanted.why.words) == (DEFAULT, "the route has changed")


@pytest.mark.parametrize("policy", [Paper(), UtilityPolicy(0.0), UtilityPolicy(0.3)])
def test_who_wants_no_equal_share_measures_nothing_for_it(policy: Paper | UtilityPolicy) -> None:
    ran = run(LATE, policy, 60, began=ONE, gauged=lambda t_s: 1.0)
    assert {choice.pacing_bps for choice in ran.choices} == {None}


def test_somebody_who_cannot_be_told_is_left_an_equal_share() -> None:
    path = late_beside(lambda t_s, choice: Belief({}), lambda t_s: "1 cubic")
    ran = run(path, UtilityPolicy(0.5), 120, began=ONE, gauged=lambda t_s: 1.0)
    assert list(dict.fromkeys(ran.choices)) == [ONE, EQUAL]
    period = ran.arbiter.periods[-1]
    assert (period.why, period.background, period.undone) == ("what the path carries is known", None, None)
    assert period.t_s >= TUNED.doubt_s


def test_what_is_paced_to_a_share_is_not_judged_by_a_time_alone() -> None:
    """The default had the whole path when nobody was there; who has come since cannot be told."""

    def ear(t_s: float, choice: Choice) -> Belief:
        return Belief({"nobody": 0.94} if t_s < 60 else {})

    path = late_beside(ear, lambda t_s: "nobody" if t_s < 60 else "1 cubic")
    ran = run(path, UtilityPolicy(0.5), 120, gauged=lambda t_s: 1.0)
    assert ran.choices[-1] == OWN
    assert ran.arbiter.periods[-1].undone is None


@pytest.mark.parametrize(("likely", "choice"), [(0.75, ONE), (0.85, BBR)])
def test_bbr_is_answered_only_where_it_is_surer_than_for_a_fair_choice(likely: float, choice: Choice) -> None:
    """It would leave hardly anything to those who are taken for it."""
    path = Simulated(lambda t_s: "1 bbr", lambda t_s, choice: Belief({"1 bbr": likely, "1 cubic": 0.1}))
    assert run(path, UtilityPolicy(0.5), 24, began=ONE).choices[-1] == choice


def test_who_may_be_bbr_is_not_taken_for_one_that_yields() -> None:
    path = late_beside(lambda t_s, choice: Belief({"1 bbr": 0.5, "1 cubic": 0.3}), lambda t_s: "1 bbr")
    ran = run(path, UtilityPolicy(0.5), 60, began=ONE, gauged=lambda t_s: 1.0)
    assert not any(choice.pacing_bps for choice in ran.choices)


@pytest.mark.parametrize(
    ("carries_bps", "said", "whose"),
    [
        (1e8, Belief({"nobody": 0.2, "1 cubic": 0.75}), "nobody"),
        (2e8, Belief({"nobody": 0.8, "1 cubic": 0.15}), "1 cubic"),
    ],
)
def test_what_is_ours_of_a_full_path_that_was_measured_tells_whether_somebody_is_there(
    carries_bps: float, said: Belief, whose: str
) -> None:
    arbiter = arbiter_of(UtilityPolicy(0.5), Situation(ONE, DEFAULT, ("cubic", "bbr"), stream_most_bps=1e9))
    for tick in range(1, 100):
        arbiter.look(Look(tick / 10, round(tick * 1e7 / 8), 0, 0.06), PATH)
    arbiter.capacity_probed(carries_bps)
    arbiter.update_belief(said)
    assert arbiter.belief.likeliest == (whose, pytest.approx(0.95))


def test_a_plan_with_less_than_an_equal_share_is_kept_when_that_is_known() -> None:
    """Nothing was changed by then, so there is no period to tell of it."""
    plan = Choice("cubic", 2, 10_000_000)
    arbiter = arbiter_of(UtilityPolicy(0.5), Situation(plan, plan, ("cubic", "bbr"), stream_most_bps=1e9))
    for tick in range(1, 100):
        if tick == 60:
            arbiter.capacity_probed(2e8)
        assert arbiter.look(Look(tick / 10, round(tick * 2e6 / 8), 0, 0.06), PATH) is None
    assert (arbiter.current, arbiter.has_fair_pace, arbiter.periods) == (plan, True, ())


def test_a_better_measurement_moves_the_bound_and_is_no_change_of_mind() -> None:
    ran = run(LATE, UtilityPolicy(0.5), 60, began=ONE, gauged=lambda t_s: 0.6)
    bounds = list(dict.fromkeys(choice.pacing_bps for choice in ran.choices if choice.pacing_bps))
    ran.arbiter.capacity_probed(CAPACITY_BPS)
    bounds.append(ran.arbiter.current.pacing_bps)
    assert bounds == [round(part * CAPACITY_BPS / 2 / DEFAULT.streams) for part in (0.6, 1.0)]
    assert [period.choice.pacing_bps for period in ran.arbiter.periods] == [None, bounds[-1]]
