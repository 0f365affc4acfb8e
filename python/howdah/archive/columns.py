"""The columns of the table of runs, each with what it says of a record.

A new column is one row of ``COLUMNS``: an archive that lacks it gets it when it is next opened, filled from
the records that are kept. Analyses see it once ``Runs`` (``runs.py``) has a field of its name.

Outside a lab a path is its far host. In a lab it is the link in words, without its delays, so that runs at
several round-trip times lie on one path. Where the queues of a sweep follow the RTT, the sweep names the
path. A dumbbell's link is a path of its own, because others may have been on it.
"""

from typing import Any, NamedTuple

import msgspec

from howdah import decoding
from howdah.cc import choose
from howdah.values.link import ETHERNET_FRAME_OVERHEAD_BYTES, Burst, Direction, LinkSpec
from howdah.values.record import Record

Value = str | int | float | bool | None

AMONG = ", shared by "
"""What follows the name of a path in a lab that others may have been on."""


class _Place(NamedTuple):
    path: str | None
    rtt_s: float | None
    rtt_emulated: bool
    capacity_bps: float | None
    loss: float | None


class _Run:
    """A record and what is derived from it."""

    def __init__(self, record: Record) -> None:
        self.record, self.plan, self.outcome = record, record.plan, record.outcome
        self.late = "lateness" in record.flags
        self.place = _place(record)
        name = self.outcome.congestion_control if self.outcome else None
        chosen = choose(name, [name]) if name else None
        self.control = chosen.control.removeprefix("hd_") if chosen else None
        self.program = chosen.source == "howdah" if chosen else None
        self.memory = self.outcome.bytes > 0 and self.outcome.files == 0 if self.outcome else None
        self.changed = self.outcome is not None and self.outcome.changed
        self.through_ssh = self.outcome is not None and self.outcome.through_ssh is not None
        self.limited = record.limited is not None
        self.failed = record.error is not None
        held_by = record.carried.held_by if record.carried else None
        self.carried_by_path = None if held_by is None else held_by == "path"
        self.others = record.listened.others if record.listened else None


class Column(NamedTuple):
    """One column of the table of runs."""

    name: str
    kind: type[str] | type[int] | type[float] | type[bool]
    where: str
    """The way to its value, from ``_Run`` on; null where something on the way is."""
    required: bool = False
    """The value is never null."""

    @property
    def sql(self) -> str:
        """The declaration in SQL."""
        kind = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "INTEGER"}[self.kind]
        return f"{self.name} {kind}" + (f" NOT NULL DEFAULT {self.kind()!r}" if self.required else "")


COLUMNS: tuple[Column, ...] = (
    Column("id", str, "record.id"),
    Column("kind", str, "record.kind"),
    Column("sweep", str, "record.sweep.name"),
    Column("repeat", int, "record.sweep.repeat"),
    Column("path", str, "place.path"),
    Column("congestion_control", str, "control"),
    Column("program", bool, "program"),
    Column("streams", int, "plan.streams"),
    Column("buffer_bytes", int, "plan.buffer_bytes"),
    Column("rtt_s", float, "place.rtt_s"),
    Column("rtt_emulated", bool, "place.rtt_emulated"),
    Column("capacity_bps", float, "place.capacity_bps"),
    Column("loss", float, "place.loss"),
    Column("rate_bps", float, "outcome.moving_bps"),
    Column("elapsed_s", float, "outcome.elapsed_s"),
    Column("bytes", int, "outcome.bytes"),
    Column("retransmissions", int, "outcome.retransmissions"),
    Column("late", bool, "late", required=True),
    Column("encrypted", bool, "outcome.encrypted"),
    Column("memory", bool, "memory"),
    Column("changed", bool, "changed", required=True),
    Column("through_ssh", bool, "through_ssh", required=True),
    Column("limited", bool, "limited", required=True),
    Column("direction", str, "outcome.direction"),
    Column("failed", bool, "failed", required=True),
    Column("carried_bps", float, "record.carried.rate_bps"),
    Column("carried_by_path", bool, "carried_by_path"),
    Column("others", bool, "others"),
    Column("address", str, "record.address"),
    Column("near_host", str, "record.near_host"),
)
"""Columns are only ever added, at the end: their number is part of the layout's number (``layout.py``)."""

NAMES: tuple[str, ...] = tuple(column.name for column in COLUMNS)


def row(record: Record) -> dict[str, Value]:
    """The row of a record, by column."""
    run = _Run(record)
    return {column.name: _value(run, column.where) for column in COLUMNS}


def _value(run: _Run, where: str) -> Value:
    found: Any = run
    for name in where.split("."):
        if found is None:
            return None
        found = getattr(found, name)
    value: Value = found
    return value


def link_in_words(link: LinkSpec) -> str:
    """A lab's link without its delays and seed: ``lab 10 Gb/s, loss 0.01%``; equal words, equal links."""
    there, back = (_direction_in_words(direction) for direction in link.directions().values())
    words = [there] if there == back else [there, f"back {back}"]
    if link.mtu != 1500:
        words.append(f"MTU {link.mtu}")
    if link.frame_overhead_bytes != ETHERNET_FRAME_OVERHEAD_BYTES:
        words.append(f"frame overhead {link.frame_overhead_bytes} B")
    return f"lab {', '.join(words)}"


def path_of(host: str | None, origin: str | None = None, link: LinkSpec | None = None) -> str | None:
    """The name of a path that is no sweep's and no dumbbell's, before the first byte."""
    if link is not None:
        return link_in_words(link)
    return host if origin is None else f"{origin} to {host}"


def _place(record: Record) -> _Place:
    kept = record.environment.link
    if kept is None:
        path = path_of(record.host, record.origin)
        return _Place(path, _measured_rtt_s(record), False, None, None)
    try:
        link = decoding.from_plain(kept, LinkSpec)
    except msgspec.ValidationError:
        return _Place("lab, a link that this version does not know", record.rtt_s, False, None, None)
    ways = list(link.directions().values())
    pulled = record.outcome is not None and record.outcome.direction == "pull"
    data = ways[1] if pulled else ways[0]
    return _Place(
        path=(record.sweep and record.sweep.path) or f"{path_of(None, link=link)}{_among(record)}",
        rtt_s=sum(way.delay_ns for way in ways) / 1e9,
        rtt_emulated=True,
        capacity_bps=data.rate_bps,
        loss=1 - (1 - data.loss) * (1 - _mean_loss(data.burst)),
    )


def _among(record: Record) -> str:
    """The number of hosts that share the link: only a dumbbell has cables."""
    cables = record.link_stats and record.link_stats.get("cables")
    return f"{AMONG}{len(cables)} hosts" if cables else ""


def _measured_rtt_s(record: Record) -> float | None:
    if record.rtt_s is not None:
        return record.rtt_s
    streams = record.outcome.streams if record.outcome else []
    return min((stream.rtt_min_s for stream in streams if stream.rtt_min_s is not None), default=None)


def _mean_loss(burst: Burst | None) -> float:
    """The mean loss of the chain in the long run; it starts good and stays so where it never enters."""
    if burst is None or burst.enter == 0:
        return burst.loss_good if burst else 0.0
    bad = burst.enter / (burst.enter + burst.leave)
    return bad * burst.loss_bad + (1 - bad) * burst.loss_good


def _direction_in_words(direction: Direction) -> str:
    words = ["unshaped" if direction.rate_bps is None else f"{direction.rate_bps / 1e9:.12g} Gb/s"]
    if direction.queue_bytes is not None:
        words.append(f"queue {direction.queue_bytes / 1e6:.12g} MB")
    if direction.loss:
        words.append(f"loss {direction.loss * 100:.12g}%")
    if direction.burst is not None:
        words.append(
            "bursts {:.12g} {:.12g} {:.12g} {:.12g}".format(*msgspec.structs.astuple(direction.burst))
        )
    if direction.jitter_ns:
        words.append(f"jitter {direction.jitter_ns / 1e6:g} ms")
    if direction.changes:
        from hashlib import blake2s  # noqa: PLC0415, few labs have any

        schedule = msgspec.json.encode(direction.changes)
        words.append(f"changes {blake2s(schedule, digest_size=3).hexdigest()}")
    return ", ".join(words)
