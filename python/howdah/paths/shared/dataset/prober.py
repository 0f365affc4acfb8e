"""Probes from a host of a lab: ``python -m howdah.paths.shared.dataset.prober``.

A Probing comes on standard input as JSON. An empty line leaves on standard output when it begins, and what it
saw (Probed) as JSON at its end.
"""

import sys

import msgspec

from howdah import interrupt
from howdah.measure.probing import Probing, Taken, probe


def main() -> None:
    """Reads a Probing, and says what came of it."""
    interrupt.install()
    probing = msgspec.json.decode(sys.stdin.buffer.read(), type=Probing)
    begun = False

    def watch(taken: Taken) -> bool:
        nonlocal begun
        if not begun:
            begun = True
            _say(b"")
        return False

    _say(msgspec.json.encode(probe(probing, watch)))


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
