"""What arrives at each right host, and the round trip, looked at all through a run."""

import contextlib
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.ops.tool import left, right
from howdah import HowdahError
from howdah.lab import Lab
from howdah.lab.topology import ROUTERS

EVERY_S = 0.5
PING_EVERY_S = 0.2
_START_S = 10.0
_COUNTERS = re.compile(r"^\s*(\S+):\s*(.*)$")
_SENT_BYTES, _SENT_PACKETS = 8, 9
"""Columns of /proc/net/dev."""
_ECHO = re.compile(r"^\[([\d.]+)\].*time=([\d.]+) ms")


class Look(NamedTuple):
    """What the right router had delivered to each host at an instant of the monotonic clock."""

    t_s: float
    bytes: dict[str, int]
    packets: dict[str, int]

    def payload(self, host: str, headers_bytes: int) -> int:
        """Bytes without headers; Linux hands on many segments as one packet with one header."""
        return self.bytes[host] - headers_bytes * self.packets[host]


class Echo(NamedTuple):
    t_s: float
    rtt_s: float


class Watch:
    """Looks and echoes from ``watching`` on."""

    def __init__(self, counters: Path) -> None:
        self.looks: list[Look] = []
        self.echoes: list[Echo] = []
        self.ended = threading.Event()
        self._counters = counters
        self.look()

    def look(self) -> Look:
        made = read(self._counters.read_text(encoding="ascii"), time.monotonic())
        self.looks.append(made)
        return made

    def run(self) -> None:
        while not self.ended.wait(EVERY_S):
            self.look()


def read(counters: str, t_s: float) -> Look:
    """A look, from the text of /proc/net/dev on the right router."""
    look = Look(t_s, {}, {})
    for line in counters.splitlines():
        if found := _COUNTERS.match(line):
            columns = found[2].split()
            look.bytes[found[1]] = int(columns[_SENT_BYTES])
            look.packets[found[1]] = int(columns[_SENT_PACKETS])
    return look


def echoes(said: str, monotonic_less_unix_s: float) -> list[Echo]:
    """What ``ping -D`` said."""
    return [
        Echo(float(found[1]) + monotonic_less_unix_s, float(found[2]) / 1e3)
        for found in map(_ECHO.match, said.splitlines())
        if found
    ]


@contextlib.contextmanager
def watching(wan: Lab, hosts: Sequence[int]) -> Iterator[Watch]:
    """While the block lasts; echoes, between the last of the pairs ``hosts``, are there after it."""
    pair = hosts[-1]
    words = ["ping", "-D", "-n", "-i", str(PING_EVERY_S), wan.addresses[right(pair)]]
    # In a pipe that nobody reads there is room for three minutes.
    with (
        tempfile.TemporaryFile("w+") as said,
        wan.popen(ROUTERS["far"], ["sleep", "infinity"]) as holder,
        wan.popen(left(pair), words, stdout=said) as ping,
    ):
        try:
            watch = Watch(Path(f"/proc/{_inside(holder)}/net/dev"))
            thread = threading.Thread(target=watch.run)
            thread.start()
            try:
                yield watch
            finally:
                watch.ended.set()
                thread.join()
        finally:
            ping.terminate()
            ping.wait()
            holder.kill()
            said.seek(0)
            watch.echoes += echoes(said.read(), time.monotonic() - time.time())


def _inside(holder: "subprocess.Popen[str]") -> int:
    """Its process number once it is inside; a process's own /proc shows the devices of its namespace."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and holder.poll() is None:
        pid: int | None = holder.inner_pid()  # type: ignore[attr-defined]
        if pid is not None:
            return pid
        time.sleep(0.01)
    raise HowdahError("the right router of the lab cannot be looked at")
