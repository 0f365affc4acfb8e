"""Making a data set: as many dumbbells at once as the processors carry, each in a process of its own.

What is done is what the folder holds; there is no second note of it.
"""

import contextlib
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from howdah import HowdahError, interrupt
from howdah.cc import controls
from howdah.dataset.plan import DatasetPlan, Run
from howdah.dataset.worker import Event, Failed, Made, Task
from howdah.parent_death import TIED
from howdah.recognition import recording

_END_S = 20.0


class Quiet:
    """Says nothing."""

    def begins(self, plan: DatasetPlan, todo: list[Run], cores: float) -> None:
        """Nothing."""

    def made(self, run: Run, made: Made, *, again: bool) -> None:
        """Nothing."""


class Result(NamedTuple):
    """What came of it."""

    recorded: list[Run]
    spoilt: int
    """Runs that the machine was too slow for, each time they were made."""
    left_out: list[Run]
    """Those it was too slow for each time."""
    exit_code: int


def left(plan: DatasetPlan, folder: Path) -> list[Run]:
    """The runs that the folder does not hold. Raises HowdahError when it holds another plan's."""
    found = []
    for run in plan.runs():
        file = folder / run.file
        if not file.exists():
            found.append(run)
        elif recording.read(file)[0].run != run.name:
            raise HowdahError(f"{file} is of another plan; give another folder, or take it away")
    return found


def record(plan: DatasetPlan, todo: list[Run], folder: Path, cores: float, show: Quiet) -> Result:
    """Makes the runs. Raises HowdahError when it cannot begin or go on; what was recorded stays."""
    for name in {Path(run.file).parent for run in todo}:
        try:
            (folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HowdahError(f"cannot make {folder / name}: {error.strerror}; give another folder") from None
    show.begins(plan, todo, cores)
    with controls.had(plan.controls()) as found, _Working(folder, cores, found) as working:
        state = Result([], 0, [], 0)
        try:
            return _all(plan, deque(todo), working, state, show)
        except interrupt.Interrupted as stopped:
            return state._replace(exit_code=128 + stopped.number)


def _all(plan: DatasetPlan, queue: deque[Run], working: "_Working", state: Result, show: Quiet) -> Result:
    failed, spoilt = False, 0
    while queue or working.running:
        while queue and working.has_room(queue[0]):
            working.begin(queue.popleft())
        for run, event in working.ended():
            again = run.attempt < plan.late_again
            match event:
                case Failed(why):
                    # Once may be an accident; twice, and the next hundred runs would fail as well.
                    if failed:
                        raise HowdahError(f"{why} (what was recorded stays; the same command goes on)")
                    failed = True
                    queue.appendleft(run)
                    continue
                case Made(spoilt=None):
                    state.recorded.append(run)
                case Made():
                    spoilt += 1
                    if again:
                        queue.append(run.again())
                    else:
                        state.left_out.append(run)
            failed = False
            show.made(run, event, again=again)
    return state._replace(spoilt=spoilt)


class _Working:
    """Runs being made now."""

    def __init__(self, folder: Path, cores: float, found: dict[str, str]) -> None:
        self._folder, self._cores, self._controls = folder, cores, found
        self._selector = selectors.DefaultSelector()
        self.running: dict[int, tuple[subprocess.Popen[bytes], Run]] = {}

    def __enter__(self) -> "_Working":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends those that still run, with their labs."""
        for process, _run in self.running.values():
            process.terminate()
        until_s = time.monotonic() + _END_S
        for process, _run in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until_s - time.monotonic()))
            process.kill()
        self._selector.close()

    def has_room(self, run: Run) -> bool:
        """Whether the processors carry one more; the first always."""
        taken = sum(other.cores for _, other in self.running.values())
        return not self.running or taken + run.cores <= self._cores

    def begin(self, run: Run) -> None:
        """Starts its process."""
        with interrupt.Held():
            process = subprocess.Popen(
                [*TIED, sys.executable, "-P", "-m", "howdah.dataset.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            if process.stdin is None or process.stdout is None:
                raise TypeError("the worker has no pipes")
            self.running[process.stdout.fileno()] = process, run
            self._selector.register(process.stdout, selectors.EVENT_READ)
        task = Task(run=run, controls=self._controls, folder=str(self._folder))
        process.stdin.write(msgspec.json.encode(task))
        process.stdin.close()

    def ended(self) -> Iterator[tuple[Run, Event]]:
        """Waits for some, and tells what became of them."""
        for key, _ in self._selector.select():
            process, run = self.running[key.fd]
            if process.stdout is None:
                raise TypeError("the worker has no pipes")
            said = process.stdout.read()
            self._selector.unregister(process.stdout)
            process.wait()
            process.stdout.close()
            del self.running[key.fd]
            ended = Failed(f"run {run.name}: the process that records has ended with {process.returncode}")
            yield run, msgspec.json.decode(said, type=Event) if said else ended
