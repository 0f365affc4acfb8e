"""Probes from a host of a lab: ``python -m howdah.dataset.prober``.

A Probing comes on standard input as JSON. When it has begun, a line on standard output says since when, in
seconds of CLOCK_MONOTONIC; what it saw (Probed) leaves as JSON at its end.
"""

import sys
import time

import msgspec

from howdah import interrupt
from howdah.probing.probing import Probing, Taken, probe


def main() -> None:
    """Reads a Probing, and says what came of it."""
    interrupt.install()
    probing = msgspec.json.decode(sys.stdin.buffer.read(), type=Probing)
    begun = False

    def watch(taken: Taken) -> bool:
        nonlocal begun
        if not begun:
            begun = True
            _say(str(time.monotonic() - taken.elapsed_s).encode())
        return False

    _say(msgspec.json.encode(probe(probing, watch)))


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
