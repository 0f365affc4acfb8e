"""The controller: brings every agent to its target, so that the guarantee is never promised twice.

What is lowered is told at once. What is raised waits until the ledger has that much free: until who had it
has confirmed to have less, or cannot have it any more. Whoever reports is answered with all its shares, which
renews its lease; so what was lost is said again.

It may only speak while it leads: leadership is a lease too. With each epoch it begins anew, knowing nothing.
It calls all agents, and leaves each what it has: the sum of that is within the guarantee, because the
former controller kept it so. It raises nothing until all have answered in this epoch, after which none obeys
an older one, or until every older lease has run out.

No input or output: messages and times come in as arguments, messages go out as results. All times are of one
clock of this host, which counts suspension too: CLOCK_BOOTTIME.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from howdah.control.ledger import DRIFT_MARGIN, Account, Ledger, longest_ns
from howdah.control.messages import BEATS_PER_LEASE, Call, Grant, Report, Share
from howdah.control.orders import Orders
from howdah.control.peer import Peer, Shares
from howdah.control.policy import Alone

Rates = Mapping[str, Mapping[str, int]]
"""By agent, then by flow, in b/s on the wire."""
Messages = list[Grant | Call]


class Controller:
    """One of those that may lead."""

    ledger_type = Ledger
    account_type = Account

    def __init__(
        self,
        trusted_bps: int,
        minimums_bps: Rates,
        allocate: Callable[[Orders, Collection[str]], Rates],
        *,
        lease_ns: int,
        alone: Alone = "minimum",
        drift_margin: float = DRIFT_MARGIN,
    ) -> None:
        """``allocate`` is given the orders and which flows have nothing to send. It gives every flow at least
        its minimum, and all together no more than ``trusted_bps``.

        A minimum is what a host falls back to, so it is fixed for the life of a controller; orders change
        only what is above.
        """
        self.epoch = 0
        """Of the last term."""
        self.overtaken: int | None = None
        """An epoch seen that is larger than its own: its next term needs one larger still."""
        self._minimums_bps = minimums_bps
        self._allocate = allocate
        self._lease_ns = lease_ns
        self._alone: Alone = alone
        self._margin = drift_margin
        self._until_ns = 0
        self._orders = Orders()
        self._peers: dict[str, Peer] = {}
        self._behind: dict[str, Peer] = {}
        self._ledger = self.ledger_type(trusted_bps, 0)

    def lead(self, epoch: int, until_ns: int, now_ns: int, former: Iterable[Grant | Report] = ()) -> Messages:
        """Leads until then: begins the term of this epoch, or prolongs it.

        ``former`` is what lies on the bus, of whatever age: another policy may have known other agents, a
        longer lease, larger minimums.
        """
        if epoch == self.epoch and self.overtaken is None:
            self._until_ns = max(until_ns, self._until_ns)
        if epoch <= max(self.epoch, self.overtaken or 0) or now_ns >= until_ns:
            return []
        self.epoch, self.overtaken, self._until_ns = epoch, None, until_ns
        self._begin(now_ns, list(former))
        return [Call(agent=name, epoch=epoch) for name in self._peers]

    def order(self, orders: Orders, now_ns: int) -> Messages:
        """What is wanted from now on, unless something newer is known."""
        if orders.revision < self._orders.revision:
            return []
        self._orders = orders
        self._aim()
        return self._advance(now_ns) if now_ns < self._until_ns else []

    def hear(self, report: Report, now_ns: int) -> Messages:
        """Takes in what an agent says, and answers."""
        if now_ns >= self._until_ns:
            return []
        if report.epoch > self.epoch:
            self.overtaken, self._until_ns = report.epoch, now_ns
            return []
        peer = self._peers.get(report.agent) or self._add(report.agent)
        if report.epoch == self.epoch:
            self._learn(peer, report, now_ns)
        idle = peer.idle
        if not peer.hear(report, now_ns, self._patience_ns):
            return self._advance(now_ns)
        if peer.idle != idle:
            self._aim()
        if not self._is_known(peer, now_ns):
            return [Call(agent=peer.name, epoch=self.epoch)]
        due = peer.is_due(self._lease_ns // BEATS_PER_LEASE // 2)
        answer = self._offer(peer, now_ns, renew=True) if due else []
        return answer + self._advance(now_ns)

    def tick(self, now_ns: int) -> Messages:
        """To be called at ``wake_ns``."""
        return self._advance(now_ns) if now_ns < self._until_ns else []

    def wake_ns(self, now_ns: int) -> int | None:
        """When something will become free by itself that somebody waits for."""
        if not self._behind or now_ns >= self._until_ns:
            return None
        falls = (peer.account.falls_ns(now_ns) for peer in self._peers.values())
        waits = [at for at in falls if at is not None]
        if not self._ledger.is_open(now_ns):
            waits.append(self._ledger.open_ns)
        return min(waits, default=None)

    def leads(self, now_ns: int) -> bool:
        """Whether it may speak."""
        return now_ns < self._until_ns

    def settled(self, now_ns: int) -> int | None:
        """The revision of the orders, once all that they want is in force; null: not yet."""
        done = self.leads(now_ns) and self._ledger.is_open(now_ns)
        done = done and not self._behind and all(peer.settled for peer in self._peers.values())
        return self._orders.revision if done else None

    def bounds_bps(self, now_ns: int) -> dict[str, int]:
        """Of each agent, as far as anything is known of it, what it may have at most by the ledger."""
        return {
            name: peer.account.bound_bps(now_ns)
            for name, peer in self._peers.items()
            if self._is_known(peer, now_ns)
        }

    @property
    def peers(self) -> Mapping[str, Peer]:
        """What is known of each agent."""
        return self._peers

    def _begin(self, now_ns: int, former: Sequence[Grant | Report]) -> None:
        leases = [each.lease_ns for each in former if isinstance(each, Grant)]
        open_ns = now_ns + longest_ns(max([self._lease_ns, *leases]), self._margin)
        self._ledger = self.ledger_type(self._ledger.trusted_bps, open_ns)
        self._peers = {}
        for name in dict.fromkeys([*self._minimums_bps, *(each.agent for each in former)]):
            self._add(name)
        for each in former:
            self._peers[each.agent].account.expect(each.shares)
        self._aim()

    def _add(self, name: str) -> Peer:
        peer = self._peers[name] = Peer(name, self.account_type(self._minimums_bps.get(name, {})))
        self._ledger.accounts.append(peer.account)
        return peer

    def _aim(self) -> None:
        """Sets the targets by the orders, and by who has something to send."""
        idle = frozenset[str]().union(*(peer.idle for peer in self._peers.values()))
        rates = self._allocate(self._orders, idle)
        for name, peer in self._peers.items():
            minimums = self._minimums_bps.get(name, {})
            peer.target = {flow: Share(rate, minimums[flow]) for flow, rate in rates.get(name, {}).items()}
        self._behind = {peer.name: peer for peer in self._peers.values() if peer.sent != peer.target}

    def _learn(self, peer: Peer, report: Report, now_ns: int) -> None:
        """From who follows this epoch: what it has from older ones, and which Grant it obeys."""
        if not peer.account.heard:
            peer.account.inherit(report.shares, now_ns, now_ns + longest_ns(report.left_ns, self._margin))
            if peer.sent is None:
                peer.sent = report.shares
                self._behind[peer.name] = peer
        if report.seq:
            peer.confirm(report.seq)

    def _is_known(self, peer: Peer, now_ns: int) -> bool:
        return peer.account.heard or now_ns >= self._ledger.open_ns

    def _advance(self, now_ns: int) -> Messages:
        """Tells those behind their targets what can be said by now."""
        return [grant for peer in list(self._behind.values()) for grant in self._offer(peer, now_ns)]

    def _offer(self, peer: Peer, now_ns: int, *, renew: bool = False) -> Messages:
        """A Grant with as much of the target as may be, if that is news or is to be renewed."""
        report = peer.report
        if report is None or not self._is_known(peer, now_ns):
            return []
        shares, account = peer.target, peer.account
        total_bps = account.total_bps(shares)
        room_bps, least_bps = account.own_bps(now_ns), account.own_minimums
        if total_bps > room_bps and self._ledger.is_open(now_ns):
            free_bps = self._ledger.free_bps(now_ns)
            if free_bps >= 0:
                room_bps = account.bound_bps(now_ns) + (free_bps if self._is_lively(peer, now_ns) else 0)
                least_bps = account.minimums
        if total_bps > room_bps:
            shares = peer.part_of_target(room_bps, least_bps)
        if (shares == peer.sent and not renew) or (peer.target and not shares):
            return []
        return [self._send(peer, report, shares, now_ns)]

    @property
    def _patience_ns(self) -> int:
        """Who has missed two beats may be dead."""
        return 2 * self._lease_ns // BEATS_PER_LEASE

    def _is_lively(self, peer: Peer, now_ns: int) -> bool:
        """Who is not may not live to use what it gets."""
        return now_ns - peer.heard_ns <= self._patience_ns

    def _send(self, peer: Peer, report: Report, shares: Shares, now_ns: int) -> Grant:
        peer.send(shares, now_ns, peer.heard_ns + longest_ns(self._lease_ns, self._margin))
        if shares == peer.target:
            self._behind.pop(peer.name, None)
        else:
            self._behind[peer.name] = peer
        return Grant(
            agent=peer.name,
            epoch=self.epoch,
            seq=peer.seq,
            incarnation=report.incarnation,
            beat=report.beat,
            lease_ns=self._lease_ns,
            alone=self._alone,
            shares=shares,
        )
