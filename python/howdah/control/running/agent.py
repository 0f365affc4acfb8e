"""An agent at work: its core joined to the bus, the clock and the kernel of its host.

``serve`` and ``follow`` are the work of ``howdah control serve`` and ``howdah control agent``.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from howdah import HowdahError
from howdah.control.bus import Bus, Watch
from howdah.control.bus.leadership import boottime_ns
from howdah.control.leases.agent import LOOK_NS, Agent, Kernel
from howdah.control.leases.messages import Call, Grant, Places, Report, agent_keys, decode, keys_about
from howdah.control.policy import Policy
from howdah.control.policy.members import Member
from howdah.control.running.controller import RunningController
from howdah.control.running.operations import Operations
from howdah.control.running.outbox import Complaints, Outbox, Tell, together

FIRST_LEASE_NS = 2_000_000_000
"""The lease that sets the beat until a Grant does."""
_PATIENCE_S = 0.5
_S = 1_000_000_000


class RunningAgent:
    """An agent that runs until cancelled. What is in force then stays so, until its leases run out."""

    def __init__(
        self,
        name: str,
        bus: Bus,
        kernel: Kernel,
        *,
        tell: Tell = lambda line: None,
        clock_ns: Callable[[], int] = boottime_ns,
    ) -> None:
        """``tell`` gets a line for each thing that people should know."""
        self.name = name
        self._bus = bus
        self._kernel = kernel
        self._core = Agent(name, time.time_ns() // 1000, kernel, FIRST_LEASE_NS)
        self._members: Mapping[str, Member] | None = None
        self._lent: frozenset[str] = frozenset()
        self._lends = asyncio.Event()
        self._clock_ns = clock_ns
        self._complaints = Complaints(tell)
        self._outbox = Outbox(bus, _PATIENCE_S, lambda line: tell(f"agent of {name}: {line}"))

    async def run(self) -> None:
        """Reports, and obeys the controller. Raises HowdahError when the bus refuses."""
        async with self._bus.watch(agent_keys(self.name)) as told:
            await together(self._outbox.run(), self._beat(), self._look(), self._obey(told))

    async def leave(self) -> None:
        """Puts everything back once ``run`` has ended, and takes its messages from the bus."""
        self._kernel.leave()
        with suppress(HowdahError, TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                for key in keys_about(self.name):
                    await self._bus.delete(key)

    async def _beat(self) -> None:
        while True:
            self._say(self._core.tick(self._clock_ns()))
            self._place()
            await asyncio.sleep((self._core.wake_ns - self._clock_ns()) / _S)

    async def _look(self) -> None:
        while True:
            await self._lends.wait()
            self._say(self._core.look(self._lent, self._clock_ns()))
            await asyncio.sleep(LOOK_NS / _S)

    async def _obey(self, told: Watch) -> None:
        async for change in told:
            if change.value is None:
                continue
            try:
                self._ingest(change.key, change.value)
                self._complaints.right(change.key)
            except HowdahError as error:
                self._complaints.wrong(change.key, error)

    def _ingest(self, key: str, value: bytes) -> None:
        match key.rpartition(".")[2]:
            case "places":
                places = decode(value, Places, key)
                self._members, self._lent = places.members, places.lent
                if self._lent:
                    self._lends.set()
            case "grant":
                self._say(self._core.receive(decode(value, Grant, key), self._clock_ns()))
            case "call":
                self._say(self._core.receive(decode(value, Call, key), self._clock_ns()))
        self._place()

    def _place(self) -> None:
        """Places members also without a message: a cgroup comes and goes with its service."""
        placed: Collection[str] = ()
        if self._members is not None:
            try:
                missing = self._kernel.place(self._members)
            except HowdahError as error:
                self._complaints.wrong("members", error)
            else:
                placed = self._members
                self._tell_missing(missing)
        self._say(self._core.place(placed, self._clock_ns()))

    def _tell_missing(self, cgroups: Collection[str]) -> None:
        if cgroups:
            why = f"waiting for {', '.join(cgroups)}: no such cgroup on this host"
            self._complaints.wrong("members", HowdahError(why))
        else:
            self._complaints.right("members")

    def _say(self, report: Report | None) -> None:
        if report is not None:
            self._outbox.put(report)


Attend = Callable[[Operations], Coroutine[Any, Any, None]]
"""Serves people until cancelled."""


async def serve(  # noqa: PLR0917
    name: str, policy: Policy, bus: Bus, kernels: Mapping[str, Kernel], attend: Attend, tell: Tell
) -> None:
    """Runs a controller, agents of the hosts whose ``kernels`` are here, and ``attend``, until cancelled."""
    controller = RunningController(name, policy, bus, tell=tell)
    await follow(bus, kernels, tell, controller.run(), attend(Operations(controller)))


async def follow(
    bus: Bus, kernels: Mapping[str, Kernel], tell: Tell, *work: Coroutine[Any, Any, None]
) -> None:
    """Runs agents, for a controller elsewhere or in ``work`` beside them, until cancelled."""
    agents = [RunningAgent(name, bus, kernel, tell=tell) for name, kernel in kernels.items()]
    try:
        await together(*work, *(agent.run() for agent in agents))
    finally:
        for agent in agents:
            await agent.leave()
