"""What the machine does when a command is refused, and that what is in force is what it takes to be."""

import math
from itertools import pairwise

import pytest
from beside import DEFAULT, ONE, PATH, Steered, arbiter_of
from msgspec.structs import replace
from test_steering_machine import CARRIES_BPS, PLAN, begun, came, tick

from howdah.steering.arbiter import Command
from howdah.steering.machine import Failed, Recognised, Resting, RouteChanged, State, step
from howdah.steering.policy import Preference, Situation, UtilityPolicy
from howdah.steering.shares import Belief, Choice
from howdah.steering.states import Event, Phase
from howdah.steering.throughput import Look
from howdah.steering.tunables import TUNED
from howdah.values.reason import Reason

REFUSED = "not here"
NOW = Situation(ONE, DEFAULT, ("cubic", "bbr"), stream_most_bps=1e9)


def looked(steered: Steered, t_s: float) -> Command | None:
    return steered.look(Look(t_s, round(t_s * 1e6), 0, 0.06, 1000.0), PATH)


def next_of(steered: Steered, from_s: float) -> tuple[float, Command]:
    """The next command, and when it is given."""
    times_s = (from_s + number / 10 for number in range(1, 1000))
    return next((t_s, command) for t_s in times_s if (command := looked(steered, t_s)) is not None)


def paced() -> tuple[float, Steered]:
    """Streams that have just been paced to an equal share, and are begun by Reno."""
    steered = arbiter_of(UtilityPolicy(0.5), NOW)
    steered.capacity_probed(CARRIES_BPS)
    t_s, command = next_of(steered, 5.0)
    assert (command.event, command.choice.congestion_control) == (Event.PACE, "reno")
    steered.made(command, t_s, None)
    assert steered.state.phase is Phase.STARTING
    return t_s, steered


def test_what_is_refused_is_asked_for_again_but_not_at_each_look() -> None:
    """Room for more streams, whose doubling is refused for half a minute."""
    steered, asked_s = arbiter_of(UtilityPolicy(0.5), NOW), []
    for number in range(1, 800):
        t_s = number / 10
        command = steered.look(Look(t_s, round(t_s * 1e7), 0, PATH.base_rtt_s, 1000.0), PATH)
        if command is not None:
            asked_s.append(t_s)
            steered.made(command, t_s, REFUSED if t_s < 35 else None)
    assert 2 <= sum(t_s < 35 for t_s in asked_s) <= 4
    assert steered.current == DEFAULT


def test_a_refused_slow_start_paces_the_streams_by_their_own_control() -> None:
    steered = arbiter_of(UtilityPolicy(0.5), NOW)
    steered.capacity_probed(CARRIES_BPS)
    t_s, command = next_of(steered, 5.0)
    assert command.choice.congestion_control == "reno"
    steered.made(command, t_s, REFUSED)
    again_s, command = next_of(steered, t_s)
    assert again_s - t_s >= TUNED.dwell_s
    assert (command.event, command.choice.congestion_control) == (Event.PACE, "cubic")


def test_a_bound_of_another_path_is_released_though_that_was_refused_once() -> None:
    t_s, steered = paced()
    steered.on_new_route()
    t_s, command = next_of(steered, t_s)
    assert command.event is Event.RELEASE
    steered.made(command, t_s, REFUSED)
    t_s, command = next_of(steered, t_s)
    assert (command.event, command.choice) == (Event.RELEASE, DEFAULT)
    steered.made(command, t_s, None)
    assert steered.current == DEFAULT


def test_a_refused_change_leaves_the_bound_of_paced_streams_known() -> None:
    t_s, steered = paced()
    before = steered.state
    bbr = Command(Event.PREFER, Choice("bbr", 1), Reason.TO_RECOGNISE.because(), Choice("bbr", 1))
    steered.state = replace(before, in_flight=bbr)
    steered.made(bbr, t_s + 1, REFUSED)
    assert (steered.state.pace, steered.state.start) == (before.pace, before.start)


def test_the_end_of_a_slow_start_that_was_refused_is_asked_for_again() -> None:
    t_s, steered = paced()
    state, ends = steered.state, []
    for number in range(1, 200):
        state, command = step(state, tick(t_s + number / 10))
        if command is not None and command.event is Event.START_OVER:
            ends.append(t_s + number / 10)
        if command is not None:
            first = command.event is Event.START_OVER and len(ends) == 1
            state, _ = step(state, came(state, t_s + number / 10, REFUSED if first else None))
        if len(ends) == 1:
            assert state.phase is Phase.STARTING
    assert len(ends) == 2
    assert ends[1] - ends[0] >= TUNED.dwell_s
    assert state.sent.congestion_control == "cubic"


def bounds_asked(refused_until_s: float, length_s: float) -> tuple[list[float], State]:
    """When another bound is asked for on an empty path, from the first one on, and the state in the end."""
    t_s, steered = paced()
    # Reno is over, and nothing is measured beside.
    state, asked_s = replace(steered.state, start=None).in_phase(), []
    for number in range(1, round(length_s * 10)):
        at_s = t_s + number / 10
        bound_bps = state.sent.pacing_bps or 0
        look = tick(at_s, rtt_s=PATH.base_rtt_s)
        state, command = step(state, look._replace(rates_bps=[float(bound_bps)] * state.sent.streams))
        if command is None:
            continue
        refused = None
        if command.event is Event.BOUND:
            asked_s.append(at_s)
            refused = REFUSED if at_s < asked_s[0] + refused_until_s else None
        state, _ = step(state, came(state, at_s, refused))
    return [at_s - asked_s[0] for at_s in asked_s], state


def test_a_refused_bound_is_asked_for_again_ever_later_and_the_pace_goes_on() -> None:
    asked_s, state = bounds_asked(30.0, 120.0)
    waits_s = [two - one for one, two in pairwise(asked_s)]
    assert waits_s[:3] == [pytest.approx(wait_s, abs=0.25) for wait_s in (5, 10, 20)]
    assert asked_s[3] == pytest.approx(35.0, abs=0.5)
    assert len(asked_s) > 5
    assert state.sent.pacing_bps is not None
    assert state.sent.pacing_bps * state.sent.streams > 0.9 * CARRIES_BPS


def probing() -> tuple[State, float]:
    """A bound is in force, to find out whether others fill the path."""
    state, _ = step(begun(stream_most_bps=1e7), Recognised(Belief({})))
    for number in range(1, 200):
        state, command = step(state, tick(number / 10))
        if command is not None:
            return step(state, came(state, number / 10))[0], number / 10
    raise AssertionError("nothing was asked")


def test_the_bound_of_a_probe_whose_end_is_refused_ends_all_the_same() -> None:
    state, begin_s = probing()
    assert state.sent.pacing_bps is not None
    refused_s, ended_s = None, None
    for number in range(1, 200):
        t_s = begin_s + number / 10
        state, command = step(state, tick(t_s))
        if command is None or ended_s is not None:
            continue
        assert command.choice == PLAN
        if refused_s is None:
            refused_s = t_s
            state, _ = step(state, came(state, t_s, REFUSED))
        else:
            ended_s = t_s
            state, _ = step(state, came(state, t_s))
            assert state.sent == PLAN
    assert refused_s is not None
    assert ended_s is not None
    assert TUNED.dwell_s <= ended_s - refused_s < TUNED.dwell_s + 1


def test_streams_that_have_nothing_to_send_are_not_bounded_to_nothing() -> None:
    """The queue is of others, or of a moment before."""
    state, _ = step(begun(), Recognised(Belief({})))
    for number in range(1, 300):
        idle = tick(number / 10)._replace(rates_bps=[0.0] * 8, long_rates_bps=[0.0] * 8)
        state, command = step(state, idle)
        assert command is None or command.choice.pacing_bps != 0
        if command is not None:
            state, _ = step(state, came(state, number / 10))


class Bounded:
    """A policy that prefers streams of another bound than an equal share."""

    paces = True

    def __call__(self, belief: Belief, now: Situation) -> Preference:
        return Preference(DEFAULT._replace(pacing_bps=9_000_000), "loss", 0.9, 0.5, 1.0, 0.5)


def test_only_streams_that_are_paced_to_an_equal_share_begin_by_reno() -> None:
    """Nothing would end it for others."""
    steered = arbiter_of(Bounded(), NOW)
    for number in range(1, 200):
        if number % 10 == 0:
            steered.update_belief(Belief({"1 cubic": 0.95}))
        if (command := looked(steered, number / 10)) is not None:
            break
    assert command is not None
    assert command.choice == DEFAULT._replace(pacing_bps=9_000_000)


def test_a_plan_with_less_than_an_equal_share_is_paced_when_the_share_is_less() -> None:
    plan = Choice("cubic", 8, 5_000_000)
    steered = Steered(begun(plan=plan))
    for number in range(1, 100):
        assert looked(steered, number / 10) is None
        if number == 60:
            steered.capacity_probed(CARRIES_BPS)
    steered.capacity_probed(CARRIES_BPS / 4)
    looks = (tick(number / 10, part=0.1) for number in range(100, 200))
    # Nothing is probed by the round trips of the streams themselves.
    given = (steered.observe(look._replace(path=PATH._replace(finely=False))) for look in looks)
    command = next(each for each in given if each is not None)
    assert (command.event, command.choice.streams) == (Event.BOUND, plan.streams)
    assert (command.choice.pacing_bps or 0) < 5_000_000


@pytest.mark.parametrize("dips", [True, False])
def test_where_nothing_is_measured_for_a_while_nothing_is_bounded(dips: bool) -> None:
    """As in the hours of a limit, or where little is carried."""
    state, t_s = probing() if dips else (paced()[1].state, 10.0)
    assert state.sent.pacing_bps is not None
    state, command = step(state, Resting(t_s + 1.0))
    assert command is not None
    assert command.choice == PLAN
    state, _ = step(state, came(state, t_s + 1.1))
    assert (state.phase, state.sent) == (Phase.PLANNED, PLAN)
    assert step(state, Resting(t_s + 2.0))[1] is None


@pytest.mark.parametrize("step_number", range(1, 12))
def test_a_limit_that_begins_at_any_time_of_a_test_ends_its_bound_until_it_is_over(step_number: int) -> None:
    """Commands come into force half a second late, so one is in flight at every other time."""
    state, _ = step(begun(stream_most_bps=1e7), Recognised(Belief({})))
    due_s, limit_s, again = math.inf, math.inf, False
    for number in range(1, 400):
        t_s = number / 10
        if t_s >= due_s:
            state, _ = step(state, came(state, t_s))
            due_s = math.inf
        limited = limit_s <= t_s < limit_s + 10.0
        # The queue ends where less is sent, and comes back.
        rtt_s = PATH.base_rtt_s if state.sent.pacing_bps else 2 * PATH.base_rtt_s
        state, command = step(state, Resting(t_s) if limited else tick(t_s, rtt_s))
        if command is not None:
            assert not limited or command.choice == PLAN
            due_s = t_s + 0.5
            limit_s = min(limit_s, t_s + step_number / 4)
        if limit_s + 2.0 < t_s < limit_s + 10.0:
            assert (state.sent, state.phase) == (PLAN, Phase.PLANNED)
        again = again or (t_s > limit_s + 10.0 and state.sent.pacing_bps is not None)
    assert again


def test_a_dip_of_paced_streams_ends_in_the_plan_where_nothing_is_measured() -> None:
    t_s, steered = paced()
    for number in range(1, 400):
        command = steered.observe(tick(t_s + number / 10))
        if command is not None:
            steered.made(command, t_s + number / 10, None)
        if command is not None and command.event is Event.PROBE_CAPACITY:
            break
    assert steered.state.phase is Phase.PROBING_CAPACITY
    released = steered.observe(Resting(t_s + 60.0))
    assert released is not None
    steered.made(released, t_s + 60.1, None)
    assert (steered.state.phase, steered.state.sent) == (Phase.PLANNED, PLAN)


def test_what_fails_ends_a_bound_that_is_in_force_though_it_is_of_no_choice() -> None:
    """The path was just found to be ours alone, and the streams are not paced yet."""
    state, _ = probing()
    found = replace(state, phase=Phase.PLANNED, exclusivity=state.exclusivity.given_up())
    _, command = step(found, Failed("it is damaged"))
    assert command is not None
    assert command.choice == PLAN


def test_bbr_with_a_bound_of_another_path_is_released_too() -> None:
    bounded = Choice("bbr", 1, 9_000_000)
    state = begun()
    now = state.arbiter.now._replace(current=bounded)
    arbiter = replace(state.arbiter, now=now, target=bounded)
    state = replace(state, arbiter=arbiter).in_phase()
    state, _ = step(state, RouteChanged())
    state, command = step(state, tick(20.0))
    assert command is not None
    assert (command.event, command.choice) == (Event.RELEASE, PLAN)
