"""Makes one recording: ``python -m howdah.dataset.worker``, so that several are made at once.

A Task comes on standard input as JSON, and an Event leaves on standard output.
"""

import signal
import sys
from pathlib import Path

import msgspec

from howdah import HowdahError, interrupt
from howdah.dataset.plan import Run
from howdah.dataset.run import make
from howdah.recognition import recording


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One run, and where it is kept."""

    run: Run
    controls: dict[str, str]
    """As sockets choose them, by the name in the plan."""
    folder: str


class Made(msgspec.Struct, frozen=True, tag=True):
    """It is kept, or spoilt and not kept."""

    late_fraction: float
    late_p99_s: float | None
    spoilt: str | None


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It could not be made."""

    why: str


Event = Made | Failed


def main() -> None:
    """Reads a Task, makes it, and says what became of it."""
    interrupt.install()
    # They were held while this process was made, and a process begins with what is held.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupt.SIGNALS)
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    try:
        _say(_made(task))
    except HowdahError as error:
        _say(Failed(str(error)))
    except Exception as error:
        _say(Failed(f"a mistake of ours, {error!r}"))
        raise


def _made(task: Task) -> Made:
    outcome = make(task.run, task.controls)
    if outcome.spoilt is None:
        recording.write(outcome.recording, Path(task.folder) / task.run.file)
    made = outcome.recording.made
    if made is None:
        raise TypeError("a lab's recording says how it was made")
    return Made(made.late_fraction, made.late_p99_s, outcome.spoilt)


def _say(event: Event) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
