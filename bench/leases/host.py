"""A sending host: its clock, its kernel's table of shares, and its agent, which may die alone."""

from collections.abc import Mapping

from bench.leases.clock import Clock
from bench.leases.ground import Ground
from howdah.control.leases.agent import AFTER_NS, Agent, Held
from howdah.control.leases.messages import Call, Grant, Measured, Report

KILLED_WRITING = 0.01


class Killed(Exception):
    """The agent died between two writes to the kernel."""


class Host:
    """A host; to its agent, its kernel."""

    def __init__(self, ground: Ground, name: str, minimums_bps: Mapping[str, int], clock: Clock) -> None:
        self.name = name
        self.minimums_bps = minimums_bps
        self.agent: Agent | None = None
        self.obeys: Grant | None = None
        """What its agent is being told."""
        self._ground = ground
        ground.agents[name] = self.deliver
        self._clock = clock
        self._table: dict[str, Held] = {}
        self._silent: frozenset[str] = frozenset()
        """Flows with nothing to send."""

    def may_fall_to(self, minimums_bps: Mapping[str, int]) -> None:
        """A policy with these minimums may come to be in force, or not yet."""
        self.minimums_bps = {
            flow: min(minimum, minimums_bps[flow]) for flow, minimum in self.minimums_bps.items()
        }

    def rates_bps(self, now_ns: int) -> dict[str, int]:
        """What is really in force, by flow."""
        shown_ns = self._clock.read(now_ns)
        rates = dict(self.minimums_bps)
        for flow, held in self._table.items():
            rates[flow] = held.rate_bps if shown_ns < held.until_ns else held.minimum_bps
        return rates

    def total_bps(self, now_ns: int) -> int:
        """The same, summed."""
        return sum(self.rates_bps(now_ns).values())

    def ends_ns(self, until_ns: int) -> int:
        """The true time of one on its clock."""
        return self._clock.when(until_ns)

    def start(self) -> None:
        """Starts an agent unless there is one."""
        if self.agent is None:
            ground = self._ground
            self.agent = ground.variant.agent(self.name, ground.number(), self, ground.lease_ns)
            self._beat(self.agent)
            self._look(self.agent)

    def idle(self) -> frozenset[str]:
        """Flows whose shares are lent."""
        return self._silent & self._ground.targets.policy.lent

    def speak(self, silent: frozenset[str]) -> None:
        """These have nothing to send from now on, all others do."""
        self._silent = silent & self.minimums_bps.keys()

    def kill(self, again_ns: int) -> None:
        """Ends the agent, and starts another one after a while. The kernel keeps what it has."""
        self.agent = None
        self._ground.timeline.at(self._ground.timeline.now_ns + again_ns, self.start)

    def reboot(self, again_ns: int) -> None:
        """The kernel too begins anew, with a clock that shows another time."""
        self.kill(again_ns)
        self._table.clear()
        self._clock = self._ground.clock()
        self._ground.watch.changed()

    def deliver(self, message: Grant | Call) -> None:
        """A message reaches the host."""
        agent = self.agent
        if agent is None:
            return
        self.obeys = message if isinstance(message, Grant) else None
        try:
            report = agent.receive(message, self._shown_ns())
        except Killed:
            self._ground.met["agent killed while it wrote"] += 1
            self.kill(self._ground.pause_ns())
        else:
            self._send(report)

    def _beat(self, agent: Agent) -> None:
        if self.agent is agent:
            self._send(agent.tick(self._shown_ns()))
            self._ground.timeline.at(self._clock.when(agent.wake_ns), self._beat, agent)

    def _look(self, agent: Agent) -> None:
        if self.agent is agent:
            lent = self._ground.targets.policy.lent & self.minimums_bps.keys()
            self._send(agent.look(lent, self._shown_ns()))
            self._ground.timeline.at(self._clock.when(self._shown_ns() + AFTER_NS), self._look, agent)

    def _send(self, report: Report | None) -> None:
        if report is not None:
            self._ground.put(self.name, report)
            for name, hear in self._ground.controllers.items():
                self._ground.network.carry(self.name, name, hear, report)

    def _shown_ns(self) -> int:
        return self._clock.read(self._ground.timeline.now_ns)

    def held(self) -> dict[str, Held]:
        return dict(self._table)

    def hold(self, flow: str, held: Held) -> None:
        ground = self._ground
        if ground.rough and ground.random.random() < KILLED_WRITING:
            raise Killed
        self._table[flow] = held
        ground.watch.held(self.name, flow, held)

    def release(self, flow: str) -> None:
        del self._table[flow]
        self._ground.watch.changed()

    def measured(self) -> dict[str, Measured]:
        return {flow: Measured(0, 0, 1, flow not in self._silent) for flow in self._table}
