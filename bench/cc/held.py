"""A lab whose hosts hold a rate with ``hd_hold``, and programs in it that talk to each other."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any

from howdah import HowdahError, lab
from howdah.cc import programs
from howdah.lab import hosts
from howdah.values.link import LinkSpec

HOLD = "hd_hold"
PORT = 5304
WINDOW_SEGMENTS = 200_000
"""The receiver's first window, as the paper sets it: more than a whole transfer."""
TOUCHED_BYTES = 2**30
READY = "ready\n"


@contextlib.contextmanager
def loaded(*names: str) -> Iterator[None]:
    """Our programs in the kernel while the block lasts. Raises HowdahError where one is there already."""
    used = [each.name for each in programs.listed() if each.name in names and each.in_kernel]
    if used:
        raise HowdahError(f"{used[0]} is loaded on this host; first: howdah cc unload {used[0]}")
    with contextlib.ExitStack() as stack:
        for name in names:
            programs.load(name)
            stack.callback(programs.unload, name)
        yield


@contextlib.contextmanager
def holding(link: LinkSpec, rate_bps: int) -> Iterator[lab.Lab]:
    """Both hosts hold ``rate_bps`` on each connection."""
    with loaded("hold"):
        programs.set_target(rate_bps, None, None)
        with held_lab(link) as wan:
            yield wan


@contextlib.contextmanager
def held_lab(link: LinkSpec) -> Iterator[lab.Lab]:
    """Both hosts use ``hd_hold``, which is loaded."""
    with lab.started(link, congestion_control=HOLD) as wan:
        open_window(wan)
        yield wan


def open_window(wan: lab.Lab) -> None:
    """The far host offers a whole transfer at once, in memory that has been used before."""
    route = f"{wan.near_address} dev wan0 src {wan.far_address} initrwnd {WINDOW_SEGMENTS}"
    wan.run("far", ["ip", "route", "replace", *route.split()], check=True)
    hosts.touch_buffers(TOUCHED_BYTES)


def end(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "bench.cc.ends", *map(str, arguments)]


@contextlib.contextmanager
def listening(wan: lab.Lab, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """A program of bench.cc.ends on the far host that is ready for its connection."""
    with wan.popen("far", end(*arguments), stdout=subprocess.PIPE, text=True) as process:
        try:
            if output(process).readline() != READY:
                raise SystemExit(f"{arguments} did not start")
            yield process
        finally:
            process.kill()


def output(process: "subprocess.Popen[str]") -> IO[str]:
    """The standard output of a process that was started with a pipe for it."""
    if process.stdout is None:
        raise ValueError("the process was started without a pipe for its output")
    return process.stdout


def said(wan: lab.Lab, argv: Sequence[str], timeout_s: float) -> Any:  # noqa: ANN401, JSON
    """Runs ``argv`` on the near host to its end; what it printed."""
    done = wan.run("near", argv, capture_output=True, check=True, timeout=timeout_s)
    return json.loads(done.stdout)
