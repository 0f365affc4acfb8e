"""The state machine of a steered transfer: ``step`` takes a state and an observation to the next state.

One command is in flight at most: it stays in ``State.in_flight`` from when it is given until an observation
``Settled`` says what came of it, and no other is given meanwhile. What phases there are and where each event
leads is declared in ``states``; what the arbiter, the probes and the pace decide lies in their own files.
Pure: times, rates and round trips come with the observations.
"""

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from howdah.probing.series import Floats
from howdah.steering.arbiter import ChangeArbiter, Command
from howdah.steering.capacity_probe import NO_DIPS, CapacityProbe
from howdah.steering.counting import NO_COUNT, Count
from howdah.steering.exclusivity import NOT_FINDING, ExclusivityProbe
from howdah.steering.moves import decide
from howdah.steering.pace import CONTROL, Pace, Path, Start
from howdah.steering.path_state import PathState
from howdah.steering.policy import Policy, Situation
from howdah.steering.shares import Belief, Choice
from howdah.steering.states import Event, Phase, check
from howdah.steering.throughput import Bound, Look, own_queue_s
from howdah.steering.tunables import TUNED
from howdah.values.outcome import Change
from howdah.values.reason import Reason, Why

BOUNDS = frozenset(
    {Event.PROBE_CAPACITY, Event.PROBE_EXCLUSIVITY, Event.BOUND, Event.START_OVER, Event.RESTORE}
)
"""Events whose commands move bounds, and change no choice."""


class Settled(NamedTuple):
    """The result of the command in flight."""

    change: Change
    now_s: float
    settled_s: float
    """The instant from which on what is sent is sent so."""
    had_bps: float
    """The latest rate of all streams together; 0 where that is not known."""
    rtt_s: float
    """The latest round trip, or what is assumed."""


class RouteChanged(NamedTuple):
    """The route has changed for good."""


class Recognised(NamedTuple):
    """A verdict on who is there."""

    belief: Belief | None
    """The belief; None: nobody could tell."""


class Tick(NamedTuple):
    """A transfer and its path at one instant."""

    look: Look
    path: PathState
    base_rtt_s: float | None
    rtt_s: float | None
    """The latest round trip; None: not known."""
    rates_bps: list[float] | None
    """The latest rate of each stream; None: not known."""
    long_rates_bps: list[float] | None
    """The rate of each stream over ``exclusivity_rates_s``; None: not known."""
    series: tuple[Floats, Floats] | None = None
    """The times and RTTs of the last ``look_back_s``, while the capacity is probed."""


class Resting(NamedTuple):
    """Nothing is measured for a while, as where a limit holds the transfer."""

    now_s: float


class Failed(NamedTuple):
    """The observation that no model can say who is there any more."""

    problem: str


Observation = Settled | RouteChanged | Recognised | Tick | Resting | Failed


class State(Struct, frozen=True):
    """All that is kept of one steered transfer."""

    phase: Phase
    arbiter: ChangeArbiter
    sent: Choice
    """How the streams send: the last command that was not refused."""
    sent_why: Why
    reno_starts: bool = False
    """Whether paced streams may begin by Reno."""
    in_flight: Command | None = None
    """The one command that was given and has not settled."""
    asked: Choice | None = None
    """How the streams are to send by it."""
    refusals: int = 0
    """The commands refused since one was not."""
    waits_s: float = 0.0
    """After a refusal nothing is asked for earlier."""
    given_in: Phase = Phase.PLANNED
    """The phase in which it was given."""
    capacity: CapacityProbe = NO_DIPS
    exclusivity: ExclusivityProbe = NOT_FINDING
    count: Count = NO_COUNT
    pace: Pace | None = None
    start: Start | None = None
    begin_bps: float | None = None
    """The rate that the streams paced next begin with, together; None: their share."""

    @classmethod
    def begin(cls, policy: Policy, now: Situation, began: str | None, *, reno_starts: bool) -> "State":
        """The state of a transfer that sends by ``now.current``, for ``began`` where that is not the plan."""
        arbiter = replace(ChangeArbiter.begin(policy, now, began), able=False)
        return cls(arbiter.phase, arbiter, now.current, Reason.SCHEDULE.because(), reno_starts)

    @property
    def probes(self) -> bool:
        """Whether less is sent for a moment, to know the path."""
        return self.phase in {Phase.PROBING_CAPACITY, Phase.PROBING_EXCLUSIVITY}

    def in_phase(self) -> "State":
        """The same with the phase that follows from the rest; the end is final."""
        if self.phase is Phase.ENDED:
            return self
        asked = None if self.in_flight is None else self.in_flight.event
        if self.exclusivity.finding:
            phase = Phase.PROBING_EXCLUSIVITY
        elif self.capacity.dipping or asked is Event.PROBE_CAPACITY:
            phase = Phase.PROBING_CAPACITY
        elif self.start is not None and self.arbiter.phase is Phase.PACED:
            phase = Phase.STARTING
        else:
            phase = self.arbiter.phase
        return replace(self, phase=phase)


Stepped = tuple[State, Command | None]


def step(state: State, observation: Observation) -> Stepped:
    """The next state, and how to send from now on; None: as before.

    Raises ValueError where the next phase is none that ``states.TRANSITIONS`` declares.
    """
    if state.phase is Phase.ENDED:
        return state, None
    command: Command | None = None
    given_in: Phase = state.phase
    match observation:
        case Settled():
            after, event = _settled(state, observation)
            if event not in {Event.REFUSED, Event.PROBED}:
                given_in = state.given_in
        case RouteChanged():
            after, event = _on_new_route(state), Event.ROUTE_CHANGED
        case Recognised(belief):
            after, event = _recognised(state, belief), Event.PREFER
        case Tick():
            after, command = _tick(state, observation)
            event = _event_of(state, command)
        case Resting(now_s):
            (after, command), event = _rests(state, now_s), Event.PROBED
        case Failed(problem):
            (after, command), event = _failed(state, problem), Event.FAIL
    if command is not None:
        after = replace(after, asked=command.choice, sent_why=command.why)
    after = after.in_phase()
    if after.phase is not state.phase:
        check(given_in, event, after.phase, moved=state.arbiter.moved)
    return after, command


def _event_of(state: State, command: Command | None) -> Event:
    """The event that a look can have led to; a change leads somewhere only once it has settled."""
    if command is not None and command.event in BOUNDS:
        return command.event
    return Event.PROBED if state.probes else Event.PACE


def _settled(state: State, settled: Settled) -> tuple[State, Event]:
    command, change = state.in_flight, settled.change
    event = Event.REFUSED if command is None or change.refused is not None else command.event
    state = replace(state, in_flight=None)
    if change.refused is None:
        state = replace(state, sent=state.asked or state.sent, refusals=0)
    else:
        wait_s = min(TUNED.cooldown_s, TUNED.dwell_s * 2**state.refusals)
        state = replace(state, refusals=state.refusals + 1, waits_s=settled.now_s + wait_s)
    match None if command is None else command.event:
        case Event.PROBE_CAPACITY:
            return replace(state, capacity=state.capacity.made(change.t_s, change.refused)), Event.PROBED
        case Event.PROBE_EXCLUSIVITY:
            arbiter, exclusivity = state.arbiter, state.exclusivity.made(change.t_s, change.refused)
            if change.refused is not None:
                arbiter = arbiter.found(settled.now_s, exclusive=False)
            return replace(state, arbiter=arbiter, exclusivity=exclusivity), Event.PROBED
        case Event.BOUND:
            pace = state.pace and state.pace.made(change.refused)
            return replace(state, pace=pace), event
        case Event.START_OVER if change.refused is None:
            return replace(state, start=None), event
        case Event.START_OVER | Event.RESTORE:
            return state, event
        case _:
            return _changed(state, command, settled), event


def _changed(state: State, command: Command | None, settled: Settled) -> State:
    """The same after a change of mind."""
    change, before, arbiter = settled.change, state.arbiter, state.arbiter
    if command is not None:
        arbiter = arbiter.made(command, change.t_s, change.refused)
    if change.refused is not None:
        by_reno = state.asked is not None and state.asked.congestion_control == CONTROL
        return replace(state, arbiter=arbiter, reno_starts=state.reno_starts and not by_reno)
    state = replace(state, arbiter=arbiter, pace=None, start=None)
    if not arbiter.has_fair_pace:
        return state
    begin_bps = state.begin_bps or arbiter.share_bps
    each_bps = change.pacing_bps or begin_bps / change.streams
    uneven = max(1.0, each_bps * change.streams / begin_bps) if state.begin_bps else 1.0
    pace = Pace.begin(begin_bps, settled.had_bps, settled.settled_s, each_bps, uneven)
    if state.begin_bps is not None:
        pace = replace(pace, full_bps=state.exclusivity.filled_bps)
    by_reno = state.reno_starts and change.congestion_control == CONTROL
    start = Start(change.t_s, settled.rtt_s) if by_reno else None
    capacity = state.capacity if before.paced else state.capacity.again(change.t_s)
    return replace(state, pace=pace, start=start, capacity=capacity)


def _on_new_route(state: State) -> State:
    return replace(
        state,
        arbiter=state.arbiter.on_new_route(),
        capacity=state.capacity.on_new_route(),
        exclusivity=state.exclusivity.on_new_route(),
        count=NO_COUNT,
    )


def _recognised(state: State, belief: Belief | None) -> State:
    arbiter = replace(state.arbiter, able=belief is not None)
    if belief is not None and arbiter.can_recognise:
        arbiter = arbiter.update_belief(belief)
    return replace(state, arbiter=arbiter)


def _tick(state: State, tick: Tick) -> Stepped:
    if state.phase is Phase.PROBING_CAPACITY:
        return _probe_capacity(state, tick)
    if state.phase is Phase.PROBING_EXCLUSIVITY:
        return _probe_exclusivity(state, tick)
    if state.in_flight is not None and state.in_flight.event in BOUNDS:
        return state, None
    arbiter = state.arbiter.add(tick.look, tick.path)
    if state.in_flight is not None or tick.look.t_s < state.waits_s:
        return replace(state, arbiter=arbiter), None
    arbiter, command = decide(arbiter, tick.look)
    state = _counted(replace(state, arbiter=arbiter), tick)
    if command is not None:
        return _change(state, command)
    state, command = _restored(state)
    for move in (_begin_probe, _bound):
        if command is None:
            state, command = move(state, tick)
    return state, command


def _change(state: State, command: Command) -> Stepped:
    """A change of mind is given, paced to what its streams begin with."""
    arbiter, choice, begin_bps = state.arbiter, command.choice, command.begin_bps
    if begin_bps is not None:
        # What arrived for long enough may be of a time before the path was full.
        begin_bps = max(begin_bps, TUNED.pace_rest * state.exclusivity.filled_bps)
        choice = _paced(state, choice, state.exclusivity.each_bps(begin_bps))
    state = replace(state, in_flight=command, given_in=state.phase, begin_bps=begin_bps)
    more = choice.streams > arbiter.current.streams
    fair = command.choice == arbiter.now.fair_pace
    if state.reno_starts and more and fair and choice.is_paced(arbiter.now.default):
        choice = choice._replace(congestion_control=CONTROL)
    return state, command._replace(choice=choice)


def _begin_probe(state: State, tick: Tick) -> Stepped:
    """A moment of less, where it helps to know what the path carries, or whether it is ours alone."""
    look, base_s, rtt_s, arbiter = tick.look, tick.base_rtt_s, tick.rtt_s, state.arbiter
    if look.left_s is not None and look.left_s < TUNED.least_left_s:
        return state, None
    for_capacity, for_exclusivity = arbiter.needs_capacity(look.t_s), arbiter.needs_exclusivity(look.t_s)
    if not (for_capacity or for_exclusivity) or base_s is None or rtt_s is None:
        return state, None
    rates_bps = tick.long_rates_bps if for_exclusivity else tick.rates_bps
    if rates_bps is None or sum(rates_bps) < TUNED.slow_bps:
        # Streams that have nothing to send would be bounded to it.
        return state, None
    if for_exclusivity:
        if sum(tick.rates_bps or ()) > TUNED.exclusivity_steady * sum(rates_bps):
            # They have begun to fill the path only now: a bound of what they had would be one of less.
            return state, None
        own_s = own_queue_s(len(rates_bps), arbiter.capacity_bps or sum(rates_bps), base_s)
        exclusivity, bound = state.exclusivity.begin(rtt_s, base_s, rates_bps, own_s)
        return _bounded(replace(state, exclusivity=exclusivity), bound, Event.PROBE_EXCLUSIVITY)
    capacity, dip = state.capacity.wants(
        look.t_s,
        rtt_s,
        base_s,
        # Those that carry nothing have no part of it.
        sorted(rates_bps)[-arbiter.current.streams :],
        capacity_bps=arbiter.capacity_bps,
        most_queue_s=tick.path.queue_bdp * base_s,
    )
    state = _with_capacity(state, capacity)
    return (state, None) if dip is None else _bounded(state, dip, Event.PROBE_CAPACITY)


def _probe_capacity(state: State, tick: Tick) -> Stepped:
    """The end of a dip, when it is due, and what it told."""
    capacity, bound = state.capacity, None
    if state.in_flight is None and tick.series is not None:
        capacity, bound = capacity.look(tick.look.t_s, *tick.series)
    state = _with_capacity(state, capacity)
    return (state, None) if bound is None else _bounded(state, bound, Event.PROBE_CAPACITY)


def _with_capacity(state: State, capacity: CapacityProbe) -> State:
    known_bps, arbiter = capacity.capacity_bps, state.arbiter
    if known_bps is not None:
        arbiter = arbiter.capacity_probed(known_bps)
    return replace(state, capacity=capacity, arbiter=arbiter)


def _probe_exclusivity(state: State, tick: Tick) -> Stepped:
    """Whether somebody else is there, and what is to be sent until that is known."""
    if state.in_flight is not None:
        return state, None
    now_s = tick.look.t_s
    exclusivity, answer = state.exclusivity.look(now_s, tick.rtt_s, tick.path.base_rtt_s)
    state = replace(state, exclusivity=exclusivity)
    if answer.told is not None:
        state = replace(state, arbiter=state.arbiter.found(now_s, answer.told))
    if answer.bound is None:
        return state, None
    return _bounded(state, answer.bound, Event.PROBE_EXCLUSIVITY)


def _bound(state: State, tick: Tick) -> Stepped:
    """Moves the bound of paced streams by what others leave."""
    pace, arbiter, rtt_s, rates_bps = state.pace, state.arbiter, tick.rtt_s, tick.rates_bps
    base_s, carries_bps = tick.base_rtt_s, arbiter.capacity_bps
    if pace is None or not arbiter.has_fair_pace:
        return state, None
    if base_s is None or carries_bps is None or rtt_s is None or rates_bps is None:
        return state, None
    if state.start is not None and state.start.over(tick.look.t_s, rates_bps, pace.each_bps):
        return _bounded(state, Bound(pace.each_bps), Event.START_OVER)
    base_s += own_queue_s(len(rates_bps), carries_bps, base_s)
    path = Path(base_s, carries_bps, arbiter.share_bps, arbiter.exclusive)
    pace, each_bps = pace.look(tick.look.t_s, rtt_s, rates_bps, path)
    state = replace(state, pace=pace)
    if each_bps is None:
        return state, None
    if _paced(state, state.sent, each_bps) == state.sent:
        # It is the plan's bound that holds them.
        return replace(state, pace=pace.made(None)), None
    return _bounded(state, Bound(each_bps), Event.BOUND)


def _counted(state: State, tick: Tick) -> State:
    """Counts the CUBIC streams of others by the queue that they make, while ours have no more than a share.

    Dips are left out: others keep their windows meanwhile.
    """
    pace, arbiter, rtt_s, rates_bps = state.pace, state.arbiter, tick.rtt_s, tick.rates_bps
    base_s, carries_bps = tick.base_rtt_s, arbiter.capacity_bps
    if not arbiter.may_count:
        return replace(state, arbiter=arbiter.counted(None), count=NO_COUNT)
    share_bps = arbiter.share_bps
    if base_s is None or carries_bps is None or rtt_s is None or rates_bps is None or state.start is not None:
        return state
    t_s = tick.look.t_s
    if pace is None or pace.bound_bps > (1 + TUNED.pace_worth) * share_bps:
        count = state.count.broken(t_s)
    elif sum(rates_bps) < TUNED.pace_even * share_bps:
        # A busy host sends less for a moment, or for long.
        count = state.count.lately(t_s)
    else:
        count = state.count.look(t_s, rtt_s, base_s, carries_bps - share_bps)
    return replace(state, count=count, arbiter=arbiter.counted(count.streams))


_REASONS = {
    Event.PROBE_CAPACITY: Reason.PROBING_CAPACITY,
    Event.PROBE_EXCLUSIVITY: Reason.PROBING_EXCLUSIVITY,
    Event.BOUND: Reason.REST,
    Event.START_OVER: Reason.SLOW_START_OVER,
}


def _bounded(state: State, bound: Bound, event: Event) -> Stepped:
    """The same choice with another bound is given; without a bound as it was."""
    choice = _due(replace(state, start=None) if event is Event.START_OVER else state)
    if bound.each_bps is not None:
        choice = _paced(state, choice, bound.each_bps)
    return _given(state, Command(event, choice, _REASONS[event].because()))


def _given(state: State, command: Command) -> Stepped:
    return replace(state, in_flight=command, given_in=state.phase), command


def _due(state: State) -> Choice:
    """How the streams are to send where no probe bounds them."""
    choice = state.arbiter.current
    if state.start is not None:
        choice = choice._replace(congestion_control=CONTROL)
    return choice if state.pace is None else _paced(state, choice, state.pace.each_bps)


def _restored(state: State) -> Stepped:
    """What is due is given where something else is in force: the end of a bound was refused, or given up."""
    arbiter, sent = state.arbiter, state.sent
    if arbiter.has_fair_pace and state.pace is None:
        # The plan's own bound was less than an equal share, and so nothing was changed.
        each_bps = float(sent.pacing_bps or arbiter.share_bps / sent.streams)
        state = replace(state, pace=Pace.begin(arbiter.share_bps, 0.0, 0.0, each_bps))
    due = _due(state)
    return (state, None) if due == sent else _given(state, Command(Event.RESTORE, due, state.sent_why))


def _paced(state: State, choice: Choice, each_bps: float) -> Choice:
    """The choice with that bound of each stream, or the plan's if that is less."""
    return choice.paced(each_bps, state.arbiter.now.default.pacing_bps)


def _rests(state: State, now_s: float) -> Stepped:
    """Ends probes, and the bounds that nobody would move meanwhile."""
    capacity, exclusivity = state.capacity.given_up(), state.exclusivity.given_up()
    state = replace(state, capacity=capacity, exclusivity=exclusivity).in_phase()
    if state.in_flight is not None or now_s < state.waits_s:
        return state, None
    if state.arbiter.bounded:
        plan = state.arbiter.now.default
        return _change(state, Command(Event.RELEASE, plan, Reason.RESTING.because(), plan))
    return _restored(state)


def _failed(state: State, problem: str) -> Stepped:
    """The plan comes back for good."""
    ended, plan = replace(state, phase=Phase.ENDED), state.arbiter.now.default
    if state.sent == plan and state.in_flight is None:
        return ended, None
    return ended, Command(Event.FAIL, plan, Reason.FAILED.because(problem=problem), plan)
