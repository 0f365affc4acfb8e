"""Runs bench/probes.py on the hosts of a lab: what one sends, and what of it another gets."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from howdah.lab import Lab

ROOT = Path(__file__).parents[1]
PORT = 5301
WIRE_BYTES = 1538
PAYLOAD_BYTES = 1448
"""Of a full-sized segment: Ethernet's 38 bytes, IP and TCP with timestamps come beside."""


def output(process: "subprocess.Popen[Any]") -> IO[Any]:
    """The standard output of a process that was started with a pipe for it."""
    if process.stdout is None:
        raise ValueError("the process was started without a pipe for its output")
    return process.stdout


def probe(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "bench.probes", *map(str, arguments)]


@contextlib.contextmanager
def ready(
    wan: Lab, host: str, argv: list[str], *, stdin: int | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """A program of this repository on a host, from its line ``ready`` on. Raises SystemExit without that."""
    with wan.popen(host, argv, stdin=stdin, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            if output(process).readline() != "ready\n":
                raise SystemExit(f"{' '.join(argv)} did not start on {host}")
            yield process
        finally:
            process.kill()


def serving(
    wan: Lab, *arguments: object, host: str = "far"
) -> contextlib.AbstractContextManager["subprocess.Popen[str]"]:
    """A probe that says ``ready`` before anything is sent to it."""
    return ready(wan, host, probe(*arguments))


def received(
    wan: Lab, skip_s: float, span_s: float, *, source: str = "near", sink: str = "far", port: int = PORT
) -> dict[str, float]:
    """The payload ``bytes`` of one TCP connection in some ``span_s``, after ``skip_s``."""
    with serving(wan, "sink", port, skip_s, span_s, host=sink) as server:
        argv = probe("source", wan.addresses[sink], port, skip_s + span_s + 20)
        with wan.popen(source, argv, cwd=ROOT, stdout=subprocess.DEVNULL) as sending:
            measured: dict[str, float] = json.loads(output(server).read())
            sending.kill()
    return measured


def wire_bps(measured: dict[str, float]) -> float:
    """What was received, as a rate on the wire."""
    return measured["bytes"] * 8 / measured["span_s"] * WIRE_BYTES / PAYLOAD_BYTES


def echoes_ns(
    wan: Lab, count: int, gap_s: float, *, source: str = "near", to: str = "far", after_s: float = 0
) -> list[int]:
    """Round trips by ICMP, from ``after_s`` on."""
    time.sleep(after_s)
    argv = probe("echo", wan.addresses[to], count, gap_s)
    result = wan.run(source, argv, capture_output=True, check=True, cwd=ROOT, timeout=60)
    return list(json.loads(result.stdout))


def thrown(
    wan: Lab,
    writes: int,
    rate_bps: float = 1e9,
    *,
    source: str = "near",
    sink: str = "far",
    port: int = PORT,
) -> tuple[int, dict[str, int]]:
    """How many datagrams offloaded writes sent, and what was caught of them."""
    with serving(wan, "catch", port, host=sink) as receiver:
        argv = probe("throw", wan.addresses[sink], port, writes, rate_bps)
        result = wan.run(source, argv, capture_output=True, check=True, cwd=ROOT, timeout=60)
        return json.loads(result.stdout)["datagrams"], json.loads(output(receiver).read())
