"""The results of a probing, as they are kept in a record."""

from typing import Literal

import msgspec

from howdah.values import Count, Seconds

ProbeKind = Literal["icmp", "udp"]


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many of what (Account in crates/probe)."""

    sent: Count = 0
    """The probes that left. Of one that ended early, those on their way are neither answered nor lost."""
    answered: Count = 0
    lost: Count = 0
    late: Count = 0
    """Answers 3 s after their probes and later; these count as lost."""
    doubled: Count = 0
    reordered: Count = 0
    """The probes answered after a later one."""
    foreign: Count = 0
    """The answers to nothing that was sent."""
    skipped: Count = 0
    """The probes that were not sent, because this host came to them too late."""
    unstamped: Count = 0
    """Answers whose arrival the kernel did not tell, or by a clock that was set meanwhile."""


class RouteChange(msgspec.Struct, frozen=True, kw_only=True):
    """The base RTT moved for good."""

    at_s: float
    before_s: float
    after_s: float


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A time without an answer."""

    from_s: float
    until_s: float


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """The burst that active probing sent at one time: one TCP connection or several of one kind."""

    start_s: Seconds
    end_s: Seconds
    """All of it had arrived."""
    congestion_control: str
    bytes: Count
    """Payload that arrived."""


class Others(msgspec.Struct, frozen=True, kw_only=True):
    """The class that was there at the end of a probing, as a model tells it."""

    background: str | None = None
    """The likeliest class, as ``1 bbr, 1 cubic``; null: cannot be told."""
    probability: float | None = None
    """Null where the path is unlike those in the model's training, and no queue says that anybody sends."""
    bbr: float | None = None
    """Probability that there is any BBR."""
    new: bool = False
    """Whether it is like nothing the model was trained on; the class is then the nearest known."""
    heard_s: float | None = None
    """The length of the end of the series that was judged."""
    classes: dict[str, float] = {}
    model: str | None = None
    """Digest of its file."""
    why: str | None = None
    """The reason why it cannot be told."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One probing. Instants count from its begin."""

    way: ProbeKind
    address: str
    elapsed_s: Seconds
    counts: Counts
    base_rtt_s: float
    """The least round trip of the route that there was at the end."""
    base_is_seen: bool
    """False: the path was hardly ever without a queue, and the base RTT may be less."""
    noise_s: float
    """The difference between neighbouring looks where nothing happens."""
    rtt_median_s: float
    rtt_p90_s: float
    rtt_p99_s: float
    rtt_max_s: float
    queue_from_s: float
    """The least queue beyond the base RTT that is told from noise."""
    queue_share: float
    """The share of looks that met a queue: the bottleneck was busy for at least this share of the time."""
    queue_mean_s: float
    queue_p90_s: float
    queue_max_s: float
    route_changes: list[RouteChange] = []
    gaps: list[Gap] = []
    """Longer than 0.25 s."""
    step_s: float
    rtt_s: list[float | None]
    """The round trip of one probe in each step, at a random instant of it; null: lost, or not sent."""
    mean_of_ten_rtt_s: list[float | None]
    """The mean of ten probes 1 ms apart, once a second; null: none was answered."""
    bursts: list[Burst] = []
    """The bursts of active probing; the queue is then also theirs."""
    others: Others | None = None
    """The class of others; null in records of a howdah that told none."""
    notes: list[str] = []
    """The reasons why the figures are worse than they look."""
