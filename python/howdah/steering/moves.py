"""Decides when a transfer changes how it sends: late enough, sure enough, and back where nothing was gained.

- Others cannot be recognised behind many streams of our own, for models are trained beside one. So the
  transfer first goes down to few streams, which is fair in any case (``_reduce``). It stays so while few have
  enough, and others are not known.
- Streams of the plan that fill a path of their own (``exclusivity``) are paced instead, and others are
  recognised behind them. The transfer does not go down to few streams while a queue that there was is gone:
  then nobody else limits it.
- A transfer that began with few streams, because others were there before the first byte, does not know what
  the fair default would have. It tries that where few have too little, and doubles its streams where there is
  room (``_grow``): hardly any queue for ``room_s``, for others who were just cut leave some for a moment.
- Once the capacity was measured beside others (``capacity_probe``), the fair default is to pace the plan's
  streams to what others leave, and not below an equal share (``pace``). That is right alone and beside all
  that yield to loss. Where such streams have clearly less than that share of a full path, somebody does not
  yield, and is answered as BBR is.
- Nothing is changed in the first ``first_s``, except for another route: others who were cut by the beginning
  come back meanwhile. Nothing is changed where less than ``last_s`` is left.
- A change is made when two verdicts in a row prefer it by ``gain``, ``dwell_s`` after the last one or later.
- A change is measured once it has settled (``arbiter``). It is undone if it was to bring more and did not, or
  has sent much again for little. It is undone as well if it has less than ``trial_keep`` of what the fair
  default gave, or of an equal share of the path, if that is less and somebody is known to be there. Nothing
  is tried for ``cooldown_s`` then, and for twice as long after the next failure.
- Fewer streams of the same control are reached by halves, each when the queue is back. All at once would
  leave the path empty, for the windows of those that stay are small.
- The fair default comes back where others were not recognised for ``unsure_s``, or for ``proven_s`` where the
  change has brought much.

So the cost of a wrong verdict is bounded: see ``docs/choosing.md``. Pure: times and counts are arguments.
"""

from collections.abc import Callable

from msgspec.structs import replace

from howdah.probing.series import queues
from howdah.steering.arbiter import ChangeArbiter, Command, to_recognise
from howdah.steering.policy import Situation, stream_counts, sure_kind
from howdah.steering.shares import Choice
from howdah.steering.states import Event, moves
from howdah.steering.throughput import Look
from howdah.steering.tunables import TUNED, lasting
from howdah.values.listened import Throughput
from howdah.values.reason import Reason, Why

Decided = tuple[ChangeArbiter, Command | None]
"""The next arbiter, and what is to be changed."""


def decide(arbiter: ChangeArbiter, look: Look) -> Decided:
    """Makes the first move of this phase that the look added last allows."""
    path = arbiter.path.path
    known = replace(
        arbiter, now=arbiter.now._replace(queue_bdp=path.queue_bdp, capacity_bps=arbiter.capacity_bps)
    )
    if known.now.fair_pace is not None:
        known = known.shared_out()
    had = known.settled(look.t_s)
    known = known.noted(had)
    if look.left_s is not None and look.left_s < TUNED.last_s:
        return known, None
    known, command = _release(known)
    if command is not None or look.t_s < TUNED.first_s:
        return known, command
    for move in (_MOVES[event] for event in moves(known.phase) if event in _MOVES):
        known, command = move(known, look, had)
        if command is not None:
            break
    return known, command


def _release(arbiter: ChangeArbiter) -> Decided:
    """The plan's choice replaces a bound that was for another path."""
    plan = arbiter.now.default
    if not arbiter.moved or not arbiter.bounded:
        return replace(arbiter, moved=False), None
    return arbiter, Command(Event.RELEASE, plan, Reason.ROUTE_CHANGED.because(), plan)


def _grow(arbiter: ChangeArbiter, look: Look, _had: Throughput | None) -> Decided:
    """The streams double where the fair default has not been had yet and the path is not full."""
    t_s = look.t_s
    default, kind = arbiter.now.default, sure_kind(arbiter.belief)
    if (
        arbiter.now.fair_pace
        or arbiter.default_bps is not None
        or arbiter.current == default
        or arbiter.for_others
    ):
        return arbiter, None
    if t_s < arbiter.room_s or (kind is not None and kind[0] != "nobody"):
        return arbiter, None
    longest_s = arbiter.path.meter.longest_rtt_s(t_s - TUNED.room_s, t_s)
    if t_s - arbiter.since_s < TUNED.room_s or longest_s is None or queues(longest_s, arbiter.base_rtt_s):
        return arbiter, None
    target = arbiter.current._replace(streams=min(default.streams, 2 * arbiter.current.streams))
    few = None if target == default else to_recognise(target, default)
    return arbiter, Command(Event.GROW, target, Reason.ROOM.because(), target, few)


def _pace(arbiter: ChangeArbiter, _look: Look, _had: Throughput | None) -> Decided:
    """The plan's streams are paced as soon as an equal share is known."""
    paced = arbiter.now.fair_pace
    if paced is None or arbiter.current.is_bbr or arbiter.target == paced:
        return arbiter, None
    if paced.congestion_control not in arbiter.now.controls:
        # It has been refused.
        return arbiter, None
    if arbiter.path.capacity.probed_bps is not None:
        return arbiter, Command(Event.PACE, paced, Reason.CAPACITY_KNOWN.because(), paced)
    begin_bps = TUNED.pace_rest * (arbiter.capacity_bps or 0.0)
    return arbiter, Command(Event.PACE, paced, Reason.EXCLUSIVE.because(), paced, begin_bps=begin_bps)


def _undo(arbiter: ChangeArbiter, look: Look, had: Throughput | None) -> Decided:
    """The fair default comes back if the choice has not brought what it was for, or nobody knows."""
    t_s = look.t_s
    default = arbiter.fair
    if arbiter.target == default:
        return arbiter, None
    known = arbiter.current != arbiter.target or sure_kind(arbiter.belief) is not None
    sure_s = t_s if known or arbiter.sure_s is None else arbiter.sure_s
    unsure = t_s - sure_s > (TUNED.proven_s if arbiter.proven else TUNED.unsure_s)
    failed = None
    if had is not None and arbiter.trial is not None and (known or unsure or arbiter.for_others):
        failed = arbiter.trial.failed(
            had, sure_kind(arbiter.belief), arbiter.default_bps, arbiter.capacity_bps
        )
    if failed is None and unsure and arbiter.for_others:
        failed = Reason.NOT_RECOGNISED.because()
    if failed is None:
        return replace(arbiter, sure_s=sure_s), None
    cooldown_s = min(TUNED.cooldown_most_s, TUNED.cooldown_s * 2**arbiter.failures)
    undone = replace(arbiter, sure_s=sure_s, cooldown_until_s=t_s + cooldown_s, failures=arbiter.failures + 1)
    return undone.with_latest(undone=failed.words), Command(Event.UNDO, default, failed, default)


def _prefer(arbiter: ChangeArbiter, look: Look, _had: Throughput | None) -> Decided:
    """The policy's choice comes when it has preferred that for long enough."""
    t_s = look.t_s
    if arbiter.verdicts == arbiter.asked:
        return arbiter, None
    asked = replace(arbiter, asked=arbiter.verdicts)
    preference = arbiter.policy(arbiter.believed, _situation(arbiter))
    if preference is None or preference.choice == arbiter.target or preference.gain < TUNED.gain:
        return replace(asked, preferred=None), None
    if preference.choice.is_bbr and preference.probability < TUNED.sure_to_take:
        return replace(asked, preferred=None), None
    times = 1 + (
        arbiter.preferred[1] if arbiter.preferred and arbiter.preferred[0] == preference.choice else 0
    )
    asked = replace(asked, preferred=(preference.choice, times))
    soon = arbiter.for_others and t_s - arbiter.since_s < max(TUNED.dwell_s, arbiter.settle_s + TUNED.judge_s)
    cooling = preference.choice != arbiter.fair and t_s < arbiter.cooldown_until_s
    if times < TUNED.verdicts_agree or soon or cooling:
        return asked, None
    choice = _step(arbiter.current, preference.choice)
    return asked, Command(Event.PREFER, choice, _why(arbiter), preference.choice, preference)


def _why(arbiter: ChangeArbiter) -> Why:
    """The reason for a change that answers who is there."""
    if sure_kind(arbiter.belief) is None:
        return Reason.UNYIELDING.because()
    label, probability = arbiter.belief.likeliest
    return Reason.RECOGNISED.because(label=label, probability=probability)


def _situation(arbiter: ChangeArbiter) -> Situation:
    """The situation with what was measured beside this kind of background."""
    kind = sure_kind(arbiter.believed)
    measured = arbiter.measured.get(kind[0], {}) if kind else {}
    return arbiter.now._replace(measured=dict(measured))


def _ease(arbiter: ChangeArbiter, look: Look, _had: Throughput | None) -> Decided:
    """The next halving comes when the queue is back."""
    waited_s, base_s = look.t_s - arbiter.since_s, arbiter.base_rtt_s
    if waited_s < lasting(TUNED.ease_s, TUNED.ease_round_trips, base_s):
        return arbiter, None
    queue_s = 0.0 if look.rtt_s is None else look.rtt_s - base_s
    if queue_s < TUNED.ease_queue * arbiter.path.path.queue_bdp * base_s and waited_s < TUNED.ease_most_s:
        return arbiter, None
    why = arbiter.reason or Reason.TO_RECOGNISE.because()
    return arbiter, Command(Event.EASE, _step(arbiter.current, arbiter.target), why, arbiter.target)


def _reduce(arbiter: ChangeArbiter, look: Look, _had: Throughput | None) -> Decided:
    """The streams become few, so that others can be recognised."""
    t_s = look.t_s
    if t_s < arbiter.quiet_s or not arbiter.needs_recognition(t_s):
        return arbiter, None
    if arbiter.needs_exclusivity(t_s) or arbiter.path.emptied:
        return arbiter, None
    target = arbiter.current._replace(streams=next(stream_counts(arbiter.now)))
    if target == arbiter.current:
        return arbiter, None
    choice, few = _step(arbiter.current, target), to_recognise(target, arbiter.current)
    command = Command(Event.REDUCE, choice, Reason.TO_RECOGNISE.because(), target, few)
    return replace(arbiter, room_s=t_s + TUNED.quiet_room_s), command


def _step(now: Choice, target: Choice) -> Choice:
    """Halves the streams at most, unless the target has another congestion control."""
    if now.congestion_control != target.congestion_control or target.is_bbr:
        return target
    return target._replace(streams=max(target.streams, now.streams // 2))


_MOVES: dict[Event, Callable[[ChangeArbiter, Look, Throughput | None], Decided]] = {
    Event.GROW: _grow,
    Event.PACE: _pace,
    Event.UNDO: _undo,
    Event.PREFER: _prefer,
    Event.EASE: _ease,
    Event.REDUCE: _reduce,
}
"""The function that makes each move."""
