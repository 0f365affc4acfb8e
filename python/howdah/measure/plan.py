"""A sweep plan: what is measured, where, how often. ``planfile`` reads one from TOML."""

import hashlib
import itertools
from collections.abc import Iterator

import msgspec

from howdah import HowdahError
from howdah.values.link import LinkSpec

BUFFER_BYTES_MIN = 4096


class Cell(msgspec.Struct, frozen=True, order=True):
    """What the repeats of one measurement have in common."""

    congestion_control: str
    """As users call it."""
    streams: int
    buffer_bytes: int | None
    """Null: autotuned."""
    memory_bytes: int | None
    """One of the two is null."""
    memory_s: float | None
    rtt_ns: int | None
    """Of the lab; null on a host's path."""

    def __str__(self) -> str:
        buffer = "auto" if self.buffer_bytes is None else _exact(self.buffer_bytes)
        amount = f"{self.memory_s:g}s" if self.memory_bytes is None else _exact(self.memory_bytes)
        there = "" if self.rtt_ns is None else f" {self.rtt_ns / 1e6:g}ms"
        return f"{self.congestion_control} {self.streams}x{buffer} {amount}{there}"


class Ranges(msgspec.Struct, frozen=True):
    """All combinations of these."""

    congestion_control: tuple[str, ...]
    streams: tuple[int, ...]
    buffer_bytes: tuple[int | None, ...]
    memory_bytes: tuple[int, ...]
    memory_s: tuple[float, ...]
    rtt_ns: tuple[int, ...]
    """Empty on a host's path."""
    repeats: int

    def cells(self) -> Iterator[Cell]:
        """Each combination once."""
        amounts = [*((size, None) for size in self.memory_bytes), *((None, time) for time in self.memory_s)]
        for control, streams, buffer, amount, rtt_ns in itertools.product(
            self.congestion_control, self.streams, self.buffer_bytes, amounts, self.rtt_ns or (None,)
        ):
            yield Cell(control, streams, buffer, *amount, rtt_ns)


class SweepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole sweep, checked."""

    name: str
    summary: str = ""
    host: str | None = None
    """Null: the labs of ``links``."""
    far_howdah: str | None = None
    links: dict[int, LinkSpec] = {}
    """By RTT in ns."""
    ranges: tuple[Ranges, ...]
    seed: int = 1
    sample_every_s: float = 0.1
    late_again: int = 1
    encrypt: bool = False
    path: str | None = None
    """What the links share when their queues follow the RTT; null: each says it itself."""

    @property
    def id(self) -> str:
        """The name and a digest of what is measured, so that more repeats go on with the same sweep."""
        ranges = [msgspec.structs.replace(each, repeats=0) for each in self.ranges]
        links = [self.links[rtt_ns] for rtt_ns in sorted(self.links)]
        measured = (self.host, links, ranges, self.seed, self.sample_every_s, self.encrypt)
        digest = hashlib.blake2b(msgspec.json.encode(measured), digest_size=4)
        return f"{self.name}-{digest.hexdigest()}"

    def repeats(self) -> dict[Cell, int]:
        """Every cell with how often it is measured. Raises HowdahError for one that is there twice."""
        found: dict[Cell, int] = {}
        names: set[str] = set()
        for ranges in self.ranges:
            for cell in ranges.cells():
                if str(cell) in names:
                    raise HowdahError(f"{self.name}: {cell} is there twice; take one out")
                names.add(str(cell))
                found[cell] = ranges.repeats
        return found

    def controls(self) -> list[str]:
        """The congestion controls, each once, in the order of the plan."""
        return list(dict.fromkeys(name for ranges in self.ranges for name in ranges.congestion_control))


def _exact(size_bytes: int) -> str:
    """A size in the largest decimal unit that is exact, so that two sizes never look alike."""
    for power, unit in ((9, "GB"), (6, "MB"), (3, "kB")):
        if size_bytes % 10**power == 0:
            return f"{size_bytes // 10**power}{unit}"
    return f"{size_bytes}B"
