"""Connections that are made ahead of the next copy to the same host, and which copies begin on them.

Its job costs a round trip anyway, before the first file may be sent. In that time a copy on such connections
sends a first window of padding, and has it acknowledged. So it begins with windows twice as large; and what
is remembered of the path it sends at once, because the round trip of now is known (RFC 9959, reconnaissance).
"""

from howdah.remote.standby import AHEAD_MAX, NONE_AHEAD, Ahead
from howdah.transfer.request import Request
from howdah.transfer.service import Underway
from howdah.values.outcome import Outcome
from howdah.values.path import Path
from howdah.values.sizes import INITIAL_WINDOW_BYTES

WORTH_WINDOWS = 8
"""Padding is sent where a round trip carries so many times as much; elsewhere it would delay the data."""


def uses(request: Request) -> bool:
    """Whether a copy begins on connections that were made ahead, if there are any.

    On a guaranteed path the share is held from a connection's first packet on. A sweep measures whole runs.
    """
    straight = request.route.origin is None
    return straight and request.encrypt and request.path != "guaranteed" and request.sweep is None


def fills(request: Request) -> bool:
    """Whether padding may be sent on them."""
    paced = any(choice.key == "pacing_bps" for choice in request.given)
    return request.route.direction == "push" and request.limits is None and not paced


def after(request: Request, underway: Underway, outcome: Outcome) -> Ahead:
    """What is made ahead after this copy: a connection for each of its streams, where these went straight."""
    ways = (outcome.through_ssh, outcome.by_far_end, outcome.other_address)
    if any(ways) or request.dry_run or not uses(request) or not underway.plan.encrypt:
        return NONE_AHEAD
    count = min(underway.plan.streams, AHEAD_MAX)
    worth = _carried_bytes(underway.path, outcome) >= WORTH_WINDOWS * INITIAL_WINDOW_BYTES * count
    return Ahead(count, fill=fills(request) and worth)


def _carried_bytes(path: Path, outcome: Outcome) -> float:
    """What a round trip of the path carries, as far as it is known: a small copy shows little of it."""
    shown = (outcome.moving_bps or 0.0) / 8 * (path.rtt_s or 0.0)
    memory = path.memory
    return max(shown, memory.capacity_bytes if memory is not None and memory.same_route else 0.0)
