"""One run: a fresh lab, its tools begun one after the other, and what arrived while both sent."""

import contextlib
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from bench import report
from bench.ops import howdah, overlay, plan
from bench.ops.plan import Case, Length, Run, Span
from bench.ops.tool import Stage, Tool, left, right
from bench.ops.tools import tool
from bench.ops.watch import Look, Watch, watching
from howdah import HowdahError, lab

MEMORY = "/dev/shm"  # noqa: S108
"""A file system in memory, so that no disk makes anybody wait."""
SENDS_BYTES = 500_000
"""What has arrived when a tool sends; a login is less."""
NFS_PAIRS = (2, 3, 4)
_BEGIN_S = 90.0
_END_S = 10.0
_MARGIN_S = 120.0
_LOOK_S = 0.1


class Side(NamedTuple):
    """A tool and the pairs of hosts that it has."""

    name: str
    tool: Tool
    pairs: Sequence[int]

    def payload(self, look: Look) -> int:
        """Bytes that have arrived."""
        return sum(look.payload(right(pair), self.tool.headers_bytes) for pair in self.pairs)


class Sending(NamedTuple):
    side: Side
    processes: "Sequence[subprocess.Popen[bytes]]"

    def failure(self) -> str | None:
        """Why it sends no more; null while it does."""
        for process in self.processes:
            if process.poll() is not None:
                output, errors = process.communicate()
                said = (errors or output).decode(errors="replace").strip()
                return f"{self.side.name} ended with {process.returncode}: {said[-500:] or 'it said nothing'}"
        return None


def measure(case: Case, length: Length) -> Run:
    """Never raises for what a tool did: it is the run's ``error``."""
    beside, span = overlay.load(case.overlay), plan.span(case, length)
    sides = _sides(case)
    run: Run = {**case._asdict(), "length": length, "total_s": span.total_s, "settle_s": span.settle_s}
    run["commit"] = report.commit()
    run["load_before"] = round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)
    with tempfile.TemporaryDirectory(prefix="howdah-ops-", dir=MEMORY) as folder:
        Path(folder).chmod(0o755)
        with lab.started(beside.link, beside.topology, sshd=True) as wan:
            stage = Stage(wan, Path(folder), beside.bdp_bytes, beside.queue_bytes, span.total_s + _MARGIN_S)
            try:
                run |= {"error": None, **_watched(case, span, stage, sides)}
            except (HowdahError, RuntimeError) as error:
                run["error"] = str(error)
            stats = msgspec.to_builtins(wan.stats())
    return run | {"link": msgspec.to_builtins(beside.link), "stats": stats}


def _sides(case: Case) -> dict[str, Side]:
    """By ``foreground`` and ``background``, in the order in which they begin."""
    served = {"foreground": case.foreground, "background": case.background}
    by_nfs = case.foreground is not None and case.foreground.startswith("nfs")
    pairs = {"foreground": (1,), "background": (1,) if by_nfs else (2,)}
    made = {
        key: Side(name, tool(name), NFS_PAIRS if name.startswith("nfs") else pairs[key])
        for key, name in served.items()
        if name is not None
    }
    first = "foreground" if case.part.startswith("table") else "background"
    return dict(sorted(made.items(), key=lambda each: each[0] != first))


def _watched(case: Case, span: Span, stage: Stage, sides: dict[str, Side]) -> dict[str, Any]:
    """What is measured of a run. Raises HowdahError or RuntimeError when a tool fails."""
    pairs = range(1, len(stage.lab.topology.left) + 1)
    with contextlib.ExitStack() as stack:
        for side in sides.values():
            stack.enter_context(side.tool.serving(stage, side.pairs))
        watch = stack.enter_context(watching(stage.lab, pairs))
        first_s = time.monotonic()
        sending: list[Sending] = []
        for place, side in enumerate(sides.values()):
            if place:
                _wait(plan.LATER_S if case.part.startswith("table") else plan.BESIDE_S, sending)
            sending.append(stack.enter_context(_started(stage, side)))
            _wait_begun(watch, sending)
        begin_s = time.monotonic()
        _wait(span.total_s, sending)
        end_s = watch.look().t_s
        said = [_said(each) for each in sending]
    found = {
        f"{key}_bps": rate(watch.looks, side, begin_s + span.settle_s, end_s) for key, side in sides.items()
    }
    said_by = {key: each for key, each in zip(sides, said, strict=True) if each}
    return {
        **found,
        "rtt": _rtt(watch, begin_s + span.settle_s, end_s),
        "said": said_by,
        "begin_s": round(begin_s - first_s, 3),
        **({"samples": _samples(watch, sides, first_s, end_s)} if plan.has_course(case) else {}),
    }


@contextlib.contextmanager
def _started(stage: Stage, side: Side) -> Iterator[Sending]:
    with contextlib.ExitStack() as stack:
        processes = []
        for pair, command in side.tool.senders(stage, side.pairs):
            process = stage.lab.popen(
                left(pair),
                command.argv,
                env=command.env or None,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            stack.callback(_killed, process)
            processes.append(process)
        yield Sending(side, processes)


def _killed(process: "subprocess.Popen[bytes]") -> None:
    """What a shell has started ends with the lab, and until then holds the pipes."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _wait(span_s: float, sending: Sequence[Sending]) -> None:
    """Raises HowdahError when a tool ends meanwhile."""
    until_s = time.monotonic() + span_s
    while (left_s := until_s - time.monotonic()) > 0:
        time.sleep(min(left_s, _LOOK_S))
        for each in sending:
            if failure := each.failure():
                raise HowdahError(failure)


def _wait_begun(watch: Watch, sending: Sequence[Sending]) -> None:
    """Until the last of them sends. Raises HowdahError when it does not, or ends."""
    side = sending[-1].side
    already = side.payload(watch.look())
    deadline = time.monotonic() + _BEGIN_S
    while side.payload(watch.looks[-1]) < already + SENDS_BYTES:
        _wait(_LOOK_S, sending)
        if time.monotonic() > deadline:
            raise HowdahError(f"{side.name} did not send in {_BEGIN_S:g} s")


def _said(sending: Sending) -> dict[str, Any]:
    """What the record of a copy says, which ends for it; nothing of other tools, or of one that ends late."""
    if not isinstance(sending.side.tool, howdah.Copy):
        return {}
    (process,) = sending.processes
    process.send_signal(signal.SIGINT)
    try:
        output, _ = process.communicate(timeout=_END_S)
    except subprocess.TimeoutExpired:
        return {}
    return howdah.said(output) if output else {}


def rate(looks: Sequence[Look], side: Side, begin_s: float, end_s: float) -> float:
    """Bits of payload a second that arrived between two instants; between the looks next to them."""
    inside = [each for each in looks if begin_s <= each.t_s <= end_s]
    first, last = inside[0], inside[-1]
    return (side.payload(last) - side.payload(first)) * 8 / (last.t_s - first.t_s)


def _rtt(watch: Watch, begin_s: float, end_s: float) -> dict[str, float] | None:
    seen = [each.rtt_s for each in watch.echoes if begin_s <= each.t_s <= end_s]
    if not seen:
        return None
    least, middle, most = np.quantile(seen, [0, 0.5, 1])
    return {
        "least_s": round(float(least), 5),
        "median_s": round(float(middle), 5),
        "most_s": round(float(most), 5),
        "echoes": len(seen),
    }


def _samples(watch: Watch, sides: dict[str, Side], first_s: float, end_s: float) -> dict[str, Any]:
    """Each second since the first tool was started: kb/s of payload that arrived, and the mean round trip."""
    count = int(end_s - first_s)
    found: dict[str, Any] = {}
    for key, side in sides.items():
        times = [each.t_s - first_s for each in watch.looks]
        at = np.interp(range(count + 1), times, [side.payload(each) for each in watch.looks])
        found[f"{key}_kbps"] = [round(8e-3 * each) for each in np.diff(at).tolist()]
    means: list[float | None] = []
    for second in range(count):
        seen = [each.rtt_s for each in watch.echoes if 0 <= each.t_s - first_s - second < 1]
        means.append(round(1e3 * statistics.mean(seen), 1) if seen else None)
    return {**found, "rtt_ms": means}
