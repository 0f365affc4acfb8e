"""The recorder of a data set: as many dumbbells at once as the processors carry, each in its own process.

The folder's recordings are the only note of what is done.
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

from howdah import HowdahError, decoding, interrupt
from howdah.cc import programs
from howdah.dataset.plan import DatasetPlan, Run
from howdah.dataset.run import RunFailed, RunMade, RunResult, RunTask
from howdah.lab.processes import DIES_WITH_PARENT
from howdah.recognition.files import read_recording

_END_S = 20.0


class SilentDisplay:
    """Shows nothing; a display overrides these methods."""

    def begins(self, plan: DatasetPlan, todo: list[Run], cores: float) -> None:
        """Is called before the first run, with the runs to make and the processors to use."""

    def made(self, run: Run, made: RunMade, *, again: bool) -> None:
        """Is called for each run that was made, and whether it is made again if it was spoilt."""


class DatasetResult(NamedTuple):
    """The runs of a data set that were made and those that were not."""

    recorded: list[Run]
    spoilt: int
    """How often the machine was too slow for a run."""
    left_out: list[Run]
    """The runs it was too slow for each time."""
    exit_code: int


def left(plan: DatasetPlan, folder: Path) -> list[Run]:
    """The runs that the folder does not hold. Raises HowdahError when it holds another plan's."""
    found = []
    for run in plan.runs():
        file = folder / run.file
        if not file.exists():
            found.append(run)
        elif read_recording(file)[0].run != run.name:
            raise HowdahError(f"{file} belongs to another plan; give another folder, or move it away")
    return found


def record(
    plan: DatasetPlan, todo: list[Run], folder: Path, cores: float, show: SilentDisplay
) -> DatasetResult:
    """Makes the runs. Raises HowdahError when it cannot begin or go on; recordings made so far stay."""
    for name in {Path(run.file).parent for run in todo}:
        try:
            (folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HowdahError(f"cannot make {folder / name}: {error.strerror}; give another folder") from None
    show.begins(plan, todo, cores)
    with programs.provided(plan.controls()) as found, _Workers(folder, cores, found) as workers:
        state = DatasetResult([], 0, [], 0)
        try:
            return _all(plan, deque(todo), workers, state, show)
        except interrupt.Interrupted as stopped:
            return state._replace(exit_code=128 + stopped.number)


def _all(
    plan: DatasetPlan, queue: deque[Run], workers: "_Workers", state: DatasetResult, show: SilentDisplay
) -> DatasetResult:
    failed, spoilt = False, 0
    while queue or workers.running:
        while queue and workers.has_room(queue[0]):
            workers.begin(queue.popleft())
        for run, event in workers.ended():
            again = run.attempt < plan.late_again
            match event:
                case RunFailed(why):
                    # Once may be an accident; twice, and the next hundred runs would fail as well.
                    if failed:
                        raise HowdahError(f"{why} (what was recorded stays; the same command goes on)")
                    failed = True
                    queue.appendleft(run)
                    continue
                case RunMade(spoilt=None):
                    state.recorded.append(run)
                case RunMade():
                    spoilt += 1
                    if again:
                        queue.append(run.again())
                    else:
                        state.left_out.append(run)
            failed = False
            show.made(run, event, again=again)
    return state._replace(spoilt=spoilt)


class _Workers:
    """The runs being made now."""

    def __init__(self, folder: Path, cores: float, found: dict[str, str]) -> None:
        self._folder, self._cores, self._controls = folder, cores, found
        self._selector = selectors.DefaultSelector()
        self.running: dict[int, tuple[subprocess.Popen[bytes], Run]] = {}

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the processes that still run, with their labs."""
        for process, _run in self.running.values():
            process.terminate()
        until_s = time.monotonic() + _END_S
        for process, _run in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until_s - time.monotonic()))
            process.kill()
        self._selector.close()

    def has_room(self, run: Run) -> bool:
        """Whether the processors carry one more run; they always carry the first."""
        taken = sum(other.cores for _, other in self.running.values())
        return not self.running or taken + run.cores <= self._cores

    def begin(self, run: Run) -> None:
        """Starts the process of a run."""
        with interrupt.Held():
            process = subprocess.Popen(
                [*DIES_WITH_PARENT, sys.executable, "-P", "-m", "howdah.dataset.run"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            if process.stdin is None or process.stdout is None:
                raise TypeError("the worker has no pipes")
            self.running[process.stdout.fileno()] = process, run
            self._selector.register(process.stdout, selectors.EVENT_READ)
        task = RunTask(run=run, controls=self._controls, folder=str(self._folder))
        process.stdin.write(msgspec.json.encode(task))
        process.stdin.close()

    def ended(self) -> Iterator[tuple[Run, RunResult]]:
        """Waits for at least one run to end, and yields those that did with their results."""
        for key, _ in self._selector.select():
            process, run = self.running[key.fd]
            if process.stdout is None:
                raise TypeError("the worker has no pipes")
            said = process.stdout.read()
            self._selector.unregister(process.stdout)
            process.wait()
            process.stdout.close()
            del self.running[key.fd]
            ended = RunFailed(f"run {run.name}: the process that records has ended with {process.returncode}")
            yield run, decoding.from_json(said, RunResult) if said else ended
