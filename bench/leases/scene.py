"""What a seed decides: the policy, the clocks, the network's weather, and when who dies or is cut off."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from bench.leases.clock import PPM_MAX, Clock
from bench.leases.network import Weather
from bench.leases.timeline import NS_PER_S
from howdah.control.policy import Flow, Policy, TrafficClass
from howdah.control.policy.members import Member
from howdah.control.policy.terms import Change, Terms

LEASE_NS = NS_PER_S
TERM_PER_LEASE = 0.4
"""Of a controller's leadership: who follows one that died is in time to renew the leases."""
TRUSTED_BPS = 1_000_000_000
_PERCENT = TRUSTED_BPS // 100
ROUGH_NS = 7 * NS_PER_S // 2
"""Faults happen until then in a drawn scene."""
SETTLED_LEASES = 2 + 2 * TERM_PER_LEASE
"""So long after the last fault all must have what they are to have."""


class Event(NamedTuple):
    """Something from outside."""

    at_ns: int
    kind: str
    again_ns: int
    """How long it lasts."""


class Scene(NamedTuple):
    """All that is decided beforehand."""

    policy: Policy
    later: Policy
    """Of the same flows: what the policy file may be changed to."""
    weather: Weather
    clocks: Callable[[], Clock]
    controller_hosts: int
    """Hosts for controllers."""
    events: Sequence[Event]
    rough_ns: int
    """Messages may be lost until then; whoever is dead then starts again."""

    @property
    def lease_ns(self) -> int:
        return int(self.policy.lease_s * NS_PER_S)

    @property
    def term_ns(self) -> int:
        return int(self.lease_ns * TERM_PER_LEASE)


def drawn(random: Random) -> Scene:
    """One of all that there can be."""
    policy, later = _policies(random)
    return Scene(
        policy=policy,
        later=later,
        weather=_weather(random),
        clocks=lambda: _clock(random),
        controller_hosts=random.randint(1, 3),
        events=list(_events(random)),
        rough_ns=ROUGH_NS,
    )


def _policies(random: Random) -> tuple[Policy, Policy]:
    """Images that are asked for, background, sometimes a fixed share; and other terms for the same."""
    agents = [f"base{20 + number}" for number in range(random.choice((2, 2, 2, 3, 3, 3, 4, 4, 5, 6)))]
    imaging = random.sample(agents, random.randint(1, max(1, len(agents) - 1)))
    others = [agent for agent in agents if agent not in imaging]
    background = others + random.sample(imaging, random.randint(0, len(imaging)))
    fixed = random.sample(agents, random.choice((0, 0, 1)))
    change = {"background": Change(maximum_bps=25 * _PERCENT)} if random.random() < 0.5 else {}
    first, later = (
        policy_of(
            [
                class_of("background", background, _terms(random, (1, 5, 20))),
                class_of("images", imaging, _terms(random, (1, 20)), change, lent=random.random() < 0.5),
                *([class_of("replication", fixed, _fixed(random))] if fixed else []),
            ],
            LEASE_NS,
        )
        for _ in range(2)
    )
    return first, later


def _terms(random: Random, minimums: Sequence[int]) -> Terms:
    return Terms(
        minimum_bps=_PERCENT * random.choice(minimums),
        weight=random.randint(1, 4),
        priority=random.randint(0, 1),
    )


def _fixed(random: Random) -> Terms:
    rate_bps = _PERCENT * random.choice((5, 30))
    return Terms(rate_bps, rate_bps)


def policy_of(classes: Sequence[TrafficClass], lease_ns: int) -> Policy:
    """These classes on a path of TRUSTED_BPS."""
    return Policy(
        name="simulated",
        guarantee_bps=TRUSTED_BPS,
        trusted_bps=TRUSTED_BPS,
        lease_s=lease_ns / NS_PER_S,
        alone="minimum",
        classes=tuple(classes),
    ).checked("simulated")


def class_of(
    name: str,
    agents: Sequence[str],
    terms: Terms,
    others: dict[str, Change] | None = None,
    *,
    lent: bool = False,
) -> TrafficClass:
    """A class with a flow on each of these agents; the images are asked for."""
    flows = tuple(Flow(f"{name}/{agent}", Member(agent, "10.0.0.0/8", (1, 65535))) for agent in agents)
    return TrafficClass(name, terms, flows, asked=name == "images", lent=lent, others=others or {})


def _clock(random: Random) -> Clock:
    """Any origin; as often as not the worst rate."""
    ppm = random.choice((-PPM_MAX, PPM_MAX, -PPM_MAX, PPM_MAX, random.randint(-PPM_MAX, PPM_MAX), 0))
    return Clock(random.randrange(10**16), ppm)


def _weather(random: Random) -> Weather:
    """From a quiet machine room to worse than any network."""
    return Weather(
        delay_ns=int(NS_PER_S * 10 ** random.uniform(-4, -1.5)),
        lost=random.choice((0.0, 0.0, 0.03, 0.25)),
        doubled=random.choice((0.0, 0.1)),
        late=random.choice((0.0, 0.02, 0.1)),
    )


_KINDS = {
    "orders": 4,
    "fell silent or spoke": 3,
    "agent killed": 2,
    "host rebooted": 1,
    "leader killed": 2,
    "controller killed": 1,
    "some cut off": 4,
    "two cut off from each other": 3,
    "policy file changed": 1,
}


def _events(random: Random) -> Iterator[Event]:
    """In no order."""
    kinds = random.choices(list(_KINDS), list(_KINDS.values()), k=random.randint(3, 14))
    for kind in kinds:
        at_ns = random.randrange(ROUGH_NS // 8, ROUGH_NS)
        yield Event(at_ns, kind, int(NS_PER_S * random.choice((0.02, 0.3, 1.0, 2.5)) * random.random()))
        if random.random() < 0.5:
            # What goes wrong in the middle of a change is what matters.
            yield Event(at_ns + random.randint(-NS_PER_S // 20, NS_PER_S // 20), "orders", 0)
