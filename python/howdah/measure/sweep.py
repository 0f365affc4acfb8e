"""Carrying out a sweep: one block after the other, until nothing is left of it."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from howdah import HowdahError, decoding, interrupt, lab
from howdah.archive import Archive
from howdah.arguments import NotHere, literal
from howdah.cc import programs
from howdah.lab.session import Process
from howdah.measure import schedule
from howdah.measure.plan import SweepPlan
from howdah.measure.runs import BlockTask, Event, RunMeasured, RunsFailed, RunsStopped, check_buffers, make
from howdah.measure.schedule import Block, PlannedRun
from howdah.text import count
from howdah.values.record import HostLimits

_STOP_S = 10.0
"""How long a worker may take to keep what it has after a signal."""

Todo = list[tuple[Block, list[PlannedRun]]]


class SweepDisplay:
    """The display of a sweep. This one shows nothing."""

    def begins(self, todo: Todo) -> None:
        """Shows what is left to run, in its order; called once."""

    def measured(self, one: RunMeasured) -> None:
        """Shows a run; called after each."""


class SweepResult(NamedTuple):
    """The result of a sweep."""

    records: list[str]
    """The records of the runs that were made now."""
    late: int
    """How many of these runs the lab was late for."""
    exit_code: int
    """128 and the signal's number when a signal stopped it, else 0."""


def sweep(plan: SweepPlan, show: SweepDisplay, *, command: list[str], beside_others: bool) -> SweepResult:
    """Measures what the archive does not have of ``plan``.

    Raises HowdahError when it cannot begin or go on; what was measured is kept then.
    """
    if not beside_others and (busy := _busy()) is not None:
        raise busy
    todo = list(schedule.remaining(plan, schedule.finished_in(Archive(), plan)))
    show.begins(todo)
    records, late = [], 0
    try:
        with (
            programs.provided(plan.controls() if todo else []) as found,
            contextlib.closing(_events(plan, todo, found, command)) as events,
        ):
            for event in events:
                match event:
                    case RunMeasured():
                        records.append(event.record)
                        late += event.late
                        show.measured(event)
                    case RunsFailed(why):
                        raise HowdahError(f"{why} ({_made_in_words(len(records))})")
                    case RunsStopped(exit_code):
                        return SweepResult(records, late, exit_code)
    except interrupt.Interrupted as stopped:
        return SweepResult(records, late, 128 + stopped.number)
    return SweepResult(records, late, 0)


def refusal(plan: SweepPlan, todo: Todo, *, beside_others: bool) -> HowdahError | None:
    """What the sweep would be refused for, as far as this host can tell before it begins; None: nothing."""
    if not beside_others and (busy := _busy()) is not None:
        return busy
    here = HostLimits.here()
    whys = (programs.refusal(name, here) for name in (plan.controls() if todo else []))
    if why := next(filter(None, whys), None):
        return HowdahError(why)
    try:
        # A lab is made by who may set any buffer in it.
        if plan.host is not None:
            check_buffers([each for _, runs in todo for each in runs], None, None)
    except HowdahError as error:
        return error
    return None


def _made_in_words(made: int) -> str:
    return f"{count(made, 'run')} of this sweep made now and kept; the same command goes on with it"


def _events(
    plan: SweepPlan, todo: Todo, found: dict[str, str], command: list[str]
) -> Generator[Event, None, None]:
    for block, runs in todo:
        yield from _block(plan, block, BlockTask(plan=plan, controls=found, command=command, runs=runs))


def _busy() -> NotHere | None:
    """The error of another howdah that is at work here; None: there is none."""
    first = next(iter(others_at_work()), None)
    return first and NotHere(
        f"{literal(first.command)} runs on this host (process {first.pid}), and each would disturb the "
        "other; wait for it, or give {beside_others}"
    )


def _block(plan: SweepPlan, block: Block, task: BlockTask) -> Iterator[Event]:
    if block.rtt_ns is None:
        yield from make(task)
        return
    link = plan.links[block.rtt_ns]
    # Each repeat loses other segments.
    link = msgspec.structs.replace(link, seed=link.seed + block.repeat)
    with lab.started(link, sshd=True) as wan:
        worker = wan.popen(
            "near",
            [sys.executable, "-P", "-m", "howdah.measure.runs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            dies_with_parent=True,
        )
        with worker:
            try:
                yield from _work(worker, task)
            except interrupt.Interrupted as stopped:
                _stop(worker, stopped.number)
                yield RunsStopped(128 + stopped.number)
            finally:
                worker.kill()


def _work(worker: Process, task: BlockTask) -> Iterator[Event]:
    if worker.stdin is None or worker.stdout is None:
        raise TypeError("the worker has no pipes")
    worker.stdin.write(msgspec.json.encode(task))
    worker.stdin.close()
    for line in worker.stdout:
        yield decoding.from_json(line, Event)
    if worker.wait() != 0:
        yield RunsFailed(f"the process that measures has ended with {worker.returncode}")


def _stop(worker: Process, number: int) -> None:
    """Has the worker keep what it has. A terminal's Ctrl-C has reached it already; a second does nothing."""
    worker.send_signal(number)
    try:
        worker.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        return


_BUSY = {"cp", "sweep", "traffic"}


class OtherProcess(NamedTuple):
    """A process of howdah that measures or copies."""

    pid: int
    command: str


def others_at_work(proc: Path = Path("/proc")) -> list[OtherProcess]:
    """Every other ``howdah cp``, ``sweep`` or ``traffic``: two at once would measure each other.

    This process and its ancestors are left out.
    """
    own = _ancestry(proc)
    found = []
    for folder in proc.iterdir():
        if folder.name.isdecimal() and int(folder.name) not in own:
            command = _command(folder)
            if command is not None:
                found.append(OtherProcess(int(folder.name), f"howdah {command}"))
    return sorted(found)


def _command(folder: Path) -> str | None:
    """The command of ``howdah cp`` or ``python -m howdah cp``; null for any other program."""
    try:
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    interpreter = Path(words[0]).name.startswith("python")
    for place, word in enumerate(words[:-1]):
        own = Path(word).name == "howdah" and (place == 0 or (interpreter and _is_program(words[1:place])))
        if own and words[place + 1] in _BUSY:
            return words[place + 1]
    return None


def _is_program(before: list[str]) -> bool:
    """Whether what follows the interpreter's own options is the program that it runs."""
    return all(word.startswith("-") for word in before)


def _ancestry(proc: Path) -> set[int]:
    pid, found = os.getpid(), set[int]()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            # proc_pid_stat(5): the parent is the second field after the name, which may hold anything.
            pid = int((proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return found
