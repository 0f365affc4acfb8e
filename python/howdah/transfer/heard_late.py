"""A copy between two far hosts, whose begin this host sees late: by the first report of what has arrived.

A report comes each tenth of a second, and takes half a round trip. A small copy has moved all of its bytes by
then. But each receiving thread books its time from its first piece on, and the receiver how long it flushed
and named then. So the copy began no later than that before its end.
"""

import msgspec

from howdah.values.outcome import Outcome


def with_its_begin(outcome: Outcome) -> Outcome:
    """The outcome with the time at which payload began to move; without, where no thread has booked it."""
    if outcome.setup_s is None or outcome.moving_s is None:
        return outcome
    worked_s = max(
        (each.receiver.worked_s for each in outcome.streams if each.receiver is not None), default=0.0
    )
    if not worked_s:
        return msgspec.structs.replace(outcome, setup_s=None, moving_s=None)
    ended_s = outcome.setup_s + outcome.moving_s
    moving_s = min(max(outcome.moving_s, worked_s + outcome.finishing_s), ended_s)
    if moving_s == outcome.moving_s:
        return outcome
    return msgspec.structs.replace(outcome, setup_s=ended_s - moving_s, moving_s=moving_s)
