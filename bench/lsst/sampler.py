"""What each flow has and sends, as the sending kernels count it, looked at all the time."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from howdah.cc.shares import everyones

EVERY_S = 0.02
FINELY_S, COARSELY_S = 4.0, 0.1
"""Of a record: each look is kept so long before and after a change, else one in so long."""


class Look(NamedTuple):
    """One flow at one instant."""

    t_s: float
    """Of the monotonic clock."""
    share_bps: int
    """In force, on the wire."""
    sent_bytes: int
    """On the wire."""
    acked_bytes: int
    """Of payload."""


class Sampler:
    """Looks from ``sampling`` on."""

    def __init__(self) -> None:
        self.flows: dict[str, list[Look]] = {}
        self.ended = threading.Event()

    def run(self) -> None:
        # On two cores that are busy, looks would come 35 to 120 ms apart.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        while not self.ended.wait(EVERY_S):
            t_s = time.monotonic()
            for each in everyones():
                look = Look(t_s, each.in_force_bps, each.sent_bytes, each.acked_bytes)
                self.flows.setdefault(each.name, []).append(look)

    def latest(self, flow: str) -> Look:
        return self.flows[flow][-1]


@contextlib.contextmanager
def sampling() -> Iterator[Sampler]:
    """While the block lasts."""
    sampler = Sampler()
    thread = threading.Thread(target=sampler.run)
    thread.start()
    try:
        yield sampler
    finally:
        sampler.ended.set()
        thread.join()
