"""Whether others are on a path, by the round trips before the first byte of ours.

On a path where nobody sends round trips differ by what the hosts do, some tenths of a millisecond. Any queue
that others fill, or any round trip beyond the least that is known, is more than that. Who it is would take
seconds; that somebody is there takes none, for a transfer connects meanwhile.
"""

from collections.abc import Sequence

from howdah.steering.ears import Sound

LEAST_ANSWERS, LEAST_SPREAD = 3, 10
"""To know how long the queue is, and how much it moves."""
SPREAD_S = 0.0005
"""From the tenth to the ninetieth percentile. In the lab half a second without others has less than 0.4 ms in
99 of 100, one beside a CUBIC stream more than 0.7 ms."""
QUEUE_S, QUEUE = 0.001, 0.02
"""Beyond the base RTT, and of it."""


def somebody(sounds: Sequence[Sound], base_rtt_s: float | None) -> bool:
    """Whether anybody else is there; no where too little was heard.

    ``base_rtt_s`` is the least known of the route, beside that of ``sounds`` themselves.
    """
    rtts = sorted(sound.rtt_s for sound in sounds if sound.rtt_s is not None)
    if len(rtts) < LEAST_ANSWERS:
        return False
    low, middle, high = (rtts[round(part * (len(rtts) - 1))] for part in (0.1, 0.5, 0.9))
    base_s = min(rtts[0], base_rtt_s or rtts[0])
    moves = len(rtts) >= LEAST_SPREAD and high - low > SPREAD_S
    return moves or middle - base_s > max(QUEUE_S, QUEUE * base_s)
