"""How a running copy stands, as others than its terminal are told: ``howdah jobs``, metrics, the log."""

import os
import time
from datetime import datetime
from typing import Literal

import msgspec

from howdah.remote.endpoints import written
from howdah.remote.messages import FarHello, Progress
from howdah.remote.meter import Meter
from howdah.text import printable
from howdah.transfer.display import Display
from howdah.transfer.request import Request
from howdah.transfer.valve import Valve
from howdah.values.bottleneck import Share
from howdah.values.plan import Plan
from howdah.values.verification import Counts

State = Literal[
    "connecting", "scanning", "moving", "paused", "waiting", "finishing", "verifying", "done", "failed"
]
WAITED_S = 1.0
"""What was waited for so long ago is not waited for any more."""


class Standing(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A copy at one instant."""

    job: str
    """The name of the copy for ``howdah limit`` and the like: the end of the id of its record."""
    record: str
    """The whole id."""
    pid: int
    started_at: datetime
    from_: list[str]
    to: str
    state: State
    waiting_for: str | None = None
    """What it waits for, in words."""
    bytes_done: int = 0
    bytes_total: int | None = None
    """The bytes known so far; null: none is known yet."""
    files_done: int = 0
    files_total: int | None = None
    rate_bps: float | None = None
    """Over the last second; null before two looks."""
    streams: int = 0
    retransmissions: int = 0
    limit: str = "none"
    """The limit as ``--limit`` takes it."""
    limit_bps: int | None = None
    """What counts of it at this hour; null: no limit."""
    shares: list[Share] = []
    """What the time of the streams went into so far, the most first; empty until that is known."""


class Watched(Display):
    """What is seen of one copy, from its own thread; told to any other."""

    def __init__(self, request: Request, record: str, started_at: datetime, valve: Valve) -> None:
        route = request.route
        here = route.direction == "push" and route.origin is None
        side = route.origin or (None if here else route.host)
        sources = [_place(side, source) for source in route.sources] or ["memory"]
        target = _place(route.host if route.direction == "push" else None, route.destination)
        self._valve = valve
        self._base = Standing(
            job=record.rpartition("-")[2],
            record=record,
            pid=os.getpid(),
            started_at=started_at,
            from_=sources,
            to=target,
            state="connecting",
        )
        self._meter = Meter()
        self._now: Progress | None = None
        self._rate_bps: float | None = None
        self._waits: tuple[float, str] | None = None
        self._verifies = False
        self._encrypts = True
        self._pipe = bool(route.pipe) and here
        self._ended: State | None = None

    def now(self) -> Standing:
        """How it stands."""
        now, limits = self._now, self._valve.limits
        made = msgspec.structs.replace(
            self._base, limit=limits.in_words(), limit_bps=limits.now_bps(), state=self._state()
        )
        waits = self._waits
        waits_now = waits is not None and time.monotonic() - waits[0] < WAITED_S
        if waits is not None and waits_now and made.state not in {"paused", "done", "failed"}:
            made = msgspec.structs.replace(made, state="waiting", waiting_for=printable(waits[1]))
        if now is None:
            return made
        return msgspec.structs.replace(
            made,
            bytes_done=now.bytes_done,
            bytes_total=now.bytes_total,
            files_done=now.files_done,
            files_total=now.files_total,
            rate_bps=0.0 if made.state in {"paused", "done", "failed"} else self._rate_bps,
            streams=now.streams,
            retransmissions=now.retransmissions,
            shares=self._shares(now),
        )

    def _shares(self, now: Progress) -> list[Share]:
        # Loaded when somebody asks how a copy stands.
        from howdah.values.attribution import Asked, of_progress  # noqa: PLC0415

        # Until the first file is there, what is known of all of them.
        size, files = (
            (now.bytes_done, now.files_done) if now.files_done else (now.bytes_total, now.files_total)
        )
        mean_bytes = size / files if size and files else 0.0
        asked = Asked(pipe=self._pipe)
        return of_progress(now.sender, now.receiver, asked, encrypted=self._encrypts, mean_bytes=mean_bytes)

    def _state(self) -> State:
        if self._ended is not None:
            return self._ended
        if self._verifies:
            return "verifying"
        phase = "connecting" if self._now is None else self._now.phase
        if phase == "failed":
            # Its session alone: another one may go on.
            return "waiting"
        return "paused" if self._valve.paused and phase != "done" else phase

    def planned(self, decided: Plan, far: FarHello) -> None:
        """Sees whether it encrypts."""
        self._encrypts = decided.encrypt

    def progress(self, now: Progress) -> None:
        """Sees how far it is."""
        self._meter.add(now)
        self._now, self._rate_bps = now, self._meter.now_bps()

    def rereading(self, files: int, now: Counts) -> None:
        """Sees that it reads what was copied again."""
        self._verifies = True

    def waiting(self, text: str) -> None:
        """Sees what it waits for. A pause is a state of its own, and over as soon as it is."""
        if not self._valve.paused:
            self._waits = time.monotonic(), text

    def ended(self, *, failed: bool) -> None:
        """Sees the end."""
        self._ended = "failed" if failed else "done"


def _place(host: str | None, path: bytes) -> str:
    text = printable(path)
    return text if host is None else f"{written(host)}:{text}"
