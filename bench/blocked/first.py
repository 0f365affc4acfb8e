"""First copies to a host with sshd, busybox and nothing else, and second ones: when is what there?

The clock is one, for all hosts are on this machine. A tap at the near host has the segments of ssh, and the
files of the far host show when its command has found that no far end is there, and when one is.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.bare import Bare
from bench.blocked import flights, tap
from bench.blocked.flights import Flight, Segment
from bench.parts import Run
from bench.peers import howdah, work
from howdah import HowdahError, lab
from howdah.lab import Lab
from howdah.remote.far_command import Brought, brought

PART = "first"
FIRST, SECOND = "first", "second"
RATE_BPS = 10**9
RTTS_MS = (100, 200)
ROUNDS = 7
FILE_BYTES = 1 << 20
_CACHE = "home/.cache/howdah"
_LOOK_S = 0.001
_LONGEST_S = 60.0


def measure(rounds: int) -> Iterator[Run]:
    """The copies of each round, over both round trips in turns.

    Needs root; raises HowdahError where there is no far end to bring, or no lab can be made.
    """
    program = brought()
    if program is None:
        raise HowdahError("no far end to bring was built here; run scripts/far.sh")
    with work.scratch(2 * FILE_BYTES, 1 << 29) as scratch:
        source = work.one_file(scratch / work.LARGE / "file", FILE_BYTES).source
        for number in range(rounds):
            for rtt_ms in RTTS_MS[:: -1 if number % 2 else 1]:
                folder = scratch / f"{number}-{rtt_ms}"
                folder.mkdir()
                link = lab.symmetric(RATE_BPS, rtt_ms * 1_000_000)
                with lab.started(link, sshd=True) as wan:
                    host = Bare(wan, folder)
                    with host.behind_the_key():
                        for which in (FIRST, SECOND):
                            about = {"part": PART, "rtt_ms": rtt_ms, "round": number, "which": which}
                            yield about | copy(wan, host, source, program, rtt_ms / 1e3)


def copy(wan: Lab, host: Bare, source: Path, program: Brought, rtt_s: float) -> Run:
    """One copy to a bare host, with a login of its own. Times are from the start of the command.

    Raises RuntimeError where the tap has missed a segment.
    """
    env = {**os.environ, "XDG_DATA_HOME": str(host.root.parent / "data"), "HOWDAH_SSH_KEEP_S": "0"}
    argv = [str(howdah.PROGRAM), "cp", "--json", "--bring", str(source), "far:/tmp/there"]
    inodes = [file.stat().st_ino for file in host.kept()]
    with _tapped(wan) as segments, tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as errors:
        began_s, clock_s = time.time(), time.monotonic()
        with wan.popen("near", argv, env=env, stdout=said, stderr=errors) as process:
            nothing: dict[str, float | None] = {"asked_s": None, "whole_s": None}
            seen = nothing if inodes else _watched(process, host.root / _CACHE, clock_s)
            try:
                code = process.wait(_LONGEST_S)
            except subprocess.TimeoutExpired:
                process.kill()
                code = None
        wall_s = time.monotonic() - clock_s
        errors.seek(0)
        complaint = errors.read().decode(errors="replace").strip()[-300:]
    there = host.root / "tmp/there"
    error = None
    if code:
        error = complaint or f"exit code {code}"
    elif code is None:
        error = f"not done after {_LONGEST_S:g} s"
    elif subprocess.run(["cmp", "--silent", source, there], check=False).returncode:
        error = "what has arrived is not what was sent"
    there.unlink(missing_ok=True)
    relative = [Segment(each.at_s - began_s, each.sent, each.bytes) for each in segments]
    return {
        "error": error,
        "wall_s": wall_s,
        "sent_bytes": sum(each.bytes for each in relative if each.sent),
        "packed_bytes": program.packed_bytes,
        "kept": bool(inodes) and inodes == [file.stat().st_ino for file in host.kept()],
        **seen,
        **phases(flights.flights(relative, rtt_s), seen["whole_s"], program.packed_bytes),
    }


def phases(of_copy: list[Flight], whole_s: float | None, packed_bytes: int) -> Run:
    """When the first and the last byte of the program left, and all flights."""
    carrying = flights.of_program(of_copy, whole_s)
    arrived = sum(each.bytes for each in carrying) >= packed_bytes
    return {
        "first_s": carrying[0].began_s if arrived else None,
        "last_s": carrying[-1].ended_s if arrived else None,
        "flights": [
            [each.sent, round(each.began_s, 6), round(each.ended_s, 6), each.bytes] for each in of_copy
        ],
    }


def _watched(process: "subprocess.Popen[Any]", folder: Path, clock_s: float) -> Run:
    """When the far command had found that no far end is there, and when one was under its name."""
    seen: dict[str, float | None] = {"asked_s": None, "whole_s": None}
    while process.poll() is None and seen["whole_s"] is None:
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(folder):  # noqa: PTH208, every millisecond
                what = "whole_s" if name.startswith("far-") else "asked_s"
                seen[what] = seen[what] or time.monotonic() - clock_s
        time.sleep(_LOOK_S)
    return seen


@contextlib.contextmanager
def _tapped(wan: Lab) -> Iterator[list[Segment]]:
    """The segments of ssh at the near host; they are there when the block has ended."""
    found: list[Segment] = []
    argv = [sys.executable, str(Path(tap.__file__))]
    with wan.popen("near", argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise RuntimeError("the tap at the near host did not start")
        yield found
        output, _ = process.communicate()
    told = json.loads(output)
    if told["dropped"]:
        raise RuntimeError(f"the tap at the near host missed {told['dropped']} segments")
    found += [Segment(*each) for each in told["segments"]]
