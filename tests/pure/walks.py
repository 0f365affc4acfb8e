"""Walks through the machine that steers, by observations drawn from a seed, and what must hold at each step.

A walk is no path: what is observed follows moods that last some seconds, and need not fit together. Commands
come into force late, or are refused. ``Walk`` plays the transfer, so it knows how the streams send in fact.
"""

import math
from collections import Counter, deque
from random import Random
from typing import NamedTuple

import numpy as np

from howdah.probing.series import Floats
from howdah.steering.arbiter import Command
from howdah.steering.machine import (
    BOUNDS,
    Failed,
    Observation,
    Recognised,
    Resting,
    RouteChanged,
    Settled,
    State,
    Tick,
    step,
)
from howdah.steering.pace import CONTROL
from howdah.steering.path_state import PathState
from howdah.steering.policy import Paper, Situation, UtilityPolicy
from howdah.steering.shares import Belief, Choice
from howdah.steering.states import TRANSITIONS, Event, Phase, leads_to
from howdah.steering.throughput import Look
from howdah.steering.tunables import TUNED
from howdah.values.outcome import Change

TICK_S = 0.2
PROBED_S = 30.0
"""A probe is over by then, where commands settle."""
AGAIN_S = 4.0
"""What was refused is not asked for again earlier."""
ROUTE_S = 10.0
"""The time after a change of route by which no bound of the old one is in force."""
START_S = 8.0
"""The time by which a slow start may take longer than its round trips: a command settles, a dip is made."""
REST_S = 8.0
"""The time after which nothing is bounded where nothing is measured."""
LEAST_BPS = 1000
"""No stream is bounded to less; the streams of a copy would stand still."""
MANY = 40
"""Changes of the choice in a minute; more would be no decision."""

Edge = tuple[Phase, Event, Phase]
DRAWN: frozenset[Edge] = frozenset(
    (phase, row.event, after)
    for row in TRANSITIONS
    for phase in row.phases
    for after in row.leads_to
    if phase is not after
)


class Mood(NamedTuple):
    """What is observed for some seconds."""

    until_s: float
    queue: float
    """In base RTTs."""
    part: float
    """Our part of the path, where nothing bounds us; 0: nothing is to be sent."""
    empties: bool
    """Whether the queue ends where we send less, as one of our own."""
    belief: Belief | None
    known: bool
    """Whether rates and round trips are known."""
    refuses: float
    """The probability that a command is refused."""
    late_s: float
    """The time after which a command settles."""
    left_s: float | None
    rests: bool
    """Whether nothing is measured, as where a limit holds the transfer."""


class Broken(AssertionError):
    """Something did not hold; the message says what, and when."""


class Walk:
    """One walk."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.edges: Counter[Edge] = Counter()
        self.t_s = self.acked = 0.0
        bound_bps = draw.choice([None] * 4 + [3_000_000, 25_000_000])
        plan = Choice(draw.choice(["cubic"] * 9 + ["bbr"]), draw.choice([2, 8, 8, 16]), bound_bps)
        few = draw.choice([plan.streams, plan.streams, 1])
        self.base_s = draw.choice([0.005, 0.04, 0.04, 0.2])
        self.carries_bps = draw.choice([6e6, 200e6, 200e6, 2e9])
        controls = (plan.congestion_control, *draw.choice([("cubic", "bbr"), ("cubic", "bbr"), ("cubic",)]))
        now = Situation(
            plan._replace(streams=few),
            plan,
            tuple(dict.fromkeys(controls)),
            draw.choice([1e7, 1e9, 1e10]),
            streams_fixed=draw.random() < 0.1,
        )
        policy = draw.choice([UtilityPolicy(0.5)] * 6 + [UtilityPolicy(0.2), UtilityPolicy(1.0), Paper()])
        reno = draw.random() < 0.7 and plan.congestion_control == "cubic"
        self.state = State.begin(policy, now, "competing traffic", reno_starts=reno)
        self.plan, self.sent = plan, now.current
        self.refuses, self.moves = draw.choice([0.0, 0.0, 1.0]), draw.choice([0.0, 0.001, 0.004])
        self.likely = draw.choice(["nobody", "1 cubic", "2 cubic", "1 bbr", "1 udp"])
        self.sent_s = 0.0
        self.due: tuple[float, Command] | None = None
        self.refused: dict[tuple[Event, Choice], float] = {}
        self.changes: deque[float] = deque()
        self.route_s: float | None = None
        self.probes_s: float | None = None
        self.other_s: float | None = None
        self.starts_s: float | None = None
        self.other_path = False
        """Whether the route has changed while it was found out whether nobody else fills the path."""
        self.echoes: deque[tuple[float, float]] = deque(maxlen=1000)
        self.mood = self._mood()
        self.mood_s = 0.0

    def go(self, length_s: float) -> "Walk":
        """The same after so long."""
        until_s = self.t_s + length_s
        while self.t_s < until_s:
            self.t_s = round(self.t_s + TICK_S, 6)
            if self.t_s >= self.mood.until_s:
                self.mood, self.mood_s = self._mood(), self.t_s
            self._tick()
        return self

    def _mood(self) -> Mood:
        draw = self.draw
        label = draw.choice([self.likely, self.likely, "nobody", "1 cubic", "1 bbr", "1 udp"])
        sure = draw.choice([0.5, 0.75, 0.95, 0.95, 0.95])
        return Mood(
            self.t_s + draw.choice([5.0, 20.0, 60.0]) * draw.random(),
            draw.choice([0.0, 0.1, 0.6, 1.0, 1.0, 1.0]),
            draw.choice([0.0, 0.02, 0.2, 0.3, 0.5, 0.5, 0.8, 0.95, 1.0]),
            draw.random() < 0.5,
            draw.choice([Belief({label: sure})] * 5 + [Belief({}), None]),
            draw.random() < 0.95,
            self.refuses * draw.choice([0.0, 0.0, 0.3, 1.0]),
            draw.choice([0.0, 0.0, 0.2, 0.6, 2.0]),
            draw.choice([None] + [1000.0] * 12 + [20.0, 7.0, 2.0]),
            draw.random() < 0.05,
        )

    def _tick(self) -> None:
        mood, draw = self.mood, self.draw
        if self.due is not None and self.t_s >= self.due[0]:
            self._settle(self.due[1], self.t_s - TICK_S)
        if draw.random() < self.moves:
            self.route_s = self.t_s
            self.base_s = draw.choice([0.005, 0.04, 0.2])
            self.other_path = self.state.exclusivity.finding
            self.observe(RouteChanged())
            known = self.state.arbiter.capacity_bps
            self._must(known is None, f"{known} b/s is of another path")
        if round(self.t_s / TICK_S) % 5 == 0 and not (self.state.probes or mood.rests):
            self.observe(Recognised(mood.belief))
        self.observe(Resting(self.t_s) if mood.rests else self._look())
        if self.due is not None and self.t_s >= self.due[0]:
            self._settle(self.due[1], self.t_s)
        self._holds()

    def _look(self) -> Tick:
        mood = self.mood
        free_bps = mood.part * self.carries_bps
        bound_bps = self.sent.pacing_bps and self.sent.pacing_bps * self.sent.streams
        rate_bps = min(free_bps, bound_bps or free_bps)
        less = self.state.probes and rate_bps < free_bps
        rtt_s = self.base_s * (1 + mood.queue)
        if less and mood.empties and self.state.phase is Phase.PROBING_EXCLUSIVITY:
            rtt_s = self.base_s
        elif less:
            # Little's law.
            rtt_s *= max(0.1, 1.001 * self.carries_bps - free_bps) / (1.001 * self.carries_bps - rate_bps)
            rtt_s = max(self.base_s, rtt_s)
        self.acked += rate_bps * TICK_S / 8
        self.echoes.extend((self.t_s - TICK_S + 0.01 * each, rtt_s) for each in range(1, 21))
        streams = self.sent.streams
        each_bps = [rate_bps / streams] * streams if mood.known else None
        look = Look(
            self.t_s,
            round(self.acked),
            0,
            rtt_s,
            mood.left_s,
            (self.t_s, round(self.acked)),
        )
        path = PathState(self.base_s, 1.0, finely=True)
        return Tick(
            look, path, self.base_s, rtt_s if mood.known else None, each_bps, each_bps, self._series()
        )

    def _series(self) -> tuple[Floats, Floats] | None:
        if self.state.phase is not Phase.PROBING_CAPACITY:
            return None
        times_s, rtt_s = zip(*self.echoes, strict=True)
        return np.array(times_s, np.float64), np.array(rtt_s, np.float64)

    def _settle(self, command: Command, at_s: float) -> None:
        self.due = None
        refused = "not here" if self.draw.random() < self.mood.refuses else None
        choice = command.choice
        if refused is None:
            self.sent, self.sent_s = choice, self.t_s
        else:
            self.refused[command.event, choice] = self.t_s
        change = Change(
            t_s=at_s,
            congestion_control=choice.congestion_control,
            streams=choice.streams,
            pacing_bps=choice.pacing_bps,
            why=command.why.words,
            refused=refused,
        )
        had_bps = self.mood.part * self.carries_bps
        self.observe(Settled(change, self.t_s, self.t_s + 1.0, had_bps, 2 * self.base_s))

    def observe(self, observation: Observation) -> None:
        """One step, and the edge that it takes. Raises Broken where what it commands must not be."""
        before = self.state
        self.state, command = step(before, observation)
        self._count(before, observation, command)
        if command is None:
            return
        self._must(before.in_flight is None, "two commands are in flight")
        self._may(command, observation)
        self.due = (self.t_s + self.mood.late_s, command)

    def _count(self, before: State, observation: Observation, command: Command | None) -> None:
        """The edge, where one is taken; what is not drawn raises in the machine, and here again."""
        after, given_in = self.state.phase, before.phase
        if after is before.phase:
            return
        match observation:
            case Settled() if before.in_flight is not None:
                event = before.in_flight.event
                if event in {Event.PROBE_CAPACITY, Event.PROBE_EXCLUSIVITY}:
                    event = Event.PROBED
                elif observation.change.refused is not None:
                    event = Event.REFUSED
                else:
                    given_in = before.given_in
            case RouteChanged():
                event = Event.ROUTE_CHANGED
            case Resting():
                event = Event.PROBED
            case Tick() if command is not None and command.event in BOUNDS:
                event = command.event
            case _ if before.probes:
                event = Event.PROBED
            case _:
                raise Broken(f"{self.t_s:.1f} s: from {before.phase} to {after} by nothing")
        edge = (given_in, event, after)
        moved = before.arbiter.moved and given_in is not after
        # What stays is not drawn as an edge; it may have been elsewhere since the command was given.
        self._must(after in leads_to(given_in, event) or moved, f"{edge} is not drawn")
        if edge in DRAWN:
            self.edges[edge] += 1

    def _may(self, command: Command, observation: Observation) -> None:
        """What holds for every command."""
        choice, plan, most_bps = command.choice, self.plan, self.plan.pacing_bps
        known = {*self.state.arbiter.now.controls, plan.congestion_control, CONTROL}
        self._must(choice.congestion_control in known, f"{choice} has a control that the sender has not")
        self._must(1 <= choice.streams <= plan.streams, f"{choice} has more streams than the plan")
        bound_bps = choice.pacing_bps
        if bound_bps is not None:
            self._must(bound_bps >= LEAST_BPS, f"{command.event.name} bounds to {bound_bps} b/s a stream")
        if most_bps is not None:
            self._must((bound_bps or most_bps + 1) <= most_bps, f"{choice} has more than the plan's bound")
        again_s = self.t_s - self.refused.get((command.event, choice), -AGAIN_S)
        self._must(again_s >= AGAIN_S - 2 * TICK_S, f"{command.event.name} was refused {again_s:.1f} s ago")
        if command.event not in BOUNDS and isinstance(observation, Tick):
            left_s = observation.look.left_s
            self._must(left_s is None or left_s >= TUNED.last_s, "a change shortly before the end")
            self.changes.append(self.t_s)
            while self.changes[0] < self.t_s - 60.0:
                self.changes.popleft()
            self._must(len(self.changes) <= MANY, "it changes again and again")

    def _holds(self) -> None:
        """What holds at each look."""
        state, mood = self.state, self.mood
        ended, command = step(state, Failed("it is damaged"))
        self._must(ended.phase is Phase.ENDED, "what fails does not end it")
        left = self.sent if command is None else command.choice
        self._must(left == self.plan, f"what fails leaves {left}, and not the plan's choice")
        self.edges[state.phase, Event.FAIL, ended.phase] += 1
        self.probes_s = (self.probes_s or self.t_s) if state.probes else None
        if self.probes_s is not None:
            self._must(self.t_s - self.probes_s < PROBED_S, f"{state.phase} does not end")
        if self.other_path and not state.exclusivity.finding:
            self.other_path = False
            self._must(not state.arbiter.exclusive, "another path is taken to be ours alone")
        starts = state.phase is Phase.STARTING and mood.known and not mood.rests and not state.refusals
        self.starts_s = (self.starts_s or self.t_s) if starts else None
        if self.starts_s is not None:
            longest_s = 2 * TUNED.start_round_trips * self.base_s + START_S
            self._must(self.t_s - self.starts_s < longest_s, "its slow start does not end")
        rests = state.in_flight is None and self.due is None and not state.probes
        if not rests or self.t_s < state.waits_s + TICK_S:
            self.other_s = None
            return
        current, has = state.arbiter.current, self.sent
        if mood.rests and self.t_s - self.mood_s > REST_S:
            self._must(has.pacing_bps == self.plan.pacing_bps, f"{has} is bounded where nothing is measured")
        due = current._replace(congestion_control=CONTROL) if state.start is not None else current
        if state.pace is not None:
            due = due.paced(state.pace.each_bps, self.plan.pacing_bps)
        # Streams that were found to fill the path alone stay bounded until they are paced, at the next look.
        self.other_s = None if has == due else self.other_s or self.t_s
        lasts = self.other_s is not None and self.t_s > self.other_s + TICK_S
        self._must(not lasts, f"{has} is in force, and not {due}")
        calm = mood.left_s is None or mood.left_s > TUNED.last_s
        since_s = max(self.route_s or math.inf, self.mood_s, state.waits_s)
        if self.t_s - since_s > ROUTE_S and calm:
            held = has.pacing_bps not in {None, self.plan.pacing_bps} and self.sent_s < (self.route_s or 0.0)
            self._must(not held, f"{has} was for another route")

    def _must(self, holds: bool, said: str) -> None:
        if not holds:
            raise Broken(f"{self.t_s:.1f} s, {self.state.phase}: {said}")


def taken(seeds: range, length_s: float) -> Counter[Edge]:
    """How often each edge is taken by walks of these seeds. Raises Broken where one does not hold."""
    edges: Counter[Edge] = Counter()
    for seed in seeds:
        walk = Walk(Random(seed))  # noqa: S311, not for secrets
        try:
            walk.go(length_s)
        except Exception as error:
            error.add_note(f"seed {seed}, at {walk.t_s:.1f} s")
            raise
        edges += walk.edges
    return edges
