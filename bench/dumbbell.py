"""Labs of many hosts against what they must reach: ``make bench-dumbbell``.

What routers and cables cost is measured beside a pair of hosts on the same link, in the same run. Rows whose
run was spoilt by this machine say so.
"""

import contextlib
import statistics
import subprocess
import sys
import time

from bench.carrying import PORT, ROOT, echoes_ns, probe, received, serving, wire_bps
from bench.link import GB, MS, Run, describe, spoilt
from bench.report import Row, Target, publish
from howdah import lab
from howdah.lab.topology import Topology
from howdah.values.link import LinkSpec, LinkStats

SHAPES = {"a pair": lab.PAIR, "routers": lab.dumbbell(1, 1)}
SENDERS = 50
CABLES_BPS = (GB // 10, GB)
SETTLE_S, SPAN_S = 5.0, 5.0
FULL = 98.0
"""Per cent of the link's rate."""


def up() -> tuple[list[Row], list[Run]]:
    """Fifty senders and a receiver, each with a cable of its own rate and a server."""
    link = lab.symmetric(GB, 180 * MS)
    begin_s = time.monotonic()
    with lab.started(link, lab.dumbbell(SENDERS, 1, lan_rate_bps=GB), sshd=True) as star:
        took_s = time.monotonic() - begin_s
        begin_s = time.monotonic()
        stats = star.stats()
        asked_s = time.monotonic() - begin_s
    what = f"{SENDERS} senders to one, each with a server"
    rows = [
        Row(f"{what}: until all are up", took_s, "s", Target.at_most(3)),
        Row(f"{what}: until statistics are there", asked_s, "s", Target.at_most(0.1)),
    ]
    return rows, [describe(what, link, stats, took_s=took_s, asked_s=asked_s)]


def idle() -> tuple[list[Row], list[Run]]:
    """The round trip of an idle link."""
    link = lab.symmetric(GB, 20 * MS)
    what = "RTT of an idle link at 20 ms"
    medians_ms, runs = {}, []
    for name, topology in SHAPES.items():
        with lab.started(link, topology) as wan:
            ends = topology.left[0], topology.right[0]
            round_trips_ns = echoes_ns(wan, 500, 0.01, source=ends[0], to=ends[1], after_s=0.5)
            runs.append(describe(f"{what}, {name}", link, wan.stats(), round_trips_ns=round_trips_ns))
        medians_ms[name] = statistics.median(round_trips_ns) / MS
    more_ms = medians_ms["routers"] - medians_ms["a pair"]
    # As much as an idle link itself may be late by (bench/link.py).
    return [Row(f"{what}: routers' share of the median", more_ms, "ms", Target.at_most(0.1))], runs


def fast() -> tuple[list[Row], list[Run]]:
    """One CUBIC stream at 10 Gb/s × 20 ms."""
    link = lab.symmetric(10 * GB, 20 * MS)
    what = "one CUBIC stream, 10 Gb/s × 20 ms"
    rates_bps, rows, runs = {}, [], []
    for name, topology in SHAPES.items():
        with lab.started(link, topology) as wan:
            source, sink = topology.left[0], topology.right[0]
            rates_bps[name] = wire_bps(received(wan, 3.0, SPAN_S, source=source, sink=sink))
            stats = wan.stats()
        rows.append(Row(f"{what}, {name}", rates_bps[name] / GB, "Gb/s on the wire", None, spoilt(stats)))
        runs.append(describe(f"{what}, {name}", link, stats, seen_bps=rates_bps[name]))
    share = 100 * rates_bps["routers"] / rates_bps["a pair"]
    return [*rows, Row(f"{what}: routers beside a pair", share, "%", Target.at_least(90))], runs


def cable(rate_bps: int) -> tuple[list[Row], list[Run]]:
    """A cable's rate, where the link has much more."""
    link = lab.symmetric(5 * GB, 10 * MS)
    with lab.started(link, lab.dumbbell(1, 1, lan_rate_bps=rate_bps)) as wan:
        seen_bps = wire_bps(received(wan, 2.0, SPAN_S, source="left1", sink="right1"))
        stats = wan.stats()
    what = f"cable of {rate_bps / 1_000_000:g} Mb/s, error"
    error = 100 * (seen_bps / rate_bps - 1)
    row = Row(what, error, "%", Target.within(-1, 1, "± 1"), spoilt(stats))
    return [row], [describe(what, link, stats, seen_bps=seen_bps)]


def shared(name: str, link: LinkSpec, topology: Topology) -> tuple[list[Row], list[Run]]:
    """One CUBIC stream from each host on the left: the link full, and full of nothing but its own doing."""
    with contextlib.ExitStack() as stack:
        wan = stack.enter_context(lab.started(link, topology))
        for place, source in enumerate(topology.left):
            sink = topology.right[place % len(topology.right)]
            stack.enter_context(serving(wan, "sink", PORT + place, 0, 60, host=sink))
            argv = probe("source", wan.addresses[sink], PORT + place, 60)
            sending = stack.enter_context(wan.popen(source, argv, cwd=ROOT, stdout=subprocess.DEVNULL))
            stack.callback(sending.kill)
        time.sleep(SETTLE_S)
        begun = wan.stats()
        time.sleep(SPAN_S)
        stats = wan.stats()
    rate_bps = carried_bps(begun, stats)
    dropped = sum(each.queue + each.machine for each in (stats.cables or {}).values())
    full = 100 * rate_bps / (link.near_to_far.rate_bps or 1)
    rows = [
        Row(f"{name}: of the link's rate", full, "%", Target.within(FULL, 100.5), spoilt(stats)),
        Row(f"{name}: packets dropped on cables", dropped, "packets", Target.at_most(0, "0")),
        Row(
            f"{name}: bytes later than {stats.lateness.limit_ns / MS:g} ms",
            100 * stats.lateness.late_fraction,
            "%",
            Target.at_most(1.0, "≤ 1"),
        ),
    ]
    return rows, [describe(name, link, stats, rate_bps=rate_bps)]


def carried_bps(begun: LinkStats, ended: LinkStats) -> float:
    """What the link delivered near to far from one instant to another."""
    wire_bytes = [stats.directions["near_to_far"].wire_bytes for stats in (begun, ended)]
    return (wire_bytes[1] - wire_bytes[0]) * 8e9 / (ended.elapsed_ns - begun.elapsed_ns)


def main() -> int:
    """Measures all rows."""
    queue_bytes = 6_000_000
    results = [
        up(),
        idle(),
        fast(),
        *map(cable, CABLES_BPS),
        shared(
            "8 pairs of the OPS paper's Overlay-1, 500 Mb/s × 128 ms",
            lab.symmetric(GB // 2, 128 * MS, queue_bytes=queue_bytes),
            lab.dumbbell(8, 8, lan_rate_bps=GB),
        ),
        shared(
            "8 pairs of the OPS paper's Overlay-2, 1 Gb/s × 128 ms",
            lab.symmetric(GB, 128 * MS, queue_bytes=queue_bytes),
            lab.dumbbell(8, 8, lan_rate_bps=10 * GB),
        ),
        shared(
            "4 senders to one, 1 Gb/s × 20 ms",
            lab.symmetric(GB, 20 * MS),
            lab.dumbbell(4, 1, lan_rate_bps=GB),
        ),
    ]
    rows = [row for found, _ in results for row in found]
    return 0 if publish("dumbbell", rows, [run for _, runs in results for run in runs]) else 1


if __name__ == "__main__":
    sys.exit(main())
