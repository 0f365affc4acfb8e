"""The valve of one copy: its limits and pauses, changed from outside while it runs, and what they did.

Calls come from the thread of the copy and from that which serves ``howdah jobs``.
"""

import threading
import time
from typing import NamedTuple

import msgspec

from howdah.remote.messages import Limit, Progress
from howdah.values.limit import Limited, Limits

LIMITED_SHARE = 0.85
"""A limit slowed a copy that moved so much of what the limit lets through."""

LOOK_MOST_S = 2.0
"""The longest time between two looks that is accounted for; they come every 0.1 s."""


class _Seen(NamedTuple):
    """A copy as it was looked at last."""

    at_s: float
    bytes_done: int
    most_bps: int | None
    paused: bool
    moving: bool


class Valve:
    """The limits of a copy and whether it is paused, in force from the next look on, some 0.1 s later."""

    def __init__(self, limits: Limits | None) -> None:
        self._lock = threading.Lock()
        self._limits = limits or Limits()
        self._paused = False
        self._changes = 0
        self._told: Limit | None = None
        self._seen: _Seen | None = None
        self._limited_s = self._paused_s = self._let_bytes = self._moved_bytes = 0.0

    @property
    def limits(self) -> Limits:
        """Those that were given last."""
        return self._limits

    @property
    def paused(self) -> bool:
        """Whether nothing is sent."""
        return self._paused

    @property
    def applies(self) -> bool:
        """Whether the copy sends less than it would: what it gets then says nothing of the path."""
        return self._paused or self._limits.now_bps() is not None

    def presume(self, limits: Limits) -> None:
        """Has limits count that nobody gave for this copy, unless somebody has meanwhile."""
        with self._lock:
            self._limits = self._limits if self._changes else limits

    def limit(self, limits: Limits) -> None:
        """Has other limits count."""
        with self._lock:
            self._limits = limits
            self._changes += 1

    def pause(self, *, paused: bool) -> bool:
        """Pauses the copy, or lets it go on; whether that is news."""
        with self._lock:
            news = self._paused is not paused
            self._paused = paused
            self._changes += news
            return news

    def begin(self) -> Limit:
        """What a session begins with."""
        self._told = self._now()
        return self._told

    def news(self) -> Limit | None:
        """What the session is to be told; None: it knows."""
        now = self._now()
        if now == self._told:
            return None
        self._told = now
        return now

    def look(self, now: Progress) -> None:
        """Accounts for the time since the last look, by what was in force then."""
        at_s, before = time.monotonic(), self._seen
        told = self._told or Limit()
        self._seen = _Seen(at_s, now.bytes_done, told.most_bps, told.paused, now.phase == "moving")
        if before is None:
            return
        for_s = at_s - before.at_s
        if for_s > LOOK_MOST_S:
            # This program was stopped itself, as by Ctrl-Z.
            return
        if before.paused:
            self._paused_s += for_s
        elif before.moving and before.most_bps is not None:
            self._limited_s += for_s
            self._let_bytes += for_s * before.most_bps / 8
            self._moved_bytes += max(0, now.bytes_done - before.bytes_done)

    def to_record(self) -> Limited | None:
        """What it did; None where nobody asked for anything."""
        if not self._limits.spans and not self._changes:
            return None
        made = Limited(
            limit=self._limits.in_words(),
            most_bps=self._limits.now_bps(),
            limited_s=self._limited_s,
            paused_s=self._paused_s,
            changes=self._changes,
        )
        if not self._limited_s:
            return made
        slowed = self._moved_bytes >= LIMITED_SHARE * self._let_bytes
        return msgspec.structs.replace(made, held="held" if slowed else "slower")

    def _now(self) -> Limit:
        with self._lock:
            return Limit(most_bps=self._limits.now_bps(), paused=self._paused)
