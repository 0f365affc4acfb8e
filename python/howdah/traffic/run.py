"""The one flow of a run of traffic: its loads from beginning to end, and the record."""

import os
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from howdah import HowdahError, interrupt
from howdah.archive import Archive
from howdah.remote.lab_link import link_of_a_lab
from howdah.text import of_error
from howdah.traffic.account import LoadSample, Traffic
from howdah.traffic.loads import Loads
from howdah.traffic.pattern import Pattern
from howdah.values import record
from howdah.values.record import HostLimits, Record


class TrafficRequest(NamedTuple):
    """The request for one run of traffic."""

    command: list[str]
    pattern: Pattern
    host: str
    far_howdah: str | None = None


class TrafficDisplay:
    """The display of a run of traffic. This one shows nothing."""

    def begins(self) -> None:
        """Shows that all far ends are there; called once."""

    def progress(self, now_s: float, samples: dict[str, LoadSample]) -> None:
        """Shows the last sample of each load; called often."""

    def close(self) -> None:
        """Ends the display."""


class TrafficResult(NamedTuple):
    """The result of a run of traffic."""

    record: Record
    """It is kept unless nothing was begun."""
    archive_error: str | None
    """Why it could not be kept."""
    stopped: BaseException | None
    """What is to be raised again: a stop from outside, or an error that is not of the traffic."""


class _TrafficRun:
    """The state of the run so far; it becomes the record however far the run came."""

    def __init__(self, request: TrafficRequest) -> None:
        self.request = request
        self.started_at = datetime.now(UTC)
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
            near_host=os.uname().nodename,
            environment=record.environment(HostLimits.here(), self.far_limits),
            connect_s=self.connect_s,
            rtt_s=self.rtt_s,
            traffic=msgspec.to_builtins(self.traffic),
            near_cpu_busy_fraction=self.near_cpu_busy_fraction,
            link_stats=self.link_stats,
            error=error,
            flags=flags + ["lateness"] * spoilt,
        )


def run(request: TrafficRequest, display: TrafficDisplay, archive: Archive) -> TrafficResult:
    """Carries the request out. Raises no HowdahError: what went wrong, or stopped it, is in the result."""
    run = _TrafficRun(request)
    error, flags = None, []
    stopped: BaseException | None = None
    try:
        _carry_out(run, display)
    except HowdahError as problem:
        error = str(problem)
    except interrupt.STOPS as stop:
        error, flags, stopped = str(stop) or "interrupted by SIGINT", ["interrupted"], stop
    except BaseException as problem:
        # As of a copy: a bug, or an error of the program whose display it is.
        error, stopped = of_error(problem), problem
    finally:
        display.close()
    made = run.record(error, flags)
    try:
        if run.traffic is not None:
            archive.save(made)
    except HowdahError as problem:
        return TrafficResult(made, str(problem), stopped)
    return TrafficResult(made, None, stopped)


def _carry_out(run: _TrafficRun, display: TrafficDisplay) -> None:
    request = run.request
    with Loads(request.pattern, request.host, request.far_howdah) as loads:
        run.far_limits, run.rtt_s = loads.far_limits, loads.rtt_s
        run.connect_s = record.since_process_start_s()
        display.begins()
        close_account, processors = link_of_a_lab(), record.ProcessorTime.now()
        try:
            loads.begin()
            loads.watch(display.progress)
        finally:
            # A signal now would lose what was measured; it still counts afterwards.
            with interrupt.Held():
                run.traffic = loads.end()
                run.link_stats = close_account()
            run.near_cpu_busy_fraction = processors.busy_fraction()
    if loads.failures:
        raise loads.failures[0]
