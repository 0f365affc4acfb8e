"""A copy whose connection to the far end was lost: when it begins again, and what its sessions come to.

A data connection that breaks is the session's own affair (crates/transfer). Here is what remains: ssh, the
far end or its host has gone. The next session skips files that are in place, and goes on in parts of others.
"""

import math
from typing import NamedTuple

import msgspec

from howdah.remote.messages import Progress
from howdah.values.outcome import Outcome, Removal

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 10.0
_LASTS_S = 10.0
"""A session that moved bytes and lasted so long begins the patience anew: one that fails at once does not."""
_UNSEEN_S = 1.0
"""The longest time before its loss of which a session's last report may not tell."""

LEAST_UNANSWERED_S = 15.0
"""Whatever the patience is, a path may bring nothing for so long (crates/transfer, reachability.rs)."""


def unanswered(host: str, silent_s: float, patience_s: float) -> str:
    """``no answer from dtn2 for 12 s; trying again for another 4 min 48 s``"""
    left_s = max(patience_s, LEAST_UNANSWERED_S) - silent_s
    return f"no answer from {host} for {_clock(round(silent_s))}; {for_another(left_s)}"


def for_another(left_s: float) -> str:
    """``trying again for another 9 s``, which is 0 s only at the end."""
    return f"trying again for another {_clock(math.ceil(max(0.0, left_s)))}"


def _clock(duration_s: int) -> str:
    minutes, seconds = divmod(duration_s, 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


class Patience:
    """How long a copy has gone without a new byte, and how long it pauses before the next session."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since_s: float | None = None
        self._pause_s = _FIRST_PAUSE_S

    def lost(self, began_s: float, moved_s: float | None, now_s: float) -> None:
        """Notes that a session has ended, when it began, and when it moved its last byte, if it moved any."""
        if moved_s is not None and moved_s - began_s >= _LASTS_S:
            self._since_s, self._pause_s = moved_s, _FIRST_PAUSE_S
        if self._since_s is None:
            self._since_s = now_s

    def left_s(self, now_s: float) -> float:
        """The seconds left; 0 when it is time to give up."""
        since_s = now_s if self._since_s is None else self._since_s
        return max(0.0, self._patience_s - (now_s - since_s))

    def pause_s(self) -> float:
        """The next pause; each is twice as long as the one before."""
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return pause_s


class _There(NamedTuple):
    """What a target had before a copy moved anything."""

    files_skipped: int = 0
    bytes_skipped: int = 0
    bytes_resumed: int = 0

    @classmethod
    def of(cls, session: Progress | Outcome) -> "_There":
        """What a session has found there. After a lost session that includes what the copy moved itself."""
        return cls(session.files_skipped, session.bytes_skipped, session.bytes_resumed)

    @property
    def bytes(self) -> int:
        return self.bytes_skipped + self.bytes_resumed


class _Known(NamedTuple):
    """How much a copy is known to move in all; None: nothing is known yet."""

    files: int | None = None
    bytes: int | None = None


class _Own(NamedTuple):
    """What the lost sessions of a copy have moved, and a later one found; holes too."""

    files: int
    bytes: int


class Earlier:
    """What the sessions before this one have done.

    What a session finds at the target beyond what was found before is the copy's own work, up to what its
    lost sessions can have moved. What they moved and the target lost counts once, when it is sent again.
    """

    def __init__(self) -> None:
        self.restarts = 0
        self._there = _There()
        self._bytes = self._files = self._replaced = self._outages = self._retransmissions = 0
        self._removed = self._holes = 0
        self._known = _Known()
        self._most = _Own(0, 0)
        self._outage_s = 0.0

    def add(self, last: Progress, unanswered_s: float) -> None:
        """Adds a session as it was last seen, and the seconds without one that follow it."""
        there, _ = self._found(_There.of(last))
        self._known = self._in_all(last, there)
        # It may have been lost before it had found all.
        self._there = max(there, self._there, key=lambda each: each.bytes)
        self.restarts += 1
        self._bytes += last.bytes_done
        self._holes += last.hole_bytes
        self._files += last.files_done
        self._removed += last.removed
        unseen = 1.0 + _UNSEEN_S / max(last.elapsed_s, _UNSEEN_S)
        files, moved = self._most
        self._most = _Own(
            files + math.ceil(last.files_done * unseen), moved + math.ceil(last.bytes_placed * unseen)
        )
        self._replaced += last.connections_replaced
        self._retransmissions += last.retransmissions
        self._outages += last.outages
        self._outage_s += last.outage_s + unanswered_s

    def and_now(self, now: Progress, elapsed_s: float) -> Progress:
        """The progress of all, ``elapsed_s`` after the first began."""
        if not self.restarts:
            return now
        there, own = self._found(_There.of(now))
        known = self._in_all(now, there)
        sent, holes = self._parted(own)
        total = None if known.bytes is None else max(0, known.bytes - holes)
        return msgspec.structs.replace(
            now,
            elapsed_s=elapsed_s,
            bytes_done=_up_to(total, max(self._bytes, sent) + now.bytes_done),
            bytes_total=total,
            hole_bytes=holes + now.hole_bytes,
            files_done=_up_to(known.files, max(self._files, own.files) + now.files_done),
            files_total=known.files,
            **there._asdict(),
            removed=self._removed + now.removed,
            connections_replaced=self._replaced + now.connections_replaced,
            outages=self._outages + now.outages,
            outage_s=self._outage_s + now.outage_s,
            retransmissions=self._retransmissions + now.retransmissions,
        )

    def and_last(self, last: Outcome, before_s: float) -> Outcome:
        """The outcome of all, of which the last session began ``before_s`` after the first."""
        if not self.restarts:
            return last
        there, own = self._found(_There.of(last))
        sent, holes = self._parted(own)
        moving_s = last.moving_s
        if moving_s is not None and last.setup_s is not None:
            moving_s += before_s
        samples = [msgspec.structs.replace(each, t_s=each.t_s + before_s) for each in last.samples]
        return msgspec.structs.replace(
            last,
            bytes=sent + last.bytes,
            hole_bytes=holes + last.hole_bytes,
            files=own.files + last.files,
            **there._asdict(),
            removal=self._all_removed(last.removal),
            elapsed_s=before_s + last.elapsed_s,
            moving_s=moving_s,
            connections_replaced=self._replaced + last.connections_replaced,
            outages=self._outages + last.outages,
            outage_s=self._outage_s + last.outage_s,
            restarts=self.restarts,
            samples=samples,
            changes=[msgspec.structs.replace(each, t_s=each.t_s + before_s) for each in last.changes],
        )

    def _parted(self, own: _Own) -> tuple[int, int]:
        """What of that was sent, and what are holes, in bytes: no more than the sessions have told of.

        Holes of a file that was not whole are told again, so that they are no session's but the last one's.
        """
        sent = min(own.bytes, max(self._bytes, own.bytes - self._holes))
        return sent, own.bytes - sent

    def _all_removed(self, last: Removal | None) -> Removal | None:
        """What the last session removed, and those before it."""
        if last is None or not self._removed:
            return last
        extraneous, removed = last.extraneous + self._removed, last.removed + self._removed
        return msgspec.structs.replace(last, extraneous=extraneous, removed=removed)

    def _in_all(self, now: Progress, there: _There) -> _Known:
        """What the copy is to move, as far as a session knows that has found ``there`` so far."""
        files, sent = now.files_total, now.bytes_total
        if files is not None:
            files += now.files_skipped - max(there.files_skipped, self._there.files_skipped)
        if sent is not None:
            sent += _There.of(now).bytes - max(there.bytes, self._there.bytes)
        if now.scan_complete:
            return _Known(files, sent)
        # A session before may have come further in the tree.
        return _Known(_larger(files, self._known.files), _larger(sent, self._known.bytes))

    def _found(self, found: _There) -> tuple[_There, _Own]:
        """Parts what a session has found into what was there before the copy, and what the copy moved."""
        beyond = _Own(found.files_skipped - self._there.files_skipped, found.bytes - self._there.bytes)
        # Where the bytes may all be its own, so may the files: its last reports told of fewer.
        files = beyond.files if 0 < self._most.bytes >= beyond.bytes else min(self._most.files, beyond.files)
        own = _Own(max(0, files), max(0, min(self._most.bytes, beyond.bytes)))
        files_before, bytes_before = found.files_skipped - own.files, found.bytes - own.bytes
        if not self._most.bytes:
            resumed = found.bytes_resumed
        elif files_before > self._there.files_skipped:
            resumed = min(self._there.bytes_resumed, bytes_before)
        else:
            # No other file was there: what is left was in parts.
            resumed = max(0, bytes_before - self._there.bytes_skipped)
        return _There(files_before, bytes_before - resumed, resumed), own


def _larger(one: int | None, other: int | None) -> int | None:
    return one if other is None or (one is not None and one > other) else other


def _up_to(known: int | None, done: int) -> int:
    """What is done, without what was moved twice because the target had lost it."""
    return done if known is None else min(done, known)
