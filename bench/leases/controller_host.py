"""A host for a controller, which stands for leadership."""

from functools import partial

from bench.leases.clock import Clock
from bench.leases.ground import Ground
from bench.leases.network import STORE
from howdah.control.bus.leadership import Claim, Election, LeaderRecord
from howdah.control.leases.controller import Controller, Messages
from howdah.control.leases.messages import Grant, Report
from howdah.control.policy.orders import Orders

_REPLY_PER_TERM = 0.3


class ControllerHost:
    """The host, and the controller on it while one lives."""

    def __init__(self, ground: Ground, name: str, clock: Clock) -> None:
        self.name = name
        self.controller: Controller | None = None
        self._ground = ground
        ground.controllers[name] = self.receive
        self._clock = clock
        self._election: Election
        self._look = 0
        self._wake_ns: int | None = None

    def start(self) -> None:
        """Starts a controller unless there is one. It knows the policy, and reads the orders from the bus."""
        if self.controller is not None:
            return
        ground, targets = self._ground, self._ground.targets
        self.controller = ground.variant.controller(
            targets.policy.trusted_bps,
            targets.minimums_bps,
            partial(ground.rates_bps, targets),
            lease_ns=ground.lease_ns,
            drift_margin=ground.variant.drift_margin,
        )
        self.controller.order(ground.orders, self.shown_ns())
        self._election = Election(f"{self.name} {ground.number()}", ground.term_ns, forgets=False)
        self._begin_look()

    def kill(self, again_ns: int) -> None:
        """Ends the controller, and starts another one after a while."""
        self.controller = None
        self._look += 1
        self._ground.timeline.at(self._ground.timeline.now_ns + again_ns, self.start)

    def receive(self, report: Report) -> None:
        """A Report reaches the host."""
        if self.controller is not None:
            self._say(self.controller.receive(report, self.shown_ns()))

    def order(self, orders: Orders) -> None:
        """New orders reach the host."""
        if self.controller is not None:
            self._say(self.controller.order(orders, self.shown_ns()))

    def bounds_bps(self) -> dict[str, int]:
        """What the controller, if it leads, takes for the most that each host it knows can have."""
        controller, shown_ns = self.controller, self.shown_ns()
        if controller is None or not controller.leads(shown_ns):
            return {}
        return controller.bounds_bps(shown_ns)

    def shown_ns(self) -> int:
        """What its clock shows."""
        return self._clock.read(self._ground.timeline.now_ns)

    def _begin_look(self) -> None:
        self._look += 1
        self._ground.network.carry(self.name, STORE, self._read, self._look)
        self._later(2 * int(self._ground.term_ns * _REPLY_PER_TERM), self._look)

    def _read(self, look: int) -> None:
        store = self._ground.store
        self._ground.network.carry(STORE, self.name, self._seen, look, store.record, store.revision)

    def _seen(self, look: int, record: LeaderRecord | None, revision: int) -> None:
        if look != self._look:
            return
        claim = self._election.look(record, revision, 0, self.shown_ns(), 0)
        if claim is None:
            self._pause()
            return
        self._election.sending(claim, 0, self.shown_ns())
        self._ground.network.carry(self.name, STORE, self._claim, look, claim)

    def _claim(self, look: int, claim: Claim) -> None:
        done = self._ground.store.swap(claim)
        if done and claim.record.beat == 0:
            self._ground.met["takeover"] += 1
        self._ground.network.carry(STORE, self.name, self._claimed, look, done)

    def _claimed(self, look: int, done: bool) -> None:
        if look == self._look:
            if done:
                self._election.written(0)
            self._pause()

    def _pause(self) -> None:
        """Leads if it may, and looks again after a while."""
        shown_ns = self.shown_ns()
        epoch = self._election.epoch(shown_ns)
        if epoch is not None and self.controller is not None:
            former = self._ground.values
            self._say(self.controller.lead(epoch, self._election.until_ns, shown_ns, former))
        self._look += 1
        self._later(self._election.pause_ns(shown_ns), self._look)

    def _later(self, pause_ns: int, look: int) -> None:
        self._ground.timeline.at(self._clock.when(self.shown_ns() + pause_ns), self._again, look)

    def _again(self, look: int) -> None:
        if look == self._look:
            self._begin_look()

    def _say(self, messages: Messages) -> None:
        ground = self._ground
        for message in messages:
            ground.watch.said(message)
            if isinstance(message, Grant):
                ground.put(self.name, message)
            ground.network.carry(self.name, message.agent, ground.agents[message.agent], message)
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self.controller is None:
            return
        wake_ns = self.controller.wake_ns(self.shown_ns())
        if wake_ns is not None and (self._wake_ns is None or wake_ns < self._wake_ns):
            self._wake_ns = wake_ns
            self._ground.timeline.at(self._clock.when(wake_ns), self._alarm, wake_ns)

    def _alarm(self, wake_ns: int) -> None:
        if wake_ns == self._wake_ns:
            self._wake_ns = None
            if self.controller is not None:
                self._say(self.controller.tick(self.shown_ns()))
