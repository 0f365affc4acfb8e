"""A controller at work: its core joined to the bus and the clock.

It views each agent by its newest report (``Sighting``), and by the rates that its reports make.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from howdah import HowdahError, decoding
from howdah.control.allocation import Targets
from howdah.control.bus import Bus, KeyChange, Unreachable, Watch
from howdah.control.bus.leadership import Leadership, boottime_ns, stand
from howdah.control.leases import messages
from howdah.control.leases.controller import Controller
from howdah.control.leases.messages import BEATS_PER_LEASE, Call, Grant, Leading, Measured, Places, Report
from howdah.control.policy import Policy
from howdah.control.policy.orders import PREFIX as ORDERS
from howdah.control.policy.orders import OrderBook, Orders
from howdah.control.running.outbox import PACE_S, Complaints, Outbox, Tell, together

_S = 1_000_000_000
SPAN_NS = _S
_APART_NS = _S // 10


class SentRates(NamedTuple):
    """The rates that a flow really sends at, bits per second."""

    sent_bps: int
    """The rate on the wire."""
    acked_bps: int
    """The rate of payload."""


class Sighting:
    """The newest report of one agent and what follows from it."""

    def __init__(self) -> None:
        self.report: Report | None = None
        self.arrived_ns = 0
        self._before: int | None = None
        """The incarnation that reported before the present one."""
        self._samples: deque[tuple[int, dict[str, Measured]]] = deque()

    def note(self, report: Report, now_ns: int) -> bool:
        """Takes in a report, which came now. Returns whether two agents report in turn: it is the other's."""
        samples, in_turn = self._samples, False
        if self.report is None or report.incarnation != self.report.incarnation:
            samples.clear()
            in_turn = report.incarnation == self._before
            self._before = self.report.incarnation if self.report else None
        self.report, self.arrived_ns = report, now_ns
        if len(samples) > 1 and now_ns - samples[-2][0] < _APART_NS:
            samples.pop()
        samples.append((now_ns, report.measured))
        while len(samples) > 2 and now_ns - samples[1][0] >= SPAN_NS:
            samples.popleft()
        return in_turn

    def rates(self, flow: str) -> SentRates | None:
        """The rates over the last second reported, or between two reports; null: none can be compared."""
        if len(self._samples) < 2:
            return None
        (from_ns, before), (to_ns, after) = self._samples[0], self._samples[-1]
        if flow not in before or flow not in after or to_ns == from_ns:
            return None
        sent_bytes = after[flow].sent_bytes - before[flow].sent_bytes
        acked_bytes = after[flow].acked_bytes - before[flow].acked_bytes
        if sent_bytes < 0 or acked_bytes < 0:
            return None
        span_ns = to_ns - from_ns
        return SentRates(sent_bytes * 8 * _S // span_ns, acked_bytes * 8 * _S // span_ns)

    def share_bps(self, flow: str, now_ns: int) -> int | None:
        """The rate in force now by the last report; null: the flow has no share."""
        share = self.report.shares.get(flow) if self.report else None
        if share is None:
            return None
        return share.rate_bps if self.left_ns(now_ns) else share.minimum_bps

    def left_ns(self, now_ns: int) -> int:
        """The time until the last of its leases runs out, if it was not renewed since."""
        return max(0, self.arrived_ns + self.report.left_ns - now_ns) if self.report else 0


TERM_S = 1.0
"""The term of a leader. One that died is followed after 1.3 of it; its agents keep their leases meanwhile."""
ROUND_S = 0.05
"""An order waits so long at most for those before it to come into force."""
REPORT_PACE_S = 0.004
"""The time between two looks at what agents report: fifty of them confirm one change."""


class RunningController:
    """A controller that may lead. Runs until cancelled."""

    def __init__(
        self,
        name: str,
        policy: Policy,
        bus: Bus,
        *,
        tell: Tell = lambda line: None,
        clock_ns: Callable[[], int] = boottime_ns,
    ) -> None:
        """``name`` is for people; ``tell`` gets a line for each thing they should know."""
        self.name = name
        self.policy = policy
        self.bus = bus
        self.targets = Targets(policy)
        lease_ns = round(policy.lease_s * _S)
        self.core = Controller(
            policy.trusted_bps, self.targets.minimums_bps, self.targets, lease_ns=lease_ns, alone=policy.alone
        )
        self.clock_ns = clock_ns
        self.sightings: dict[str, Sighting] = {}
        self.leading: Leading | None = None
        self.trouble: str | None = None
        """The reason why the bus does not answer it; null: it does."""
        self.differs = False
        """Whether the leader's policy, of the same name, says something else."""
        self.orders = Orders()
        """All orders that have reached it."""
        self.revision = 0
        """The revision of the newest order, as the bus counts."""
        self.version = 0
        """Grows with every change of its state."""
        self._tell = tell
        self._complaints = Complaints(tell)
        self.book = OrderBook()
        """The orders one by one."""
        self._count = 0
        self._introduced: dict[str, int] = {}
        """The incarnation of each agent that was told in this term which traffic is meant."""
        self._outbox = Outbox(bus, policy.lease_s / BEATS_PER_LEASE)
        self._stirred = asyncio.Event()
        self._changed = asyncio.Event()

    async def newer(self, version: int) -> None:
        """Waits for a later version than this."""
        while self.version == version:
            await self._changed.wait()

    async def run(self) -> None:
        """Stands for leading, and leads when it can.

        Raises HowdahError when the bus refuses, or holds what another version of howdah has left.
        """
        bus = self.bus
        async with (
            bus.watch(messages.REPORTS) as reports,
            bus.watch(ORDERS) as orders,
            bus.watch(messages.LEADING) as leaders,
        ):
            self._order([change async for change in orders.at_hand()])
            self._ingest([change async for change in reports.at_hand()])
            async with stand(bus, "controller", ttl_s=TERM_S, clock_ns=self.clock_ns) as leadership:
                await together(
                    self._outbox.run(),
                    self._lead(leadership),
                    self._follow(leaders),
                    self._take_orders(orders),
                    self._take_reports(reports, leadership),
                    self._wake(),
                )

    async def _lead(self, leadership: Leadership) -> None:
        while True:
            epoch = await leadership.won(lambda: self._note_look(leadership))
            try:
                former = await self._former()
            except Unreachable:
                await asyncio.sleep(PACE_S)
                continue
            self._send(self.core.lead(epoch, leadership.until_ns, self.clock_ns(), former))
            if self.core.leads(self.clock_ns()):
                await self._introduce(epoch)
            await leadership.lost(epoch, lambda: self._note_look(leadership))
            self._outbox.clear()
            overtaken = "an agent follows a later term" if self.core.overtaken is not None else None
            self._tell(f"{self.name} does not lead any more: {overtaken or leadership.why_lost}")

    async def _former(self) -> list[Grant | Report]:
        """The messages of earlier terms that lie on the bus."""
        async with self.bus.watch(messages.AGENTS) as told:
            grants = [
                messages.decode(change.value, Grant, change.key)
                async for change in told.at_hand()
                if change.value is not None and change.key.endswith(".grant")
            ]
        return [*grants, *(each.report for each in self.sightings.values() if each.report)]

    async def _introduce(self, epoch: int) -> None:
        """Tells people that it leads, and the agents which traffic is meant."""
        self._tell(f"{self.name} leads")
        self.differs = False
        self._introduced = {
            name: seen.report.incarnation for name, seen in self.sightings.items() if seen.report
        }
        for name in self.core.peers:
            self._outbox.put(self._places(name))
        with suppress(HowdahError):
            leading = Leading(self.name, epoch, self.policy.name, self.policy.digest)
            await self.bus.put(messages.LEADER, msgspec.json.encode(leading))

    def _places(self, name: str) -> Places:
        members = {flow.id: flow.member for flow in self.policy.flows if flow.member.agent == name}
        return Places(agent=name, members=members, lent=self.policy.lent & members.keys())

    async def _follow(self, leaders: Watch) -> None:
        async for change in leaders:
            with suppress(msgspec.DecodeError):
                self.leading = decoding.from_json(change.value, Leading) if change.value else None
            self._news()

    async def _take_orders(self, orders: Watch) -> None:
        async for changes in orders.batches(PACE_S):
            self._order(changes)
            await self._in_force()

    async def _in_force(self) -> None:
        """Waits for orders to come into force before more are taken: begun anew all the time, none would."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ROUND_S):
                while self.core.leads(now_ns := self.clock_ns()) and self.core.settled(now_ns) is None:
                    await self.newer(self.version)

    async def _take_reports(self, reports: Watch, leadership: Leadership) -> None:
        async for changes in reports.batches(REPORT_PACE_S):
            self._ingest(changes)
            if self.core.overtaken is not None:
                leadership.above(self.core.overtaken)
                await leadership.give_back()

    async def _wake(self) -> None:
        """Has the core look again when something becomes free by time alone."""
        while True:
            self._stirred.clear()
            due_ns = self.core.wake_ns(self.clock_ns())
            with suppress(TimeoutError):
                async with asyncio.timeout(None if due_ns is None else (due_ns - self.clock_ns()) / _S):
                    await self._stirred.wait()
            if due_ns is not None and self.clock_ns() >= due_ns:
                self._send(self.core.tick(self.clock_ns()))
            await asyncio.sleep(PACE_S)

    def _note_look(self, leadership: Leadership) -> None:
        """Takes in what the last look at the election has brought, such as a longer term."""
        if leadership.epoch is None:
            self._check_policy(leadership.rival)
        if leadership.trouble != self.trouble:
            self.trouble = leadership.trouble
            self._news()
        if leadership.epoch == self.core.epoch:
            self.core.lead(self.core.epoch, leadership.until_ns, self.clock_ns())

    def _check_policy(self, rival: int | None) -> None:
        """Raises HowdahError where another leads by another policy; tells where that has changed its content.

        What lies on the bus may be of a leader that has gone, so ``rival`` is the term that another was seen
        to renew.
        """
        leading, policy = self.leading, self.policy
        if leading is None or leading.epoch != rival or leading.policy is None:
            return
        if leading.policy != policy.name:
            raise HowdahError(
                f"{leading.controller} leads on this bus by the policy {leading.policy}, and this one is "
                f"{policy.name}: give each policy a NATS server or account of its own, or end all "
                f"controllers of {leading.policy} first"
            )
        self.differs = leading.digest != policy.digest
        if self.differs:
            why = f"{leading.controller} leads by another content of {policy.name} than {self.name} has read"
            self._complaints.wrong("content", HowdahError(f"{why}: give all controllers the same file"))
        else:
            self._complaints.right("content")

    def _order(self, changes: Iterable[KeyChange]) -> None:
        for change in changes:
            # A count of its own, because the bus counts from 0 again where its store was lost.
            self._count += 1
            self.revision = change.revision
            try:
                self.book.note(change.key, change.value, self._count)
                self._complaints.right(change.key)
            except HowdahError as error:
                self._complaints.wrong(change.key, error)
        self.orders = self.book.orders()
        self._send(self.core.order(self.orders, self.clock_ns()))

    def _ingest(self, changes: Iterable[KeyChange]) -> None:
        now_ns = self.clock_ns()
        for change in changes:
            name = change.key.removeprefix(messages.REPORTS)
            if change.value is None:
                self.sightings.pop(name, None)
                continue
            try:
                report = messages.decode(change.value, Report, change.key)
            except HowdahError as error:
                self._complaints.wrong(change.key, error)
                continue
            if report.agent in self.targets.minimums_bps:
                self._complaints.right(change.key)
            else:
                hosts = ", ".join(sorted(self.targets.minimums_bps))
                why = f"an agent says it is {report.agent}, which {self.policy.name} does not have: {hosts}"
                self._complaints.wrong(change.key, HowdahError(why))
            if self.sightings.setdefault(name, Sighting()).note(report, now_ns):
                why = f"two agents report as {name} in turn; a host has one: end the other"
                self._complaints.wrong(f"agents of {name}", HowdahError(why))
            self._send(self.core.receive(report, now_ns))
            self._introduce_again(name, now_ns)

    def _introduce_again(self, name: str, now_ns: int) -> None:
        """Tells an agent that has started again which traffic is meant: its forerunner took that along."""
        peer = self.core.peers.get(name)
        if peer is None or peer.report is None or not self.core.leads(now_ns):
            return
        if self._introduced.get(name) != peer.report.incarnation:
            self._complaints.right(f"agents of {name}")
            self._introduced[name] = peer.report.incarnation
            self._outbox.put(self._places(name))

    def _send(self, said: Iterable[Grant | Call]) -> None:
        for message in said:
            self._outbox.put(message)
        self._news()
        self._stirred.set()

    def _news(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()
