"""Making the runs of one block, one after the other, each a transfer with its record in the archive."""

from collections import deque
from collections.abc import Iterator

import msgspec

from howdah import HowdahError
from howdah._native import format_bytes
from howdah.archive import Archive
from howdah.measure.kept import Left
from howdah.remote import endpoints
from howdah.remote.far import greet
from howdah.transfer.display import Quiet
from howdah.transfer.run import Request, run
from howdah.values.plan import Plan, Why
from howdah.values.record import HostLimits, Record, Swept
from howdah.values.sizes import BLOCK_BYTES


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One block of a sweep, as whoever makes it must know it."""

    sweep: str
    name: str
    path: str | None
    host: str
    far_howdah: str | None
    controls: dict[str, str]
    """As sockets choose them, by the name in the plan."""
    encrypt: bool
    sample_every_s: float
    late_again: int
    command: list[str]
    runs: list[Left]


class Measured(msgspec.Struct, frozen=True, tag=True):
    """A run whose record is in the archive."""

    record: str
    cell: str
    repeat: int
    attempt: int
    rate_bps: float | None
    late: bool


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """A signal ended it."""

    exit_code: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It cannot go on."""

    why: str


Event = Measured | Stopped | Failed


def make(task: Task) -> Iterator[Event]:
    """Makes the runs of ``task``, late ones again; ends with what stopped it, if anything did."""
    archive, queue, failed = Archive(), deque(task.runs), False
    try:
        _check_buffers(task)
        while queue:
            left = queue.popleft()
            done = run(_request(task, left), Quiet(), archive)
            if done.exit_code > 128:
                yield Stopped(done.exit_code)
                return
            if done.archive_error is not None:
                raise HowdahError(done.archive_error)
            if done.record.error is not None:
                # Once may be an accident; twice, and the next hundred runs would fail as well.
                if failed:
                    raise HowdahError(done.record.error)
                failed = True
                queue.appendleft(left)
                continue
            failed = False
            measured = _measured(done.record, left)
            if measured.late and left.attempt < task.late_again:
                queue.append(left._replace(attempt=left.attempt + 1))
            yield measured
    except HowdahError as error:
        yield Failed(str(error))


def _request(task: Task, left: Left) -> Request:
    cell = left.cell
    plan = Plan(
        path="dedicated",
        congestion_control=task.controls[cell.congestion_control],
        streams=cell.streams,
        buffer_bytes=cell.buffer_bytes,
        block_bytes=BLOCK_BYTES,
        encrypt=task.encrypt,
        why=Why(summary=[f"The sweep {task.name} measures it."]),
    )
    return Request(
        command=task.command,
        route=endpoints.route([f"{task.host}:"], memory=True),
        memory_bytes=cell.memory_bytes,
        memory_s=cell.memory_s,
        path="dedicated",
        plan=plan,
        far_howdah=task.far_howdah,
        sample_every_s=task.sample_every_s,
        sweep=Swept(
            id=task.sweep,
            name=task.name,
            path=task.path,
            cell=str(cell),
            repeat=left.repeat,
            attempt=left.attempt,
        ),
        keeps_far_end=False,
    )


def _measured(record: Record, left: Left) -> Measured:
    rate_bps = record.outcome.moving_bps if record.outcome else None
    late = "lateness" in record.flags
    return Measured(record.id, str(left.cell), left.repeat, left.attempt, rate_bps, late)


def _check_buffers(task: Task) -> None:
    """Raises HowdahError for a buffer that a kernel would not give in full."""
    buffer_bytes = max((left.cell.buffer_bytes or 0 for left in task.runs), default=0)
    if not buffer_bytes:
        return
    far = greet(task.host, task.far_howdah).limits
    here = HostLimits.here()
    for where, limits, setting, limit_bytes in (
        ("this host", here, "wmem_max", here.wmem_max_bytes),
        (task.host, far, "rmem_max", far.rmem_max_bytes),
    ):
        if not limits.privileged and buffer_bytes > limit_bytes:
            raise HowdahError(
                f"buffers of {format_bytes(buffer_bytes)} are above net.core.{setting} of {where}, "
                f"{format_bytes(limit_bytes)}; there, as root: sysctl -w net.core.{setting}={buffer_bytes}"
            )
