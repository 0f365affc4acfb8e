"""Making one recording: a dumbbell of its own, streams that settle, probes from before the first of them on.

Each stream of others has a pair of hosts to itself; the probes, and streams of ours, go from left1 to right1.
The base RTT is the least of what was seen before anybody sent.
"""

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
import numpy as np

from howdah import HowdahError, lab
from howdah.dataset import streams
from howdah.dataset.plan import QUIET_S, Run
from howdah.lab.enter import Process
from howdah.probing.probing import Probed, Probing, Rhythm
from howdah.probing.series import looked
from howdah.probing.target import endpoint
from howdah.recognition.recording import Burst, Made, Recording
from howdah.traffic.active import PROFILE
from howdah.traffic.pattern import Tcp
from howdah.values.link import LinkStats

_PORT, _PORT_OF_BURSTS = 7021, 7921
_MOST_SKIPPED = 0.5
"""Of the probes; with more this machine has been asleep."""
_LATE, _LATE_S = 0.25, 0.005
"""Of the base RTT, but at least so much: 99 % of the bytes leave no later than that."""
_LEAST_ANSWERED = 0.25
_OUT_S = 30.0


class Outcome(NamedTuple):
    """What became of a run."""

    recording: Recording
    spoilt: str | None
    """Why it is not to be kept: the machine, not the path, may have made it."""


def make(run: Run, controls: Mapping[str, str]) -> Outcome:
    """Records a run; ``controls`` has each congestion control as a socket chooses it. Raises HowdahError."""
    chance = run.random()
    pairs = 1 + sum(run.background.values())
    topology = lab.dumbbell(pairs, pairs, lan_rate_bps=run.path.lan_bps)
    link = msgspec.structs.replace(run.path.link, seed=chance.randrange(1, 2**31))
    # Half of the time to settle is left to each stream, whenever it begins.
    offset_s = run.path.settle_s / 2
    with lab.started(link, topology) as wan, contextlib.ExitStack() as stack:
        prober, begun_s = _prober(wan, run)
        stack.enter_context(_killed(prober))
        running: list[Process] = []
        for port, (place, name) in enumerate(_placed(run), start=_PORT):
            delay_s = QUIET_S + chance.uniform(0, offset_s)
            receiver = f"right{place}", ["sink", str(port)]
            source = ["source", wan.addresses[receiver[0]], str(port), controls[name], f"{delay_s:.3f}"]
            for host, words in (receiver, (f"left{place}", source)):
                running.append(stack.enter_context(_killed(_stream(wan, host, words))))
        sending: dict[str, Process] = {}
        first_s = begun_s + QUIET_S + run.path.settle_s
        for port, load in enumerate(_bursts(run), start=_PORT_OF_BURSTS):
            name = load.congestion_control or load.name
            running.append(stack.enter_context(_killed(_stream(wan, "right1", ["catch", str(port)]))))
            rate = str((load.rate_bps or 0) // 8)
            at = [str(first_s + each_s) for period in load.wave.periods(run.length_s) for each_s in period]
            words = ["bursts", wan.addresses["right1"], str(port), controls[name], rate, *at]
            sending[name] = stack.enter_context(_killed(_stream(wan, "left1", words)))
        seen = _probed(prober, run)
        for each in (*running, *sending.values()):
            # Bursts end by themselves; nothing else does.
            if each.poll():
                raise HowdahError(f"run {run.name}: a stream of the lab ended: {_last(_pipe(each.stderr))}")
        stats = wan.stats()
        sent = [
            burst for name, each in sending.items() for burst in _sent(name, each, begun_s, seen.elapsed_s)
        ]
    return Outcome(_recording(run, link.seed, seen, sent, stats), _spoilt(run, seen, stats))


def _placed(run: Run) -> Iterator[tuple[int, str]]:
    """Each stream: the number of its pair of hosts, and its congestion control."""
    place = 1
    for name, count in run.background.items():
        for _ in range(count):
            place += 1
            yield place, name
    for name, count in run.ours.items():
        for _ in range(count):
            yield 1, name


def _bursts(run: Run) -> list[Tcp]:
    """What sends them, by one congestion control each."""
    return [load for load in PROFILE.loads if isinstance(load, Tcp)] if run.bursts else []


def _sent(name: str, sender: Process, begun_s: float, elapsed_s: float) -> Iterator[Burst]:
    """What it says it sent; of what it is still sending, until the end of the probing."""
    sender.kill()
    said = [float(line) - begun_s for line in _pipe(sender.stdout)]
    for start_s, end_s in itertools.zip_longest(said[::2], said[1::2], fillvalue=elapsed_s):
        yield Burst(start_s=start_s, end_s=max(start_s, end_s), congestion_control=name)


def _prober(wan: lab.Lab, run: Run) -> tuple[Process, float]:
    """Probing, and since when, by CLOCK_MONOTONIC."""
    for_s = QUIET_S + run.path.settle_s + run.length_s
    probing = Probing(way="icmp", to=endpoint(wan.addresses["right1"], 0), for_ns=round(for_s * 1e9))
    pipe = subprocess.PIPE
    argv = [sys.executable, "-P", "-m", "howdah.dataset.prober"]
    prober = wan.popen("left1", argv, stdin=pipe, stdout=pipe, stderr=pipe, tied=True)
    stdin, stdout = _pipe(prober.stdin), _pipe(prober.stdout)
    stdin.write(msgspec.json.encode(probing))
    stdin.close()
    return prober, float(stdout.readline() or "nan")


def _stream(wan: lab.Lab, host: str, words: list[str]) -> Process:
    """One end of a stream."""
    argv = [sys.executable, "-I", "-S", str(Path(streams.__file__)), *words]
    return wan.popen(host, argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, tied=True)


def _probed(prober: Process, run: Run) -> Probed:
    out = _pipe(prober.stdout).read()
    if prober.wait():
        raise HowdahError(f"run {run.name}: the probes ended: {_last(_pipe(prober.stderr))}")
    return msgspec.json.decode(out, type=Probed)


def _recording(run: Run, seed: int, seen: Probed, sent: Sequence[Burst], stats: LinkStats) -> Recording:
    step_s = Rhythm().step_s
    times_s, rtt_s = looked(seen.looks, step_s)
    quiet = rtt_s[times_s < QUIET_S]
    if np.isfinite(quiet).sum() < _LEAST_ANSWERED * QUIET_S / step_s:
        raise HowdahError(f"run {run.name}: the far host answered too few probes before anybody sent")
    chosen = times_s >= QUIET_S + run.path.settle_s
    late_ns = stats.lateness.p99_ns
    rate_bps, ways = run.path.rate_bps, run.path.link.near_to_far
    return Recording(
        times_s=times_s[chosen],
        rtt_s=rtt_s[chosen],
        base_rtt_s=float(np.nanmin(quiet)),
        step_s=step_s,
        run=run.name,
        path=run.path.name,
        background=run.background,
        bursts=tuple(sorted(sent, key=lambda burst: burst.start_s)),
        ours=run.ours or None,
        made=Made(
            rate_bps=rate_bps,
            rtt_s=run.path.rtt_s,
            queue_bytes=ways.queue_bytes or int(rate_bps * run.path.rtt_s / 8),
            seed=seed,
            late_fraction=stats.lateness.late_fraction,
            late_p99_s=None if late_ns is None else late_ns / 1e9,
        ),
    )


def _spoilt(run: Run, seen: Probed, stats: LinkStats) -> str | None:
    """The lab's own verdict is on rates; what a queue looks like is spoilt by what is late beside the RTT."""
    dropped = sum(way.dropped.machine for way in stats.directions.values())
    dropped += sum(cable.machine for cable in (stats.cables or {}).values())
    if dropped:
        return stats.lateness.why or f"{dropped} packets were dropped by this machine"
    late_s = (stats.lateness.p99_ns or 0) / 1e9
    if late_s > max(_LATE * run.path.rtt_s, _LATE_S):
        return f"1 % of the bytes left {late_s * 1e3:.1f} ms late or more: this machine is too slow or busy"
    skipped = seen.counts.skipped / max(1, seen.counts.skipped + seen.counts.sent)
    return f"{skipped:.0%} of the probes were not sent in time" if skipped > _MOST_SKIPPED else None


@contextlib.contextmanager
def _killed(process: Process) -> Iterator[Process]:
    """Kills it at the end."""
    try:
        yield process
    finally:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_OUT_S)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise TypeError("the process has no pipes")
    return stream


def _last(stream: IO[bytes]) -> str:
    return stream.read().decode(errors="replace").strip().rpartition("\n")[2] or "no message"
