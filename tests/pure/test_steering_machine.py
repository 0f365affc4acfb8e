"""The machine that steers: its picture, its one latch, and where it refuses to go."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from howdah.steering import states
from howdah.steering.machine import (
    Failed,
    Observation,
    Recognised,
    RouteChanged,
    Settled,
    State,
    Tick,
    step,
)
from howdah.steering.path_state import PathState
from howdah.steering.policy import Paper, Policy, Situation, UtilityPolicy
from howdah.steering.shares import Belief, Choice
from howdah.steering.states import TRANSITIONS, Event, Phase, check, moves, picture
from howdah.steering.throughput import Look
from howdah.values.outcome import Change
from howdah.values.reason import Reason

PAGE = Path(__file__).resolve().parents[2] / "docs/design/steering.md"
PLAN = Choice("cubic", 8)
BASE_S, CARRIES_BPS = 0.04, 200e6


def begun(
    streams: int = PLAN.streams,
    policy: Policy | None = None,
    plan: Choice = PLAN,
    stream_most_bps: float = 1e9,
) -> State:
    now = Situation(plan._replace(streams=streams), plan, ("cubic", "bbr"), stream_most_bps)
    return State.begin(policy or UtilityPolicy(0.5), now, "competing traffic", reno_starts=True)


def tick(t_s: float, rtt_s: float = 2 * BASE_S, part: float = 0.5) -> Tick:
    """A path with a queue, of which this transfer has a part."""
    look = Look(t_s, round(t_s * part * CARRIES_BPS / 8), 0, rtt_s, 1000.0)
    rates_bps = [part * CARRIES_BPS / PLAN.streams] * PLAN.streams
    return Tick(look, PathState(BASE_S, 1.0), BASE_S, rtt_s, rates_bps, rates_bps)


def came(state: State, t_s: float, refused: str | None = None) -> Settled:
    assert state.in_flight is not None
    choice, why = state.in_flight.choice, state.in_flight.why.words
    change = Change(
        t_s=t_s,
        congestion_control=choice.congestion_control,
        streams=choice.streams,
        pacing_bps=choice.pacing_bps,
        why=why,
        refused=refused,
    )
    return Settled(change, t_s, t_s + 1.0, CARRIES_BPS / 2, 2 * BASE_S)


def test_the_page_shows_the_transitions_that_the_code_declares() -> None:
    """Draw it again: python -m howdah.steering.states, into docs/design/steering.md."""
    assert picture() in PAGE.read_text()


def test_the_page_names_each_module_on_its_floor() -> None:
    floors = re.findall(
        r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE.read_text().partition("## Floors")[2], re.MULTILINE
    )
    named = [name for floor in floors for name in re.findall(r"\w+", floor)]
    there = {file.stem for file in Path(states.__file__).parent.glob("*.py")} - {"__init__"}
    assert sorted(named) == sorted(there)


def test_each_phase_is_reached_and_left_but_for_the_end() -> None:
    reached = {
        after for row in TRANSITIONS for phase in row.phases for after in row.leads_to if after != phase
    }
    left = {phase for row in TRANSITIONS for phase in row.phases}
    assert reached == set(Phase)
    assert left == set(Phase) - {Phase.ENDED}
    assert {row.event for row in TRANSITIONS} == set(Event)


def test_no_phase_names_an_event_twice() -> None:
    assert all(len(set(moves(phase))) == len(moves(phase)) for phase in Phase)


def test_where_no_transition_leads_it_does_not_go() -> None:
    check(Phase.PLANNED, Event.REDUCE, Phase.QUIET)
    check(Phase.PLANNED, Event.GROW, Phase.PLANNED)
    with pytest.raises(ValueError, match="GROW does not lead from Planned to Quiet"):
        check(Phase.PLANNED, Event.GROW, Phase.QUIET)


def test_one_command_is_in_flight_until_it_has_settled() -> None:
    state = begun()
    state, _ = step(state, Recognised(Belief({})))
    given = []
    for number in range(1, 400):
        state, command = step(state, tick(number / 10))
        if command is not None:
            given.append((number / 10, command))
            waits = state
            for later in range(1, 50):
                state, other = step(state, tick(number / 10 + later / 1000))
                assert other is None
                assert state.in_flight == waits.in_flight
            state, _ = step(state, came(state, number / 10 + 0.05))
            assert state.in_flight is None
    assert len(given) >= 3
    assert given[0][1].why.reason is Reason.PROBING_EXCLUSIVITY
    assert all(two - one >= 0.1 for (one, _), (two, _) in pairwise(given))


def test_a_probe_that_is_refused_finds_others_and_is_over() -> None:
    state, command, number = begun(), None, 0
    state, _ = step(state, Recognised(Belief({})))
    while command is None:
        number += 1
        state, command = step(state, tick(number / 10))
    assert state.phase is Phase.PROBING_EXCLUSIVITY
    state, _ = step(state, came(state, number / 10, "pacing cannot be set"))
    assert state.phase is Phase.PLANNED
    assert not state.arbiter.exclusive


def test_what_failed_ends_in_the_plan_for_good() -> None:
    state, command = step(begun(streams=1), Failed("it is damaged"))
    assert command is not None
    assert (command.choice, command.why.words) == (PLAN, "it is damaged")
    assert step(state, tick(100.0)) == (state, None)
    assert step(begun(), Failed("it is damaged"))[1] is None


def test_a_state_is_not_changed_by_a_step() -> None:
    state = begun(streams=1)
    for number in range(1, 200):
        before = replace(state)
        after, _ = step(state, tick(number / 10))
        assert state == before
        assert step(state, tick(number / 10))[0] == after
        state = after


OBSERVATIONS = st.lists(
    st.tuples(
        st.sampled_from(["tick"] * 12 + ["verdict", "verdict", "verdict", "route"]),
        st.floats(1.0, 2.0),
        st.floats(0.05, 1.0),
        st.sampled_from(["nobody", "1 cubic", "1 bbr", "1 udp"]),
        st.sampled_from([None, None, None, "no"]),
        st.integers(1, 30),
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(
    said=OBSERVATIONS,
    streams=st.sampled_from([1, 2, 8]),
    policy=st.sampled_from([Paper(), UtilityPolicy(0.2), UtilityPolicy(0.5), UtilityPolicy(1.0)]),
    pacing_bps=st.sampled_from([None, None, 5_000_000, 25_000_000]),
    stream_most_bps=st.sampled_from([1e7, 1e8, 1e9]),
)
def test_whatever_is_observed_only_declared_transitions_are_taken(
    said: list[tuple[str, float, float, str, str | None, int]],
    streams: int,
    policy: Policy,
    pacing_bps: int | None,
    stream_most_bps: float,
) -> None:
    """An undeclared one would raise."""
    state = begun(streams, policy, PLAN._replace(pacing_bps=pacing_bps), stream_most_bps)
    t_s = 0.0
    for kind, queue, part, label, refused, times in said:
        for _ in range(times):
            t_s += 0.1
            observation: Observation = tick(t_s, queue * BASE_S, part)
            if kind == "verdict":
                observation = Recognised(Belief({label: 0.95}))
            state, _ = step(state, observation)
            if state.in_flight is not None and times % 3:
                state, _ = step(state, came(state, t_s, refused))
        if kind == "route":
            state, _ = step(state, RouteChanged())
