"""The bus, in one process and over a NATS server on loopback: ``make bench-bus``.

Writer and watcher are two parties in one process, so what a change costs both is spent on one core. The
server is set up as docs/bus.md says: each change is on disk before it is answered. Nothing here needs
privilege or a lab.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.nats_server import NatsServer
from bench.report import Row, Target, publish
from howdah.control.bus import Bus, LocalBus, Watch
from howdah.control.bus.jetstream import JetStreamBus
from howdah.control.bus.leadership import stand

KEYS = 1_000
CHANGES_PER_S = 100
"""The issue: 1,000 flows, 100 changes a second."""
PACED_S = 10.0
PUTS = 5_000
AT_ONCE = 64
VALUE_BYTES = 200
TTL_S = 1.0
TAKEOVERS = 7


def main() -> int:
    options = _options()
    runs = [{"bus": "one process", **asyncio.run(_local())}]
    with tempfile.TemporaryDirectory(prefix="howdah-bench-") as folder, _server(Path(folder)) as server:
        runs.append({"bus": "NATS", **asyncio.run(_nats(server))})
    met = publish("bus", [row for run in runs for row in rows(run)], runs, keep=options.keep)
    return 0 if met else 1


def rows(run: dict[str, Any]) -> list[Row]:
    """Of the 50 ms that the issue allows a change until it is in force, the bus may take a tenth."""

    def row(what: str, name: str, unit: str, target: Target | None = None, scale: float = 1.0) -> list[Row]:
        return [Row(f"{run['bus']}: {what}", run[name] * scale, unit, target)] if name in run else []

    return [
        *row("a put, until it is answered, median", "put_s", "ms", scale=1e3),
        *row("a change, until another party has it, median", "seen_s", "ms", Target.at_most(5.0), 1e3),
        *row("the same, 99 in 100", "seen_p99_s", "ms", Target.at_most(50.0), 1e3),
        *row(
            f"a core's share at {CHANGES_PER_S} changes/s, both parties",
            "cpu",
            "%",
            Target.at_most(25.0),
            100,
        ),
        *row("the same, the server", "server_cpu", "%", scale=100),
        *row("puts, one after another", "puts_per_s", "1/s"),
        *row(f"puts, {AT_ONCE} at once", "puts_at_once_per_s", "1/s"),
        *row(f"a new watch, until it knows {KEYS:,} keys", "start_s", "ms", scale=1e3),
        *row(
            f"takeover, terms of {TTL_S:g} s, the longest of {TAKEOVERS}",
            "takeover_s",
            "s",
            Target.at_most(2.0),
        ),
    ]


def _server(folder: Path) -> NatsServer:
    return NatsServer(folder, settings={"jetstream": {"store_dir": str(folder), "sync_interval": "always"}})


async def _local() -> dict[str, Any]:
    async with LocalBus() as bus:
        return await _measure(bus, bus, os.getpid())


async def _nats(server: NatsServer) -> dict[str, Any]:
    async with (
        await JetStreamBus.connect(server.url) as writer,
        await JetStreamBus.connect(server.url) as watcher,
    ):
        return {
            **await _measure(writer, watcher, server.pid or os.getpid()),
            "takeover_s": max([await _takeover(server.url, watcher) for _ in range(TAKEOVERS)]),
        }


async def _measure(writer: Bus, watcher: Bus, server_pid: int) -> dict[str, Any]:
    value = bytes(VALUE_BYTES)
    answered = [await _timed(partial(writer.put, _key(number), value)) for number in range(PUTS)]
    at_once_s = await _timed(lambda: _put_at_once(writer, value))
    start_s = await _timed(lambda: _read_all(watcher))
    return {
        "put_s": statistics.median(answered),
        "puts_per_s": PUTS / sum(answered),
        "puts_at_once_per_s": PUTS / at_once_s,
        "start_s": start_s,
        **await _paced(writer, watcher, server_pid),
    }


async def _paced(writer: Bus, watcher: Bus, server_pid: int) -> dict[str, float]:
    """Changes at the issue's rate: how late another party has them, and what that costs."""
    changes = round(PACED_S * CHANGES_PER_S)
    async with watcher.watch("paced.") as watch:
        reading = asyncio.create_task(_read_times(watch, changes))
        start_s, cpu_s, server_s = time.perf_counter(), time.process_time(), _cpu_s(server_pid)
        for number in range(changes):
            await asyncio.sleep(max(0.0, start_s + number / CHANGES_PER_S - time.perf_counter()))
            padding = bytes(VALUE_BYTES - 8)
            await writer.put(f"paced.{_key(number)}", time.perf_counter_ns().to_bytes(8) + padding)
        late_s = await reading
        elapsed_s = time.perf_counter() - start_s
        cpu_s, server_s = time.process_time() - cpu_s, _cpu_s(server_pid) - server_s
    found = {
        "seen_s": statistics.median(late_s),
        "seen_p99_s": statistics.quantiles(late_s, n=100)[-1],
        "cpu": cpu_s / elapsed_s,
    }
    return found if server_pid == os.getpid() else {**found, "server_cpu": server_s / elapsed_s}


async def _read_times(watch: Watch, changes: int) -> list[float]:
    late_s = []
    for _ in range(changes):
        sent_ns = int.from_bytes(((await anext(watch)).value or b"")[:8])
        late_s.append((time.perf_counter_ns() - sent_ns) / 1e9)
    return late_s


async def _takeover(url: str, bus: Bus) -> float:
    """From a leader's going without a word to the next one's term."""
    leader_bus = await JetStreamBus.connect(url)
    async with stand(leader_bus, "control", ttl_s=TTL_S) as leader:
        await leader.won()
        async with stand(bus, "control", ttl_s=TTL_S) as follower:
            await asyncio.sleep(TTL_S)
            await leader_bus.close()
            return await _timed(follower.won)


async def _put_at_once(bus: Bus, value: bytes) -> None:
    numbers = iter(range(PUTS))
    await asyncio.gather(*(_put_each(bus, numbers, value) for _ in range(AT_ONCE)))


async def _put_each(bus: Bus, numbers: Iterator[int], value: bytes) -> None:
    for number in numbers:
        await bus.put(_key(number), value)


async def _read_all(bus: Bus) -> None:
    async with bus.watch("flow.") as watch:
        for _ in range(KEYS):
            await anext(watch)


async def _timed(do: Callable[[], Awaitable[object]]) -> float:
    start_s = time.perf_counter()
    await do()
    return time.perf_counter() - start_s


def _key(number: int) -> str:
    return f"flow.{number % KEYS}"


def _cpu_s(pid: int) -> float:
    """proc_pid_stat(5), fields 14 and 15."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.bus", description=__doc__)
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="leave bench/results as it is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
