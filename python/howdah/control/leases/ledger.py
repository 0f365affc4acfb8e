"""The ledger: an upper bound on what may be in force, without trusting that any message arrived.

A Grant counts from the moment it is sent. It stops counting when the agent confirms a later one,
because an agent never goes back, or when its lease has run out by the clock of whoever sent it. Spans of two
clocks are compared with a margin for their drift.

An agent with several flows lowers before it raises, so at every instant of a change its flows
have together at most the larger of what they had and what they get. So one number an agent is enough, and a
rate moves between flows of one host without a wait.

Source: C. Gray and D. Cheriton, Leases: an efficient fault-tolerant mechanism for distributed file cache
consistency, SOSP 1989. Deviation: a lease begins when the Report that it answers was sent.
"""

from collections.abc import Mapping
from typing import NamedTuple

from howdah.control.leases.messages import FlowShare

DRIFT_MARGIN = 0.01
"""No two clocks may differ more in rate. Linux lets NTP correct a clock by 0.05 % at most (MAXFREQ)."""


def longest_ns(span_ns: int, margin: float = DRIFT_MARGIN) -> int:
    """The most that this clock can count in what is ``span_ns`` by another."""
    return span_ns + int(span_ns * margin) + 1


class _Entry(NamedTuple):
    """A Grant that may be in force; ``seq`` 0 is what the agent had before this epoch."""

    seq: int
    shares: Mapping[str, FlowShare]
    rates_bps: int
    """Their sum."""
    total_bps: int
    """Their sum with the flows that they do not name, and with those that have not been lowered yet."""
    until_ns: int


class Account:
    """The shares that one agent may have in force."""

    __slots__ = ("_entries", "_minimum_bps", "_policy", "minimums", "own_minimums", "reported")

    def __init__(self, minimums: Mapping[str, int]) -> None:
        """``minimums`` of the policy in b/s by flow: the agent falls back to those that have reached it."""
        self.reported = False
        """Whether it has reported under this epoch: then nothing is in force that is not in here."""
        self.minimums: Mapping[str, int]
        """The rate that each flow may fall back to: the largest that may be in force."""
        self.own_minimums: Mapping[str, int]
        """The minimums among them that were left to the agent by whoever led."""
        self._policy = minimums
        self._entries: list[_Entry] = []
        self._set_minimums(minimums, {})

    def expect(self, shares: Mapping[str, FlowShare]) -> None:
        """Counts the minimums of shares that it was granted or reported at some time before this epoch."""
        before, least = _minimums_of(shares), {**self.minimums, **self.own_minimums}
        own = {flow: min(least.get(flow, 0), each) for flow, each in before.items()}
        self._set_minimums(_larger(self.minimums, before), {**self.own_minimums, **own})

    def inherit(self, shares: Mapping[str, FlowShare], now_ns: int, until_ns: int) -> None:
        """Counts the shares that the agent reports to have of earlier epochs."""
        self.reported = True
        if not self._entries:
            minimums = _minimums_of(shares)
            self._set_minimums({**self.minimums, **minimums}, {**self.own_minimums, **minimums})
        self.count(0, shares, now_ns, until_ns)

    def count(self, seq: int, shares: Mapping[str, FlowShare], now_ns: int, until_ns: int) -> None:
        """Counts the shares that the agent is about to be sent."""
        self._entries = [entry for entry in self._entries if entry.until_ns > now_ns]
        rates_bps = sum(share.rate_bps for share in shares.values())
        self._entries.append(_Entry(seq, shares, rates_bps, self.total_bps(shares), until_ns))
        minimums = _minimums_of(shares)
        if minimums != self.own_minimums or minimums != self.minimums:
            self._set_minimums(_larger(self.minimums, minimums), _larger(self.own_minimums, minimums))

    def confirm(self, seq: int) -> None:
        """Takes in that the agent has put the Grant ``seq`` into force; it will never go back."""
        self._entries = [entry for entry in self._entries if entry.seq >= seq]
        if len(self._entries) == 1 and self._entries[0].seq == seq:
            # A minimum has no end, so an older and larger one counted until now.
            own = _minimums_of(self._entries[0].shares)
            minimums = {**self._policy, **own}
            if minimums != self.minimums:
                self._set_minimums(minimums, own)

    def bound_bps(self, now_ns: int) -> int:
        """The most that its flows have together."""
        bound_bps = self._minimum_bps
        for entry in self._entries:
            if entry.until_ns > now_ns and entry.total_bps > bound_bps:
                bound_bps = entry.total_bps
        return bound_bps

    def own_bps(self, now_ns: int) -> int:
        """The part of it that was left to the agent by whoever led, so that it may be granted again."""
        leased = [entry.rates_bps for entry in self._entries if entry.until_ns > now_ns]
        return max([sum(self.own_minimums.values()), *leased])

    def falls_ns(self, now_ns: int) -> int | None:
        """The time at which the next lease runs out; null: none is left."""
        return min((entry.until_ns for entry in self._entries if entry.until_ns > now_ns), default=None)

    def total_bps(self, shares: Mapping[str, FlowShare]) -> int:
        """The most that its flows can have together while these shares are put into force one by one."""
        minimums = self.minimums
        above = (share.rate_bps - minimums.get(flow, 0) for flow, share in shares.items())
        return self._minimum_bps + sum(bps for bps in above if bps > 0)

    def _set_minimums(self, minimums: Mapping[str, int], own: Mapping[str, int]) -> None:
        self.minimums, self.own_minimums = minimums, own
        self._minimum_bps = sum(minimums.values())
        self._entries = [entry._replace(total_bps=self.total_bps(entry.shares)) for entry in self._entries]


def _larger(some: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    return {flow: max(some.get(flow, 0), others.get(flow, 0)) for flow in {**some, **others}}


def _minimums_of(shares: Mapping[str, FlowShare]) -> dict[str, int]:
    return {flow: share.minimum_bps for flow, share in shares.items()}


class Ledger:
    """The accounts of all agents, and the part of the guarantee that none of them can have."""

    def __init__(self, trusted_bps: int, open_ns: int) -> None:
        """Begins without accounts. Until ``open_ns`` an agent that has not reported may have anything."""
        self.trusted_bps = trusted_bps
        self.open_ns = open_ns
        self.accounts: list[Account] = []

    def is_open(self, now_ns: int) -> bool:
        """Whether the accounts hold all that may be in force."""
        return now_ns >= self.open_ns or all(account.reported for account in self.accounts)

    def free_bps(self, now_ns: int) -> int:
        """The rate that may be given out on top of all bounds. Negative: more was promised than there is."""
        if not self.is_open(now_ns):
            return 0
        return self.trusted_bps - sum(account.bound_bps(now_ns) for account in self.accounts)
