"""A controller at the issue's load: 50 agents, 1,000 flows, 100 changes a second: ``make bench-control``.

Each change gives a class another weight, which moves all 1,000 shares. It is in force when every agent has
confirmed that. Agents run over tables in memory: what the kernel takes is measured elsewhere. Over NATS the
controller is a process of its own, and its share of a core is its alone; in one process it is that of all.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from bench.nats_server import NatsServer
from bench.report import Row, Target, publish
from howdah.control.bus import Bus, opened
from howdah.control.leases.agent import Held
from howdah.control.leases.messages import Measured
from howdah.control.policy.members import Member
from howdah.control.policy.policyfile import loads
from howdah.control.running.agent import RunningAgent
from howdah.control.running.controller import RunningController
from howdah.control.running.operations import Operations
from howdah.control.running.outbox import together

AGENTS, CLASSES = 50, 20
CHANGES_PER_S = 100
LASTING_S = 10.0
QUIET_S = 3.0
"""Before that, for all to have begun."""


class Table:
    """A kernel that takes no time."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}

    def held(self) -> dict[str, Held]:
        return dict(self._held)

    def hold(self, flow: str, held: Held) -> None:
        self._held[flow] = held

    def release(self, flow: str) -> None:
        del self._held[flow]

    def measured(self) -> dict[str, Measured]:
        return dict.fromkeys(self._held, Measured(10**12, 10**12, 4))

    def place(self, members: Mapping[str, Member]) -> list[str]:
        return []

    def leave(self) -> None:
        self._held.clear()


_CPU = {"one process": None, "NATS": Target.at_most(50.0)}
"""Over NATS it is the controller's alone; in one process also that of fifty agents."""


def main() -> int:
    options = _options()
    if options.controller:
        print(json.dumps(asyncio.run(_controller(options.controller))))
        return 0
    runs = [{"bus": "one process", **asyncio.run(_one_process())}, {"bus": "NATS", **_over_nats()}]
    met = publish("control", [row for run in runs for row in rows(run)], runs, keep=options.keep)
    return 0 if met else 1


def rows(run: dict[str, Any]) -> list[Row]:
    return [
        Row(f"{run['bus']}: a change in force, median", run["change_s"] * 1e3, "ms", Target.at_most(50.0)),
        Row(f"{run['bus']}: the same, 99 in 100", run["change_p99_s"] * 1e3, "ms"),
        Row(f"{run['bus']}: one change alone", run["alone_s"] * 1e3, "ms"),
        Row(f"{run['bus']}: a core's share at rest", run["rest_cpu"] * 100, "%"),
        Row(f"{run['bus']}: the same at {CHANGES_PER_S} changes/s", run["cpu"] * 100, "%", _CPU[run["bus"]]),
    ]


async def _one_process() -> dict[str, float]:
    found: dict[str, float] = {}
    async with opened() as bus:
        await together(_controlled(bus, found), *_agents(bus))
    return found


def _over_nats() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="howdah-bench-") as folder, NatsServer(Path(folder)) as server:
        words = [sys.executable, "-m", "bench.control", "--controller", server.url]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            asyncio.run(_agents_until(server.url, process))
            out, _ = process.communicate()
    found: dict[str, float] = json.loads(out)
    return found


async def _agents_until(url: str, process: subprocess.Popen[str]) -> None:
    async with opened(url) as bus:
        await together(asyncio.to_thread(process.wait), *_agents(bus))  # type: ignore[arg-type]


async def _controller(url: str) -> dict[str, float]:
    found: dict[str, float] = {}
    async with opened(url) as bus:
        await _controlled(bus, found)
    return found


def _agents(bus: Bus) -> list[Coroutine[Any, Any, None]]:
    return [RunningAgent(f"h{number}", bus, Table()).run() for number in range(AGENTS)]


async def _controlled(bus: Bus, found: dict[str, float]) -> None:
    lines = ['name = "load"', 'guarantee = "10Gbit"']
    for number in range(CLASSES):
        lines += [f"[class.c{number}]", 'minimum = "0.1%"']
        for agent in range(AGENTS):
            lines += [f"[[class.c{number}.member]]", f'host = "h{agent}"', f'to = "10.0.{number}.0/24"']
    controller = RunningController("bench", loads("\n".join(lines), "load"), bus)
    await together(controller.run(), _load(controller, found))


async def _load(controller: RunningController, found: dict[str, float]) -> None:
    operations = Operations(controller)
    await _settled(controller, 0)
    await asyncio.sleep(QUIET_S)
    found["rest_cpu"] = await _cpu(asyncio.sleep(QUIET_S))
    found["alone_s"] = statistics.median([await _change(operations, controller, each) for each in range(11)])
    changes: list[asyncio.Task[float]] = []
    found["cpu"] = await _cpu(_pace(operations, controller, changes))
    spent_s = await asyncio.gather(*changes)
    found["change_s"] = statistics.median(spent_s)
    found["change_p99_s"] = statistics.quantiles(spent_s, n=100)[-1]


async def _pace(
    operations: Operations, controller: RunningController, changes: list[asyncio.Task[float]]
) -> None:
    start_s = time.perf_counter()
    for number in range(round(LASTING_S * CHANGES_PER_S)):
        await asyncio.sleep(max(0.0, start_s + number / CHANGES_PER_S - time.perf_counter()))
        changes.append(asyncio.create_task(_change(operations, controller, number)))


async def _change(operations: Operations, controller: RunningController, number: int) -> float:
    start_s = time.perf_counter()
    revision = await operations.change(f"c{number % CLASSES}", {"weight": 1 + number % 97})
    await _settled(controller, revision)
    return time.perf_counter() - start_s


async def _settled(controller: RunningController, revision: int) -> None:
    while controller.revision < revision or controller.core.settled(controller.clock_ns()) is None:
        await controller.newer(controller.version)


async def _cpu(work: Coroutine[Any, Any, None]) -> float:
    """The share of a core that this process takes meanwhile."""
    start_s, cpu_s = time.perf_counter(), time.process_time()
    await work
    return (time.process_time() - cpu_s) / (time.perf_counter() - start_s)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.control", description=__doc__)
    parser.add_argument("--controller", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="leave bench/results as it is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
