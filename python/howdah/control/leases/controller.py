"""The controller: brings every agent to its target, so that the guarantee is never promised twice.

A lower rate is told at once. A higher one waits until the ledger has that much free: until the agent that had
it has confirmed to have less, or cannot have it any more. Every Report is answered with all shares of its
agent, which renews its lease; so what was lost is said again.

A controller may only speak while it leads: leadership is a lease too. With each epoch it begins anew, with no
state. It calls all agents, and leaves each what it has: the sum of that is within the guarantee, because the
former controller kept it so. It raises nothing until all have answered in this epoch, after which none obeys
an older one, or until every older lease has run out.

No input or output: messages and times come in as arguments, messages go out as results. All times are of one
clock of this host, which counts suspension too: CLOCK_BOOTTIME.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from howdah.control.leases.ledger import DRIFT_MARGIN, Account, Ledger, longest_ns
from howdah.control.leases.messages import BEATS_PER_LEASE, Call, FlowShare, Grant, Report
from howdah.control.policy import Alone
from howdah.control.policy.orders import Orders

Shares = dict[str, FlowShare]


@dataclass(slots=True, eq=False)
class Peer:
    """An agent as its controller sees it, during one epoch."""

    name: str
    account: Account
    target: Shares = field(default_factory=dict)
    """The shares that it is to have."""
    sent: Shares | None = None
    """The shares of the last Grant, or those it has from an earlier epoch; null: there are none."""
    seq: int = 0
    """The number of the last Grant sent to it."""
    report: Report | None = None
    """The newest Report."""
    reported_ns: int = 0
    """The time at which that came."""
    _answered: tuple[int, int] | None = None
    _change: int = 0
    _confirmed: int = 0

    def note(self, report: Report, now_ns: int, patience_ns: int) -> bool:
        """Whether the Report is news: of a process begun later, or a later beat of the same one.

        A process begun earlier is news too, once the present one has been silent for ``patience_ns``: the
        clock of its host may have been set back.
        """
        last = self.report
        if last and (report.incarnation, report.beat) <= (last.incarnation, last.beat):
            silent = now_ns - self.reported_ns > patience_ns
            if report.incarnation == last.incarnation or not silent:
                return False
        self.report, self.reported_ns = report, now_ns
        return True

    def confirm(self, seq: int) -> None:
        """Notes that the agent has put the Grant ``seq`` of this epoch into force."""
        self.account.confirm(seq)
        self._confirmed = max(seq, self._confirmed)

    def send(self, shares: Shares, now_ns: int, until_ns: int) -> None:
        """Counts the next Grant, with these shares."""
        self.seq += 1
        self.account.count(self.seq, shares, now_ns, until_ns)
        if shares != self.sent:
            self._change = self.seq
        self.sent = shares
        if self.report:
            self._answered = (self.report.incarnation, self.reported_ns)

    def is_due(self, pause_ns: int) -> bool:
        """Whether its newest Report needs an answer: the last went to another process, or some time ago."""
        if self.report is None or self._answered is None:
            return True
        incarnation, reported_ns = self._answered
        return incarnation != self.report.incarnation or self.reported_ns - reported_ns >= pause_ns

    @property
    def idle(self) -> frozenset[str]:
        """The flows of it that have nothing to send, by its last Report."""
        return self.report.idle if self.report else frozenset()

    @property
    def unplaced(self) -> frozenset[str]:
        """The flows of the target that have no rule, by its last Report."""
        placed = self.report.placed if self.report else None
        return frozenset() if placed is None else frozenset(self.target.keys() - placed)

    def settled(self, now_ns: int) -> bool:
        """Whether it has its target: confirmed, by rules, and under a lease where it is above minimums."""
        if self.sent != self.target or self._confirmed < self._change or self.unplaced:
            return False
        leased = self.report is not None and now_ns < self.reported_ns + self.report.left_ns
        return leased or all(share.rate_bps <= share.minimum_bps for share in self.target.values())

    def part_of_target(self, room_bps: int, least_bps: Mapping[str, int]) -> Shares:
        """The part of the target that fits: at least these rates by flow, then what it has of it, then more.

        A flow that has no share yet gets none below its minimum, and no flow one of nothing: it is better off
        under ordinary congestion control.
        """
        present = self.sent or {}
        rates = {flow: least_bps.get(flow, 0) for flow in self.target}
        room_bps -= sum(least_bps.values())
        for wanted in (present, self.target):
            for flow, share in self.target.items():
                limit_bps = min(share.rate_bps, wanted[flow].rate_bps) if flow in wanted else 0
                rise_bps = min(room_bps, limit_bps - rates[flow])
                if rise_bps > 0:
                    rates[flow] += rise_bps
                    room_bps -= rise_bps
        return {
            flow: FlowShare(rates[flow], min(share.minimum_bps, rates[flow]))
            for flow, share in self.target.items()
            if rates[flow] >= (1 if flow in present else share.minimum_bps)
        }


RatesByAgent = Mapping[str, Mapping[str, int]]
"""Rates by agent, then by flow, in b/s on the wire."""
Messages = list[Grant | Call]


class Controller:
    """One of the controllers that may lead."""

    ledger_type = Ledger
    account_type = Account

    def __init__(
        self,
        trusted_bps: int,
        minimums_bps: RatesByAgent,
        allocate: Callable[[Orders, Collection[str]], RatesByAgent],
        *,
        lease_ns: int,
        alone: Alone = "minimum",
        drift_margin: float = DRIFT_MARGIN,
    ) -> None:
        """``allocate`` takes the orders and the flows with nothing to send. It gives every flow at least its
        minimum, and all together no more than ``trusted_bps``.

        A minimum is what a host falls back to, so it is fixed for the life of a controller; orders change
        only what is above.
        """
        self.epoch = 0
        """The epoch of the last term."""
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

        ``former`` is what lies on the bus, of whatever age: it may be of another policy, with other agents, a
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
        """Takes in what is wanted from now on, unless it has newer orders."""
        if orders.revision < self._orders.revision:
            return []
        self._orders = orders
        self._aim()
        return self._advance(now_ns) if now_ns < self._until_ns else []

    def receive(self, report: Report, now_ns: int) -> Messages:
        """Takes in the Report of an agent, and answers."""
        if now_ns >= self._until_ns:
            return []
        if report.epoch > self.epoch:
            self.overtaken, self._until_ns = report.epoch, now_ns
            return []
        peer = self._peers.get(report.agent) or self._add(report.agent)
        if report.epoch == self.epoch:
            self._learn(peer, report, now_ns)
        idle = peer.idle
        if not peer.note(report, now_ns, self._patience_ns):
            return self._advance(now_ns)
        if peer.idle != idle:
            self._aim()
        if not self._is_known(peer, now_ns):
            return [Call(agent=peer.name, epoch=self.epoch)]
        due = peer.is_due(self._lease_ns // BEATS_PER_LEASE // 2)
        answer = self._offer(peer, now_ns, renew=True) if due else []
        return answer + self._advance(now_ns)

    def tick(self, now_ns: int) -> Messages:
        """Grants what has become free by time alone; to be called at ``wake_ns``."""
        return self._advance(now_ns) if now_ns < self._until_ns else []

    def wake_ns(self, now_ns: int) -> int | None:
        """The time at which a rate becomes free by itself that somebody waits for."""
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
        """The revision of the orders, once all of them are in force; null: they are not yet."""
        done = self.leads(now_ns) and self._ledger.is_open(now_ns)
        done = done and not self._behind and all(peer.settled(now_ns) for peer in self._peers.values())
        return self._orders.revision if done else None

    def bounds_bps(self, now_ns: int) -> dict[str, int]:
        """The most that each agent may have by the ledger; agents that have not reported yet are left out."""
        return {
            name: peer.account.bound_bps(now_ns)
            for name, peer in self._peers.items()
            if self._is_known(peer, now_ns)
        }

    @property
    def peers(self) -> Mapping[str, Peer]:
        """The state of each agent by name."""
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
            peer.target = {
                flow: FlowShare(rate, minimums[flow]) for flow, rate in rates.get(name, {}).items()
            }
        self._behind = {peer.name: peer for peer in self._peers.values() if peer.sent != peer.target}

    def _learn(self, peer: Peer, report: Report, now_ns: int) -> None:
        """Takes from an agent of this epoch what it has from older ones, and which Grant it obeys."""
        if not peer.account.reported:
            peer.account.inherit(report.shares, now_ns, now_ns + longest_ns(report.left_ns, self._margin))
            if peer.sent is None:
                peer.sent = report.shares
                self._behind[peer.name] = peer
        if report.seq:
            peer.confirm(report.seq)

    def _is_known(self, peer: Peer, now_ns: int) -> bool:
        return peer.account.reported or now_ns >= self._ledger.open_ns

    def _advance(self, now_ns: int) -> Messages:
        """Grants to agents behind their targets, as far as is free by now."""
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
                # Another one may not live to use what it gets.
                is_lively = now_ns - peer.reported_ns <= self._patience_ns
                room_bps = account.bound_bps(now_ns) + (free_bps if is_lively else 0)
                least_bps = account.minimums
        if total_bps > room_bps:
            shares = peer.part_of_target(room_bps, least_bps)
        if (shares == peer.sent and not renew) or (peer.target and not shares):
            return []
        return [self._send(peer, report, shares, now_ns)]

    @property
    def _patience_ns(self) -> int:
        """An agent that has missed two beats may be dead."""
        return 2 * self._lease_ns // BEATS_PER_LEASE

    def _send(self, peer: Peer, report: Report, shares: Shares, now_ns: int) -> Grant:
        peer.send(shares, now_ns, peer.reported_ns + longest_ns(self._lease_ns, self._margin))
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
