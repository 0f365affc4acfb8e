"""An agent: puts the shares of one host into force, and tells the controllers what is.

It never raises a rate by itself, and a lease ends in the kernel, whether the agent lives or not. It follows
the largest epoch it has heard of. Nothing of it needs to be kept: an agent that starts again reads from the
kernel what is in force, and a Grant meant for its forerunner is not for it.

No input or output but the kernel's table of shares: messages and times come as arguments. All times are of
one clock of the host, which counts suspension too: CLOCK_BOOTTIME, as in the kernel's table.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from howdah.control.idle import Idle
from howdah.control.messages import BEATS_PER_LEASE, Call, Grant, Measured, Report, Share


class Held(NamedTuple):
    """A share in the kernel: ``rate_bps`` before ``until_ns``, then ``minimum_bps``; 0: ordinary control."""

    rate_bps: int
    minimum_bps: int
    until_ns: int


class Kernel(Protocol):
    """The table of shares. Each call is done as a whole or raises."""

    def held(self) -> dict[str, Held]:
        """All shares of this host, by flow."""

    def hold(self, flow: str, held: Held) -> None:
        """Gives a flow this share from now on."""

    def release(self, flow: str) -> None:
        """Leaves a flow to ordinary congestion control."""

    def measured(self) -> dict[str, Measured]:
        """What each flow did, by flow."""


class Agent:
    """One process of one host."""

    def __init__(self, name: str, incarnation: int, kernel: Kernel, lease_ns: int) -> None:
        """``incarnation`` is larger for every later process, as a rule, and never the same.

        ``lease_ns`` sets the beat until a Grant does.
        """
        self.wake_ns = 0
        """When ``tick`` has something to do."""
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
        """In the kernel only where a lease's end leaves it, but then known before any Grant."""
        self._looks = Idle()
        self._idle: frozenset[str] = frozenset()

    def tick(self, now_ns: int) -> Report | None:
        """At every beat a Report."""
        return self._report(now_ns) if now_ns >= self.wake_ns else None

    def look(self, lent: Collection[str], now_ns: int) -> Report | None:
        """Looks which of these flows have nothing to send; a Report when others have than before."""
        before = self._idle
        self._idle = self._looks.look(lent, self._kernel.measured(), self._minimums_bps, now_ns)
        return self._report(now_ns) if self._idle != before else None

    def hear(self, message: Grant | Call, now_ns: int) -> Report | None:
        """Does as told, unless it is out of date, and says so if anything is different now.

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
        """When the Report was sent that the Grant answers; null when it is not for us, or overtaken."""
        if grant.incarnation != self._incarnation or grant.seq <= self._seq or grant.beat < self._answered:
            return None
        return self._sent.get(grant.beat)

    def _apply(self, grant: Grant, until_ns: int, now_ns: int) -> bool:
        """Puts the shares into force, and says whether any is another than before."""
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

    def _in_order(self, shares: Mapping[str, Share], before: Mapping[str, Share]) -> list[tuple[str, Share]]:
        """Those that are lowered first, so that their sum is never above what it was and what it will be."""

        def rises(item: tuple[str, Share]) -> bool:
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
        )


def _in_force(held: Mapping[str, Held], now_ns: int) -> dict[str, Share]:
    return {
        flow: Share(each.rate_bps if now_ns < each.until_ns else each.minimum_bps, each.minimum_bps)
        for flow, each in held.items()
    }
