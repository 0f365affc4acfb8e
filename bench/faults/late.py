"""Moments after the last byte of a copy: the receiver stops in the middle of a step until the fault came.

A step of some thousand names takes milliseconds, and a fault needs some of them to come.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.faults import trees
from bench.faults.cases import Case, Moment
from bench.processes import FAR, NEAR, running
from howdah.lab import Lab
from howdah.lab.session import Process

_POLL_S = 0.0005
_MOST = 0.5
"""The part of a step after which it may be too late to stop it in its middle."""
_AHEAD = -10
"""The nice value of what has to act within milliseconds, also on a machine that is busy."""


class Step(NamedTuple):
    """What a receiver does after the last byte, by some of the names that it does it to."""

    names: list[Path]
    is_done: Callable[[Path], bool]

    def done(self) -> float:
        """The part of it that is done."""
        return sum(map(self.is_done, self.names)) / len(self.names)


def step(moment: Moment, where: Path) -> Step:
    """The step of a moment, of a copy whose source comes to lie in ``where``."""
    match moment:
        case "other names":
            return Step(trees.some_other_names(where), trees.is_linked)
        case "attributes of folders":
            return Step(trees.some_kept_folders(where), trees.is_given_its_time)
        case "removal":
            return Step(trees.some_extraneous(where), lambda path: not path.exists())
        case _:
            raise AssertionError(moment)


@contextlib.contextmanager
def _ahead() -> Iterator[None]:
    """Runs this thread, and what it starts, before others while the block lasts."""
    thread, usual = threading.get_native_id(), os.nice(0)
    os.setpriority(os.PRIO_PROCESS, thread, _AHEAD)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, thread, usual)


@contextlib.contextmanager
def stopped_in(case: Case, wan: Lab, where: Path, copy: Process) -> Iterator[bool]:
    """Stops the receiver in the middle of the moment's step while the block lasts; whether it was in time."""
    receiver = FAR if case.push else NEAR
    pids = [str(pid) for pid, _ in running(wan, receiver)]
    taken = step(case.moment, where)
    # It is there and waits for a word, because it takes longer to start than a step does.
    with _ahead():
        stops = wan.popen(
            "near", ["sh", "-c", 'read -r _; kill -STOP "$@"', "sh", *pids], stdin=subprocess.PIPE
        )
    with stops, _ahead():
        while copy.poll() is None and taken.done() <= case.place * _MOST:
            time.sleep(_POLL_S)
        stops.communicate(b"\n")
    try:
        yield copy.poll() is None and taken.done() < 1.0
    finally:
        wan.run("near", ["kill", "-CONT", *pids], stderr=subprocess.DEVNULL)
        # What started the command stops with it, unless it has ended.
        with contextlib.suppress(ProcessLookupError):
            os.kill(copy.pid, signal.SIGCONT)
