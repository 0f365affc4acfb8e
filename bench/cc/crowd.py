"""A thousand connections: a rule takes them while they are made, and targets change while they talk."""

import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from bench.cc.held import HOLD, READY, loaded, output
from howdah import lab
from howdah.cc import programs
from howdah.cc.shares import Place

ROOT = Path(__file__).parents[2]
PORT = 7007
COUNT = 1000
LONGEST_S = 60.0
"""The connections end after this at the latest."""
END_S = 20.0
"""A round of messages on all of them takes less."""
RATES_BPS = tuple(step * 100_000 for step in range(1, 21))
"""The targets, one after the other."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of the connections."""

    asked: int
    """So many were made."""
    whole: bool
    """Every byte came back on every one."""
    moved: int
    """Were there when the rule came."""
    chosen: int
    """Were made after it."""
    controls: dict[str, int]
    """Connections on each control while the rule held."""
    rates_bps: dict[int, int]
    """Connections by the target they had after the last change."""
    given_back: int
    """Got their old control when the rule went."""

    @property
    def lost(self) -> int:
        """Connections that the kernel no longer has or that lost data."""
        return self.asked - sum(self.controls.values()) if self.whole else self.asked

    @property
    def wrong(self) -> int:
        """Connections without our control, or without the last target."""
        right = min(self.controls.get(HOLD, 0), self.rates_bps.get(RATES_BPS[-1], 0), self.given_back)
        return self.asked - right


def attach_while_targets_change(wan: lab.Lab, address: str, count: int = COUNT) -> Outcome:
    """Connections from the near host to ``address`` of the far one. ``hd_hold`` must be loaded."""
    rule, flow = Place(f"{address}/32", str(PORT)), f"{address}:{PORT}"
    with (
        _running(wan, "far", "far", PORT),
        _running(wan, "near", "near", address, PORT, count, LONGEST_S) as near,
    ):
        _hear(near, "half\n")
        attached = programs.attach(rule, HOLD, RATES_BPS[0])
        _hear(near, READY)
        for rate_bps in RATES_BPS:
            programs.set_target(rate_bps, None, flow)
        found = programs.status()
        detached = programs.detach(rule)
        near.communicate(timeout=END_S)
        whole = near.returncode == 0
    mine = [each for each in found.connections if each.remote == flow]
    targets = [each.hold.target.rate_bps for each in mine if each.hold and each.hold.target]
    return Outcome(
        asked=count,
        whole=whole,
        moved=attached.moved,
        chosen=found.rules[0].chosen,
        controls=Counter(each.control for each in mine),
        rates_bps=Counter(targets),
        given_back=detached.moved,
    )


@contextlib.contextmanager
def _running(wan: lab.Lab, host: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    argv = [sys.executable, "-m", "bench.cc.crowd_ends", *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with wan.popen(host, argv, **pipes, text=True, cwd=ROOT) as process:
        try:
            if host == "far":
                _hear(process, READY)
            yield process
        finally:
            process.kill()


def _hear(process: "subprocess.Popen[str]", wanted: str) -> None:
    if (line := output(process).readline()) != wanted:
        raise RuntimeError(f"the crowd said {line!r}, not {wanted!r}")


def measure() -> dict[str, Any]:
    link = lab.symmetric(100_000_000, 20_000_000)
    with loaded("hold"), lab.started(link) as wan:
        outcome = attach_while_targets_change(wan, wan.far_address)
        stats = wan.stats()
    return {
        "part": "crowd",
        "outcome": msgspec.to_builtins(outcome, str_keys=True),
        "lost": outcome.lost,
        "wrong": outcome.wrong,
        "link": msgspec.to_builtins(link),
        "stats": msgspec.to_builtins(stats),
    }
