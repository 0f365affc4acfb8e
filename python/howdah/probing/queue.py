"""When a round trip is one through a queue, and not what hosts and the noise of a link add to it."""

QUEUE, QUEUE_LEAST_S = 0.05, 0.001
"""Of the base RTT, beyond it."""


def queues(rtt_s: float, base_rtt_s: float) -> bool:
    """Whether there is a queue."""
    return rtt_s - base_rtt_s > max(QUEUE_LEAST_S, QUEUE * base_rtt_s)
