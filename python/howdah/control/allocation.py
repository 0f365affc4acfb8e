"""Allocation: the share each flow is to have, from the policy, the orders, and what is asked for.

Every flow has its minimum first. What is left goes to the highest priority until all its flows are at
their maximums, then to the next. Within a priority it is max-min fair by weight: no share could be raised
but by lowering one that is no larger for its weight. So each is its weight × one common level, where its
minimum and maximum allow.

References: D. Bertsekas and R. Gallager, Data Networks, 2nd ed., 1992, §6.5.2 (max-min flow control); with
minimums, B. Radunović and J.-Y. Le Boudec, A unified framework for max-min and min-max fairness, IEEE/ACM
Transactions on Networking 15(5), 2007 (water-filling).
"""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from math import lcm

from howdah import HowdahError
from howdah._native import format_rate
from howdah.control.policy import Policy
from howdah.control.policy.orders import Orders, TermsTable
from howdah.control.policy.terms import Claim


def allocate(
    policy: Policy, asked: Collection[str] = (), demand_bps: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The share of every flow in b/s on the wire, while the classes ``asked`` are asked for.

    ``demand_bps`` is what single flows can use, so that others get the rest: 0 for those of a drained host,
    or of one that its class is not asked for. Each keeps its minimum. Names that the policy does not have
    count for nothing, because an order may outlive a change of the policy. The sum is never above
    ``policy.trusted_bps``; rounding leaves less than 1 b/s a flow over.
    """
    claims = sorted(_claims(policy, asked, demand_bps or {}), key=lambda claim: -claim.priority)
    left_bps = policy.trusted_bps - sum(len(claim.flows) * claim.minimum_bps for claim in claims)
    shares: dict[str, int] = {}
    for _, equal in itertools.groupby(claims, key=lambda claim: claim.priority):
        group = list(equal)
        rates = _fill(group, left_bps)
        for claim, rate_bps in zip(group, rates, strict=True):
            shares |= dict.fromkeys(claim.flows, rate_bps)
            left_bps -= len(claim.flows) * (rate_bps - claim.minimum_bps)
        if any(rate_bps < claim.maximum_bps for claim, rate_bps in zip(group, rates, strict=True)):
            left_bps = 0
    return shares


def _claims(policy: Policy, asked: Collection[str], demand_bps: Mapping[str, int]) -> Iterator[Claim]:
    """A claim for all flows of a class that can use as much."""
    unit = lcm(*(len(each.flows) for each in policy.classes))
    for each, terms in zip(policy.classes, policy.terms(asked), strict=True):
        claim = terms.claim([flow.id for flow in each.flows], policy.trusted_bps, unit)
        least_bps = claim.minimum_bps
        most_bps = least_bps if each.asked and each.name not in asked else claim.maximum_bps
        usable: dict[int, list[str]] = {}
        for flow in claim.flows:
            usable_bps = max(least_bps, min(most_bps, demand_bps.get(flow, most_bps)))
            usable.setdefault(usable_bps, []).append(flow)
        for usable_bps, names in usable.items():
            yield claim._replace(flows=names, maximum_bps=usable_bps)


def _fill(claims: Sequence[Claim], left_bps: int) -> list[int]:
    """The max-min fair rate of each claim's flows, rounded down: all minimums, and ``left_bps`` more in sum.

    As the level rises, a rate begins to grow at minimum / weight and ends at maximum / weight. Between two
    such events the sum is linear in the level.
    """
    unit = lcm(*{claim.weight for claim in claims})
    events = []
    for claim in claims:
        flows, scale = len(claim.flows), unit // claim.weight
        events.append((claim.minimum_bps * scale, flows * claim.weight, -flows * claim.minimum_bps))
        events.append((claim.maximum_bps * scale, -flows * claim.weight, flows * claim.maximum_bps))
    constant_bps = sum(len(claim.flows) * claim.minimum_bps for claim in claims)
    available_bps, growing = constant_bps + left_bps, 0
    for level, weight, rate_bps in sorted(events):
        if constant_bps * unit + growing * level > available_bps * unit:
            break
        constant_bps, growing = constant_bps + rate_bps, growing + weight
    else:
        return [claim.maximum_bps for claim in claims]
    rising_bps = available_bps - constant_bps
    return [
        min(claim.maximum_bps, max(claim.minimum_bps, claim.weight * rising_bps // growing))
        for claim in claims
    ]


class Targets:
    """The targets of all agents of one policy under orders. Rates are by agent and flow, in b/s."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._agents = {flow.id: flow.member.agent for flow in policy.flows}
        self._safe_bps = policy.safe_bps()
        self.minimums_bps = self._by_agent(self._safe_bps)
        """The rates that hosts fall back to. Orders never change them."""

    def __call__(self, orders: Orders, idle: Collection[str] = ()) -> dict[str, dict[str, int]]:
        """The share of every flow, while those of ``idle`` have nothing to send.

        Changed terms that cannot be kept count for nothing (see ``check``).
        """
        policy, kept = self.policy, dict[str, TermsTable]()
        for name, terms in sorted(orders.changed.items()):
            with suppress(HowdahError):
                policy = self._changed({**kept, name: terms})
                kept[name] = terms
        wants = {flow for flow, agent in self._agents.items() if agent not in orders.drained}
        requested = set(orders.requested)
        for each in self.policy.classes:
            own = {flow.id: flow.member.agent for flow in each.flows}
            hosts = orders.hosts.get(each.name)
            wants -= {flow for flow, agent in own.items() if hosts is not None and agent not in hosts}
            if each.lent:
                wants -= own.keys() & set(idle)
                if not wants & own.keys():
                    requested.discard(each.name)
        return self._by_agent(allocate(policy, requested, dict.fromkeys(self._agents.keys() - wants, 0)))

    def check(self, orders: Orders, name: str, terms: TermsTable) -> None:
        """Raises HowdahError when a class cannot be given these terms beside the orders that stand."""
        self._changed({**orders.changed, name: terms})

    def _changed(self, changed: Mapping[str, TermsTable]) -> Policy:
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
