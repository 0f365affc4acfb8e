"""Who leads: one candidate's view, without time, bus or randomness of its own.

A record on the bus names the holder. The holder renews it, and counts its term from before it sent the
renewal; another candidate takes the record only after having seen it unchanged for longer than a term.
Both sides allow for clocks that run apart, so no two terms overlap whatever the delays.

Source: Gray and Cheriton, Leases (SOSP 1989). Here the clock of the server has no part: a record is taken
by its revision (compare and swap), and each side uses its own clock alone.

A store may lose all it had (a NATS server that lost its disk), though never go back to an older state.
Then the record is missing while its holder still leads, so a missing record is waited for as long as one
that was seen; and a reply counts only on the connection on which it was asked for.
"""

from typing import NamedTuple

import msgspec

DRIFT = 0.01
"""By how much a clock may run fast or slow; some hundred times what real ones do."""
_LOOKS_PER_TERM = 5


class Record(msgspec.Struct, frozen=True):
    """What the bus holds of an election."""

    epoch: int
    """Of this term; every later one has a larger one."""
    holder: str | None
    """Null: the term was given back."""
    ttl_ns: int
    beat: int
    """How often it was renewed."""


class Claim(NamedTuple):
    """A record to write where the revision is still ``expected`` (0: none)."""

    record: Record
    expected: int


class _Sight(NamedTuple):
    record: Record | None
    revision: int
    connection: int


class _Attempt(NamedTuple):
    record: Record
    connection: int
    sent_ns: int


class Election:
    """A candidate. All times are of one clock of its own that counts while the host sleeps."""

    def __init__(self, me: str, ttl_ns: int, *, forgets: bool) -> None:
        """``me`` names nobody else, ever; ``forgets``: the store may be lost as a whole."""
        self._me = me
        self._ttl_ns = ttl_ns
        self._forgets = forgets
        self._above = 0
        self._epoch: int | None = None
        self._until_ns = 0
        self._sight: _Sight | None = None
        self._since_ns = 0
        self._attempt: _Attempt | None = None

    def epoch(self, now_ns: int) -> int | None:
        """Of the term that this candidate holds now; null: it does not lead."""
        return self._epoch if now_ns < self._until_ns else None

    @property
    def until_ns(self) -> int:
        """When the term ends that it holds or held last."""
        return self._until_ns

    def above(self, epoch: int) -> None:
        """Later terms get a larger epoch than this, whatever the record says."""
        self._above = max(self._above, epoch)

    def look(
        self, record: Record | None, revision: int, connection: int, now_ns: int, wall_ms: int
    ) -> Claim | None:
        """Takes in what the bus holds (revision 0: nothing), and says what to write now, if anything.

        ``wall_ms``, since 1970, keeps epochs growing where the record is lost.
        """
        if record:
            self.above(record.epoch)
        if self._attempt and record == self._attempt.record:
            self._succeeded(connection)
        self._attempt = None
        if self.epoch(now_ns) is not None and record and self._is_mine(record):
            self._sight = None
            return Claim(msgspec.structs.replace(record, beat=record.beat + 1), revision)
        self._epoch = None
        sight = _Sight(record, revision, connection)
        if sight != self._sight:
            self._sight, self._since_ns = sight, now_ns
        if now_ns < self._since_ns + self._wait_ns(record):
            return None
        epoch = max(self._above, wall_ms) + 1
        return Claim(Record(epoch, self._me, self._ttl_ns, 0), revision)

    def sending(self, claim: Claim, connection: int, now_ns: int) -> None:
        """To be called before a claim is sent; ``connection`` is the one its look was made on."""
        self._attempt = _Attempt(claim.record, connection, now_ns)

    def written(self, connection: int) -> None:
        """What was sent has been done; ``connection`` is the one there is now."""
        self._succeeded(connection)
        self._attempt = None

    def give_back(self, record: Record, revision: int, now_ns: int) -> Claim | None:
        """Ends the term, and says what to write so that others need not wait; null: nothing."""
        mine = self.epoch(now_ns) is not None and self._is_mine(record)
        self._epoch = None
        return Claim(msgspec.structs.replace(record, holder=None), revision) if mine else None

    def pause_ns(self, now_ns: int) -> int:
        """How long until the next look."""
        pause_ns = self._ttl_ns // _LOOKS_PER_TERM
        if self._sight and self.epoch(now_ns) is None:
            due_ns = self._since_ns + self._wait_ns(self._sight.record) - now_ns
            return min(pause_ns, due_ns) if due_ns > 0 else pause_ns
        return pause_ns

    def _is_mine(self, record: Record) -> bool:
        return (record.holder, record.epoch) == (self._me, self._epoch)

    def _wait_ns(self, record: Record | None) -> int:
        if record is None:
            return round(self._ttl_ns * (1 + DRIFT)) if self._forgets else 0
        return 0 if record.holder is None else round(record.ttl_ns * (1 + DRIFT))

    def _succeeded(self, connection: int) -> None:
        attempt = self._attempt
        if attempt and attempt.connection == connection:
            self._epoch = attempt.record.epoch
            # The record may be lost before the next look, and the wall clock be set back.
            self.above(self._epoch)
            self._until_ns = attempt.sent_ns + round(self._ttl_ns * (1 - DRIFT))
