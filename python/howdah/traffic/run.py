"""The one flow of a run of traffic: far ends, loads, the start, the watch, the end, the record.

Each load runs on a thread of its own, and one more looks how far they are. Signals reach the main thread
alone, because the others are started while they are held; it stops the loads and keeps what there is.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from howdah import HowdahError, interrupt, record
from howdah.archive import Archive
from howdah.measure.controls import had
from howdah.record import HostLimits, Record
from howdah.traffic.account import LoadAccount, LoadSample, Traffic
from howdah.traffic.clock import Clock
from howdah.traffic.far import FarSink
from howdah.traffic.pattern import Pattern, Rbudp, Tcp, Udp
from howdah.traffic.tcp import TcpLoad
from howdah.traffic.udp import UdpLoad, addresses_of
from howdah.transfer.run import link_of_a_lab

LINGER_S = 10.0
"""What is on its way at the end may still arrive, and be sent again, for so long."""

_SAMPLE_S = 1.0
_TICK_S = 0.1


class Request(NamedTuple):
    """One ``howdah traffic`` as it was asked for."""

    command: list[str]
    pattern: Pattern
    host: str
    far_howdah: str | None = None


class Display(Protocol):
    """Where a person watches."""

    def begins(self) -> None:
        """All far ends are there."""

    def progress(self, now_s: float, samples: dict[str, LoadSample]) -> None:
        """Called often; the last sample of each load."""

    def close(self) -> None:
        """Nothing more will come."""


class Done(NamedTuple):
    """How it ended."""

    record: Record
    file: Path | None
    """Where the record is kept; None when nothing was begun."""
    exit_code: int
    archive_error: str | None


class AtWork(Protocol):
    """A load at work. What fails raises HowdahError."""

    name: str

    def run(self, clock: Clock, duration_s: float) -> None:
        """Sends by the pattern, on a thread of its own."""

    def stop(self) -> None:
        """``run`` returns soon."""

    def sample(self, t_s: float) -> LoadSample | None:
        """How far it is; null when that cannot be told now."""

    def settle(self) -> None:
        """Asks for the last counts, once ``run`` has returned."""

    def account(self) -> LoadAccount:
        """What has become of it."""


class _Run:
    """What is known so far; becomes the record however far it came."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.started_at = datetime.now(UTC)
        self.clock = Clock()
        self.loads: list[AtWork] = []
        self.threads: list[threading.Thread] = []
        """One for each load."""
        self.watching: threading.Thread | None = None
        """Looks how far they are."""
        self.samples: dict[str, LoadSample] = {}
        self.failures: list[HowdahError] = []
        self.over = threading.Event()
        self.far_limits: HostLimits | None = None
        self.rtt_s: float | None = None
        self.connect_s: float | None = None
        self.traffic: Traffic | None = None
        self.link_stats: dict[str, Any] | None = None
        self.near_cpu_busy_fraction: float | None = None

    def record(self, error: str | None, flags: list[str]) -> Record:
        spoilt = self.link_stats is not None and self.link_stats["lateness"]["spoilt"]
        return Record(
            id=record.new_id(self.started_at),
            kind="traffic",
            started_at=self.started_at,
            command=self.request.command,
            host=self.request.host.rpartition("@")[2],
            environment=record.environment(HostLimits.here(), self.far_limits),
            connect_s=self.connect_s,
            rtt_s=self.rtt_s,
            traffic=msgspec.to_builtins(self.traffic),
            near_cpu_busy_fraction=self.near_cpu_busy_fraction,
            link_stats=self.link_stats,
            error=error,
            flags=flags + ["lateness"] * spoilt,
        )


def run(request: Request, display: Display, archive: Archive) -> Done:
    """Carries the request out. Never raises HowdahError: what went wrong is in the record."""
    run = _Run(request)
    error, flags, exit_code = None, [], 0
    try:
        _carry_out(run, display)
    except HowdahError as problem:
        error, exit_code = str(problem), 1
    except interrupt.Interrupted as signal:
        error, flags, exit_code = str(signal), ["interrupted"], 128 + signal.number
    finally:
        display.close()
    made = run.record(error, flags)
    if run.traffic is None:
        return Done(made, None, exit_code, None)
    try:
        return Done(made, archive.save(made), exit_code, None)
    except HowdahError as problem:
        return Done(made, None, exit_code or 1, str(problem))


def _carry_out(run: _Run, display: Display) -> None:
    with ExitStack() as ends:
        controls = ends.enter_context(had(run.request.pattern.controls()))
        far = _open(run, controls, ends)
        run.connect_s = record.since_process_start_s()
        display.begins()
        close_account, processors = link_of_a_lab(), record.ProcessorTime.now()
        try:
            _start(run)
            _watch(run, display)
        finally:
            # A signal now would lose what was measured; it still counts afterwards.
            with interrupt.Held():
                _end(run, far)
                run.link_stats = close_account()
            run.near_cpu_busy_fraction = processors.busy_fraction()
    if run.failures:
        raise run.failures[0]


def _open(run: _Run, controls: dict[str, str], ends: ExitStack) -> FarSink | None:
    """Has every load ready to begin; the far end of those over UDP."""
    request = run.request
    far, addresses = None, list[str]()
    if any(isinstance(load, Udp | Rbudp) for load in request.pattern.loads):
        with interrupt.Held():
            far = FarSink(request.host, request.far_howdah)
            ends.callback(far.close)
        hello = far.hello()
        run.far_limits = hello.limits
        addresses = addresses_of(request.host, [far.data_address, hello.address])
    # What waits for its time must not outlive a failure of the next.
    ends.callback(_settle_waiting, run)
    for place, load in enumerate(request.pattern.loads):
        if isinstance(load, Tcp):
            run.loads.append(_tcp(run, load, controls))
        elif far is not None:
            run.loads.append(UdpLoad(load, place, far, addresses))
    return far


def _settle_waiting(run: _Run) -> None:
    for load in run.loads:
        if isinstance(load, TcpLoad):
            load.settle()


def _tcp(run: _Run, load: Tcp, controls: dict[str, str]) -> TcpLoad:
    named = load.congestion_control
    made = TcpLoad(load, controls[named] if named else None, run.request.host, run.request.far_howdah)
    run.far_limits, run.rtt_s = made.far_limits, made.rtt_s
    return made


def _start(run: _Run) -> None:
    duration_s = run.request.pattern.duration_s
    for load in run.loads:
        work = partial(load.run, run.clock, duration_s)
        run.threads.append(threading.Thread(target=_guarded(run, work), name=load.name))
    run.watching = threading.Thread(target=_guarded(run, partial(_sample, run)), name="samples")
    with interrupt.Held():
        run.clock.begin()
        for thread in [*run.threads, run.watching]:
            thread.start()


def _guarded(run: _Run, work: Callable[[], None]) -> Callable[[], None]:
    """What a thread does: the first failure of any ends the run."""

    def guarded() -> None:
        try:
            work()
        except HowdahError as error:
            run.failures.append(error)
            run.clock.stop()
        except BaseException as error:
            run.failures.append(HowdahError(f"a mistake of ours in the traffic, {error!r}"))
            run.clock.stop()
            raise

    return guarded


def _sample(run: _Run) -> None:
    number = 1
    while run.clock.wait_until(number * _SAMPLE_S) and not run.over.is_set():
        for load in run.loads:
            made = load.sample(run.clock.now_s())
            if made is not None:
                run.samples[load.name] = made
        number = int(run.clock.now_s() / _SAMPLE_S) + 1


def _watch(run: _Run, display: Display) -> None:
    until_s = run.request.pattern.duration_s + LINGER_S
    for thread in run.threads:
        while thread.is_alive() and not run.clock.stopped:
            thread.join(_TICK_S)
            display.progress(run.clock.now_s(), dict(run.samples))
            if run.clock.now_s() > until_s:
                return


def _end(run: _Run, far: FarSink | None) -> None:
    """Stops what still runs and takes the account."""
    if far is not None and any(thread.is_alive() for thread in run.threads):
        far.hurry()
    run.over.set()
    run.clock.stop()
    for load in run.loads:
        load.stop()
    for thread in [*run.threads, run.watching]:
        if thread is not None and thread.ident is not None:
            thread.join()
    elapsed_s = run.clock.now_s()
    for load in run.loads:
        try:
            load.settle()
        except HowdahError as error:
            run.failures.append(error)
    run.traffic = Traffic(
        pattern=run.request.pattern,
        elapsed_s=elapsed_s,
        loads=[load.account() for load in run.loads],
    )
