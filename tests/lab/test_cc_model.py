"""The window of a live connection against the reference model of its congestion control.

The link drops two single segments, ten seconds apart: a cycle of growth between two cuts. The model is
told the path, the window at the first loss and when the second came, and nothing else.
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from howdah import lab
from howdah.cc import model
from howdah.lab.link import Change

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
PORT = 5303
MS = 1_000_000
RATE_BPS = 100_000_000
QUEUE_BYTES = 8_000_000
"""Nothing overflows."""

BEGIN_S = 2.0
"""The connection begins so long after the link."""
FIRST_LOSS_ROUNDS = 4.3
"""In slow start, found a round trip later at some 300 to 400 segments."""
CYCLE_S = 10.0

CUT_WITHIN = 0.02
GROWTH_WITHIN = 0.05
WINDOW_WITHIN = 0.10
"""At each instant, where acknowledgements delayed by a busy machine show; over the cycle: GROWTH_WITHIN."""


class Sample(msgspec.Struct, frozen=True):
    """One look at TCP_INFO, about every millisecond."""

    t_ns: int
    snd_ssthresh: int
    snd_cwnd: int
    total_retrans: int
    segs_in: int
    delivered: int


class Cut(msgspec.Struct, frozen=True):
    """Where the threshold changed because of a loss: number of the first sample after it, windows."""

    at: int
    before: int
    after: int


def watched(control: str, rtt_ns: int) -> list[Sample]:
    """The whole life of a connection that loses two segments."""
    first_ns = round(BEGIN_S * 1e9 + FIRST_LOSS_ROUNDS * rtt_ns)
    second_ns = first_ns + round(CYCLE_S * 1e9)
    link = lab.symmetric(RATE_BPS, rtt_ns, queue_bytes=QUEUE_BYTES)
    drops = tuple(Change(at_ns, drop=1) for at_ns in (first_ns, second_ns))
    there = msgspec.structs.replace(link.near_to_far, changes=drops)
    probe = [sys.executable, "-m", "bench.probes"]
    with lab.started(msgspec.structs.replace(link, near_to_far=there)) as wan:
        began_s = time.monotonic() - wan.stats().elapsed_ns / 1e9
        sink = [*probe, "sink", str(PORT), "0", "60"]
        with wan.popen("far", sink, stdout=subprocess.PIPE, text=True, cwd=ROOT) as far:
            assert far.stdout.readline() == "ready\n"
            span_s = second_ns / 1e9 - BEGIN_S + 5 * rtt_ns / 1e9
            begin_s = began_s + BEGIN_S
            watch = [*probe, "watch", wan.far_address, str(PORT), control, str(begin_s), str(span_s)]
            done = wan.run("near", watch, capture_output=True, text=True, check=True, cwd=ROOT, timeout=40)
            far.kill()
        stats = wan.stats()
    dropped = stats.directions["near_to_far"].dropped
    assert (dropped.loss, dropped.queue, dropped.machine) == (2, 0, 0)
    return msgspec.convert(json.loads(done.stdout), list[Sample])


def cuts(samples: list[Sample]) -> list[Cut]:
    """Each loss that was answered. The window may have grown, or begun to shrink, between two looks."""
    found = []
    for at in range(1, len(samples)):
        earlier, now = samples[at - 1], samples[at]
        repaired_before = now.total_retrans == (samples[found[-1].at].total_retrans if found else 0)
        if now.snd_ssthresh != earlier.snd_ssthresh and not repaired_before:
            found.append(Cut(at, max(earlier.snd_cwnd, now.snd_cwnd), now.snd_ssthresh))
    return found


def modelled(control: str, rtt_ns: int, start: int, between_ns: int, ack_segments: float) -> model.Trace:
    """The same two losses; the first segment is the first that is lost."""
    return model.run(
        model.Experiment(
            algorithm=control,
            rtt_ns=rtt_ns,
            rate_bps=RATE_BPS,
            ack_segments=ack_segments,
            start_segments=start,
            ssthresh_segments=start,
            losses_ns=(0, between_ns),
            span_ns=between_ns + 10 * rtt_ns,
        )
    )


def at(trace: model.Trace, t_ns: int) -> float:
    """The window of the model at a time, between the ends of two rounds."""
    for earlier, later in zip(trace.rounds, trace.rounds[1:], strict=False):
        if earlier.t_ns <= t_ns <= later.t_ns:
            share = (t_ns - earlier.t_ns) / (later.t_ns - earlier.t_ns)
            return earlier.cwnd_segments + share * (later.cwnd_segments - earlier.cwnd_segments)
    raise AssertionError(f"the model ends before {t_ns} ns")


def follow(control: str, rtt_ns: int, name: str | None = None) -> None:
    """Holds ``control`` of the kernel (there called ``name``, where that is another) against its model."""
    samples = watched(name or control, rtt_ns)
    first, second = cuts(samples)
    cycle = samples[first.at : second.at]
    acks = cycle[-1].segs_in - cycle[0].segs_in
    ack_segments = (cycle[-1].delivered - cycle[0].delivered) / acks
    between_ns = samples[second.at].t_ns - samples[first.at].t_ns
    trace = modelled(control, rtt_ns, first.before, between_ns, ack_segments)
    wanted_first, wanted_second = trace.cuts

    for live, wanted in ((first, wanted_first), (second, wanted_second)):
        share = wanted.after_segments / wanted.before_segments
        assert live.after / live.before == pytest.approx(share, rel=CUT_WITHIN)

    grown = second.before - first.after
    wanted_growth = wanted_second.before_segments - wanted_first.after_segments
    assert grown == pytest.approx(wanted_growth, rel=GROWTH_WITHIN)

    # A round trip after the first cut the window is what the cut left.
    repaired_ns = cycle[0].t_ns + 2 * rtt_ns
    offset_ns = wanted_first.t_ns - cycle[0].t_ns
    errors = [
        abs(sample.snd_cwnd / at(trace, sample.t_ns + offset_ns) - 1)
        for sample in cycle[::10]
        if sample.t_ns > repaired_ns
    ]
    assert len(errors) > 300, "too few looks to say that the window was followed"
    assert max(errors) < WINDOW_WITHIN, statistics.quantiles(errors, n=10)


@pytest.mark.parametrize("rtt_ms", [40, 100])
@pytest.mark.parametrize("control", ["reno", "cubic"])
def test_the_kernels_own_follow_their_models(control: str, rtt_ms: int) -> None:
    follow(control, rtt_ms * MS)
