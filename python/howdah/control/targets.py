"""What a controller aims at: a policy's allocation under the orders that stand."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress

from howdah import HowdahError
from howdah._native import format_rate
from howdah.control.allocate import allocate
from howdah.control.orders import Orders, Terms
from howdah.control.policy import Policy


class Targets:
    """Of all agents of one policy. To be called with orders; rates are by agent and flow, in b/s."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._agents = {flow.id: flow.member.agent for flow in policy.flows}
        self._safe_bps = policy.safe_bps()
        self.minimums_bps = self._by_agent(self._safe_bps)
        """What a host falls back to. Orders never change it."""

    def __call__(self, orders: Orders, idle: Collection[str] = ()) -> dict[str, dict[str, int]]:
        """What every flow is to have, while those of ``idle`` have nothing to send.

        Changed terms that cannot be kept count for nothing (see ``check``).
        """
        policy, kept = self.policy, dict[str, Terms]()
        for name, terms in sorted(orders.changed.items()):
            with suppress(HowdahError):
                policy = self._changed({**kept, name: terms})
                kept[name] = terms
        wants = {flow for flow, agent in self._agents.items() if agent not in orders.drained}
        asked = set(orders.asked)
        for each in self.policy.classes:
            own = {flow.id: flow.member.agent for flow in each.flows}
            hosts = orders.hosts.get(each.name)
            wants -= {flow for flow, agent in own.items() if hosts is not None and agent not in hosts}
            if each.lent:
                wants -= own.keys() & set(idle)
                if not wants & own.keys():
                    asked.discard(each.name)
        return self._by_agent(allocate(policy, asked, dict.fromkeys(self._agents.keys() - wants, 0)))

    def check(self, orders: Orders, name: str, terms: Terms) -> None:
        """Raises HowdahError when a class cannot be given these terms beside the orders that stand."""
        self._changed({**orders.changed, name: terms})

    def _changed(self, changed: Mapping[str, Terms]) -> Policy:
        policy = self.policy.changed(changed)
        for flow, safe_bps in policy.safe_bps().items():
            if safe_bps < self._safe_bps[flow]:
                raise HowdahError(
                    f"{policy.name}: {flow} falls back to {format_rate(self._safe_bps[flow])} when its lease "
                    "runs out, so an order cannot make its minimum smaller; change the policy file for that"
                )
        return policy

    def _by_agent(self, rates_bps: dict[str, int]) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for flow, rate_bps in rates_bps.items():
            found[self._agents[flow]][flow] = rate_bps
        return dict(found)
