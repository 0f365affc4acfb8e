"""When streams are changed, kept and changed back, over paths in virtual time."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from beside import (
    BBR,
    CAPACITY_BPS,
    DEFAULT,
    ONE,
    OWN,
    PATH,
    TICK_S,
    Simulated,
    Steered,
    always,
    arbiter_of,
    right,
    run,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from howdah.steering.policy import Paper, Situation, UtilityPolicy
from howdah.steering.shares import Background, Belief, Choice
from howdah.steering.throughput import Look, Peak
from howdah.steering.tunables import TUNED

CLASSES = ("nobody", "1 cubic", "2 cubic", "1 bbr", "2 bbr", "1 bbr, 1 cubic", "1 udp")
TRIAL_S = 40.0
"""A failed trial lasts no longer: halving, settling, judging, and windows of the default that come back."""


@pytest.mark.parametrize(
    ("label", "choice"),
    [
        ("nobody", OWN),
        ("1 cubic", ONE),
        ("2 cubic", ONE),
        ("1 bbr", BBR),
        ("2 bbr", BBR),
        ("1 bbr, 1 cubic", BBR),
        ("1 udp", BBR),
    ],
)
def test_a_transfer_ends_up_with_what_suits_who_is_there(label: str, choice: Choice) -> None:
    ran = run(always(label), UtilityPolicy(0.5), 60)
    assert ran.choices[-1] == choice
    assert ran.share_of(lambda choice: choice == DEFAULT, 0, TUNED.first_s) == 1


def test_where_one_stream_is_too_little_a_path_of_its_own_gets_its_streams_back() -> None:
    def bent(choice: Choice, who: Background) -> float:
        return 1.0 if choice.streams > 2 else 0.4

    ran = run(Simulated(lambda t_s: "nobody", right(lambda t_s: "nobody"), bent), UtilityPolicy(0.3), 200)
    assert ran.choices[-1] == DEFAULT
    assert ran.mean(ran.rates_bps) > 0.8 * ran.mean(ran.default_bps)


@pytest.mark.parametrize("label", ["1 cubic", "2 cubic", "nobody"])
def test_what_begins_with_one_stream_keeps_it_while_the_path_is_full(label: str) -> None:
    ran = run(always(label), UtilityPolicy(0.5), 120, began=ONE)
    assert set(ran.choices) == {ONE}


def test_who_is_heard_beside_one_that_began_alone_is_answered_as_ever() -> None:
    ran = run(always("1 bbr"), UtilityPolicy(0.5), 60, began=ONE)
    assert list(dict.fromkeys(ran.choices)) == [ONE, BBR]


def test_a_path_of_its_own_is_not_left_to_few_streams_and_others_are_heard_in_it() -> None:
    """One stream would have had 40 % of it."""

    def bent(choice: Choice, who: Background) -> float:
        return 1.0 if choice.streams > 2 else 0.4

    path = Simulated(lambda t_s: "nobody", lambda t_s, choice: Belief({}), bent)
    ran = run(path, UtilityPolicy(0.5), 120)
    assert {choice.streams for choice in ran.choices} == {DEFAULT.streams}
    assert ran.choices[-1] == OWN
    assert ran.arbiter.can_recognise
    (period,) = ran.arbiter.periods
    assert (period.why, period.paced, period.undone) == ("nobody else fills the path", True, None)
    assert ran.mean(ran.rates_bps) > 0.97 * ran.mean(ran.default_bps)


@pytest.mark.parametrize(("label", "choice"), [("1 bbr", BBR), ("1 cubic", OWN)])
@pytest.mark.parametrize("told", [True, False])
def test_who_comes_to_a_path_of_its_own_is_left_an_equal_share_or_answered(
    label: str, choice: Choice, told: bool
) -> None:
    def others(t_s: float) -> str:
        return "nobody" if t_s < 60 else label

    path = Simulated(others, right(others) if told else lambda t_s, choice: Belief({}))
    ran = run(path, UtilityPolicy(0.5), 84)
    assert ran.choices[round(59 / TICK_S)] == OWN
    assert ran.choices[-1] == choice
    assert ran.mean(ran.rates_bps, 72) > 0.9 * CAPACITY_BPS / 2


def test_what_was_found_on_a_path_of_its_own_is_not_measured_again_beside_others() -> None:
    def others(t_s: float) -> str:
        return "nobody" if t_s < 60 else "1 cubic"

    ran = run(Simulated(others, right(others)), UtilityPolicy(0.5), 120, gauged=lambda t_s: 1.3)
    assert ran.choices[-1] == OWN
    assert ran.arbiter.capacity_bps == pytest.approx(0.98 * CAPACITY_BPS, rel=0.01)


def test_beside_others_it_goes_down_to_few_to_hear_them_though_it_was_paced_to_find_them() -> None:
    """Where few cannot do it asks again only later."""
    arbiter = arbiter_of(
        UtilityPolicy(0.5), Situation(DEFAULT, DEFAULT, ("cubic", "bbr"), stream_most_bps=1e9)
    )
    few = arbiter_of(UtilityPolicy(0.5), Situation(DEFAULT, DEFAULT, ("cubic", "bbr"), stream_most_bps=1e7))
    asked = []
    for tick in range(1, 1000):
        t_s = tick / 10
        for each in (arbiter, few):
            if each.needs_exclusivity(t_s):
                each.found(t_s, exclusive=False)
                asked += [t_s] if each is few else []
            if (command := each.look(Look(t_s, tick * 10**6, 0, 0.07), PATH)) is not None:
                each.made(command, t_s, None)
    assert arbiter.current == ONE
    assert few.current == DEFAULT
    assert len(asked) == 2
    assert asked[1] - asked[0] >= TUNED.quiet_again_s


@pytest.mark.parametrize(("queue_bdp", "least"), [(1.0, DEFAULT.streams), (0.02, 1)])
def test_where_others_have_left_no_queue_it_is_no_time_to_hear_them(queue_bdp: float, least: int) -> None:
    """As after a burst of UDP. Where there is never a queue to speak of, that tells nothing."""
    path = always("1 cubic")._replace(queue_bdp=queue_bdp, queue_of=lambda choice: 0.0)
    ran = run(path, UtilityPolicy(0.5), 60)
    assert min(choice.streams for choice in ran.choices) == least


def test_another_route_is_not_known_to_be_ours_alone() -> None:
    ran = run(always("nobody"), UtilityPolicy(0.5), 30)
    ran.arbiter.on_new_route()
    wanted = ran.arbiter.look(Look(30.2, 10**10, 0, 0.07, 100.0), PATH)
    assert wanted is not None
    assert (wanted.choice, wanted.why.words) == (DEFAULT, "the route has changed")


def roomy(queue_s: Callable[[float, int], float], length_s: float) -> Steered:
    """A transfer that began with one stream, over a path of 40 ms and a queue by time and streams."""
    arbiter = arbiter_of(UtilityPolicy(0.5), Situation(ONE, DEFAULT, ("cubic", "bbr"), stream_most_bps=1e9))
    for tick in range(10, round(length_s / TICK_S)):
        t_s = tick * TICK_S
        rtt_s = PATH.base_rtt_s + queue_s(t_s, arbiter.current.streams)
        if (command := arbiter.look(Look(t_s, round(t_s * 1e7), 0, rtt_s, 100.0), PATH)) is not None:
            arbiter.made(command, t_s, None)
    return arbiter


def test_what_is_left_to_hear_others_is_not_taken_for_room_at_once() -> None:
    arbiter = roomy(lambda t_s, streams: 0.0 if streams < 4 else 0.03, 60)
    periods = [period for period in arbiter.periods if period.t_s > 5]
    left = [period.t_s for period in periods if period.why == "to recognise competing traffic"]
    assert left
    for t_s in left:
        assert all(not t_s < period.t_s < t_s + TUNED.quiet_room_s for period in periods)


def test_where_there_is_room_the_streams_of_the_plan_come_by_doubling() -> None:
    arbiter = roomy(lambda t_s, streams: 0.0 if streams < DEFAULT.streams else 0.03, 12)
    assert [(period.choice.streams, period.why) for period in arbiter.periods[1:]] == [
        (2, "there is room for more"),
        (4, "there is room for more"),
        (8, "there is room for more"),
    ]
    times_s = [period.t_s for period in arbiter.periods[1:]]
    assert TUNED.first_s <= times_s[0] <= TUNED.first_s + 2 * TICK_S
    assert all(TUNED.room_s <= two - one <= TUNED.room_s + 2 * TICK_S for one, two in pairwise(times_s))
    assert arbiter.current == DEFAULT


def test_streams_that_came_back_soon_ask_whether_the_path_is_theirs_and_go_again_where_it_is_not() -> None:
    """They came by doubling, and were to stay for a minute before who is there is listened to again."""
    arbiter = roomy(lambda t_s, streams: 0.0 if streams < DEFAULT.streams else 0.03, 12)
    came_s = arbiter.periods[-1].t_s
    for tick in range(round(12 / TICK_S), round(60 / TICK_S)):
        t_s = tick * TICK_S
        if arbiter.needs_exclusivity(t_s):
            arbiter.found(t_s, exclusive=False)
        wanted = arbiter.look(Look(t_s, round(t_s * 1e7), 0, PATH.base_rtt_s + 0.03, 100.0), PATH)
        if wanted is not None:
            break
    assert wanted is not None
    assert (wanted.choice.streams, wanted.why.words) == (
        DEFAULT.streams // 2,
        "to recognise competing traffic",
    )
    assert t_s - came_s < 10


def test_a_queue_that_moves_leaves_no_room_though_it_comes_by_its_least() -> None:
    """Beside a CUBIC stream whose queue never empties; the base RTT known is one of its least."""
    arbiter = roomy(lambda t_s, streams: 0.01 * ((t_s / 4) % 1) ** 0.3, 60)
    assert arbiter.current == ONE


def test_what_finds_no_more_room_on_its_way_up_goes_back_to_hear() -> None:
    arbiter = roomy(lambda t_s, streams: 0.0 if t_s < 7.5 else 0.03, 30)
    assert [period.choice.streams for period in arbiter.periods] == [1, 2, 4, 1]
    assert arbiter.periods[-1].t_s - arbiter.periods[-2].t_s < 10


def test_one_stream_with_less_than_most_of_an_equal_share_is_given_up() -> None:
    """Its capacity is known by seconds in which others were silent; who is there is not told."""

    def bent(choice: Choice, who: Background) -> float:
        return 0.3 if choice == ONE and who.loss else 1.0

    path = Simulated(lambda t_s: "nobody" if t_s < 8 else "1 cubic", lambda t_s, choice: None, bent)
    ran = run(path, UtilityPolicy(0.5), 60, began=ONE)
    assert ran.arbiter.periods[0].undone is not None
    assert "of an equal share" in ran.arbiter.periods[0].undone
    assert ran.choices[-1] == DEFAULT


@pytest.mark.parametrize("resent", [0, 1])
def test_it_goes_down_to_few_only_when_it_knows_how_many_can_do(resent: int) -> None:
    """The window of one stream carries a third of this path, with or without loss."""
    arbiter = arbiter_of(
        UtilityPolicy(0.5), Situation(DEFAULT, DEFAULT, ("cubic", "bbr"), stream_most_bps=1e9)
    )
    for tick in range(20, 300):
        arbiter.look(Look(tick / 10, round(tick * 3e8 / 8), resent * tick, 0.07), PATH)
    assert arbiter.capacity_bps == pytest.approx(3e9)
    assert arbiter.current == DEFAULT
    assert not arbiter.periods


def test_what_a_hole_held_back_is_no_capacity() -> None:
    meter = Peak()
    for tick in range(100):
        # Nothing for a second, and then all of it at once.
        moved_s = 3.0 if 30 <= tick < 40 else tick / 10
        meter = meter.add(Look(tick / 10, round(moved_s * 1e7), 0, 0.05))
    assert meter.rate_bps == pytest.approx(8e7)


def test_the_paper_takes_bbr_beside_any_bbr() -> None:
    found = {label: run(always(label), Paper(), 40).choices[-1] for label in CLASSES}
    bbr = {label for label, choice in found.items() if choice.is_bbr}
    assert bbr == {"1 bbr", "2 bbr", "1 bbr, 1 cubic"}


def test_streams_of_one_control_are_halved_to_listen_and_then_stay() -> None:
    ran = run(always("1 cubic"), UtilityPolicy(0.5), 60)
    assert [choice.streams for choice in dict.fromkeys(ran.choices)] == [8, 4, 2, 1]
    (period,) = ran.arbiter.periods
    assert (period.choice, period.undone) == (ONE, None)
    assert period.after is not None
    assert period.after.rate_bps == pytest.approx(CAPACITY_BPS / 2, rel=0.05)


def test_a_change_says_for_whom_it_was_made_and_what_it_gave() -> None:
    period = run(always("1 bbr"), UtilityPolicy(0.5), 60).arbiter.periods[-1]
    assert (period.choice, period.background, period.undone) == (BBR, "1 bbr", None)
    assert period.probability == pytest.approx(0.94)
    assert period.before is not None
    assert period.after is not None
    assert period.after.rate_bps > 3 * period.before.rate_bps


def test_a_short_transfer_is_left_alone() -> None:
    ran = run(always("1 bbr"), UtilityPolicy(0.5), TUNED.first_s + TUNED.last_s - 2 * TICK_S)
    assert set(ran.choices) == {DEFAULT}


def test_it_changes_its_mind_with_the_background_and_gets_most_of_what_an_oracle_would() -> None:
    order = ["1 cubic", "1 bbr", "nobody", "2 cubic", "1 bbr, 1 cubic", "2 bbr"]

    def others(t_s: float) -> str:
        return order[int(t_s // 60) % len(order)]

    ran = run(Simulated(others, right(others)), UtilityPolicy(0.5), 600)
    best = {label: run(always(label), UtilityPolicy(0.5), 60).values[-1] for label in order}
    assert ran.mean(ran.values) > 0.8 * ran.mean([best[others(t_s)] for t_s in ran.times_s])
    assert len(ran.arbiter.periods) <= 2 * 600 / 60


def test_a_mind_that_wavers_changes_nothing_for_it() -> None:
    def ear(t_s: float, choice: Choice) -> Belief:
        return Belief({"1 bbr": 0.9} if int(t_s) % 2 else {"1 cubic": 0.9})

    ran = run(Simulated(lambda t_s: "1 cubic", ear), UtilityPolicy(0.5), 120)
    assert {choice.congestion_control for choice in ran.choices} == {"cubic"}


@pytest.mark.parametrize("belief", [Belief({}), Belief({"1 bbr": 0.5, "1 cubic": 0.4}), None])
def test_who_cannot_tell_stays_fair_and_with_its_control(belief: Belief | None) -> None:
    def bent(choice: Choice, who: Background) -> float:
        return 1.0 if choice.streams > 2 else 0.5

    ran = run(Simulated(lambda t_s: "1 cubic", lambda t_s, choice: belief, bent), UtilityPolicy(0.5), 200)
    assert {choice.congestion_control for choice in ran.choices} == {"cubic"}
    assert ran.share_of(lambda choice: choice == DEFAULT, 0, 200) > 0.5
    assert "of what there was before" in str(ran.arbiter.periods[0].undone)


def test_where_few_streams_have_enough_they_stay_though_nobody_can_be_told() -> None:
    ran = run(Simulated(lambda t_s: "nobody", lambda t_s, choice: Belief({})), UtilityPolicy(0.3), 60)
    assert ran.choices[-1] == ONE


def test_it_goes_back_when_it_does_not_know_any_more() -> None:
    def ear(t_s: float, choice: Choice) -> Belief:
        return Belief({"1 bbr": 0.95} if t_s < 40 else {})

    ran = run(Simulated(lambda t_s: "1 bbr", ear), UtilityPolicy(0.5), 120)
    assert ran.share_of(lambda choice: choice.is_bbr, 20, 38 + TUNED.proven_s) == 1, "it has brought much"
    assert ran.choices[-1] == DEFAULT


def test_a_change_that_brings_nothing_is_undone_and_tried_again_later_and_later() -> None:
    def bent(choice: Choice, who: Background) -> float:
        return 0.05 if choice.is_bbr else 3.0

    ran = run(Simulated(lambda t_s: "1 bbr", right(lambda t_s: "1 bbr"), bent), UtilityPolicy(0.5), 400)
    tried = [period for period in ran.arbiter.periods if period.choice.is_bbr]
    assert len(tried) >= 2
    assert all(period.undone for period in tried[:-1])
    gaps = [two.t_s - one.t_s for one, two in pairwise(tried)]
    assert all(gap >= TUNED.cooldown_s * 2**number for number, gap in enumerate(gaps))


def test_a_control_that_the_kernel_refuses_is_not_asked_for_again() -> None:
    arbiter = arbiter_of(
        UtilityPolicy(0.5), Situation(DEFAULT, DEFAULT, ("cubic", "bbr"), stream_most_bps=1e9)
    )
    asked = []
    for tick in range(1, 600):
        if tick % 10 == 0 and arbiter.can_recognise:
            arbiter.update_belief(Belief({"1 bbr": 0.94}))
        if arbiter.needs_exclusivity(tick / 10):
            arbiter.found(tick / 10, exclusive=False)
        wanted = arbiter.look(Look(tick / 10, tick * 10**6, 0, 0.07), PATH)
        if wanted is not None:
            asked.append(wanted.choice)
            arbiter.made(wanted, tick / 10, "no" if wanted.choice.is_bbr else None)
    assert [choice for choice in asked if choice.is_bbr] == [BBR]


def test_streams_that_the_user_asked_for_stay() -> None:
    fixed = Situation(DEFAULT, DEFAULT, ("cubic", "bbr"), stream_most_bps=1e9, streams_fixed=True)
    arbiter = arbiter_of(UtilityPolicy(0.5), fixed)
    for tick in range(1, 400):
        if tick % 10 == 0:
            arbiter.update_belief(Belief({"1 bbr": 0.94}))
        if (command := arbiter.look(Look(tick / 10, tick * 10**6, 0, 0.07), PATH)) is not None:
            arbiter.made(command, tick / 10, None)
    assert arbiter.periods
    assert {period.choice.streams for period in arbiter.periods} == {DEFAULT.streams}


def test_another_route_is_another_path() -> None:
    ran = run(always("1 bbr"), UtilityPolicy(0.5), 60)
    assert ran.arbiter.capacity_bps is not None
    ran.arbiter.on_new_route()
    assert ran.arbiter.capacity_bps is None
    assert ran.arbiter.belief == Belief({})


def trials(length_s: float) -> float:
    """How many can fail in so long: each after twice the time of the one before, up to a limit."""
    doubled = math.log2(1 + min(length_s, TUNED.cooldown_most_s) / TUNED.cooldown_s)
    return 1 + doubled + max(0.0, length_s - TUNED.cooldown_most_s) / TUNED.cooldown_most_s


BELIEFS = st.lists(
    st.tuples(st.sampled_from(CLASSES), st.floats(0.5, 1.0), st.integers(1, 40)), min_size=1, max_size=30
)
PATHS = st.tuples(st.floats(0.3, 3.0), st.floats(0.1, 2.0), st.floats(0.25, 4.0))
"""Our true share beside the expected one, by CUBIC and by BBR; the queue in bandwidth × delay."""


@settings(max_examples=10, deadline=None)
@given(
    truth=st.sampled_from(CLASSES[:-1]),
    said=BELIEFS,
    path=PATHS,
    fairness=st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0]),
    gauged=st.none() | st.floats(0.75, 1.3),
)
def test_no_ear_costs_more_than_the_bound(
    truth: str,
    said: list[tuple[str, float, int]],
    path: tuple[float, float, float],
    fairness: float,
    gauged: float | None,
) -> None:
    """Whatever it believes, however a path differs from theory (docs/choosing.md)."""
    words = [Belief({label: sure}) for label, sure, times in said for _ in range(times)]
    loss, bbr, queue_bdp = path

    def ear(t_s: float, choice: Choice) -> Belief:
        return words[int(t_s) % len(words)]

    def bent(choice: Choice, who: Background) -> float:
        return bbr if choice.is_bbr else loss

    length_s = 200.0
    measured = None if gauged is None else lambda t_s: gauged
    ran = run(
        Simulated(lambda t_s: truth, ear, bent, queue_bdp), UtilityPolicy(fairness), length_s, gauged=measured
    )
    least = min(ran.mean(ran.default_bps), ran.mean(ran.fair_bps))
    lost = min(1.0, TRIAL_S * trials(length_s) / length_s)
    assert ran.mean(ran.rates_bps) >= TUNED.trial_keep * least * (1 - lost)
