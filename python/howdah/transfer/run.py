"""The one flow of a transfer: ssh, hello, decide, start, watch, result, record.

Whatever happens, a Record comes out: with an Outcome, or with the error in one line.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from howdah import HowdahError, decide, interrupt
from howdah.archive import Archive
from howdah.remote import standby
from howdah.remote.early import Started, take
from howdah.remote.endpoints import Route
from howdah.remote.far import CANCEL_S, TICK_S, hello
from howdah.remote.lab_link import link_of_a_lab
from howdah.remote.messages import SAMPLE_EVERY_S, FarHello, Job, Progress
from howdah.text import printable
from howdah.transfer.display import Display
from howdah.transfer.pilot import Pilot, Schedule
from howdah.values import plan, record, sizes
from howdah.values.path import ASSUMED_RTT_S, Share
from howdah.values.path import Path as KnownPath
from howdah.values.plan import Plan
from howdah.values.record import HostLimits, Outcome, Record

if TYPE_CHECKING:
    from howdah.control.asking import Asking
    from howdah.steering.listening import Listening
    from howdah.steering.policy import Policy
    from howdah.steering.sources import RttSource


FAIRNESS = 0.5
"""The knob of a copy on a shared path unless it is given: 0, its own rate; 1, fairness to others."""


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
    memory_s: float | None = None
    dry_run: bool = False
    encrypt: bool = True
    path: plan.PathKind = "shared"
    traffic_class: str | None = None
    """Whose share is asked for, on a guaranteed path."""
    plan: Plan | None = None
    """Carried out as it is; null: decided, or read from ``plan_file``."""
    plan_file: Path | None = None
    given: tuple[Given, ...] = ()
    far_howdah: str | None = None
    sample_every_s: float = SAMPLE_EVERY_S
    pilot: Pilot | None = None
    """Changes the streams on their way; null: the plan's schedule does."""
    fairness: float | None = None
    """By which it changes its streams beside those it hears on a shared path (``howdah.steering.shares``);
    null: it does not listen."""
    policy: "Policy | None" = None
    """Chooses in its place; null: howdah's own (``howdah.steering``)."""
    sweep: record.Swept | None = None
    keeps_far_end: bool = True
    """One is made ready for the next copy. Its start would disturb a measurement that follows at once."""

    @property
    def from_memory(self) -> bool:
        """No files at either end."""
        return self.memory_bytes is not None or self.memory_s is not None


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
        self.near_cpu_busy_fraction: float | None = None
        self.asking: Asking | None = None
        self.listening: Listening | None = None

    def record(self, error: str | None, flags: list[str]) -> Record:
        near = HostLimits.here()
        return Record(
            id=self.id,
            kind="transfer",
            started_at=self.started_at,
            command=self.request.command,
            host=self.request.route.host.rpartition("@")[2],
            environment=record.environment(near, self.far.limits if self.far else None),
            connect_s=self.connect_s,
            rtt_s=self.far.rtt_s if self.far else None,
            plan=self.plan,
            outcome=self.outcome,
            share=self.asking.told() if self.asking else None,
            listened=self.listening.to_record() if self.listening else None,
            sweep=self.request.sweep,
            near_cpu_busy_fraction=self.near_cpu_busy_fraction,
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
        with _share(run):
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


@contextlib.contextmanager
def _share(run: _Run) -> Iterator[None]:
    """The share of a guaranteed path for as long as the block lasts; on other paths nothing."""
    request, name = run.request, run.request.traffic_class
    if name is None and request.path != "guaranteed":
        yield
        return
    from howdah.transfer import share_session as asked  # noqa: PLC0415

    _check_sources(request.route)
    if any(choice.key == "congestion_control" for choice in request.given):
        raise HowdahError(
            "--cc: on a guaranteed path a share is held by the rule of this host's agent; leave it out"
        )
    with asked.asking(request.path, name, request.route, look_only=request.dry_run) as run.asking:
        yield


def _transfer(run: _Run, display: Display, archive: Archive) -> None:
    request = run.request
    _check_sources(request.route)
    handed = plan.load(request.plan_file) if request.plan_file else request.plan
    started, ear, finished = None, None, False
    try:
        with interrupt.Held():
            started = take(request.route.host, request.far_howdah)
            # Before the first data, and while ssh connects.
            close_account = link_of_a_lab()
        ear = _early_ear(request, started.far.login.data_address)
        run.far = hello(started, display.far_says)
        run.connect_s = record.since_process_start_s()
        run.plan = _plan(request, run.far, handed, run.asking.share if run.asking else None)
        display.planned(run.plan, run.far)
        if not request.dry_run and not request.from_memory:
            run.digests = archive.new_digests(run.id)
        job = _job(request, run.plan, started.far.login.data_address, run.digests)
        if run.asking and not request.dry_run:
            # Payload comes after the handshakes of TCP and of TLS.
            run.asking.begin((2 if run.plan.encrypt else 1) * (run.far.rtt_s or 0.0))
        processors = record.ProcessorTime.now()
        started.session.start(msgspec.json.encode(job), msgspec.json.encode(run.plan))
        _watch(
            started,
            display,
            _pilot(run, started.far.login.data_address, ear),
            held_port=None if run.asking is None else run.far.port,
        )
        run.outcome = msgspec.json.decode(started.session.result(), type=Outcome)
        run.near_cpu_busy_fraction = processors.busy_fraction()
        run.link_stats = close_account()
        finished = True
        if request.keeps_far_end:
            standby.leave(started.far.login, request.far_howdah)
    finally:
        for listens in (run.listening, ear):
            if listens is not None:
                listens.close()
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


def _watch(started: Started, display: Display, pilot: Pilot, *, held_port: int | None) -> None:
    """Until the session ends; connections to ``held_port`` must be held to a share."""
    while not started.session.wait(TICK_S):
        now = _progress(started)
        display.progress(now)
        display.far_says(started.far.says())
        if (steering := pilot(now)) is not None:
            started.session.steer(msgspec.json.encode(steering))
        if held_port is not None:
            from howdah.transfer import share_session as asked  # noqa: PLC0415

            asked.check_held(held_port)
    display.progress(_progress(started))
    display.far_says(started.far.says(to_end=True))


def _early_ear(request: Request, data_address: str | None) -> "RttSource | None":
    """Hears while ssh connects; None where nobody is to be listened to, or the address is not known yet."""
    if request.pilot is not None or request.fairness is None or request.dry_run or data_address is None:
        return None
    from howdah.steering import sources  # noqa: PLC0415

    ear, why_not = sources.best_source([data_address])
    return ear if why_not is None else None


def _pilot(run: _Run, data_address: str | None, ear: "RttSource | None") -> Pilot:
    """Who changes the streams: whoever the request names, who listens, or the plan's schedule."""
    request, plan, far = run.request, run.plan, run.far
    if plan is None or far is None:
        raise ValueError("there is no plan yet")
    if request.pilot is not None or request.fairness is None or plan.path != "shared" or plan.changes:
        return request.pilot or Schedule(plan)
    # Not loaded by transfers that do not listen.
    from howdah.steering import listening  # noqa: PLC0415

    path = _path(request, far, None)
    window_bytes = plan.buffer_bytes or sizes.windows(path).autotuned_bytes
    run.listening = listening.Listening(
        listening.SteeringRequest(
            plan=plan,
            fairness=request.fairness,
            control_default=path.sender.congestion_control_default,
            controls=tuple(path.sender.congestion_controls_usable),
            streams_fixed=any(choice.key == "streams" for choice in request.given),
            stream_most_bps=sizes.window_rate_bps(1, window_bytes, far.rtt_s or ASSUMED_RTT_S),
            rtt_s=far.rtt_s,
            addresses=[each for each in (data_address, *far.addresses) if each],
            for_s=request.memory_s,
            policy=request.policy,
        ),
        ear,
    )
    return run.listening


def _progress(started: Started) -> Progress:
    return msgspec.json.decode(started.session.progress(), type=Progress)


def _plan(request: Request, far: FarHello, handed: Plan | None, share: Share | None) -> Plan:
    path = _path(request, far, share)
    decided = handed or decide.decide(path)
    if not request.encrypt:
        decided = decided.given("encrypt", False, "--plaintext", "Plaintext streams")
    chosen = None
    for choice in request.given:
        if choice.key == "congestion_control":
            chosen = str(choice.value)
        else:
            decided = decided.given(*choice)
    named = chosen is not None or any(change.congestion_control for change in decided.changes)
    if not named and decided.congestion_control in (None, *path.sender.congestion_controls_available):
        return decided
    # Only here: a copy whose control is there already does not load it.
    from howdah.transfer import congestion  # noqa: PLC0415

    sender = congestion.Sender(path.sender, None if request.route.direction == "push" else request.route.host)
    decided = congestion.scheduled(decided, sender, dry_run=request.dry_run)
    if chosen is None:
        return congestion.brought(decided, sender, dry_run=request.dry_run)
    return congestion.given(decided, chosen, sender, dry_run=request.dry_run)


def _path(request: Request, far: FarHello, share: Share | None) -> KnownPath:
    near = HostLimits.here()
    pushed = request.route.direction == "push"
    ends = (near, far.limits) if pushed else (far.limits, near)
    return KnownPath(
        sender=ends[0],
        receiver=ends[1],
        rtt_s=far.rtt_s,
        rtt_source="unknown" if far.rtt_s is None else "the far kernel, on the ssh connection",
        kind=request.path,
        bytes_total=request.memory_bytes if request.from_memory else _size(request.route),
        encrypt=request.encrypt,
        host=request.route.host.rpartition("@")[2],
        link=record.lab_link(),
        programs_loadable=pushed and near.privileged,
        share=share,
    )


def _job(request: Request, decided: Plan, data_address: str | None, digests: Path | None) -> Job:
    route = request.route
    return Job(
        direction=route.direction,
        sources=route.sources,
        destination=route.destination,
        destination_is_folder=route.destination_is_folder,
        memory_bytes=request.memory_bytes,
        memory_s=request.memory_s,
        dry_run=request.dry_run,
        encrypt=decided.encrypt,
        data_address=data_address,
        digests=os.fsencode(digests) if digests else None,
        sample_every_s=request.sample_every_s,
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
