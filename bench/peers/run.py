"""One copy by one tool: on the clock from the start of the command to its end, then checked."""

import dataclasses
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Literal

from bench.peers import howdah, iperf3
from bench.peers.tool import Command, Stage, Tool
from bench.peers.work import Work

TIMEOUT_S = 180.0

Purpose = Literal["start", "first", "round"]
"""``start`` copies next to nothing, ``first`` a part of the work; a ``round`` all of it."""


@dataclasses.dataclass(frozen=True)
class Run:
    """``goodput_bps`` is ``bytes`` over ``wall_s``, the whole command; None when it failed."""

    tool: str
    encrypted: bool
    work: str
    rtt_ms: float
    purpose: str
    part: float
    """The share of the whole work that was copied."""
    files: int
    bytes: int
    wall_s: float
    goodput_bps: float | None
    error: str | None
    facts: dict[str, Any]
    reckoned_s: float | None = None
    """What the whole work would take: for a tool too slow to be given all of it."""


@dataclasses.dataclass(frozen=True)
class Turn:
    """Which turn of the bench a run is."""

    rtt_ms: float
    purpose: Purpose
    part: float = 1.0
    timeout_s: float = TIMEOUT_S


def copy(tool: Tool, stage: Stage, work: Work, turn: Turn) -> Run:
    """One copy of ``work`` by ``tool``."""
    far = work.source.parent / "far"
    far.mkdir(exist_ok=True)
    far.chmod(0o777)
    destination = far / str(time.monotonic_ns())
    try:
        command = tool.command(stage, work.source, destination)
        wall_s, output, error = _timed(stage, command, turn.timeout_s)
        error = error or _difference(work.source, destination)
    finally:
        _remove(destination)
    return Run(
        tool=tool.name,
        encrypted=tool.encrypted,
        work=work.kind,
        rtt_ms=turn.rtt_ms,
        purpose=turn.purpose,
        part=turn.part,
        files=work.files,
        bytes=work.bytes,
        wall_s=wall_s,
        goodput_bps=None if error else work.bytes * 8 / wall_s,
        error=error,
        facts=howdah.facts(output) if isinstance(tool, howdah.Howdah) and output else {},
    )


def ceiling(stage: Stage, size_bytes: int, plan: dict[str, Any], turn: Turn) -> Run:
    """iperf3 with the streams and congestion control that howdah's ``plan`` chose."""
    command = iperf3.command(stage, size_bytes, plan["streams"], plan.get("congestion_control"))
    wall_s, output, error = _timed(stage, command, turn.timeout_s)
    facts = {} if error else iperf3.facts(output)
    sent = facts.get("sent_bytes", 0)
    return Run(
        tool=iperf3.NAME,
        encrypted=False,
        work="file",
        rtt_ms=turn.rtt_ms,
        purpose=turn.purpose,
        part=turn.part,
        files=0,
        bytes=sent,
        wall_s=wall_s,
        goodput_bps=None if error else sent * 8 / wall_s,
        error=error,
        facts=facts,
    )


def _timed(stage: Stage, command: Command, timeout_s: float) -> tuple[float, bytes, str | None]:
    """Seconds, standard output, and what went wrong."""
    start = time.monotonic()
    try:
        done = stage.lab.run(
            "near",
            command.argv,
            env=command.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return time.monotonic() - start, b"", f"not done after {timeout_s:g} s"
    wall_s = time.monotonic() - start
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        return wall_s, done.stdout, f"exit code {done.returncode}: {said[-500:] or 'it said nothing'}"
    return wall_s, done.stdout, None


def _difference(source: Path, destination: Path) -> str | None:
    """What did not arrive as it was; xrdcp puts a folder into the destination under its name."""
    inside = destination / source.name
    arrived = inside if source.is_dir() and inside.is_dir() else destination
    result = subprocess.run(
        ["diff", "--recursive", "--brief", source, arrived], capture_output=True, text=True, check=False
    )
    return (
        None
        if result.returncode == 0
        else f"not copied right: {(result.stdout + result.stderr)[:300].strip()}"
    )


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
