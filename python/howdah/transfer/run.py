"""The one flow of a transfer: ssh, hello, decide, start, watch, result, record.

Whatever happens, a Record comes out: with an Outcome, or with the error in one line.
"""

import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from howdah import LAB_LINK_VARIABLE, HowdahError, interrupt, paths, plan, record
from howdah.archive import Archive
from howdah.plan import Plan
from howdah.record import HostLimits, Outcome, Record
from howdah.transfer import standby
from howdah.transfer.early import Started, take
from howdah.transfer.endpoints import Route, printable
from howdah.transfer.far import CANCEL_S, TICK_S, hello
from howdah.transfer.messages import FarHello, Job, Progress


class Given(NamedTuple):
    """One choice of the plan the user made."""

    key: str
    value: int | str
    option: str
    words: str


class Request(NamedTuple):
    """One ``howdah cp`` as it was asked for."""

    command: list[str]
    route: Route
    memory_bytes: int | None = None
    dry_run: bool = False
    encrypt: bool = True
    path: plan.PathKind = "shared"
    plan_file: Path | None = None
    given: tuple[Given, ...] = ()
    far_howdah: str | None = None


class Display(Protocol):
    """Where a person watches."""

    def planned(self, decided: Plan, far: FarHello) -> None:
        """The far end has answered and the plan is made."""

    def progress(self, now: Progress) -> None:
        """Called every TICK_S while the transfer runs."""

    def far_says(self, text: str) -> None:
        """Lines ssh or the far end wrote to standard error."""

    def close(self) -> None:
        """Nothing more will come."""


class Done(NamedTuple):
    """How it ended."""

    record: Record
    file: Path | None
    """Where the record is kept; None for a dry run, or when nothing was begun."""
    exit_code: int
    archive_error: str | None


class _Run:
    """What is known so far; becomes the record however far it came."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.started_at = datetime.now(UTC)
        self.id = record.new_id(self.started_at)
        self.digests: Path | None = None
        self.far: FarHello | None = None
        self.plan: Plan | None = None
        self.outcome: Outcome | None = None
        self.connect_s: float | None = None
        self.link_stats: dict[str, Any] | None = None

    def record(self, error: str | None, flags: list[str]) -> Record:
        near = HostLimits.here()
        return Record(
            id=self.id,
            kind="transfer",
            started_at=self.started_at,
            command=self.request.command,
            environment=record.environment(near, self.far.limits if self.far else None),
            connect_s=self.connect_s,
            rtt_s=self.far.rtt_s if self.far else None,
            plan=self.plan,
            outcome=self.outcome,
            digests=self._digests(),
            link_stats=self.link_stats,
            error=error,
            flags=flags + self._flags(),
        )

    def _digests(self) -> str | None:
        """The file of digests, if there are any; an empty one goes."""
        if self.digests is None or not self.digests.exists():
            return None
        if not self.digests.stat().st_size:
            self.digests.unlink()
            return None
        return record.printable_command([str(self.digests)])[0]

    def _flags(self) -> list[str]:
        spoilt = self.link_stats is not None and self.link_stats["lateness"]["spoilt"]
        return ["dry-run"] * self.request.dry_run + ["lateness"] * spoilt


def run(request: Request, display: Display, archive: Archive) -> Done:
    """Carries the request out. Never raises HowdahError: what went wrong is in the record."""
    run = _Run(request)
    error, flags, exit_code = None, [], 0
    try:
        _transfer(run, display, archive)
        if run.outcome is not None and run.outcome.left_out:
            error, exit_code = _left_out(run.outcome), 1
    except HowdahError as problem:
        error, exit_code = str(problem), 1
    except interrupt.Interrupted as signal:
        error, flags, exit_code = str(signal), ["interrupted"], 128 + signal.number
    finally:
        display.close()
    made = run.record(error, flags)
    if run.plan is None or request.dry_run:
        return Done(made, None, exit_code, None)
    try:
        return Done(made, archive.save(made), exit_code, None)
    except HowdahError as problem:
        return Done(made, None, exit_code or 1, str(problem))


def _transfer(run: _Run, display: Display, archive: Archive) -> None:
    request = run.request
    _check_sources(request.route)
    handed = plan.load(request.plan_file) if request.plan_file else None
    started, finished = None, False
    try:
        with interrupt.Held():
            started = take(request.route.host, request.far_howdah)
        run.far = hello(started, display.far_says)
        run.connect_s = record.since_process_start_s()
        run.plan = _plan(request, run.far, handed)
        display.planned(run.plan, run.far)
        if not request.dry_run and request.memory_bytes is None:
            run.digests = archive.new_digests(run.id)
        job = _job(request, run.plan, started.far.login.data_address, run.digests)
        started.session.start(msgspec.json.encode(job), msgspec.json.encode(run.plan))
        ask_link = _link_of_a_lab()
        _watch(started, display)
        run.outcome = msgspec.json.decode(started.session.result(), type=Outcome)
        run.link_stats = ask_link()
        finished = True
        standby.leave(started.far.login, request.far_howdah)
    finally:
        if started is not None and not finished:
            started.session.cancel()
            started.session.wait(CANCEL_S)
            started.far.end()


def _left_out(outcome: Outcome) -> str:
    named = len(outcome.left_out)
    count = named + outcome.left_out_more
    what = "1 file or folder" if count == 1 else f"{count:,} files or folders"
    which = f" (the first {named:,} are named)" if outcome.left_out_more else ""
    return f"{what} could not be read and left out{which}; all else is there"


def _link_of_a_lab() -> Callable[[], dict[str, Any] | None]:
    """What asks for the statistics of the lab's link, loaded while the streams begin; null outside a lab."""
    if LAB_LINK_VARIABLE not in os.environ:
        return lambda: None
    from howdah import lab  # noqa: PLC0415

    return lambda: msgspec.to_builtins(lab.stats_here())


def _watch(started: Started, display: Display) -> None:
    while not started.session.wait(TICK_S):
        display.progress(_progress(started))
        display.far_says(started.far.stderr())
    display.progress(_progress(started))
    display.far_says(started.far.stderr())


def _progress(started: Started) -> Progress:
    return msgspec.json.decode(started.session.progress(), type=Progress)


def _plan(request: Request, far: FarHello, handed: Plan | None) -> Plan:
    path = _path(request, far)
    decided = handed or paths.decide(path)
    if not request.encrypt:
        decided = decided.given("encrypt", False, "--plaintext", "Plaintext streams")
    for choice in request.given:
        if choice.key == "congestion_control":
            # Only here: a copy that chooses none does not load it.
            from howdah.transfer import congestion  # noqa: PLC0415

            host = None if request.route.direction == "push" else request.route.host
            sender = congestion.Sender(path.sender, host)
            decided = congestion.given(decided, str(choice.value), sender, dry_run=request.dry_run)
        else:
            decided = decided.given(*choice)
    return decided


def _path(request: Request, far: FarHello) -> paths.Path:
    near = HostLimits.here()
    ends = (near, far.limits) if request.route.direction == "push" else (far.limits, near)
    return paths.Path(
        sender=ends[0],
        receiver=ends[1],
        rtt_s=far.rtt_s,
        rtt_source="unknown" if far.rtt_s is None else "the far kernel, on the ssh connection",
        kind=request.path,
        bytes_total=request.memory_bytes or _size(request.route),
        encrypt=request.encrypt,
    )


def _job(request: Request, decided: Plan, data_address: str | None, digests: Path | None) -> Job:
    route = request.route
    return Job(
        direction=route.direction,
        sources=route.sources,
        destination=route.destination,
        destination_is_folder=route.destination_is_folder,
        memory_bytes=request.memory_bytes,
        dry_run=request.dry_run,
        encrypt=decided.encrypt,
        data_address=data_address,
        digests=os.fsencode(digests) if digests else None,
    )


def _check_sources(route: Route) -> None:
    """Says at once, before ssh has connected, that a source on this host is not there."""
    if route.direction == "push":
        for source in route.sources:
            _looked_at(source)


def _size(route: Route) -> int | None:
    """Bytes to move when that is known without looking far: plain files on this host."""
    if route.direction == "pull":
        return None
    found = [_looked_at(source) for source in route.sources]
    return sum(each.st_size for each in found) if all(stat.S_ISREG(each.st_mode) for each in found) else None


def _looked_at(source: bytes) -> os.stat_result:
    try:
        return os.lstat(source)
    except OSError as error:
        raise HowdahError(
            f"cannot read {printable(source)}: {error.strerror}; check the name and its permissions"
        ) from None
