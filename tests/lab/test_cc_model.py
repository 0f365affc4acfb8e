"""The window of a live connection against the reference model of its congestion control.

The link drops single segments, seconds apart: cycles of growth between two cuts. The model is told the
path, the window at the first loss and when the others were found, and nothing else. The path is as it was: a
busy machine makes its round trips longer.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise
from pathlib import Path

import cc_model as model
import msgspec
import pytest
from controls import clean_kernel

from howdah import lab
from howdah._native import CC_PROGRAMS
from howdah.cc import programs, resume
from howdah.values.link import Change

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
PORT = 5303
MS = 1_000_000
RATE_BPS = 50_000_000
HOLD_BPS = 20_000_000
PACKET_WIRE_BITS = 1538 * 8
QUEUE_BYTES = 8_000_000
"""Nothing overflows."""
REALTIME = ["chrt", "--fifo", "1"]
"""Looks at a window come in time, and what was received is read, also where the machine is busy."""

CONTROLS = {name: name for name in ("reno", "cubic")} | {name: f"hd_{name}" for name in CC_PROGRAMS}
"""The kernel's own, on which the method is proved, and ours: name of the model, name in the kernel."""
RTTS_MS = (40, 110, 200)
"""H-TCP scales in steps, of which one is at 100 ms."""

BEGIN_S = 3.0
"""The connection begins so long after the link."""
FIRST_LOSS_ROUNDS = 4.7
"""In slow start, at some 300 segments. On the longer paths it falls between two bursts, and so the first
segment of a burst is lost, as in the model: growth comes in bursts until there is a queue."""
CYCLES_S = {
    ("htcp", 40 * MS): (4.0, 3.0, 3.0),
    ("htcp", 110 * MS): (4.0, 3.0, 3.0),
    ("htcp", 200 * MS): (4.0,),
}
"""Between two losses, unless 10 s. H-TCP adapts its back-off after two losses of a full path."""

CUT_WITHIN = 0.02
GROWTH_WITHIN = 0.05
WINDOW_WITHIN = 0.10
"""At each instant, where a part of a round trip shows: H-TCP grows by 10 % in one."""


class Sample(msgspec.Struct, frozen=True):
    """One look at TCP_INFO, about every millisecond."""

    t_ns: int
    rtt: int
    """Smoothed, µs."""
    snd_ssthresh: int
    snd_cwnd: int
    total_retrans: int
    segs_in: int
    delivered: int


class Cut(msgspec.Struct, frozen=True):
    """Where the threshold changed because of a loss: the first sample after it, windows."""

    at: int
    t_ns: int
    before: int
    after: int


class Life(msgspec.Struct, frozen=True):
    """A connection from its first segment to its end."""

    rtt_ns: int
    """Of the link, without a queue."""
    samples: list[Sample]
    link: lab.LinkStats
    """What the link did meanwhile."""


@pytest.fixture(scope="module")
def loaded(privilege: None) -> Iterator[None]:
    kernel = clean_kernel()
    next(kernel)
    try:
        for name, in_kernel in CONTROLS.items():
            if name != in_kernel:
                programs.load(name)
        programs.set_target(HOLD_BPS, None, None)
        yield
    finally:
        next(kernel, None)


@pytest.fixture(scope="module", params=RTTS_MS, ids="{}ms".format)
def lives(request: pytest.FixtureRequest, loaded: None) -> dict[str, Life]:
    """A life under each control, over links of their own, all at the same time."""
    rtt_ns = request.param * MS
    with ThreadPoolExecutor(len(CONTROLS)) as pool:
        return dict(zip(CONTROLS, pool.map(lambda name: live(name, rtt_ns), CONTROLS), strict=True))


def live(name: str, rtt_ns: int) -> Life:
    return watch(name, rtt_ns, losses_ns(name, rtt_ns), 8 * rtt_ns)


def losses_ns(name: str, rtt_ns: int) -> list[int]:
    """When single segments are lost, since the connection began."""
    cycles_ns = [round(cycle_s * 1e9) for cycle_s in CYCLES_S.get((name, rtt_ns), (10.0,))]
    return list(accumulate((round(FIRST_LOSS_ROUNDS * rtt_ns), *cycles_ns)))


def as_modelled(judge: Callable[[Life], None], first: Life, again: Callable[[], Life]) -> None:
    """Fails unless a life agrees with its model; one that does not is lived again, alone, which decides.

    The first lives are all at the same time, and take each other's processor.
    """
    try:
        judge(first)
    except AssertionError:
        judge(again())


def watch(
    name: str,
    rtt_ns: int,
    lost_ns: list[int],
    rest_ns: int,
    prepare: Callable[[lab.Lab], None] = lambda wan: None,
) -> Life:
    """The life of a connection that loses single segments, and that for a while after the last."""
    link = lab.symmetric(RATE_BPS, rtt_ns, queue_bytes=QUEUE_BYTES)
    drops = tuple(Change(round(BEGIN_S * 1e9) + at_ns, drop=1) for at_ns in lost_ns)
    there = msgspec.structs.replace(link.near_to_far, changes=drops)
    probe = [*REALTIME, sys.executable, "-m", "bench.probes"]
    with lab.started(msgspec.structs.replace(link, near_to_far=there)) as wan:
        began_s = time.monotonic() - wan.stats().elapsed_ns / 1e9
        acknowledge_each_segment(wan)
        prepare(wan)
        sink = [*probe, "sink", str(PORT), "0", "60"]
        with wan.popen(
            "far", sink, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
        ) as far:
            try:
                assert far.stdout.readline() == "ready\n"
                when = [str(began_s + BEGIN_S), str((max(lost_ns, default=0) + rest_ns) / 1e9)]
                argv = [*probe, "watch", wan.far_address, str(PORT), CONTROLS[name], *when]
                done = wan.run("near", argv, capture_output=True, text=True, check=True, cwd=ROOT, timeout=60)
            finally:
                far.kill()
        return Life(rtt_ns, msgspec.convert(json.loads(done.stdout), list[Sample]), wan.stats())


def acknowledge_each_segment(wan: lab.Lab) -> None:
    """Without offload and delay, how much an ACK is for does not depend on how fast the machine is."""
    wan.run("near", ["ip", "link", "set", "wan0", "gso_max_segs", "1"], check=True)
    route = wan.run(
        "far", ["ip", "-4", "route", "show", "dev", "wan0"], capture_output=True, text=True
    ).stdout
    wan.run("far", ["ip", "route", "change", *route.split(), "dev", "wan0", "quickack", "1"], check=True)


def cuts(samples: list[Sample]) -> list[Cut]:
    """Each loss that was answered. The window may have grown, or begun to shrink, between two looks."""
    found: list[Cut] = []
    for at in range(1, len(samples)):
        earlier, now = samples[at - 1], samples[at]
        repaired_before = now.total_retrans == (samples[found[-1].at].total_retrans if found else 0)
        if now.snd_ssthresh != earlier.snd_ssthresh and not repaired_before:
            found.append(Cut(at, now.t_ns, max(earlier.snd_cwnd, now.snd_cwnd), now.snd_ssthresh))
    return found


def path_rtt_ns(life: Life) -> int:
    """Without a queue, the link's and what the machine added to it."""
    free_segments = RATE_BPS * life.rtt_ns / 1e9 / PACKET_WIRE_BITS
    seen_ns = [1000 * each.rtt for each in life.samples if each.snd_cwnd < free_segments]
    return max(life.rtt_ns, round(statistics.fmean(seen_ns))) if seen_ns else life.rtt_ns


def may_err(name: str, life: Life, merged: float) -> float:
    """What a late link adds to each bound: the part of ACKs that came together and were ``merged``, and in
    H-TCP, which cuts by the greatest round trip, the one segment that was late on both its ways.
    """
    lateness = life.link.lateness
    if not lateness.spoilt:
        return 0.0
    return merged + (2 * (lateness.max_ns or 0) / life.rtt_ns if name == "htcp" else 0.0)


def modelled(name: str, rtt_ns: int, live: list[Cut]) -> model.Trace:
    """The same losses, each so that it is found when it was; the first segment is the first that is lost."""
    wanted_ns = [cut.t_ns - live[0].t_ns for cut in live]
    losses_ns = wanted_ns
    for _ in range(4):
        trace = model.run(
            model.Experiment(
                algorithm=name,
                rtt_ns=rtt_ns,
                rate_bps=RATE_BPS,
                start_segments=live[0].before,
                ssthresh_segments=live[0].before,
                losses_ns=tuple(losses_ns),
                span_ns=losses_ns[-1] + 20 * rtt_ns,
            )
        )
        found_ns = [cut.t_ns - trace.cuts[0].t_ns for cut in trace.cuts]
        late_ns = [found - wanted for found, wanted in zip(found_ns, wanted_ns, strict=True)]
        losses_ns = [loss - late for loss, late in zip(losses_ns, late_ns, strict=True)]
    # Within a burst or between two of them.
    assert max(map(abs, late_ns)) < rtt_ns / 2
    return trace


def at(trace: model.Trace, t_ns: int) -> float:
    """The window of the model at a time, between the ends of two rounds."""
    for earlier, later in pairwise(trace.rounds):
        if earlier.t_ns <= t_ns <= later.t_ns:
            share = (t_ns - earlier.t_ns) / (later.t_ns - earlier.t_ns)
            return earlier.cwnd_segments + share * (later.cwnd_segments - earlier.cwnd_segments)
    raise AssertionError(f"the model ends before {t_ns} ns")


def growth_per_ns(trace: model.Trace, t_ns: int) -> float:
    """How fast the model's window grew in the last whole round before a time, segments."""
    earlier, later = [each for each in trace.rounds if each.t_ns <= t_ns][-2:]
    return (later.cwnd_segments - earlier.cwnd_segments) / (later.t_ns - earlier.t_ns)


def growing(cycle: list[Sample], rtt_ns: int) -> list[Sample]:
    """From when the loss is repaired, two round trips after it was found, to the round trip of the next."""
    begin_ns, end_ns = cycle[0].t_ns + 2000 * cycle[0].rtt, cycle[-1].t_ns - rtt_ns
    return [each for each in cycle if begin_ns < each.t_ns < end_ns]


@pytest.mark.parametrize("name", [name for name in CONTROLS if name != "hold"])
def test_a_window_follows_its_model(name: str, lives: dict[str, Life]) -> None:
    as_modelled(lambda life: assert_followed(name, life), lives[name], lambda: live(name, lives[name].rtt_ns))


def assert_followed(name: str, life: Life) -> None:
    rtt_ns, samples = life.rtt_ns, life.samples
    assert_lost(life, len(losses_ns(name, rtt_ns)))
    live = cuts(samples)
    assert len(live) == len(losses_ns(name, rtt_ns))
    begin, end = samples[live[0].at], samples[live[-1].at]
    merged = 1 - (end.segs_in - begin.segs_in) / (end.delivered - begin.delivered)
    assert abs(merged) < (0.05 if life.link.lateness.spoilt else 0.02)
    trace = modelled(name, path_rtt_ns(life), live)
    besides = may_err(name, life, abs(merged))

    for cut, wanted in zip(live, trace.cuts, strict=True):
        share = wanted.after_segments / wanted.before_segments
        assert cut.after / cut.before == pytest.approx(share, rel=CUT_WITHIN + besides)

    for (after, before), (wanted_after, wanted_before) in zip(
        pairwise(live), pairwise(trace.cuts), strict=True
    ):
        grown = before.before - after.after
        wanted_growth = wanted_before.before_segments - wanted_after.after_segments
        # The model finds a loss only when a burst is acknowledged, and grows until then.
        sooner_ns = (before.t_ns - after.t_ns) - (wanted_before.t_ns - wanted_after.t_ns)
        wanted_growth += sooner_ns * growth_per_ns(trace, wanted_before.t_ns)
        assert grown == pytest.approx(wanted_growth, rel=GROWTH_WITHIN + besides, abs=1)

    offset_ns = trace.cuts[0].t_ns - live[0].t_ns
    errors = [
        each.snd_cwnd / at(trace, each.t_ns + offset_ns) - 1
        for cut, following in pairwise(live)
        for each in growing(samples[cut.at : following.at], rtt_ns)[::10]
    ]
    assert len(errors) > 150, "too few looks to say that the window was followed"
    assert max(map(abs, errors)) < WINDOW_WITHIN + besides


def assert_lost(life: Life, count: int) -> None:
    """What was to be lost, and nothing else."""
    dropped = life.link.directions["near_to_far"].dropped
    assert (dropped.loss, dropped.queue, dropped.machine) == (count, 0, 0)


def holding(rtt_ns: int, lost_ns: list[int], rest_ns: int) -> model.Trace:
    """What the model of hold does with these losses, and for a while after the last."""
    return model.run(
        model.Experiment(
            algorithm="hold",
            hold_bps=HOLD_BPS,
            rtt_ns=rtt_ns,
            rate_bps=RATE_BPS,
            losses_ns=tuple(lost_ns),
            span_ns=lost_ns[-1] + rest_ns,
        )
    )


def test_a_held_window_is_that_of_its_model(lives: dict[str, Life]) -> None:
    as_modelled(assert_held, lives["hold"], lambda: live("hold", lives["hold"].rtt_ns))


def assert_held(life: Life) -> None:
    rtt_ns, samples = life.rtt_ns, life.samples
    trace = holding(rtt_ns, [rtt_ns, 4 * rtt_ns], 3 * rtt_ns)
    assert len(trace.cuts) == 2
    (held,) = {each.cwnd_segments for each in trace.rounds}
    assert samples[-1].total_retrans == 2
    # The handshake's round trip may have been a long one.
    windows = [each.snd_cwnd for each in samples if each.t_ns > 2 * rtt_ns]
    assert min(windows) == pytest.approx(held, rel=CUT_WITHIN)
    assert max(windows) == pytest.approx(held, rel=CUT_WITHIN)


class Fall(msgspec.Struct, frozen=True):
    """A held window that was given up, and held again."""

    begin_ns: int
    end_ns: int
    share: float
    """Of the window, left at the begin."""
    growth_per_s: float
    """From the least window to the last before it was held again, segments."""


def fall(windows: list[tuple[int, int]]) -> Fall:
    """From windows with their times, of which the first is the held one."""
    (_, held), *_ = windows
    begin = next(number for number, (_, window) in enumerate(windows) if window < held)
    end = next(number for number, (_, window) in enumerate(windows) if number > begin and window >= held)
    begin_ns, end_ns = windows[begin][0], windows[end][0]
    fallen = [window for _, window in windows[begin:end]]
    growth_per_s = (fallen[-1] - min(fallen)) / (end_ns - begin_ns) * 1e9
    return Fall(begin_ns, end_ns, fallen[0] / held, growth_per_s)


@pytest.mark.usefixtures("loaded")
def test_a_held_window_is_given_up_and_held_again_as_its_model_says() -> None:
    """Every fifth segment is lost until the guard has struck, after eight round trips."""
    rtt_ns = 40 * MS
    fifth_ns = round(5 * PACKET_WIRE_BITS * 1e9 / HOLD_BPS)
    lost_ns = list(range(10 * rtt_ns, round(19.5 * rtt_ns), fifth_ns))
    rest_ns = 60 * rtt_ns

    def again() -> Life:
        return watch("hold", rtt_ns, lost_ns, rest_ns)

    as_modelled(lambda life: assert_fallen(life, holding(rtt_ns, lost_ns, rest_ns)), again(), again)


def assert_fallen(life: Life, trace: model.Trace) -> None:
    rtt_ns = life.rtt_ns
    live = fall([(each.t_ns, each.snd_cwnd) for each in life.samples if each.t_ns > 2 * rtt_ns])
    wanted = fall([(each.t_ns, each.cwnd_segments) for each in trace.rounds])
    assert live.share == pytest.approx(wanted.share, rel=CUT_WITHIN)
    assert live.growth_per_s == pytest.approx(wanted.growth_per_s, rel=GROWTH_WITHIN)
    assert live.begin_ns == pytest.approx(wanted.begin_ns, abs=2 * rtt_ns)
    assert live.end_ns == pytest.approx(wanted.end_ns, abs=3 * rtt_ns)


REMEMBERED_SEGMENTS = 440
"""The path of RATE_BPS and 110 ms holds 446."""


def resuming(lost_ns: list[int]) -> Life:
    """A connection with a memory of its path, on which nothing else bounds its window."""
    rtt_ns = 110 * MS
    saved = resume.Saved(capacity_bytes=REMEMBERED_SEGMENTS * 1448, rtt_s=rtt_ns / 1e9)

    def prepare(wan: lab.Lab) -> None:
        for host, name in (("near", "tcp_wmem"), ("far", "tcp_rmem")):
            wide = f"net.ipv4.{name}=4096 8388608 67108864"
            wan.run(host, ["sysctl", "-qw", wide], check=True)  # type: ignore[arg-type]
        resume.remember(resume.Destination(wan.far_address, PORT), saved)

    return watch("resume", rtt_ns, lost_ns, 8 * rtt_ns, prepare)


def resumed(lost_ns: list[int]) -> model.Trace:
    """What the model does with this memory and these losses."""
    rtt_ns = 110 * MS
    return model.run(
        model.Experiment(
            algorithm="resume",
            saved_segments=REMEMBERED_SEGMENTS,
            saved_rtt_ns=rtt_ns,
            rtt_ns=rtt_ns,
            rate_bps=RATE_BPS,
            losses_ns=tuple(lost_ns),
            span_ns=max(lost_ns, default=0) + 8 * rtt_ns,
        )
    )


JUMP_LOSSES_NS = {"validated": [], "retreats": [round(1.6 * 110 * MS)]}
"""Nothing is lost, or one segment in the middle of the jump."""


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("ending", JUMP_LOSSES_NS)
def test_a_jump_is_that_of_its_model(ending: str) -> None:
    lost_ns = JUMP_LOSSES_NS[ending]
    trace = resumed(lost_ns)
    as_modelled(lambda life: assert_jumped(life, trace), resuming(lost_ns), lambda: resuming(lost_ns))


def assert_jumped(life: Life, trace: model.Trace) -> None:
    windows = [(each.t_ns, each.snd_cwnd) for each in life.samples]
    wanted = [(each.t_ns, each.cwnd_segments) for each in trace.rounds]
    jumped_ns, jumped = next(seen for seen in windows if seen[1] > 100)
    assert jumped == REMEMBERED_SEGMENTS // 2
    # The first window is acknowledged after one round trip.
    assert jumped_ns == pytest.approx(life.rtt_ns, abs=life.rtt_ns / 2)
    last = life.samples[-1]
    if not trace.cuts:
        assert last.total_retrans == 0
        # Slow start is over where the window is what is remembered, and CUBIC goes on.
        assert last.snd_ssthresh == trace.rounds[-1].ssthresh_segments == REMEMBERED_SEGMENTS
        assert last.snd_cwnd == pytest.approx(wanted[-1][1], rel=WINDOW_WITHIN)
        return
    assert last.total_retrans == len(trace.cuts) == 1
    fallen = next(each for each in life.samples if each.snd_ssthresh < 10_000)
    assert fallen.snd_cwnd == pytest.approx(trace.cuts[0].after_segments, rel=WINDOW_WITHIN)
    # Where slow start is set to end then. HyStart may end it before.
    set_to = max(each.snd_ssthresh for each in life.samples if each.t_ns > fallen.t_ns)
    modelled = max(each.ssthresh_segments or 0 for each in trace.rounds)
    assert set_to == pytest.approx(modelled, rel=WINDOW_WITHIN)
