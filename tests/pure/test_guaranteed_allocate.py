"""Shares: the paper's, and what holds for all policies, beside progressive filling in exact fractions."""

import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from pathlib import Path
from random import Random

import msgspec
import pytest
from guaranteed import POLICY, PRIORITIES, Tables, policies, tables
from hypothesis import assume, given
from hypothesis import strategies as st

from howdah import HowdahError
from howdah._native import parse_rate
from howdah.control.allocation import allocate
from howdah.control.policy import Policy
from howdah.control.policy.policyfile import loads

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "control.md"
MEMBER = '[[class.{0}.member]]\nhost = "{0}"\nto = "10.0.0.1"\n'


class Flow:
    """What a flow may have while ``asked`` are asked for, said once more and in fractions."""

    def __init__(self, policy: Policy, place: int, asked: Collection[str], demand_bps: int | None) -> None:
        each, terms = policy.classes[place], policy.terms(asked)[place]
        self.weight = Fraction(terms.weight, len(each.flows))
        self.priority = terms.priority
        self.minimum_bps = terms.minimum_bps // len(each.flows)
        bounds = [policy.trusted_bps]
        if terms.maximum_bps is not None:
            bounds.append(terms.maximum_bps // len(each.flows))
        if demand_bps is not None:
            bounds.append(demand_bps)
        if each.asked and each.name not in asked:
            bounds.append(0)
        self.maximum_bps = max(self.minimum_bps, min(bounds))


def flows(
    policy: Policy, asked: Collection[str], demand_bps: Mapping[str, int] | None = None
) -> dict[str, Flow]:
    return {
        flow.id: Flow(policy, place, asked, (demand_bps or {}).get(flow.id))
        for place, each in enumerate(policy.classes)
        for flow in each.flows
    }


def progressive(flows: Mapping[str, Flow], whole_bps: int) -> dict[str, Fraction]:
    """Raises those that have least for their weight, together, to the next event; highest priority first."""
    shares = {name: Fraction(flow.minimum_bps) for name, flow in flows.items()}
    for priority in sorted({flow.priority for flow in flows.values()}, reverse=True):
        while left := whole_bps - sum(shares.values()):
            levels = {
                name: shares[name] / flow.weight
                for name, flow in flows.items()
                if flow.priority == priority and shares[name] < flow.maximum_bps
            }
            if not levels:
                break
            lowest = min(levels.values())
            rising = [name for name, level in levels.items() if level == lowest]
            stops = [level for level in levels.values() if level > lowest]
            stops += [flows[name].maximum_bps / flows[name].weight for name in rising]
            stops.append(lowest + left / sum(flows[name].weight for name in rising))
            shares |= {name: min(stops) * flows[name].weight for name in rising}
        else:
            break
    return shares


@st.composite
def cases(draw: st.DrawFn) -> tuple[Policy, set[str], dict[str, int]]:
    """A policy, what is asked for, and what some flows can use."""
    policy = draw(policies())
    asked = {each.name for each in policy.classes if not draw(st.booleans())}
    names = st.sampled_from([flow.id for flow in policy.flows])
    return policy, asked, draw(st.dictionaries(names, st.integers(0, policy.trusted_bps), max_size=4))


def test_the_papers_shares() -> None:
    """§IV.B: replication 5 %, background 95 %; while images go 1 % and 47 % each."""
    policy = loads(POLICY.replace('"99%"', '"100%"'), "p.toml")
    before = allocate(policy)
    during = allocate(policy, {"images"})
    assert before == {
        "replication/base22": 50_000_000,
        "background/base23": 949_984_000,
        "images/base20": 8_000,
        "images/base21": 8_000,
    }
    assert during == {
        "replication/base22": 50_000_000,
        "background/base23": 10_000_000,
        "images/base20": 470_000_000,
        "images/base21": 470_000_000,
    }


def test_what_the_documentation_says_is_so() -> None:
    example, _cgroup, others, *_ = re.findall(r"```toml\n(.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
    cells = re.findall(r"^\| (?:nobody|while) .*?\| (.*) \|$", DOCUMENTATION.read_text(), re.MULTILINE)
    for text in (example, example + others):
        policy = loads(text, "docs/control.md")
        for asked, row in zip(((), ("images",)), cells, strict=True):
            shares = allocate(policy, asked)
            flows = ("replication/base22", "background/base23", "images/base20")
            assert [shares[flow] for flow in flows] == [parse_rate(cell) for cell in row.split(" | ")]
            assert shares["images/base21"] == shares["images/base20"]


def test_a_minimum_is_no_bonus_and_weights_are_of_classes() -> None:
    text = (
        'name = "p"\nguarantee = "80Mbit"\n[class.a]\nminimum = "10Mbit"\n[class.b]\nweight = 2\n[class.c]\n'
        + MEMBER.format("a")
        + MEMBER.format("b")
        + MEMBER.format("c")
        + MEMBER.format("c").replace('"c"', '"d"')
    )
    policy = loads(text, "p.toml")
    shares = {"a/a": 20_000_000, "b/b": 40_000_000, "c/c": 10_000_000, "c/d": 10_000_000}
    assert allocate(policy) == shares
    assert allocate(policy, (), {"b/b": 0, "c/d": 10**12}) == {
        "a/a": 39_996_000,
        "b/b": 8_000,
        "c/c": 19_998_000,
        "c/d": 19_998_000,
    }


def test_orders_for_what_is_not_there_change_nothing() -> None:
    policy = loads(POLICY, "p.toml")
    assert allocate(policy, {"images", "gone", "background"}, {"gone/h": 1}) == allocate(policy, {"images"})


@given(cases())
def test_shares_are_those_of_progressive_filling_rounded_down(
    case: tuple[Policy, set[str], dict[str, int]],
) -> None:
    policy, asked, demand_bps = case
    ideal = progressive(flows(policy, asked, demand_bps), policy.trusted_bps)
    assert allocate(policy, asked, demand_bps) == {name: int(share) for name, share in ideal.items()}


@given(cases())
def test_no_flow_is_out_of_its_bounds_and_all_are_within_what_there_is(
    case: tuple[Policy, set[str], dict[str, int]],
) -> None:
    policy, asked, demand_bps = case
    shares = allocate(policy, asked, demand_bps)
    bounds = flows(policy, asked, demand_bps)
    safe_bps = policy.safe_bps()
    assert shares.keys() == bounds.keys()
    assert sum(shares.values()) <= policy.trusted_bps
    for name, share in shares.items():
        assert safe_bps[name] <= bounds[name].minimum_bps <= share <= bounds[name].maximum_bps


@given(cases())
def test_nothing_is_left_over_that_somebody_may_have(case: tuple[Policy, set[str], dict[str, int]]) -> None:
    policy, asked, demand_bps = case
    shares = allocate(policy, asked, demand_bps)
    wanting = [
        name for name, flow in flows(policy, asked, demand_bps).items() if shares[name] < flow.maximum_bps
    ]
    if wanting:
        assert policy.trusted_bps - sum(shares.values()) < len(shares)


@given(cases())
def test_nobody_could_be_raised_at_the_cost_of_one_who_has_more(
    case: tuple[Policy, set[str], dict[str, int]],
) -> None:
    """Max-min fairness by its definition: of two flows, one that may rise has no less for its weight than one
    that may sink; and none may sink below a higher priority that may rise."""
    policy, asked, demand_bps = case
    shares = allocate(policy, asked, demand_bps)
    bounds = flows(policy, asked, demand_bps)
    for poor, poors in bounds.items():
        for rich, richs in bounds.items():
            if shares[poor] == poors.maximum_bps or shares[rich] == richs.minimum_bps:
                continue
            assert poors.priority <= richs.priority
            if poors.priority == richs.priority:
                assert (shares[poor] + 1) / poors.weight > shares[rich] / richs.weight


@given(cases(), st.integers(1, 4), st.integers(1, 40))
def test_more_flows_take_none_below_its_minimum(
    case: tuple[Policy, set[str], dict[str, int]], hosts: int, percent: int
) -> None:
    policy, asked, demand_bps = case
    new = loads(
        f'name = "new"\nguarantee = "{policy.guarantee_bps}bit"\n'
        f'[class.new]\npriority = {PRIORITIES}\nminimum = "{percent}%"\n'
        + "".join(f'[[class.new.member]]\nhost = "h{host}"\nto = "10.0.0.1"\n' for host in range(hosts)),
        "p.toml",
    )
    more = msgspec.structs.replace(policy, classes=policy.classes + new.classes)
    minimum_bps = {name: flow.minimum_bps for name, flow in flows(policy, asked).items()}
    try:
        more.checked("p.toml")
    except HowdahError:
        assume(False)
    shares = allocate(more, asked, demand_bps)
    assert all(shares[name] >= minimum_bps[name] for name in minimum_bps)
    assert sum(shares[flow.id] for flow in new.flows) + hosts > new.classes[0].terms.minimum_bps


@given(cases())
def test_what_others_get_holds_while_a_class_is_asked_for_and_no_longer(
    case: tuple[Policy, set[str], dict[str, int]],
) -> None:
    policy, asked, demand_bps = case
    shares = allocate(policy, asked, demand_bps)
    for each in policy.classes:
        for name, change in each.others.items():
            other = next(other for other in policy.classes if other.name == name)
            if each.asked and each.name in asked and change.maximum_bps is not None:
                assert sum(shares[flow.id] for flow in other.flows) <= change.maximum_bps
    plain = msgspec.structs.replace(
        policy, classes=tuple(msgspec.structs.replace(each, others={}) for each in policy.classes)
    )
    assert allocate(policy, (), demand_bps) == allocate(plain, (), demand_bps)
    now = zip(plain.classes, policy.terms(asked), strict=True)
    written = msgspec.structs.replace(
        plain, classes=tuple(msgspec.structs.replace(each, terms=terms) for each, terms in now)
    )
    assert shares == allocate(written, asked, demand_bps)


@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_tables_does_not_matter(written: Tables, random: Random) -> None:
    shuffled = written.tables.copy()
    random.shuffle(shuffled)
    try:
        policy = written.policy()
    except HowdahError as error:
        with pytest.raises(HowdahError, match=f"^{re.escape(str(error))}$"):
            Tables(written.top, shuffled).policy()
        return
    other = Tables(written.top, shuffled).policy()
    asked = {each.name for each in policy.classes}
    assert allocate(other, asked) == allocate(policy, asked)
    assert allocate(other) == allocate(policy)
