"""What copies were acknowledged to carry on a path, and what of that the next copy there may use.

A path is a far host, a direction and a route. Two copies are on one route where their base round trips are
alike and, where both know it, the far host's address is the same.

Reference: Careful Resume, RFC 9959. A capacity is what was acknowledged in a round trip, and is used again
only at a round trip of half to ten times the one it was measured at. At most half of it is sent at once. How
long it may be used is left to the implementation: here it is ``LIFETIME_S``.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec

from howdah.values import Count

Direction = Literal["push", "pull"]

RTT_LEAST, RTT_MOST = 0.5, 10.0
"""The round trips, in those of the capacity, at which RFC 9959 lets it be used."""

ROUTE_SPREAD, ROUTE_SPREAD_S = 0.25, 1e-3
"""How much round trips of one route differ. It is less than RFC 9959 allows: before a copy the least of some
nine round trips of ssh is known, which a queue or a busy host hardly lengthens."""

LIFETIME_S = 7 * 86400.0
"""What was measured longer ago is told and not used: archives are copied every day, or every week."""

OTHERS_S = 3600.0
"""The time within which competing traffic that was recognised may be there again."""

NEWEST = 19
"""The copies that count for the interval. With so many alike, the next one lies between the least and the
most of them with (n − 1) / (n + 1) = 90 %, whatever the distribution."""

JUMP_SHARE = 0.5
"""The part of a capacity that is sent at once, where others may have come since: RFC 9959 allows no more."""


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """What one copy was acknowledged to carry while nothing had to be sent again."""

    rate_bps: float
    """The most over a span of some round trips, one second at least."""
    rtt_s: float | None = None
    """The base RTT that its streams saw."""
    held_by: Literal["path", "hosts"]
    """What it was in that span that let it be no faster: the path, or a disk, a processor or a buffer."""


class PastCopy(NamedTuple):
    """A copy of the archive, as far as it says what its path carries."""

    age_s: float
    rtt_s: float
    rate_bps: float
    by_path: bool
    """Whether the path, and not a host, limited it."""
    others: bool | None
    """Whether competing traffic was recognised; None: nobody measured that."""
    address: str | None


class Resume(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the streams of a copy send at once, by howdah's ``hd_resume`` (Careful Resume)."""

    capacity_bytes: Annotated[int, msgspec.Meta(ge=1)]
    """What was acknowledged in a round trip, of all streams together."""
    rtt_s: Annotated[float, msgspec.Meta(gt=0)]
    """The base RTT at which it was."""
    part: Annotated[float, msgspec.Meta(gt=0, le=1)]
    """The part of it that is sent at once."""

    @property
    def jump_bytes(self) -> int:
        """The bytes that are sent at once."""
        return round(self.capacity_bytes * self.part)


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of sending at once, counted by the program in the kernel."""

    connections: Count
    """The streams that knew the capacity."""
    jumps: Count
    """How many of them sent their part at once."""
    validated: Count
    """How many saw all of it acknowledged without a loss."""
    retreats: Count
    """How many saw a loss and took back what they had sent more."""
    other_paths: Count
    """How many did not send it, because their round trip was that of another route."""
    jumped_bytes: Count
    validated_bytes: Count
    refused: str | None = None
    """The reason why nothing was sent at once after all; null: the kernel was told."""


class PathMemory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the archive remembers of one path."""

    path: str
    """The far host, or a lab's link in words, as the archive calls it."""
    direction: Direction
    address: str | None = None
    """The far host's own address, as the newest of its copies had it; null: not known."""
    rtt_s: float
    """The least base RTT of its copies."""
    rate_low_bps: float
    rate_mid_bps: float
    """The median; with the least and the most of the newest ``NEWEST`` copies."""
    rate_high_bps: float
    latest_bps: float
    """What the newest copy carried."""
    at_least: bool
    """Whether hosts limited all of those copies, so that the path may carry more."""
    copies: int
    age_s: float
    """The age of the newest copy."""
    others_age_s: float | None = None
    """The age of the newest copy beside which competing traffic was recognised; null: none was."""
    others_latest: bool = False
    """Whether that was the newest of the copies that measured competing traffic."""
    same_route: bool
    """Whether the round trip and the address are those of now."""

    @property
    def capacity_bytes(self) -> int:
        """The bytes of a round trip that may be counted on: a newest copy that had less counts at once."""
        return round(min(self.rate_mid_bps, self.latest_bps) / 8 * self.rtt_s)

    @property
    def copies_in_words(self) -> str:
        """``41 copies``."""
        return f"{self.copies:,} {'copy' if self.copies == 1 else 'copies'}"

    def why_not(self) -> str | None:
        """The reason why nothing of it may be sent at once; None: it may."""
        if not self.same_route:
            return "the round trip or the address is that of another route"
        if self.age_s > LIFETIME_S:
            return f"it is older than {LIFETIME_S / 86400:.0f} days"
        if self.others_age_s is not None and (self.others_latest or self.others_age_s < OTHERS_S):
            return f"competing traffic was recognised here {ago(self.others_age_s)}"
        return None


def recall(
    path: str, direction: Direction, copies: Sequence[PastCopy], rtt_s: float | None, address: str | None
) -> PathMemory | None:
    """What copies, the newest first, say of the route with this round trip; without any, of another route.

    None: there are no copies.
    """
    here = [each for each in copies if rtt_s is not None and _same_route(each, rtt_s, address)]
    alike = here or [each for each in copies if _same_route(each, copies[0].rtt_s, copies[0].address)]
    if not alike:
        return None
    by_path = [each for each in alike if each.by_path]
    counted = by_path or alike
    rates = sorted(each.rate_bps for each in counted[:NEWEST])
    listened = [each for each in alike if each.others is not None]
    beside = [each for each in listened if each.others]
    return PathMemory(
        path=path,
        direction=direction,
        address=next((each.address for each in counted if each.address is not None), None),
        rtt_s=min(each.rtt_s for each in counted[:NEWEST]),
        rate_low_bps=rates[0],
        rate_mid_bps=(rates[(len(rates) - 1) // 2] + rates[len(rates) // 2]) / 2,
        rate_high_bps=rates[-1],
        latest_bps=counted[0].rate_bps,
        at_least=not by_path,
        copies=len(counted),
        age_s=counted[0].age_s,
        others_age_s=beside[0].age_s if beside else None,
        others_latest=bool(beside) and beside[0] is listened[0],
        same_route=bool(here),
    )


def ago(age_s: float) -> str:
    """``3 h ago``."""
    for unit_s, unit, plural in ((86400, "day", "days"), (3600, "h", "h"), (60, "min", "min")):
        if age_s >= unit_s:
            number = int(age_s / unit_s)
            return f"{number} {unit if number == 1 else plural} ago"
    return f"{max(0, int(age_s))} s ago"


def _same_route(copy: PastCopy, rtt_s: float, address: str | None) -> bool:
    if None not in (copy.address, address) and copy.address != address:
        return False
    alike = abs(rtt_s - copy.rtt_s) <= ROUTE_SPREAD * copy.rtt_s + ROUTE_SPREAD_S
    return alike and RTT_LEAST * copy.rtt_s <= rtt_s <= RTT_MOST * copy.rtt_s
