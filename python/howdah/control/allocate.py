"""Allocation: the share each flow is to have, from the policy and what is asked for.

Every flow has its minimum first. What is left goes to the highest priority until all its flows are at
their maximums, then to the next. Within a priority it is max-min fair by weight: no share could be raised
but by lowering one that is no larger for its weight. So each is its weight × one common level, where its
minimum and maximum allow.

References: D. Bertsekas and R. Gallager, Data Networks, 2nd ed., 1992, §6.5.2 (max-min flow control); with
minimums, B. Radunović and J.-Y. Le Boudec, A unified framework for max-min and min-max fairness, IEEE/ACM
Transactions on Networking 15(5), 2007 (water-filling).
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import lcm
from typing import NamedTuple

from howdah.control.policy import Policy


class _Claim(NamedTuple):
    """What each of some flows may have; in whole numbers, so that sums are exact."""

    flows: list[str]
    minimum_bps: int
    maximum_bps: int
    weight: int
    priority: int


def allocate(
    policy: Policy, asked: Collection[str] = (), demand_bps: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The share of every flow in b/s on the wire, while the classes ``asked`` are asked for.

    ``demand_bps`` is what single flows can use, so that others get the rest: 0 for those of a drained host,
    or of one that its class is not asked for.
    Each keeps its minimum. Names that the policy does not know count for nothing, because an order may
    outlive a change of the policy. The sum is never above ``policy.trusted_bps``; rounding leaves less than
    1 b/s a flow over.
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


def _claims(policy: Policy, asked: Collection[str], demand_bps: Mapping[str, int]) -> Iterator[_Claim]:
    """One for all flows of a class that can use as much."""
    unit = lcm(*(len(each.flows) for each in policy.classes))
    for each, terms in zip(policy.classes, policy.terms(asked), strict=True):
        flows = len(each.flows)
        minimum_bps = terms.minimum_bps // flows
        maximum_bps = policy.trusted_bps if terms.maximum_bps is None else terms.maximum_bps // flows
        if each.asked and each.name not in asked:
            maximum_bps = minimum_bps
        usable: dict[int, list[str]] = {}
        for flow in each.flows:
            usable_bps = max(minimum_bps, min(maximum_bps, demand_bps.get(flow.id, maximum_bps)))
            usable.setdefault(usable_bps, []).append(flow.id)
        for usable_bps, names in usable.items():
            yield _Claim(names, minimum_bps, usable_bps, terms.weight * unit // flows, terms.priority)


def _fill(claims: Sequence[_Claim], left_bps: int) -> list[int]:
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
