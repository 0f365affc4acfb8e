"""The states of steering and every way from one to another, declared once.

The machine considers the moves that ``TRANSITIONS`` names for its phase, in this order, and refuses to go
where none of them leads. ``python -m howdah.steering.states`` prints the picture of docs/design/steering.md.
"""

from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """The phase of a transfer at the moment; ``_DOES`` has it in words."""

    PLANNED = "Planned"
    EASING = "Easing"
    QUIET = "Quiet"
    TRIAL = "Trial"
    STARTING = "Starting"
    PACED = "Paced"
    PROBING_CAPACITY = "ProbingCapacity"
    PROBING_EXCLUSIVITY = "ProbingExclusivity"
    ENDED = "Ended"


class Event(StrEnum):
    """The cause of a transition: a move of the arbiter, or something that happened."""

    RELEASE = "no bound of another path, and none where nothing is measured"
    GROW = "there is room: twice the streams"
    PACE = "an equal share is known"
    UNDO = "it brought too little, or nobody knows who is there"
    PREFER = "the policy prefers it"
    EASE = "the queue is back: the next halving"
    REDUCE = "to recognise others"
    START_OVER = "each stream has its part"
    BOUND = "others leave more, or less"
    PROBE_CAPACITY = "what the path carries would help"
    PROBE_EXCLUSIVITY = "the plan's streams fill the path"
    PROBED = "the probe is over"
    RESTORE = "a bound that is over is still in force"
    ROUTE_CHANGED = "the route has changed"
    REFUSED = "a command was refused"
    FAIL = "nobody can be asked"


class Transition(NamedTuple):
    """An event leads from each of these phases to one of those; to none: it stays."""

    phases: tuple[Phase, ...]
    event: Event
    leads_to: tuple[Phase, ...]


_DOES = {
    Phase.PLANNED: "sends by the plan's choice, without a bound for others",
    Phase.EASING: "goes down to few streams by halves",
    Phase.QUIET: "sends by few streams, so that others can be recognised",
    Phase.TRIAL: "sends by a choice made for those who were recognised, or kept when the route changed",
    Phase.STARTING: "begins to be paced beside a queue of others, run by Reno",
    Phase.PACED: "is paced to what others leave, and to an equal share at least",
    Phase.PROBING_CAPACITY: "sends less for a moment, to measure what the path carries",
    Phase.PROBING_EXCLUSIVITY: "sends less for a moment, twice, to find out whether others fill the path",
    Phase.ENDED: "steers no more; the fair default stays",
}

_P = Phase
_PACED = (_P.STARTING, _P.PACED)
_FREE = (_P.PLANNED, _P.EASING, _P.QUIET, _P.TRIAL)
_STAYS = (_P.PLANNED, _P.QUIET, _P.TRIAL, *_PACED)

TRANSITIONS = (
    Transition((_P.EASING, _P.QUIET, _P.TRIAL, *_PACED), Event.RELEASE, (_P.PLANNED,)),
    Transition((_P.EASING, _P.QUIET), Event.GROW, (_P.PLANNED, _P.QUIET)),
    Transition((_P.PLANNED,), Event.PACE, (_P.PACED,)),
    Transition((_P.EASING, _P.QUIET, _P.TRIAL), Event.PACE, _PACED),
    Transition((_P.PLANNED,), Event.UNDO, (_P.PACED,)),
    Transition((_P.QUIET, _P.TRIAL), Event.UNDO, (_P.PLANNED, *_PACED)),
    Transition((_P.PLANNED,), Event.PREFER, (_P.TRIAL, _P.PACED)),
    Transition((_P.EASING, _P.QUIET, _P.TRIAL), Event.PREFER, (_P.PLANNED, _P.EASING, _P.TRIAL, *_PACED)),
    Transition(_PACED, Event.PREFER, (_P.PLANNED, _P.EASING, _P.TRIAL)),
    Transition((_P.EASING,), Event.EASE, (_P.EASING, _P.QUIET, _P.TRIAL)),
    Transition((_P.PLANNED, _P.QUIET, _P.TRIAL, _P.PACED), Event.REDUCE, (*_FREE[:3], _P.PACED)),
    Transition((_P.STARTING,), Event.START_OVER, (_P.PACED,)),
    Transition((_P.PACED,), Event.BOUND, (_P.PACED,)),
    Transition(_STAYS, Event.PROBE_CAPACITY, (_P.PROBING_CAPACITY,)),
    Transition((_P.PLANNED, _P.PACED), Event.PROBE_EXCLUSIVITY, (_P.PROBING_EXCLUSIVITY,)),
    Transition((_P.PROBING_CAPACITY,), Event.PROBED, _STAYS),
    Transition((_P.PROBING_EXCLUSIVITY,), Event.PROBED, (_P.PLANNED, _P.PACED)),
    Transition((_P.QUIET,), Event.ROUTE_CHANGED, (_P.TRIAL,)),
    Transition((_P.TRIAL,), Event.ROUTE_CHANGED, (_P.PACED,)),
    Transition((_P.PACED,), Event.ROUTE_CHANGED, (_P.PLANNED, _P.TRIAL)),
    Transition((_P.EASING,), Event.REFUSED, (_P.QUIET, _P.TRIAL)),
    Transition((*_FREE, *_PACED), Event.RESTORE, ()),
    Transition((*_FREE, *_PACED, _P.PROBING_CAPACITY, _P.PROBING_EXCLUSIVITY), Event.FAIL, (_P.ENDED,)),
)
"""All transitions. Where a phase considers several moves the first that can be made counts."""


def moves(phase: Phase) -> tuple[Event, ...]:
    """The events that this phase can lead to, in their order."""
    return tuple(each.event for each in TRANSITIONS if phase in each.phases)


def leads_to(phase: Phase, event: Event) -> frozenset[Phase]:
    """The phases that an event can lead to."""
    rows = [each for each in TRANSITIONS if each.event is event and phase in each.phases]
    return frozenset(after for each in rows for after in each.leads_to)


def check(phase: Phase, event: Event, after: Phase, *, moved: bool = False) -> None:
    """Raises ValueError where no transition leads there; none is needed to stay.

    ``moved`` says that the route has changed meanwhile, which may have led on.
    """
    there = leads_to(phase, event)
    if moved:
        there |= {further for each in there for further in leads_to(each, Event.ROUTE_CHANGED)}
    if after is not phase and after not in there:
        raise ValueError(f"steering: {event.name} does not lead from {phase} to {after}")


def picture() -> str:
    """A Mermaid diagram of the transitions between two phases, and a table of all."""
    edges: dict[tuple[Phase, Phase], list[str]] = {}
    for row in TRANSITIONS:
        for phase, after in ((one, two) for one in row.phases for two in row.leads_to if one is not two):
            edges.setdefault((phase, after), []).append(_words(row.event))
    arrows = [
        f"        {phase} --> {after}: {', '.join(events)}"
        for (phase, after), events in edges.items()
        if after is not Phase.ENDED
    ]
    ends = f"    Steering --> {Phase.ENDED}: {_words(Event.FAIL)}"
    diagram = ["stateDiagram-v2", "    [*] --> Steering", "    state Steering {", *arrows, "    }", ends]
    phases = [f"| {phase} | {_DOES[phase]} |" for phase in Phase]
    rows = [
        f"| {_words(row.event)} | {row.event.value} | {', '.join(row.phases)} | {after or 'the same'} |"
        for row, after in ((each, ", ".join(each.leads_to)) for each in TRANSITIONS)
    ]
    return "\n".join(
        [
            *("```mermaid", *diagram, "```", ""),
            *("| phase | what the transfer does |", "| --- | --- |", *phases, ""),
            *("| event | when | from | to |", "| --- | --- | --- | --- |", *rows),
        ]
    )


def _words(event: Event) -> str:
    return event.name.lower().replace("_", " ")


if __name__ == "__main__":
    print(picture())
