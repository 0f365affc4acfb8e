"""``hd_hold`` seen from the receiver: how much of a path it fills, and how soon another rate is in force."""

import json
import statistics
import subprocess
import time
from typing import Any

import msgspec

from bench.carrying import probe
from bench.cc.held import PORT, holding, listening, output
from bench.cc.table import RATE_BPS
from bench.cc.tail import PAYLOAD_BYTES, WIRE_BYTES
from bench.link import counters
from howdah import lab
from howdah.cc import programs

RTT_NS = 180_000_000
LOSS = 1e-4
SKIP_S, STEADY_S = 3.0, 60.0
EDGE_S = 3.0
"""At both ends of the steady span: somewhere in there nothing is missing, and all that came was read."""

BEGIN_BPS = 300_000_000
CHANGES_BPS = (400_000_000, 800_000_000, 200_000_000, 900_000_000, 100_000_000, 600_000_000, BEGIN_BPS)
ROUNDS = 3
"""Each change is made so often: a machine that pauses for a moment would be one of them."""
BETWEEN_S = 2.0
WITHIN_S = 0.004
"""Arrivals keep to a line when they are no further than this from it: a reader is woken late at times."""
KEPT_TO_S = 0.1
KEPT_NS = 20_000_000
Samples = list[tuple[int, int]]
Run = dict[str, Any]


def steady() -> Run:
    """1 Gb/s × 180 ms, 0.01 % lost each way."""
    link = lab.symmetric(RATE_BPS, RTT_NS, loss=LOSS)
    span_s = SKIP_S + STEADY_S + 2 * EDGE_S
    with holding(link, RATE_BPS) as wan, listening(wan, "arrivals", PORT, span_s) as far:
        argv = probe("source", wan.far_address, PORT, span_s + 20)
        with wan.popen("near", argv, stdout=subprocess.DEVNULL) as near:
            samples: Samples = [(t, n) for t, n in json.loads(output(far).read())]
            near.kill()
        retransmitted = counters(wan, "near")["Tcp.RetransSegs"]
        stats = wan.stats()
    begin_ns = samples[0][0] + round(SKIP_S * 1e9)
    kept = [(t, n) for t, n in samples if t >= begin_ns]
    return {
        "part": "steady",
        "payload_Bps": furthest_ahead_Bps(kept, EDGE_S),
        "sent_payload_Bps": _sent_Bps(stats.directions["near_to_far"].segments, stats.elapsed_ns),
        "retransmitted": retransmitted,
        "samples": _thinned(kept),
        "link": msgspec.to_builtins(link),
        "stats": msgspec.to_builtins(stats),
    }


def _sent_Bps(segments: int, elapsed_ns: int) -> float:
    return segments * PAYLOAD_BYTES / elapsed_ns * 1e9


def furthest_ahead_Bps(samples: Samples, edge_s: float) -> float:
    """Rate between the two samples furthest ahead, one within ``edge_s`` of each end.

    A reader sees nothing while a segment is missing, then all that waited behind it: up to 18 % of a second's
    data at 180 ms. Where it is furthest ahead, nothing is missing.
    """
    edge_ns = round(edge_s * 1e9)
    (first_ns, first), (last_ns, last) = samples[0], samples[-1]
    slope = (last - first) / (last_ns - first_ns)

    def ahead(sample: tuple[int, int]) -> float:
        return sample[1] - slope * sample[0]

    begin = max((s for s in samples if s[0] <= first_ns + edge_ns), key=ahead)
    stop = max((s for s in samples if s[0] >= last_ns - edge_ns), key=ahead)
    return (stop[1] - begin[1]) / (stop[0] - begin[0]) * 1e9


def _thinned(samples: Samples) -> Samples:
    kept = samples[:1]
    for sample in samples:
        if sample[0] - kept[-1][0] >= KEPT_NS:
            kept.append(sample)
    return kept


def changes() -> Run:
    """1 Gb/s × 180 ms without loss: another rate every two seconds, and when the receiver had it."""
    link = lab.symmetric(RATE_BPS, RTT_NS)
    span_s = SKIP_S + BETWEEN_S * (ROUNDS * len(CHANGES_BPS) + 1)
    with holding(link, BEGIN_BPS) as wan, listening(wan, "arrivals", PORT, span_s) as far:
        argv = probe("source", wan.far_address, PORT, span_s + 20)
        with wan.popen("near", argv, stdout=subprocess.DEVNULL) as near:
            time.sleep(SKIP_S)
            asked = []
            for rate_bps in CHANGES_BPS * ROUNDS:
                asked.append((time.monotonic_ns(), rate_bps))
                programs.set_target(rate_bps, None, None)
                time.sleep(BETWEEN_S)
            samples: Samples = [(t, n) for t, n in json.loads(output(far).read())]
            near.kill()
        stats = wan.stats()
    ends_ns = [*(at_ns for at_ns, _ in asked[1:]), asked[-1][0] + round(BETWEEN_S * 1e9)]
    done = [
        {"rate_bps": rate_bps, **in_force(samples, at_ns, end_ns, rate_bps)}
        for (at_ns, rate_bps), end_ns in zip(asked, ends_ns, strict=True)
    ]
    return {
        "part": "change",
        "rtt_s": RTT_NS / 1e9,
        "changes": done,
        "samples": _thinned(samples),
        "link": msgspec.to_builtins(link),
        "stats": msgspec.to_builtins(stats),
    }


def in_force(samples: Samples, at_ns: int, end_ns: int, rate_bps: float) -> dict[str, float]:
    """Seconds after ``at_ns`` from when on arrivals keep to a line of the rate on the wire for ``KEPT_TO_S``.

    What the machine holds up later than that is not the sender's; the rate over the last half, which is the
    slope there, tells whether the sender kept to it. Never in force: the whole span.
    """
    own = [(t - at_ns, n) for t, n in samples if at_ns <= t < end_ns]
    late = [(t, n) for t, n in own if t >= (end_ns - at_ns) / 2]
    slope, _ = statistics.linear_regression([t for t, _ in late], [n for _, n in late])
    wanted = rate_bps / 8e9 * PAYLOAD_BYTES / WIRE_BYTES
    begin = (t for place, (t, _) in enumerate(own) if _keeps(own[place:], wanted))
    after_ns = next(begin, end_ns - at_ns)
    return {"after_s": after_ns / 1e9, "seen_bps": slope * 8e9 * WIRE_BYTES / PAYLOAD_BYTES}


def _keeps(samples: Samples, bytes_per_ns: float) -> bool:
    """Whether the first ``KEPT_TO_S`` of ``samples`` are on a line from the first of them."""
    begin_ns, begun = samples[0]
    for t, n in samples:
        if t - begin_ns > KEPT_TO_S * 1e9:
            return True
        if abs(n - begun - bytes_per_ns * (t - begin_ns)) > bytes_per_ns * WITHIN_S * 1e9:
            return False
    return False
