"""The link between the two hosts of a lab, and what it did: the values that cross to the emulator.

Rates are bits per second on the wire, sizes bytes, times nanoseconds. What is not given is null.
A frame counts with ``frame_overhead_bytes`` beside its IP packet; 38 is Ethernet's preamble, header,
checksum and gap, so that 1 Gb/s carries 117.6 MB/s of TCP payload at an MTU of 1500.
"""

import re
from typing import Annotated, Literal

import msgspec

from howdah import HowdahError, decoding, document
from howdah._native import check_link
from howdah.arguments import check_within, typed
from howdah.bounds import INTEGER_MOST, Bounds

Whole = Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MOST)]
Share = Annotated[float, msgspec.Meta(ge=0.0)]
"""Which numbers are too large is said in words by Rust (crates/link)."""

ETHERNET_FRAME_OVERHEAD_BYTES = 38


class Burst(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Gilbert–Elliott loss: a chain of two states that steps once for each wire segment."""

    enter: Share
    """Probability of going from good to bad."""
    leave: Share
    """Probability of going from bad to good; 1/leave is the mean length of a burst in segments."""
    loss_good: Share = 0.0
    loss_bad: Share = 1.0


class Change(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A change of one direction ``at_ns`` after the start; a key that is absent stays as it was."""

    at_ns: Whole
    rate_bps: Whole | None = None
    delay_ns: Whole | None = None
    loss: Share | None = None
    burst: Burst | None = None
    drop: Whole | None = None
    """The number of wire segments lost from then on; they count as ``loss``."""
    outage: bool | None = None
    """True: nothing passes and what arrives is dropped; false: that is over."""


class Direction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way across the link."""

    rate_bps: Whole | None = None
    """The rate; null: not shaped."""
    delay_ns: Whole = 0
    jitter_ns: Whole = 0
    """The jitter added to the delay, packet by packet, never reordering."""
    queue_bytes: Whole | None = None
    """The size of the queue; null: one BDP of rate and RTT, 256 MiB where the rate is not shaped."""
    loss: Share = 0.0
    """Probability that a wire segment is lost, each for itself."""
    burst: Burst | None = None
    changes: tuple[Change, ...] = ()


class LinkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole link. The same spec and seed lose the same segments."""

    near_to_far: Direction
    far_to_near: Direction
    mtu: Whole = 1500
    frame_overhead_bytes: Whole = ETHERNET_FRAME_OVERHEAD_BYTES
    seed: Annotated[int, msgspec.Meta(ge=0)] = 1

    def directions(self) -> dict[str, Direction]:
        """Both directions by name, in the order they are shown."""
        return {"near_to_far": self.near_to_far, "far_to_near": self.far_to_near}

    def bdp_bytes_max(self, unshaped_bps: int) -> int:
        """The largest rate × RTT the link ever has, taking ``unshaped_bps`` where it is not shaped."""
        rate_bps, rtt_ns = 0, 0
        for direction in self.directions().values():
            changes = direction.changes
            rates = [direction.rate_bps, *(c.rate_bps for c in changes if c.rate_bps is not None)]
            delays_ns = [direction.delay_ns, *(c.delay_ns for c in changes if c.delay_ns is not None)]
            rate_bps = max(rate_bps, *(unshaped_bps if rate is None else rate for rate in rates))
            rtt_ns += max(delays_ns) + direction.jitter_ns
        return rate_bps * rtt_ns // 8_000_000_000


class Dropped(msgspec.Struct, frozen=True):
    """Wire segments that did not arrive, by cause."""

    queue: int
    loss: int
    burst: int
    outage: int
    machine: int
    """Packets that the machine could not take, which is not the link's doing."""


class DirectionStats(msgspec.Struct, frozen=True):
    """The packets that one direction carried, dropped and queued."""

    segments: int
    wire_bytes: int
    ip_bytes: int
    dropped: Dropped
    queue_bytes_max: int
    """The largest queue since the start of the link; the longest delay counts from there, too."""
    queue_bytes_mean: float | None
    """The mean queue; null before the first byte."""
    queue_delay_max_ns: int
    queue_delay_mean_ns: float | None


class Lateness(msgspec.Struct, frozen=True):
    """How much later than the model asked the machine released packets."""

    releases: int
    p50_ns: int | None
    """The median; null before the first release."""
    p99_ns: int | None
    max_ns: int | None
    late_fraction: float
    """Share of the wire bytes that were released later than ``limit_ns``."""
    limit_ns: int
    spoilt: bool
    """The machine, not the link, may have made the result."""
    why: str | None = None


class CableDrops(msgspec.Struct, frozen=True):
    """Packets that a host's cable dropped; one of up to 64 KB that would be many segments counts once."""

    queue: int
    """Packets lost on the way to the host, in the queue of the router's port."""
    machine: int
    """The drops either way that are not the LAN's doing: the machine could not take the packets."""


class LinkStats(msgspec.Struct, frozen=True):
    """The counts of the link from its start, or from a mark, until now."""

    elapsed_ns: int
    device: str
    directions: dict[Literal["near_to_far", "far_to_near"], DirectionStats]
    lateness: Lateness
    cables: dict[str, CableDrops] | None = None
    """The cables by host; null where the hosts are the ends of the link."""

    def warning(self) -> str | None:
        """One line when the machine spoilt the run, else null."""
        if not self.lateness.spoilt:
            return None
        why = self.lateness.why or f"{self.lateness.late_fraction:.1%} of the bytes left late"
        return f"this machine could not keep up with the link, so do not trust this run: {why}"


@typed
def symmetric(
    rate_bps: int | None,
    rtt_ns: int,
    *,
    queue_bytes: int | None = None,
    loss: float = 0.0,
    mtu: int = 1500,
    seed: int = 1,
) -> LinkSpec:
    """The same both ways, half of ``rtt_ns`` each way. Raises HowdahError on values out of range."""
    whole = {"rate_bps": rate_bps, "rtt_ns": rtt_ns, "queue_bytes": queue_bytes, "mtu": mtu, "seed": seed}
    for name, value in whole.items():
        check_within(
            name, value, Bounds(0, 2**64 - 1), mend="give more" if value and value < 0 else "give less"
        )
    check_within("loss", loss, Bounds(0, 1), mend="give for example 0.001")
    there_ns = rtt_ns // 2
    there, back = (
        Direction(rate_bps=rate_bps, delay_ns=delay_ns, queue_bytes=queue_bytes, loss=loss)
        for delay_ns in (there_ns, rtt_ns - there_ns)
    )
    return checked(LinkSpec(near_to_far=there, far_to_near=back, mtu=mtu, seed=seed))


class BadLink(HowdahError):
    """A link cannot be built because of one of its fields."""

    def __init__(self, place: str, says: str) -> None:
        """``place`` is as ``near_to_far.changes[0].burst.enter``, ``says`` as ``is 2; it must be 0 to 1``."""
        super().__init__(f"link: {place}{says}")
        steps: list[str] = re.findall(r"\w+", place)
        self.way = steps.pop(0) if "." in place else None
        """The direction; None: the field is of both."""
        self.change = int(steps[1]) if len(steps) > 2 else None
        """The change of this direction, from 0, that has the field; None: none."""
        self.field, *part = steps[2:] if len(steps) > 2 else steps
        self.part = part[0] if part else None
        """The part of the field; None: it has none."""
        self.says = says
        """The value and what it must be."""


def checked(link: LinkSpec) -> LinkSpec:
    """``link``, if it can be built. Raises BadLink."""
    try:
        decoding.from_plain(msgspec.to_builtins(link), LinkSpec)
    except msgspec.ValidationError as error:
        place, colon, says = document.in_words(str(error)).removeprefix("key ").partition(": ")
        raise BadLink(place, colon + says) from None
    try:
        check_link(msgspec.json.encode(link))
    except HowdahError as error:
        # The module says ``link: FIELD is VALUE; it must be RANGE``, or that it cannot read the link at all.
        place, is_, says = str(error).partition(" is ")
        if not place.startswith("link: "):
            raise
        raise BadLink(place.removeprefix("link: "), is_ + says) from None
    return link
