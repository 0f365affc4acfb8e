"""Making the runs of one block, one after the other, each a transfer with its record in the archive.

A process goes into a lab's network namespace for good, and a sweep has many labs. So the runs of a block are
made on the near host of a lab by ``python -m howdah.measure.runs``: the BlockTask comes on standard input as
JSON, and each Event leaves on standard output as a line of JSON.
"""

import sys
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from howdah import HowdahError, decoding, interrupt
from howdah._native import format_bytes
from howdah.archive import Archive
from howdah.measure.plan import SweepPlan
from howdah.measure.schedule import PlannedRun
from howdah.remote import endpoints
from howdah.remote.far import greet
from howdah.transfer.again import LEAST_UNANSWERED_S
from howdah.transfer.display import Quiet
from howdah.transfer.request import Request
from howdah.transfer.run import run
from howdah.values.plan import Plan, Why
from howdah.values.record import HostLimits, Record, Swept
from howdah.values.sizes import BLOCK_BYTES


class BlockTask(msgspec.Struct, frozen=True, kw_only=True):
    """One block of a sweep, with all that its maker needs."""

    plan: SweepPlan
    controls: dict[str, str]
    """The congestion controls as sockets choose them, by the name in the plan."""
    command: list[str]
    runs: list[PlannedRun]

    @property
    def host(self) -> str:
        """The far host as ssh knows it: of a lab, ``far``."""
        return self.plan.host or "far"


class RunMeasured(msgspec.Struct, frozen=True, tag=True):
    """A run whose record is in the archive."""

    record: str
    cell: str
    repeat: int
    attempt: int
    rate_bps: float | None
    late: bool


class RunsStopped(msgspec.Struct, frozen=True, tag=True):
    """A signal ended the runs."""

    exit_code: int


class RunsFailed(msgspec.Struct, frozen=True, tag=True):
    """The runs cannot go on."""

    why: str


Event = RunMeasured | RunsStopped | RunsFailed


def make(task: BlockTask) -> Iterator[Event]:
    """Makes the runs of ``task``, late ones again; ends with what stopped it, if anything did."""
    archive, queue, failed = Archive(), deque(task.runs), False
    try:
        check_buffers(task.runs, task.host, task.plan.far_howdah)
        while queue:
            planned = queue.popleft()
            done = run(_request(task, planned), Quiet(), archive)
            if done.exit_code > 128:
                yield RunsStopped(done.exit_code)
                return
            if done.archive_error is not None:
                raise HowdahError(done.archive_error)
            if done.record.error is not None:
                # One failure may be an accident; after two in a row the next hundred would fail too.
                if failed:
                    raise HowdahError(done.record.error)
                failed = True
                queue.appendleft(planned)
                continue
            failed = False
            measured = _measured(done.record, planned)
            if measured.late and planned.attempt < task.plan.late_again:
                queue.append(planned._replace(attempt=planned.attempt + 1))
            yield measured
    except HowdahError as error:
        yield RunsFailed(str(error))


def _request(task: BlockTask, planned: PlannedRun) -> Request:
    sweep, cell = task.plan, planned.cell
    plan = Plan(
        path="dedicated",
        congestion_control=task.controls[cell.congestion_control],
        streams=cell.streams,
        buffer_bytes=cell.buffer_bytes,
        block_bytes=BLOCK_BYTES,
        encrypt=sweep.encrypt,
        why=Why(summary=[f"The sweep {sweep.name} measures it."]),
    )
    return Request(
        command=task.command,
        route=endpoints.route([f"{endpoints.written(task.host)}:"], memory=True),
        memory_bytes=cell.memory_bytes,
        memory_s=cell.memory_s,
        path="dedicated",
        plan=plan,
        far_howdah=sweep.far_howdah,
        sample_every_s=sweep.sample_every_s,
        sweep=Swept(
            id=sweep.id,
            name=sweep.name,
            path=sweep.path,
            cell=str(cell),
            repeat=planned.repeat,
            attempt=planned.attempt,
        ),
        keeps_far_end=False,
        # What goes on after a longer silence has measured the outage.
        patience_s=LEAST_UNANSWERED_S,
    )


def _measured(record: Record, planned: PlannedRun) -> RunMeasured:
    rate_bps = record.outcome.moving_bps if record.outcome else None
    late = "lateness" in record.flags
    return RunMeasured(record.id, str(planned.cell), planned.repeat, planned.attempt, rate_bps, late)


def check_buffers(runs: Iterable[PlannedRun], host: str | None, far_howdah: str | None) -> None:
    """Raises HowdahError for a buffer that this host, or ``host``, would not give in full."""
    buffer_bytes = max((planned.cell.buffer_bytes or 0 for planned in runs), default=0)
    if not buffer_bytes:
        return
    here = HostLimits.here()
    limits = [("this host", here, "wmem_max", here.wmem_max_bytes)]
    if host is not None:
        far = greet(host, far_howdah).limits
        limits.append((host, far, "rmem_max", far.rmem_max_bytes))
    for where, kernel, setting, limit_bytes in limits:
        if not kernel.privileged and buffer_bytes > limit_bytes:
            raise HowdahError(
                f"buffers of {format_bytes(buffer_bytes)} are above net.core.{setting} of {where}, "
                f"{format_bytes(limit_bytes)}; there, as root: sysctl -w net.core.{setting}={buffer_bytes}"
            )


def main() -> None:
    """Reads a BlockTask, makes its runs, and writes each Event."""
    interrupt.install()
    try:
        for event in make(decoding.from_json(sys.stdin.buffer.read(), BlockTask)):
            _write(event)
    except interrupt.Interrupted as stopped:
        _write(RunsStopped(128 + stopped.number))
    except Exception as error:
        _write(RunsFailed(f"a bug in howdah, {error!r}"))
        raise


def _write(event: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
