"""The emulated link against what it must reach: ``make bench-link``.

Each row is measured once, through real Linux TCP, UDP or ICMP between the two hosts of a lab, by
counters that are not the emulator's own. Rows whose run was spoilt by this machine say so.
"""

import argparse
import itertools
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from bench import memory
from bench.carrying import echoes_ns, output, received, thrown, wire_bps
from bench.link_figures import draw
from bench.report import Row, Target, publish
from howdah import lab
from howdah.values.link import LinkSpec, LinkStats

GB = 1_000_000_000
MS = 1_000_000
RTTS_MS = (0.4, 11.8, 100.0, 366.0)
RATES_BPS = (10_000_000, 100_000_000, GB, 5 * GB)
LOSSES = (1e-4, 1e-3, 1e-2)
Z_99 = 2.5758
Run = dict[str, Any]


def describe(what: str, link: LinkSpec, stats: LinkStats, **measured: object) -> Run:
    """A run as the result file keeps it."""
    return {
        "what": what,
        "link": msgspec.to_builtins(link),
        "stats": msgspec.to_builtins(stats),
        **measured,
    }


def spoilt(stats: LinkStats) -> str:
    return f"spoilt: {stats.lateness.why}" if stats.lateness.spoilt else ""


def iperf3(wan: lab.Lab, span_s: int, streams: int, omit_s: int = 0) -> dict[str, Any]:
    """One transfer near to far; iperf3's own report."""
    with wan.popen("far", ["iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE) as server:
        output(server).readline()
        argv = ["iperf3", "-c", wan.far_address, "-J", "-t", span_s, "-O", omit_s, "-P", streams, "-i", "0.5"]
        result = wan.run("near", [str(word) for word in argv], capture_output=True, timeout=span_s + 120)
        server.wait(timeout=30)
    report: dict[str, Any] = json.loads(result.stdout)
    if "error" in report:
        raise SystemExit(f"iperf3: {report['error']}")
    return report


def one_stream(rate_bps: int | None, name: str, target: Target) -> tuple[list[Row], list[Run]]:
    """Goodput of one CUBIC stream at 20 ms, its first three seconds left out."""
    link = lab.symmetric(rate_bps, 20 * MS)
    with lab.started(link) as wan:
        report = iperf3(wan, 10, 1, omit_s=3)
        stats = wan.stats()
    end = report["end"]
    goodput_bps = end["sum_received"]["bits_per_second"]
    trace = [
        {"t_s": i["sum"]["end"], "goodput_bps": i["sum"]["bits_per_second"]} for i in report["intervals"]
    ]
    what = f"one CUBIC stream, {name} × 20 ms, steady goodput"
    run = describe(
        what, link, stats, trace=trace, goodput_bps=goodput_bps, cpu=end["cpu_utilization_percent"]
    )
    return [Row(what, goodput_bps / GB, "Gb/s", target, spoilt(stats))], [run]


def counters(wan: lab.Lab, host: str) -> dict[str, int]:
    """The kernel's own counters of TCP and IP on one host."""
    tables: dict[str, int] = {}
    for name in ("snmp", "netstat"):
        lines = wan.run(
            host, ["cat", f"/proc/net/{name}"], capture_output=True, text=True
        ).stdout.splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            prefix = names.partition(":")[0]
            pairs = zip(names.split()[1:], values.split()[1:], strict=True)
            tables |= {f"{prefix}.{key}": int(value) for key, value in pairs}
    return tables


REORDERINGS = ("TcpExt.TCPSACKReorder", "TcpExt.TCPRenoReorder", "TcpExt.TCPTSReorder")
DISCARDS = (
    "TcpExt.PruneCalled",
    "TcpExt.RcvPruned",
    "TcpExt.OfoPruned",
    "TcpExt.TCPOFODrop",
    "TcpExt.TCPRcvQDrop",
)


def eight_streams(span_s: int) -> tuple[list[Row], list[Run]]:
    """10 Gb/s × 366 ms: what TCP met beside what the link says it did."""
    link = lab.symmetric(10 * GB, 366 * MS)
    with memory.warm(), lab.started(link) as wan:
        trace = []
        with wan.popen("far", ["iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE) as server:
            output(server).readline()
            argv = ["iperf3", "-c", wan.far_address, "-J", "-t", str(span_s), "-P", "8"]
            begin_s = time.monotonic()
            with wan.popen("near", argv, stdout=subprocess.PIPE, text=True) as client:
                while time.monotonic() - begin_s < span_s:
                    time.sleep(0.1)
                    way = wan.stats().directions["near_to_far"]
                    queue = way.dropped.queue
                    sample = {"t_s": time.monotonic() - begin_s, "wire_bytes": way.wire_bytes, "drops": queue}
                    trace.append(sample)
                report = json.loads(output(client).read())
        near, far = counters(wan, "near"), counters(wan, "far")
        stats = wan.stats()
    what = f"10 Gb/s × 366 ms, {span_s} s, eight streams"
    way = stats.directions["near_to_far"]
    machine_drops = sum(direction.dropped.machine for direction in stats.directions.values())
    dropped = way.dropped
    lost = dropped.queue + dropped.loss + dropped.burst + dropped.outage
    reordered = sum(near[key] + far[key] for key in REORDERINGS)
    discarded = sum(far[key] for key in DISCARDS)
    none = Target.at_most(0, "0")
    rows = [
        Row(f"{what}: goodput over all", report["end"]["sum_received"]["bits_per_second"] / GB, "Gb/s"),
        Row(f"{what}: packets dropped by the machine", machine_drops, "packets", none),
        Row(f"{what}: reorderings seen by TCP", reordered, "events", none),
        Row(
            f"{what}: longest stall after the first arrival",
            longest_stall_s(trace),
            "s",
            Target.at_most(0.732, "≤ 2 RTT"),
        ),
        Row(f"{what}: thrown away by the receiver", discarded, "events", none),
        Row(
            f"{what}: retransmitted beyond what the link dropped", near["Tcp.RetransSegs"] - lost, "segments"
        ),
        Row(
            f"{what}: bytes later than {stats.lateness.limit_ns / MS:g} ms",
            100 * stats.lateness.late_fraction,
            "%",
            Target.at_most(1.0, "≤ 1"),
        ),
        Row(f"{what}: lateness, 99th percentile", (stats.lateness.p99_ns or 0) / MS, "ms"),
    ]
    return rows, [describe(what, link, stats, trace=trace, near=near, far=far)]


def longest_stall_s(trace: Sequence[dict[str, Any]]) -> float:
    """Longest time without a byte delivered, between the first and the last delivery."""
    moves = [b["t_s"] for a, b in itertools.pairwise(trace) if b["wire_bytes"] > a["wire_bytes"]]
    return max((b - a for a, b in itertools.pairwise(moves)), default=math.inf)


def shaped_rate(rate_bps: int) -> tuple[list[Row], list[Run]]:
    """Payload that a program receives in a span, as a rate on the wire."""
    link = lab.symmetric(rate_bps, 10 * MS, queue_bytes=max(4 * rate_bps // 800, 280_000))
    with lab.started(link) as wan:
        measured = received(wan, 3.0, 8.0)
        stats = wan.stats()
    seen_bps = wire_bps(measured)
    error = 100 * (seen_bps / rate_bps - 1)
    what = f"shaped rate at {rate_bps / 1_000_000:g} Mb/s, error"
    row = Row(what, error, "%", Target.within(-0.5, 0.5, "± 0.5"), spoilt(stats))
    return [row], [describe(what, link, stats, **measured, seen_bps=seen_bps)]


def idle_rtt(rtt_ms: float | None) -> tuple[list[Row], list[Run]]:
    """RTT of a link that carries nothing else; None: a link without delay, the machine's own cost."""
    link = lab.symmetric(None if rtt_ms is None else 10 * GB, round((rtt_ms or 0) * MS))
    with lab.started(link) as wan:
        round_trips_ns = echoes_ns(wan, 1000, 0.01, after_s=0.5)
        stats = wan.stats()
    excess_ms = sorted((value - (rtt_ms or 0) * MS) / MS for value in round_trips_ns)
    median, high = statistics.median(excess_ms), excess_ms[math.ceil(0.99 * len(excess_ms)) - 1]
    if rtt_ms is None:
        what = "RTT of a link without delay (this machine's own cost)"
        targets: tuple[Target | None, Target | None] = (None, None)
    else:
        what = f"RTT of an idle link at {rtt_ms:g} ms, excess"
        targets = (Target.within(-0.1, 0.1, "± 0.1"), Target.within(-0.5, 0.5, "± 0.5"))
    rows = [
        Row(f"{what}: median", median, "ms", targets[0]),
        Row(f"{what}: 99th percentile", high, "ms", targets[1]),
    ]
    return rows, [describe(what, link, stats, round_trips_ns=round_trips_ns)]


def segment_loss(loss: float) -> tuple[list[Row], list[Run]]:
    """Datagrams of one wire segment each, sent 44 to a write of 64 KB; the receiver counts them."""
    link = lab.symmetric(None, 10 * MS, loss=loss, seed=7)
    writes = 46_000
    with lab.started(link) as wan:
        sent, caught = thrown(wan, writes, 3 * GB)
        stats = wan.stats()
    lost = sent - caught["datagrams"] - caught["overflows"]
    half_width = Z_99 * math.sqrt(sent * loss * (1 - loss))
    low, high = sent * loss - half_width, sent * loss + half_width
    what = f"segments lost of {sent} at a loss of {loss:g}, 64 KB a write"
    if caught["overflows"]:
        what += f" ({caught['overflows']} more overflowed the receiver)"
    row = Row(what, lost, "segments", Target.within(math.ceil(low), math.floor(high)))
    return [row], [describe(what, link, stats, sent=sent, lost=lost, **caught)]


def main() -> int:
    """Runs the rows asked for; all by default."""
    parser = argparse.ArgumentParser(prog="bench.link", description=__doc__.partition("\n")[0])
    parts = ("stream", "long", "rate", "rtt", "loss")
    parser.add_argument("parts", nargs="*", choices=[[], *parts], help="only these; nothing is kept then")
    parser.add_argument("--span", type=int, default=60, help="seconds of the long run")
    options = parser.parse_args()
    wanted = options.parts or parts
    rows: list[Row] = []
    runs: list[Run] = []

    def take(result: tuple[list[Row], list[Run]]) -> None:
        for row in result[0]:
            print(f"{row.what}: {row.value:.5g} {row.unit}", file=sys.stderr)
        rows.extend(result[0])
        runs.extend(result[1])

    if "stream" in wanted:
        take(one_stream(10 * GB, "10 Gb/s", Target.at_least(9.2)))
        take(one_stream(None, "unshaped", Target.at_least(15)))
    if "long" in wanted:
        take(eight_streams(options.span))
    for rate_bps in RATES_BPS if "rate" in wanted else ():
        take(shaped_rate(rate_bps))
    for rtt_ms in (None, *RTTS_MS) if "rtt" in wanted else ():
        take(idle_rtt(rtt_ms))
    for loss in LOSSES if "loss" in wanted else ():
        take(segment_loss(loss))
    met = publish("link", rows, runs, keep=not options.parts)
    if not options.parts:
        draw()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
