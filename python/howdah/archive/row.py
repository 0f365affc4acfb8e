"""One record as a row of the table of runs: what it was, on which path, how fast.

Outside a lab a path is its far host; in one it is the link in words, without its delays, so that runs at
several round-trip times lie on one path. Where the queues of a sweep follow the RTT, it names the path. A
dumbbell's link is a path of its own, because others may have been on it.
"""

from hashlib import blake2s
from typing import NamedTuple

import msgspec

from howdah.archive.schema import Row
from howdah.cc.choose import choose
from howdah.values.link import ETHERNET_FRAME_OVERHEAD_BYTES, Burst, Direction, LinkSpec
from howdah.values.record import Record


class _Place(NamedTuple):
    path: str | None
    rtt_s: float | None
    rtt_emulated: bool
    capacity_bps: float | None
    loss: float | None


def row(record: Record) -> Row:
    """The row of a record."""
    outcome, plan = record.outcome, record.plan
    control = outcome.congestion_control if outcome else None
    choice = choose(control, [control]) if control else None
    return Row(
        id=record.id,
        kind=record.kind,
        sweep=record.sweep.name if record.sweep else None,
        repeat=record.sweep.repeat if record.sweep else None,
        congestion_control=choice.control.removeprefix("hd_") if choice else None,
        program=choice.source == "howdah" if choice else None,
        streams=plan.streams if plan else None,
        buffer_bytes=plan.buffer_bytes if plan else None,
        rate_bps=outcome.moving_bps if outcome else None,
        elapsed_s=outcome.elapsed_s if outcome else None,
        bytes=outcome.bytes if outcome else None,
        retransmissions=outcome.retransmissions if outcome else None,
        late="lateness" in record.flags,
        encrypted=outcome.encrypted if outcome else None,
        memory=outcome.bytes > 0 and outcome.files == 0 if outcome else None,
        changed=outcome is not None and outcome.changed,
        **_place(record)._asdict(),
    )


def link_in_words(link: LinkSpec) -> str:
    """A lab's link without its delays and seed: ``lab 10 Gb/s, loss 0.01%``; equal words, equal links."""
    there, back = (_direction_in_words(direction) for direction in link.directions().values())
    words = [there] if there == back else [there, f"back {back}"]
    if link.mtu != 1500:
        words.append(f"MTU {link.mtu}")
    if link.frame_overhead_bytes != ETHERNET_FRAME_OVERHEAD_BYTES:
        words.append(f"frame overhead {link.frame_overhead_bytes} B")
    return f"lab {', '.join(words)}"


def _place(record: Record) -> _Place:
    kept = record.environment.link
    if kept is None:
        return _Place(record.host, _measured_rtt_s(record), False, None, None)
    try:
        link = msgspec.convert(kept, LinkSpec)
    except msgspec.ValidationError:
        return _Place("lab, a link that this version does not know", record.rtt_s, False, None, None)
    ways = list(link.directions().values())
    pulled = record.outcome is not None and record.outcome.direction == "pull"
    data = ways[1] if pulled else ways[0]
    return _Place(
        path=(record.sweep and record.sweep.path) or link_in_words(link) + _among(record),
        rtt_s=sum(way.delay_ns for way in ways) / 1e9,
        rtt_emulated=True,
        capacity_bps=data.rate_bps,
        loss=1 - (1 - data.loss) * (1 - _mean_loss(data.burst)),
    )


def _among(record: Record) -> str:
    """How many hosts share the link: only a dumbbell has cables."""
    cables = record.link_stats and record.link_stats.get("cables")
    return f", shared by {len(cables)} hosts" if cables else ""


def _measured_rtt_s(record: Record) -> float | None:
    if record.rtt_s is not None:
        return record.rtt_s
    streams = record.outcome.streams if record.outcome else []
    return min((stream.rtt_min_s for stream in streams if stream.rtt_min_s is not None), default=None)


def _mean_loss(burst: Burst | None) -> float:
    """Of the chain's stationary distribution; it starts good and stays so where it never enters."""
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
        schedule = msgspec.json.encode(direction.changes)
        words.append(f"changes {blake2s(schedule, digest_size=3).hexdigest()}")
    return ", ".join(words)
