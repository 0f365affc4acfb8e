"""Makes the runs of a block on the near host of a lab: ``python -m howdah.measure.worker``.

A process goes into a lab's network namespace for good, and a sweep has many labs. The Task comes on standard
input as JSON, and each Event leaves on standard output as a line of JSON.
"""

import sys

import msgspec

from howdah import interrupt
from howdah.measure.runs import Failed, Stopped, Task, make


def main() -> None:
    """Reads a Task, makes it, and says what became of it."""
    interrupt.install()
    try:
        for event in make(msgspec.json.decode(sys.stdin.buffer.read(), type=Task)):
            _say(event)
    except interrupt.Interrupted as stopped:
        _say(Stopped(128 + stopped.number))
    except Exception as error:
        _say(Failed(f"a mistake of ours, {error!r}"))
        raise


def _say(event: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
