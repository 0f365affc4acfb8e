"""A controller at work: its core joined to the bus and the clock."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from howdah import HowdahError
from howdah.control.bus import Bus, Change, Unreachable, Watch
from howdah.control.bus.leadership import Leadership, boottime_ns, stand
from howdah.control.controller import Controller
from howdah.control.members import Member
from howdah.control.messages import BEATS_PER_LEASE, Call, Grant, Places, Report
from howdah.control.orders import PREFIX as ORDERS
from howdah.control.orders import Asked, OrderBook, Orders, read_asked
from howdah.control.policy import Policy
from howdah.control.running import keys
from howdah.control.running.complaints import Complaints, Tell
from howdah.control.running.keys import Leading
from howdah.control.running.outbox import PACE_S, Outbox
from howdah.control.running.sightings import Sighting
from howdah.control.running.together import together
from howdah.control.running.watching import at_hand, batches
from howdah.control.targets import Targets

TERM_S = 1.0
"""Of leading. A leader that died is followed after 1.3 of it, and its agents hold their leases meanwhile."""
ROUND_S = 0.05
"""An order waits so long at most for those before it to come into force."""
HEAR_PACE_S = 0.004
"""Between two looks at what agents report: fifty of them confirm one change."""
_S = 1_000_000_000


class RunningController:
    """One of those that may lead. Runs until cancelled."""

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
        self.asked: dict[str, Asked] = {}
        """By key of the order."""
        self.leading: Leading | None = None
        self.orders = Orders()
        """All that stand, as far as it has heard."""
        self.revision = 0
        """Of the newest order, as the bus counts."""
        self.version = 0
        """Grows with all there is to know of it."""
        self._tell = tell
        self._complaints = Complaints(tell)
        self._book = OrderBook()
        self._count = 0
        self._outbox = Outbox(bus, policy.lease_s / BEATS_PER_LEASE)
        self._stirred = asyncio.Event()
        self._changed = asyncio.Event()

    def ordered(self, key: str) -> bytes | None:
        """The value of an order as far as it has heard; null: there is none."""
        return self._book.value(key)

    async def newer(self, version: int) -> None:
        """Waits until more is known than at that version."""
        while self.version == version:
            await self._changed.wait()

    async def run(self) -> None:
        """Stands for leading, and leads when it can.

        Raises HowdahError when the bus refuses, or holds what another version of howdah has left.
        """
        bus = self.bus
        async with (
            bus.watch(keys.REPORTS) as reports,
            bus.watch(ORDERS) as orders,
            bus.watch(keys.LEADING) as leaders,
        ):
            self._order([change async for change in at_hand(orders)])
            self._hear([change async for change in at_hand(reports)])
            async with stand(bus, "controller", ttl_s=TERM_S, clock_ns=self.clock_ns) as leadership:
                await together(
                    self._outbox.run(),
                    self._lead(leadership),
                    self._follow(leaders),
                    self._take_orders(orders, leadership),
                    self._take_reports(reports, leadership),
                    self._wake(leadership),
                )

    async def _lead(self, leadership: Leadership) -> None:
        while True:
            epoch = await leadership.won()
            try:
                former = await self._former()
            except Unreachable:
                await asyncio.sleep(PACE_S)
                continue
            self._send(self.core.lead(epoch, leadership.until_ns, self.clock_ns(), former))
            if self.core.leads(self.clock_ns()):
                await self._introduce(epoch)
            await leadership.lost(epoch)
            self._outbox.clear()
            self._tell(f"{self.name} does not lead any more")

    async def _former(self) -> list[Grant | Report]:
        """What lies on the bus of earlier terms."""
        async with self.bus.watch(keys.AGENTS) as told:
            grants = [
                keys.read(change.key, change.value, Grant)
                async for change in at_hand(told)
                if change.value is not None and change.key.endswith(".grant")
            ]
        return [*grants, *(each.report for each in self.sightings.values() if each.report)]

    async def _introduce(self, epoch: int) -> None:
        """Tells people that it leads, and the agents which traffic is meant."""
        self._tell(f"{self.name} leads")
        members: dict[str, dict[str, Member]] = {}
        for flow in self.policy.flows:
            members.setdefault(flow.member.agent, {})[flow.id] = flow.member
        for name in self.core.peers:
            own = members.get(name, {})
            self._outbox.put(Places(agent=name, members=own, lent=self.policy.lent & own.keys()))
        with suppress(HowdahError):
            await self.bus.put(keys.LEADER, msgspec.json.encode(Leading(self.name, epoch)))

    async def _follow(self, leaders: Watch) -> None:
        async for change in leaders:
            with suppress(msgspec.DecodeError):
                self.leading = msgspec.json.decode(change.value, type=Leading) if change.value else None
            self._news()

    async def _take_orders(self, orders: Watch, leadership: Leadership) -> None:
        async for changes in batches(orders, PACE_S):
            self._prolong(leadership)
            self._order(changes)
            await self._in_force()

    async def _in_force(self) -> None:
        """Lets what was ordered come into force before more is: begun anew all the time, nothing would."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ROUND_S):
                while self.core.leads(now_ns := self.clock_ns()) and self.core.settled(now_ns) is None:
                    await self.newer(self.version)

    async def _take_reports(self, reports: Watch, leadership: Leadership) -> None:
        async for changes in batches(reports, HEAR_PACE_S):
            self._prolong(leadership)
            self._hear(changes)
            if self.core.overtaken is not None:
                leadership.above(self.core.overtaken)
                await leadership.give_back()

    async def _wake(self, leadership: Leadership) -> None:
        """Has the core look again when something becomes free by time alone."""
        while True:
            self._stirred.clear()
            due_ns = self.core.wake_ns(self.clock_ns())
            with suppress(TimeoutError):
                async with asyncio.timeout(None if due_ns is None else (due_ns - self.clock_ns()) / _S):
                    await self._stirred.wait()
            if due_ns is not None and self.clock_ns() >= due_ns:
                self._prolong(leadership)
                self._send(self.core.tick(self.clock_ns()))
            await asyncio.sleep(PACE_S)

    def _prolong(self, leadership: Leadership) -> None:
        if leadership.epoch == self.core.epoch:
            self.core.lead(self.core.epoch, leadership.until_ns, self.clock_ns())

    def _order(self, changes: Iterable[Change]) -> None:
        for change in changes:
            # A count of its own, because the bus counts from 0 again where its store was lost.
            self._count += 1
            self.revision = change.revision
            try:
                self._book.note(change.key, change.value, self._count)
                self._note_asked(change)
                self._complaints.right(change.key)
            except HowdahError as error:
                self._complaints.wrong(change.key, error)
        self.orders = self._book.orders()
        self._send(self.core.order(self.orders, self.clock_ns()))

    def _note_asked(self, change: Change) -> None:
        if change.value is None:
            self.asked.pop(change.key, None)
        elif change.key.startswith(keys.ASKED):
            self.asked[change.key] = read_asked(change.value)

    def _hear(self, changes: Iterable[Change]) -> None:
        now_ns = self.clock_ns()
        for change in changes:
            name = change.key.removeprefix(keys.REPORTS)
            if change.value is None:
                self.sightings.pop(name, None)
                continue
            try:
                report = self._report(change.key, change.value)
            except HowdahError as error:
                self._complaints.wrong(change.key, error)
                continue
            self.sightings.setdefault(name, Sighting()).note(report, now_ns)
            self._send(self.core.hear(report, now_ns))

    def _report(self, key: str, value: bytes) -> Report:
        report = keys.read(key, value, Report)
        if report.agent in self.targets.minimums_bps:
            self._complaints.right(key)
        else:
            hosts = ", ".join(sorted(self.targets.minimums_bps))
            self._complaints.wrong(
                key,
                HowdahError(
                    f"an agent says it is {report.agent}, which {self.policy.name} does not have: {hosts}"
                ),
            )
        return report

    def _send(self, messages: Iterable[Grant | Call]) -> None:
        for message in messages:
            self._outbox.put(message)
        self._news()
        self._stirred.set()

    def _news(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()
