"""A kernel that skips a program takes what lies on the stack for its answer: no window may stay at that.

Linux itself skips none. Where one does (ARCHITECTURE.md), most of these connections had windows of millions
of segments within seconds; elsewhere the test says that the check for it takes no window for one.
"""

import collections
import contextlib
import re
import subprocess
import time
from collections.abc import Iterator

import pytest
from controls import clean_kernel
from copying import wait_until

from howdah import lab
from howdah._native import CC_PROGRAMS
from howdah.cc import programs
from howdah.lab import Lab

pytestmark = pytest.mark.lab

RATE_BPS, RTT_NS, QUEUE_BYTES = 200_000_000, 20_000_000, 500_000
PATH_SEGMENTS = (RATE_BPS / 8 * RTT_NS / 1e9 + QUEUE_BYTES) / 1538
CONTROLS = tuple(name for name in CC_PROGRAMS if name not in ("hold", "resume"))
"""Every program that finds its window itself, as long as the connection lives."""
EACH, SPAN_S = 8, 8.0
MENDED_S = 0.5
"""The next ACK that may raise a window mends it; a recovery may lie between."""
Look = tuple[float, dict[str, tuple[str, int]]]


@pytest.fixture(scope="module")
def kernel(privilege: None) -> Iterator[None]:
    yield from clean_kernel()


@pytest.mark.usefixtures("kernel")
def test_no_window_is_beyond_what_a_path_holds() -> None:
    link = lab.symmetric(RATE_BPS, RTT_NS, queue_bytes=QUEUE_BYTES, loss=0.01)
    with lab.started(link) as wan, contextlib.ExitStack() as running:
        for port, control in enumerate(CONTROLS, 5201):
            programs.load(control)
            argv = ["iperf3", "-s", "-1", "-p", str(port)]
            server = running.enter_context(wan.popen("far", argv, stdout=subprocess.DEVNULL))
            running.callback(server.kill)
        wait_until(lambda: listening(wan) == len(CONTROLS), 5)
        for port, control in enumerate(CONTROLS, 5201):
            argv = ["iperf3", "-c", wan.far_address, "-p", str(port), "-t", str(round(SPAN_S) + 4)]
            argv += ["-P", str(EACH), "-C", f"hd_{control}"]
            client = running.enter_context(wan.popen("near", argv, stdout=subprocess.DEVNULL))
            running.callback(client.kill)
        end_s = time.monotonic() + SPAN_S
        looks = [windows(wan) for _ in iter(lambda: time.monotonic() < end_s, False)]
    assert [name for name, stayed_s in beyond(looks).items() if stayed_s > MENDED_S] == []
    seen = collections.Counter(name for _, look in looks for name, _ in look.values())
    for control in CONTROLS:
        assert seen[f"hd_{control}"] > 10 * EACH


def listening(wan: Lab) -> int:
    """How many of the servers do."""
    shown = wan.run("far", ["ss", "-tlnH"], capture_output=True, text=True).stdout
    return len(re.findall(r":52\d\d ", shown))


def beyond(looks: list[Look]) -> dict[str, float]:
    """By control, for how many seconds a window stayed beyond what the path could ever hold, at most."""
    longest_s: collections.defaultdict[str, float] = collections.defaultdict(float)
    since_s: dict[str, float] = {}
    for now_s, look in looks:
        for connection, (name, window) in look.items():
            # Slow start overshoots to twice what the path holds.
            if window > 8 * PATH_SEGMENTS:
                stayed_s = now_s - since_s.setdefault(connection, now_s)
                longest_s[name] = max(longest_s[name], stayed_s)
            else:
                since_s.pop(connection, None)
    return longest_s


def windows(wan: Lab) -> Look:
    """Control and window, segments, of each connection of the near host by its port."""
    now_s = time.monotonic()
    shown = wan.run("near", ["ss", "-tinHO", "state", "established"], capture_output=True, text=True).stdout
    found = re.findall(r":(\d+)\s+\S+:52\d\d\s+(hd_\w+) .*? cwnd:(\d+)", shown)
    return now_s, {port: (name, int(window)) for port, name, window in found}
