"""A controlled path in virtual time: controllers and agents on one bus, over hosts that send all they may."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import virtual

from howdah.control.bus import Bus, Entry, LocalBus, Unreachable, Watch
from howdah.control.leases.agent import Held
from howdah.control.leases.messages import Measured
from howdah.control.policy import Policy
from howdah.control.policy.members import Member
from howdah.control.running.agent import RunningAgent
from howdah.control.running.controller import RunningController
from howdah.control.running.operations import Operations

T = TypeVar("T")
BOOTED_NS = 10**15
"""The hosts have been up for a while."""


def now_ns() -> int:
    return BOOTED_NS + round(asyncio.get_running_loop().time() * 1e9)


class Table:
    """A kernel whose flows have data unless they are ``silent``, and which outlives its agents."""

    def __init__(self, clock_ns: Callable[[], int] = now_ns) -> None:
        self.placed: dict[str, Member] = {}
        self.silent: set[str] = set()
        self._clock_ns = clock_ns
        self._held: dict[str, Held] = {}
        self._sent_bits: dict[str, float] = {}
        self._last_ns = 0

    def held(self) -> dict[str, Held]:
        return dict(self._held)

    def hold(self, flow: str, held: Held) -> None:
        self._send()
        self._held[flow] = held

    def release(self, flow: str) -> None:
        self._send()
        del self._held[flow]

    def measured(self) -> dict[str, Measured]:
        self._send()
        return {
            flow: Measured(int(bits // 8), int(bits // 16), 3, 0 if flow in self.silent else 2)
            for flow, bits in self._sent_bits.items()
        }

    def place(self, members: Mapping[str, Member]) -> list[str]:
        self.placed = dict(members)
        return []

    def leave(self) -> None:
        self.placed.clear()
        self._held.clear()

    def rates_bps(self) -> dict[str, int]:
        return {flow: self._rate_bps(held, self._clock_ns()) for flow, held in self._held.items()}

    def _rate_bps(self, held: Held, at_ns: int) -> int:
        return held.rate_bps if at_ns < held.until_ns else held.minimum_bps

    def _send(self) -> None:
        at_ns = self._clock_ns()
        for flow, held in self._held.items():
            bits = (flow not in self.silent) * self._rate_bps(held, at_ns) * (at_ns - self._last_ns) / 1e9
            self._sent_bits[flow] = self._sent_bits.get(flow, 0) + bits
        self._last_ns = at_ns


class Line(Bus):
    """One party's way to the bus that all share, which can be cut."""

    forgets = False
    connection = 0

    def __init__(self, shared: LocalBus) -> None:
        self._shared = shared
        self.is_cut = False
        self.delay_s = 0.0
        self.puts: list[tuple[float, str]] = []

    async def put(self, key: str, value: bytes, *, ttl_s: int | None = None) -> int:
        self._check()
        self.puts.append((asyncio.get_running_loop().time(), key))
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        return await self._shared.put(key, value, ttl_s=ttl_s)

    async def get(self, key: str) -> Entry | None:
        self._check()
        return await self._shared.get(key)

    async def swap(self, key: str, value: bytes, expected: int) -> int | None:
        self._check()
        return await self._shared.swap(key, value, expected)

    async def delete(self, key: str) -> int:
        self._check()
        return await self._shared.delete(key)

    @asynccontextmanager
    async def watch(self, prefix: str = "") -> AsyncIterator[Watch]:
        async with self._shared.watch(prefix) as watch:
            yield watch

    async def close(self) -> None:
        """The shared one stays."""

    def _check(self) -> None:
        if self.is_cut:
            raise Unreachable("the line is cut")


class Path:
    """Everything of one policy."""

    def __init__(self, policy: Policy, shared: LocalBus) -> None:
        self.policy = policy
        self.bus = shared
        self.told: list[str] = []
        self.tables: dict[str, Table] = {flow.member.agent: Table() for flow in policy.flows}
        self.running: dict[str, RunningAgent] = {}
        """The agents, by host; the newest of each."""
        self.delay_s = 0.0
        """Of what a party that comes from now on puts on the bus."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._lines: dict[str, Line] = {}

    def controller(self, name: str) -> Operations:
        line = self._line(name)
        controller = RunningController(name, self.policy, line, tell=self.told.append, clock_ns=now_ns)
        self._tasks[name] = asyncio.create_task(controller.run())
        return Operations(controller)

    def agent(self, name: str) -> RunningAgent:
        line = self._line(name)
        agent = RunningAgent(name, line, self.tables[name], tell=self.told.append, clock_ns=now_ns)
        self.running[name] = agent
        self._tasks[name] = asyncio.create_task(agent.run())
        return agent

    def agents(self) -> None:
        for name in self.tables:
            self.agent(name)

    async def kill(self, name: str) -> None:
        """As SIGKILL does: nothing it would say at its end is said."""
        self._lines[name].is_cut = True
        await self.stop(name)

    async def stop(self, name: str) -> None:
        task = self._tasks.pop(name)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def ended(self, name: str) -> None:
        """Waits until one ends by itself, and raises what it raised."""
        await self._tasks.pop(name)

    def _line(self, name: str) -> Line:
        line = self._lines[name] = Line(self.bus)
        line.delay_s = self.delay_s
        return line

    def rates_bps(self) -> dict[str, int]:
        """In force now."""
        return {flow: rate for table in self.tables.values() for flow, rate in table.rates_bps().items()}

    async def begun(self) -> Operations:
        """A controller, ``one``, and all agents, once what the policy says is in force."""
        operations = self.controller("one")
        self.agents()
        await self.settle(operations)
        return operations

    async def settle(self, operations: Operations, revision: int = 0) -> float:
        """Waits until what is ordered is in force; how long that took."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        while True:
            status = operations.status()
            if status.settled and status.revision >= revision:
                return loop.time() - begun_s
            assert loop.time() < begun_s + 30, "it never settles"
            await asyncio.sleep(0.001)


def never_too_much(path: Path) -> None:
    with suppress(RuntimeError):
        assert sum(path.rates_bps().values()) <= path.policy.trusted_bps


def played(
    policy: Policy,
    play: Callable[[Path], Coroutine[Any, Any, T]],
    each: Callable[[Path], None] = lambda path: None,
) -> T:
    """What ``play`` returns; ``each`` is called at every instant, when all of it has happened."""
    paths: list[Path] = []

    async def main() -> T:
        async with LocalBus() as bus:
            path = Path(policy, bus)
            paths.append(path)
            try:
                return await play(path)
            finally:
                for name in list(path._tasks):
                    with suppress(Exception):
                        await path.stop(name)

    return virtual.run(main(), lambda: each(paths[0]) if paths else None)
