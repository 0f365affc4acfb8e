"""A sweep plan: what is measured, where, how often.

A person writes it in TOML: every value has its unit, and a list may be one value. For example::

    name = "dtn2-streams"
    host = "dtn2"                  # or [lab]
    repeats = 3
    seed = 1                       # of the order, and of a lab's losses
    sample_every = "100ms"         # 10ms to 10s
    late_again = 1                 # a run the lab was late for is made again at most so often; all are kept
    encrypt = false                # no data of anybody's is sent

    [lab]                          # one emulated link for each RTT, as howdah lab run takes them
    rate = "10Gbit"
    rtt = ["11.8ms", "91.6ms"]
    queue_least = "32MB"           # one bandwidth-delay product, but at least so much; or queue = "…"
    # loss, burst_loss, jitter, mtu, frame_overhead

    [[runs]]                       # all combinations; more such tables add theirs
    congestion_control = ["cubic", "htcp"]
    streams = [1, 4, 10]
    buffer = ["auto", "256MB"]     # SO_SNDBUF and SO_RCVBUF of each stream
    time = "10s"                   # or size = ["1GB", "20GB"]
    rtt = ["91.6ms"]               # only there; absent: everywhere
    repeats = 2                    # absent: as above

Without [lab] and with a host, the path to it is measured.
"""

import hashlib
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from howdah import HowdahError, tomlfile
from howdah._native import format_bytes, parse_bytes
from howdah.archive.columns import link_in_words
from howdah.lab import labfile
from howdah.remote.endpoints import bare
from howdah.tomlfile import Duration, Rate, Several, Size
from howdah.values.link import LinkSpec
from howdah.values.plan import BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, STREAMS_MAX


class SweepCell(msgspec.Struct, frozen=True, order=True):
    """A cell of a sweep: all that the repeats of one measurement have in common."""

    congestion_control: str
    """The congestion control as users call it."""
    streams: int
    buffer_bytes: int | None
    """The buffer of each stream; null: autotuned."""
    memory_bytes: int | None
    """The size of a run; null where ``memory_s`` is its time."""
    memory_s: float | None
    rtt_ns: int | None
    """The RTT of the lab; null on a host's path."""

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
    """The RTTs of labs; empty on a host's path."""
    repeats: int

    def runs(self) -> int:
        """How many runs that is."""
        amounts = len(self.memory_bytes) + len(self.memory_s)
        listed = (self.congestion_control, self.streams, self.buffer_bytes, self.rtt_ns or (None,))
        return math.prod(map(len, listed)) * amounts * self.repeats

    def cells(self) -> Iterator[SweepCell]:
        """Each combination once."""
        amounts = [*((size, None) for size in self.memory_bytes), *((None, time) for time in self.memory_s)]
        for control, streams, buffer, amount, rtt_ns in itertools.product(
            self.congestion_control, self.streams, self.buffer_bytes, amounts, self.rtt_ns or (None,)
        ):
            yield SweepCell(control, streams, buffer, *amount, rtt_ns)


class SweepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole sweep, checked."""

    name: str
    summary: str = ""
    host: str | None = None
    """The far host; null: the labs of ``links``."""
    far_howdah: str | None = None
    links: dict[int, LinkSpec] = {}
    """The links of labs, by RTT in ns."""
    ranges: tuple[Ranges, ...]
    seed: int = 1
    sample_every_s: float = 0.1
    late_again: int = 1
    encrypt: bool = False
    path: str | None = None
    """The part that the links share where their queues follow the RTT; null: they share nothing."""

    @property
    def id(self) -> str:
        """The name and a digest of what is measured, so that more repeats go on with the same sweep."""
        ranges = [msgspec.structs.replace(each, repeats=0) for each in self.ranges]
        links = [self.links[rtt_ns] for rtt_ns in sorted(self.links)]
        measured = (self.host, links, ranges, self.seed, self.sample_every_s, self.encrypt)
        digest = hashlib.blake2b(msgspec.json.encode(measured), digest_size=4)
        return f"{self.name}-{digest.hexdigest()}"

    def repeats(self) -> dict[SweepCell, int]:
        """Every cell with how often it is measured. Raises HowdahError for one that is there twice."""
        found: dict[SweepCell, int] = {}
        names: set[str] = set()
        for ranges in self.ranges:
            for cell in ranges.cells():
                if str(cell) in names:
                    raise HowdahError(f"{self.name}: {cell} is listed twice; remove one")
                names.add(str(cell))
                found[cell] = ranges.repeats
        return found

    def controls(self) -> list[str]:
        """The congestion controls, each once, in the order of the plan."""
        return list(dict.fromkeys(name for ranges in self.ranges for name in ranges.congestion_control))


def _exact(size_bytes: int) -> str:
    """A size in the largest unit in which it is whole, so that two sizes never look alike."""
    for unit_bytes, unit in ((10**9, "GB"), (10**6, "MB"), (2**30, "GiB"), (2**20, "MiB"), (10**3, "kB")):
        if size_bytes % unit_bytes == 0:
            return f"{size_bytes // unit_bytes}{unit}"
    return f"{size_bytes}B"


SEE = "see: howdah sweep --help"

RUNS_MAX = 100_000
"""The most runs of a sweep: of 10 s each, they take some twelve days."""
Repeats = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Streams = Annotated[int, msgspec.Meta(ge=1, le=STREAMS_MAX)]


def _buffer_bytes(text: str) -> int:
    """The size of a buffer, 0 where it is ``auto``. Raises HowdahError."""
    if text == "auto":
        return 0
    size = parse_bytes(text)
    if not BUFFER_BYTES_MIN <= size <= BUFFER_BYTES_MAX:
        least, most = format_bytes(BUFFER_BYTES_MIN), format_bytes(BUFFER_BYTES_MAX)
        raise HowdahError(f"{text}: kernels take {least} to {most}; give one of these sizes, or auto")
    return size


class _BufferSize(Size):
    number = staticmethod(_buffer_bytes)


class _RunsTable(msgspec.Struct, forbid_unknown_fields=True):
    congestion_control: Several[str]
    streams: Several[Streams]
    buffer: Several[_BufferSize] = Several([_BufferSize(0)])
    time: Several[Duration] = Several()
    size: Several[Size] = Several()
    rtt: Several[Duration] = Several()
    repeats: Repeats | None = None

    def __post_init__(self) -> None:
        if not self.time and not self.size:
            raise ValueError('neither time nor size; add time = "10s"')
        if 0 in self.time or 0 in self.size:
            raise ValueError("a time or size of 0 measures nothing")


class _SweepLabTable(msgspec.Struct, forbid_unknown_fields=True):
    rtt: Several[Duration]
    rate: Rate
    queue: str | None = None
    queue_least: Size | None = None
    loss: str | None = None
    burst_loss: str | None = None
    jitter: str | None = None
    mtu: int | None = None
    frame_overhead: str | None = None

    def __post_init__(self) -> None:
        if self.queue is not None and self.queue_least is not None:
            raise ValueError("give queue or queue_least, not both")


class _SweepTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    runs: list[_RunsTable]
    summary: str = ""
    host: str | None = None
    far_howdah: str | None = None
    lab: _SweepLabTable | None = None
    repeats: Repeats = 1
    seed: Annotated[int, msgspec.Meta(ge=0)] = 1
    sample_every: Duration = Duration(100_000_000)
    late_again: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    encrypt: bool = False


def load_plan(file: Path) -> SweepPlan:
    """The plan in ``file``. Raises HowdahError saying the file, the key and what to do."""
    return parse_plan(tomlfile.read(file, SEE), str(file))


def parse_plan(text: str, where: str) -> SweepPlan:
    """The plan in a text of TOML. Raises HowdahError as ``load_plan`` does."""
    given = tomlfile.loads(text, where, _SweepTable, SEE)
    if (given.host is None) == (given.lab is None):
        raise HowdahError(f'{where}: give either host = "NAME" or a table [lab]; {SEE}')
    links = _links(given.lab, given.seed, f"{where}: lab") if given.lab else {}
    plan = SweepPlan(
        name=tomlfile.name(given.name, f"{where}: name"),
        summary=" ".join(given.summary.split()),
        host=None if given.host is None else bare(given.host),
        far_howdah=given.far_howdah,
        links=links,
        ranges=tuple(
            _ranges(each, given.repeats, links, f"{where}: runs {number}")
            for number, each in enumerate(given.runs, start=1)
        ),
        seed=given.seed,
        sample_every_s=given.sample_every.seconds_within(0.01, 10.0, f"{where}: sample_every"),
        late_again=given.late_again,
        encrypt=given.encrypt,
        path=_path(given.lab, links) if given.lab else None,
    )
    runs = sum(ranges.runs() for ranges in plan.ranges)
    if runs > RUNS_MAX:
        raise HowdahError(
            f"{where}: {runs:,} runs; a sweep has at most {RUNS_MAX:,}; lower repeats, or list fewer values"
        )
    if not plan.repeats():
        raise HowdahError(f"{where} measures nothing; add a table [[runs]]; {SEE}")
    return plan


def _links(lab: _SweepLabTable, seed: int, where: str) -> dict[int, LinkSpec]:
    links = {}
    least_bytes = lab.queue_least or 0
    same = {key: getattr(lab, key) for key in ("loss", "burst_loss", "jitter", "mtu", "frame_overhead")}
    for rtt in lab.rtt:
        queue = f"{int(least_bytes)}B" if lab.rate * rtt / 8e9 < least_bytes else lab.queue
        options = labfile.LabOptions(rate=str(lab.rate), rtt=str(rtt), queue=queue, seed=seed, **same)
        try:
            links[int(rtt)] = labfile.link(options)
        except HowdahError as error:
            raise HowdahError(f"{where}: {str(error).removeprefix('--')}") from None
    return links


def _path(lab: _SweepLabTable, links: dict[int, LinkSpec]) -> str | None:
    """The links in words, which are one path where their queues follow the RTT; None where they do not."""
    if lab.queue_least:
        queue = f", queue at least {lab.queue_least}"
    elif lab.queue is not None and labfile.BDP in lab.queue:
        products = [each.removesuffix(labfile.BDP) for each in lab.queue.split(",")]
        # One product is what a lab has that is told nothing.
        queue = "" if all(_is_one(each) for each in products) else f", queue {lab.queue}"
    else:
        return None
    link = next(iter(links.values()))
    unqueued = {
        name: msgspec.structs.replace(each, queue_bytes=None) for name, each in link.directions().items()
    }
    return f"{link_in_words(msgspec.structs.replace(link, **unqueued))}{queue}"


def _is_one(number: str) -> bool:
    try:
        return float(number) == 1
    except ValueError:
        return False


def _ranges(given: _RunsTable, repeats: int, links: dict[int, LinkSpec], where: str) -> Ranges:
    for rtt in given.rtt:
        if rtt not in links:
            raise HowdahError(f"{where}: rtt {rtt} is not one of the lab's; add it to rtt of [lab]")
    return Ranges(
        tuple(given.congestion_control),
        tuple(given.streams),
        tuple(int(size) or None for size in given.buffer),
        tuple(map(int, given.size)),
        tuple(time.seconds for time in given.time),
        tuple(map(int, given.rtt)) or tuple(links),
        given.repeats or repeats,
    )
