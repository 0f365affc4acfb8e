"""An agent: puts the shares of one host into force, and tells the controllers what is.

It never raises a rate by itself, and a lease ends in the kernel, whether the agent lives or not. It follows
the largest epoch that has reached it. It keeps nothing: an agent that starts again reads from the kernel what
is in force, and a Grant meant for its forerunner is not for it.

A flow is idle, so that others may have its share meanwhile, once none of its data has waited for its turn for
a while, in which it sent no more than its minimum would have let it. A flow that sends as fast as its program
gives is not idle, whatever its share; nor is one that its minimum holds back, so the next look finds it when
it begins.

No input or output but the kernel's table of shares: messages and times come as arguments. All times are of
one clock of the host, which counts suspension too: CLOCK_BOOTTIME, as in the kernel's table.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from howdah.control.leases.messages import BEATS_PER_LEASE, Call, FlowShare, Grant, Measured, Report
from howdah.control.policy.members import Member

LOOK_NS = 20_000_000
"""The time between two looks at what flows send."""
AFTER_NS = 60_000_000
"""A flow that sends nothing is idle after this. Pauses of a handshake or a disk may be longer: then a share
is lent and given back. The longer, the more of the path is nobody's when a transfer ends."""
_S_BITS = 8_000_000_000


class _Seen(NamedTuple):
    since_ns: int
    sent_bytes: int
    """The count at ``since_ns``."""
    waits: bool
    idle: bool


class Idle:
    """The idle flows of one host, from looks at what its kernel measured."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def look(
        self,
        flows: Iterable[str],
        measured: Mapping[str, Measured],
        minimums_bps: Mapping[str, int],
        now_ns: int,
    ) -> frozenset[str]:
        """The flows of ``flows`` that are idle now; those without a minimum never are."""
        known = [flow for flow in flows if flow in measured and flow in minimums_bps]
        self._seen = {
            flow: _next(self._seen.get(flow), measured[flow], minimums_bps[flow], now_ns) for flow in known
        }
        return frozenset(flow for flow, seen in self._seen.items() if seen.idle)


def _next(seen: _Seen | None, now: Measured, minimum_bps: int, now_ns: int) -> _Seen:
    waits = now.waiting > 0
    if seen is None or waits or seen.waits:
        return _Seen(now_ns, now.sent_bytes, waits, idle=False)
    span_ns = now_ns - seen.since_ns
    if span_ns < AFTER_NS:
        return seen
    idle = (now.sent_bytes - seen.sent_bytes) * _S_BITS <= minimum_bps * span_ns
    return _Seen(now_ns, now.sent_bytes, waits, idle)


class Held(NamedTuple):
    """A share in the kernel: ``rate_bps`` before ``until_ns``, then ``minimum_bps``; 0: ordinary control."""

    rate_bps: int
    minimum_bps: int
    until_ns: int


class ShareTable(Protocol):
    """The kernel's table of shares. Each call is done as a whole or raises."""

    def held(self) -> dict[str, Held]:
        """All shares of this host, by flow."""

    def hold(self, flow: str, held: Held) -> None:
        """Gives a flow this share from now on."""

    def release(self, flow: str) -> None:
        """Leaves a flow to ordinary congestion control."""

    def measured(self) -> dict[str, Measured]:
        """The measurements of each flow."""


class Kernel(ShareTable, Protocol):
    """A table of shares, and the rules by which connections have them."""

    def place(self, members: Mapping[str, Member]) -> Collection[str]:
        """Has the connections of these members, by flow, under the shares that there are.

        Returns the cgroups that are not there: called again, it places their members when they are. Raises
        HowdahError where the kernel does not take a rule.
        """

    def leave(self) -> None:
        """Puts everything back as it was without an agent."""


class Agent:
    """The agent of one process of one host."""

    def __init__(self, name: str, incarnation: int, kernel: ShareTable, lease_ns: int) -> None:
        """``incarnation`` is larger for every later process, as a rule, and never the same.

        ``lease_ns`` sets the beat until a Grant does.
        """
        self.wake_ns = 0
        """The time at which ``tick`` has something to do."""
        self._name = name
        self._incarnation = incarnation
        self._kernel = kernel
        self._held = kernel.held()
        self._lease_ns = lease_ns
        self._epoch = 0
        self._seq = 0
        self._beat = 0
        self._answered = 0
        self._sent: dict[int, int] = {}
        self._minimums_bps = {flow: held.minimum_bps for flow, held in self._held.items() if held.minimum_bps}
        """The minimums; known before any Grant where a lease's end leaves them in force in the kernel."""
        self._looks = Idle()
        self._idle: frozenset[str] = frozenset()
        self._placed: frozenset[str] | None = None

    def tick(self, now_ns: int) -> Report | None:
        """A Report at every beat."""
        return self._report(now_ns) if now_ns >= self.wake_ns else None

    def look(self, lent: Collection[str], now_ns: int) -> Report | None:
        """Looks which of these flows have nothing to send; a Report when that has changed."""
        before = self._idle
        self._idle = self._looks.look(lent, self._kernel.measured(), self._minimums_bps, now_ns)
        return self._report(now_ns) if self._idle != before else None

    def place(self, flows: Collection[str], now_ns: int) -> Report | None:
        """Notes for which flows there are rules; a Report when that has changed."""
        before, self._placed = self._placed, frozenset(self._held.keys() & set(flows))
        return self._report(now_ns) if self._placed != before else None

    def receive(self, message: Grant | Call, now_ns: int) -> Report | None:
        """Obeys a message unless it is out of date; returns a Report if anything is different now.

        Raises what the kernel's table raises; the Grant is then not confirmed.
        """
        if message.epoch < self._epoch:
            return None
        news = message.epoch > self._epoch
        if news:
            self._epoch, self._seq = message.epoch, 0
        if isinstance(message, Grant):
            sent_ns = self._valid(message)
            if sent_ns is not None and now_ns < sent_ns + message.lease_ns:
                news |= self._seq == 0
                news |= self._apply(message, sent_ns + message.lease_ns, now_ns)
        return self._report(now_ns) if news else None

    def _valid(self, grant: Grant) -> int | None:
        """The time of the Report that the Grant answers; null: the Grant is not for us, or overtaken."""
        if grant.incarnation != self._incarnation or grant.seq <= self._seq or grant.beat < self._answered:
            return None
        return self._sent.get(grant.beat)

    def _apply(self, grant: Grant, until_ns: int, now_ns: int) -> bool:
        """Puts the shares into force, and returns whether any is another than before."""
        before = _in_force(self._held, now_ns)
        for flow in self._held.keys() - grant.shares.keys():
            self._kernel.release(flow)
            del self._held[flow]
        for flow, share in self._in_order(grant.shares, before):
            minimum_bps = share.minimum_bps if grant.alone == "minimum" else 0
            held = Held(share.rate_bps, minimum_bps, until_ns)
            self._kernel.hold(flow, held)
            self._held[flow] = held
        self._minimums_bps = {flow: share.minimum_bps for flow, share in grant.shares.items()}
        self._seq, self._answered, self._lease_ns = grant.seq, grant.beat, grant.lease_ns
        return before != _in_force(self._held, now_ns)

    def _in_order(
        self, shares: Mapping[str, FlowShare], before: Mapping[str, FlowShare]
    ) -> list[tuple[str, FlowShare]]:
        """Sorts lowered shares first, so that the sum is never above what it was and what it will be."""

        def rises(item: tuple[str, FlowShare]) -> bool:
            flow, share = item
            return share.rate_bps > (before[flow].rate_bps if flow in before else share.minimum_bps)

        return sorted(shares.items(), key=rises)

    def _report(self, now_ns: int) -> Report:
        self._beat += 1
        self._sent = {beat: at for beat, at in self._sent.items() if now_ns < at + self._lease_ns}
        self._sent[self._beat] = now_ns
        self.wake_ns = now_ns + self._lease_ns // BEATS_PER_LEASE
        return Report(
            agent=self._name,
            incarnation=self._incarnation,
            beat=self._beat,
            epoch=self._epoch,
            seq=self._seq,
            left_ns=max([0, *(held.until_ns - now_ns for held in self._held.values())]),
            shares=_in_force(self._held, now_ns),
            measured=self._kernel.measured(),
            idle=self._idle,
            placed=self._placed,
        )


def _in_force(held: Mapping[str, Held], now_ns: int) -> dict[str, FlowShare]:
    return {
        flow: FlowShare(each.rate_bps if now_ns < each.until_ns else each.minimum_bps, each.minimum_bps)
        for flow, each in held.items()
    }
