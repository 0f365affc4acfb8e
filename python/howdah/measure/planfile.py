"""A sweep plan as a person writes it, in TOML: every value has its unit, and a list may be one value.

For example::

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

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from howdah import HowdahError, tomlfile
from howdah._native import format_bytes, parse_bytes, parse_duration, parse_rate
from howdah.archive.columns import link_in_words
from howdah.lab import linkfile
from howdah.measure.plan import BUFFER_BYTES_MIN, Ranges, SweepPlan
from howdah.values.link import LinkSpec
from howdah.values.plan import BUFFER_BYTES_MAX, STREAMS_MAX

SEE = "see: howdah sweep --help"

Positive = Annotated[int, msgspec.Meta(ge=1)]
Texts = str | list[str]


class _RunsText(msgspec.Struct, forbid_unknown_fields=True):
    congestion_control: Texts
    streams: Positive | list[Positive]
    buffer: Texts = "auto"
    time: Texts = []
    size: Texts = []
    rtt: Texts = []
    repeats: Positive | None = None


class _LabText(msgspec.Struct, forbid_unknown_fields=True):
    rtt: Texts
    rate: str
    queue: str | None = None
    queue_least: str | None = None
    loss: str | None = None
    burst_loss: str | None = None
    jitter: str | None = None
    mtu: int | None = None
    frame_overhead: str | None = None


class _PlanText(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    runs: list[_RunsText]
    summary: str = ""
    host: str | None = None
    far_howdah: str | None = None
    lab: _LabText | None = None
    repeats: Positive = 1
    seed: Annotated[int, msgspec.Meta(ge=0)] = 1
    sample_every: str = "100ms"
    late_again: Annotated[int, msgspec.Meta(ge=0)] = 1
    encrypt: bool = False


def load(file: Path) -> SweepPlan:
    """The plan in ``file``. Raises HowdahError saying the file, the key and what to do."""
    return loads(tomlfile.read(file, SEE), str(file))


def loads(text: str, where: str) -> SweepPlan:
    """A plan from TOML, as ``load``."""
    table = tomlfile.table(text, where, SEE)
    given = tomlfile.convert(table, _PlanText, f"{where} is not a sweep plan", SEE)
    if (given.host is None) == (given.lab is None):
        raise HowdahError(f'{where}: give either host = "NAME" or a table [lab]; {SEE}')
    links = _links(given.lab, given.seed, where) if given.lab else {}
    plan = SweepPlan(
        name=tomlfile.name(given.name, f"{where}: name"),
        summary=" ".join(given.summary.split()),
        host=given.host,
        far_howdah=given.far_howdah,
        links=links,
        ranges=tuple(
            _ranges(each, given.repeats, links, f"{where}: runs {number}")
            for number, each in enumerate(given.runs, start=1)
        ),
        seed=given.seed,
        sample_every_s=_duration_s(given.sample_every, f"{where}: sample_every"),
        late_again=given.late_again,
        encrypt=given.encrypt,
        path=_path(given.lab, links) if given.lab and given.lab.queue_least else None,
    )
    if not 0.01 <= plan.sample_every_s <= 10:
        raise HowdahError(f"{where}: sample_every {given.sample_every} is not within 10ms to 10s")
    if not plan.repeats():
        raise HowdahError(f"{where} measures nothing; add a table [[runs]]; {SEE}")
    return plan


def _links(lab: _LabText, seed: int, where: str) -> dict[int, LinkSpec]:
    links = {}
    if lab.queue is not None and lab.queue_least is not None:
        raise HowdahError(f"{where}: lab: give queue or queue_least, not both")
    rate_bps = tomlfile.value(parse_rate, lab.rate, f"{where}: lab: rate")
    least = tomlfile.value(parse_bytes, lab.queue_least or "0B", f"{where}: lab: queue_least")
    apart = {"rtt", "queue", "queue_least"}
    options = {key: getattr(lab, key) for key in _LabText.__struct_fields__ if key not in apart}
    for text in _several(lab.rtt):
        rtt_ns = tomlfile.value(parse_duration, text, f"{where}: lab: rtt")
        queue = lab.queue
        if rate_bps * rtt_ns / 8e9 < least:
            queue = f"{least}B"
        try:
            links[rtt_ns] = linkfile.build(linkfile.Options(**options, queue=queue, rtt=text, seed=seed))
        except HowdahError as error:
            raise HowdahError(f"{where}: lab: {error}") from None
    return links


def _path(lab: _LabText, links: dict[int, LinkSpec]) -> str:
    """The links in words, but for the queues."""
    link = next(iter(links.values()))
    ways = {name: msgspec.structs.replace(way, queue_bytes=None) for name, way in link.directions().items()}
    return f"{link_in_words(msgspec.structs.replace(link, **ways))}, queue at least {lab.queue_least}"


def _ranges(given: _RunsText, repeats: int, links: dict[int, LinkSpec], where: str) -> Ranges:
    rtts = tuple(tomlfile.value(parse_duration, text, f"{where}: rtt") for text in _several(given.rtt))
    for rtt_ns in rtts:
        if rtt_ns not in links:
            raise HowdahError(f"{where}: rtt {rtt_ns / 1e6:g}ms is none of the lab's; add it to rtt of [lab]")
    streams = given.streams if isinstance(given.streams, list) else [given.streams]
    if max(streams, default=0) > STREAMS_MAX:
        raise HowdahError(f"{where}: {max(streams)} streams are too many; give 1 to {STREAMS_MAX}")
    ranges = Ranges(
        tuple(_several(given.congestion_control)),
        tuple(streams),
        tuple(_buffer(text, where) for text in _several(given.buffer)),
        tuple(tomlfile.value(parse_bytes, text, f"{where}: size") for text in _several(given.size)),
        tuple(_duration_s(text, f"{where}: time") for text in _several(given.time)),
        rtts or tuple(links),
        given.repeats or repeats,
    )
    if not ranges.memory_bytes and not ranges.memory_s:
        raise HowdahError(f'{where}: neither time nor size; add time = "10s"')
    if 0 in ranges.memory_bytes or 0.0 in ranges.memory_s:
        raise HowdahError(f"{where}: a time or size of 0 measures nothing")
    return ranges


def _buffer(text: str, where: str) -> int | None:
    if text == "auto":
        return None
    size = tomlfile.value(parse_bytes, text, f"{where}: buffer")
    if not BUFFER_BYTES_MIN <= size <= BUFFER_BYTES_MAX:
        raise HowdahError(
            f"{where}: buffer {text}: a kernel takes {format_bytes(BUFFER_BYTES_MIN)} to "
            f"{format_bytes(BUFFER_BYTES_MAX)}, or auto"
        )
    return size


def _several(value: Texts) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


def _duration_s(text: str, where: str) -> float:
    return tomlfile.value(parse_duration, text, where) / 1e9
