"""What hosts and controllers of one schedule have in common: time, chance, the bus, the policy in force.

Whoever runs here runs for real too: the agent, the controller, the election, the allocator.
"""

from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import NamedTuple, Protocol

from bench.leases.clock import Clock
from bench.leases.network import Network
from bench.leases.scene import Scene
from bench.leases.timeline import NS_PER_S, Timeline
from howdah.control.allocation import Targets
from howdah.control.bus.leadership import Claim, LeaderRecord
from howdah.control.leases.agent import Agent, Held
from howdah.control.leases.controller import Controller, RatesByAgent
from howdah.control.leases.ledger import DRIFT_MARGIN
from howdah.control.leases.messages import Call, Grant, Report
from howdah.control.policy.orders import Orders


class Variant(NamedTuple):
    """Who plays; mutants replace one."""

    agent: type[Agent] = Agent
    controller: type[Controller] = Controller
    drift_margin: float = DRIFT_MARGIN


SOUND = Variant()


class Store:
    """What the bus knows of the election: one record, replaced only by who has seen it."""

    def __init__(self) -> None:
        self.record: LeaderRecord | None = None
        self.revision = 0

    def swap(self, claim: Claim) -> bool:
        """Writes the record if nobody else has."""
        if claim.expected != self.revision:
            return False
        self.record = claim.record
        self.revision += 1
        return True


class Sees(Protocol):
    """Who looks on."""

    def changed(self) -> None:
        """Something in force is different."""

    def held(self, host: str, flow: str, held: Held) -> None:
        """An agent has given a flow a share."""

    def said(self, message: Grant | Call) -> None:
        """A controller has spoken."""


class Ground:
    """See the module. Hosts and controllers say here where messages for them go."""

    def __init__(self, scene: Scene, random: Random, variant: Variant) -> None:
        self.scene = scene
        self.random = random
        self.variant = variant
        self.timeline = Timeline()
        self.network = Network(self.timeline, random, scene.weather)
        self.met = self.network.met
        self.targets = Targets(scene.policy)
        self.lease_ns = scene.lease_ns
        self.term_ns = scene.term_ns
        self.orders = Orders()
        self.store = Store()
        self.rough = True
        self.watch: Sees
        self.controllers: dict[str, Callable[[Report], None]] = {}
        self.agents: dict[str, Callable[[Grant | Call], None]] = {}
        self._numbers = 0
        self._rates: dict[tuple[Targets, int, frozenset[str]], RatesByAgent] = {}
        self._values: dict[str, Grant | Report] = {}

    def rates_bps(self, targets: Targets, orders: Orders, idle: Collection[str]) -> RatesByAgent:
        """What all controllers of one policy would find alike."""
        key = (targets, orders.revision, frozenset(idle))
        if key not in self._rates:
            self._rates[key] = targets(orders, idle)
        return self._rates[key]

    def put(self, source: str, message: Grant | Report) -> None:
        """What lies on the bus is kept there, if it got there."""
        if source not in self.network.cut:
            self._values[f"{type(message).__name__} {message.agent}"] = message

    @property
    def values(self) -> Iterable[Grant | Report]:
        """What lies on the bus."""
        return self._values.values()

    def number(self) -> int:
        """Larger each time."""
        self._numbers += 1
        return self._numbers

    def clock(self) -> Clock:
        """Of a host that has just begun."""
        return self.scene.clocks()

    def pause_ns(self) -> int:
        """Until something that died is started again."""
        return self.random.randrange(NS_PER_S)
