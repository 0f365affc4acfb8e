"""What must never be, looked for at every instant at which anything in force changes.

Between such instants rates only fall, because a lease that runs out leaves a flow its minimum, and no rate in
force is below that: so the sum is largest just after a write to some kernel, or a start of one.
"""

from collections.abc import Mapping, Sequence

from bench.leases.clock import PPM_MAX
from bench.leases.controller_host import ControllerHost
from bench.leases.ground import Ground
from bench.leases.host import Host
from howdah.control.leases.agent import Held
from howdah.control.leases.messages import Call, Grant

SUM = "more in force than there is to give away"
MINIMUM = "less in force than a minimum"
RATE = "a rate that was not granted"
LEASE = "a lease longer than granted"
LEDGER = "a host beyond what the ledger takes for the most it can have"
TERM = "a controller speaking after its term"
GOAL = "targets not in force in time after the last fault"
NEVER = (SUM, MINIMUM, RATE, LEASE, LEDGER, TERM)


class Watch:
    """Sees all hosts at once, and true time."""

    def __init__(
        self, ground: Ground, hosts: Mapping[str, Host], controller_hosts: Sequence[ControllerHost]
    ) -> None:
        self.broken: dict[str, int] = {}
        """What was, and when first, in ns."""
        self.looks = 0
        self._ground, self._hosts, self._controller_hosts = ground, hosts, controller_hosts
        self._said: dict[tuple[str, int, int], int] = {}

    def changed(self) -> None:
        """Something in force is different."""
        now_ns = self._ground.timeline.now_ns
        self.looks += 1
        total_bps = sum(host.total_bps(now_ns) for host in self._hosts.values())
        if total_bps > self._ground.targets.policy.trusted_bps:
            self._note(SUM)
        for each in self._controller_hosts:
            for name, bound_bps in each.bounds_bps().items():
                if self._hosts[name].total_bps(now_ns) > bound_bps:
                    self._note(LEDGER)

    def held(self, host: str, flow: str, held: Held) -> None:
        """An agent has given a flow a share."""
        there = self._hosts[host]
        if held.rate_bps < there.minimums_bps[flow] or held.minimum_bps < there.minimums_bps[flow]:
            self._note(MINIMUM)
        grant = there.obeys
        said_ns = self._said.get((host, grant.epoch, grant.seq)) if grant else None
        if grant is None or said_ns is None or grant.shares[flow].rate_bps != held.rate_bps:
            self._note(RATE)
        elif there.ends_ns(held.until_ns) > said_ns + grant.lease_ns * 1_000_000 // (1_000_000 - PPM_MAX) + 1:
            self._note(LEASE)
        self.changed()

    def said(self, message: Grant | Call) -> None:
        """A controller has spoken."""
        record = self._ground.store.record
        if record is not None and message.epoch < record.epoch:
            self._note(TERM)
        if isinstance(message, Grant):
            self._said[message.agent, message.epoch, message.seq] = self._ground.timeline.now_ns

    def ended(self, goals_bps: Mapping[str, Mapping[str, int]]) -> None:
        """Nothing will change any more: ``goals_bps`` are what hosts are to have by then."""
        now_ns = self._ground.timeline.now_ns
        if any(self._hosts[name].rates_bps(now_ns) != goal for name, goal in goals_bps.items()):
            self._note(GOAL)

    def _note(self, what: str) -> None:
        self.broken.setdefault(what, self._ground.timeline.now_ns)
