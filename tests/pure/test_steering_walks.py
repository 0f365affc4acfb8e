"""Whatever is observed: the machine takes ways that are drawn, and what ``walks`` says holds at each step."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from walks import DRAWN, Edge, Walk, taken

from howdah.steering.states import Event, Phase

_P, _E = Phase, Event
_PACED = (_P.STARTING, _P.PACED)


def ways(phases: tuple[Phase, ...], event: Event, *leads_to: Phase) -> set[Edge]:
    return {(phase, event, after) for phase in phases for after in leads_to if phase is not after}


SELDOM: dict[str, set[Edge]] = {
    "streams begin by Reno for 15 round trips at most, and little happens in them": (
        ways((_P.STARTING,), _E.PREFER, _P.PLANNED, _P.EASING, _P.TRIAL)
        | ways((_P.STARTING,), _E.PROBE_CAPACITY, _P.PROBING_CAPACITY)
        | ways((_P.PROBING_CAPACITY,), _E.PROBED, _P.STARTING)
    ),
    "a halving lasts some seconds: others are recognised, or the path empties, just then": (
        ways((_P.EASING,), _E.GROW, _P.PLANNED, _P.QUIET)
        | ways((_P.EASING,), _E.PREFER, _P.PLANNED, *_PACED)
        | ways((_P.EASING,), _E.PACE, _P.PACED)
        | ways((_P.EASING,), _E.EASE, _P.TRIAL)
        | ways((_P.EASING,), _E.REFUSED, _P.TRIAL)
        | ways((_P.EASING,), _E.RELEASE, _P.PLANNED)
    ),
    "few streams of BBR, or a plan of BBR, where an equal share is known: else it is paced first": (
        ways((_P.QUIET,), _E.UNDO, *_PACED)
        | ways((_P.QUIET,), _E.PREFER, *_PACED)
        | ways((_P.QUIET,), _E.PACE, _P.STARTING)
        | ways((_P.PLANNED,), _E.PREFER, _P.PACED)
        | ways((_P.PLANNED,), _E.UNDO, _P.PACED)
    ),
    "the plan has a bound, and that is an equal share": (
        ways((_P.PACED,), _E.PROBE_EXCLUSIVITY, _P.PROBING_EXCLUSIVITY)
        | ways((_P.PROBING_EXCLUSIVITY,), _E.PROBED, _P.PACED)
        | ways((_P.PACED,), _E.ROUTE_CHANGED, _P.PLANNED)
        | ways((_P.PACED,), _E.REDUCE, _P.PLANNED, _P.EASING, _P.QUIET)
        | ways((_P.PLANNED, _P.QUIET, _P.TRIAL), _E.REDUCE, _P.PACED)
    ),
    "a policy bounds streams beside BBR, and the route changes or few streams of them are many": (
        ways((_P.QUIET,), _E.RELEASE, _P.PLANNED)
        | ways((_P.QUIET, _P.TRIAL), _E.PREFER, _P.EASING)
        | ways((_P.PACED,), _E.ROUTE_CHANGED, _P.TRIAL)
        | ways((_P.TRIAL,), _E.ROUTE_CHANGED, _P.PACED)
    ),
    "it takes two things that come together: less than one walk in ten takes them": (
        ways((_P.EASING,), _E.REFUSED, _P.QUIET)
        | ways((_P.EASING,), _E.PACE, _P.STARTING)
        | ways((_P.EASING,), _E.PREFER, _P.TRIAL)
        | ways((_P.PACED,), _E.PREFER, _P.EASING, _P.PLANNED)
        | ways((_P.QUIET, _P.TRIAL), _E.PACE, *_PACED)
        | ways((_P.QUIET,), _E.GROW, _P.PLANNED)
        | ways((_P.PLANNED,), _E.REDUCE, _P.QUIET)
        | ways((_P.QUIET,), _E.REDUCE, _P.PLANNED, _P.EASING)
        | ways((_P.QUIET,), _E.ROUTE_CHANGED, _P.TRIAL)
        | ways((_P.STARTING,), _E.START_OVER, _P.PACED)
        | ways((_P.STARTING, _P.TRIAL), _E.RELEASE, _P.PLANNED)
        | ways((_P.TRIAL,), _E.UNDO, *_PACED)
        | ways((_P.TRIAL,), _E.PREFER, _P.PLANNED, *_PACED)
    ),
    "many streams stay for others for a minute, and nobody is recognised behind them": (
        ways((_P.TRIAL,), _E.REDUCE, _P.PLANNED, _P.EASING, _P.QUIET)
    ),
}
"""Ways that 32 walks take hardly ever or never, by why they do."""


def test_each_way_that_is_drawn_is_taken_or_listed_and_none_is_taken_that_is_not_drawn() -> None:
    listed = set().union(*SELDOM.values())
    assert listed <= DRAWN
    edges = taken(range(32), 400.0)
    assert set(edges) <= DRAWN
    left = DRAWN - set(edges) - listed
    assert not left, f"neither taken nor listed: {sorted(left)}"


def test_a_route_that_changes_while_streams_double_leaves_a_declared_way() -> None:
    """They are few before and after: from Quiet by the route to Trial, and back when they have doubled."""
    Walk(Random(700_250)).go(20.0)  # noqa: S311, not for secrets


@pytest.mark.parametrize("length_s", [200.0])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(32, 2**32))
def test_any_walk_holds(seed: int, length_s: float) -> None:
    Walk(Random(seed)).go(length_s)  # noqa: S311, not for secrets
