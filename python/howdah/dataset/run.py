"""One recording of a data set: a dumbbell of its own, streams that settle, and probes from before the first.

Each stream of others has a pair of hosts to itself; the probes, and streams of ours, go from left1 to right1.
The base RTT is the least of what was seen before anybody sent. Several are made at once, each in a process of
its own, ``python -m howdah.dataset.run``: a RunTask comes on standard input as JSON, and a RunMade or a
RunFailed leaves on standard output.
"""

import contextlib
import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
import numpy as np

from howdah import HowdahError, decoding, interrupt, lab
from howdah.dataset import streams
from howdah.dataset.plan import QUIET_S, Run
from howdah.lab.session import Process
from howdah.probing.far_end import endpoint
from howdah.probing.prober import Probing, ProbingResult, Rhythm
from howdah.probing.series import answers
from howdah.recognition.files import write_recording
from howdah.recognition.recording import Burst, LabConditions, Recording
from howdah.traffic.bursts import PROFILE
from howdah.traffic.pattern import Tcp
from howdah.values.link import LinkStats

_PORT, _PORT_OF_BURSTS = 7021, 7921
_MOST_SKIPPED = 0.5
"""The share of the probes; with more skipped this machine has been asleep."""
_LATE, _LATE_S = 0.25, 0.005
"""99 % of the bytes must be no later than this part of the base RTT, or than so much if that is less."""
_LEAST_ANSWERED = 0.25
_OUT_S = 30.0


class RunTask(msgspec.Struct, frozen=True, kw_only=True):
    """One run to make, and where it is kept."""

    run: Run
    controls: dict[str, str]
    """Congestion controls as sockets choose them, by the name in the plan."""
    folder: str


class RunMade(msgspec.Struct, frozen=True, tag=True):
    """A run that was made, and is kept unless it was spoilt."""

    late_fraction: float
    late_p99_s: float | None
    spoilt: str | None


class RunFailed(msgspec.Struct, frozen=True, tag=True):
    """A run that could not be made."""

    why: str


RunResult = RunMade | RunFailed


class Outcome(NamedTuple):
    """A recording, and whether it may be kept."""

    recording: Recording
    spoilt: str | None
    """The reason why it is not to be kept: the machine, not the path, may have shaped it."""


def make(run: Run, controls: Mapping[str, str]) -> Outcome:
    """Records a run. Raises HowdahError when it cannot.

    ``controls`` has each congestion control as a socket chooses it.
    """
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
    """The streams: for each the number of its pair of hosts and its congestion control."""
    place = 1
    for name, count in run.background.items():
        for _ in range(count):
            place += 1
            yield place, name
    for name, count in run.ours.items():
        for _ in range(count):
            yield 1, name


def _bursts(run: Run) -> list[Tcp]:
    """The loads of active probing, of one congestion control each."""
    return [load for load in PROFILE.loads if isinstance(load, Tcp)] if run.bursts else []


def _sent(name: str, sender: Process, begun_s: float, elapsed_s: float) -> Iterator[Burst]:
    """The bursts that a sender reports; one still being sent lasts until the end of the probing."""
    sender.kill()
    said = [float(line) - begun_s for line in _pipe(sender.stdout)]
    for start_s, end_s in itertools.zip_longest(said[::2], said[1::2], fillvalue=elapsed_s):
        yield Burst(start_s=start_s, end_s=max(start_s, end_s), congestion_control=name)


def _prober(wan: lab.Lab, run: Run) -> tuple[Process, float]:
    """The process that probes, and since when, in seconds of CLOCK_MONOTONIC."""
    for_s = QUIET_S + run.path.settle_s + run.length_s
    probing = Probing(way="icmp", to=endpoint(wan.addresses["right1"], 0), for_ns=round(for_s * 1e9))
    pipe = subprocess.PIPE
    argv = [sys.executable, "-P", "-m", "howdah.probing.prober"]
    prober = wan.popen("left1", argv, stdin=pipe, stdout=pipe, stderr=pipe, dies_with_parent=True)
    stdin, stdout = _pipe(prober.stdin), _pipe(prober.stdout)
    stdin.write(msgspec.json.encode(probing))
    stdin.close()
    return prober, float(stdout.readline() or "nan")


def _stream(wan: lab.Lab, host: str, words: list[str]) -> Process:
    """The process of one end of a stream."""
    argv = [sys.executable, "-I", "-S", str(Path(streams.__file__)), *words]
    return wan.popen(host, argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, dies_with_parent=True)


def _probed(prober: Process, run: Run) -> ProbingResult:
    out = _pipe(prober.stdout).read()
    if prober.wait():
        raise HowdahError(f"run {run.name}: the probes ended: {_last(_pipe(prober.stderr))}")
    return decoding.from_json(out, ProbingResult)


def _recording(
    run: Run, seed: int, seen: ProbingResult, sent: Sequence[Burst], stats: LinkStats
) -> Recording:
    step_s = Rhythm().step_s
    times_s, rtt_s = answers(seen.looks, step_s)
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
        made=LabConditions(
            rate_bps=rate_bps,
            rtt_s=run.path.rtt_s,
            queue_bytes=ways.queue_bytes or int(rate_bps * run.path.rtt_s / 8),
            seed=seed,
            late_fraction=stats.lateness.late_fraction,
            late_p99_s=None if late_ns is None else late_ns / 1e9,
        ),
    )


def _spoilt(run: Run, seen: ProbingResult, stats: LinkStats) -> str | None:
    """The reason why a recording is not to be kept; None where it is.

    The lab's own verdict is on rates; the shape of a queue is spoilt by what is late beside the RTT.
    """
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
    """A process that is killed at the end of the block."""
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


def main() -> None:
    """Reads a RunTask from standard input, makes the run, and writes the RunResult to standard output."""
    interrupt.install()
    # They were blocked while this process was made, and a process inherits what is blocked.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupt.SIGNALS)
    task = decoding.from_json(sys.stdin.buffer.read(), RunTask)
    try:
        _say(_made(task))
    except HowdahError as error:
        _say(RunFailed(str(error)))
    except Exception as error:
        _say(RunFailed(f"a bug in howdah, {error!r}"))
        raise


def _made(task: RunTask) -> RunMade:
    outcome = make(task.run, task.controls)
    if outcome.spoilt is None:
        write_recording(outcome.recording, Path(task.folder) / task.run.file)
    made = outcome.recording.made
    if made is None:
        raise TypeError("a lab's recording says how it was made")
    return RunMade(made.late_fraction, made.late_p99_s, outcome.spoilt)


def _say(result: RunResult) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
