"""Carrying out a sweep: one block after the other, until nothing is left of it."""

import contextlib
import subprocess
import sys
from collections.abc import Generator, Iterator
from typing import NamedTuple, Protocol

import msgspec

from howdah import HowdahError, interrupt, lab
from howdah.archive import Archive
from howdah.cc import controls
from howdah.lab.enter import Process
from howdah.measure import kept
from howdah.measure.kept import Left
from howdah.measure.order import Block
from howdah.measure.others import others
from howdah.measure.plan import SweepPlan
from howdah.measure.runs import Event, Failed, Measured, Stopped, Task, make
from howdah.text import count

_STOP_S = 10.0
"""How long a worker may take to keep what it has after a signal."""

Todo = list[tuple[Block, list[Left]]]


class Show(Protocol):
    """Where a person watches."""

    def begins(self, todo: Todo) -> None:
        """What is left, in its order."""

    def measured(self, one: Measured) -> None:
        """After each run."""


class Result(NamedTuple):
    """How a sweep ended."""

    records: list[str]
    """Of the runs that were made now."""
    late: int
    """How many of them the lab was late for."""
    exit_code: int
    """128 and the signal's number when one stopped it, else 0."""


def sweep(plan: SweepPlan, show: Show, *, command: list[str], beside_others: bool) -> Result:
    """Measures what the archive does not hold of ``plan``.

    Raises HowdahError when it cannot begin or go on; what was measured is kept then.
    """
    if not beside_others:
        _check_alone()
    todo = list(kept.left(plan, kept.in_archive(Archive(), plan)))
    show.begins(todo)
    records, late = [], 0
    try:
        with (
            controls.had(plan.controls() if todo else []) as found,
            contextlib.closing(_events(plan, todo, found, command)) as events,
        ):
            for event in events:
                match event:
                    case Measured():
                        records.append(event.record)
                        late += event.late
                        show.measured(event)
                    case Failed(why):
                        raise HowdahError(f"{why} ({_kept(len(records))})")
                    case Stopped(exit_code):
                        return Result(records, late, exit_code)
    except interrupt.Interrupted as stopped:
        return Result(records, late, 128 + stopped.number)
    return Result(records, late, 0)


def _kept(made: int) -> str:
    return f"{count(made, 'run')} of this sweep made now and kept; the same command goes on with it"


def _events(
    plan: SweepPlan, todo: Todo, found: dict[str, str], command: list[str]
) -> Generator[Event, None, None]:
    for block, runs in todo:
        yield from _block(plan, block, _task(plan, runs, found, command))


def _check_alone() -> None:
    if found := others():
        first = found[0]
        raise HowdahError(
            f"{first.command} runs on this host (process {first.pid}), and each would measure the other; "
            "wait for it, or say --beside-others"
        )


def _task(plan: SweepPlan, runs: list[Left], found: dict[str, str], command: list[str]) -> Task:
    return Task(
        sweep=plan.id,
        name=plan.name,
        path=plan.path,
        host=plan.host or "far",
        far_howdah=plan.far_howdah,
        controls=found,
        encrypt=plan.encrypt,
        sample_every_s=plan.sample_every_s,
        late_again=plan.late_again,
        command=command,
        runs=runs,
    )


def _block(plan: SweepPlan, block: Block, task: Task) -> Iterator[Event]:
    if block.rtt_ns is None:
        yield from make(task)
        return
    link = plan.links[block.rtt_ns]
    # Each repeat loses other segments.
    link = msgspec.structs.replace(link, seed=link.seed + block.repeat)
    with lab.started(link, sshd=True) as wan:
        worker = wan.popen(
            "near",
            [sys.executable, "-P", "-m", "howdah.measure.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            tied=True,
        )
        with worker:
            try:
                yield from _work(worker, task)
            except interrupt.Interrupted as stopped:
                _stop(worker, stopped.number)
                yield Stopped(128 + stopped.number)
            finally:
                worker.kill()


def _work(worker: Process, task: Task) -> Iterator[Event]:
    if worker.stdin is None or worker.stdout is None:
        raise TypeError("the worker has no pipes")
    worker.stdin.write(msgspec.json.encode(task))
    worker.stdin.close()
    for line in worker.stdout:
        yield msgspec.json.decode(line, type=Event)
    if worker.wait() != 0:
        yield Failed(f"the process that measures has ended with {worker.returncode}")


def _stop(worker: Process, number: int) -> None:
    """Has the worker keep what it has. A terminal's Ctrl-C has reached it already; a second does nothing."""
    worker.send_signal(number)
    try:
        worker.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        return
